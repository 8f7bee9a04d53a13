//! Buttons have a text.

use frontdesk_convert::HtmlElement;

use super::shared::{has_value, lacks_text, report_elements, without_label};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "button-text-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "Every button has text, or an image or attribute that names it.",
    matters: "Screen readers say only \"button\", and agents do not know what a click does (WCAG 4.1.2).",
    hurts: "People who use screen readers or voice control, and agents, who do not know what the button does.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Add text to the button, `alt` to its image, `value` to an `<input type=button>`, or \
               `aria-label` to an icon.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let message = ("A button has no text", "buttons have no text");
    report_elements(survey, findings, nameless_buttons, message);
}

/// Finds buttons without a name. Skips hidden ones, those with a `<label>` or `tabindex=-1`, and `submit` and
/// `reset` inputs, for which browsers have default names.
fn nameless_buttons(page: &Page) -> Vec<HtmlElement<'_>> {
    let buttons = page.select("button, [role=button], input[type=button], input[type=image]");
    let is_nameless = |button: &HtmlElement<'_>| lacks_text(button) && !names_input(*button);
    without_label(page, buttons.into_iter().filter(is_nameless)).collect()
}

/// Whether `value` or `alt` names an `<input>`. False for other elements.
fn names_input(input: HtmlElement<'_>) -> bool {
    input.name() == "input" && (has_value(input, "value") || has_value(input, "alt"))
}
