//! A certificate in two files that somebody else renews: read again when they change, and looked at for its end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::{Timestamp, ToSpan as _};
use notify::{EventKind, RecursiveMode, Watcher as _};

use super::identity::Validity;
use super::{Defect, Identity, Part, Renewal, Tls};

/// How often the files are read in any case: the kernel does not tell of everything, on network file systems for example.
const EVERY: Duration = Duration::from_mins(1);

/// Whoever writes the one file is about to write the other.
const SETTLE: Duration = Duration::from_millis(200);

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The chain in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// The private key in PEM.
    pub key: PathBuf,
}

/// What the files held.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn content(&self) -> Result<Content, Defect> {
        let read = |path: &Path, part| {
            std::fs::read(path).map_err(|error| {
                let what = format!("cannot be read from {}: {error}", path.display());
                Defect::new(part, what, "the user that the server runs as must be able to read it")
            })
        };
        Ok(Content {
            certificate: read(&self.certificate, Part::Certificate)?,
            key: read(&self.key, Part::Key)?,
        })
    }

    /// Reads both files.
    pub fn read(&self) -> Result<Identity, Defect> {
        let content = self.content()?;
        Identity::parse(&content.certificate, &content.key)
    }
}

/// Files of which it is known how they last were.
#[derive(Debug)]
pub(super) struct Watched {
    files: Files,
    /// A digest of what they held, or what was wrong with reading them.
    seen: Mutex<Option<Result<blake3::Hash, Defect>>>,
}

impl Watched {
    pub(super) fn new(files: Files) -> Self {
        Self { files, seen: Mutex::default() }
    }

    /// What they hold at the start.
    pub(super) fn first(&self) -> Result<Identity, Defect> {
        self.refresh().unwrap_or_else(|| self.files.read())
    }

    /// What they hold, or why that cannot be used; none if nothing has changed since the last call.
    pub(super) fn refresh(&self) -> Option<Result<Identity, Defect>> {
        let content = self.files.content();
        let state = content.as_ref().map(Content::digest).map_err(Clone::clone);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref() == Some(&state) {
            return None;
        }
        *seen = Some(state);
        Some(content.and_then(|content| Identity::parse(&content.certificate, &content.key)))
    }

    /// The folders in which something happens when the files are replaced.
    fn folders(&self) -> Vec<PathBuf> {
        let folder = |path: &Path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut folders = vec![folder(&self.files.certificate), folder(&self.files.key)];
        folders.dedup();
        folders
    }
}

impl Content {
    fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.certificate.len() as u64).to_le_bytes());
        hasher.update(&self.certificate).update(&self.key);
        hasher.finalize()
    }
}

/// Reloads the files when they change, and warns of the end, for as long as the server has the certificate.
pub(super) fn look_after(tls: &Arc<Tls>) -> io::Result<()> {
    let folders = match &tls.renewal {
        Renewal::Files(watched) => watched.folders(),
        Renewal::Acme { .. } => Vec::new(),
    };
    let tls = Arc::downgrade(tls);
    std::thread::Builder::new().name("certificate".into()).spawn(move || run(&tls, &folders))?;
    Ok(())
}

fn run(tls: &Weak<Tls>, folders: &[PathBuf]) {
    let (sender, changes) = mpsc::sync_channel(1);
    // This one is kept, so that without a watcher the wait still lasts.
    let tell = sender.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the files is an event as well.
        if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
            let _ = tell.try_send(());
        }
    });
    let watching = watcher.and_then(|mut watcher| {
        folders.iter().try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive))?;
        Ok(watcher)
    });
    if let Err(error) = &watching {
        tracing::info!(%error, "the certificate's folder cannot be watched, it is read once a minute");
    }
    let mut warned = None;
    loop {
        let Some(tls) = tls.upgrade() else { return };
        tls.reload();
        if let Some(identity) = tls.current.0.load_full() {
            let now = Timestamp::now();
            if is_due(now, warned) && warn(&identity, now) {
                warned = Some(now);
            }
        }
        drop(tls);
        match changes.recv_timeout(EVERY) {
            Ok(()) => {
                std::thread::sleep(SETTLE);
                while changes.try_recv().is_ok() {}
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the sender is kept: {sender:?}"),
        }
    }
}

/// Once a day is enough.
fn is_due(now: Timestamp, warned: Option<Timestamp>) -> bool {
    warned.is_none_or(|warned| now >= warned + 24.hours() || now < warned)
}

/// Says what is to be said of a certificate's dates; whether there was anything.
fn warn(identity: &Identity, now: Timestamp) -> bool {
    let not_after = identity.not_after();
    match identity.validity(now) {
        Validity::Valid => return false,
        Validity::NotYet => tracing::warn!("the certificate is not valid yet: is the clock right?"),
        Validity::ExpiresSoon => {
            tracing::warn!(%not_after, "the certificate expires soon and is not renewed");
        }
        Validity::Expired => tracing::error!(%not_after, "the certificate has expired"),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(files: &Files, chain: &str, key: &str) {
        std::fs::write(&files.certificate, chain).expect("it can be written");
        std::fs::write(&files.key, key).expect("it can be written");
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn only_a_change_is_news_and_a_broken_pair_is_told_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let files =
            Files { certificate: folder.path().join("chain.pem"), key: folder.path().join("key.pem") };
        let watched = Watched::new(files.clone());
        assert!(watched.first().is_err_and(|defect| defect.part == Part::Certificate));
        assert!(watched.refresh().is_none(), "still not there");
        let (one, other) = (pair(), pair());
        write(&files, &one.0, &one.1);
        assert!(watched.refresh().is_some_and(|read| read.is_ok()));
        assert!(watched.refresh().is_none());
        // The other's certificate is there, its key not yet.
        write(&files, &other.0, &one.1);
        assert!(watched.refresh().is_some_and(|read| read.is_err_and(|defect| defect.part == Part::Key)));
        assert!(watched.refresh().is_none(), "it is told once");
        write(&files, &other.0, &other.1);
        assert!(watched.refresh().is_some_and(|read| read.is_ok()));
        // Back to what it was before, which is a change as well.
        write(&files, &one.0, &one.1);
        assert!(watched.refresh().is_some_and(|read| read.is_ok()));
    }

    #[test]
    fn the_end_is_warned_of_once_a_day() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let warned = Some(at("2026-03-01T12:00:00Z"));
        assert!(is_due(at("2026-03-01T12:00:00Z"), None));
        assert!(!is_due(at("2026-03-01T12:01:00Z"), warned));
        assert!(!is_due(at("2026-03-02T11:59:59Z"), warned));
        assert!(is_due(at("2026-03-02T12:00:00Z"), warned));
        assert!(is_due(at("2026-02-01T00:00:00Z"), warned), "the clock was set back");
    }
}
