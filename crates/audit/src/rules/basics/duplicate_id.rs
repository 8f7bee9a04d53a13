//! Each `id` occurs once in a page.

use std::collections::HashSet;

use frontdesk_convert::HtmlElement;

use super::shared::tag;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "duplicate-id",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "No two elements of a page have the same `id`.",
    matters: "Fragment links, labels and scripts reach only the first element (HTML §3.2.6).",
    hurts: "People who follow fragment links or use screen readers, who reach the wrong element.",
    fixes: &[Fix { platform: Platform::Any, text: "Give each element an `id` of its own, or use a class." }],
    check,
};

/// Reports one finding for each readable page: how many values of `id` are repeated, and the first. Ignores
/// empty values, `<svg>` and `<template>` with all elements in them, and elements in `<noscript>`.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.readable_pages() {
        let mut seen = HashSet::new();
        // Skip duplicates in SVG drawings, which often repeat the `id`s of gradients without any harm.
        let is_own = |element: &HtmlElement<'_>| {
            let mut around = std::iter::once(*element).chain(element.ancestors());
            !around.any(|element| matches!(element.name(), "svg" | "template"))
        };
        let elements = page.select("[id]").into_iter().filter(is_own);
        let mut repeated: Vec<_> = elements
            .filter(|element| !seen.insert(element.attribute("id")))
            .filter(|element| element.attribute("id").is_some_and(|id| !id.is_empty()))
            .collect();
        let mut reported = HashSet::new();
        repeated.retain(|element| reported.insert(element.attribute("id")));
        if let Some(first) = repeated.first() {
            let start = match repeated.len() {
                1 => "1 value of `id` occurs".to_owned(),
                count => format!("{count} values of `id` occur"),
            };
            let message = format!("{start} more than once, first at {}", tag(*first));
            findings.report(&[&page.html], message);
        }
    }
}
