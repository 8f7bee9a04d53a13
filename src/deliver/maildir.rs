//! The channel into a mailbox on this machine: a Maildir, into which a message comes whole or not at all.
//!
//! A message is written and synced in `tmp/` and then renamed into `new/`. Its name follows from the notice alone, so that a
//! notice that was delivered just before a crash is recognised afterwards and not delivered twice, for as long as the reader leaves it there.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::mail::{self, Addresses};
use super::notice::Notice;
use crate::submission::outcome::{Cause, Outcome};

/// A disk that has not answered by then counts as gone.
const DEADLINE: Duration = Duration::from_mins(1);

/// The most left-overs of one notice that are stepped over.
const MAX_LEFT_OVERS: u32 = 1000;

/// What the operator says of the channel.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Maildir. It is created if it is missing; the folders above it are created when the server starts.
    pub path: PathBuf,
    /// The sender.
    pub from: String,
    /// What stands beside it; may be empty.
    pub from_name: String,
    /// The recipients, as the message names them.
    pub to: Vec<String>,
}

/// The channel.
#[derive(Debug)]
pub struct Maildir {
    path: PathBuf,
    addresses: Result<Addresses, String>,
}

impl Maildir {
    /// Makes it ready; nothing is written yet. With options that cannot work, each attempt fails and says why.
    pub fn new(options: Options) -> Maildir {
        let addresses = Addresses::new(&options.from, &options.from_name, &options.to);
        Maildir { path: options.path, addresses }
    }

    /// Delivers one notice, on a thread that may wait for the disk.
    pub async fn send(&self, notice: &Notice) -> Outcome {
        let addresses = match &self.addresses {
            Ok(addresses) => addresses,
            Err(sentence) => return Outcome::failed(Cause::Channel, sentence.as_str()),
        };
        let path = self.path.clone();
        let name = name(notice, addresses.domain());
        let message = mail::compose(addresses, notice);
        let look = notice.may_be_there;
        let work = tokio::task::spawn_blocking(move || deliver(&path, &name, &message, look));
        match tokio::time::timeout(DEADLINE, work).await {
            Ok(Ok(Ok(delivered))) => Outcome::delivered(delivered),
            Ok(Ok(Err(trouble))) => Outcome::failed(Cause::Channel, trouble.sentence()),
            Ok(Err(_)) => Outcome::failed(Cause::Channel, "writing was broken off"),
            Err(_) => Outcome::failed(Cause::Channel, format!("the disk did not answer within {DEADLINE:?}")),
        }
    }
}

/// Time, what is unique, and where it comes from. That last part is the sender's domain and not this machine's name, which
/// in a container changes with every start.
fn name(notice: &Notice, domain: &str) -> String {
    // An address literal may hold a colon, and one that is no digit ends a Maildir name.
    let domain = domain.replace(':', "\\072").replace('/', "\\057");
    format!("{}.{}-{}.{domain}", notice.created_at.as_second(), notice.id, mail::kind(notice.about))
}

/// What went wrong, and with which path.
#[derive(Debug)]
struct Trouble {
    doing: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl Trouble {
    fn sentence(&self) -> String {
        let path = self.path.display();
        match self.error.kind() {
            io::ErrorKind::StorageFull => format!("the disk is full: cannot {} {path}", self.doing),
            io::ErrorKind::QuotaExceeded => {
                format!("the disk quota is used up: cannot {} {path}", self.doing)
            }
            _ => format!("cannot {} {path}: {}", self.doing, self.error),
        }
    }
}

fn trouble(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Trouble {
    let path = path.to_owned();
    move |error| Trouble { doing, path, error }
}

/// With `look`, only if it isn't there yet: that takes longer the more messages there are.
fn deliver(maildir: &Path, name: &str, message: &[u8], look: bool) -> Result<String, Trouble> {
    let [tmp, new, cur] = ["tmp", "new", "cur"].map(|folder| maildir.join(folder));
    for folder in [maildir, &tmp, &new, &cur].into_iter().filter(|folder| !folder.is_dir()) {
        make_folder(folder).map_err(trouble("make the folder", folder))?;
    }
    for folder in [&new, &cur].into_iter().filter(|_| look) {
        if holds(folder, name).map_err(trouble("look into", folder))? {
            // Whoever put it there may not have lived to sync the folder.
            sync_folder(folder).map_err(trouble("sync", folder))?;
            return Ok(format!("{name} was there already"));
        }
    }

    let written = write_new(&tmp, name, message)?;
    move_into(&written, &new.join(name))?;
    sync_folder(&new).map_err(trouble("sync", &new))?;
    remove_left_overs(&tmp, name);
    Ok(format!("{name} is in new/"))
}

/// Creates the folders above the Maildir `path`, for their owner only. To be called when the server starts: later they may be missing
/// because a file system is unmounted, and mail that is written into its mount point would be hidden.
pub(super) fn create_parents(path: &Path) -> io::Result<()> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o700).create(parent)
}

/// Creates the folder for its owner only. The one above it must exist.
fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    // The new name has to last as well.
    match folder.parent().filter(|above| !above.as_os_str().is_empty()) {
        Some(above) => sync_folder(above),
        None => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether the message is there, whatever the reader has appended to its name: flags (`:2,S`), or sizes (`,S=1200`).
fn holds(folder: &Path, name: &str) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let found = entry?.file_name();
        let rest = found.as_encoded_bytes().strip_prefix(name.as_bytes());
        if rest.is_some_and(|rest| rest.first().is_none_or(|b| b":,".contains(b))) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes and syncs a file that was not there before. What an attempt left that never ended is stepped over: it may still be
/// being written by somebody else.
fn write_new(tmp: &Path, name: &str, message: &[u8]) -> Result<PathBuf, Trouble> {
    let mut number = 0;
    let (path, mut file) = loop {
        let path = tmp.join(format!("{name}.{number}"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_LEFT_OVERS => {
                number += 1;
            }
            opened => break (path.clone(), opened.map_err(trouble("write", &path))?),
        }
    };
    let written = file.write_all(message).and_then(|()| file.sync_all()).map_err(trouble("write", &path));
    if written.is_err() {
        let _ = fs::remove_file(&path);
    }
    written.map(|()| path)
}

/// The one step after which the message is there, whole.
fn move_into(written: &Path, target: &Path) -> Result<(), Trouble> {
    let moved = fs::rename(written, target).map_err(trouble("move the message to", target));
    if moved.is_err() {
        let _ = fs::remove_file(written);
    }
    moved
}

/// The message has been delivered: nobody needs what else there is of it.
fn remove_left_overs(tmp: &Path, name: &str) {
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
