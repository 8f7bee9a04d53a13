//! The Maildir channel: delivers each message atomically to a mailbox on this machine.
//!
//! A message is written and synced in `tmp/`, and then renamed into `new/`. Its name is derived from the
//! notification, so that a retry after a crash finds a message that was already delivered, unless a mail
//! reader has removed it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mail::{self, MailAddresses};
use super::notification::{Notification, Topic};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};

const DEADLINE: Duration = Duration::from_mins(1);

/// Maximum number of temporary files left behind by interrupted attempts to deliver one notification.
const MAX_TEMPORARY_FILES: u32 = 1000;

#[derive(Clone, Debug)]
pub struct MaildirOptions {
    /// The Maildir's folder. A delivery creates the folder if it is missing, but its parent folders are
    /// created only when the channel is added or the server starts.
    pub path: PathBuf,
    pub addresses: MailAddresses,
}

pub struct Maildir(pub MaildirOptions);

impl Maildir {
    /// Delivers the message. If `notice.may_be_there`, keeps the copy of an earlier attempt. Fails after a
    /// minute, but the write then continues in the background. A message of the canary replaces those of its
    /// earlier runs.
    pub async fn send(&self, notice: &Notification) -> Outcome {
        let MaildirOptions { path, addresses } = &self.0;
        let path = path.clone();
        let name = message_file_name(notice, addresses.domain());
        let message = with_unix_line_ends(&mail::compose(&addresses.for_notification(notice), notice));
        let (look, is_canary) = (notice.may_be_there, notice.topic == Topic::Canary);
        let work = tokio::task::spawn_blocking(move || {
            let delivered = deliver_to_maildir(&path, &name, &message, look);
            if is_canary && delivered.is_ok() {
                remove_earlier_canaries(&path, &name);
            }
            delivered
        });
        match tokio::time::timeout(DEADLINE, work).await {
            Ok(Ok(Ok(delivered))) => Outcome::delivered(delivered),
            Ok(Ok(Err(error))) => Outcome::failed(Cause::Channel, error),
            Ok(Err(_)) => {
                Outcome::failed(Cause::Channel, "writing the message to the Maildir was interrupted")
            }
            Err(_) => Outcome::failed(
                Cause::Channel,
                format!("writing the message to the Maildir did not finish within {DEADLINE:?}"),
            ),
        }
    }
}

/// The message with a line feed for each CR LF, which ends lines in SMTP. Mail readers take the files of a
/// Maildir for Unix text: they would show a CR at the end of each header, or find no empty line before the
/// body.
fn with_unix_line_ends(message: &[u8]) -> Vec<u8> {
    let is_line_end = |at: usize| message[at..].starts_with(b"\r\n");
    (0..message.len()).filter(|at| !is_line_end(*at)).map(|at| message[at]).collect()
}

/// The message's file name: time, unique part and origin. The origin is the sender's domain rather than the
/// host name, because a container's host name changes at every start.
fn message_file_name(notice: &Notification, domain: &str) -> String {
    // An address literal may contain a colon, which would end the unique name in a Maildir.
    let domain = domain.replace(':', "\\072").replace('/', "\\057");
    format!("{}.{}-{}.{domain}", notice.created_at.as_second(), notice.id, notice.topic.name())
}

/// Returns a function that describes why an operation on `path` failed.
fn describe_io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let path = path.display();
    move |error| match error.kind() {
        io::ErrorKind::StorageFull => format!("the disk is full: cannot {doing} {path}"),
        io::ErrorKind::QuotaExceeded => format!("the disk quota is used up: cannot {doing} {path}"),
        _ => format!("cannot {doing} {path}: {error}"),
    }
}

/// Writes the message to a Maildir atomically, and describes the result or the error. Creates missing
/// folders, but not the parents of `maildir`. If `look` is set, keeps an existing copy, for which the search
/// takes time proportional to the number of messages; otherwise replaces a message of the same name in
/// `new/`.
fn deliver_to_maildir(maildir: &Path, name: &str, message: &[u8], look: bool) -> Result<String, String> {
    let [tmp, new, cur] = ["tmp", "new", "cur"].map(|folder| maildir.join(folder));
    for folder in [maildir, &tmp, &new, &cur].into_iter().filter(|folder| !folder.is_dir()) {
        create_folder(folder).map_err(describe_io_error("create the folder", folder))?;
    }
    for folder in [&new, &cur].into_iter().filter(|_| look) {
        if contains_message(folder, name).map_err(describe_io_error("search the folder", folder))? {
            // An earlier attempt may have delivered the message but ended before it synced the folder.
            sync_folder(folder).map_err(describe_io_error("sync", folder))?;
            return Ok(format!("{name} was already there"));
        }
    }

    let written = write_temporary_file(&tmp, name, message)?;
    move_or_remove(&written, &new.join(name))?;
    sync_folder(&new).map_err(describe_io_error("sync", &new))?;
    remove_temporary_files(&tmp, name);
    Ok(format!("{name} is in new/"))
}

/// Creates the missing parents of the Maildir `path`, accessible only to their owner. Called only at startup
/// and when the Maildir is added: if the folders are missing later, their file system may not be mounted, and
/// mail written to the mount point would be hidden by the next mount.
pub(super) fn create_parents(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(parent)
}

/// Creates a folder that only its owner can access, and syncs its parent. Succeeds if the folder exists.
fn create_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => return Ok(()),
        created => created?,
    }
    folder.parent().filter(|above| !above.as_os_str().is_empty()).map_or(Ok(()), sync_folder)
}

/// Makes the names of a folder's files durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether the folder contains the message. A mail reader may have appended flags (`:2,S`) or sizes
/// (`,S=1200`) to the file name.
fn contains_message(folder: &Path, name: &str) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let found = entry?.file_name();
        let rest = found.as_encoded_bytes().strip_prefix(name.as_bytes());
        if rest.is_some_and(|rest| rest.first().is_none_or(|b| b":,".contains(b))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes and syncs a new file, and returns its path; removes the file if that fails. Does not reuse files
/// left behind by interrupted attempts, because another process may still be writing them, and fails if there
/// are more than [`MAX_TEMPORARY_FILES`].
fn write_temporary_file(tmp: &Path, name: &str, message: &[u8]) -> Result<PathBuf, String> {
    let mut number = 0;
    let (path, mut file) = loop {
        let path = tmp.join(format!("{name}.{number}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_TEMPORARY_FILES => {
                number += 1;
            }
            opened => break (path.clone(), opened.map_err(describe_io_error("write", &path))?),
        }
    };
    let written = file.write_all(message).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(&path))).map_err(describe_io_error("write", &path))?;
    Ok(path)
}

/// Moves the message to `target`, or removes it if that fails.
fn move_or_remove(written: &Path, target: &Path) -> Result<(), String> {
    let moved = fs::rename(written, target).inspect_err(|_| drop(fs::remove_file(written)));
    moved.map_err(describe_io_error("move the message to", target))
}

/// Removes all other messages of the canary, including those with another sender, so that at most one is in
/// the Maildir. Ignores errors: the next run tries again.
fn remove_earlier_canaries(maildir: &Path, name: &str) {
    let mark = format!("-{}", Topic::Canary.name());
    // A file name is `TIME.UNIQUE.ORIGIN` (`message_file_name`), and the unique part ends with the topic.
    let is_canary = |found: &str| found.split('.').nth(1).is_some_and(|unique| unique.ends_with(&mark));
    for folder in ["new", "cur"] {
        for entry in fs::read_dir(maildir.join(folder)).into_iter().flatten().flatten() {
            let found = entry.file_name();
            if found.to_str().is_some_and(|found| is_canary(found) && !found.starts_with(name)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Removes the files left behind by interrupted attempts to deliver this message. Ignores errors.
fn remove_temporary_files(tmp: &Path, name: &str) {
    let prefix: OsString = format!("{name}.").into();
    let Ok(entries) = fs::read_dir(tmp) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
