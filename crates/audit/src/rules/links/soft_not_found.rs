//! A URL that does not exist returns 404.

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;
use crate::survey::caches::UNKNOWN_PATH;

pub(super) static RULE: Rule = Rule {
    id: "soft-not-found",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "A URL that does not exist returns 404 or 410.",
    matters: "200 says that the page exists (RFC 9110 §15.3.1).",
    hurts: "Agents, which take the error page for an answer; search engines, which index it.",
    fixes: &[
        Fix { platform: Platform::Any, text: "Return the error page with status 404." },
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
        findings.report(&[exchange], "A URL that does not exist returns 200: 404 is right");
    } else {
        let message = format!("A URL that does not exist redirects to {}: 404 is right", exchange.url());
        findings.report_as(Severity::Advice, &[exchange], message);
    }
}
