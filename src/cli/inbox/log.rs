//! `frontdesk inbox log` lists what users changed.

use std::process::ExitCode;

use serde_json::json;

use super::command_context::Console;
use crate::cli::diagnostics::counted;
use crate::cli::text_width::{columns, pad};
use frontdesk_desk::submission_json as json_lines;
use frontdesk_desk::time::{format_local, format_utc};
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{LogEntry, OperatorAction};

/// How many entries of the log one query reads.
const PAGE: usize = 200;

/// Prints the newest entries of the operator log, newest first: all, or at most `limit`. Prints nothing if
/// there is no inbox.
pub(super) fn print(
    as_json: bool,
    limit: Option<usize>,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let Some(inbox) = console.inbox.clone() else { return Ok(ExitCode::SUCCESS) };
    let (mut before, mut left) = (None, limit.unwrap_or(usize::MAX));
    while left > 0 {
        let page = inbox.operator_log(before, PAGE.min(left))?;
        let user = page.iter().map(|entry| columns(&visible(&entry.user))).max().unwrap_or_default();
        for entry in &page {
            if as_json {
                writeln!(console.out, "{}", json_lines::to_line(&log_object(entry)))?;
            } else {
                let (at, name) = (format_local(entry.at, console.now.time_zone()), visible(&entry.user));
                let action = describe(entry);
                writeln!(console.out, "{at}  {}  {action}", pad(&name, user))?;
            }
        }
        left -= page.len();
        before = page.last().map(|entry| entry.id);
        if before.is_none() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Converts an entry to a JSON object with the time in UTC.
fn log_object(entry: &LogEntry) -> serde_json::Value {
    json!({
        "at": format_utc(entry.at),
        "user": entry.user,
        "action": entry.action,
        "submission": entry.submission.map(|id| id.to_string()),
        "channel": entry.channel,
        "count": entry.count,
    })
}

/// Describes what a user did: `hold      019a…`, or `discard   20 submissions`.
fn describe(entry: &LogEntry) -> String {
    let longest = OperatorAction::ALL.iter().map(|action| action.name().len()).max().unwrap_or_default();
    let mut words = vec![pad(&visible(&entry.action), longest)];
    words.extend(entry.submission.map(|id| id.to_string()));
    words.extend(entry.channel.as_ref().map(|name| format!("channel {}", visible(name))));
    words.extend(count_words(entry));
    words.join("  ").trim_end().to_owned()
}

/// The number of deliveries, sessions or submissions that an action changed, with the noun. `None` if the
/// action is unknown or has no count, or if it changed only the submission that the entry names. Deliveries
/// are always counted.
fn count_words(entry: &LogEntry) -> Option<String> {
    use OperatorAction as Action;
    let noun = match OperatorAction::ALL.into_iter().find(|action| action.name() == entry.action)? {
        Action::Retry | Action::Deliver => "delivery",
        Action::Revoke => "session",
        Action::Test | Action::Open | Action::LogIn | Action::SaveView | Action::RemoveView => return None,
        Action::Hold
        | Action::Release
        | Action::Discard
        | Action::Erase
        | Action::Done
        | Action::Reopen
        | Action::Spam
        | Action::NotSpam
        | Action::Note
        | Action::EditNote
        | Action::RemoveNote
        | Action::Assign
        | Action::FollowUp
        | Action::Reply
        | Action::UndoReply => "submission",
    };
    if noun == "submission" && entry.submission.is_some() {
        return None;
    }
    Some(counted(entry.count as u64, noun))
}
