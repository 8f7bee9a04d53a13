//! `frontdesk inbox watch`: prints submissions as they arrive.
//!
//! Opens the inbox for each query and closes it again, so that it can be replaced at any time.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use uuid::Uuid;

use super::command_context::Console;
use super::selection::{IdentityOption, decrypt_with};
use super::table;
use frontdesk_age::AgeIdentity;
use frontdesk_desk::submission_json;
use frontdesk_inbox as inbox;
use frontdesk_inbox::store::notifier::ChangeListener;
use frontdesk_inbox::store::{DatabaseUrl, Filter, InboxReader, StoreError};
use frontdesk_inbox::submission::Submission;

/// Maximum time between two queries: restoring a backup can add submissions without a notification.
const POLL_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum time between two queries while there is no inbox, or after a query has failed.
const POLL_MISSING: Duration = Duration::from_secs(1);

/// State that the command keeps between queries.
#[derive(Debug, Default)]
pub(super) struct InboxWatch {
    form: Option<String>,
    /// The newest id that a query has returned.
    newest: Option<Uuid>,
    /// Ids of recent submissions. With several servers, submissions may be committed out of id order, so each
    /// query also covers the minute before `newest`, and skips these ids.
    seen: HashSet<Uuid>,
    /// The error of the last query. A repeated error is reported only once.
    last_error: Option<String>,
}

impl InboxWatch {
    /// Returns the submissions that arrived since the last query, oldest first; all submissions if no query
    /// has returned any yet. `None` if there is no inbox.
    pub(super) fn query(&mut self, url: &DatabaseUrl) -> Result<Option<Vec<Submission>>, StoreError> {
        let Some(reader) = inbox::open(url)? else { return Ok(None) };
        let mut new = self.list_new(&reader)?;
        new.reverse();
        Ok(Some(new))
    }

    /// Returns the submissions from the minute before `newest` on that are not in `seen`, newest first, and
    /// adds them to it. Misses one that is committed after a query has returned another whose id is more than
    /// a minute later.
    fn list_new(&mut self, reader: &InboxReader) -> Result<Vec<Submission>, StoreError> {
        let after = self.newest.map(minute_before);
        let filter = Filter { form: self.form.clone(), after, ..Filter::default() };
        let mut new = reader.list(&filter)?.collect::<Result<Vec<_>, _>>()?;
        new.retain(|submission| !self.seen.contains(&submission.id));
        self.newest = self.newest.max(new.first().map(|newest| newest.id));
        self.seen.extend(new.iter().map(|submission| submission.id));
        if let Some(bound) = self.newest.map(minute_before) {
            self.seen.retain(|id| *id > bound);
        }
        Ok(new)
    }

    /// Marks existing submissions as seen, so that later queries do not return them.
    pub(super) fn skip_existing(&mut self, url: &DatabaseUrl) -> Result<(), StoreError> {
        let Some(reader) = inbox::open(url)? else { return Ok(()) };
        let newest = Filter { limit: Some(1), ..Filter::default() };
        let newest = reader.list(&newest)?.next().transpose()?;
        self.newest = newest.map(|newest| newest.id);
        if self.newest.is_some() {
            self.list_new(&reader)?;
        }
        Ok(())
    }

    /// Prints new submissions, decrypted if possible, and otherwise sealed. Returns the maximum wait before
    /// the next query. A query that fails is a warning, which is printed once until its text changes.
    fn print_new(
        &mut self,
        as_json: bool,
        identity: Option<&AgeIdentity>,
        console: &mut Console<'_>,
    ) -> anyhow::Result<Duration> {
        match self.query(console.url) {
            Ok(new) => {
                self.last_error = None;
                let wait = if new.is_some() { POLL_INTERVAL } else { POLL_MISSING };
                for mut submission in new.into_iter().flatten() {
                    decrypt_with(identity, &mut submission, console.err)?;
                    if as_json {
                        writeln!(
                            console.out,
                            "{}",
                            submission_json::to_line(&submission_json::submission_object(&submission))
                        )?;
                    } else if console.is_terminal {
                        let (zone, width) = (console.now.time_zone(), console.width);
                        table::write_line(&submission, zone, width, console.has_colors, console.out)?;
                    } else {
                        table::write_record(&submission, console.now.time_zone(), console.out)?;
                    }
                }
                console.out.flush()?;
                Ok(wait)
            }
            Err(error) => {
                let error = error.to_string();
                if self.last_error.as_ref() != Some(&error) {
                    writeln!(
                        console.err,
                        "warning: cannot read the inbox: {error}; will retry every second"
                    )?;
                    self.last_error = Some(error);
                }
                Ok(POLL_MISSING)
            }
        }
    }
}

/// Moves an id back by one minute. Its upper 48 bits are a time in milliseconds (RFC 9562 §5.7).
fn minute_before(id: Uuid) -> Uuid {
    const MINUTE: u128 = 60_000 << 80;
    Uuid::from_u128(id.as_u128().saturating_sub(MINUTE))
}

/// Prints submissions as they arrive from now on. Returns only after an error; the process ends with Ctrl-C,
/// or when standard output is closed.
pub(super) fn run(
    as_json: bool,
    form: Option<&str>,
    key: &IdentityOption,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let mut listener = ChangeListener::listen(console.url);
    let mut watch = InboxWatch { form: form.map(str::to_owned), ..InboxWatch::default() };
    watch.skip_existing(console.url)?;
    exit_on_closed_output()?;
    writeln!(console.err, "Watching for submissions; press Ctrl-C to stop.")?;
    loop {
        // A wait of zero watches the current file, or reconnects to the server, so that a commit after the
        // query ends the wait below.
        listener.wait(Duration::ZERO);
        let wait = watch.print_new(as_json, identity.as_ref(), console)?;
        listener.wait(wait);
    }
}

/// Starts a thread that exits the process with code 0 as soon as the reader of standard output closes it,
/// instead of at the next submission.
fn exit_on_closed_output() -> std::io::Result<()> {
    let wait = || {
        let stdout = std::io::stdout();
        loop {
            // poll(2) reports a hang-up and an error even if no events are requested.
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                    std::process::exit(0)
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    };
    std::thread::Builder::new().name("reader".into()).spawn(wait).map(drop)
}
