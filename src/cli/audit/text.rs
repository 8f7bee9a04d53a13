//! The report of an audit and the explanations of its rules, as text.

use std::io::{self, Write};

use anstyle::Style;

use crate::cli::diagnostics::{DIM, ERROR, GOOD, WARNING, counted};
use frontdesk_audit::{Exchange, Finding, Group, Report, Rule, Severity, rules};
use frontdesk_forms::text::visible;

/// Maximum number of findings per rule in the report.
const SHOWN_PER_RULE: usize = 5;

/// Response fields that the evidence shows.
const SHOWN_FIELDS: [&str; 14] = [
    "content-type",
    "content-encoding",
    "vary",
    "cache-control",
    "etag",
    "age",
    "cache-status",
    "cf-cache-status",
    "x-cache",
    "x-vercel-cache",
    "location",
    "link",
    "allow",
    "server",
];

/// Writes the number of pages and requests, and the findings by group, at most [`SHOWN_PER_RULE`] for each
/// rule; the findings of a rule must be adjacent. Then writes the submissions that were sent, and what was
/// not judged.
pub(super) fn write_report(report: &Report, has_evidence: bool, out: &mut dyn Write) -> io::Result<()> {
    let pages = counted(report.pages.len(), "page");
    writeln!(out, "{}: {pages}, {}", visible(&report.url), counted(report.requests, "request"))?;
    for group in Group::ALL {
        let findings: Vec<_> = report.findings.iter().filter(|f| f.rule.group == group).collect();
        if !findings.is_empty() {
            writeln!(out, "\n{}", group.title())?;
        }
        for same_rule in findings.chunk_by(|a, b| a.rule.id == b.rule.id) {
            for finding in same_rule.iter().take(SHOWN_PER_RULE) {
                write_finding(report, finding, has_evidence, out)?;
            }
            if same_rule.len() > SHOWN_PER_RULE {
                let more = same_rule.len() - SHOWN_PER_RULE;
                writeln!(out, "           … and {more} more of this rule (`--json` shows all)")?;
            }
        }
    }
    if !report.submissions.is_empty() {
        writeln!(out, "\nsubmitted")?;
    }
    for exchange in &report.submissions {
        writeln!(out, "  {}: {}", visible(exchange.url().path()), visible(&exchange.summary()))?;
    }
    if !report.not_judged.is_empty() {
        writeln!(out, "\nnot judged")?;
    }
    for note in &report.not_judged {
        let name = note.rule.map_or(note.group.title(), |rule| rule.id);
        writeln!(out, "  {name}: {}", visible(&note.reason))?;
    }
    Ok(())
}

/// Writes a finding on one line. With `has_evidence`, also writes its requests and responses.
fn write_finding(
    report: &Report,
    finding: &Finding,
    has_evidence: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let style = severity_style(finding.severity);
    let place = visible(&shorten(&finding.url, &report.url));
    let (word, message) = (finding.severity.word(), visible(&finding.message));
    writeln!(out, "  {style}{word:<7}{style:#}  {place}: {message} {DIM}[{}]{DIM:#}", finding.rule.id)?;
    if !has_evidence {
        return Ok(());
    }
    finding.evidence.iter().try_for_each(|exchange| write_evidence(exchange, out))
}

/// Writes the URL of a request, a summary, and the non-empty [`SHOWN_FIELDS`] of the response.
fn write_evidence(exchange: &Exchange, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "           {:>3}. {}", exchange.number, visible(exchange.url().as_str()))?;
    writeln!(out, "                {}", visible(&exchange.summary()))?;
    let Some(response) = exchange.response() else { return Ok(()) };
    for name in SHOWN_FIELDS {
        let value = response.header(name);
        if !value.is_empty() {
            writeln!(out, "                {DIM}{name}: {}{DIM:#}", visible(&value))?;
        }
    }
    Ok(())
}

fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Broken => ERROR,
        Severity::Advice => WARNING,
    }
}

/// Shortens a URL of the audited site to its path and query. Returns other URLs unchanged.
fn shorten(url: &str, site: &str) -> String {
    let origin = site.split('/').take(3).collect::<Vec<_>>().join("/");
    match url.strip_prefix(&origin) {
        Some("") => "/".to_owned(),
        Some(path) if path.starts_with('/') => path.to_owned(),
        _ => url.to_owned(),
    }
}

/// Writes how many findings there are, how much was not judged, how many more findings the baseline hides
/// (`known`), and a hint if there are findings.
pub(super) fn write_summary(report: &Report, known: usize, out: &mut dyn Write) -> io::Result<()> {
    let (broken, advice) = (report.count(Severity::Broken), report.count(Severity::Advice));
    match (broken + advice, report.not_judged.len()) {
        (0, 0) => writeln!(out, "{GOOD}fine:{GOOD:#} nothing to repair")?,
        (0, count) => {
            writeln!(
                out,
                "nothing to repair was found, but not everything could be judged ({})",
                counted(count, "reason")
            )?;
        }
        (_, 0) => writeln!(out, "{broken} broken, {advice} advice")?,
        (_, count) => writeln!(out, "{broken} broken, {advice} advice, {count} not judged")?,
    }
    if known > 0 {
        writeln!(out, "not shown: {} in the baseline", counted(known, "finding"))?;
    }
    if let Some(first) = report.findings.first() {
        let id = first.rule.id;
        writeln!(
            out,
            "hint: `frontdesk audit --explain {id}` says why the first finding matters and how to repair it; `--evidence` shows the requests and responses"
        )?;
    }
    Ok(())
}

/// Explains a rule in Markdown: its severity and requirement, the reason, the affected clients, and the
/// repairs for each platform.
pub(super) fn explain(rule: &Rule) -> String {
    let mut text = introduce(rule) + "\n";
    for fix in rule.fixes {
        text += &format!("- {}: {}\n", fix.platform.title(), fix.text);
    }
    text
}

fn introduce(rule: &Rule) -> String {
    let Rule { id, severity, checks, matters, hurts, .. } = rule;
    format!("### `{id}`\n\n*{}.* {checks} {matters} Affected: {hurts}\n", severity.word())
}

/// Explains all rules, grouped. For each rule, shows only the first fix, which suits any platform.
pub(super) fn explain_all() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let title = group.title();
        text += &format!("## {}{}\n", title[..1].to_ascii_uppercase(), &title[1..]);
        for rule in rules().filter(|rule| rule.group == group) {
            let fix = rule.fixes.first().map_or("", |fix| fix.text);
            text += &format!("\n{}\nFix: {fix}\n", introduce(rule));
        }
        text += "\n";
    }
    text.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_explains_every_rule() {
        let page = include_str!("../../../docs/pages/audit.md");
        assert!(
            page.ends_with(&explain_all()),
            "replace the rules in docs/pages/audit.md with the output of `frontdesk audit --explain all`"
        );
    }

    #[test]
    fn urls_of_the_site_are_shortened() {
        for (url, expected) in [
            ("https://example.com/a?b", "/a?b"),
            ("https://example.com", "/"),
            ("https://example.com.evil.example/", "https://example.com.evil.example/"),
            ("http://example.com/", "http://example.com/"),
        ] {
            assert_eq!(shorten(url, "https://example.com/docs/"), expected);
        }
    }
}
