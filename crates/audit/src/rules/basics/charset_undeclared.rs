//! Pages declare their character encoding.

use encoding_rs::Encoding;

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "charset-undeclared",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page says by `Content-Type` or in its first 1,024 bytes which encoding it has.",
    matters: "Otherwise browsers guess, and take UTF-8 for windows-1252: `Ã¤` for `ä` (HTML §4.2.5.4).",
    hurts: "People who read anything but English.",
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

fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.basis.pages {
        let response = page.response();
        let has_mark = Encoding::for_bom(&response.body).is_some();
        let start =
            String::from_utf8_lossy(&response.body[..response.body.len().min(1024)]).to_ascii_lowercase();
        if response.charset().is_some() || has_mark || start.contains("charset=") {
            continue;
        }
        let is_late = !page.select("meta[charset], meta[http-equiv=content-type i]").is_empty();
        if is_late {
            findings.report(&[&page.html], "The page declares its encoding after the first 1,024 bytes");
        } else if response.body.is_ascii() {
            findings.report(&[&page.html], "The page declares no character encoding");
        } else {
            let message =
                "The page has characters beyond ASCII and declares no encoding: browsers show them wrongly";
            findings.report_as(Severity::Broken, &[&page.html], message);
        }
    }
}
