//! Links have a text.

use frontdesk_convert::HtmlElement;

use super::shared::{lacks_text, report_elements};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "link-text-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "Every link has text, or an image or attribute that names it.",
    matters: "Otherwise screen readers read the URL, and agents do not know where the link leads (WCAG \
              2.4.4).",
    hurts: "People who use screen readers, and agents, who do not know where the link leads.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add text to the link, `alt` to its image, or `aria-label` to an icon.",
    }],
    check,
};

/// Reports the links without a text or another name ([`lacks_text`]). Skips links to themselves, such as the
/// anchors of lines of code.
fn check(survey: &Survey, findings: &mut Findings) {
    let message = ("A link has no text", "links have no text");
    let leads_away = |link: &HtmlElement<'_>| {
        let own = link.attribute("id").map(|id| format!("#{id}"));
        own.is_none() || link.attribute("href") != own.as_deref()
    };
    let find =
        |page| Page::select(page, "a[href]").into_iter().filter(leads_away).filter(lacks_text).collect();
    report_elements(survey, findings, find, message);
}
