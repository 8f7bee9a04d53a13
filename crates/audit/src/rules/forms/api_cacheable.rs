//! Responses to submissions are not stored by caches.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-cacheable",
    group: Group::Forms,
    severity: Severity::Advice,
    checks: "Caches must not store the responses of an operation with POST.",
    matters: "Caches may store a response to POST that has a lifetime (RFC 9110 §9.3.3), and a stored 404 or \
              405 outlives the repair (RFC 9111 §4.2.2).",
    hurts: "People, who get the response to another request.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `Cache-Control: no-store` with all responses of the API.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`add_header Cache-Control no-store always;` in the `location` of the API, without \
                   `expires`.",
        },
    ],
    check,
};

/// Reports each response to a valid or invalid POST, or to an undocumented GET, that shared caches may store
/// for longer than 0 seconds.
fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        let get = tested.get.iter().filter(|_| !tested.describes_get);
        for exchange in tested.refusals().chain(get).chain(&tested.submission) {
            let Some(response) = exchange.response() else { continue };
            if let Some(seconds) = response.shared_lifetime().filter(|seconds| *seconds > 0) {
                let (method, path) = (&exchange.request.method, tested.url.path());
                let message = format!(
                    "Caches may store the response to {method} {path} for {seconds} seconds: send \
                     `Cache-Control: no-store`"
                );
                findings.report(&[exchange], message);
            }
        }
    }
}
