//! Pages have a title.

use frontdesk_convert::HtmlElement;

use super::shared::report_lacking;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "title-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page has a `<title>`.",
    matters: "Tabs, bookmarks, search results and agents name the page by it (HTML §4.2.2 requires it).",
    hurts: "People, search engines and agents, who cannot tell the page from others.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add a `<title>` that says what this page is about. Each page needs its own.",
    }],
    check,
};

/// Also accepts a `<title>` in the body: an image in a `<noscript>` of the head ends the head, so everything
/// after it moves to the body.
fn check(survey: &Survey, findings: &mut Findings) {
    let has_text = |title: HtmlElement<'_>| {
        !title.text().is_empty() && title.ancestors().all(|above| above.name() != "svg")
    };
    report_lacking(
        survey,
        findings,
        "title",
        has_text,
        "The page has no `<title>`: add one that says what it is about",
    );
}
