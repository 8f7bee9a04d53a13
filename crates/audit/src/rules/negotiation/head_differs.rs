//! HEAD has the header of GET.

use http::header::{CONTENT_LENGTH, ETAG};

use crate::exchange::Exchange;
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "head-differs",
    group: Group::Negotiation,
    severity: Severity::Broken,
    checks: "HEAD gets the status, media type and length that GET gets with the same `Accept`.",
    matters: "HEAD is GET without the content (RFC 9110 §9.3.2), and every general-purpose server must \
              support it (§9.1). Link checkers, link previews and caches rely on it.",
    hurts: "Link checkers, which report a dead page; agents, which read the wrong media type.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Handle HEAD like GET, and omit the body. If the length is unknown, omit `Content-Length`.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let caches = &survey.caches;
    let Some(page) = survey.basis.pages.get(caches.page) else { return };
    let pairs = [(&caches.head_html, Some(&page.html)), (&caches.head_markdown, page.agent.as_ref())];
    for (head, get) in pairs {
        let (Some(head), Some(get)) = (head, get) else { continue };
        if let Some(difference) = difference(head, get) {
            findings.report(&[head, get], difference);
        }
    }
}

/// The most important difference, as a sentence.
fn difference(head: &Exchange, get: &Exchange) -> Option<String> {
    let (head, get) = (head.response()?, get.success()?);
    if head.status != get.status {
        // The server may have begun to refuse requests.
        let is_busy = matches!(head.status.as_u16(), 429 | 503);
        return (!is_busy).then(|| {
            format!("HEAD gets {}, but GET gets {}: both must get the same", head.status, get.status)
        });
    }
    let (own, expected) = (head.media_type(), get.media_type());
    // A server may omit fields that it only knows with the content.
    if own != expected && !own.is_empty() {
        return Some(format!(
            "HEAD gets the media type `{own}`, but GET gets `{expected}`: both must get the same"
        ));
    }
    let length = head.header(CONTENT_LENGTH).parse::<usize>().ok()?;
    let is_same = !get.header(ETAG).is_empty() && head.header(ETAG) == get.header(ETAG);
    let is_comparable = is_same && head.encoding() == get.encoding() && get.is_whole;
    let is_wrong = length == 0 && get.encoded_length > 0 || is_comparable && length != get.encoded_length;
    is_wrong.then(|| {
        format!(
            "HEAD gets `Content-Length: {length}`, but GET gets {} bytes: send the right length or none",
            get.encoded_length
        )
    })
}
