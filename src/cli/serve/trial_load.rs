//! Loads a changed theme or configuration in another process first.
//!
//! A template can overflow the stack or use up the memory, which ends a process: neither can be caught. So
//! the server does not load such a change itself until another process has survived it.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use frontdesk_config::FILE_NAME;
use frontdesk_process::parallel::STACK_BYTES;
use frontdesk_site::fault::Fault;

/// Maximum time that the trial process may take. Loading 10,000 pages takes seconds.
const MAX_TIME: Duration = Duration::from_mins(5);
/// Maximum address space of the trial process in bytes, besides the stacks of one thread per core.
const MAX_ADDRESS_SPACE: u64 = 4 << 30;
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The inode, size and change time of each file and folder.
type Signature = BTreeMap<PathBuf, [i64; 4]>;

/// Remembers which templates and configuration were loaded last.
#[derive(Debug)]
pub(super) struct TrialLoad {
    loaded: Signature,
}

impl TrialLoad {
    /// Creates the state for a site that has just been loaded, which needs no trial.
    pub(super) fn after_load(folder: &Path) -> Self {
        Self { loaded: read_signature(folder) }
    }

    /// Loads the site in another process if its theme or configuration has changed since the start or the
    /// last successful trial. Fails if the process was ended by a signal or took too long. Other faults are
    /// left to the load in this process; if no process can be started, logs a warning and succeeds.
    pub(super) fn run(&mut self, folder: &Path) -> Result<(), Fault> {
        let now = read_signature(folder);
        if now == self.loaded {
            return Ok(());
        }
        let failure = try_load(folder).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot start a process to try the changed theme or configuration; loading it in the server without a trial");
            None
        });
        let Some(why) = failure else {
            self.loaded = now;
            return Ok(());
        };
        let message = format!(
            "the changed theme or {FILE_NAME} was not loaded, because a process that tried it failed: {why}"
        );
        let folder = folder.display().to_string();
        let hint = format!("undo the last change, or correct it until `frontdesk check {folder}` completes");
        Err(Fault::error(folder, None, message).hint(hint))
    }
}

/// Runs `frontdesk check --load-only` with a limit on its memory. Kills the process after [`MAX_TIME`].
/// Returns why the process did not end by itself; `None` if it did, with any exit code.
#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
fn try_load(folder: &Path) -> io::Result<Option<String>> {
    // This path names the running program even after an upgrade has replaced its file.
    let mut command = Command::new("/proc/self/exe");
    command.args(["check", "--load-only"]).arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let size = Some(MAX_ADDRESS_SPACE + (cores * STACK_BYTES) as u64);
    let limit = Rlimit { current: size, maximum: size };
    let _ = prlimit(Some(Pid::from_child(&child)), Resource::As, limit);
    // If memory runs out below the limit, the kernel must end the trial process, not the server.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", child.id()), "1000");
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.signal().map(|signal| format!("signal {signal} ended it")));
        }
        if began.elapsed() > MAX_TIME {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(Some(format!("it took more than {} s", MAX_TIME.as_secs())));
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// Reads the inode, size and change time of the configuration file, and of each file and folder in `theme/`.
/// Follows symbolic links. Leaves out files and folders that cannot be read.
fn read_signature(folder: &Path) -> Signature {
    let mut signature = Signature::new();
    let mut rest = vec![folder.join("theme"), folder.join(FILE_NAME)];
    let mut folders = HashSet::new();
    while let Some(path) = rest.pop() {
        let Ok(metadata) = std::fs::metadata(&path) else { continue };
        // Read each folder once: several symbolic links may lead to it, and links may form a cycle.
        if metadata.is_dir() && folders.insert((metadata.dev(), metadata.ino())) {
            rest.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        let [inode, size] = [metadata.ino(), metadata.size()].map(u64::cast_signed);
        signature.insert(path, [inode, size, metadata.ctime(), metadata.ctime_nsec()]);
    }
    signature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_theme_and_the_configuration_are_tried() {
        let folder = tempfile::tempdir().expect("a folder");
        let site = folder.path();
        let write = |name: &str, text: &str| {
            let file = site.join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is created");
            std::fs::write(file, text).expect("it is written");
        };
        write("frontdesk.toml", "");
        write("theme/partials/head.html", "a");
        write("pages/index.md", "a");
        let before = read_signature(site);
        write("pages/index.md", "other");
        assert_eq!(read_signature(site), before);
        write("theme/partials/head.html", "other");
        let changed = read_signature(site);
        assert_ne!(changed, before);
        write("frontdesk.toml", "# other");
        assert_ne!(read_signature(site), changed);
    }

    #[test]
    fn cycles_of_symbolic_links_are_read_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let theme = folder.path().join("theme");
        std::fs::create_dir(&theme).expect("a folder");
        for name in ["a", "b", "c"] {
            std::os::unix::fs::symlink(".", theme.join(name)).expect("a link");
        }
        assert_eq!(read_signature(folder.path()).len(), 4);
    }
}
