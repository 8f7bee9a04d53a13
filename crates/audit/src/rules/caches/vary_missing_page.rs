//! Pages that exist in two representations say so in `Vary`.

use http::StatusCode;

use crate::exchange::Representation;
use crate::finding::Severity;
use crate::rule::{Findings, Fix, Group, Platform, Rule};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-page",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "Every 200 of an address that has HTML and Markdown carries `Vary: Accept`.",
    matters: "Without it, a cache may serve what it stored for one client to all others (RFC 9111 §4.1): \
              browsers get Markdown, agents get HTML.",
    hurts: "People, who see raw Markdown, and agents, which get HTML.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `Vary: Accept` (or `Vary: Accept, Accept-Encoding`) with both representations.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`add_header Vary Accept always;` where the map of `$http_accept` is used.",
        },
        Fix {
            platform: Platform::Caddy,
            text: "`header +Vary Accept` in the same block as the matcher on `Accept`.",
        },
        Fix {
            platform: Platform::Netlify,
            text: "`Vary: Accept` in `_headers`; edge functions must set `Netlify-Vary: header=Accept` as well.",
        },
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.basis.pages.iter().filter(|page| page.markdown.is_some()) {
        for exchange in [Some(&page.html), page.agent.as_ref()].into_iter().flatten() {
            let Some(response) = exchange.response().filter(|response| response.status == StatusCode::OK)
            else {
                continue;
            };
            if response.varies_on("accept") {
                continue;
            }
            let kind = match response.representation() {
                Representation::Markdown => "Markdown",
                _ => "HTML",
            };
            let vary = response.vary().join(", ");
            let vary = if vary.is_empty() { "no `Vary`".to_owned() } else { format!("`Vary: {vary}`") };
            findings.report(
                &[exchange],
                format!("The {kind} has {vary}, but the address also has another representation: a cache may serve it to every client"),
            );
        }
    }
}
