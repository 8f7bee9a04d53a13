//! The declared language is a language tag.

use super::shared::excerpt;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "language-invalid",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "The `lang` of `<html>` is a tag such as `en` or `pt-BR`.",
    matters: "Browsers and screen readers understand only BCP 47 tags (RFC 5646 §2.1): codes instead of \
              names, with hyphens instead of underscores.",
    hurts: "People who use screen readers or translation, who get the wrong language.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Use a code of two or three letters, with a region only if it matters: `en`, `de-CH`, \
               `pt-BR`.",
    }],
    check,
};

/// Reports each `lang` of `<html>` that is not a language tag, in readable pages. A blank one is no
/// finding.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.readable_pages() {
        for language in page.select("html[lang]").iter().filter_map(|html| html.attribute("lang")) {
            if !language.trim().is_empty() && !is_language_tag(language) {
                let language = excerpt(language);
                findings.report(
                    &[&page.html],
                    format!("`lang=\"{language}\"` is not a language tag: write one such as `en` or `pt-BR`"),
                );
            }
        }
    }
}

/// Whether the text is syntactically a language tag whose first subtag is `x`, `i`, or two or three letters.
/// Does not check whether its subtags are registered.
pub(in crate::rules) fn is_language_tag(text: &str) -> bool {
    let mut parts = text.split('-');
    let first = parts.next().unwrap_or_default();
    let is_primary =
        matches!(first.len(), 2..=3) || first.eq_ignore_ascii_case("x") || first.eq_ignore_ascii_case("i");
    let is_part =
        |part: &str| (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric());
    is_primary && first.bytes().all(|b| b.is_ascii_alphabetic()) && parts.all(is_part)
}
