//! Caches do not serve pages that are older than their lifetime.

use crate::cache_status::{age, has_own_lifetime};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "age-exceeds-lifetime",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "The `Age` of a page does not exceed its lifetime in `Cache-Control`.",
    matters: "A page with a greater `Age` is stale on arrival (RFC 9111 §4.2): browsers cannot use the \
              lifetime, and clients read an older page than the operator allows, unless the cache is purged \
              at each change.",
    hurts: "People and agents, who get an old page; operators, whose lifetime has no effect.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Remove the rule that makes the cache keep pages longer, or state the cache's lifetime in \
               `s-maxage`.",
    }],
    check,
};

/// Number of seconds by which `Age` may exceed the lifetime, because of clock differences and rounding.
const TOLERANCE: u64 = 10;

/// Reports each 200 response for a page, to a browser or an agent, whose `Age` exceeds its lifetime by more
/// than [`TOLERANCE`]. The longer of `stale-while-revalidate` and `stale-if-error` extends the lifetime. A
/// lifetime of zero is not judged, which platforms that purge their caches at each change send to browsers,
/// nor is a page with another lifetime for caches.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        for exchange in [Some(&page.html), page.agent.as_ref()].into_iter().flatten() {
            let Some(response) = exchange.success().filter(|response| !has_own_lifetime(response)) else {
                continue;
            };
            let (Some(age), Some(lifetime @ 1..)) = (age(response), response.shared_lifetime()) else {
                continue;
            };
            let stale = ["stale-while-revalidate", "stale-if-error"].map(|name| {
                response.cache_directive(name).and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
            });
            let limit = lifetime.saturating_add(stale[0].max(stale[1])).saturating_add(TOLERANCE);
            if age > limit {
                let message = format!(
                    "A cache served the page with `Age: {age}`, but `Cache-Control` allows {lifetime} \
                     seconds: the cache must revalidate it"
                );
                findings.report(&[exchange], message);
            }
        }
    }
}
