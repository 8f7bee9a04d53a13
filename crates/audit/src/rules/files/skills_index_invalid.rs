//! The index of agent skills can be used.

use serde_json::Value;

use super::shared::{MAX_FINDINGS, read_json};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "skills-index-invalid",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`/.well-known/agent-skills/index.json` lists skills with names, descriptions and URLs that \
             resolve.",
    matters: "Agents read names and descriptions from the index, and then load the files (Agent Skills \
              Discovery 0.2.0). They cannot use a skill without a name, a description or a URL.",
    hurts: "Agents, which cannot use the skill.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Give each skill `name` (lowercase letters, digits, hyphens), `type`, `description`, `url` and \
               `digest`, and publish the file at `url`.",
    }],
    check,
};

/// Reports an index that is not JSON or lacks `skills`, its first [`MAX_FINDINGS`] faulty entries, and a
/// requested file that is missing. Ignores an index that is an HTML page or lacks status 200
/// ([`read_json`]).
fn check(survey: &Survey, findings: &mut Findings) {
    let Some((index, value)) = read_json(survey.files.skills_index.as_ref(), findings) else { return };
    let Some(skills) = value.get("skills").and_then(Value::as_array) else {
        findings.report(&[index], "The index of agent skills is JSON without the array `skills`: add it");
        return;
    };
    for (severity, message) in (1..).zip(skills).filter_map(fault).take(MAX_FINDINGS) {
        findings.report_as(severity, &[index], message);
    }
    let Some(skill) = &survey.files.skill else { return };
    let status = skill.exchange.response().map(|response| response.status.as_u16());
    if let Some(status @ (404 | 410)) = status {
        let url = skill.exchange.url();
        let message =
            format!("The index of agent skills names {url}, which returns {status}: publish the file");
        findings.report(&[&skill.exchange, index], message);
    }
}

/// The first fault of an entry, with its severity: `Advice` for an invalid name, otherwise `Broken`. The
/// number of the entry starts at 1.
fn fault((number, skill): (usize, &Value)) -> Option<(Severity, String)> {
    let text = |key: &str| skill.get(key).and_then(Value::as_str).unwrap_or_default();
    let has_address = !text("url").is_empty() || skill.get("files").is_some();
    let missing = ["name", "description"].into_iter().find(|key| text(key).is_empty());
    if let Some(missing) = missing.or((!has_address).then_some("url")) {
        let message =
            format!("Skill {number} in the index of agent skills has no `{missing}`, which is required");
        return Some((Severity::Broken, message));
    }
    let name = text("name");
    let message =
        || format!("The skill name `{name}` is invalid: use lowercase letters, digits and single hyphens");
    (!is_name(name)).then(|| (Severity::Advice, message()))
}

/// Whether a name has at most 64 bytes, and is made of lower-case letters, digits and single hyphens between
/// them (agentskills.io, "Specification").
fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    name.len() <= 64 && name.split('-').all(is_word)
}
