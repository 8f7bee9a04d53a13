//! Reads `_redirects` and `_headers`, the files in which a build defines redirects and response headers.
//!
//! The dialects of Netlify and Cloudflare Pages have the same syntax, but differ in meaning. Netlify's
//! redirects default to 301, and files take precedence over them unless the status ends with `!`.
//! Cloudflare's redirects default to 302 and take precedence over files.

use http::{HeaderName, HeaderValue, StatusCode};

use super::path;
use super::rule_index::RuleIndex;
use crate::fault::Fault;

/// The hosting service that a build's rules are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesDialect {
    Netlify,
    Cloudflare,
}

/// Maximum number of rules in a file, the same as Cloudflare's limit.
const MAX_RULES: usize = 2_100;

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 2_000;

/// Rules in their order, indexed by the paths that they apply to.
#[derive(Debug, Clone)]
pub(super) struct RuleList<R> {
    rules: Vec<R>,
    index: RuleIndex,
}

/// A rule that applies to the paths that match a pattern.
pub(super) trait PathRule {
    fn pattern(&self) -> &Pattern;
}

impl<R: PathRule> RuleList<R> {
    pub(super) fn new(rules: Vec<R>) -> Self {
        let patterns = rules.iter().map(|rule| (rule.pattern().start.as_str(), rule.pattern().end.is_some()));
        let index = RuleIndex::new(patterns);
        Self { rules, index }
    }

    pub(super) fn all(&self) -> &[R] {
        &self.rules
    }

    pub(super) fn into_vec(self) -> Vec<R> {
        self.rules
    }

    /// The rules that may apply to a decoded path, among them all that do, in their order.
    pub(super) fn candidates(&self, path: &str) -> impl Iterator<Item = &R> {
        self.index.candidates(path).into_iter().map(|position| &self.rules[position])
    }
}

impl<R> Default for RuleList<R> {
    fn default() -> Self {
        Self { rules: Vec::new(), index: RuleIndex::default() }
    }
}

impl PathRule for RedirectRule {
    fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

impl PathRule for HeaderRule {
    fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

/// A line of `_redirects`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectRule {
    pattern: Pattern,
    to: String,
    /// With 200, the response is the page or file at the target. With 410, there is no target.
    pub status: StatusCode,
    /// Whether the rule takes precedence over a page or file at the path.
    pub is_forced: bool,
}

impl RedirectRule {
    /// Creates a rule that applies to paths without a page or file, with and without a trailing slash. `from`
    /// may end with `*`. The error says what is wrong with the rule.
    pub fn new(from: &str, to: &str, status: u16) -> Result<Self, &'static str> {
        let status = StatusCode::from_u16(status).ok().filter(StatusCode::is_redirection);
        let status = status.ok_or("has an invalid status")?;
        let pattern = Pattern::parse_prefix(from)?;
        let is_path = to.starts_with('/') && !to.starts_with("//");
        let is_url =
            ["https://", "http://"].iter().any(|scheme| to.len() > scheme.len() && to.starts_with(scheme));
        if !(is_path || is_url) || to.contains(char::is_whitespace) || HeaderValue::from_str(to).is_err() {
            return Err(
                "has an invalid target: expected a path that begins with `/`, or an http or https URL",
            );
        }
        Ok(Self { pattern, to: to.to_owned(), status, is_forced: false })
    }

    /// Creates a rule for pages that were removed for good. It applies to the same paths as one with a
    /// target.
    pub fn gone(from: &str) -> Result<Self, &'static str> {
        let pattern = Pattern::parse_prefix(from)?;
        Ok(Self { pattern, to: String::new(), status: StatusCode::GONE, is_forced: false })
    }

    pub fn is_gone(&self) -> bool {
        self.status == StatusCode::GONE
    }

    /// The rule as a line of `_redirects`.
    pub fn to_line(&self) -> String {
        let end = self.pattern.end.as_deref().map(|end| format!("*{}", path::encode(end)));
        format!(
            "{}{} {} {}",
            path::encode(&self.pattern.start),
            end.unwrap_or_default(),
            self.to,
            self.status.as_u16()
        )
    }

    /// The decoded paths that a rule without placeholders applies to; empty for other rules.
    pub fn literal_paths(&self) -> Vec<String> {
        let Pattern { start, end, ignores_final_slash } = &self.pattern;
        let stem = start.strip_suffix('/').filter(|stem| !stem.is_empty()).unwrap_or(start);
        match ignores_final_slash {
            _ if end.is_some() || start.contains("/:") => Vec::new(),
            true if start != "/" => vec![stem.to_owned(), format!("{stem}/")],
            _ => vec![start.clone()],
        }
    }

    /// The target for a decoded path; empty for the status 410. `None` if the rule does not apply to the
    /// path.
    pub fn target(&self, path: &str) -> Option<String> {
        let captures = self.pattern.captures(path)?;
        let to = fill_in(&self.to, &captures);
        // A captured value that begins with a slash must not turn the target into a URL on another host.
        Some(if to.starts_with("//") { format!("/{}", to.trim_start_matches('/')) } else { to })
    }
}

/// A path pattern in `_headers` with its headers.
#[derive(Debug, Clone)]
pub(super) struct HeaderRule {
    pattern: Pattern,
    /// `None` removes the values that earlier rules have set.
    headers: Vec<(HeaderName, Option<String>)>,
    dialect: RulesDialect,
}

/// The headers that the rules set for a decoded path, each name once.
pub(super) fn headers_for(rules: &RuleList<HeaderRule>, path: &str) -> Vec<(HeaderName, HeaderValue)> {
    let mut found: Vec<(HeaderName, String)> = Vec::new();
    for rule in rules.candidates(path) {
        let Some(captures) = rule.pattern.captures(path) else { continue };
        // In Netlify's dialect, every header replaces the values that earlier rules have set.
        let replaces = |value: &Option<String>| value.is_none() || rule.dialect == RulesDialect::Netlify;
        found.retain(|(name, _)| !rule.headers.iter().any(|(new, value)| new == name && replaces(value)));
        for (name, value) in &rule.headers {
            let Some(value) = value.as_ref().map(|value| fill_in(value, &captures)) else { continue };
            match found.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = format!("{known}, {value}"),
                None => found.push((name.clone(), value)),
            }
        }
    }
    found.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?))).collect()
}

/// A path with placeholders: `:name` for a segment, and at most one `*` for any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The path before the `*`.
    start: String,
    /// The path after the `*`; `None` if the pattern has no `*`.
    end: Option<String>,
    ignores_final_slash: bool,
}

/// The values of a pattern's placeholders, by name. The name of `*` is `splat`.
type Captures<'a> = Vec<(&'a str, &'a str)>;

impl Pattern {
    fn parse(text: &str, dialect: RulesDialect) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            return Err("applies to another host or is not a path; paths begin with `/`");
        }
        if text.matches('*').count() > 1 {
            return Err("has more than one `*`");
        }
        let decoded = path::percent_decode(text).map_err(|_| "is not a valid path")?;
        let (start, end) = match decoded.split_once('*') {
            Some((start, end)) => (start.to_owned(), Some(end.to_owned())),
            None => (decoded, None),
        };
        Ok(Self { start, end, ignores_final_slash: dialect == RulesDialect::Netlify })
    }

    /// Parses a pattern that ignores a trailing slash and has no text after the `*`.
    fn parse_prefix(text: &str) -> Result<Self, &'static str> {
        let pattern = Self::parse(text, RulesDialect::Netlify)?;
        if pattern.end.as_ref().is_some_and(|end| !end.is_empty()) {
            return Err("has a `*` that is not at its end");
        }
        Ok(pattern)
    }

    /// The values of the placeholders in `path`. `None` if the path does not match.
    fn captures<'a>(&'a self, path: &'a str) -> Option<Captures<'a>> {
        let mut captures = Captures::new();
        let matches = |captures: &mut Captures<'a>, path| match &self.end {
            None => match_segments(&self.start, path, captures).filter(|rest| rest.is_empty()).map(drop),
            Some(end) => {
                let rest = match_segments(&self.start, path, captures)?;
                let splat = rest.strip_suffix(end.as_str())?;
                captures.push(("splat", splat));
                Some(())
            }
        };
        if matches(&mut captures, path).is_some() {
            return Some(captures);
        }
        let other = path.strip_suffix('/').filter(|_| self.ignores_final_slash && path.len() > 1);
        captures.clear();
        if let Some(other) = other
            && matches(&mut captures, other).is_some()
        {
            return Some(captures);
        }
        let start = self.start.strip_suffix('/').filter(|_| self.ignores_final_slash)?;
        captures.clear();
        let is_end = self.end.as_ref().is_none_or(String::is_empty);
        match_segments(start, path, &mut captures).filter(|rest| rest.is_empty() && is_end)?;
        captures.push(("splat", ""));
        Some(captures)
    }
}

/// Matches the beginning of `path` against a pattern without `*`, and returns the rest of the path.
fn match_segments<'a>(
    mut pattern: &'a str,
    mut path: &'a str,
    captures: &mut Captures<'a>,
) -> Option<&'a str> {
    while let Some((literal, after)) = pattern.split_once("/:") {
        path = path.strip_prefix(literal)?.strip_prefix('/')?;
        let (name, rest) = after.split_at(name_length(after));
        let (value, tail) = path.split_at(path.find('/').unwrap_or(path.len()));
        if value.is_empty() {
            return None;
        }
        captures.push((name, value));
        (pattern, path) = (rest, tail);
    }
    path.strip_prefix(pattern)
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Replaces `:name` in `text` with the captured values, percent-encoded.
fn fill_in(text: &str, captures: &Captures<'_>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(':') {
        filled.push_str(before);
        let (name, tail) = after.split_at(name_length(after));
        if let Some((_, value)) = captures.iter().find(|(known, _)| *known == name) {
            filled.push_str(&path::encode(value));
        } else {
            filled.push(':');
            filled.push_str(name);
        }
        rest = tail;
    }
    filled + rest
}

/// The lines of a file with their numbers, without empty lines and comments. Skips and reports lines that are
/// too long.
fn rule_lines<'a>(text: &'a str, file: &'a str, faults: &mut Vec<Fault>) -> Vec<(usize, &'a str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let mut lines: Vec<_> =
        lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#')).collect();
    lines.retain(|(number, line)| {
        if line.len() > MAX_LINE {
            let message = format!("the line is ignored: it is longer than {MAX_LINE} bytes");
            faults.push(Fault::warning(file, Some(*number), message));
        }
        line.len() <= MAX_LINE
    });
    lines
}

pub(super) fn parse_redirects(
    text: &str,
    dialect: RulesDialect,
    file: &str,
    faults: &mut Vec<Fault>,
) -> Vec<RedirectRule> {
    let mut rules = Vec::new();
    for (line, text) in rule_lines(text, file, faults) {
        match parse_redirect(text, dialect) {
            Ok(_) if rules.len() == MAX_RULES => {
                let message = format!("this and later rules are ignored: there are more than {MAX_RULES}");
                faults.push(Fault::warning(file, Some(line), message));
                break;
            }
            Ok(rule) => rules.push(rule),
            Err(RuleProblem::Unsupported(why)) => {
                faults.push(Fault::warning(file, Some(line), format!("the rule is ignored: it {why}")));
            }
            Err(RuleProblem::Protects) => faults.push(protection_fault(file, line, "Role=")),
        }
    }
    rules
}

/// The reason a rule cannot be followed.
#[derive(Debug)]
enum RuleProblem {
    Unsupported(&'static str),
    /// The rule restricts access, so it must not be ignored.
    Protects,
}

fn protection_fault(file: &str, line: usize, what: &str) -> Fault {
    let message = format!("`{what}` restricts access to the page, which this server cannot enforce");
    Fault::error(file, Some(line), message).hint("remove the page or the rule")
}

fn parse_redirect(line: &str, dialect: RulesDialect) -> Result<RedirectRule, RuleProblem> {
    let unsupported = |why| Err(RuleProblem::Unsupported(why));
    let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    let Some((from, rest)) = words.split_first() else { return unsupported("has no path") };
    let is_target = |word: &&str| word.starts_with('/') || word.contains("://");
    let Some(at) = rest.iter().position(is_target) else { return unsupported("has no target") };
    if rest.iter().any(|word| word.starts_with("Role=")) {
        return Err(RuleProblem::Protects);
    }
    if at > 0 {
        return unsupported("depends on the query");
    }
    let (status, conditions) = match rest.get(1) {
        Some(word) if word.starts_with(|c: char| c.is_ascii_digit()) => (Some(*word), &rest[2..]),
        _ => (None, &rest[1..]),
    };
    if !conditions.is_empty() {
        return unsupported("has a condition, such as a country or a language");
    }
    let is_netlify = dialect == RulesDialect::Netlify;
    let status = status.unwrap_or(if is_netlify { "301" } else { "302" });
    let digits = status.strip_suffix('!').filter(|_| is_netlify);
    let is_forced = digits.is_some() || !is_netlify && status != "200";
    let status = match digits.unwrap_or(status) {
        "200" if rest[0].contains("://") => return unsupported("is a proxy for another host"),
        "200" => StatusCode::OK,
        "301" => StatusCode::MOVED_PERMANENTLY,
        "302" => StatusCode::FOUND,
        "303" => StatusCode::SEE_OTHER,
        "307" => StatusCode::TEMPORARY_REDIRECT,
        "308" => StatusCode::PERMANENT_REDIRECT,
        _ => return unsupported("has a status other than 200, 301, 302, 303, 307 and 308"),
    };
    let pattern = Pattern::parse(from, dialect).map_err(RuleProblem::Unsupported)?;
    if HeaderValue::from_str(rest[0]).is_err() {
        return unsupported("has a target with invalid characters");
    }
    Ok(RedirectRule { pattern, to: rest[0].to_owned(), status, is_forced })
}

/// Headers that rules cannot set, because the server controls them.
const COMPUTED: [&str; 14] = [
    "accept-ranges",
    "age",
    "connection",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "date",
    "etag",
    "last-modified",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "vary",
];

/// Reads `_headers`: a path at the beginning of a line, and its headers on the indented lines below it.
pub(super) fn parse_headers(
    text: &str,
    dialect: RulesDialect,
    file: &str,
    faults: &mut Vec<Fault>,
) -> Vec<HeaderRule> {
    let mut rules: Vec<HeaderRule> = Vec::new();
    // Whether the headers that follow are skipped, because their path was ignored.
    let mut is_skipped = true;
    for (line, text) in rule_lines(text, file, faults) {
        let mut warn = |message: String| faults.push(Fault::warning(file, Some(line), message));
        if !text.starts_with([' ', '\t']) {
            is_skipped = true;
            match Pattern::parse(text.trim_end(), dialect) {
                Ok(_) if rules.len() == MAX_RULES => {
                    warn(format!("this and later rules are ignored: there are more than {MAX_RULES}"));
                    break;
                }
                Ok(pattern) => {
                    rules.push(HeaderRule { pattern, headers: Vec::new(), dialect });
                    is_skipped = false;
                }
                Err(why) => warn(format!("the rule is ignored: it {why}")),
            }
            continue;
        }
        let removed = text.trim().strip_prefix('!').filter(|_| dialect == RulesDialect::Cloudflare);
        let (name, value) = match (removed, text.split_once(':')) {
            (Some(name), _) => (name.trim(), None),
            (None, Some((name, value))) => (name.trim(), Some(value.trim().to_owned())),
            (None, None) => {
                warn("is not a header: expected `Name: value`".to_owned());
                continue;
            }
        };
        if name.eq_ignore_ascii_case("basic-auth") {
            faults.push(protection_fault(file, line, "Basic-Auth"));
            continue;
        }
        let is_valid = value.as_deref().is_none_or(|value| HeaderValue::from_str(value).is_ok());
        match HeaderName::try_from(name) {
            Ok(name) if COMPUTED.contains(&name.as_str()) => {
                warn(format!("`{name}` is ignored: rules cannot set this header"));
            }
            Ok(name) if is_valid => {
                if let Some(rule) = rules.last_mut().filter(|_| !is_skipped) {
                    rule.headers.push((name, value));
                }
            }
            _ => warn("is not a valid header".to_owned()),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RulesDialect::{Cloudflare, Netlify};
    use super::*;

    /// Parses a redirect rule from a line without faults.
    fn redirect(line: &str, dialect: RulesDialect) -> RedirectRule {
        let mut faults = Vec::new();
        let mut rules = parse_redirects(line, dialect, "_redirects", &mut faults);
        assert_eq!(faults, [], "{line}");
        rules.pop().expect("a rule")
    }

    #[test]
    fn paths_match_as_on_the_host() {
        for (line, dialect, path, expected) in [
            ("/a /b", Netlify, "/a", Some("/b")),
            ("/a /b", Netlify, "/a/", Some("/b")),
            ("/a/ /b", Netlify, "/a", Some("/b")),
            ("/a /b", Cloudflare, "/a/", None),
            ("/a /b", Netlify, "/ab", None),
            ("/blog/* /news/:splat", Netlify, "/blog/x/y", Some("/news/x/y")),
            ("/blog/* /news/:splat", Netlify, "/blog", Some("/news/")),
            ("/blog/* /news/:splat", Cloudflare, "/blog", None),
            ("/blog/*.php /news/:splat/", Cloudflare, "/blog/x.php", Some("/news/x/")),
            ("/:year/:title /blog/:title-:year", Netlify, "/2026/hello", Some("/blog/hello-2026")),
            ("/:year/:title /blog/:title", Netlify, "/2026", None),
            ("/:a/x /:a", Cloudflare, "/b/x", Some("/b")),
            ("/caf%C3%A9 /b", Cloudflare, "/café", Some("/b")),
            ("/a/* /:splat", Cloudflare, "/a//example.org", Some("/example.org")),
            ("/* https://example.org/:splat", Cloudflare, "/a b", Some("https://example.org/a%20b")),
            ("/a https://example.org:8443/x", Cloudflare, "/a", Some("https://example.org:8443/x")),
        ] {
            assert_eq!(redirect(line, dialect).target(path).as_deref(), expected, "{line}: {path}");
        }
    }

    proptest! {
        #[test]
        fn the_index_finds_every_rule_that_applies(
            patterns in proptest::collection::vec("(/(a|b|:x|:y|a:z|)){1,4}[*]?a?/?", 1..12),
            path in "(/(a|b|ab|)){1,5}/?",
            is_netlify in any::<bool>(),
        ) {
            let dialect = if is_netlify { Netlify } else { Cloudflare };
            let parse = |pattern: &String| redirect(&format!("{pattern} /to/:splat/:x"), dialect);
            let rules = RuleList::new(patterns.iter().map(parse).collect());
            let found: Vec<_> = rules.candidates(&path).filter_map(|rule| rule.target(&path)).collect();
            let expected: Vec<_> = rules.all().iter().filter_map(|rule| rule.target(&path)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn statuses_and_precedence_differ_by_dialect() {
        for (line, dialect, status, is_forced) in [
            ("/a /b", Netlify, 301, false),
            ("/a /b 302!  # comment", Netlify, 302, true),
            ("/a /b", Cloudflare, 302, true),
            ("/a /b 308", Cloudflare, 308, true),
            ("/* /index.html 200", Netlify, 200, false),
            ("/* /index.html 200", Cloudflare, 200, false),
        ] {
            let rule = redirect(line, dialect);
            assert_eq!((rule.status.as_u16(), rule.is_forced), (status, is_forced), "{line}");
        }
    }

    #[test]
    fn unsupported_rules_are_faults() {
        for (line, dialect, expected) in [
            ("/a", Netlify, "_redirects:2: the rule is ignored: it has no target"),
            ("/a id=:id /b", Netlify, "_redirects:2: the rule is ignored: it depends on the query"),
            ("/a /b 302 Country=de", Netlify, "_redirects:2: the rule is ignored: it has a condition"),
            ("/a https://api.example.org/ 200", Netlify, "_redirects:2: the rule is ignored: it is a proxy"),
            (
                "https://x.example/* /b",
                Netlify,
                "_redirects:2: the rule is ignored: it applies to another host",
            ),
            ("/a /b 404", Netlify, "_redirects:2: the rule is ignored: it has a status other"),
            ("/a /b 301!", Cloudflare, "_redirects:2: the rule is ignored: it has a status other"),
            ("/*/* /b", Cloudflare, "_redirects:2: the rule is ignored: it has more than one `*`"),
            ("/a /b 200! Role=admin", Netlify, "_redirects:2: `Role=` restricts access to the page"),
        ] {
            let mut faults = Vec::new();
            assert_eq!(parse_redirects(&format!("# x\n{line}"), dialect, "_redirects", &mut faults), []);
            assert!(faults.len() == 1 && faults[0].to_string().starts_with(expected), "{line}: {faults:?}");
        }
    }

    /// The headers for a path, as text.
    fn headers(text: &str, dialect: RulesDialect, path: &str) -> Vec<String> {
        let rules = RuleList::new(parse_headers(text, dialect, "_headers", &mut Vec::new()));
        let found = headers_for(&rules, path);
        found.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII"))).collect()
    }

    #[test]
    fn headers_of_several_rules_are_combined() {
        let text =
            "/*\n  Cache-Control: no-cache\n  X-A: 1\n  X-A: 2\n/assets/*\n  Cache-Control: max-age=60\n";
        assert_eq!(headers(text, Netlify, "/assets/x.css"), ["x-a: 1, 2", "cache-control: max-age=60"]);
        let both = ["cache-control: no-cache, max-age=60", "x-a: 1, 2"];
        assert_eq!(headers(text, Cloudflare, "/assets/x.css"), both);
        assert_eq!(headers(text, Netlify, "/x"), ["cache-control: no-cache", "x-a: 1, 2"]);
        let detached = format!("{text}  ! X-A\n");
        assert_eq!(headers(&detached, Cloudflare, "/assets/x.css"), ["cache-control: no-cache, max-age=60"]);
        let linked = "/a/:name\n  Link: </:name.md>; rel=\"alternate\"\n";
        assert_eq!(headers(linked, Cloudflare, "/a/b"), ["link: </b.md>; rel=\"alternate\""]);
    }

    #[test]
    fn headers_that_the_server_computes_are_refused() {
        for (line, expected) in [
            ("  Content-Length: 1", "_headers:2: `content-length` is ignored"),
            ("  Basic-Auth: a:b", "_headers:2: `Basic-Auth` restricts access to the page"),
            ("  No colon", "_headers:2: is not a header"),
            ("  Bad name: x", "_headers:2: is not a valid header"),
            ("https://x.example/*", "_headers:2: the rule is ignored: it applies to another host"),
        ] {
            let mut faults = Vec::new();
            parse_headers(&format!("/*\n{line}"), Netlify, "_headers", &mut faults);
            assert!(faults.len() == 1 && faults[0].to_string().starts_with(expected), "{line}: {faults:?}");
        }
    }
}
