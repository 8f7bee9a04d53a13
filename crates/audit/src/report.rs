//! The result of an audit.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::exchange::Exchange;
use crate::rule::{Finding, Rule, Severity};
use crate::rule_group::Group;

/// A rule or a group that could not be judged, and the reason.
#[derive(Clone, Debug)]
pub struct NotJudged {
    pub group: Group,
    /// The rule, or `None` if requests of the group were not sent.
    pub rule: Option<&'static Rule>,
    /// The reason as a clause: no capital letter at the start, and no period at the end.
    pub reason: String,
}

impl NotJudged {
    /// The entry as a JSON object for one line of the report.
    pub fn to_json(&self) -> Value {
        json!({
            "severity": "not judged",
            "rule": self.rule.map(|rule| rule.id),
            "group": self.group.title(),
            "message": self.reason,
        })
    }
}

/// The result of an audit: its findings in the order of groups and rules, and the requests it sent.
#[derive(Debug)]
pub struct Report {
    /// The URL that was audited, after redirects.
    pub url: String,
    pub findings: Vec<Finding>,
    pub not_judged: Vec<NotJudged>,
    /// The real submissions that were sent because the operator asked for them.
    pub submissions: Vec<Arc<Exchange>>,
    /// The number of requests that were sent, including TLS handshakes without a request.
    pub requests: usize,
    /// The URLs of the pages that were compared.
    pub pages: Vec<String>,
}

impl Report {
    /// The number of findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}
