//! Pages are not `immutable`.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "immutable-page",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "Pages do not carry `Cache-Control: immutable`.",
    matters: "`immutable` promises that the content of a URL does not change during its lifetime (RFC 8246): \
              browsers do not revalidate it, not even on reload. It is for files whose names contain a hash \
              of the content.",
    hurts: "People, who do not see corrections of the page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Send `Cache-Control: no-cache` or a short lifetime with pages, and `immutable` only with \
               files whose names contain a hash.",
    }],
    check,
};

/// Reports each 200 response for a page, to a browser or an agent, with `immutable` in `Cache-Control`.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        for exchange in [Some(&page.html), page.agent.as_ref()].into_iter().flatten() {
            let Some(response) = exchange.success() else { continue };
            if response.cache_directive("immutable").is_some() {
                let message = format!(
                    "The page has `Cache-Control: {}`, so browsers do not revalidate it even on reload: \
                     remove `immutable`",
                    response.header(http::header::CACHE_CONTROL)
                );
                findings.report(&[exchange], message);
            }
        }
    }
}
