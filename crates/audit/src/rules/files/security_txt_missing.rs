//! The site has a contact for reports of vulnerabilities.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "security-txt-missing",
    group: Group::Files,
    severity: Severity::Advice,
    checks: "A public site at the root of its host has `/.well-known/security.txt`.",
    matters: "People and agents that find a vulnerability look there for the contact (RFC 9116).",
    hurts: "The operator, who does not learn of the vulnerability.",
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

/// Reports a missing `security.txt` (404 or 410) for the home page of a public `https` site.
fn check(survey: &Survey, findings: &mut Findings) {
    // Skip sites at private addresses. Skip sites in a folder, because their owners may not control the host.
    let url = &survey.first_requests.url;
    if !survey.basics.is_public || url.scheme() != "https" || url.path() != "/" {
        return;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::fixtures::{exchange, found, page, public, response, survey};
    use crate::survey::basics::BasicsSurvey;

    #[test]
    fn only_public_sites_need_a_contact() {
        for (url, basics, status, expected) in [
            ("https://example.com/", public(), 404, vec![Severity::Advice]),
            ("https://example.com/", public(), 200, vec![]),
            ("https://example.com/docs/", public(), 404, vec![]),
            ("http://example.com/", public(), 404, vec![]),
            ("https://example.com/", BasicsSurvey::default(), 404, vec![]),
        ] {
            let mut survey = survey(&page(url, &[], ""), basics);
            let file = exchange("https://example.com/.well-known/security.txt", response(status, &[], "x"));
            survey.files.security_txt = Some(file);
            assert_eq!(found(&RULE, &survey), expected, "{url} {status}");
        }
    }
}
