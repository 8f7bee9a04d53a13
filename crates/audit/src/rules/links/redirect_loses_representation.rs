//! Redirects keep the representation.

use std::sync::Arc;

use crate::client::redirect_target;
use crate::declared_markdown::declared_twin;
use crate::exchange::{Exchange, Representation};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "redirect-loses-representation",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "Redirects lead an agent to the Markdown of the page that it requested.",
    matters: "A redirect to a fixed file such as `index.html` bypasses the negotiation (RFC 9110 §12.1). A \
              redirect to the home page hides the page from agents.",
    hurts: "Agents, which get HTML or another page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Redirect to the URL of the page, not to one of its files or to the home page, and serve the \
               declared Markdown without a redirect to the page.",
    }],
    check,
};

/// Reports that an agent gets HTML after a redirect: at a page's URL with another slash, or at a link of the
/// Markdown if the target declares Markdown. Also reports what [`report_agent`] and [`report_twin`] find.
fn check(survey: &Survey, findings: &mut Findings) {
    for followed in
        survey.links.slash.iter().filter(|followed| followed.chain.len() > 1 && is_html(followed.last()))
    {
        report_html(&followed.chain[0], followed.last(), findings);
    }
    let accept = survey.first_requests.agent.accept.as_bytes();
    for followed in survey.links.markdown.iter().filter(|followed| followed.chain.len() > 1) {
        let headers = &followed.last().request.headers;
        let is_agent = headers.iter().any(|(_, value)| value.as_bytes() == accept);
        // Check only target pages that declare Markdown; other pages may have none.
        let declares = || Page::read(followed.last()).is_some_and(|page| declared_twin(&page).is_some());
        if survey.first_requests.negotiates() && is_agent && is_html(followed.last()) && declares() {
            report_html(&followed.chain[0], followed.last(), findings);
        }
    }
    for page in &survey.first_requests.pages {
        report_agent(survey, page, findings);
        report_twin(survey, page, findings);
    }
}

fn is_html(exchange: &Arc<Exchange>) -> bool {
    exchange.success().is_some_and(|response| response.representation() == Representation::Html)
}

/// Reports that an agent is redirected to HTML although the page has Markdown.
fn report_html(first: &Arc<Exchange>, last: &Arc<Exchange>, findings: &mut Findings) {
    let target = last.url();
    findings.report(
        &[first, last],
        format!(
            "An agent that prefers Markdown is redirected to {target} and gets HTML: return the page's \
             Markdown"
        ),
    );
}

/// Reports a redirect of an agent from a page that browsers get, if its target is exactly the URL of another
/// surveyed page.
fn report_agent(survey: &Survey, page: &Page, findings: &mut Findings) {
    let Some((agent, target)) = page.agent.as_ref().and_then(|own| Some((own, redirect_target(own)?))) else {
        return;
    };
    let is_other = |other: &&Page| other.url == target && target != page.url;
    if let Some(other) = survey.first_requests.pages.iter().find(is_other) {
        let message = format!(
            "An agent that prefers Markdown is redirected to the page {target}, but a browser gets the page that \
             it requested: send the agent the Markdown of that page"
        );
        findings.report(&[agent, &page.html, &other.html], message);
    }
}

/// Reports declared Markdown that redirects to the HTML of a surveyed page. Advice if agents get Markdown at
/// the URL of that page.
fn report_twin(survey: &Survey, page: &Page, findings: &mut Findings) {
    let Some((twin, target)) = page.twin.as_ref().and_then(|own| Some((own, redirect_target(own)?))) else {
        return;
    };
    let Some(other) = survey.first_requests.pages.iter().find(|other| other.url == target) else { return };
    let severity = if other.markdown.is_some() { Severity::Advice } else { Severity::Broken };
    let message = format!(
        "The page declares its Markdown at {}, which redirects to the HTML at {target}: return the Markdown",
        twin.url()
    );
    findings.report_as(severity, &[twin, &page.html, &other.html], message);
}
