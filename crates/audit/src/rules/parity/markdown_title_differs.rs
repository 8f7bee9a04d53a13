//! The Markdown has the same title as the HTML.

use super::comparison::{CONVERT, Comparison};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::words;

pub(super) static RULE: Rule = Rule {
    id: "markdown-title-differs",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The title of the Markdown is that of the HTML.",
    matters: "People and agents cite the page under different titles. Often the Markdown belongs to another \
              page or version.",
    hurts: "Agents, which cite a title that people cannot find.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Take the first heading of the Markdown and the `<h1>` or `<title>` of the page from the \
                   same field.",
        },
        CONVERT,
    ],
    check,
};

/// Reports each compared page whose Markdown title neither contains nor is contained in a title or heading of
/// the HTML. Skips Markdown without a heading of level 1, and HTML without any title or heading.
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey) {
        let page = comparison.page;
        let Some((_, title)) = comparison.markdown.headings.iter().find(|(level, _)| *level == 1) else {
            continue;
        };
        let declared = [&page.converted.declared_title, &page.converted.metadata.title].into_iter().flatten();
        let titles: Vec<_> = declared.chain(page.reference.headings.iter().map(|(_, text)| text)).collect();
        let own = words(title).join(" ");
        let is_same = |other: &str| {
            let other = words(other).join(" ");
            !other.is_empty() && (other.contains(&own) || own.contains(&other))
        };
        if let Some(first) = titles.first().filter(|_| !titles.iter().any(|title| is_same(title))) {
            findings.report(
                &[comparison.exchange, &page.html],
                format!("The Markdown is titled “{title}”, the HTML “{first}”: use one title"),
            );
        }
    }
}
