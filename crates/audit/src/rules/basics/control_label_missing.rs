//! Controls of forms have a label.

use frontdesk_convert::HtmlElement;

use super::shared::{has_value, is_hidden, is_named, report_elements, without_label};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "control-label-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "Every input, select and text area has an accessible name.",
    matters: "Screen readers read this name, and agents choose the value by it (WCAG 1.3.1, 4.1.2).",
    hurts: "People who use screen readers or voice control, and agents, who fill the wrong field.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write `<label for=\"ID\">` for each control, or put the control in its `<label>`. Use \
               `aria-label` where there is no visible text.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let message = ("A control has no label", "controls have no label");
    report_elements(survey, findings, unlabelled_controls, message);
}

/// The controls that need a label ([`needs_label`]) and have no `<label>`.
fn unlabelled_controls(page: &Page) -> Vec<HtmlElement<'_>> {
    let controls = page.select("input, select, textarea").into_iter().filter(|control| needs_label(*control));
    without_label(page, controls).collect()
}

/// Whether a control needs a label. Buttons, hidden controls, and those that an ARIA attribute or `title`
/// names do not, nor does one with a `placeholder`, which browsers use as the name. Nor do disabled controls,
/// such as the boxes of task lists, and those with `tabindex=-1`, such as honeypots.
fn needs_label(control: HtmlElement<'_>) -> bool {
    let kind = control.attribute("type").unwrap_or_default().to_ascii_lowercase();
    let names_itself = matches!(&*kind, "hidden" | "submit" | "reset" | "button" | "image");
    let is_unused = control.attribute("disabled").is_some() || control.attribute("tabindex") == Some("-1");
    let is_skipped = is_unused || is_hidden(control);
    !names_itself && !is_named(control) && !has_value(control, "placeholder") && !is_skipped
}
