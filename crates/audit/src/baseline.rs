//! Findings of an earlier audit, which a later one does not repeat.

use std::collections::HashSet;

use serde_json::Value;

use crate::rule::Finding;

/// The keys of an earlier audit's findings, so that a new report can leave out these findings.
#[derive(Clone, Debug, Default)]
pub struct Baseline(HashSet<String>);

impl Baseline {
    /// Reads the JSON lines of an earlier audit. Lines without a finding are skipped. The error is a sentence
    /// with the number of the first line that is not a JSON object.
    pub fn parse(text: &str) -> Result<Baseline, String> {
        let mut keys = HashSet::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let object: Value =
                serde_json::from_str(line).ok().filter(Value::is_object).ok_or_else(|| {
                    format!(
                        "line {} is not a JSON object: write the file with `frontdesk audit URL --json`",
                        index + 1
                    )
                })?;
            keys.extend(object["key"].as_str().map(str::to_owned));
        }
        Ok(Baseline(keys))
    }

    /// Whether the earlier audit had a finding of the same rule at the same path and query.
    pub fn contains(&self, finding: &Finding) -> bool {
        self.0.contains(&finding.key())
    }
}
