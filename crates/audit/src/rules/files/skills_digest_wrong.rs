//! The digest of a skill is that of its file.

use aws_lc_rs::digest::{SHA256, digest};

use super::shared::existing;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "skills-digest-wrong",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "The `digest` in the index of agent skills is the SHA-256 of the file that is served.",
    matters: "Clients must not use a file whose digest differs (Agent Skills Discovery, \"Integrity and \
              Verification\"), because it may have been tampered with.",
    hurts: "Agents, which refuse the skill.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Compute the digests from the published files in the last step of the build. A proxy must not \
               change these files, for example by minifying them.",
    }],
    check,
};

/// Reports the requested skill if its file exists and has another SHA-256 digest than in the index. A file
/// that is not whole or not decoded is noted as not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    let Some(skill) = &survey.files.skill else { return };
    let Some((exchange, response)) = existing(Some(&skill.exchange)) else { return };
    if !response.is_whole || !response.encoding().trim_start_matches("gzip").is_empty() {
        findings.not_judged(format!("the skill `{}` did not arrive completely", skill.name));
        return;
    }
    let served = digest(&SHA256, &response.body);
    let served: String = served.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let served = format!("sha256:{served}");
    if !served.eq_ignore_ascii_case(&skill.digest) {
        let evidence: Vec<_> = std::iter::once(exchange).chain(&survey.files.skills_index).collect();
        let (name, listed) = (&skill.name, &skill.digest);
        let message = format!(
            "The index gives the skill `{name}` the digest `{listed}`, but the served file has `{served}`: \
             update the index"
        );
        findings.report(&evidence, message);
    }
}
