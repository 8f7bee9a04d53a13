//! Each `Content-Usage` can be read.

use super::shared::check_statements;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::usage_preferences::Syntax;

pub(super) static RULE: Rule = Rule {
    id: "content-usage-invalid",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "Each `Content-Usage`, in `robots.txt` and in responses, has the syntax of \
             draft-ietf-aipref-vocab.",
    matters: "The field is a structured dictionary (RFC 9651): one syntax error invalidates all of it, and \
              only the values `y` and `n` have a meaning.",
    hurts: "Operators, whose preferences have no effect.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write, for example, `Content-Usage: train-ai=n, search=y`; in `robots.txt` with a path before \
               it: `Content-Usage: / train-ai=n`.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    check_statements(survey, Syntax::Usage, findings);
}
