//! A URL that does not exist returns 404.

use std::sync::Arc;

use crate::exchange::Exchange;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::caches::UNKNOWN_PATH;

pub(super) static RULE: Rule = Rule {
    id: "soft-not-found",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "A URL that does not exist returns 404 or 410, to browsers and to agents.",
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

/// Reports a 200 response for an unknown URL to a browser, after redirects, or else such a response to an
/// agent, whose redirects are not followed.
fn check(survey: &Survey, findings: &mut Findings) {
    report_found(survey.caches.not_found_html.as_ref(), "", findings);
    // If browsers and agents both get 200, that is one defect: report it once.
    if findings.is_empty() {
        let markdown = survey.caches.not_found_markdown.as_ref();
        report_found(markdown, " to an agent that prefers Markdown", findings);
    }
}

/// Reports a response with status 200 to a URL that does not exist; as advice if a redirect led to it.
/// `client` follows the verb of the message.
fn report_found(exchange: Option<&Arc<Exchange>>, client: &str, findings: &mut Findings) {
    let Some(exchange) = exchange.filter(|own| own.success().is_some()) else { return };
    // Report a redirect only as advice: the client sees that it gets another URL.
    if exchange.url().path() == UNKNOWN_PATH {
        findings.report(&[exchange], format!("A URL that does not exist returns 200{client}: return 404"));
    } else {
        let message =
            format!("A URL that does not exist redirects{client} to {}: return 404", exchange.url());
        findings.report_as(Severity::Advice, &[exchange], message);
    }
}
