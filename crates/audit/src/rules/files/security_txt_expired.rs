//! `security.txt` has not expired.

use jiff::Timestamp;

use super::shared::security_fields;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "security-txt-expired",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "The `Expires` of `/.well-known/security.txt` is in the future.",
    matters: "After this time, the file should not be used (RFC 9116 §2.5.5), so reports of vulnerabilities \
              find no contact.",
    hurts: "People who report vulnerabilities, who find no contact; operators, who get no report.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Let each deployment set a date less than a year ahead: a date written by hand will expire \
                   again.",
        },
        Fix {
            platform: Platform::Frontdesk,
            text: "`Expires` is 180 days after the site was loaded: reload the site, or restart the server.",
        },
    ],
    check,
};

/// Reports the first `Expires` of `security.txt` if it is in the past. Ignores a value that is not a time.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some((file, fields)) = security_fields(survey) else { return };
    for (_, value) in fields.iter().filter(|(name, _)| name == "expires").take(1) {
        if value.parse::<Timestamp>().is_ok_and(|expires| expires < survey.files.now) {
            findings.report(
                &[file],
                format!("security.txt expired on {value}, so it should not be used: renew `Expires`"),
            );
        }
    }
}
