//! Links have a text.

use frontdesk_convert::{HtmlElement, Selector};

use super::shared::{has, is_hidden, is_named, report_elements};
use crate::group::Group;
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "link-text-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "Every link has text, or an image or attribute that names it.",
    matters: "Screen readers read the address instead, and agents do not know where the link leads (WCAG \
              2.4.4).",
    hurts: "People who use screen readers, and agents.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write text into the link, `alt` on its image, or `aria-label` on a link that is an \
               icon.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let message = ("A link has no text", "links have no text");
    let find = |page| Page::select(page, "a[href]").into_iter().filter(lacks_text).collect();
    report_elements(survey, findings, find, message);
}

fn lacks_text(link: &HtmlElement<'_>) -> bool {
    let link = *link;
    let Ok(named) = Selector::parse("[alt], [aria-label], [aria-labelledby], [title]") else { return false };
    let is_found = |inner: HtmlElement<'_>| has(inner, "alt") || is_named(inner);
    let is_skipped = is_hidden(link) || link.attribute("tabindex") == Some("-1");
    link.text().is_empty() && !is_named(link) && !is_skipped && !link.all(&named).into_iter().any(is_found)
}
