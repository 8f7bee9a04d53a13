//! `llms.txt` fits into the context of an agent.

use super::shared::existing;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "llms-too-long",
    group: Group::Files,
    severity: Severity::Advice,
    checks: "`/llms.txt` has at most 50,000 characters.",
    matters: "Agents read the whole file, and cut what exceeds their context.",
    hurts: "Agents, which do not see the end of the list.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "List the pages that matter most, and link to a list for each section. The whole content \
               belongs in `llms-full.txt`.",
    }],
    check,
};

/// Maximum number of characters of `llms.txt`.
const MAX_LENGTH: usize = 50_000;

/// Reports an existing `llms.txt` ([`existing`]) with more than [`MAX_LENGTH`] characters.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some((llms, response)) = existing(survey.first_requests.llms.as_ref()) else { return };
    let length = response.text().chars().count();
    if length > MAX_LENGTH {
        findings.report(
            &[llms],
            format!(
                "/llms.txt has {length} characters, but agents may cut it: shorten it to at most {MAX_LENGTH}"
            ),
        );
    }
}
