//! `security.txt` has what RFC 9116 requires.

use frontdesk_convert::Url;
use jiff::Timestamp;

use super::shared::{MAX_FINDINGS, security_fields};
use crate::exchange::Response;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "security-txt-invalid",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`/.well-known/security.txt` is `text/plain`, has a `Contact` that is a URI, and one \
             `Expires`.",
    matters: "Without a contact, vulnerabilities cannot be reported (RFC 9116 §2.5.3). Without a valid \
              expiry date, readers cannot know whether the file is current (§2.5.5).",
    hurts: "People who report vulnerabilities, who find no contact; operators, who get no report.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write lines such as `Contact: mailto:security@example.com` and `Expires: \
               2027-01-01T00:00:00Z`, and serve the file as `text/plain; charset=utf-8`.",
    }],
    check,
};

/// Reports a missing `Contact`. Invalid contacts among the first [`MAX_FINDINGS`], a missing, invalid or
/// repeated `Expires`, and another media type are advice. Ignores HTML pages and statuses other than 200
/// ([`security_fields`]).
fn check(survey: &Survey, findings: &mut Findings) {
    let Some((file, fields)) = security_fields(survey) else { return };
    let values = |name: &str| -> Vec<&String> {
        fields.iter().filter(|(own, _)| own == name).map(|(_, value)| value).collect()
    };
    let (contacts, expires) = (values("contact"), values("expires"));
    if contacts.is_empty() {
        findings.report(&[file], "security.txt has no `Contact`: add one, which is the purpose of the file");
    }
    let mut advise = |message: String| findings.report_as(Severity::Advice, &[file], message);
    for contact in contacts.into_iter().take(MAX_FINDINGS) {
        if contact.starts_with("http:") {
            advise(format!("security.txt has the contact {contact}: it must begin with `https:`"));
        } else if Url::parse(contact).is_err() {
            advise(format!(
                "security.txt has the contact {contact}, which is not a URI: begin it with `mailto:` or \
                 `https:`"
            ));
        }
    }
    match expires[..] {
        [expires] if expires.parse::<Timestamp>().is_err() => {
            advise(format!(
                "security.txt expires on `{expires}`, which is not a time: write one such as \
                 `2027-01-01T00:00:00Z`"
            ));
        }
        [_] => {}
        _ => advise(format!("security.txt has {} `Expires` lines: exactly one is required", expires.len())),
    }
    let kind = file.response().map(Response::media_type).unwrap_or_default();
    if kind != "text/plain" {
        let kind = if kind.is_empty() { "without a media type".to_owned() } else { format!("as `{kind}`") };
        advise(format!("security.txt is sent {kind}: `text/plain` is required"));
    }
}
