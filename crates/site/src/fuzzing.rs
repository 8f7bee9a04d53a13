//! Entry points for the fuzz targets of parsers that are private. They panic if a result is wrong. Release
//! builds do not contain them.

#![expect(clippy::missing_panics_doc, reason = "each function panics if a result is wrong")]

use super::rules::{RedirectRule, RuleList, RulesDialect, headers_for, parse_headers, parse_redirects};

/// Reads `text` as `_redirects` and as `_headers`, and applies the rules to its first line as the path and as
/// the query. Panics if the index misses a rule that applies, or if a rule leads to `//`, another host.
pub fn read_rules(text: &str) {
    let path = text.lines().next().unwrap_or_default();
    for dialect in [RulesDialect::Netlify, RulesDialect::Cloudflare] {
        let rules = RuleList::new(parse_redirects(text, dialect, "_redirects", &mut Vec::new()));
        let applying = |rule: &&RedirectRule| rule.target(path, Some(path)).is_some();
        let all: Vec<&RedirectRule> = rules.all().iter().filter(applying).collect();
        let found: Vec<&RedirectRule> = rules.candidates(path).filter(applying).collect();
        assert_eq!(found, all, "the index finds the rules that apply to {path:?}");
        for rule in all {
            let target = rule.target(path, Some(path)).unwrap_or_default();
            assert!(!target.starts_with("//"), "a path leads to another host: {target}");
            rule.to_line();
        }
        headers_for(&RuleList::new(parse_headers(text, dialect, "_headers", &mut Vec::new())), path);
    }
}
