//! Reads the operator's `robots.txt`, because pages that crawlers must not fetch are not listed.

use std::borrow::Cow;

use crate::path::decode;

/// The rules of the group for all crawlers (RFC 9309 §2.2): patterns, and whether they allow a path. Empty if
/// they forbid the home page, as on sites that are not public yet: these would have no lists at all.
#[derive(Debug, Default)]
pub struct RobotsRules(Vec<(String, bool)>);

impl RobotsRules {
    /// Reads the rules for all crawlers in the text of a `robots.txt`. Ignores lines that are not valid.
    /// Empty if these rules forbid the home page.
    pub fn parse(text: &[u8]) -> Self {
        let mut rules = Self::default();
        let (mut applies, mut follows_name) = (false, false);
        for line in String::from_utf8_lossy(text).trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match &*key.trim().to_ascii_lowercase() {
                "user-agent" => {
                    applies = value == "*" || applies && follows_name;
                    follows_name = true;
                }
                key @ ("allow" | "disallow") => {
                    follows_name = false;
                    if applies && !value.is_empty() {
                        let pattern = decode(value).map_or_else(|_| value.to_owned(), Cow::into_owned);
                        rules.0.push((pattern, key == "allow"));
                    }
                }
                _ => {}
            }
        }
        if rules.forbids("/") { Self::default() } else { rules }
    }

    /// Whether crawlers must not fetch a decoded path. The longest matching pattern decides, and among those
    /// of equal length the one that allows the path.
    pub fn forbids(&self, path: &str) -> bool {
        self.decide(path, |_| true)
    }

    /// Whether a pattern without wildcards forbids the path of a page's file, such as `/secret.html`. Rules
    /// for `/index.html` and `/*.html` keep crawlers from second addresses of pages, not from the pages.
    pub fn forbids_file(&self, path: &str) -> bool {
        let is_index = ["/index.html", "/index.htm"].iter().any(|index| path.ends_with(index));
        !is_index && self.decide(path, |pattern| !pattern.contains(['*', '$']))
    }

    fn decide(&self, path: &str, counts: impl Fn(&str) -> bool) -> bool {
        let matching = self.0.iter().filter(|(pattern, _)| counts(pattern) && matches(pattern, path));
        matching.max_by_key(|(pattern, allows)| (pattern.len(), *allows)).is_some_and(|(_, allows)| !allows)
    }
}

/// Whether a path begins with a pattern. `*` matches any text, and a final `$` matches the path's end.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, is_whole) = pattern.strip_suffix('$').map_or((pattern, false), |pattern| (pattern, true));
    let mut parts = pattern.split('*').collect::<Vec<_>>();
    let Some(mut rest) = path.strip_prefix(parts.remove(0)) else { return false };
    let last = parts.pop_if(|_| is_whole);
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    last.map_or(!is_whole || rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_for_all_crawlers_decides() {
        for (text, path, expected) in [
            ("User-agent: *\nDisallow: /secret", "/secret.html", true),
            ("user-agent:*\ndisallow:/a # b\n", "/a/b", true),
            ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", false),
            ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", false),
            ("User-agent: *\nDisallow:", "/a", false),
            ("User-agent: *\nDisallow: /\n", "/a", false),
            ("User-agent: *\nDisallow: /\nAllow: /$", "/a", true),
            ("User-agent: GPTBot\nDisallow: /a\n\nUser-agent: *\nAllow: /", "/a", false),
            ("User-agent: *\nUser-agent: x\nDisallow: /a", "/a", true),
            ("User-agent: *\nAllow: /b\nUser-agent: x\nDisallow: /a", "/a", false),
            ("User-agent: *\nDisallow: /*/draft", "/x/y/drafts", true),
            ("User-agent: *\nDisallow: *.html$", "/x.html", true),
            ("User-agent: *\nDisallow: *.html$", "/x.html5", false),
            ("User-agent: *\nDisallow: /a$", "/a/", false),
            ("User-agent: *\nDisallow: /%C3%BC", "/ü", true),
            ("Disallow: /a", "/a", false),
            ("\u{feff}User-agent: *\nDisallow: /a", "/a", true),
        ] {
            assert_eq!(RobotsRules::parse(text.as_bytes()).forbids(path), expected, "{text}: {path}");
        }
    }

    #[test]
    fn rules_for_second_addresses_do_not_forbid_the_page() {
        for (rule, file, expected) in [
            ("/secret.html", "/secret.html", true),
            ("/index.html", "/index.html", false),
            ("/a/index.html", "/a/index.html", false),
            ("/*.html$", "/a.html", false),
            ("/*index.html$", "/a/index.html", false),
        ] {
            let rules = RobotsRules::parse(format!("User-agent: *\nDisallow: {rule}").as_bytes());
            assert_eq!(rules.forbids_file(file), expected, "{rule}: {file}");
        }
    }
}
