//! Which submissions a command is about: what was typed, what the database selects by it, and what is left to look for in
//! the fields themselves.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use jiff::Timestamp;
use uuid::Uuid;

use super::find::{self, Sought};
use super::moment::When;
use super::plural;
use crate::forms::FORMS;
use crate::store::{Filter, Listing, Reader};
use crate::submission::seal::{Identity, SealError};
use crate::submission::{Status, Submission};

/// Which submissions.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Which {
    /// No more than the N newest; on a terminal a table has 50 unless told otherwise
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Those of one form only
    #[arg(long, value_name = "NAME", value_parser = FORMS.map(|form| form.name))]
    pub(super) form: Option<String>,
    /// Those that stand there only
    #[arg(long, value_parser = Status::ALL.map(Status::name))]
    pub(super) status: Option<String>,
    /// Those that go or went down this channel only
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Those received then or later: 2026-11-20T14:00:00Z, 2026-11-20 (midnight in UTC), or an age such as 30m, 2h, 3d
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    since: Option<When>,
    /// Those received before then, said in the same ways
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    until: Option<When>,
    /// Those that have this in a field, in upper or lower case
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// Those that arrived before this one, to go on where a listing ended
    #[arg(long, value_name = "ID")]
    before: Option<String>,
}

/// What opens sealed submissions.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Key {
    /// The identity file, as age-keygen writes it, that opens sealed submissions
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

impl Key {
    /// Reads the file, if there is to be one.
    pub(super) fn read(&self) -> anyhow::Result<Option<Identity>> {
        Ok(self.identity.as_deref().map(Identity::read).transpose()?)
    }
}

impl Which {
    /// What the database can tell of it, limit aside.
    fn filter(&self, reader: &Reader, now: Timestamp) -> anyhow::Result<Filter> {
        Ok(Filter {
            form: self.form.clone(),
            status: self.status.as_deref().and_then(Status::named),
            channel: self.channel.clone(),
            from: self.since.map(|when| when.at(now)),
            until: self.until.map(|when| when.at(now)),
            before: self.before.as_deref().map(|id| before(reader, id)).transpose()?,
            ..Filter::default()
        })
    }
}

/// The id after which a listing goes on. A whole one need not be in the inbox any more.
fn before(reader: &Reader, id: &str) -> anyhow::Result<Uuid> {
    if let Ok(id) = Uuid::try_parse(id) {
        return Ok(id);
    }
    match find::look(Some(reader), id)? {
        Sought::Here(submission) => Ok(submission.id),
        Sought::Nowhere(why) => bail!(why),
    }
}

/// The submissions that were asked for, newest first, each opened where that can be. What cannot be opened is said and counted.
pub(super) struct Selected<'a> {
    listing: Option<Listing<'a>>,
    words: Option<String>,
    left: usize,
    identity: Option<&'a Identity>,
    err: &'a mut dyn Write,
    /// How many the identity does not open.
    pub(super) failed: usize,
    /// How many could not be searched for words, because they are sealed.
    unsearched: usize,
    /// How many were handed on sealed.
    pub(super) sealed: usize,
}

impl<'a> Selected<'a> {
    /// Nothing where there is no inbox.
    pub(super) fn of(
        reader: Option<&'a Reader>,
        which: &Which,
        limit: Option<usize>,
        identity: Option<&'a Identity>,
        now: Timestamp,
        err: &'a mut dyn Write,
    ) -> anyhow::Result<Selected<'a>> {
        let words = which.text.as_ref().map(|text| text.to_lowercase());
        let list = |reader: &'a Reader| -> anyhow::Result<Listing<'a>> {
            let filter = which.filter(reader, now)?;
            // Where words are looked for, only what has them counts.
            Ok(reader.list(&Filter { limit: limit.filter(|_| words.is_none()), ..filter })?)
        };
        let listing = reader.map(list).transpose()?;
        let left = limit.unwrap_or(usize::MAX);
        Ok(Selected { listing, words, left, identity, err, failed: 0, unsearched: 0, sealed: 0 })
    }

    /// Says what was not searched.
    pub(super) fn finish(&mut self) -> std::io::Result<()> {
        match self.unsearched {
            0 => Ok(()),
            n => writeln!(
                self.err,
                "{n} sealed {} not searched: `--identity FILE` opens what is sealed.",
                if n == 1 { "submission was" } else { "submissions were" }
            ),
        }
    }

    /// Says how much of what was written is sealed.
    pub(super) fn tell_sealed(&mut self) -> std::io::Result<()> {
        match self.sealed {
            0 => Ok(()),
            n => writeln!(
                self.err,
                "{n} {} sealed and written without {} fields: `--identity FILE` opens what is sealed.",
                if n == 1 { "submission is" } else { "submissions are" },
                if n == 1 { "its" } else { "their" },
            ),
        }
    }

    fn open(&mut self, submission: &mut Submission) -> anyhow::Result<()> {
        if let Some(identity) = self.identity
            && let Err(error) = submission.open(identity)
        {
            self.failed += 1;
            tell_unopened(submission, error, self.err)?;
        }
        Ok(())
    }

    fn is_wanted(&mut self, submission: &Submission) -> bool {
        let Some(words) = &self.words else { return true };
        if submission.sealed.is_some() {
            self.unsearched += 1;
        }
        submission.fields.iter().any(|(_, value)| value.to_lowercase().contains(words))
    }
}

/// Says which submission the identity does not open, and why.
pub(super) fn tell_unopened(
    submission: &Submission,
    error: SealError,
    err: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(err, "error: {} cannot be opened: {error}", submission.id)
}

impl Iterator for Selected<'_> {
    type Item = anyhow::Result<Submission>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let mut submission = match self.listing.as_mut()?.next()? {
                Ok(submission) => submission,
                Err(error) => return Some(Err(error.into())),
            };
            if let Err(error) = self.open(&mut submission) {
                return Some(Err(error));
            }
            if self.is_wanted(&submission) {
                self.left -= 1;
                self.sealed += usize::from(submission.sealed.is_some());
                return Some(Ok(submission));
            }
        }
        None
    }
}

/// Which deliveries are to be tried again. At least one of these is to be said, so that nobody retries everything by accident.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Again {
    /// Those of these submissions: their ids, or as much of the beginning as no other id shares
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Parked ones only; alone it means all that are parked
    #[arg(long)]
    pub(super) parked: bool,
    /// Those down this channel only, which is believed in again if it was switched off
    #[arg(long, value_name = "NAME")]
    pub(super) channel: Option<String>,
    /// Those of submissions received then or later: 2026-11-20T14:00:00Z, 2026-11-20 (midnight in UTC), or an age such as 30m, 2h, 3d
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    since: Option<When>,
    /// Those of submissions received before then, said in the same ways
    #[arg(long, value_name = "TIME", value_parser = When::parse)]
    until: Option<When>,
    /// Those of one form's submissions only
    #[arg(long, value_name = "NAME", value_parser = FORMS.map(|form| form.name))]
    form: Option<String>,
}

impl Again {
    /// The submissions, ids aside.
    pub(super) fn filter(&self, now: Timestamp) -> Filter {
        Filter {
            form: self.form.clone(),
            from: self.since.map(|when| when.at(now)),
            until: self.until.map(|when| when.at(now)),
            ..Filter::default()
        }
    }
}

/// `1 submission`, `2 submissions`
pub(super) fn submissions(count: usize) -> String {
    format!("{count} {}", plural(count, "submission"))
}
