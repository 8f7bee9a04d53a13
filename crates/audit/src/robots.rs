//! Reads `robots.txt` (RFC 9309).

use frontdesk_convert::Url;

/// Maximum number of bytes that are read. RFC 9309 §2.5 requires at least 500 KiB.
const MAX_BYTES: usize = 500 * 1024;

/// Maximum number of groups that are read. The next constants limit the lines of one group.
const MAX_GROUPS: usize = 1_000;
const MAX_AGENTS: usize = 500;
const MAX_RULES: usize = 1_000;
const MAX_FIELDS: usize = 100;

/// The groups and sitemaps of a `robots.txt`, and the lines that crawlers skip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    groups: Vec<RobotsGroup>,
    /// The URLs in `Sitemap` lines, as written.
    pub sitemaps: Vec<String>,
    /// The numbers of the lines that are not a field, a comment or blank.
    pub faulty_lines: Vec<usize>,
    /// The numbers of `Allow` and `Disallow` lines that crawlers skip, because no `User-agent` precedes them.
    pub stray_lines: Vec<usize>,
}

/// One group: consecutive lines that apply to the same crawlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RobotsGroup {
    /// Product tokens of crawlers in lower case, or `*`.
    pub agents: Vec<String>,
    /// Path patterns, with `true` for `Allow` and `false` for `Disallow`.
    rules: Vec<(bool, PathPattern)>,
    /// Other fields of the group, such as `content-signal`: names in lower case, and values.
    pub fields: Vec<(String, String)>,
}

impl Robots {
    /// Parses a file up to the limits above: ignores all text after [`MAX_BYTES`] or [`MAX_GROUPS`], and in a
    /// group the crawlers, rules and fields beyond their limits. Skips faulty lines, as crawlers do. Reads
    /// only the part of a `User-agent` before `/`.
    pub fn parse(text: &str) -> Robots {
        let mut robots = Robots::default();
        // Whether the last field other than `Sitemap` was `User-agent`: the next `User-agent` then belongs
        // to the same group.
        let mut is_naming = false;
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        // Lines end with CR, LF or both (RFC 9309 §2.2).
        let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
        for (index, line) in text.split(['\r', '\n']).enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let Some((name, value)) = line.split_once(':') else {
                robots.faulty_lines.push(index + 1);
                continue;
            };
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            match &*name {
                "user-agent" => {
                    if !is_naming {
                        if robots.groups.len() == MAX_GROUPS {
                            break;
                        }
                        robots.groups.push(RobotsGroup::default());
                    }
                    is_naming = true;
                    let token = value.split('/').next().unwrap_or_default().trim_end().to_ascii_lowercase();
                    if let Some(group) =
                        robots.groups.last_mut().filter(|group| group.agents.len() < MAX_AGENTS)
                    {
                        group.agents.push(token);
                    }
                }
                "sitemap" => robots.sitemaps.push(value.to_owned()),
                _ => {
                    is_naming = false;
                    // A field before the first group applies to no crawler, so it is skipped.
                    let Some(group) = robots.groups.last_mut() else {
                        let is_rule = matches!(&*name, "allow" | "disallow");
                        robots.stray_lines.extend(is_rule.then_some(index + 1));
                        continue;
                    };
                    match &*name {
                        // Skip empty patterns, which match no path.
                        "allow" | "disallow" if !value.is_empty() && group.rules.len() < MAX_RULES => {
                            group.rules.push((name == "allow", PathPattern::parse(value)));
                        }
                        "allow" | "disallow" => {}
                        _ if group.fields.len() < MAX_FIELDS => group.fields.push((name, value.to_owned())),
                        _ => {}
                    }
                }
            }
        }
        robots
    }

    /// The groups for a crawler: those that name exactly this product token, in any case, otherwise those for
    /// `*`.
    pub fn groups_for(&self, agent: &str) -> Vec<&RobotsGroup> {
        let agent = agent.to_ascii_lowercase();
        let named = |name: &str| -> Vec<_> {
            self.groups.iter().filter(|group| group.agents.iter().any(|agent| agent == name)).collect()
        };
        Some(named(&agent)).filter(|groups| !groups.is_empty()).unwrap_or_else(|| named("*"))
    }

    /// All groups, in the order of the file.
    pub fn groups(&self) -> &[RobotsGroup] {
        &self.groups
    }

    /// Whether a crawler may request the URL: the longest matching pattern decides, and `Allow` wins between
    /// equally long ones. A URL without a matching pattern is allowed. `/robots.txt` is always allowed (RFC
    /// 9309 §2.2.2).
    pub fn permits(&self, agent: &str, url: &Url) -> bool {
        let path =
            url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        if path == "/robots.txt" {
            return true;
        }
        let path = decode(&path);
        let groups = self.groups_for(agent);
        let rules = groups.iter().flat_map(|group| &group.rules);
        let matching = rules.filter(|(_, pattern)| pattern.is_match(&path));
        matching
            .max_by_key(|(is_allowed, pattern)| (pattern.length, *is_allowed))
            .is_none_or(|(is_allowed, _)| *is_allowed)
    }
}

/// Whether a pattern matches the start of a path. Both may be percent-encoded.
pub(crate) fn is_match(pattern: &str, path: &str) -> bool {
    PathPattern::parse(pattern).is_match(&decode(path))
}

/// Removes the percent-encoding of a path or of a part of a pattern: both sides may encode different
/// characters (RFC 9309 §2.2.2).
fn decode(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// A path pattern. `*` matches any characters, and a final `$` matches the end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PathPattern {
    /// The pattern without a final `$`, split at each `*` and then percent-decoded. Never empty.
    parts: Vec<String>,
    /// Whether the pattern ends with `$`.
    is_anchored: bool,
    /// The length of the percent-decoded pattern in bytes.
    length: usize,
}

impl PathPattern {
    /// Interprets `*` and `$` before decoding: `%2A` and `%24` stand for the characters themselves (RFC 9309
    /// §2.2.3).
    fn parse(pattern: &str) -> PathPattern {
        let (parts, is_anchored) = pattern.strip_suffix('$').map_or((pattern, false), |rest| (rest, true));
        let parts = parts.split('*').map(decode).collect();
        PathPattern { parts, is_anchored, length: decode(pattern).len() }
    }

    /// Whether the pattern matches the start of `path`, or all of `path` if the pattern ends with `$`. `path`
    /// must be percent-decoded.
    fn is_match(&self, path: &str) -> bool {
        let mut parts = self.parts.iter();
        let first = parts.next().and_then(|first| path.strip_prefix(first.as_str()));
        let Some(mut rest) = first else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return !self.is_anchored || rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() && self.is_anchored {
                return rest.ends_with(part);
            }
            // Take the earliest match, so that later parts can match as much of the path as possible.
            let Some(start) = rest.find(part) else { return false };
            rest = &rest[start + part.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pattern_of_the_named_group_decides() {
        let robots = Robots::parse(
            "\u{feff}# comment\nUser-agent: *\nDisallow: /\nContent-Signal: search=yes\n\nnonsense\n\
             User-Agent: GPTBot/1.0\nUser-agent: ClaudeBot /2.0\nDisallow: /private # secret\nAllow: /private/open$\n\
             Disallow: /*.pdf$\nDisallow: /über\rDisallow: /~foo\nDisallow:\nSitemap: https://example.com/sitemap.xml\n",
        );
        for (agent, path, expected) in [
            ("gptbot", "/", true),
            ("ClaudeBot", "/private/x", false),
            ("ClaudeBot", "/private/open", true),
            ("ClaudeBot", "/private/open/x", false),
            ("ClaudeBot", "/a/b.pdf", false),
            ("ClaudeBot", "/a/b.pdf?x", true),
            ("Googlebot", "/", false),
            ("Googlebot", "/robots.txt", true),
            ("ClaudeBot", "/%C3%BCber/x", false),
            ("ClaudeBot", "/%7Efoo", false),
        ] {
            let url = Url::parse("https://example.com").unwrap().join(path).unwrap();
            assert_eq!(robots.permits(agent, &url), expected, "{agent} {path}");
        }
        assert_eq!(robots.faulty_lines, [6]);
        assert_eq!(robots.sitemaps, ["https://example.com/sitemap.xml"]);
        let fields = &robots.groups_for("any")[0].fields;
        assert_eq!(fields[..], [("content-signal".to_owned(), "search=yes".to_owned())]);
    }

    #[test]
    fn rules_before_the_first_group_are_stray() {
        let robots = Robots::parse("Sitemap: /a.xml\nDisallow: /x\n\nUser-agent: *\nDisallow: /y\n");
        assert_eq!((robots.stray_lines, robots.groups.len()), (vec![2], 1));
    }

    #[test]
    fn encoded_stars_and_dollars_are_the_characters_themselves() {
        for (pattern, path, expected) in [
            ("/a%24", "/a$b", true),
            ("/a%24", "/a%24b", true),
            ("/a%24", "/a", false),
            ("/a%24$", "/a$", true),
            ("/a%24$", "/a$b", false),
            ("/a%2A", "/a*b", true),
            ("/a%2a", "/a%2Ab", true),
            ("/a%2A", "/ab", false),
            ("/a*", "/a%2A", true),
            ("/a$b", "/a%24b", true),
            ("/%7Efoo/*.pdf$", "/~foo/b%2Epdf", true),
        ] {
            assert_eq!(is_match(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn many_stars_take_linear_time() {
        let pattern = format!("/{}b", "*a".repeat(5_000));
        assert!(!is_match(&pattern, &format!("/{}", "a".repeat(100_000))));
    }
}
