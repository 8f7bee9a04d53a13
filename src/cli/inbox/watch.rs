//! `frontdesk inbox watch`: prints submissions as they come.
//!
//! The kernel says when something was committed; the inbox is opened for a look and closed again, so that it may be
//! replaced at any time, and nothing of it is held.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use serde_json::Value;
use uuid::Uuid;

use super::filter::{Key, tell_unopened};
use super::{Console, json, table};
use crate::store::bell::Bell;
use crate::store::{Filter, Place, Reader, StoreError};
use crate::submission::Submission;
use crate::submission::seal::Identity;

/// How often we look though nobody rang: a file that took the place of another may have come with something.
const LOOK: Duration = Duration::from_mins(1);
/// The same while there is no inbox.
const LOOK_FOR_INBOX: Duration = Duration::from_secs(1);

/// What is known of the inbox between two looks.
#[derive(Debug, Default)]
pub(super) struct Watch {
    form: Option<String>,
    /// The latest one that was there or was shown.
    newest: Option<Uuid>,
    /// Those that came shortly before it, and were there or were shown. Of several servers one may commit a little later what it received
    /// a little earlier.
    seen: HashSet<Uuid>,
    /// What was wrong at the last look; said once, however long it lasts.
    trouble: Option<String>,
}

impl Watch {
    /// What came since the last look, in order of arrival. None where there is no inbox to look into.
    pub(super) fn look(&mut self, place: &Place) -> Result<Option<Vec<Submission>>, StoreError> {
        let reader = match Reader::open(place) {
            Ok(reader) => reader,
            Err(StoreError::Missing(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut new = self.list(&reader)?;
        new.reverse();
        Ok(Some(new))
    }

    /// What came since the last look, the newest first.
    fn list(&mut self, reader: &Reader) -> Result<Vec<Submission>, StoreError> {
        let after = self.newest.map(a_little_before);
        let filter = Filter { form: self.form.clone(), after, ..Filter::default() };
        let mut new = reader.list(&filter)?.collect::<Result<Vec<_>, _>>()?;
        new.retain(|submission| !self.seen.contains(&submission.id));
        self.newest = self.newest.max(new.first().map(|newest| newest.id));
        self.seen.extend(new.iter().map(|submission| submission.id));
        if let Some(bound) = self.newest.map(a_little_before) {
            self.seen.retain(|id| *id > bound);
        }
        Ok(new)
    }

    /// Goes on after what is there already.
    pub(super) fn skip(&mut self, place: &Place) -> Result<(), StoreError> {
        let reader = match Reader::open(place) {
            Ok(reader) => reader,
            Err(StoreError::Missing(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let newest = Filter { limit: Some(1), ..Filter::default() };
        let newest = reader.list(&newest)?.next().transpose()?;
        self.newest = newest.map(|newest| newest.id);
        if self.newest.is_some() {
            self.list(&reader)?;
        }
        Ok(())
    }

    /// One look. Returns how long the next one may wait for a ring.
    fn show(
        &mut self,
        place: &Place,
        as_json: bool,
        identity: Option<&Identity>,
        console: &mut Console<'_>,
    ) -> anyhow::Result<Duration> {
        match self.look(place) {
            Ok(new) => {
                self.trouble = None;
                let wait = if new.is_some() { LOOK } else { LOOK_FOR_INBOX };
                for mut submission in new.into_iter().flatten() {
                    if let Some(Err(error)) = identity.map(|identity| submission.open(identity)) {
                        tell_unopened(&submission, error, console.err)?;
                    }
                    if as_json {
                        let object = Value::Object(json::object(&submission));
                        writeln!(console.out, "{}", json::line(&object))?;
                    } else {
                        table::write_line(&submission, console.width, console.has_colours, console.out)?;
                    }
                }
                console.out.flush()?;
                Ok(wait)
            }
            Err(error) => {
                let error = error.to_string();
                if self.trouble.as_ref() != Some(&error) {
                    writeln!(console.err, "warning: {error}; the next look may go better")?;
                    self.trouble = Some(error);
                }
                Ok(LOOK_FOR_INBOX)
            }
        }
    }
}

/// Greater than no id of the last minute before this one: ids begin with the time of arrival, in milliseconds (RFC 9562 §5.7).
fn a_little_before(id: Uuid) -> Uuid {
    const MINUTE: u128 = 60_000 << 80;
    Uuid::from_u128(id.as_u128().saturating_sub(MINUTE))
}

/// Watches until it is ended from outside or nobody reads standard output any more.
pub(super) fn run(
    place: &Place,
    as_json: bool,
    form: Option<&str>,
    key: &Key,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let identity = key.read()?;
    let mut bell = Bell::listen(place);
    let mut watch = Watch { form: form.map(str::to_owned), ..Watch::default() };
    watch.skip(place)?;
    end_with_reader()?;
    writeln!(console.err, "Watching for submissions; Ctrl-C ends it.")?;
    loop {
        // The file that has the name now is listened to before it is looked into, so that nothing falls between the two.
        bell.wait(Duration::ZERO);
        let wait = watch.show(place, as_json, identity.as_ref(), console)?;
        bell.wait(wait);
    }
}

/// Ends the process once nobody reads standard output any more, which writing would tell only with the next submission.
fn end_with_reader() -> std::io::Result<()> {
    let wait = || {
        let stdout = std::io::stdout();
        loop {
            // Nothing is asked for: a hang-up and an error are told all the same.
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
