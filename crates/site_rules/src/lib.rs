//! Reads `_redirects` and `_headers`, the files in which a build defines redirects and response headers.
//!
//! The dialects of Netlify and Cloudflare Pages have the same syntax, but differ in meaning. Netlify's
//! redirects default to 301, and files take precedence over them unless the status ends with `!`.
//! Cloudflare's redirects default to 302 and take precedence over files, but its rewrites (status 200) do
//! not.

pub mod content_origins;
pub mod content_security_policy;
pub mod headers_of_rewritten_paths;
pub mod page_paths;
pub mod path;
mod pattern;
pub mod robots_rules;
pub mod rule_files;
mod rule_index;

use std::borrow::Cow;

use form_urlencoded::parse as parse_query;
use http::{HeaderName, HeaderValue, StatusCode};

pub use self::pattern::RulesDialect;
use self::pattern::{Captures, Pattern, encode_links, encode_target, encode_url, fill_in, name_length};
use self::rule_index::RuleIndex;
use frontdesk_fault::Fault;

/// Maximum number of rules in a file, the same as Cloudflare's limit for `_redirects`.
const MAX_RULES: usize = 2_100;

/// Maximum length of a line in bytes, the same as Cloudflare's limit for `_redirects` and `_headers`.
const MAX_LINE: usize = 2_000;

/// Maximum length of a line of `_headers` in Netlify's dialect, in bytes. Netlify has no limit, but many
/// clients and proxies accept no larger header.
const MAX_NETLIFY_HEADER: usize = 16_384;

/// A list of rules in their original order, with an index by path.
#[derive(Debug, Clone)]
pub struct RuleList<R> {
    rules: Vec<R>,
    index: RuleIndex,
}

/// A rule that applies to the paths that match a pattern.
pub trait PathRule {
    fn pattern(&self) -> &Pattern;
}

impl<R: PathRule> RuleList<R> {
    pub fn new(rules: Vec<R>) -> Self {
        let index = RuleIndex::new(rules.iter().map(|rule| rule.pattern().whole_segments()));
        Self { rules, index }
    }

    pub fn all(&self) -> &[R] {
        &self.rules
    }

    pub fn into_vec(self) -> Vec<R> {
        self.rules
    }

    /// The rules that may match a decoded path, in their original order. Includes every rule that matches.
    pub fn candidates(&self, path: &str) -> impl Iterator<Item = &R> {
        self.index.candidates(path).into_iter().map(|position| &self.rules[position])
    }

    /// Like [`Self::candidates`], but for paths below `/api/` only the rules whose pattern begins with
    /// `/api`. Under a rule such as `/*`, a client of a form would get a page for an endpoint that does not
    /// exist.
    pub fn candidates_for_request(&self, path: &str) -> impl Iterator<Item = &R> {
        let is_api = path.starts_with("/api/");
        self.candidates(path).filter(move |rule| !is_api || rule.pattern().begins_with("api"))
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

/// A redirect, a rewrite (status 200) or a removed page (status 410), from `_redirects` or the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectRule {
    pattern: Pattern,
    /// The query parameters that a request must have.
    parameters: Vec<QueryParameter>,
    /// The pattern and the query parameters as they were written.
    from: String,
    /// The target: a path or a URL, percent-encoded, with placeholders.
    to: String,
    /// The status. With 200, the response is the page or file at the target; with 410, there is no target.
    pub status: StatusCode,
    /// Whether the rule takes precedence over a page or file at the path.
    pub is_forced: bool,
    /// The line in `_redirects`. `None` for a rule of the configuration.
    pub line: Option<usize>,
}

/// A query parameter that a rule requires. Its name and value are decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
struct QueryParameter {
    name: String,
    /// `Ok` with the name of the placeholder for the value, or `Err` with the value that is required.
    value: Result<String, String>,
}

impl RedirectRule {
    /// Creates a rule that applies to paths without a page or file, with and without a trailing slash. `from`
    /// may have placeholders, and end with `*`. Fails for an invalid pattern or target, and for a `status`
    /// other than 301, 302, 303, 307 and 308. The error completes a sentence whose subject is the rule.
    pub fn new(from: &str, to: &str, status: u16) -> Result<Self, &'static str> {
        let is_valid = matches!(status, 301..=303 | 307 | 308);
        let status = StatusCode::from_u16(status).ok().filter(|_| is_valid);
        let status = status.ok_or("has an invalid status: expected 301, 302, 303, 307 or 308")?;
        let pattern = Pattern::parse_prefix(from)?;
        let is_path = to.starts_with('/') && !to.starts_with("//");
        let is_url =
            ["https://", "http://"].iter().any(|scheme| to.len() > scheme.len() && to.starts_with(scheme));
        if !(is_path || is_url) || to.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(
                "has an invalid target: expected a path that begins with `/`, or an http or https URL",
            );
        }
        let (from, to) = (from.to_owned(), encode_target(to));
        Ok(Self { pattern, parameters: Vec::new(), from, to, status, is_forced: false, line: None })
    }

    /// Creates a rule for pages that were removed for good (status 410). It applies to the same paths as a
    /// rule from [`Self::new`].
    pub fn gone(from: &str) -> Result<Self, &'static str> {
        let pattern = Pattern::parse_prefix(from)?;
        let (parameters, from, to) = (Vec::new(), from.to_owned(), String::new());
        Ok(Self { pattern, parameters, from, to, status: StatusCode::GONE, is_forced: false, line: None })
    }

    pub fn is_gone(&self) -> bool {
        self.status == StatusCode::GONE
    }

    /// Whether the rule requires query parameters.
    pub fn has_parameters(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// Whether the target contains values from the path or the query.
    pub fn has_variable_target(&self) -> bool {
        self.to.split(':').skip(1).any(|after| self.has_value(&after[..name_length(after)]))
    }

    /// The [`placeholders`] in the target that have no value.
    fn unknown_placeholders(&self) -> Vec<&str> {
        placeholders(&self.to).filter(|name| !self.has_value(name)).collect()
    }

    /// Whether the path or the query gives a value to the placeholder `name`.
    fn has_value(&self, name: &str) -> bool {
        let mut parameters = self.parameters.iter();
        self.pattern.names().any(|known| known == name)
            || parameters.any(|parameter| parameter.value.as_ref().is_ok_and(|known| known == name))
    }

    /// The rule as a line of `_redirects`. Of forced rules, only those with query parameters get the `!`:
    /// others have replaced the site's entries at their paths, and Cloudflare rejects the `!`.
    pub fn to_line(&self) -> String {
        let forced = if self.is_forced && self.has_parameters() { "!" } else { "" };
        format!("{} {} {}{forced}", encode_spaced(&self.from), self.to, self.status.as_u16())
    }

    /// The decoded paths that a rule without placeholders and query parameters applies to; empty for other
    /// rules.
    pub fn literal_paths(&self) -> Vec<String> {
        if self.has_parameters() { Vec::new() } else { self.pattern.literal_paths() }
    }

    /// An example of a decoded path that the rule applies to.
    pub fn example(&self) -> String {
        self.pattern.example()
    }

    /// Whether the rule redirects all paths that match its placeholders to the same paths, which it matches
    /// too. The target may differ in a final slash.
    fn is_identity(&self) -> bool {
        let from = encode_url(&self.from.replace('*', ":splat"));
        from.trim_end_matches('/') == self.to.trim_end_matches('/')
            && self.status != StatusCode::OK
            && self.pattern.names().next().is_some()
            && self.pattern.captures(&self.to).is_some()
    }

    /// The target for a request with a decoded path and an encoded query; empty for the status 410. `None` if
    /// the rule does not apply. A target on this site begins with exactly one slash.
    ///
    /// The target of a rule with query parameters has the other parameters of the request, unless it has a
    /// query of its own.
    pub fn target(&self, path: &str, query: Option<&str>) -> Option<String> {
        let mut captures = self.pattern.captures(path)?;
        let others = self.match_query(query, &mut captures)?;
        let mut to = fill_in(&self.to, &captures);
        if !others.is_empty() && !to.contains('?') {
            let end = to.find('#').unwrap_or(to.len());
            to.insert_str(end, &format!("?{others}"));
        }
        // A captured value that begins with a slash must not turn the target into a URL on another host.
        Some(if to.starts_with("//") { format!("/{}", to.trim_start_matches('/')) } else { to })
    }

    /// Adds the values of the query parameters to `captures`, and returns the parameters that the rule does
    /// not name, encoded. `None` if a parameter is missing, or has another value. If a request repeats a
    /// parameter that the rule names, the first value counts, and the others are dropped. Empty for a rule
    /// without query parameters.
    fn match_query<'a>(&'a self, query: Option<&'a str>, captures: &mut Captures<'a>) -> Option<String> {
        let mut others = Vec::new();
        let mut found: Vec<(&QueryParameter, Cow<'a, str>)> = Vec::new();
        let pairs = query.filter(|_| self.has_parameters()).into_iter().flat_map(|query| query.split('&'));
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = parse_query(pair.as_bytes()).next() else { continue };
            match self.parameters.iter().find(|parameter| parameter.name == name) {
                // If the query repeats a parameter, only its first value counts.
                Some(parameter) if found.iter().any(|(known, _)| known.name == parameter.name) => {}
                Some(parameter) => found.push((parameter, value)),
                None => others.push(pair),
            }
        }
        if found.len() < self.parameters.len() {
            return None;
        }
        for (parameter, value) in found {
            match &parameter.value {
                Ok(name) => captures.push((name, value)),
                Err(expected) if *expected == value => {}
                Err(_) => return None,
            }
        }
        Some(others.join("&"))
    }
}

/// Percent-encodes words, but not the spaces between them.
fn encode_spaced(words: &str) -> String {
    words.split(' ').map(encode_url).collect::<Vec<_>>().join(" ")
}

/// The names of the placeholders in a target: those that follow one of the characters `/`, `=`, `-`, `_` and
/// `.`, and begin with a letter. Other names are text, unless the pattern has a placeholder with this name.
fn placeholders(to: &str) -> impl Iterator<Item = &str> {
    let at_colon = to.match_indices(':').filter(|(at, _)| to[..*at].ends_with(['/', '=', '-', '_', '.']));
    let names = at_colon.map(|(at, _)| &to[at + 1..][..name_length(&to[at + 1..])]);
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// A path pattern in `_headers` with its headers.
#[derive(Debug, Clone)]
pub struct HeaderRule {
    pattern: Pattern,
    /// The headers to set. `None` instead of a value removes the values that earlier rules have set, and some
    /// that the server would send ([`removes_header`]).
    headers: Vec<(HeaderName, Option<String>)>,
    dialect: RulesDialect,
}

impl HeaderRule {
    /// An example of a decoded path that the rule applies to.
    pub fn example(&self) -> String {
        self.pattern.example()
    }
}

/// The headers that the rules set for a decoded path, each name once: several values are joined with commas.
/// Leaves out a header whose joined value is invalid after its placeholders are filled in. In Netlify's
/// dialect, a later rule replaces the values of earlier ones. A rule that removes a header drops them.
pub fn headers_for(rules: &RuleList<HeaderRule>, path: &str) -> Vec<(HeaderName, HeaderValue)> {
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

/// Whether rules remove the header at a decoded path. The last matching rule that names the header decides.
pub fn removes_header(rules: &RuleList<HeaderRule>, path: &str, name: &HeaderName) -> bool {
    let matching = rules.candidates(path).filter(|rule| rule.pattern.captures(path).is_some());
    let last = matching.flat_map(|rule| &rule.headers).filter(|(known, _)| known == name).last();
    last.is_some_and(|(_, value)| value.is_none())
}

/// The lines of a file with their numbers, without empty lines and comments. Skips and reports lines of more
/// than `max` bytes.
fn rule_lines<'a>(
    text: &'a str,
    max: usize,
    file: &'a str,
    faults: &mut Vec<Fault>,
) -> Vec<(usize, &'a str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let mut lines: Vec<_> =
        lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#')).collect();
    lines.retain(|(number, line)| {
        if line.len() > max {
            let message = format!("the line is ignored: it is longer than {max} bytes");
            faults.push(Fault::warning(file, Some(*number), message));
        }
        line.len() <= max
    });
    lines
}

/// Reads `_redirects`. Reports and skips rules that are not supported, and those after the first 2,100. A
/// rule that restricts access is an error. Warns about placeholders without a value and, in Netlify's
/// dialect, about those that are a part of a segment, but keeps these rules.
pub fn parse_redirects(
    text: &str,
    dialect: RulesDialect,
    file: &str,
    faults: &mut Vec<Fault>,
) -> Vec<RedirectRule> {
    let mut rules = Vec::new();
    for (line, text) in rule_lines(text, MAX_LINE, file, faults) {
        match parse_redirect(text, dialect) {
            Ok(_) if rules.len() == MAX_RULES => {
                let message = format!(
                    "this rule and all later ones are ignored: the file has more than {MAX_RULES} rules"
                );
                faults.push(Fault::warning(file, Some(line), message));
                break;
            }
            Ok(rule) => {
                let mut warn = |message: String| faults.push(Fault::warning(file, Some(line), message));
                if let [name, ..] = rule.unknown_placeholders()[..] {
                    warn(format!(
                        "the target has the placeholder `:{name}`, which neither the path nor a query parameter has"
                    ));
                }
                if dialect == RulesDialect::Netlify && rule.pattern.has_partial_placeholder() {
                    let message = "a placeholder is only a part of a segment: the rule applies here, but Netlify may \
                                   expect whole segments";
                    warn(message.to_owned());
                }
                rules.push(RedirectRule { line: Some(line), ..rule });
            }
            Err(RuleProblem::Unsupported(why)) => {
                faults.push(Fault::warning(file, Some(line), format!("the rule is ignored: it {why}")));
            }
            Err(RuleProblem::Protects) => faults.push(protection_fault(file, line, "Role=")),
        }
    }
    rules
}

/// The reason a rule cannot be applied.
#[derive(Debug)]
enum RuleProblem {
    /// The rule is ignored for the given reason, such as `has no target`.
    Unsupported(&'static str),
    /// The rule restricts access, so it must not be ignored.
    Protects,
}

/// The error about a rule that restricts access with `what`.
fn protection_fault(file: &str, line: usize, what: &str) -> Fault {
    let message = format!("`{what}` restricts access to the page, which this server cannot enforce");
    Fault::error(file, Some(line), message)
        .hint("remove the page from the build, or this rule if the page may be public")
}

/// Whether `text` looks like a path (`/…`) or a URL (`https://…`). Does not check the host.
fn is_path_or_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    text.starts_with('/') || scheme.is_some_and(|scheme| scheme.bytes().all(|c| c.is_ascii_alphanumeric()))
}

/// Parses a line of `_redirects`: a path, query parameters, a target, a status and conditions. Ignores a word
/// that begins with `#`, and all words after it. The status defaults to 301 for Netlify and to 302 for
/// Cloudflare. Cloudflare's redirects are forced, but not its rewrites. Netlify's rules are forced if `!`
/// follows the status. Fails for rules that are not supported, such as proxies, rules with conditions, rules
/// for Netlify's functions, and redirects with placeholders back to the same path. The error for a role is
/// [`RuleProblem::Protects`].
fn parse_redirect(line: &str, dialect: RulesDialect) -> Result<RedirectRule, RuleProblem> {
    let unsupported = |why| Err(RuleProblem::Unsupported(why));
    let is_netlify = dialect == RulesDialect::Netlify;
    let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
    let Some((path, rest)) = words.split_first() else { return unsupported("has no path") };
    // Look only for a capital `R`: before the target, `role=` may be a query parameter.
    if rest.iter().any(|word| word.starts_with("Role=")) {
        return Err(RuleProblem::Protects);
    }
    let Some(at) = rest.iter().position(|word| is_path_or_url(word)) else {
        return unsupported("has no target");
    };
    let (parameters, [to, rest @ ..]) = rest.split_at(at) else { return unsupported("has no target") };
    // A target such as `//example.org/x` is on another host.
    let to = if to.starts_with("//") { format!("https:{to}") } else { (*to).to_owned() };
    if !parameters.is_empty() && !is_netlify {
        return unsupported(
            "depends on the query, which is supported only with `rules = \"netlify\"` in [site]",
        );
    }
    let from = [&[*path], parameters].concat().join(" ");
    let parameters: Option<Vec<_>> = parameters.iter().map(|word| parse_parameter(word)).collect();
    let Some(parameters) = parameters else {
        return unsupported("has a word before its target that is not a query parameter, such as `id=:id`");
    };
    let (status, conditions) = match rest {
        [word, conditions @ ..] if word.starts_with(|c: char| c.is_ascii_digit()) => {
            (Some(*word), conditions)
        }
        conditions => (None, conditions),
    };
    if conditions.iter().any(|word| word.to_ascii_lowercase().starts_with("role=")) {
        return Err(RuleProblem::Protects);
    }
    if !conditions.is_empty() {
        return unsupported("has a condition, such as a country or a language");
    }
    let status = status.unwrap_or(if is_netlify { "301" } else { "302" });
    let digits = status.strip_suffix('!').filter(|_| is_netlify);
    let is_forced = digits.is_some() || !is_netlify && status != "200";
    let status = match digits.unwrap_or(status) {
        "200" if to.contains("://") => return unsupported("is a proxy for another host"),
        "200" => StatusCode::OK,
        "301" => StatusCode::MOVED_PERMANENTLY,
        "302" => StatusCode::FOUND,
        "303" => StatusCode::SEE_OTHER,
        "307" => StatusCode::TEMPORARY_REDIRECT,
        "308" => StatusCode::PERMANENT_REDIRECT,
        _ => return unsupported("has a status other than 200, 301, 302, 303, 307 and 308"),
    };
    if to.starts_with("/.netlify/") {
        return unsupported("leads to a function or a service of Netlify");
    }
    let pattern = Pattern::parse(path, dialect).map_err(RuleProblem::Unsupported)?;
    if to.contains(char::is_control) {
        return unsupported("has a target with invalid characters");
    }
    let to = encode_target(&to);
    let rule = RedirectRule { pattern, parameters, from, to, status, is_forced, line: None };
    if rule.is_identity() {
        return unsupported("leads back to the same path");
    }
    Ok(rule)
}

/// Parses a query parameter such as `id=:id` or `page=2`. `None` without a name or a `=`.
fn parse_parameter(word: &str) -> Option<QueryParameter> {
    let (name, value) = parse_query(word.as_bytes()).next().filter(|_| word.contains('='))?;
    let placeholder = value.strip_prefix(':').filter(|name| !name.is_empty());
    let is_name = |name: &&str| name_length(name) == name.len();
    let value = placeholder.filter(is_name).map(str::to_owned).ok_or_else(|| value.clone().into_owned());
    (!name.is_empty()).then(|| QueryParameter { name: name.into_owned(), value })
}

/// Headers that rules cannot set, because the server controls them.
#[rustfmt::skip]
const COMPUTED: [&str; 14] = [
    "accept-ranges", "age", "connection", "content-encoding", "content-length", "content-location",
    "content-range", "date", "etag", "last-modified", "set-cookie", "strict-transport-security",
    "transfer-encoding", "vary",
];

/// Reads `_headers`: lines with a path, each followed by lines with its headers. As on both hosts,
/// indentation has no meaning. In Cloudflare's dialect, `! Name` removes a header. Reports and skips what is
/// not supported, headers without a value, and rules after the first 2,100 rules. Skips valid headers below a
/// skipped path without a report. `Basic-Auth` is an error, even there.
pub fn parse_headers(
    text: &str,
    dialect: RulesDialect,
    file: &str,
    faults: &mut Vec<Fault>,
) -> Vec<HeaderRule> {
    let mut rules: Vec<HeaderRule> = Vec::new();
    // Whether to skip header lines, because the path line above them was ignored.
    let mut is_skipped = false;
    let max = if dialect == RulesDialect::Netlify { MAX_NETLIFY_HEADER } else { MAX_LINE };
    for (line, text) in rule_lines(text, max, file, faults) {
        let mut warn = |message: String| faults.push(Fault::warning(file, Some(line), message));
        let text = text.trim();
        if is_path_or_url(text) {
            is_skipped = true;
            match Pattern::parse(text, dialect) {
                Ok(_) if rules.len() == MAX_RULES => {
                    warn(format!(
                        "this rule and all later ones are ignored: the file has more than {MAX_RULES} rules"
                    ));
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
        let removed = text.strip_prefix('!').filter(|_| dialect == RulesDialect::Cloudflare);
        let (name, value) = match (removed, text.split_once(':')) {
            (Some(name), _) => (name.trim(), None),
            (None, Some((name, value))) => (name.trim(), Some(value.trim().to_owned())),
            (None, None) => {
                // With `/` or `*`, it is probably a path without its slash: skip the headers below it.
                let is_path = text.contains(['/', '*']);
                is_skipped |= is_path;
                warn(if is_path {
                    "the line and the headers below it are ignored: a path must begin with `/`, and a header must be `Name: value`".to_owned()
                } else {
                    "the line is ignored: it is not a header such as `Name: value`".to_owned()
                });
                continue;
            }
        };
        if name.eq_ignore_ascii_case("basic-auth") {
            faults.push(protection_fault(file, line, "Basic-Auth"));
            continue;
        }
        let is_link = name.eq_ignore_ascii_case("link");
        let value = if is_link { value.as_deref().map(encode_links) } else { value };
        // `Link` must be ASCII, because it is joined with the page's own `Link`, which is ASCII.
        let fault = match value.as_deref() {
            Some("") => Some("its value is empty"),
            Some(value) if HeaderValue::from_str(value).is_err() => Some("its value has control characters"),
            Some(value) if is_link && !value.is_ascii() => Some("outside of `<…>`, it must be ASCII"),
            _ => None,
        };
        match (HeaderName::try_from(name), fault) {
            (Ok(header), _) if COMPUTED.contains(&header.as_str()) => {
                warn(format!("`{header}` is ignored: rules cannot set this header"));
            }
            (Ok(header), None) => match rules.last_mut() {
                _ if is_skipped => {}
                Some(rule) => rule.headers.push((header, value)),
                None => warn(format!("the header `{header}` is ignored: no path precedes it")),
            },
            (Ok(_), Some(fault)) => warn(format!("the header `{name}` is ignored: {fault}")),
            (Err(_), _) => warn(format!("the header `{name}` is ignored: this is not the name of a header")),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RulesDialect::{Cloudflare, Netlify};
    use super::*;

    #[test]
    fn a_redirect_has_one_of_five_statuses() {
        let is_valid = |status: &u16| RedirectRule::new("/a", "/b", *status).is_ok();
        let valid: Vec<u16> = (0..=1_000).filter(is_valid).collect();
        assert_eq!(valid, [301, 302, 303, 307, 308]);
    }

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
            ("\u{feff}/a /b", Netlify, "/a", Some("/b")),
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
            ("/posts/:slug.html /blog/:slug", Cloudflare, "/posts/a.html", Some("/blog/a")),
            ("/a /café/", Cloudflare, "/a", Some("/caf%C3%A9/")),
            ("/a //example.org/x", Cloudflare, "/a", Some("https://example.org/x")),
            ("/a/* //example.org/:splat", Netlify, "/a/b", Some("https://example.org/b")),
            ("/:x /find?q=:x&all", Cloudflare, "/a&b=c", Some("/find?q=a%26b%3Dc&all")),
            ("/a https://example.org:8443/x", Cloudflare, "/a", Some("https://example.org:8443/x")),
            (
                "/a https://münchen.example:8443/ß",
                Netlify,
                "/a",
                Some("https://xn--mnchen-3ya.example:8443/%C3%9F"),
            ),
            (
                "/a/* https://münchen.example/:splat",
                Netlify,
                "/a/b",
                Some("https://xn--mnchen-3ya.example/b"),
            ),
            (
                "/a https://example.org/?u=http://ü/",
                Netlify,
                "/a",
                Some("https://example.org/?u=http://%C3%BC/"),
            ),
        ] {
            assert_eq!(redirect(line, dialect).target(path, None).as_deref(), expected, "{line}: {path}");
        }
    }

    #[test]
    fn rules_depend_on_the_query() {
        for (line, query, expected) in [
            ("/a id=:id /x/:id", "id=5", Some("/x/5")),
            ("/a id=:id /x/:id", "utm=1&id=a%2Fb+c&y#", Some("/x/a/b%20c?utm=1&y#")),
            ("/a id=:id /x/:id?own", "id=5&b=1", Some("/x/5?own")),
            ("/a id=:id /x/#:id", "b=1&id=5", Some("/x/?b=1#5")),
            ("/a id=:id tag=:tag /:tag/:id", "tag=t&id=1&id=2", Some("/t/1")),
            ("/a id=:id tag=:tag /:tag/:id", "tag=t", None),
            ("/a page=2 /two", "page=2", Some("/two")),
            ("/a page=2 /two", "page=3", None),
            ("/a u=https://b /b", "u=https%3A%2F%2Fb", Some("/b")),
            ("/a id=:id /:id", "id=/example.org", Some("/example.org")),
            ("/a /b", "id=5", Some("/b")),
        ] {
            let rule = redirect(line, Netlify);
            assert_eq!(rule.target("/a", Some(query)).as_deref(), expected, "{line}: {query}");
            assert_eq!(rule.target("/a", None).is_some(), line == "/a /b", "{line}");
            assert_eq!(rule.literal_paths().is_empty(), line != "/a /b", "{line}");
            assert_eq!(rule.to_line(), format!("{line} 301"));
        }
        for (line, expected) in [("/a id=1 /b 302!", "/a id=1 /b 302!"), ("/a/* /b 302!", "/a/* /b 302")] {
            assert_eq!(redirect(line, Netlify).to_line(), expected);
        }
    }

    #[test]
    fn doubtful_rules_are_applied_with_a_warning() {
        for (line, expected) in [
            (
                "/a/:x /b/:y",
                "the target has the placeholder `:y`, which neither the path nor a query parameter has",
            ),
            ("/a/:x.html /b/:x", "a placeholder is only a part of a segment"),
        ] {
            let mut faults = Vec::new();
            assert_eq!(parse_redirects(line, Netlify, "_redirects", &mut faults).len(), 1);
            assert!(faults.len() == 1 && faults[0].message.starts_with(expected), "{line}: {faults:?}");
        }
        redirect("/a https://example.org:8443/wiki/Category:Birds?at=10:30", Netlify);
    }

    proptest! {
        #[test]
        fn the_index_finds_every_rule_that_applies(
            patterns in proptest::collection::vec("(/(a|b|:x|:y|a:z|:x-b)){1,4}(/[*]a?)?/?", 1..12),
            path in "(/(a|b|ab|)){1,5}/?",
            is_netlify in any::<bool>(),
        ) {
            let dialect = if is_netlify { Netlify } else { Cloudflare };
            let lines: Vec<String> = patterns.iter().map(|pattern| format!("{pattern} /to/")).collect();
            let rules = parse_redirects(&lines.join("\n"), dialect, "_redirects", &mut Vec::new());
            prop_assert_eq!(rules.len(), patterns.len());
            let rules = RuleList::new(rules);
            let found: Vec<_> = rules.candidates(&path).filter_map(|rule| rule.target(&path, None)).collect();
            let expected: Vec<_> = rules.all().iter().filter_map(|rule| rule.target(&path, None)).collect();
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
            ("/a id=:id /b", Cloudflare, "_redirects:2: the rule is ignored: it depends on the query"),
            (
                "/a?id=3 /b",
                Netlify,
                "_redirects:2: the rule is ignored: it has a query or a fragment in its path",
            ),
            (
                "/a#b /b",
                Cloudflare,
                "_redirects:2: the rule is ignored: it has a query or a fragment in its path",
            ),
            ("/a id /b", Netlify, "_redirects:2: the rule is ignored: it has a word before its target"),
            (
                "/a /.netlify/functions/b 200",
                Netlify,
                "_redirects:2: the rule is ignored: it leads to a function",
            ),
            ("/a/:x* /b", Cloudflare, "_redirects:2: the rule is ignored: it has a placeholder and `*`"),
            ("/a /b 302 Signed=KEY", Netlify, "_redirects:2: the rule is ignored: it has a condition"),
            ("/a /b 302 Country=de", Netlify, "_redirects:2: the rule is ignored: it has a condition"),
            ("/a https://api.example.org/ 200", Netlify, "_redirects:2: the rule is ignored: it is a proxy"),
            ("/a //api.example.org/ 200", Netlify, "_redirects:2: the rule is ignored: it is a proxy"),
            (
                "https://x.example/* /b",
                Netlify,
                "_redirects:2: the rule is ignored: it applies to another host",
            ),
            ("/a /b 404", Netlify, "_redirects:2: the rule is ignored: it has a status other"),
            ("/a /b 301!", Cloudflare, "_redirects:2: the rule is ignored: it has a status other"),
            ("/*/* /b", Cloudflare, "_redirects:2: the rule is ignored: it has more than one `*`"),
            ("/a /b 200! role=admin", Netlify, "_redirects:2: `Role=` restricts access to the page"),
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
        let name = HeaderName::from_static("x-a");
        for (text, path, expected) in [
            (&*detached, "/assets/x.css", true),
            (&detached, "/", false),
            ("/*\n  ! X-A\n/a\n  X-A: b\n", "/a", false),
            ("/*\n  ! X-A\n/a\n  X-A: b\n", "/b", true),
            ("/*\n  ! X-B\n", "/", false),
        ] {
            let rules = RuleList::new(parse_headers(text, Cloudflare, "_headers", &mut Vec::new()));
            assert_eq!(removes_header(&rules, path, &name), expected, "{text} {path}");
        }
        let linked = "/a/:name\n  Link: </:name.md>; rel=\"alternate\"\n";
        assert_eq!(headers(linked, Cloudflare, "/a/b"), ["link: </b.md>; rel=\"alternate\""]);
        let accented = "/*\n  Link: </café.css>; rel=preload, </b%20c>; title=\"<\"\n";
        let encoded = "link: </caf%C3%A9.css>; rel=preload, </b%20c>; title=\"<\"";
        assert_eq!(headers(accented, Netlify, "/"), [encoded]);
    }

    #[test]
    fn indentation_has_no_meaning_in_headers() {
        let own = "/*\n  X-A: 1\n  /b/*\n    X-B: 2\n";
        for (text, dialect) in [
            (own, Netlify),
            ("/*\nX-A: 1\n\n/b/*\nX-B: 2\n", Cloudflare),
            ("  # x\n  /*\n    X-A: 1\n  /b/*\n    X-B: 2\n", Netlify),
            ("/*\r\n\tX-A:1\r\n\t/b/*\r\n\tX-B:2\r\n", Cloudflare),
        ] {
            assert_eq!(headers(text, dialect, "/b/c"), ["x-a: 1", "x-b: 2"], "{text}");
            assert_eq!(headers(text, dialect, "/c"), ["x-a: 1"], "{text}");
        }
        // The headers of another host are not those of the path before it.
        let preview = "/*\n  X-A: https://a.example/\n  https://x.pages.dev/*\n    X-Robots-Tag: noindex\n";
        assert_eq!(headers(preview, Cloudflare, "/"), ["x-a: https://a.example/"]);
    }

    #[test]
    fn a_policy_with_many_hashes_applies_in_the_dialect_of_netlify() {
        for (dialect, max) in [(Cloudflare, 2_000), (Netlify, 16_384)] {
            for (length, warnings) in [(max, 0), (max + 1, 1)] {
                let line = format!("{:a<length$}", "X-A: ");
                let mut faults = Vec::new();
                let rules = parse_headers(&format!("/*\n{line}\n"), dialect, "_headers", &mut faults);
                assert_eq!(
                    (rules[0].headers.len(), faults.len()),
                    (1 - warnings, warnings),
                    "{dialect:?} {length}"
                );
            }
        }
    }

    #[test]
    fn headers_need_a_path() {
        for (text, expected) in [
            (
                "  X-A: 1\n/a\n  X-B: 1\n",
                &["_headers:1: the header `x-a` is ignored: no path precedes it"][..],
            ),
            // The headers of a rule that is ignored get no warning of their own.
            ("https://a/*\n  X-A: 1\n", &["_headers:1: the rule is ignored: it applies to another host"]),
        ] {
            let mut faults = Vec::new();
            parse_headers(text, Netlify, "_headers", &mut faults);
            assert_eq!(faults.len(), expected.len(), "{faults:?}");
            for (fault, expected) in faults.iter().zip(expected) {
                assert!(fault.to_string().starts_with(expected), "{fault}");
            }
        }
    }

    #[test]
    fn headers_that_the_server_computes_are_refused() {
        for (line, expected) in [
            ("  Content-Length: 1", "_headers:2: `content-length` is ignored"),
            ("  Basic-Auth: a:b", "_headers:2: `Basic-Auth` restricts access to the page"),
            ("  No colon", "_headers:2: the line is ignored: it is not a header"),
            ("  Bad name: x", "_headers:2: the header `Bad name` is ignored: this is not the name"),
            (
                "  Link: </a>; title=\"é\"",
                "_headers:2: the header `Link` is ignored: outside of `<…>`, it must be ASCII",
            ),
            (
                "  Content-Security-Policy:",
                "_headers:2: the header `Content-Security-Policy` is ignored: its value is empty",
            ),
            ("Unindented", "_headers:2: the line is ignored: it is not a header"),
            ("https://x.example/*", "_headers:2: the rule is ignored: it applies to another host"),
        ] {
            let mut faults = Vec::new();
            parse_headers(&format!("/*\n{line}"), Netlify, "_headers", &mut faults);
            assert!(faults.len() == 1 && faults[0].to_string().starts_with(expected), "{line}: {faults:?}");
        }
    }
}
