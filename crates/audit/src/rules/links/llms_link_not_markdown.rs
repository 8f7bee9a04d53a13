//! The links of `llms.txt` lead to Markdown, if the site has any.

use crate::exchange::{Representation, Response};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::links::FollowedLink;

pub(super) static RULE: Rule = Rule {
    id: "llms-link-not-markdown",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The links of `llms.txt` lead to Markdown if the site has any.",
    matters: "`llms.txt` is for agents that read Markdown. A client that sends no `Accept` gets the HTML \
              with all its menus.",
    hurts: "Agents, which pay for markup.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Link to the Markdown of each page, such as `/guide.md` or `/guide/index.md`.",
    }],
    check,
};

/// Reports one finding: how many of the requested links lead to HTML. Reports nothing if no page has
/// Markdown.
fn check(survey: &Survey, findings: &mut Findings) {
    let has_markdown = survey
        .first_requests
        .pages
        .iter()
        .any(|page| page.markdown.is_some() || page.twin_markdown.is_some());
    let Some(llms) = survey.first_requests.llms.as_ref().filter(|_| has_markdown) else { return };
    let exchanges: Vec<_> = survey.links.llms.iter().map(FollowedLink::last).collect();
    let is_html = |response: &Response| response.representation() == Representation::Html;
    let html: Vec<_> = exchanges.iter().filter(|exchange| exchange.success().is_some_and(is_html)).collect();
    if let Some(first) = html.first() {
        findings.report(
            &[llms, first],
            format!(
                "{} of {} requested links of llms.txt lead to HTML, starting with {}: link to the Markdown",
                html.len(),
                exchanges.len(),
                first.url()
            ),
        );
    }
}
