//! Markdown beyond ASCII names its character encoding.

use super::shared::texts;
use crate::exchange::Representation;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "charset-missing",
    group: Group::Negotiation,
    severity: Severity::Advice,
    checks: "Markdown with non-ASCII characters declares its `charset`.",
    matters: "The media type requires the parameter (RFC 7763 §2). Without it, browsers guess and show `Ã¤` \
              instead of `ä`.",
    hurts: "People and agents, who may read damaged letters.",
    fixes: &[
        Fix { platform: Platform::Any, text: "Send `Content-Type: text/markdown; charset=utf-8`." },
        Fix {
            platform: Platform::Nginx,
            text: "`charset utf-8;` and `charset_types text/markdown text/plain;`, because the default list \
                   lacks Markdown.",
        },
        Fix { platform: Platform::Apache, text: "`AddCharset utf-8 .md`." },
    ],
    check,
};

/// Reports each decoded 200 response for a page or its twin ([`texts`]) that is declared as Markdown and has
/// non-ASCII characters, but whose `Content-Type` has no `charset`.
fn check(survey: &Survey, findings: &mut Findings) {
    for (exchange, response) in texts(survey) {
        let is_markdown = response.representation() == Representation::Markdown;
        if is_markdown && !response.body.is_ascii() && response.charset().is_none() {
            findings.report(
                &[exchange],
                format!(
                    "The Markdown has non-ASCII characters, but its media type `{}` lacks `charset=utf-8`",
                    response.header(http::header::CONTENT_TYPE)
                ),
            );
        }
    }
}
