//! Reloads the certificate files when another program renews them, and warns before the certificate expires.

#![expect(clippy::disallowed_methods, reason = "the expiry check reads the clock")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use notify::{EventKind, RecursiveMode, Watcher as _};

use super::certificate::{CertificateDefect, CurrentCertificate, ServerCertificate, Validity};
use frontdesk_process::panics;

/// How often the files are read without a notification: network file systems do not report every change.
const POLL_INTERVAL: Duration = Duration::from_mins(1);

/// How long to wait after a change: a program that replaces one file usually replaces the other next.
const SETTLE_TIME: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The PEM file with the chain, which begins with the server's own certificate.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl CertificateFiles {
    /// The contents of the certificate file and the key file. The error names the file.
    fn read_bytes(&self) -> Result<[Vec<u8>; 2], CertificateDefect> {
        let hint = "check the path, and that the user that the server runs as can read the file";
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| format!("cannot be read from {}: {error}", path.display()))
        };
        let certificate =
            read(&self.certificate).map_err(|what| CertificateDefect::Certificate { what, hint })?;
        Ok([certificate, read(&self.key).map_err(|what| CertificateDefect::Key { what, hint })?])
    }

    /// Reads and parses both files. Accepts expired certificates.
    pub fn read(&self) -> Result<ServerCertificate, CertificateDefect> {
        self.read_bytes().and_then(|[certificate, key]| ServerCertificate::parse(&certificate, &key))
    }
}

/// Certificate files, and what was last read from them.
pub(super) struct WatchedFiles {
    files: CertificateFiles,
    /// Digests of the file contents, or the error from reading them; `None` before the first read.
    seen: Mutex<Option<Result<[blake3::Hash; 2], CertificateDefect>>>,
}

impl WatchedFiles {
    pub(super) fn new(files: CertificateFiles) -> Self {
        Self { files, seen: Mutex::default() }
    }

    /// Reads the files. `None` if the last call read the same contents or failed with the same error.
    pub(super) fn read_if_changed(&self) -> Option<Result<ServerCertificate, CertificateDefect>> {
        let content = self.files.read_bytes();
        let state = content.clone().map(|files| files.map(|file| blake3::hash(&file)));
        let before = self.seen.lock().unwrap_or_else(PoisonError::into_inner).replace(state.clone());
        (before != Some(state))
            .then(|| content.and_then(|[certificate, key]| ServerCertificate::parse(&certificate, &key)))
    }

    /// Reads the files, and replaces `current` if they have changed and can be used. If they have changed but
    /// cannot be used, logs why.
    pub(super) fn reload(&self, current: &CurrentCertificate) {
        let file = self.files.certificate.display();
        match self.read_if_changed() {
            None => {}
            Some(Ok(certificate)) => {
                tracing::info!(%file, not_after = %certificate.not_after, "certificate reloaded");
                current.replace(certificate);
            }
            Some(Err(defect)) => {
                tracing::error!(%file, %defect, "the changed certificate files cannot be used; still serving the previous certificate");
            }
        }
    }

    /// The folders of the certificate and of the key, which may be the same.
    fn parent_folders(&self) -> [&Path; 2] {
        [&self.files.certificate, &self.files.key].map(|file| match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        })
    }
}

/// Starts a thread that reloads changed files (none with ACME) and warns before expiry, until `current` is
/// dropped.
pub(super) fn spawn_watcher(
    files: Option<Arc<WatchedFiles>>,
    current: &Arc<CurrentCertificate>,
) -> io::Result<()> {
    let current = Arc::downgrade(current);
    std::thread::Builder::new().name("certificate".into()).spawn(move || {
        panics::restart_after_panic("certificate files", || watch_files(files.as_deref(), &current));
    })?;
    Ok(())
}

/// Reads the files after each notification and every [`POLL_INTERVAL`], and logs about once a day if the
/// certificate is not valid or expires soon. Returns within a minute after `current` is dropped.
fn watch_files(files: Option<&WatchedFiles>, current: &Weak<CurrentCertificate>) {
    let (sender, changes) = mpsc::sync_channel(1);
    // Keep `sender`, so that the channel stays connected even without a watcher.
    let notify_change = sender.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Ignore events that are caused by reading the files.
        if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
            let _ = notify_change.try_send(());
        }
    });
    let mut folders: Vec<&Path> = files.map(WatchedFiles::parent_folders).into_iter().flatten().collect();
    folders.dedup();
    let watching = watcher.and_then(|mut watcher| {
        folders.iter().try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive))?;
        Ok(watcher)
    });
    // With ACME, there are no files to watch, so ignore the error.
    if let (Err(error), Some(_)) = (&watching, files) {
        tracing::info!(%error, "could not watch the certificate files for changes; will read them once a minute");
    }
    let origin =
        files.map_or_else(|| "ACME".to_owned(), |files| files.files.certificate.display().to_string());
    let mut warned = None;
    loop {
        let Some(current) = current.upgrade() else { return };
        if let Some(files) = files {
            files.reload(&current);
        }
        if let Some(certificate) = current.get() {
            let now = Timestamp::now();
            if is_warning_due(now, warned) && log_validity(&certificate, &origin, now) {
                warned = Some(now);
            }
        }
        drop(current);
        match changes.recv_timeout(POLL_INTERVAL) {
            Ok(()) => {
                std::thread::sleep(SETTLE_TIME);
                while changes.try_recv().is_ok() {}
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the sender is kept: {sender:?}"),
        }
    }
}

/// Whether a warning is due: at most once a day, unless the clock has been set back.
fn is_warning_due(now: Timestamp, warned: Option<Timestamp>) -> bool {
    warned.is_none_or(|warned| now >= warned + 24.hours() || now < warned)
}

/// Logs a warning if the certificate is not valid yet or expires soon, and an error if it has expired.
/// `origin` is its file, or `ACME`. Returns whether it logged anything.
fn log_validity(certificate: &ServerCertificate, origin: &str, now: Timestamp) -> bool {
    let not_after = certificate.not_after;
    match certificate.validity(now) {
        Validity::Valid => return false,
        Validity::NotYet => {
            let not_before = certificate.not_before;
            tracing::warn!(origin, %not_before, "the certificate is not valid yet: check the system clock");
        }
        Validity::ExpiresSoon => {
            tracing::warn!(origin, %not_after, "the certificate expires soon and has not been renewed: check the program that renews it or, with ACME, the failed orders in this log");
        }
        Validity::Expired => {
            tracing::error!(origin, %not_after, "the certificate has expired and has not been renewed, so browsers refuse the connection: check the program that renews it or, with ACME, the failed orders in this log");
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(files: &CertificateFiles, chain: &str, key: &str) {
        std::fs::write(&files.certificate, chain).expect("it can be written");
        std::fs::write(&files.key, key).expect("it can be written");
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn only_changed_files_are_read_and_a_fault_is_reported_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = CertificateFiles {
            certificate: folder.path().join("chain.pem"),
            key: folder.path().join("key.pem"),
        };
        let watched = WatchedFiles::new(files.clone());
        assert!(
            watched
                .read_if_changed()
                .unwrap()
                .is_err_and(|defect| matches!(defect, CertificateDefect::Certificate { .. }))
        );
        assert!(watched.read_if_changed().is_none(), "still missing");
        let (one, other) = (pair(), pair());
        write(&files, &one.0, &one.1);
        assert!(watched.read_if_changed().is_some_and(|read| read.is_ok()));
        assert!(watched.read_if_changed().is_none());
        // The new certificate has been written, but its key has not.
        write(&files, &other.0, &one.1);
        assert!(
            watched
                .read_if_changed()
                .is_some_and(|read| read.is_err_and(|defect| matches!(defect, CertificateDefect::Key { .. })))
        );
        assert!(watched.read_if_changed().is_none(), "a fault is reported once");
        write(&files, &other.0, &other.1);
        assert!(watched.read_if_changed().is_some_and(|read| read.is_ok()));
        // Restoring the previous pair is a change as well.
        write(&files, &one.0, &one.1);
        assert!(watched.read_if_changed().is_some_and(|read| read.is_ok()));
    }

    #[test]
    fn expiry_is_logged_once_a_day() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let warned = Some(at("2026-03-01T12:00:00Z"));
        assert!(is_warning_due(at("2026-03-01T12:00:00Z"), None));
        assert!(!is_warning_due(at("2026-03-01T12:01:00Z"), warned));
        assert!(!is_warning_due(at("2026-03-02T11:59:59Z"), warned));
        assert!(is_warning_due(at("2026-03-02T12:00:00Z"), warned));
        assert!(is_warning_due(at("2026-02-01T00:00:00Z"), warned), "the clock was set back");
    }
}
