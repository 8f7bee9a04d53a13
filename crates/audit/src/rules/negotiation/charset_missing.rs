//! Markdown beyond ASCII names its character encoding.

use super::shared::texts;
use crate::exchange::Representation;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "charset-missing",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "Markdown with characters beyond ASCII has a `charset`.",
    matters: "The type requires the parameter (RFC 7763 §2). Without it, browsers guess, and show `Ã¤` for \
              `ä`.",
    hurts: "People who open the Markdown, and agents that take another default than UTF-8.",
    fixes: &[
        Fix { platform: Platform::Any, text: "Send `Content-Type: text/markdown; charset=utf-8`." },
        Fix {
            platform: Platform::Nginx,
            text: "`charset utf-8;` and `charset_types text/markdown;`, since the default list lacks this \
                   type.",
        },
        Fix { platform: Platform::Apache, text: "`AddCharset utf-8 .md`." },
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for (exchange, response) in texts(survey) {
        let is_markdown = response.representation() == Representation::Markdown;
        if is_markdown && !response.body.is_ascii() && response.charset().is_none() {
            findings.report(
                &[exchange],
                format!(
                    "The Markdown has characters beyond ASCII, but `{}` has no `charset=utf-8`",
                    response.header(http::header::CONTENT_TYPE)
                ),
            );
        }
    }
}
