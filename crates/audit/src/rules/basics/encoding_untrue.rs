//! Bodies have the content coding that they declare.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "encoding-untrue",
    group: Group::Basics,
    severity: Severity::Broken,
    checks: "A body that is called gzip by `Content-Encoding` is gzip.",
    matters: "The field says how a client must decode the body (RFC 9110 §8.4). Browsers show an error in \
              place of the page, and other clients get no text.",
    hurts: "People and agents, who get no page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Set `Content-Encoding` where the body is compressed, not in a general list of fields. An \
               application that decodes the response of another server must not pass this field on.",
    }],
    check,
};

/// Reports one finding for all 200 responses whose body arrived completely and is said to be gzip, but cannot
/// be decoded to its end. Names the URL of the first: one setting of the server usually causes all.
fn check(survey: &Survey, findings: &mut Findings) {
    let untrue: Vec<_> = survey
        .exchanges
        .iter()
        .filter(|exchange| exchange.success().is_some_and(|response| response.is_encoding_untrue))
        .collect();
    if let Some(first) = untrue.first() {
        let count = untrue.len();
        let responses =
            if count == 1 { "1 response says".to_owned() } else { format!("{count} responses say") };
        let message = format!(
            "{responses} `Content-Encoding: gzip`, but the body cannot be decoded, starting with {}",
            first.url()
        );
        findings.report(&[first], message);
    }
}
