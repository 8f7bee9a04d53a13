//! `frontdesk audit`: checks from outside whether a site is right for people, agents and caches.

#![expect(clippy::disallowed_methods, reason = "a command reads the clock once")]

mod local_server;
mod text;

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;

use self::local_server::LocalServer;
use super::diagnostics::{exit_code, with_hint};
use frontdesk_audit::{
    Baseline, ExtraRoots, Options, Report, Severity, Url, audit, is_loopback, parse_target, rules,
};
use frontdesk_forms::text::{escape_unsafe_in_json, visible};
use frontdesk_process::progress_bar::Progress;
use frontdesk_site::fault::did_you_mean;

/// Maximum size, in bytes, of a baseline or of a file with certificate authorities.
const MAX_FILE: u64 = 256 << 20;

/// Header fields that frame a request or choose a representation. `--header` cannot set them.
const SET_BY_THE_AUDIT: [HeaderName; 13] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::IF_NONE_MATCH,
    header::ORIGIN,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::USER_AGENT,
];

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
pub(super) struct AuditOptions {
    /// URL of the site or of one of its pages; or a folder with a site or a build, which is served during the
    /// audit
    #[arg(value_name = "URL|DIR", required_unless_present = "explain")]
    target: Option<String>,
    /// Print one JSON object per line, with the requests and responses that show each finding
    #[arg(long)]
    json: bool,
    /// Report only findings that are not in this file, which an earlier audit wrote with `--json`
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Maximum number of requests
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_requests: u16,
    /// Number of pages to compare with their Markdown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pages: u16,
    /// Header field for every request, such as `Authorization: Basic …`; repeatable
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// `User-Agent` to send instead of that of `frontdesk-audit`
    #[arg(long, value_name = "UA")]
    user_agent: Option<HeaderValue>,
    /// PEM file with certificate authorities to trust in addition to the public ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show the requests and responses below each finding
    #[arg(long, conflicts_with = "json")]
    evidence: bool,
    /// Also send one real submission to each documented form, after confirmation
    #[arg(long)]
    submit: bool,
    /// Confirm `--submit` without a question
    #[arg(long, requires = "submit")]
    yes: bool,
    /// Explain a rule, or `all` rules, and how to repair a site; sends nothing
    #[arg(long, value_name = "RULE", conflicts_with = "target")]
    explain: Option<String>,
}

impl AuditOptions {
    /// The error for an invalid URL, or for `--submit` without `--yes` if standard input is not a terminal.
    /// `None` for a folder, or without a target.
    pub(super) fn usage_error(&self) -> Option<String> {
        let target = self.target.as_deref().filter(|target| !is_folder(target))?;
        if let Err(error) = parse_target(target) {
            let may_be_folder = !target.contains("://") && !target.contains('@');
            return Some(if may_be_folder { format!("{error}, and no folder has this name") } else { error });
        }
        let must_ask = self.submit && !self.yes;
        let message = "`--submit` sends real submissions: confirm that with `--yes`";
        (must_ask && !io::stdin().is_terminal()).then(|| message.to_owned())
    }
}

/// Prints the findings, or the explanation of a rule. Returns failure if a finding is *broken*; with
/// `--baseline`, if a new one is. Serves a folder during the audit. Fails if the site cannot be audited, or
/// if the operator does not confirm `--submit`.
pub(super) fn run(options: &AuditOptions) -> anyhow::Result<ExitCode> {
    if let Some(name) = &options.explain {
        return explain(name);
    }
    let baseline = options.baseline.as_deref().map(read_baseline).transpose()?;
    let target = options.target.as_deref().unwrap_or_default();
    // The server runs until this variable is dropped, after the audit.
    let server = is_folder(target).then(|| LocalServer::start(Path::new(target))).transpose()?;
    let url = match &server {
        Some(server) => server.url.clone(),
        None => parse_target(target).map_err(|error| anyhow!(error))?,
    };
    if options.submit && !options.yes && !confirm_submissions(&url)? {
        bail!("not confirmed: no test submission was sent, and the site was not audited");
    }
    let progress = Progress::start_if(!options.json, "Auditing");
    let mut report = take_report(&url, options)?;
    drop(progress);
    drop(server);
    let count = report.findings.len();
    report.findings.retain(|finding| baseline.as_ref().is_none_or(|baseline| !baseline.contains(finding)));
    let known = count - report.findings.len();
    if options.json {
        print_json(&report)?;
    } else {
        text::write_report(&report, options.evidence, &mut anstream::stdout().lock())?;
    }
    text::write_summary(&report, known, &mut anstream::stderr().lock())?;
    Ok(exit_code(report.count(Severity::Broken) == 0))
}

/// Audits the site. Sends requests to this computer without pauses ([`is_loopback`]).
fn take_report(url: &Url, options: &AuditOptions) -> anyhow::Result<Report> {
    let audit_options = Options {
        max_requests: options.max_requests.into(),
        pages: options.pages.into(),
        headers: options.headers.clone(),
        user_agent: options.user_agent.clone(),
        extra_roots: options.ca.as_deref().map(read_authorities).transpose()?,
        submits: options.submit,
        pace: if is_loopback(url) { Duration::ZERO } else { Options::default().pace },
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The seed makes the URLs that bypass caches differ from those of earlier audits.
    let seed = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
    // Escape control characters: the error's message may quote what the site sent.
    runtime.block_on(audit(url, &audit_options, seed)).map_err(|error| anyhow!(visible(&error.to_string())))
}

/// Whether the argument names an existing folder. A name such as `example.com` is a folder only if there is
/// one; a URL with `://` never is.
fn is_folder(target: &str) -> bool {
    !target.contains("://") && Path::new(target).is_dir()
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let text =
        String::from_utf8(read_file(path)?).with_context(|| format!("cannot read {}", path.display()))?;
    Baseline::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn read_authorities(path: &Path) -> anyhow::Result<ExtraRoots> {
    ExtraRoots::parse(&read_file(path)?).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// Reads a file. Fails if it has more than [`MAX_FILE`] bytes.
fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > MAX_FILE {
        bail!("{} is larger than {} MiB, the maximum", path.display(), MAX_FILE >> 20);
    }
    Ok(bytes)
}

/// Parses `NAME: VALUE`. Refuses the names in [`SET_BY_THE_AUDIT`].
fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("expected `NAME: VALUE`")?;
    let name =
        HeaderName::try_from(name.trim()).map_err(|_| format!("`{name}` is not a valid header name"))?;
    if SET_BY_THE_AUDIT.contains(&name) {
        return Err(format!("the audit sets the header `{name}` itself, so it cannot be changed"));
    }
    let value = HeaderValue::try_from(value.trim()).map_err(|_| "the value has control characters")?;
    Ok((name, value))
}

/// Asks on standard error whether real submissions may be sent, and waits for the answer. Only `y`, `Y` and
/// `yes` mean yes.
fn confirm_submissions(url: &Url) -> anyhow::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "Send one test submission to each documented form of {url}? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Prints the findings, and notes about checks that were not possible, one JSON object per line. Leaves out
/// the submissions that were sent.
fn print_json(report: &Report) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    for finding in &report.findings {
        writeln!(stdout, "{}", escape_unsafe_in_json(&finding.to_json().to_string()))?;
    }
    for note in &report.not_judged {
        writeln!(stdout, "{}", escape_unsafe_in_json(&note.to_json().to_string()))?;
    }
    Ok(())
}

/// Prints the explanation of one rule, or of `all`, as Markdown. Fails if there is no such rule.
fn explain(name: &str) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    if name == "all" {
        stdout.write_all(text::explain_all().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(rule) = rules().find(|rule| rule.id == name) else {
        let all = || "`frontdesk audit --explain all` lists the rules".to_owned();
        let hint = did_you_mean(name, rules().map(|rule| rule.id), all);
        return Err(with_hint(anyhow!("there is no rule `{name}`"), hint));
    };
    stdout.write_all(text::explain(rule).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
