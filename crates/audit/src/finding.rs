//! What a rule found.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::exchange::Exchange;
use crate::rule::Rule;

/// How much a finding hurts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// An agent, a browser or a cache gets the wrong thing.
    Broken,
    /// A change would help.
    Advice,
}

impl Severity {
    /// The word of the report and of JSON.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Broken => "broken",
            Severity::Advice => "advice",
        }
    }
}

/// A defect at a URL, with the exchanges that show it.
#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    pub url: String,
    /// One sentence on one line: what a client asked, what it got, and what would be right.
    pub message: String,
    pub evidence: Vec<Arc<Exchange>>,
}

impl Finding {
    /// The finding as an object for one line of JSON. `key` identifies it in a baseline.
    pub fn to_json(&self) -> Value {
        let evidence: Vec<_> = self.evidence.iter().map(|exchange| evidence_json(exchange)).collect();
        json!({
            "severity": self.severity.word(),
            "rule": self.rule.id,
            "group": self.rule.group.title(),
            "url": self.url,
            "message": self.message,
            "key": self.key(),
            "fix": self.rule.fixes.first().map(|fix| fix.text),
            "evidence": evidence,
        })
    }

    /// The same for the same defect on another host and in a later audit: the rule and the path, without the
    /// unused queries that the audit adds.
    pub fn key(&self) -> String {
        let path = self
            .url
            .split_once("://")
            .map_or(&*self.url, |(_, rest)| rest.find('/').map_or("/", |start| &rest[start..]));
        let path = path
            .split_once(crate::client::FRESH_QUERY)
            .map_or(path, |(path, _)| path.trim_end_matches(['?', '&']));
        format!("{} {path}", self.rule.id)
    }
}

fn evidence_json(exchange: &Exchange) -> Value {
    let fields = |headers: &mut dyn Iterator<Item = (String, String)>| -> Vec<Value> {
        headers.map(|(name, value)| json!([name, value])).collect()
    };
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let sent = &mut exchange.request.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let mut evidence = json!({
        "number": exchange.number,
        "method": exchange.request.method.as_str(),
        "url": exchange.url().as_str(),
        "request_headers": fields(sent),
    });
    match &exchange.outcome {
        Ok(response) => {
            let came = &mut response.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
            evidence["status"] = response.status.as_u16().into();
            evidence["response_headers"] = fields(came).into();
            evidence["body_start"] = response.text().chars().take(200).collect::<String>().into();
        }
        Err(error) => evidence["error"] = error.clone().into(),
    }
    evidence
}
