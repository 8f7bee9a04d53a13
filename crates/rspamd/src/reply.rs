//! Reads rspamd's reply to a check.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Maximum number of rules that an opinion names.
const MAX_RULES: usize = 4;
const MAX_RULE_CHARS: usize = 40;
/// The maximum number of points to show. Larger numbers are shown as this number.
const MAX_POINTS: f64 = 9999.0;

/// The verdict of rspamd on a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    Clean,
    /// Contains the points and the names of the rules that added most, such as `rspamd: 9.2 of 15 points,
    /// RULE_A`. Has nothing that the visitor wrote.
    Spam(String),
}

/// rspamd's reply, without the members that are not used.
#[derive(Deserialize)]
struct Reply {
    action: String,
    score: f64,
    #[serde(default)]
    required_score: Option<f64>,
    #[serde(default)]
    symbols: BTreeMap<String, Symbol>,
}

#[derive(Deserialize)]
struct Symbol {
    #[serde(default)]
    score: f64,
}

/// Reads the body of a reply; `None` if it is not a reply of rspamd. Every action except `no action`,
/// `greylist` and `soft reject` counts as spam. Names at most [`MAX_RULES`] rules with positive scores, the
/// highest first, each cut to [`MAX_RULE_CHARS`], and none whose name could quote the visitor
/// ([`is_rule_name`]).
pub(crate) fn parse(body: &[u8]) -> Option<Opinion> {
    let reply: Reply = serde_json::from_slice(body).ok()?;
    // Greylisting and `soft reject` (rate limits) only delay a message, and do not judge its content.
    if matches!(&*reply.action, "no action" | "greylist" | "soft reject") {
        return Some(Opinion::Clean);
    }
    let mut rules: Vec<(&str, f64)> =
        reply.symbols.iter().map(|(name, symbol)| (&**name, symbol.score)).collect();
    rules.retain(|(name, score)| *score > 0.0 && is_rule_name(name));
    rules.sort_by(|(one, more), (other, less)| less.total_cmp(more).then(one.cmp(other)));
    let mut text = format!("rspamd: {}", show_points(reply.score));
    if let Some(required) = reply.required_score {
        text.push_str(&format!(" of {}", show_points(required)));
    }
    text.push_str(" points");
    for (name, _) in rules.iter().take(MAX_RULES) {
        text.push_str(", ");
        text.push_str(&name[..name.len().min(MAX_RULE_CHARS)]);
    }
    Some(Opinion::Spam(text))
}

/// Whether a name consists of ASCII letters, digits, `_`, `-` and `.`, as names of rules do. Other names may
/// quote the visitor.
fn is_rule_name(name: &str) -> bool {
    let is_permitted = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && name.bytes().all(is_permitted)
}

/// Formats points with one decimal place, except `.0`. Limits them to plus or minus [`MAX_POINTS`].
fn show_points(points: f64) -> String {
    let text = format!("{:.1}", points.clamp(-MAX_POINTS, MAX_POINTS));
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_against_the_mail_is_spam() {
        for action in ["add header", "rewrite subject", "reject", "quarantine", "discard"] {
            check(&format!(r#"{{"action": "{action}", "score": 9.2}}"#), Some("rspamd: 9.2 points"));
        }
        for action in ["no action", "greylist", "soft reject"] {
            check(&format!(r#"{{"action": "{action}", "score": 9.2}}"#), Some(""));
        }
    }

    #[test]
    fn the_rules_with_most_points_are_named() {
        let symbols = r#"{"B": {"score": 2}, "A": {"score": 2.0, "options": ["ada@example.com"]}, "GOOD": {"score": -3},
            "ZERO": {"score": 0}, "MOST": {"score": 5.5}, "LEAST": {"score": 0.5}, "LAST": {"score": 0.1}, "NONE": {}}"#;
        check(
            &format!(
                r#"{{"action": "reject", "score": 15.04, "required_score": 15.0, "symbols": {symbols}}}"#
            ),
            Some("rspamd: 15 of 15 points, MOST, A, B, LEAST"),
        );
    }

    #[test]
    fn only_names_of_rules_are_shown() {
        let long = "R".repeat(100);
        let symbols = format!(
            r#"{{"ada@example.com": {{"score": 9}}, "a b": {{"score": 9}}, "ä": {{"score": 9}}, "": {{"score": 9}},
               "x\n": {{"score": 9}}, "{long}": {{"score": 1}}}}"#
        );
        check(
            &format!(
                r#"{{"action": "reject", "score": 1e300, "required_score": -1e300, "symbols": {symbols}}}"#
            ),
            Some(&format!("rspamd: 9999 of -9999 points, {}", "R".repeat(MAX_RULE_CHARS))),
        );
    }

    #[test]
    fn anything_else_is_not_a_reply() {
        for body in [
            "",
            "pong",
            "{}",
            "[]",
            "null",
            r#"{"action": "reject"}"#,
            r#"{"score": 1}"#,
            r#"{"action": 1, "score": 1}"#,
            r#"{"action": "reject", "score": "9"}"#,
            r#"{"action": "reject", "score": 9, "symbols": []}"#,
            r#"{"action": "reject", "score": 9"#,
            r#"{"action": "reject", "score": 1e999}"#,
            &format!("{}{}", r#"{"action": "reject", "score": 9, "x": "#, "[".repeat(10_000)),
        ] {
            check(body, None);
        }
    }

    /// Parses a body. An expected empty text stands for a clean submission.
    fn check(body: &str, expected: Option<&str>) {
        let expected = expected.map(|text| match text {
            "" => Opinion::Clean,
            text => Opinion::Spam(text.to_owned()),
        });
        assert_eq!(parse(body.as_bytes()), expected, "{body}");
    }
}
