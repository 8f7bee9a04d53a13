//! Redirects form no loop.

use std::collections::HashSet;

use crate::client::redirect_target;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::links::FollowedLink;

pub(super) static RULE: Rule = Rule {
    id: "redirect-loop",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "Redirects lead to a page.",
    matters: "Clients give up after some redirects (RFC 9110 §15.4).",
    hurts: "People and agents, who never reach the page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Look for two rules that undo each other, such as one that adds `/` and one that removes it.",
    }],
    check,
};

/// Reports each followed link whose redirects lead to one URL twice and to no page. Names at most four paths
/// of the loop.
fn check(survey: &Survey, findings: &mut Findings) {
    let links = &survey.links;
    let lists =
        [&links.llms, &links.pages, &links.markdown, &links.sitemap, &links.feeds].into_iter().flatten();
    let single = [&links.language, &links.canonical, &links.slash].into_iter().flatten();
    for followed in lists.chain(single).filter(|followed| is_loop(followed)) {
        let path: Vec<_> = followed.chain.iter().take(4).map(|exchange| exchange.url().path()).collect();
        findings.report(
            &[&followed.chain[0], followed.last()],
            format!("Redirects form a loop and must end at a page: {} …", path.join(" → ")),
        );
    }
}

/// Whether the redirects lead to the same URL twice, and the last response redirects, too. A server that
/// redirects only HEAD to the same URL answers the GET that follows.
fn is_loop(followed: &FollowedLink) -> bool {
    let mut seen = HashSet::new();
    let is_repeated = !followed.chain.iter().all(|exchange| seen.insert(exchange.url()));
    is_repeated && redirect_target(followed.last()).is_some()
}
