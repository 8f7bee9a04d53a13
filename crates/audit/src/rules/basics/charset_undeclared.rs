//! Pages declare their character encoding.

use encoding_rs::Encoding;
use frontdesk_convert::declared_encoding;

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "charset-undeclared",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page declares its encoding in `Content-Type` or in its first 1,024 bytes.",
    matters: "Otherwise browsers guess, and may read UTF-8 as windows-1252: `Ã¤` instead of `ä` (HTML \
              §4.2.5.4).",
    hurts: "People who read languages other than English, who see wrong letters.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `Content-Type: text/html; charset=utf-8`, or begin `<head>` with `<meta \
                   charset=\"utf-8\">`.",
        },
        Fix { platform: Platform::Nginx, text: "`charset utf-8;`" },
        Fix { platform: Platform::Apache, text: "`AddDefaultCharset utf-8`" },
    ],
    check,
};

/// Reports each page without a `charset`, a byte order mark, or a `<meta>` or XML declaration that names a
/// known encoding within the first 1,024 bytes. Broken if such a page declares none later, either, and has
/// non-ASCII characters. Skips XHTML, which is UTF-8 without a declaration, and does not check whether
/// `charset` is known.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let response = page.response();
        let body = &response.body;
        let is_known = response.charset().is_some() || response.media_type() == "application/xhtml+xml";
        if is_known
            || Encoding::for_bom(body).is_some()
            || declared_encoding(&body[..body.len().min(1024)]).is_some()
        {
            continue;
        }
        if declared_encoding(body).is_some() {
            findings.report(
                &[&page.html],
                "The page declares its encoding only after the first 1,024 bytes: declare it earlier, or in \
                 `Content-Type`",
            );
        } else if body.is_ascii() {
            findings.report(&[&page.html], "The page declares no known encoding: send `charset=utf-8`");
        } else {
            let message =
                "The page has non-ASCII characters, but declares no known encoding: send `charset=utf-8`";
            findings.report_as(Severity::Broken, &[&page.html], message);
        }
    }
}
