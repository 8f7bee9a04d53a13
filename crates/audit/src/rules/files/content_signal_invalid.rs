//! Each `Content-Signal` can be read.

use super::shared::check_statements;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::usage_preferences::Syntax;

pub(super) static RULE: Rule = Rule {
    id: "content-signal-invalid",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "Each `Content-Signal`, in `robots.txt` and in responses, has the syntax of \
             contentsignals.org.",
    matters: "Crawlers ignore what they cannot parse: a preference against training has no effect, without \
              any error.",
    hurts: "Operators, whose preferences have no effect.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write, for example, `Content-Signal: search=yes, ai-input=yes, ai-train=no`.",
    }],
    check,
};

fn check(survey: &Survey, findings: &mut Findings) {
    check_statements(survey, Syntax::Signal, findings);
}
