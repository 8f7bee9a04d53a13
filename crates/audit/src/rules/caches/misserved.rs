//! Finds responses that a cache stored for one kind of client and served to the other.

use std::sync::Arc;

use crate::cache_status::cache_evidence;
use crate::clients::CLAUDE_CODE;
use crate::exchange::{Exchange, Representation, Response};
use crate::finding::Severity;
use crate::rule::Findings;
use crate::survey::Survey;

/// Whether the client of an exchange prefers Markdown.
pub(super) fn is_agent(exchange: &Exchange) -> bool {
    let mut headers = exchange.request.headers.iter();
    headers.any(|(name, value)| name == http::header::ACCEPT && value == CLAUDE_CODE.accept)
}

/// What the client of an exchange must get.
pub(super) fn wanted(exchange: &Exchange) -> Representation {
    if is_agent(exchange) { Representation::Markdown } else { Representation::Html }
}

/// Requests at one address, one after the other.
struct Sequence<'a> {
    exchanges: &'a [Arc<Exchange>],
    is_fresh: bool,
}

/// Reports the first sequence in which a client that wants `missed` got the representation of the other kind
/// of client, although the origin serves it right: to the first client at an unused address, or earlier at
/// the same one. One finding shows the defect; that at the page's own address, which visitors use, comes
/// first.
pub(super) fn report(survey: &Survey, missed: Representation, findings: &mut Findings) {
    let caches = &survey.caches;
    let is_right = |exchange: &&Arc<Exchange>| wanted(exchange) == missed && got(exchange) == Some(missed);
    let is_right_when_first = [&caches.agent_first, &caches.browser_first]
        .into_iter()
        .filter_map(|all| all.first())
        .any(|e| is_right(&e));
    let sequences = [
        Sequence { exchanges: &caches.in_turn, is_fresh: false },
        Sequence { exchanges: &caches.browser_first, is_fresh: true },
        Sequence { exchanges: &caches.agent_first, is_fresh: true },
    ];
    for Sequence { exchanges, is_fresh } in sequences {
        let is_wrong = |exchange: &Arc<Exchange>| {
            wanted(exchange) == missed
                && got(exchange).is_some_and(|got| got != missed && got != Representation::Other)
        };
        let Some(index) = exchanges.iter().skip(1).position(is_wrong).map(|index| index + 1) else {
            continue;
        };
        let Some(response) = exchanges[index].response() else { continue };
        let was_right = exchanges[..index].iter().any(|exchange| is_right(&exchange));
        if !was_right && !is_right_when_first {
            continue; // The origin does not negotiate there.
        }
        let is_certain = cache_evidence(response).is_some() || was_right || is_fresh;
        let severity = if is_certain { Severity::Broken } else { Severity::Advice };
        let evidence: Vec<_> = exchanges[..=index].iter().collect();
        findings.report_as(severity, &evidence, sentence(response, missed));
        return;
    }
}

fn got(exchange: &Exchange) -> Option<Representation> {
    exchange.success().map(Response::representation)
}

fn sentence(response: &Response, missed: Representation) -> String {
    let (client, other, got) = match missed {
        Representation::Markdown => ("An agent that prefers Markdown", "a browser", "HTML"),
        _ => ("A browser", "an agent", "Markdown"),
    };
    let cache = cache_evidence(response)
        .map_or_else(|| "no field shows which cache stored it".to_owned(), |field| format!("`{field}`"));
    let advice = if response.varies_on("accept") {
        "the response has `Vary: Accept`, which the cache ignores"
    } else {
        "the response lacks `Vary: Accept`, which the cache needs"
    };
    format!("{client} got {got} at an address that {other} had requested before ({cache}): {advice}")
}
