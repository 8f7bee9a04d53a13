//! Other sites cannot send requests with the credentials of a visitor.

use http::header::{ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN};

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::forms::FOREIGN_ORIGIN;

pub(super) static RULE: Rule = Rule {
    id: "api-cors-open",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "A CORS preflight from a foreign origin is not answered with that origin and \
             `Access-Control-Allow-Credentials: true`.",
    matters: "Otherwise any site could call the API on behalf of its visitors and read the responses (Fetch \
              Standard, \"CORS protocol and credentials\").",
    hurts: "People who are logged in, whose data other sites can read.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "List the origins that may send credentials, or remove `Access-Control-Allow-Credentials`: a \
               public form does not need it.",
    }],
    check,
};

/// Reports a preflight response that allows credentials for [`FOREIGN_ORIGIN`], or (as advice) for `*`.
fn check(survey: &Survey, findings: &mut Findings) {
    for preflight in survey.forms.operations.iter().filter_map(|tested| tested.preflight.as_ref()) {
        let Some(response) = preflight.response() else { continue };
        if response.header(ACCESS_CONTROL_ALLOW_CREDENTIALS) != "true" {
            continue;
        }
        let origin = response.header(ACCESS_CONTROL_ALLOW_ORIGIN);
        let path = preflight.url().path();
        if origin == FOREIGN_ORIGIN {
            let message = format!(
                "{path} allows the foreign origin {origin} to send credentials: allow only known origins"
            );
            findings.report(&[preflight], message);
        } else if origin == "*" {
            let message = format!(
                "{path} allows credentials for the origin `*`, which browsers reject: name the origins, or \
                 allow no credentials"
            );
            findings.report_as(Severity::Advice, &[preflight], message);
        }
    }
}
