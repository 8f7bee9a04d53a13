//! Pages have one main heading.

use super::shared::{excerpt, is_hidden};
use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "heading-first-repeated",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page has one `<h1>`.",
    matters: "With several, readers and agents cannot tell the title of the page from its sections.",
    hurts: "People who use screen readers, and agents, who take a section for the page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Keep the `<h1>` that is the page's title, and make the others `<h2>`.",
    }],
    check,
};

/// Reports each readable page with more than one `<h1>` that is not hidden; in `<main>` only, if that has
/// any, hidden or not.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.readable_pages() {
        // An `<h1>` outside of `<main>`, such as the name of the site, does no harm.
        let has_main = !page.select("main h1").is_empty();
        let mut first = page.select(if has_main { "main h1" } else { "h1" });
        first.retain(|heading| !is_hidden(*heading));
        if let [one, other, ..] = &*first {
            let (count, one, other) = (first.len(), excerpt(&one.text()), excerpt(&other.text()));
            let message =
                format!("The page has {count} `<h1>` elements, such as “{one}” and “{other}”: keep one");
            findings.report(&[&page.html], message);
        }
    }
}
