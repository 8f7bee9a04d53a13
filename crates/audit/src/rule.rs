//! The description of a rule.

use std::sync::Arc;

use crate::exchange::Exchange;
use crate::finding::{Finding, Severity};
use crate::survey::Survey;

/// The parts of an audit, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Caches,
    Negotiation,
    Parity,
    Links,
    Files,
    Forms,
    Basics,
}

impl Group {
    pub const ALL: [Group; 7] = [
        Group::Caches,
        Group::Negotiation,
        Group::Parity,
        Group::Links,
        Group::Files,
        Group::Forms,
        Group::Basics,
    ];

    /// The heading of the report, and the group's name in JSON.
    pub fn title(self) -> &'static str {
        match self {
            Group::Caches => "caches",
            Group::Negotiation => "negotiation",
            Group::Parity => "parity",
            Group::Links => "links",
            Group::Files => "files",
            Group::Forms => "forms",
            Group::Basics => "basics",
        }
    }
}

/// Where a fix applies.
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
    /// Sentences; lines of configuration are in backticks.
    pub text: &'static str,
}

/// A check. Each has a file in `rules/`.
#[derive(Debug)]
pub struct Rule {
    /// The stable name: words in lower case with hyphens.
    pub id: &'static str,
    pub group: Group,
    /// The severity of its findings; a rule may lower it for a finding that hurts less.
    pub severity: Severity,
    /// One sentence: what is checked, as a statement about a correct site.
    pub checks: &'static str,
    /// Why it matters, with the standard that it follows.
    pub matters: &'static str,
    /// Who is hurt: people, agents, search engines, operators.
    pub hurts: &'static str,
    /// How to repair it; the first applies to any platform.
    pub fixes: &'static [Fix],
    /// Reports the defects that the survey shows. Reads no clock and sends nothing.
    pub check: fn(&Survey, &mut Findings),
}

/// The most characters of a finding's message; longer ones are cut.
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

    /// Whether nothing was reported yet.
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

    /// Reports a defect at another URL than that of the first exchange. Cuts long messages, and replaces
    /// control characters.
    pub fn report_at(
        &mut self,
        severity: Severity,
        url: impl Into<String>,
        evidence: &[&Arc<Exchange>],
        message: impl Into<String>,
    ) {
        let evidence = evidence.iter().map(|&exchange| exchange.clone()).collect();
        // Messages quote what the site sent.
        let message = message.into().replace(char::is_control, " ");
        let message = message.chars().take(MAX_MESSAGE).collect();
        let finding = Finding { rule: self.rule, severity, url: url.into(), message, evidence };
        // The same defect may show in several exchanges.
        if !self.found.iter().any(|other| (&other.url, &other.message) == (&finding.url, &finding.message)) {
            self.found.push(finding);
        }
    }

    /// Notes that this rule could not be applied, with a reason that is a clause.
    pub fn not_judged(&mut self, reason: impl Into<String>) {
        self.not_judged.push(reason.into());
    }
}
