//! Pages are not `immutable`.

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "immutable-page",
    group: Group::Caches,
    severity: Severity::Advice,
    checks: "Pages do not carry `Cache-Control: immutable`.",
    matters: "`immutable` promises that the address never has other content (RFC 8246): browsers do not ask \
              again, not even when people reload. It is for files whose names contain a hash of the \
              content.",
    hurts: "People, who cannot get a corrected page.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Send `Cache-Control: no-cache` or a short lifetime with pages, and `immutable` only with \
               hashed files.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.basis.pages {
        for exchange in [Some(&page.html), page.agent.as_ref()].into_iter().flatten() {
            let Some(response) = exchange.success() else { continue };
            if response.cache_directive("immutable").is_some() {
                let message = format!(
                    "The page has `Cache-Control: {}`: browsers do not look for a newer one, even at a \
                     reload",
                    response.header(http::header::CACHE_CONTROL)
                );
                findings.report(&[exchange], message);
            }
        }
    }
}
