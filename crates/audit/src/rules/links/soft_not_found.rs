//! An address that does not exist answers 404.

use crate::finding::Severity;
use crate::rule::{Findings, Fix, Group, Platform, Rule};
use crate::survey::Survey;

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
    let Some(probe) = &survey.links.unknown else { return };
    let last = probe.last();
    if last.success().is_none() {
        return;
    }
    // A redirect is visible to the client.
    if probe.chain.len() > 1 {
        let message = format!("An address that does not exist redirects to {}: answer 404", last.url());
        findings.report_as(Severity::Advice, &[&probe.chain[0], last], message);
    } else {
        findings.report(&[last], "An address that does not exist answers 200 instead of 404");
    }
}
