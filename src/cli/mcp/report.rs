//! The tools that report on the inbox and the site: stats, doctor and check. They contact no other system
//! than the inbox's database.

use jiff::Zoned;
use serde_json::{Value, json};

use super::arguments::ToolArguments;
use super::session::{McpSession, ToolError};
use crate::cli::inbox::open_inbox;
use crate::cli::inbox::stats::{counts_object, first_day};
use crate::cli::stats::views_object;
use crate::cli::{check, config_needs, doctor};
use frontdesk_config::Config;
use frontdesk_deliver::TransportOptions;

/// The default number of days that statistics cover.
pub(super) const DAYS: u16 = 30;
/// The maximum number of days that statistics cover.
pub(super) const MAX_DAYS: u16 = 400;
/// Maximum number of pages and of referring hosts in statistics.
const MAX_ROWS: usize = 20;
/// Maximum length of a page's path, in characters.
const MAX_PATH: usize = 1000;
/// Maximum number of faults that are returned.
const MAX_FAULTS: usize = 100;

/// Counts submissions, deliveries and page views of the last `days` days; page views of one page if `page` is
/// given. The totals of submissions and deliveries cover all days.
#[expect(clippy::disallowed_methods, reason = "a command reads the clock")]
pub(super) fn stats(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let days = arguments.number("days", 1..=MAX_DAYS)?.unwrap_or(DAYS);
    let page = arguments.word("page", MAX_PATH)?;
    let config = session.load_configuration(config_needs::STORE)?;
    let inbox = open_inbox(&config.store.url)?;
    let now = Zoned::now();
    let mut result = json!({
        "submissions": counts_object(inbox.as_ref(), &now, days)?,
        "page_views": views_object(inbox.as_ref(), first_day(&now, days), page.as_deref(), MAX_ROWS)?,
    });
    if !config.web.count_views {
        result["note"] = "Page views are not being counted: `server.count_views` is false.".into();
    }
    Ok(result)
}

/// Checks the inbox, the canary's last run, whether a channel is configured, and the secret of shared limits.
/// Lists what it did not check because that would contact other systems. Fails if the configuration has any
/// error.
pub(super) fn check_inbox(session: &McpSession, _: &mut ToolArguments) -> Result<Value, ToolError> {
    let config = session.load_configuration(config_needs::EVERYTHING)?;
    let inbox = doctor::examine_inbox(&config)?;
    let mut findings: Vec<(String, doctor::CheckResult)> =
        inbox.into_iter().map(|finding| ("inbox".to_owned(), finding)).collect();
    findings.extend(doctor::examine_canary(&config)?);
    if config.channels.is_empty() {
        let none = "none is configured: submissions stay in the inbox, and no message is sent".to_owned();
        findings.push(("channels".to_owned(), doctor::CheckResult::Unknown(none)));
    }
    if let Some(shared) = &config.limits.shared {
        findings.push(("limits.shared_secret".to_owned(), shared.describe_hash_secret().into()));
    }
    let findings: Vec<Value> = findings
        .into_iter()
        .map(|(subject, finding)| {
            let (result, text) = finding.word_and_text();
            json!({ "subject": subject, "result": result, "text": text })
        })
        .collect();
    Ok(json!({
        "is_fine": findings.iter().all(|finding| finding["result"] != "fix"),
        "findings": findings,
        "not_checked": unchecked(&config),
        "note": NOTE,
    }))
}

/// Says what the tool `doctor` does not check, and which command or tool checks it instead.
const NOTE: &str = "This tool contacts no channel, name server, Redis server or rspamd. `frontdesk doctor` on the command line does. The tool `check` reports faults of certificates, and files with secrets that every user can read.";

/// Describes the checks of channels, the Redis server and rspamd, which only `frontdesk doctor` on the
/// command line makes.
fn unchecked(config: &Config) -> Vec<String> {
    let channels = config.channels.iter().map(|channel| {
        let records = match channel.kind {
            TransportOptions::Smtp(_) => ", and the DNS records of the sender's domain",
            _ => "",
        };
        format!("whether channel {} ({}) delivers{records}", channel.name, channel.kind.name())
    });
    let shared = config.limits.shared.iter().map(|_| "whether `limits.shared_url` responds".to_owned());
    let rspamd = config.intake.rspamd.iter().map(|_| "whether `screening.rspamd_url` responds".to_owned());
    channels.chain(shared).chain(rspamd).collect()
}

/// Checks the site's configuration and content; with `drafts`, also unpublished pages. Returns at most
/// [`MAX_FAULTS`] faults, and the number of all.
pub(super) fn check_site(session: &McpSession, arguments: &mut ToolArguments) -> Result<Value, ToolError> {
    let drafts = arguments.flag("drafts")?;
    let report = check::examine(&session.folder, &session.flags(), drafts);
    let shown = &report.faults[..report.faults.len().min(MAX_FAULTS)];
    Ok(json!({
        "is_fine": report.faults.is_empty(),
        "pages": report.pages,
        "fault_count": report.faults.len(),
        "faults": shown,
        "notes": report.notes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctor_lists_every_system_that_it_does_not_contact() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[limits]\nshared_url = \"redis://127.0.0.1\"\n\
                    [screening]\nrspamd_url = \"http://127.0.0.1:11333\"\n\
                    [[channel]]\nname = \"crm\"\nkind = \"webhook\"\nurl = \"https://crm.example.com/x\"\n";
        std::fs::write(folder.path().join(frontdesk_config::FILE_NAME), text).unwrap();
        let (config, _) = Config::load(folder.path(), [], &[], None);
        assert_eq!(
            unchecked(&config),
            [
                "whether channel crm (webhook) delivers",
                "whether `limits.shared_url` responds",
                "whether `screening.rspamd_url` responds",
            ]
        );
    }
}
