//! Images have a text alternative.

use frontdesk_convert::HtmlElement;

use super::shared::{is_hidden, is_named, report_elements};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "image-alt-missing",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "Every image has `alt`, which is empty if the image is decorative.",
    matters: "Without it, screen readers read the file name, and agents learn nothing (WCAG 1.1.1, HTML \
              §4.8.4.4).",
    hurts: "Blind people and agents, who do not learn what the image shows.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Say in `alt` what the image means here. Write `alt=\"\"` for a decorative image.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let message = ("An image has no `alt`", "images have no `alt`");
    let find = |page| Page::select(page, "img:not([alt])").into_iter().filter(lacks_alternative).collect();
    report_elements(survey, findings, find, message);
}

/// Whether an image without `alt` also has no other name. False for decoration, tracking pixels and hidden
/// images.
fn lacks_alternative(image: &HtmlElement<'_>) -> bool {
    let image = *image;
    let is_decoration = matches!(image.attribute("role"), Some("presentation" | "none"));
    let is_pixel = ["width", "height"].iter().all(|name| matches!(image.attribute(name), Some("0" | "1")));
    !is_named(image) && !is_decoration && !is_pixel && !is_hidden(image)
}
