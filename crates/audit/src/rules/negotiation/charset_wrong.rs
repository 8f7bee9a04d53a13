//! The `charset` is that of the body.

use encoding_rs::Encoding;
use frontdesk_convert::declared_encoding;

use super::shared::texts;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "charset-wrong",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "A body that is declared as UTF-8 is UTF-8, and a UTF-8 body is not declared as another \
             encoding.",
    matters: "The `charset` of `Content-Type` decides, or else the declaration of an HTML page (RFC 9110 \
              §8.3.2, HTML §13.2.3.2): if it is untrue, non-ASCII letters are shown wrongly.",
    hurts: "People and agents, who read damaged text.",
    fixes: &[Fix { platform: Platform::Any, text: "Store all text as UTF-8 and send `charset=utf-8`." }],
    check,
};

/// Reports, among the decoded 200 responses for pages and their twins ([`texts`]), UTF-8 that is declared as
/// a charset whose name begins with `iso-8859` or `windows-125`, and other text that is declared as UTF-8.
/// ASCII text and other charsets are not judged. The declaration of an HTML page counts if its media type has
/// no `charset` and the body no byte order mark.
fn check(survey: &Survey, findings: &mut Findings) {
    for (exchange, response) in texts(survey).filter(|(_, response)| !response.body.is_ascii()) {
        let (place, charset) = match response.charset() {
            Some(charset) => ("`Content-Type`", charset),
            None if response.media_type() != "text/html" || Encoding::for_bom(&response.body).is_some() => {
                continue;
            }
            None => match declared_encoding(&response.body) {
                Some(encoding) => {
                    ("The page, as browsers read its declaration,", encoding.name().to_ascii_lowercase())
                }
                None => continue,
            },
        };
        // A truncated UTF-8 body may end within a character.
        let is_utf8 = std::str::from_utf8(&response.body)
            .map_or_else(|error| error.error_len().is_none() && !response.is_whole, |_| true);
        let says_utf8 = matches!(&*charset, "utf-8" | "utf8");
        if says_utf8 != is_utf8
            && (says_utf8 || charset.starts_with("iso-8859") || charset.starts_with("windows-125"))
        {
            let is = if is_utf8 { "UTF-8" } else { "not UTF-8" };
            findings.report(
                &[exchange],
                format!(
                    "{place} says `charset={charset}`, but the body is {is}: declare the encoding that it has"
                ),
            );
        }
    }
}
