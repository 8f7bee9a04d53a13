//! The site has a contact for reports of vulnerabilities.

use crate::group::Group;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "security-txt-missing",
    group: Group::Files,
    severity: Severity::Advice,
    checks: "The site has `/.well-known/security.txt`.",
    matters: "People and agents that find a vulnerability look there for a contact (RFC 9116).",
    hurts: "Operators, who do not learn of vulnerabilities.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Publish `/.well-known/security.txt` as `text/plain`, with `Contact: mailto:…` and \
                   `Expires: …` within a year.",
        },
        Fix { platform: Platform::Frontdesk, text: "Set `operator.security_email` or `operator.email`." },
    ],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    let Some(file) = &survey.files.security_txt else { return };
    let status = file.response().map(|response| response.status.as_u16());
    if matches!(status, Some(404 | 410)) {
        findings.report(
            &[file],
            "/.well-known/security.txt does not exist: publish it with a contact for reports of \
             vulnerabilities",
        );
    }
}
