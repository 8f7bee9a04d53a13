//! HEAD has the header of GET.

use std::sync::Arc;

use http::Method;
use http::header::{ACCEPT, CONTENT_LENGTH, ETAG};

use crate::cache_status::cache_evidence;
use crate::client_profiles::CHROME;
use crate::exchange::{Exchange, Representation, Response};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
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

/// Compares HEAD with all GET requests of the same URL with the same fields. Reports the difference from the
/// last of them, but only if HEAD differs from each. Not applied if a cache took part or mixed up the
/// representations.
fn check(survey: &Survey, findings: &mut Findings) {
    let caches = &survey.caches;
    if is_mixed_up(survey) {
        return;
    }
    for head in [&caches.head_html, &caches.head_markdown].into_iter().flatten() {
        let is_same = |get: &&Arc<Exchange>| {
            get.request.method == Method::GET
                && get.url() == head.url()
                && get.request.headers == head.request.headers
        };
        let gets: Vec<_> = survey.exchanges.iter().filter(is_same).collect();
        let mut responses = gets.iter().copied().chain([head]).filter_map(|exchange| exchange.response());
        if responses.any(|response| cache_evidence(response).is_some()) {
            continue;
        }
        // The page may change between two requests: report only if HEAD differs from all GET responses.
        let differences: Option<Vec<_>> = gets.iter().map(|get| difference(head, get)).collect();
        if let Some((severity, message)) = differences.and_then(|mut found| found.pop())
            && let Some(get) = gets.last()
        {
            findings.report_as(severity, &[head, get], message);
        }
    }
}

/// Whether a browser got Markdown or an agent got HTML on a site that negotiates, probably from a cache.
/// Other rules report that.
fn is_mixed_up(survey: &Survey) -> bool {
    let caches = &survey.caches;
    let mut sequences =
        [&caches.agent_first, &caches.browser_first, &caches.at_page_url].into_iter().flatten();
    let is_wrong = |exchange: &Arc<Exchange>| {
        let wrong_for = match exchange.success().map(Response::representation) {
            Some(Representation::Html) => survey.first_requests.agent.accept,
            Some(Representation::Markdown) => CHROME.accept,
            _ => return false,
        };
        exchange.request.headers.iter().any(|(name, value)| name == ACCEPT && value == wrong_for)
    };
    caches.negotiates() && sequences.any(is_wrong)
}

/// The most important difference between HEAD and GET, as a sentence: the status, the type or else the
/// length. A type that HEAD omits does not count, and a length only if HEAD has no content coding, and has
/// the length 0 or the `ETag` of GET. A length, and the status 405 or 501, are advice. `None` also for a busy
/// server (429, 503), and unless GET has status 200.
fn difference(head: &Exchange, get: &Exchange) -> Option<(Severity, String)> {
    let (head, get) = (head.response()?, get.success()?);
    if head.status != get.status {
        // Skip 429 and 503: a busy server may refuse HEAD after it has served GET.
        let is_busy = matches!(head.status.as_u16(), 429 | 503);
        // Report 405 and 501 only as advice: link checkers then repeat the request with GET.
        let is_unknown = matches!(head.status.as_u16(), 405 | 501);
        let severity = if is_unknown { Severity::Advice } else { Severity::Broken };
        return (!is_busy).then(|| {
            (
                severity,
                format!("HEAD gets {}, but GET gets {}: return the same status", head.status, get.status),
            )
        });
    }
    let (own, expected) = (head.media_type(), get.media_type());
    // HEAD may omit fields whose value depends on the content.
    if own != expected && !own.is_empty() {
        return Some((
            Severity::Broken,
            format!("HEAD gets the type `{own}`, but GET gets `{expected}`: send the same type"),
        ));
    }
    let length = head.header(CONTENT_LENGTH).parse::<usize>().ok()?;
    // Do not compare lengths: a server that compresses on the fly cannot know the length for HEAD.
    if !head.encoding().is_empty() {
        return None;
    }
    let is_same = !get.header(ETAG).is_empty() && head.header(ETAG) == get.header(ETAG);
    let is_comparable = is_same && get.encoding().is_empty() && get.is_whole;
    let is_wrong = length == 0 && get.encoded_length > 0 || is_comparable && length != get.encoded_length;
    let message = format!(
        "HEAD gets `Content-Length: {length}`, but GET gets {} bytes: send the length of GET, or none",
        get.encoded_length
    );
    is_wrong.then_some((Severity::Advice, message))
}
