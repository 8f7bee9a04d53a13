//! Errors for missing pages that depend on `Accept` say so in `Vary`.

use super::shared::{VARY_FIXES, report_without_vary};
use crate::exchange::{Exchange, Representation, Response};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-not-found",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "A 404 that is HTML for browsers and another type for agents carries `Vary: Accept` in both \
             cases.",
    matters: "Caches may store a 404 even without `Cache-Control` (RFC 9110 §15.1), and then serve it to \
              all clients (RFC 9111 §4.1).",
    hurts: "People, who see raw text for a mistyped URL; agents, which get an HTML error page.",
    fixes: VARY_FIXES,
    check,
};

/// Judges two responses with 404 or 410 if the browser gets HTML and the agent does not. If the browser's
/// response lacks `Vary: Accept`, reports only this one, otherwise the agent's if it lacks the field. Reports
/// no response with `no-store`. Does not compare the bodies, which may contain the time or a request ID.
fn check(survey: &Survey, findings: &mut Findings) {
    let caches = &survey.caches;
    let (Some(html), Some(markdown)) = (&caches.not_found_html, &caches.not_found_markdown) else { return };
    let got = |exchange: &Exchange| {
        let is_gone = |response: &&Response| matches!(response.status.as_u16(), 404 | 410);
        exchange.response().filter(is_gone).map(Response::representation)
    };
    let (Some(Representation::Html), Some(other)) = (got(html), got(markdown)) else { return };
    if other == Representation::Html {
        return;
    }
    // If both 404 responses lack `Vary`, the cause is the same: report only the response to the browser.
    let has_vary = html.response().is_some_and(|response| response.varies_on("accept"));
    let (exchange, subject) =
        if has_vary { (markdown, "The 404 for agents") } else { (html, "The 404 for browsers") };
    report_without_vary(findings, exchange, subject, "browsers and agents get different media types");
}
