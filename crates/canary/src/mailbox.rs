//! Looks for the canary's mail in a Maildir of this machine.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use uuid::Uuid;

use frontdesk_deliver::mail::CANARY_HEADER;

/// Maximum number of bytes to read from a mail file. The header of a mail is shorter.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// Looks for the mail of a run in `new/` and `cur/`. Returns whether the mail is there, and removes the first
/// copy so that the canary does not fill the mailbox; a mailbox that this user cannot change keeps it. Skips
/// files that were written before `since` or cannot be read. Fails if a folder cannot be read. Blocks.
pub(crate) fn take_mail(maildir: &Path, run: Uuid, since: SystemTime) -> io::Result<bool> {
    let mark = format!("\n{CANARY_HEADER}: {run}").to_ascii_lowercase();
    for folder in ["new", "cur"] {
        for entry in fs::read_dir(maildir.join(folder))? {
            let entry = entry?;
            // Skip a file that cannot be read: a mail program may have moved or removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            if !metadata.is_file() || metadata.modified().is_ok_and(|at| at < since) {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else { continue };
            let mut beginning = Vec::new();
            if file.take(MAX_HEADER_BYTES).read_to_end(&mut beginning).is_err() {
                continue;
            }
            if String::from_utf8_lossy(&beginning).to_ascii_lowercase().contains(&mark) {
                let _ = fs::remove_file(entry.path());
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_the_mail_of_this_run_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let run = Uuid::from_u128(7);
        let take = |since| take_mail(folder.path(), run, since).unwrap();
        assert!(take_mail(folder.path(), run, SystemTime::UNIX_EPOCH).is_err(), "no Maildir");
        for part in ["new", "cur"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let write = |name: &str, header: &str| {
            fs::write(folder.path().join(name), format!("Subject: x\r\n{header}\r\n\r\nText\r\n")).unwrap();
        };
        write("new/other", &format!("{CANARY_HEADER}: {}", Uuid::from_u128(8)));
        assert!(!take(SystemTime::UNIX_EPOCH));
        for name in ["new/1", "cur/1:2,S"] {
            // Some servers write the names of headers in lower case.
            write(name, &format!("{}: {run}", CANARY_HEADER.to_ascii_lowercase()));
            assert!(!take(SystemTime::now() + Duration::from_mins(1)), "older than the run");
            assert!(take(SystemTime::UNIX_EPOCH), "{name}");
            assert!(!take(SystemTime::UNIX_EPOCH), "it has been removed");
        }
        assert!(folder.path().join("new/other").exists());
    }
}
