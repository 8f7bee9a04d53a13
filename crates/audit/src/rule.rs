//! Rules: their descriptions, and what they find.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::exchange::{Exchange, without_fresh_queries};
use crate::rule_group::Group;
use crate::survey::Survey;

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// An agent, a browser or a cache gets a wrong response.
    Broken,
    /// The site works, but a change would improve it.
    Advice,
}

impl Severity {
    /// The name of the severity in the report and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Broken => "broken",
            Severity::Advice => "advice",
        }
    }
}

/// The server or the hosting service whose configuration a fix changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Any server or generator.
    Any,
    Nginx,
    Caddy,
    Cloudflare,
    Netlify,
    Vercel,
    Apache,
    Varnish,
    Frontdesk,
}

impl Platform {
    pub fn title(self) -> &'static str {
        match self {
            Platform::Any => "in general",
            Platform::Nginx => "nginx",
            Platform::Caddy => "Caddy",
            Platform::Cloudflare => "Cloudflare",
            Platform::Netlify => "Netlify",
            Platform::Vercel => "Vercel",
            Platform::Apache => "Apache",
            Platform::Varnish => "Varnish",
            Platform::Frontdesk => "frontdesk",
        }
    }
}

/// How to repair a defect on one platform.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    pub platform: Platform,
    /// One or more sentences, with configuration lines in backticks.
    pub text: &'static str,
}

/// A check of a site. Each rule has a file in `rules/`.
#[derive(Debug)]
pub struct Rule {
    /// The stable name of the rule: words in lower case with hyphens.
    pub id: &'static str,
    pub group: Group,
    /// The severity of the rule's findings; a rule may report a less severe finding as advice.
    pub severity: Severity,
    /// One sentence: what is checked, as a statement about a correct site.
    pub checks: &'static str,
    /// Why the check matters, and the standard that it is based on.
    pub matters: &'static str,
    /// The people and programs that a defect affects, and how: `Agents, which get HTML; people, who see raw
    /// Markdown.`
    pub hurts: &'static str,
    /// How to repair the defect; the first fix applies to any platform.
    pub fixes: &'static [Fix],
    /// Reports the defects that the survey shows. Reads no clock and sends no requests.
    pub check: fn(&Survey, &mut Findings),
}

/// A defect at a URL, with the exchanges that show it.
#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    pub severity: Severity,
    /// The URL of the defect, without the cache-busting query that the audit adds.
    pub url: String,
    /// One sentence on one line: what a client requested, what it got, and what is right.
    pub message: String,
    pub evidence: Vec<Arc<Exchange>>,
}

impl Finding {
    /// The finding as a JSON object. Its member `key` identifies the finding in a baseline. `fix` has only
    /// the first fix, which applies to any platform.
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

    /// Identifies the defect on any host and in later audits: the rule and the path with its query. All
    /// findings of a rule at one path share a key.
    pub fn key(&self) -> String {
        let path = self
            .url
            .split_once("://")
            .map_or(&*self.url, |(_, rest)| rest.find('/').map_or("/", |start| &rest[start..]));
        format!("{} {path}", self.rule.id)
    }
}

/// An exchange as JSON, with at most 200 characters of the body. Lacks the header fields that the client
/// adds, so that the operator's credentials do not appear.
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

/// Maximum number of characters of a finding's message; longer messages are truncated.
const MAX_MESSAGE: usize = 500;

/// Collects the findings of one rule.
pub struct Findings {
    rule: &'static Rule,
    pub(crate) found: Vec<Finding>,
    pub(crate) not_judged: Vec<String>,
}

impl Findings {
    pub(crate) fn new(rule: &'static Rule) -> Findings {
        Findings { rule, found: Vec::new(), not_judged: Vec::new() }
    }

    /// Whether the rule has reported no defect so far. Also true for a rule that could not be judged.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Reports a defect at the URL of the first exchange, with the severity of the rule.
    pub fn report(&mut self, evidence: &[&Arc<Exchange>], message: impl Into<String>) {
        self.report_as(self.rule.severity, evidence, message);
    }

    /// Like [`Findings::report`], with another severity.
    pub fn report_as(&mut self, severity: Severity, evidence: &[&Arc<Exchange>], message: impl Into<String>) {
        let url = evidence.first().map(|exchange| exchange.url().to_string()).unwrap_or_default();
        self.report_at(severity, url, evidence, message);
    }

    /// Reports a defect at another URL than that of the first exchange. Cuts long messages, replaces control
    /// characters, and removes the cache-busting queries that the audit adds, which only the evidence shows.
    /// Ignores a second finding with the same URL and message.
    pub fn report_at(
        &mut self,
        severity: Severity,
        url: impl Into<String>,
        evidence: &[&Arc<Exchange>],
        message: impl Into<String>,
    ) {
        let evidence = evidence.iter().map(|&exchange| exchange.clone()).collect();
        // Messages quote text from the site, which may contain control characters.
        let message = without_fresh_queries(&message.into()).replace(char::is_control, " ");
        let message = message.chars().take(MAX_MESSAGE).collect();
        let url = without_fresh_queries(&url.into());
        let finding = Finding { rule: self.rule, severity, url, message, evidence };
        // Several exchanges may show the same defect; report it once.
        if !self.found.iter().any(|other| (&other.url, &other.message) == (&finding.url, &finding.message)) {
            self.found.push(finding);
        }
    }

    /// Records that this rule could not be judged, with a clause as the reason.
    pub fn not_judged(&mut self, reason: impl Into<String>) {
        self.not_judged.push(reason.into());
    }
}
