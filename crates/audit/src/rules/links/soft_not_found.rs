//! An address that does not exist answers 404.

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;
use crate::survey::caches::UNKNOWN_PATH;

pub(super) static RULE: Rule = Rule {
    id: "soft-not-found",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "An address that does not exist answers 404 or 410.",
    matters: "200 says that the page exists (RFC 9110 §15.3.1): agents take the text for an answer, \
              and search engines index it.",
    hurts: "Agents and search engines.",
    fixes: &[
        Fix { platform: Platform::Any, text: "Send the status 404 with the page for errors." },
        Fix {
            platform: Platform::Nginx,
            text: "`try_files $uri $uri/ =404;` instead of a fallback to `/index.html`, and \
                   `error_page 404 /404.html;`.",
        },
        Fix {
            platform: Platform::Netlify,
            text: "Publish `404.html`, and remove the rule `/* /index.html 200`, or limit it to the \
                   paths of the application.",
        },
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let Some(exchange) = survey.caches.not_found_html.as_ref().filter(|own| own.success().is_some()) else {
        return;
    };
    // A redirect is visible to the client.
    if exchange.url().path() == UNKNOWN_PATH {
        findings.report(&[exchange], "An address that does not exist answers 200 instead of 404");
    } else {
        let message = format!("An address that does not exist redirects to {}: answer 404", exchange.url());
        findings.report_as(Severity::Advice, &[exchange], message);
    }
}
