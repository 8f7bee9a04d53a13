//! JSON with a `charset` parameter is accepted.

use http::StatusCode;

use super::shared::name;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "api-charset-refused",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "An operation that takes JSON also takes it as `application/json; charset=utf-8`.",
    matters: "Many HTTP libraries add the parameter, which has no effect on JSON (RFC 8259 §11). A comparison \
              with the whole field refuses them.",
    hurts: "Programs and agents, whose messages are refused although they are valid.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Compare only the media type before the first `;`, without regard to case (RFC 9110 §8.3.1).",
    }],
    check,
};

/// Reports a 415 response to JSON with `charset=utf-8` if the operation reads JSON without it: an invalid
/// body without the parameter got 2xx, 400 or 422.
fn check(survey: &Survey, findings: &mut Findings) {
    for tested in &survey.forms.operations {
        // `malformed` is the response to `{` without `charset`, and `empty` is the response to `{}` with it.
        let (Some(malformed), Some(empty)) = (&tested.malformed, &tested.empty) else { continue };
        let (Some(plain), Some(with_charset)) = (malformed.response(), empty.response()) else { continue };
        // Both bodies are invalid, so if only one request gets 415, its media type must be the reason.
        let is_plain_read = matches!(plain.status.as_u16(), 200..=299 | 400 | 422);
        if with_charset.status == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_plain_read {
            let message = format!(
                "{} returns 415 for JSON with `charset=utf-8`, but {} without: the parameter must be ignored",
                name(tested),
                plain.status.as_u16()
            );
            findings.report(&[empty, malformed], message);
        }
    }
}
