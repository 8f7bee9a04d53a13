//! Pages declare their character encoding.

use encoding_rs::Encoding;
use frontdesk_convert::{HtmlTree, Selector};

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
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

/// The elements that declare the encoding of a page (HTML §4.2.5.4).
const DECLARATION: &str = "meta[charset], meta[http-equiv=content-type i][content*=charset i]";

/// Reports each page without a `charset`, a byte order mark, or a `<meta>` that declares the encoding within
/// the first 1,024 bytes. Broken if such a page declares none later, either, and has non-ASCII characters.
/// Does not check whether the encoding is known.
fn check(survey: &Survey, findings: &mut Findings) {
    let declaration = Selector::parse(DECLARATION).unwrap_or_else(|error| unreachable!("{error}"));
    for page in &survey.first_requests.pages {
        let response = page.response();
        let has_mark = Encoding::for_bom(&response.body).is_some();
        let start = String::from_utf8_lossy(&response.body[..response.body.len().min(1024)]);
        let is_declared = || !HtmlTree::parse(&start).all(&declaration).is_empty();
        if response.charset().is_some() || has_mark || is_declared() {
            continue;
        }
        if !page.select(DECLARATION).is_empty() {
            findings.report(
                &[&page.html],
                "The page declares its encoding only after the first 1,024 bytes: declare it earlier, or in \
                 `Content-Type`",
            );
        } else if response.body.is_ascii() {
            findings.report(&[&page.html], "The page declares no character encoding: send `charset=utf-8`");
        } else {
            let message = "The page has non-ASCII characters, but declares no encoding: send `charset=utf-8`";
            findings.report_as(Severity::Broken, &[&page.html], message);
        }
    }
}
