//! URLs that redirect agents to Markdown say so in `Vary`.

use super::shared::{VARY_FIXES, report_without_vary};
use std::sync::Arc;

use crate::client::redirect_target;
use crate::exchange::{Exchange, Representation, without_fresh_queries};
use crate::page::representation_of_page;
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-redirect",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "If a URL redirects agents to Markdown but not browsers, all its responses carry `Vary: Accept`.",
    matters: "A cache that stores the redirect sends browsers to the Markdown; a cache that stores the page \
              hides the redirect from agents (RFC 9111 §4.1).",
    hurts: "People, who are sent to raw Markdown; agents, which get HTML.",
    fixes: VARY_FIXES,
    check,
};

/// Judges each URL that leads agents to Markdown and browsers elsewhere, if one of the two responses is a
/// redirect. Reports each of them that lacks `Vary: Accept`, unless no cache may store it.
fn check(survey: &Survey, findings: &mut Findings) {
    let pages = survey.first_requests.pages.iter().map(|page| (&page.html, page.agent.as_ref()));
    // `redirect_markdown` is the agent's response at the named URL. It is `None` unless the named URL
    // redirected the browser.
    let named = survey
        .first_requests
        .named_url_chain
        .first()
        .map(|first| (first, survey.caches.redirect_markdown.as_ref()));
    for (browser, agent) in pages.chain(named) {
        let Some(agent) = agent.filter(|agent| leads_to_markdown(agent)) else { continue };
        let is_redirect = [browser, agent].iter().any(|exchange| redirect_target(exchange).is_some());
        if !is_redirect || target(agent) == target(browser) {
            continue;
        }
        let difference = "this URL sends agents to Markdown, but not browsers";
        report_without_vary(findings, browser, "The response to browsers", difference);
        report_without_vary(findings, agent, "The response to agents", difference);
    }
}

/// The target of a redirect, without the audit's cache-busting query, which the redirect may have kept.
fn target(exchange: &Exchange) -> Option<String> {
    redirect_target(exchange).map(|target| without_fresh_queries(target.as_str()))
}

/// Whether the response is Markdown, or a redirect to a path that ends like a file of Markdown or text. Other
/// redirects may depend on a login, a language or chance.
fn leads_to_markdown(exchange: &Arc<Exchange>) -> bool {
    let is_markdown = |path: &str| [".md", ".mdx", ".markdown", ".txt"].iter().any(|end| path.ends_with(end));
    redirect_target(exchange).map_or_else(
        || {
            exchange
                .success()
                .is_some_and(|response| representation_of_page(response) == Representation::Markdown)
        },
        |target| is_markdown(&target.path().to_ascii_lowercase()),
    )
}
