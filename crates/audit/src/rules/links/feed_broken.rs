//! The feed that a page declares exists.

use super::shared::report_broken;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "feed-broken",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The feed that a page declares exists.",
    matters: "Feed readers and agents find the feed by this link.",
    hurts: "People and agents that follow the news, who get none.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Publish the feed, or remove the link from the head of the pages.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    report_broken(findings, "As its feed, the page", &survey.links.feeds);
}
