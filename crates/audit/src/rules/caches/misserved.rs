//! Finds responses that a cache stored for one kind of client and served to the other.

use std::sync::Arc;

use crate::cache_status::cache_evidence;
use crate::client_profiles::{CLAUDE_CODE, MARKDOWN_ONLY};
use crate::exchange::{Exchange, Representation, Response};
use crate::page::representation_of_page;
use crate::rule::{Findings, Severity};
use crate::survey::Survey;

/// Whether the client of an exchange prefers Markdown: it sends the `Accept` of [`CLAUDE_CODE`] or
/// [`MARKDOWN_ONLY`]. The survey of caches uses no other agent.
pub(super) fn is_agent(exchange: &Exchange) -> bool {
    let mut headers = exchange.request.headers.iter();
    headers.any(|(name, value)| {
        name == http::header::ACCEPT
            && [CLAUDE_CODE.accept, MARKDOWN_ONLY.accept].iter().any(|own| value == own)
    })
}

/// The representation that the client of an exchange must get: Markdown for an agent ([`is_agent`]), HTML for
/// any other client.
pub(super) fn wanted(exchange: &Exchange) -> Representation {
    if is_agent(exchange) { Representation::Markdown } else { Representation::Html }
}

/// Reports at most one sequence in which a client that wants `missed` got the representation for the other
/// kind of client, although an earlier response of the sequence, or the first one at a cache-busting URL,
/// shows that the origin has the right one. The finding is advice if only the latter shows that, the wrong
/// response came at a URL that was used before the audit, and no field shows a cache. Also notes as not
/// judged that the site refuses cache-busting URLs, or that a cache hides the negotiation.
pub(super) fn report(survey: &Survey, missed: Representation, findings: &mut Findings) {
    let caches = &survey.caches;
    if let Some(reason) = caches.cache_busting_refusal() {
        findings.not_judged(reason);
    } else if let Some(field) = hiding_cache(survey) {
        findings.not_judged(format!(
            "a cache hides the negotiation: it had HTML for an agent and a query that was never requested \
             (`{field}`)"
        ));
    }
    let is_right = |exchange: &Arc<Exchange>| wanted(exchange) == missed && got(exchange) == Some(missed);
    // The first request to each of the two cache-busting URLs: one by an agent, and one by a browser.
    let mut first_clients =
        [&caches.agent_first, &caches.browser_first].into_iter().filter_map(|all| all.first());
    let is_right_when_first = first_clients.any(is_right);
    let is_wrong = |exchange: &Arc<Exchange>| {
        wanted(exchange) == missed
            && got(exchange).is_some_and(|got| got != missed && got != Representation::Other)
    };
    // The first wrong response that shows no evidence of a cache.
    let mut uncertain = None;
    for (exchanges, is_fresh) in
        [(&caches.at_page_url, false), (&caches.browser_first, true), (&caches.agent_first, true)]
    {
        // At a cache-busting URL, skip the first response: it comes from the origin.
        let skipped = usize::from(is_fresh);
        let Some(index) = exchanges.iter().skip(skipped).position(is_wrong).map(|index| index + skipped)
        else {
            continue;
        };
        let Some(response) = exchanges[index].response() else { continue };
        let was_right = exchanges[..index].iter().any(is_right);
        let evidence: Vec<_> = exchanges[..=index].iter().collect();
        if was_right || is_right_when_first && (is_fresh || cache_evidence(response).is_some()) {
            findings.report(&evidence, sentence(response, missed));
            return;
        } else if is_right_when_first {
            uncertain.get_or_insert((evidence, sentence(response, missed)));
        } // Otherwise, no response shows that the origin has the representation.
    }
    if let Some((evidence, sentence)) = uncertain {
        findings.report_as(Severity::Advice, &evidence, sentence);
    }
}

/// The field of a cache that has no Markdown and whose key lacks the query, so that the audit cannot learn
/// what the site has for agents. `None` if the site negotiates, or if the first agent's response is not HTML
/// from a cache.
fn hiding_cache(survey: &Survey) -> Option<String> {
    let first = survey.caches.agent_first.first().filter(|_| !survey.caches.negotiates())?;
    first
        .success()
        .filter(|response| response.representation() == Representation::Html)
        .and_then(cache_evidence)
}

fn got(exchange: &Exchange) -> Option<Representation> {
    exchange.success().map(representation_of_page)
}

/// The message of the finding: what the client got, the evidence of a cache, and what to correct.
fn sentence(response: &Response, missed: Representation) -> String {
    let (client, other, got) = match missed {
        Representation::Markdown => ("An agent that prefers Markdown", "a browser", "HTML"),
        _ => ("A browser", "an agent", "Markdown"),
    };
    let cache = cache_evidence(response)
        .map_or_else(|| "no response header names a cache".to_owned(), |field| format!("`{field}`"));
    let advice = if response.varies_on("accept") {
        "the cache must obey the `Vary: Accept` of the response"
    } else {
        "the response needs `Vary: Accept`"
    };
    format!("{client} got {got} at a URL that {other} had requested before ({cache}): {advice}")
}
