//! The Markdown at the page's URL and at the declared URL is the same.

use super::comparison::{CONVERT, PRESENT, is_prose, texts};
use crate::exchange::Exchange;
use crate::markdown::MarkdownPage;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::{PhraseSet, excerpt, words};

pub(super) static RULE: Rule = Rule {
    id: "twin-differs",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "A page serves the same Markdown at its own URL and at the URL that it declares for its \
             Markdown.",
    matters: "Some agents request one URL and some the other, so both must say the same.",
    hurts: "Agents, some of which get an outdated or different text.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Serve both URLs from one file, and purge both from caches when it changes.",
        },
        CONVERT,
    ],
    check,
};

/// Reports each page whose negotiated Markdown and twin can be read, if one of them lacks a block of prose of
/// the other. Advice if less than a tenth of the prose differs.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let Some((agent, markdown)) = page.agent.as_ref().zip(page.markdown.as_ref()) else { continue };
        let Some((twin, twin_markdown)) = page.twin.as_ref().zip(page.twin_markdown.as_ref()) else {
            continue;
        };
        let is_readable =
            |exchange: &Exchange| exchange.response().is_some_and(|own| own.unreadable().is_none());
        if !is_readable(agent) || !is_readable(twin) {
            continue;
        }
        let (lacks, lacks_total) = missing(markdown, twin_markdown);
        let (has, has_total) = missing(twin_markdown, markdown);
        let count: usize = lacks.iter().chain(&has).map(|(_, count)| count).sum();
        let (text, place) = match (lacks.first(), has.first()) {
            (Some((text, _)), _) => (text, "only the page's own URL has"),
            (None, Some((text, _))) => (text, "only the declared URL has"),
            (None, None) => continue,
        };
        // If less than a tenth of the words differ, report advice: a cache may lack the latest change.
        let is_broken = count * 10 >= lacks_total.max(has_total);
        let severity = if is_broken { Severity::Broken } else { Severity::Advice };
        let text = excerpt(text, 14);
        let message = format!("The page and {} serve different Markdown: {place} “{text}”", twin.url());
        findings.report_as(severity, &[agent, twin], message);
    }
}

/// The blocks of prose in `markdown` that `other` lacks, with their numbers of words, and the number of words
/// in all blocks of prose.
fn missing<'a>(markdown: &'a MarkdownPage, other: &MarkdownPage) -> (Vec<(&'a str, usize)>, usize) {
    let phrases = PhraseSet::new(texts(other));
    let counted = markdown.blocks.iter().map(|block| (block, words(&block.text).len()));
    let prose: Vec<_> = counted.filter(|(block, count)| is_prose(block, *count)).collect();
    let total = prose.iter().map(|(_, count)| count).sum();
    let lost = prose.into_iter().filter(|(block, _)| phrases.percentage(&block.text) < PRESENT);
    (lost.map(|(block, count)| (&*block.text, count)).collect(), total)
}
