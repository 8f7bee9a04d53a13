//! Selects the submissions that a command applies to: by options, or by ids and unambiguous prefixes of ids.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use jiff::civil::Date;
use jiff::{Timestamp, Zoned};
use uuid::Uuid;

use super::command_context::Console;
use crate::cli::config_and_site_loading::SiteFolder;
use crate::cli::diagnostics::{exit_code, plural, with_hint};
use frontdesk_age::{AgeIdentity, EncryptionError};
use frontdesk_desk::time::TimeArgument;
use frontdesk_forms::is_form_name;
use frontdesk_forms::text::visible;
use frontdesk_inbox as inbox;
use frontdesk_inbox::store::{Filter, IdMatch, InboxReader, Listing, SearchText, StoreError};
use frontdesk_inbox::submission::{Status, Submission};

/// Parses the name of a form. The form need not be configured, because submissions outlive their form.
pub(super) fn parse_form_name(text: &str) -> Result<String, String> {
    if is_form_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a form's name consists of lowercase letters, digits and `-`, such as `contact`".to_owned())
    }
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct SelectionOptions {
    #[command(flatten)]
    pub(super) folder: SiteFolder,
    /// At most the N newest; the default for a table on a terminal is 50
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Only submissions to this form
    #[arg(long, value_name = "NAME", value_parser = parse_form_name)]
    pub(super) form: Option<String>,
    /// Only submissions with this status
    #[arg(long, value_parser = Status::ALL.map(Status::name))]
    pub(super) status: Option<String>,
    /// Only submissions with a delivery to this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    #[command(flatten)]
    work: WorkOptions,
    #[command(flatten)]
    period: PeriodOptions,
    /// Only submissions with all of these words in their fields or notes, regardless of case and accents
    #[arg(long, value_name = "WORDS", value_parser = SearchText::parse)]
    text: Option<SearchText>,
    /// Only submissions that arrived before this one, to continue a listing
    #[arg(long, value_name = "ID")]
    before: Option<String>,
    #[command(flatten)]
    key: IdentityOption,
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct SubmissionIds {
    /// Ids of submissions, or unambiguous prefixes of them
    #[arg(value_name = "ID")]
    pub(super) ids: Vec<String>,
}

/// Selects submissions by the state of the work on them.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WorkOptions {
    /// Only submissions that are assigned to this user
    #[arg(long, value_name = "USER", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    assignee: Option<String>,
    /// Only submissions that are assigned to no user
    #[arg(long, conflicts_with = "assignee")]
    unassigned: bool,
    /// Only open submissions to follow up on today or before
    #[arg(long)]
    due: bool,
}

impl WorkOptions {
    /// The filter for these options. `--due` leaves out submissions that are marked as done.
    fn filter(&self, today: Date) -> Filter {
        let assignee = if self.unassigned { Some(String::new()) } else { self.assignee.clone() };
        let (is_done, follow_up_until) = (self.due.then_some(false), self.due.then_some(today));
        Filter { assignee, is_done, follow_up_until, ..Filter::default() }
    }
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct PeriodOptions {
    /// Only submissions received at or after this time: 2026-11-20T14:00:00Z, 2026-11-20 (midnight), or
    /// an age such as 30m, 2h, 3d
    #[arg(long, value_name = "TIME", value_parser = TimeArgument::parse)]
    since: Option<TimeArgument>,
    /// Only submissions received before this time, in the same formats
    #[arg(long, value_name = "TIME", value_parser = TimeArgument::parse)]
    until: Option<TimeArgument>,
}

impl PeriodOptions {
    pub(super) fn is_set(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// The filter for the period, with ages counted back from `now`.
    pub(super) fn filter(&self, now: &Zoned) -> Filter {
        let [from, until] = self.bounds(now);
        Filter { from, until, ..Filter::default() }
    }

    fn bounds(&self, now: &Zoned) -> [Option<Timestamp>; 2] {
        [self.since, self.until].map(|time| Some(time?.at(now)))
    }
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct IdentityOption {
    /// File with your secret key, as age-keygen writes it, to open sealed submissions
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
}

impl IdentityOption {
    /// Reads the identity from the file, if the option is given.
    pub(super) fn read(&self) -> anyhow::Result<Option<AgeIdentity>> {
        Ok(self.identity.as_deref().map(AgeIdentity::read).transpose()?)
    }
}

impl SelectionOptions {
    /// The filter for the database, without the limit and the words of a search. Fails if an incomplete id in
    /// `--before` does not match exactly one submission.
    fn filter(&self, reader: &InboxReader, now: &Zoned) -> anyhow::Result<Filter> {
        // A complete id is valid even if its submission has been removed.
        let resolve = |id: &str| -> anyhow::Result<Uuid> {
            Uuid::try_parse(id).or_else(|_| Ok(find(Some(reader), id)??.id))
        };
        let [from, until] = self.period.bounds(now);
        let work = self.work.filter(now.date());
        Ok(Filter {
            assignee: work.assignee.map(|name| known_assignee(name, reader)).transpose()?,
            form: self.form.clone(),
            status: self.status.as_deref().and_then(Status::from_name),
            channel: self.channel.clone(),
            before: self.before.as_deref().map(resolve).transpose()?,
            from,
            until,
            ..work
        })
    }
}

/// Maximum number of assignees whose names are compared regardless of case.
const MAX_ASSIGNEES: usize = 1000;

/// The assignee in the inbox with this name: an exact match, or else one in another case. Returns an unknown
/// name unchanged.
fn known_assignee(name: String, reader: &InboxReader) -> Result<String, StoreError> {
    let known = reader.assignees(MAX_ASSIGNEES)?;
    if known.contains(&name) {
        return Ok(name);
    }
    Ok(known.into_iter().find(|other| other.eq_ignore_ascii_case(&name)).unwrap_or(name))
}

/// Iterates over the selected submissions, newest first, and decrypts sealed ones with the identity if one is
/// given. Reports and counts those that it cannot decrypt, and returns them sealed. Selects nothing if there
/// is no inbox.
pub(super) struct SelectedSubmissions<'a> {
    listing: Option<Listing<'a>>,
    words: Option<SearchText>,
    /// All notes, by submission; empty unless there is a search text.
    notes: HashMap<Uuid, String>,
    /// How many more submissions the limit allows.
    left: usize,
    identity: Option<AgeIdentity>,
    err: &'a mut dyn Write,
    failed: usize,
    /// Number of sealed submissions that could not be searched.
    unsearched: usize,
    /// Number of submissions that were returned sealed.
    sealed: usize,
}

impl<'a> SelectedSubmissions<'a> {
    /// Starts a query. Fails if the identity cannot be read, or if `--before` is a prefix that does not match
    /// exactly one submission.
    pub(super) fn new(
        reader: Option<&'a InboxReader>,
        which: &SelectionOptions,
        limit: Option<usize>,
        now: &Zoned,
        err: &'a mut dyn Write,
    ) -> anyhow::Result<SelectedSubmissions<'a>> {
        let identity = which.key.read()?;
        let words = which.text.clone();
        let list = |reader: &'a InboxReader| -> anyhow::Result<Listing<'a>> {
            let filter = which.filter(reader, now)?;
            // With a search, only matches count towards the limit, so the query itself has no limit.
            Ok(reader.list(&Filter { limit: limit.filter(|_| words.is_none()), ..filter })?)
        };
        let listing = reader.map(list).transpose()?;
        let notes = match reader.filter(|_| words.is_some()) {
            Some(reader) => reader.note_texts()?,
            None => HashMap::new(),
        };
        let left = limit.unwrap_or(usize::MAX);
        Ok(SelectedSubmissions {
            listing,
            words,
            notes,
            left,
            identity,
            err,
            failed: 0,
            unsearched: 0,
            sealed: 0,
        })
    }

    /// Prints how many submissions were not searched. Returns failure if the identity could not open a sealed
    /// submission.
    pub(super) fn finish(&mut self) -> io::Result<ExitCode> {
        if self.unsearched > 0 {
            writeln!(
                self.err,
                "{} encrypted {} not searched: `--identity FILE` decrypts submissions.",
                self.unsearched,
                plural(self.unsearched, "submission was", "submissions were")
            )?;
        }
        Ok(exit_code(self.failed == 0))
    }

    /// Prints how many submissions were returned sealed.
    pub(super) fn report_sealed(&mut self) -> io::Result<()> {
        match self.sealed {
            0 => Ok(()),
            n => writeln!(
                self.err,
                "{n} {} fields: `--identity FILE` decrypts submissions.",
                plural(
                    n,
                    "submission is encrypted and written without its",
                    "submissions are encrypted and written without their"
                )
            ),
        }
    }

    /// Whether a submission's fields and notes contain all words of the search; true without a search. Of a
    /// sealed submission, searches only the notes, and counts it.
    fn matches_search(&mut self, submission: &Submission) -> bool {
        let Some(words) = &self.words else { return true };
        if submission.sealed.is_some() {
            self.unsearched += 1;
        }
        let notes = self.notes.get(&submission.id).map_or("", String::as_str);
        words.are_in(&submission.fields, notes)
    }
}

/// Decrypts a sealed submission if an identity is given. If that fails, prints an error, leaves the
/// submission sealed, and returns false. Returns true without an identity.
pub(super) fn decrypt_with(
    identity: Option<&AgeIdentity>,
    submission: &mut Submission,
    err: &mut dyn Write,
) -> io::Result<bool> {
    let Some(Err(error)) = identity.map(|identity| submission.decrypt(identity)) else { return Ok(true) };
    let advice = match error {
        EncryptionError::WrongKey => "; use the identity file for the `store.recipient` of that time",
        EncryptionError::Damaged => "; a backup may have an undamaged copy",
        _ => "",
    };
    writeln!(err, "error: {} cannot be decrypted: {error}{advice}", submission.id).map(|()| false)
}

impl Iterator for SelectedSubmissions<'_> {
    type Item = anyhow::Result<Submission>;

    /// Skips submissions without the words of the search. Ends once the limit of submissions is reached.
    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let mut submission = match self.listing.as_mut()?.next()? {
                Ok(submission) => submission,
                Err(error) => return Some(Err(error.into())),
            };
            match decrypt_with(self.identity.as_ref(), &mut submission, self.err) {
                Ok(is_open) => self.failed += usize::from(!is_open),
                Err(error) => return Some(Err(error.into())),
            }
            if self.matches_search(&submission) {
                self.left -= 1;
                self.sealed += usize::from(submission.sealed.is_some());
                return Some(Ok(submission));
            }
        }
        None
    }
}

/// Finds the submission whose id begins with `id`. The inner error, which has a hint, means that no
/// submission or more than one submission matches.
pub(in crate::cli) fn find(
    reader: Option<&InboxReader>,
    id: &str,
) -> Result<Result<Submission, anyhow::Error>, StoreError> {
    let prefix = visible(id);
    Ok(match inbox::find(reader, id)? {
        IdMatch::One(submission) => Ok(*submission),
        IdMatch::None => Err(with_hint(
            anyhow!("no submission has an id that begins with `{prefix}`"),
            "`frontdesk inbox list` shows the ids",
        )),
        IdMatch::Several(ids) => {
            let ids = ids.iter().map(|id| format!("\n  {id}")).collect::<String>();
            Err(with_hint(
                anyhow!("more than one submission has an id that begins with `{prefix}`{ids}"),
                "give more digits of the id",
            ))
        }
    })
}

/// Finds submissions by ids or prefixes, without duplicates. Prints an error for each id that does not match
/// exactly one submission, and also returns the number of these ids.
pub(super) fn find_all(
    ids: &[String],
    console: &mut Console<'_>,
) -> anyhow::Result<(Vec<Submission>, usize)> {
    let mut found: Vec<Submission> = Vec::new();
    let mut missing = 0;
    for id in ids {
        match find(console.inbox.as_deref(), id)? {
            Ok(submission) if found.iter().any(|other| other.id == submission.id) => {}
            Ok(submission) => found.push(submission),
            Err(error) => {
                console.report(&error)?;
                missing += 1;
            }
        }
    }
    Ok((found, missing))
}
