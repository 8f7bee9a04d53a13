//! `frontdesk doctor --watch`: shows the state of the inbox, its channels and the canary until it is
//! interrupted. It reads what the server has stored, and sends nothing.

#![expect(clippy::disallowed_methods, reason = "the display shows ages")]

mod display;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use self::display::{AppendedLines, FullScreen, StatusLine};
use super::canary::{describe, describe_all};
use super::check_result::CheckResult;
use super::inbox::examine_inbox;
use crate::cli::diagnostics::{counted, exit_code};
use frontdesk_config::Config;
use frontdesk_deliver::problem_digest::CanaryProblem;
use frontdesk_inbox::store::{InboxReader, Queue, StoreError};
use frontdesk_inbox::submission::delivery::DeliveryState;

/// The time between two readings of the state from the database.
const INTERVAL: Duration = Duration::from_secs(2);

/// Shows the state until SIGINT or SIGTERM, and reads it again every two seconds. Refreshes it in place on a
/// terminal, and prints it again at the end; otherwise prints all lines once, and then those that change.
/// Returns failure if there was a problem at the end.
pub(super) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let is_terminal = io::stdout().is_terminal();
    let screen = if is_terminal { Some(FullScreen::start(&mut io::stdout())?) } else { None };
    let mut appended = AppendedLines::default();
    let mut lines: Vec<StatusLine>;
    loop {
        let now = Timestamp::now();
        lines = read(config, now);
        if screen.is_some() {
            FullScreen::clear(&mut io::stdout())?;
        }
        let mut out = anstream::stdout().lock();
        if screen.is_some() {
            FullScreen::draw(&title(config, now), &lines, terminal_size(), &mut out)?;
        } else {
            appended.write(&lines, now, &mut out)?;
        }
        out.flush()?;
        drop(out);
        let is_over = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => true,
                () = tokio::time::sleep(INTERVAL) => false,
            }
        });
        if is_over {
            break;
        }
    }
    // Print the last state again: leaving the full screen has hidden it.
    if screen.is_some() {
        drop(screen);
        AppendedLines::default().write(&lines, Timestamp::now(), &mut anstream::stdout().lock())?;
    }
    Ok(exit_code(!lines.iter().any(StatusLine::is_problem)))
}

fn title(config: &Config, now: Timestamp) -> String {
    format!("{} at {now:.0} (Ctrl-C ends)", config.canary.site())
}

/// Columns and rows of the terminal; 100 and 40 if they are unknown.
fn terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let known = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    known.map_or((100, 40), |size| (size.ws_col.into(), size.ws_row.into()))
}

/// Reads the state. Reports an error as a line, because the database may soon be available again.
fn read(config: &Config, now: Timestamp) -> Vec<StatusLine> {
    let mut lines = Vec::new();
    match examine_inbox(config) {
        Ok(found) => lines.extend(found.into_iter().map(|result| StatusLine::new("inbox", result))),
        Err(error) => lines.push(StatusLine::new("inbox", CheckResult::Bad(error.to_string()))),
    }
    let Ok(inbox) = InboxReader::open(&config.store.url) else { return lines };
    let found = read_queue(config, &inbox, now).and_then(|mut found| {
        found.extend(read_canary(config, &inbox, now)?);
        Ok(found)
    });
    match found {
        Ok(found) => lines.extend(found),
        Err(error) => lines.push(StatusLine::new("inbox", CheckResult::Bad(error.to_string()))),
    }
    lines
}

/// The backlog, and the health of each configured channel. A channel that is switched off, failing, or has
/// parked deliveries is a problem.
fn read_queue(config: &Config, inbox: &InboxReader, now: Timestamp) -> Result<Vec<StatusLine>, StoreError> {
    let queue = inbox.queue()?;
    let mut lines = vec![describe_queue(&queue, now)];
    let states = inbox.channels()?;
    for channel in &config.channels {
        let queued = queue.channels.iter().find(|other| other.name == channel.name);
        let delivered = states.iter().find(|state| state.name == channel.name);
        let delivered = delivered.map_or(0, |state| state.count(DeliveryState::Delivered));
        let (waiting, parked) = queued.map_or((0, 0), |queued| (queued.waiting, queued.parked));
        let text = format!("{delivered} delivered, {waiting} waiting, {parked} parked");
        let result = match queued {
            Some(channel) if channel.is_off => CheckResult::Bad(format!("switched off; {text}")),
            Some(channel) if channel.is_paused => {
                CheckResult::Bad(format!("failing, so only probes are sent; {text}"))
            }
            Some(_) if parked > 0 => CheckResult::Bad(text),
            _ => CheckResult::Good(text),
        };
        let age = queued.and_then(|channel| channel.oldest).map(|oldest| (oldest, "the oldest arrived"));
        lines.push(StatusLine::new(&format!("channel {}", channel.name), result).aged(age, now));
    }
    Ok(lines)
}

/// Submissions that are accepted and not processed yet. They wait for up to ten seconds under load, so a wait
/// of more than a minute is a problem.
fn describe_queue(queue: &Queue, now: Timestamp) -> StatusLine {
    let text = format!("{} to process", counted(queue.pending, "submission"));
    let is_late = queue.pending_since.is_some_and(|since| now.duration_since(since).as_secs() > 60);
    let result = if is_late { CheckResult::Bad(text) } else { CheckResult::Good(text) };
    StatusLine::new("queue", result).aged(queue.pending_since.map(|since| (since, "the oldest arrived")), now)
}

/// The last run of the canary, with every step. A single remark if the canary is off or has not run yet.
fn read_canary(config: &Config, inbox: &InboxReader, now: Timestamp) -> Result<Vec<StatusLine>, StoreError> {
    let is_on = config.canary.every.is_some();
    let status = inbox.canary_status()?.filter(|_| is_on);
    let Some(status) = status else {
        let lines = describe(None, is_on, now).into_iter();
        return Ok(lines.map(|(subject, result)| StatusLine::new(&subject, result)).collect());
    };
    let result = match CanaryProblem::of(&status, now) {
        None => CheckResult::Good("the last run succeeded".to_owned()),
        Some(CanaryProblem { failure: None, .. }) => CheckResult::Bad(
            "the last run succeeded, but was too long ago: check whether the server is running".to_owned(),
        ),
        Some(CanaryProblem { since, .. }) => {
            CheckResult::Bad(format!("the last run failed; failing since {since:.0}"))
        }
    };
    let summary = StatusLine::new("canary", result).aged(Some((status.ended_at, "it ended")), now);
    let steps = describe_all(&status).into_iter();
    let steps = steps.map(|(subject, result)| StatusLine::new(&subject, result));
    Ok(std::iter::once(summary).chain(steps).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    #[test]
    fn submissions_that_wait_for_a_minute_are_a_problem() {
        for (pending, age, is_problem) in [(0, None, false), (2, Some(60), false), (1, Some(61), true)] {
            let queue = Queue { pending, pending_since: age.map(|age| at(-age)), ..Queue::default() };
            let line = describe_queue(&queue, at(0));
            assert_eq!(line.is_problem(), is_problem, "{pending} {age:?}");
        }
    }
}
