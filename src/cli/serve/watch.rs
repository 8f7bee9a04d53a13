//! Watches the site's folder for `serve --watch`, and waits until a change is complete.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use notify::{EventKind, RecursiveMode, Watcher as _};

use crate::cli::config_and_site_loading;
use crate::cli::diagnostics::with_hint;
use frontdesk_config::{Config, FORMS_FOLDER, LEXICON_FOLDER};
use frontdesk_site::{BuildOptions, SITE_FOLDERS, has_home_page};

/// Why the reload thread wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReloadReason {
    /// The process received SIGHUP.
    Signal,
    /// A change in the site's folder.
    Changed,
    /// Stronger encodings of the served site are ready.
    Encoded,
    /// The encoding thread has ended, and its memory can be returned to the system.
    EncodingEnded,
    /// It is time to publish a page or to take it down.
    Scheduled,
}

/// How long a folder must remain unchanged before it is read: editors save files in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(200);
/// Maximum wait for a quiet period: some folders change continuously.
const MAX_SETTLE: Duration = Duration::from_secs(5);
/// The quiet period for the output of a site generator, which may pause between files.
const BUILD_QUIET_PERIOD: Duration = Duration::from_secs(1);
/// Maximum wait for a rebuild, while the previous site is served. Then the folder is loaded as it is.
const MAX_BUILD_TIME: Duration = Duration::from_mins(2);

/// Waits until no reload reason has arrived for the quiet period and the build, if there is one, has a home
/// page again, but not longer than the maximum wait. Discards the triggers of reloads. Returns the other
/// reasons, which a reload does not handle.
pub(super) fn wait_for_quiet_period(
    reasons: &Receiver<ReloadReason>,
    build: Option<&BuildOptions>,
) -> Vec<ReloadReason> {
    let (quiet, max) = match build {
        Some(_) => (BUILD_QUIET_PERIOD, MAX_BUILD_TIME),
        None => (QUIET_PERIOD, MAX_SETTLE),
    };
    let is_complete = || build.is_none_or(|build| has_home_page(&build.folder));
    let began = Instant::now();
    let mut others = Vec::new();
    while began.elapsed() < max {
        match reasons.recv_timeout(quiet) {
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if is_complete() => break,
            Ok(reason @ (ReloadReason::Encoded | ReloadReason::EncodingEnded)) => others.push(reason),
            _ => {}
        }
    }
    others
}

/// Triggers a reload whenever a file in the site's folder or its build changes, except for files in the data
/// folder.
pub(super) struct SiteWatcher {
    watcher: notify::RecommendedWatcher,
    folders: Vec<(PathBuf, RecursiveMode)>,
}

impl SiteWatcher {
    /// Starts to watch those of the site's folders that exist, and sends [`ReloadReason::Changed`] after
    /// changes. Fails if the build, or without one the site's folder, cannot be watched.
    pub(super) fn start(
        folder: &Path,
        config: &Config,
        reasons: Sender<ReloadReason>,
    ) -> anyhow::Result<Self> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let root = real(folder);
        let build = config.pages.build.as_ref().map(|build| real(&build.folder));
        let is_published = published_filter(config, &root, build.clone());
        let trigger = move |event: notify::Result<notify::Event>| {
            // Reading a file is not a change. An event without a path means that the kernel has dropped
            // events, so any file may have changed.
            let changed = event.as_ref().map_or(true, |event| {
                !matches!(event.kind, EventKind::Access(_))
                    && (event.paths.is_empty() || event.paths.iter().any(|path| is_published(path)))
            });
            if changed {
                // Sending fails only if the server has stopped.
                let _ = reasons.send(ReloadReason::Changed);
            }
        };
        let watcher = notify::recommended_watcher(trigger);
        let mut watcher = watcher.map_err(|error| not_watched(folder, error))?;
        let folders = watched_folders(&root, build);
        let (first, mode) = &folders[0];
        watcher.watch(first, *mode).map_err(|error| not_watched(first, error))?;
        let mut watcher = Self { watcher, folders };
        watcher.watch_new_folders();
        Ok(watcher)
    }

    /// Watches all folders that exist now, also those that did not exist before, such as one that a rebuild
    /// has removed and created again. Logs a warning for a folder that cannot be watched.
    pub(super) fn watch_new_folders(&mut self) {
        for (folder, mode) in self.folders.iter().filter(|(folder, _)| folder.is_dir()) {
            if let Err(error) = self.watcher.watch(folder, *mode) {
                tracing::warn!(%error, "cannot watch {} for changes; a change there does not reload the site", folder.display());
            }
        }
    }
}

/// The error for a folder that cannot be watched, with advice about the kernel's limits.
fn not_watched(folder: &Path, error: notify::Error) -> anyhow::Error {
    let error = anyhow::Error::new(error).context(format!("cannot watch {} for changes", folder.display()));
    with_hint(
        error,
        "start the server without `--watch`, or raise the limits `fs.inotify.max_user_watches` and \
         `fs.inotify.max_user_instances` of the kernel if they are reached",
    )
}

/// The folders to watch. With a build, the site's folder is often a whole project, in which tools keep
/// thousands of files, so only the site's own subfolders are watched recursively. The folder above the build
/// is watched to notice when the build is created again.
fn watched_folders(root: &Path, build: Option<PathBuf>) -> Vec<(PathBuf, RecursiveMode)> {
    let Some(build) = build else { return vec![(root.to_owned(), RecursiveMode::Recursive)] };
    let above = build.parent().map(|above| (above.to_owned(), RecursiveMode::NonRecursive));
    let parts = SITE_FOLDERS.iter().chain([&"mails", &FORMS_FOLDER, &LEXICON_FOLDER]);
    let parts = parts.map(|part| (root.join(part), RecursiveMode::Recursive));
    let own = (root != build).then(|| (root.to_owned(), RecursiveMode::NonRecursive));
    let own = own.into_iter().chain(parts).filter(|_| root != build);
    [(build.clone(), RecursiveMode::Recursive)].into_iter().chain(above).chain(own).collect()
}

/// Returns a predicate for the paths of files that can affect the site: those in its folder and its build,
/// except the data folder, the database and the caches. If the site is itself in the data folder, only the
/// database's files and the caches are excepted.
fn published_filter(config: &Config, root: &Path, build: Option<PathBuf>) -> impl Fn(&Path) -> bool + use<> {
    let data = config.inbox_folder().canonicalize().unwrap_or_else(|_| config.inbox_folder().to_owned());
    let root_is_data = root.starts_with(&data);
    let name = config.store.url.file().and_then(Path::file_name).map(ToOwned::to_owned);
    let caches = [config_and_site_loading::ENCODINGS, config_and_site_loading::CONVERSIONS]
        .map(|name| data.join(name));
    let root = root.to_owned();
    move |path| {
        // Exclude the caches and the database even if the site is itself in the data folder.
        let of_caches = caches.iter().any(|cache| path.starts_with(cache));
        let of_database = name.as_ref().zip(path.file_name()).is_some_and(|(name, file)| {
            file.as_encoded_bytes().starts_with(name.as_encoded_bytes()) && path.parent() == Some(&data)
        });
        let of_site = path.starts_with(&root) || build.as_ref().is_some_and(|build| path.starts_with(build));
        of_site && !of_database && !of_caches && (root_is_data || !path.starts_with(&data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quiet_period_keeps_the_reports_of_the_encoding_thread() {
        use ReloadReason::{Changed, Encoded, EncodingEnded, Scheduled, Signal};
        let (sender, reasons) = std::sync::mpsc::channel();
        for reason in [Changed, Encoded, Signal, Changed, EncodingEnded, Scheduled] {
            sender.send(reason).expect("the receiver exists");
        }
        drop(sender);
        assert_eq!(wait_for_quiet_period(&reasons, None), [Encoded, EncodingEnded]);
    }
}
