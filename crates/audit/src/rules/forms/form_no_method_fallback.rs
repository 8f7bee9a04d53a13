//! Forms work without scripts.

use super::shared::{MAX_FORMS, is_address, personal_forms};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "form-no-method-fallback",
    group: Group::Forms,
    severity: Severity::Advice,
    checks: "A form with personal data has `action` and `method=\"post\"`.",
    matters: "Agents and browsers without scripts submit a form by its attributes (HTML Standard, \"Form \
              submission\"). Without them, the data goes only into the URL of the page.",
    hurts: "People whose script failed to load, and agents, whose message is lost.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Write `method=\"post\"` and `action`, and handle the POST on the server. The script may \
                   still send JSON.",
        },
        Fix { platform: Platform::Frontdesk, text: "Set `forms.html_posts = true`." },
    ],
    check,
};

/// Reports the personal forms, among the first [`MAX_FORMS`] of each page, that have neither a `method` nor
/// an `action` that is a URL.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        for (form, method) in personal_forms(page).into_iter().take(MAX_FORMS) {
            if method.is_empty() && !is_address(form.attribute("action").unwrap_or_default()) {
                let message =
                    "A form has neither `action` nor `method`, so only a script can send it: add both";
                findings.report(&[&page.html], message);
            }
        }
    }
}
