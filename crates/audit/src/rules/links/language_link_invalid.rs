//! The languages of declared versions are language tags.

use crate::language::languages;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::rules::basics::is_language_tag;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "language-link-invalid",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The `hreflang` of a declared version is a tag such as `en`, `pt-BR` or `x-default`.",
    matters: "Search engines ignore a link whose language they do not know (RFC 5646 §2.1): codes instead of \
              names, with hyphens instead of underscores, and `GB` for the United Kingdom.",
    hurts: "People who read other languages, who do not find their version.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Use a code of two or three letters, with a region only if it matters: `en`, `en-GB`, `pt-BR`.",
    }],
    check,
};

/// Reports each declared language version whose `hreflang` is not a language tag, or has the region `UK`.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        for (url, language) in languages(page) {
            // Reject the region `UK`, which ISO 3166 reserves but does not assign; `GB` is right.
            let is_valid = is_language_tag(&language) && !language.ends_with("-uk");
            if !is_valid {
                let message = format!(
                    "`hreflang=\"{language}\"` of {url} is not a language tag: write one such as `en-GB`"
                );
                findings.report(&[&page.html], message);
            }
        }
    }
}
