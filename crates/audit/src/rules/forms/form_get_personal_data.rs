//! Forms with personal data are sent with POST.

use super::shared::{MAX_FORMS, is_address, personal_forms};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "form-get-personal-data",
    group: Group::Forms,
    severity: Severity::Broken,
    checks: "A form with a field for an e-mail address, a telephone number or a password has \
             `method=\"post\"`.",
    matters: "A form with GET puts its fields into the URL, which ends up in logs, the browser history and \
              `Referer` (RFC 9110 §17.9).",
    hurts: "People, whose data ends up in logs.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write `method=\"post\"` in the form, even if a script sends it.",
    }],
    check,
};

/// Judges the first [`MAX_FORMS`] personal forms of each page. A form with an `action` but no `method` is
/// advice.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        for (form, method) in personal_forms(page).into_iter().take(MAX_FORMS) {
            let action = form.attribute("action").unwrap_or_default();
            if method == "get" {
                let message =
                    "A form with an e-mail address, a phone number or a password uses GET: use POST";
                findings.report(&[&page.html], message);
            } else if method.is_empty() && is_address(action) {
                // Report this only as advice: a script may send the form with another method.
                let message = format!(
                    "The form for {action} has personal data and no `method`, so a browser without scripts \
                     sends it with GET: use POST"
                );
                findings.report_as(Severity::Advice, &[&page.html], message);
            }
        }
    }
}
