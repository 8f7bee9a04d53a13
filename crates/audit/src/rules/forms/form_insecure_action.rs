//! Forms are sent encrypted.

use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "form-insecure-action",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "No form on an `https` page submits to an `http` URL.",
    matters: "The data crosses the network unencrypted. Browsers warn, or refuse to send it (Mixed Content, \
              \"Form submissions\").",
    hurts: "People, whose data can be read and changed on the way.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write `https` or a relative URL in `action` and `formaction`.",
    }],
    check,
};

/// Reports the first `http` target of the forms of each `https` page.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        if let Some(action) = insecure_actions(page).first() {
            findings.report(
                &[&page.html],
                format!("A form of the page sends its data to {action}, without encryption: use `https`"),
            );
        }
    }
}

/// The `http` URLs to which an `https` page's forms are sent.
fn insecure_actions(page: &Page) -> Vec<String> {
    if page.url.scheme() != "https" {
        return Vec::new();
    }
    let elements = page.select("form[action], button[formaction], input[formaction]");
    let actions = elements.iter().filter_map(|element| {
        element.attribute(if element.name() == "form" { "action" } else { "formaction" })
    });
    let targets = actions.filter_map(|action| page.resolve(action));
    targets.filter(|target| target.scheme() == "http").map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::exchange::Exchange;

    #[test]
    fn only_forms_of_encrypted_pages_are_insecure() {
        let html = "<!doctype html><form action='http://example.com/a'></form>\
                    <form action=/b><button formaction='http://example.com/c'></form>";
        for (url, expected) in [
            ("https://example.com/", &["http://example.com/a", "http://example.com/c"][..]),
            ("http://example.com/", &[]),
        ] {
            let page = Page::read(&Arc::new(Exchange::with_body(url, html))).unwrap();
            assert_eq!(insecure_actions(&page), expected);
        }
    }
}
