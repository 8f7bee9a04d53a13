//! Pages arrive completely.

use crate::exchange::Response;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "page-cut",
    group: Group::Basics,
    severity: Severity::Broken,
    checks: "The HTML of a page arrives completely, and its content coding can be decoded.",
    matters: "A response that ends early is incomplete (RFC 9112 §8). Browsers report an error or show a \
              part of the page; HTTP libraries return no text.",
    hurts: "People and agents, who get a part of the page or only an error.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Compute `Content-Length` after compression, or leave it to the server. Compress in one \
                   place only, and look for time limits of the server and its proxies.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "Look for `an upstream response is buffered to a temporary file` and `Permission denied` \
                   in the error log: nginx cuts responses if it cannot write to `proxy_temp_path`.",
        },
    ],
    check,
};

/// Reports each page whose body is not whole, unless it is too long, or arrived completely but cannot be
/// decoded (`encoding-untrue`). Advice if other bytes follow a complete compressed body.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let response = page.response();
        // The rule `encoding-untrue` reports bodies that are declared as compressed but are not.
        if response.is_too_long() || response.is_encoding_untrue {
            continue;
        }
        let length = response.encoded_length;
        let (severity, fault) = match declared_length(response).filter(|declared| *declared > length) {
            // Report this only as advice: browsers ignore the extra bytes and show the whole page.
            _ if response.has_bytes_after_gzip => {
                (Severity::Advice, "is followed by bytes that are not gzip: remove them".to_owned())
            }
            _ if response.is_whole => continue,
            Some(declared) => {
                (Severity::Broken, format!("breaks off after {length} of {declared} bytes: send all of it"))
            }
            None => (Severity::Broken, format!("breaks off after {length} bytes: send all of it")),
        };
        findings.report_as(severity, &[&page.html], format!("The HTML {fault}"));
    }
}

fn declared_length(response: &Response) -> Option<usize> {
    response.header(http::header::CONTENT_LENGTH).parse().ok()
}
