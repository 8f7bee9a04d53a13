//! Pages have one main heading.

use super::shared::{excerpt, is_hidden};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
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
/// one that is not hidden.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.readable_pages() {
        // An `<h1>` outside of `<main>`, such as the name of the site, does no harm.
        let [in_main, all] = ["main h1", "h1"].map(|selector| {
            let mut shown = page.select(selector);
            shown.retain(|heading| !is_hidden(*heading));
            shown
        });
        let first = if in_main.is_empty() { all } else { in_main };
        if let [one, other, ..] = &*first {
            let (count, one, other) = (first.len(), excerpt(&one.text()), excerpt(&other.text()));
            let message =
                format!("The page has {count} `<h1>` elements, such as “{one}” and “{other}”: keep one");
            findings.report(&[&page.html], message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixtures::{found, page, public, survey};

    #[test]
    fn hidden_headings_in_main_do_not_count() {
        for (html, expected) in [
            ("<h1>a</h1><main><h1 hidden>b</h1></main><h1>c</h1>", vec![Severity::Advice]),
            ("<h1>a</h1><main><h1>b</h1></main><h1>c</h1>", vec![]),
            ("<h1>a</h1><main><h1 hidden>b</h1></main>", vec![]),
            ("<main><h1 hidden>a</h1><h1>b</h1><h1>c</h1></main>", vec![Severity::Advice]),
        ] {
            let survey = survey(&page("https://example.com/", &[], html), public());
            assert_eq!(found(&RULE, &survey), expected, "{html}");
        }
    }
}
