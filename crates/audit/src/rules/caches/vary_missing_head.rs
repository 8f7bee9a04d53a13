//! HEAD has the `Vary` of GET.

use super::shared::{VARY_FIXES, vary_of};
use crate::rule::{Findings, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-head",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "The response to HEAD carries the same `Vary` as the response to GET.",
    matters: "HEAD returns the fields of GET (RFC 9110 §9.3.2), and caches may update stored responses with \
              them (RFC 9111 §4.3.5). Tools that inspect a site with HEAD do not see that it negotiates.",
    hurts: "Operators, whose tools and caches read the wrong fields.",
    fixes: VARY_FIXES,
    check,
};

/// Reports each HEAD response without `Vary: Accept` whose GET response, for one page and the same client,
/// has it; both must have status 200.
fn check(survey: &Survey, findings: &mut Findings) {
    let page = &survey.first_requests.pages[survey.caches.page];
    let pairs =
        [(Some(&page.html), &survey.caches.head_html), (page.agent.as_ref(), &survey.caches.head_markdown)];
    for (get, head) in pairs {
        let (Some(get), Some(head)) = (get, head) else { continue };
        let (Some(full), Some(response)) = (get.success(), head.success()) else { continue };
        if full.varies_on("accept") && !response.varies_on("accept") {
            let vary = vary_of(response);
            findings.report(
                &[head, get],
                format!(
                    "The response to HEAD has {vary}, but the response to GET has `Vary: Accept`: both must have it"
                ),
            );
        }
    }
}
