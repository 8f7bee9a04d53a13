//! Decides which files below the served folders are published, and explains why the others are not.
//!
//! There are two classes. The operator's files are never published: the configuration, every file and folder
//! that it names, submissions, backups and exports. Files that are probably not meant for visitors, such as
//! editor backups and private keys, are published only if `site.publish` lists them.

mod hosting_files;
mod other_server_access_rules;
mod pattern;
mod private;
mod private_content;

use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use self::hosting_files::{HostingFile, has_settings, is_program};
pub(crate) use self::other_server_access_rules::{find_access_rule, has_entry, may_restrict_access};
use self::pattern::PathPattern;
pub(crate) use self::private::PrivateFiles;
pub use self::private::{PrivatePath, find_containing_folder, resolve_path};
pub(crate) use self::private_content::is_inbox;
pub use self::private_content::{ContentMark, examine};
use frontdesk_fault::{Fault, Placed};
use frontdesk_forms::text::visible;

/// Options that control which files are published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicationOptions {
    /// The operator's private files and folders.
    pub private: Vec<PrivatePath>,
    /// The entries of `site.publish`.
    pub publish: Option<Placed<Vec<String>>>,
}

/// A file or folder below a served folder that is not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclusion {
    /// The path relative to the site's folder, or to the output folder of a site generator. Ends with a slash
    /// for a folder.
    pub path_in_site: String,
    /// The decoded path at which the file would be served. A folder's path ends with a slash.
    pub path: String,
    pub reason: ExclusionReason,
}

impl fmt::Display for Exclusion {
    /// Writes that and why the file is not published, and, unless the reason is final, the entry of
    /// `site.publish` that publishes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = visible(&self.path_in_site);
        write!(f, "{name} is not published: {}", self.reason)?;
        let entry = if self.path_in_site.ends_with('/') { "**" } else { "" };
        match &self.reason {
            reason if reason.is_final() => Ok(()),
            ExclusionReason::Mode(_) => write!(
                f,
                "; to publish it, give all who may read the pages access to it and to the folders above it, or write `publish = [\"{name}{entry}\"]` in [site]"
            ),
            _ => write!(f, "; `publish = [\"{name}{entry}\"]` in [site] publishes it"),
        }
    }
}

/// Why a file is not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExclusionReason {
    /// A private file of the operator. Contains the reason, such as "`tls.key` names it".
    #[error("{0}")]
    Private(String),
    #[error("its name begins with a dot")]
    Hidden,
    /// Contains the mode of the file, or of the folder above it that some users cannot enter.
    #[error("fewer users of this machine may read it (mode {:04o}) than the pages", .0 & 0o7777)]
    Mode(u32),
    #[error("its name is that of a backup, a temporary file or a file of the operating system")]
    Leftover,
    /// A Markdown file that most site generators do not publish as a page.
    #[error("its name, or that of a folder above it, begins with `_`")]
    Partial,
    #[error("its name is that of a configuration file, which may contain passwords")]
    Configuration,
    #[error("its name is that of a file with private keys")]
    KeyFile,
    #[error("its name is that of a database")]
    Database,
    #[error("it is a program, which this server does not run")]
    ServerCode,
    /// Rules or programs for a hosting provider, at the root of a build or of `static/`.
    #[error("it is for the server of a hosting provider, not for visitors")]
    Hosting,
    #[error("it contains installed packages (`node_modules` beside a `package.json`)")]
    Packages,
    #[error("it is a Maildir")]
    Maildir,
    /// Contains the kind of private file that the content shows, such as a private key.
    #[error("{0}")]
    Content(ContentMark),
}

impl ExclusionReason {
    /// Whether `site.publish` has no effect on the file.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Private(_) | Self::Hosting => true,
            Self::Content(mark) => mark.is_final(),
            _ => false,
        }
    }
}

/// The files in a folder that exclude other files beside them from publication.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Siblings {
    /// Whether the folder contains a `frontdesk.toml`, in upper or lower case.
    has_configuration: bool,
    /// Whether the folder contains a `package.json`.
    has_manifest: bool,
}

impl Siblings {
    /// Looks for `frontdesk.toml` and `package.json` among the names of all files in a folder.
    pub fn from_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let mut siblings = Self::default();
        for name in names {
            siblings.has_configuration |= name.eq_ignore_ascii_case(CONFIGURATION);
            siblings.has_manifest |= name == "package.json";
        }
        siblings
    }
}

const CONFIGURATION: &str = "frontdesk.toml";

/// File name endings of leftovers from editors, patches, package managers and interrupted programs.
#[rustfmt::skip]
const LEFTOVERS: [&str; 19] = [
    "~", ".bak", ".backup", ".crdownload", ".dpkg-dist", ".dpkg-new", ".dpkg-old", ".old", ".orig", ".part",
    ".partial", ".rej", ".rpmnew", ".rpmsave", ".save", ".swo", ".swp", ".temp", ".tmp",
];

/// File name endings of private keys and key stores: PKCS #12, Java, PuTTY and KeePass.
const KEY_FILES: [&str; 6] = [".jks", ".kdbx", ".keystore", ".p12", ".pfx", ".ppk"];

/// File name endings of ASP, JSP and PHP programs, which other web servers run when a client requests them.
const SERVER_CODE: [&str; 9] =
    [".asp", ".aspx", ".jsp", ".php", ".php5", ".php7", ".php8", ".phps", ".phtml"];

/// Why the name of a file or folder excludes it; `None` if it does not. `name` has no path. Of folders,
/// excludes only hidden ones and `node_modules` beside a `package.json`. `.well-known` is not hidden. Beside
/// a `frontdesk.toml`, every `*.toml` is a configuration. Ignores the case of file names.
pub(crate) fn exclusion_by_name(name: &str, is_folder: bool, siblings: Siblings) -> Option<ExclusionReason> {
    if name.starts_with('.') && name != ".well-known" {
        return Some(ExclusionReason::Hidden);
    }
    if is_folder {
        return (name == "node_modules" && siblings.has_manifest).then_some(ExclusionReason::Packages);
    }
    // Compare in lower case, because not all file systems distinguish cases.
    let lower = name.to_ascii_lowercase();
    let ends_with = |endings: &[&str]| endings.iter().any(|ending| lower.ends_with(ending));
    let is_configuration = lower.starts_with(CONFIGURATION)
        || (siblings.has_configuration && lower.ends_with(".toml"))
        || ends_with(&[".env"])
        || lower == "web.config";
    // Syncthing and Dropbox add these texts to the name of one of two versions. `2` begins the date.
    let is_conflict = [".sync-conflict-2", "conflicted copy 2"].iter().any(|part| lower.contains(part));
    let is_leftover = is_conflict
        || ends_with(&LEFTOVERS)
        || (lower.starts_with('#') && lower.ends_with('#'))
        || ["desktop.ini", "thumbs.db"].contains(&&*lower);
    match () {
        () if is_leftover => Some(ExclusionReason::Leftover),
        () if is_configuration => Some(ExclusionReason::Configuration),
        () if ends_with(&KEY_FILES) => Some(ExclusionReason::KeyFile),
        () if ends_with(&SERVER_CODE) => Some(ExclusionReason::ServerCode),
        // Exclude databases, but not pages about them, such as `book.sqlite3.html`.
        () if lower.contains(".sqlite") && !private_content::is_document(&lower) => {
            Some(ExclusionReason::Database)
        }
        () => None,
    }
}

/// The reason for which a folder is excluded by the files in it: it is a data folder of frontdesk, with an
/// inbox in `inbox.sqlite` or an account in `acme/`, or a Maildir.
pub(crate) fn exclusion_by_structure(folder: &Path) -> Option<ExclusionReason> {
    let is_account = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("account-") && name.ends_with(".json")
    };
    let has_accounts = || {
        let entries = std::fs::read_dir(folder.join("acme"));
        entries.into_iter().flatten().flatten().any(is_account)
    };
    if is_inbox(&folder.join("inbox.sqlite")) || has_accounts() {
        return Some(ExclusionReason::Private("it is a data folder of frontdesk".to_owned()));
    }
    let is_maildir = ["cur", "new", "tmp"].iter().all(|part| folder.join(part).is_dir());
    is_maildir.then_some(ExclusionReason::Maildir)
}

/// The class of users that the pages are meant for: the largest class that may read the home page or at least
/// half of all pages.
///
/// A file is private if its mode allows fewer users to read it. With the umask 022, all users may read the
/// pages, so a file for the group is private. With the umask 027, a file for its owner alone is private. With
/// the umask 077, modes do not tell which files are private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    Others,
    Group,
    Owner,
}

impl Audience {
    /// The largest class that may read the home page or at least half of the pages. `pages` has the read bits
    /// of each page, and whether it is the home page. Without pages, all users are the audience.
    pub fn of_pages(pages: impl IntoIterator<Item = (u32, bool)>) -> Self {
        let pages: Vec<(u32, bool)> = pages.into_iter().collect();
        let has = |audience: Self| {
            let for_audience = pages.iter().filter(|(readers, _)| audience.includes(*readers));
            for_audience.clone().any(|(_, is_home)| *is_home) || 2 * for_audience.count() >= pages.len()
        };
        [Self::Others, Self::Group].into_iter().find(|audience| has(*audience)).unwrap_or(Self::Owner)
    }

    /// Whether this class of users, or a larger one, may read a file with this mode. Always true for the
    /// owner.
    pub fn includes(self, mode: u32) -> bool {
        match self {
            Self::Others => mode & 0o004 != 0,
            Self::Group => mode & 0o044 != 0,
            Self::Owner => true,
        }
    }

    /// A note for the operator if not all users may read the pages in the folder `place`, because then modes
    /// protect fewer files.
    fn describe(self, place: &str) -> Option<String> {
        match self {
            Self::Others => None,
            Self::Group => Some(format!(
                "most pages in {place} can be read only by the owner and the group, so files that the group can read are published too"
            )),
            Self::Owner => Some(format!(
                "most pages in {place} can be read only by the owner, so file modes do not show which files are private: every file \
                 that no other rule excludes is published; to exclude files with the mode 0600, run `chmod -R g+rX {place}`, \
                 and then set that mode on them"
            )),
        }
    }
}

/// Removes from `readers`, the read bits of a mode, the users who cannot enter a folder with the mode
/// `folder`: reading a file needs the execute permission of each folder above it.
pub(crate) fn restrict_readers(readers: u32, folder: u32) -> u32 {
    readers & ((folder & 0o111) << 2)
}

/// Decides which files of one load are published, and collects the excluded ones.
#[derive(Debug)]
pub struct Publication<'a> {
    options: &'a PublicationOptions,
    patterns: Vec<PathPattern>,
    /// For each pattern, whether it matches a file, and the latest reason why a file or folder that it names
    /// cannot be published.
    matches: Vec<(bool, Option<String>)>,
    pub result: PublicationResult,
}

/// The files that a load did not publish, and its notes on the modes of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicationResult {
    /// The excluded files and folders, sorted by name.
    pub exclusions: Vec<Exclusion>,
    /// Notes about folders in which modes exclude fewer files, because some users may not read the pages.
    pub notes: Vec<String>,
}

impl<'a> Publication<'a> {
    /// Parses the entries of `site.publish`. The result starts without excluded files.
    pub fn new(options: &'a PublicationOptions) -> Self {
        let entries = options.publish.iter().flat_map(|publish| &publish.value);
        let patterns: Vec<PathPattern> = entries.map(|entry| PathPattern::new(entry)).collect();
        Self {
            options,
            matches: vec![(false, None); patterns.len()],
            patterns,
            result: PublicationResult::default(),
        }
    }

    /// Finds the operator's private files, given the canonical paths `roots` of the served folders.
    pub(crate) fn private_files(&self, roots: &[PathBuf]) -> PrivateFiles<'a> {
        PrivateFiles::new(&self.options.private, roots)
    }

    /// Whether `site.publish` lists the file, or could list a file in the folder. Marks the entries that
    /// match a file as used, see [`Self::finish`]. `name` is relative to the site's folder or the build; the
    /// name of a folder ends with a slash.
    pub(crate) fn lists(&mut self, name: &str) -> bool {
        let mut is_listed = false;
        for (pattern, (is_used, _)) in self.patterns.iter().zip(&mut self.matches) {
            // Files in `static/` are served at the root, and may be listed with or without the folder's name.
            let names = [Some(name), name.strip_prefix("static/")];
            if names.into_iter().flatten().any(|name| pattern.matches(name)) {
                *is_used |= !name.ends_with('/');
                is_listed = true;
            }
        }
        is_listed
    }

    /// Records that a file or folder is not published and, if that is final, that `site.publish` cannot
    /// publish it. `path` is where it would be served.
    pub fn exclude(&mut self, path_in_site: String, path: String, reason: ExclusionReason) {
        if reason.is_final() {
            self.refuse(&path_in_site, &reason);
        }
        self.result.exclusions.push(Exclusion { path_in_site, path, reason });
    }

    /// Records that the entries of `site.publish` which name this file, or files in this folder, cannot
    /// publish it. [`Self::finish`] reports the latest reason.
    pub(crate) fn refuse(&mut self, name: &str, reason: &ExclusionReason) {
        for (pattern, (_, refused)) in self.patterns.iter().zip(&mut self.matches) {
            if pattern.is_confined_to(name) {
                *refused = Some(format!("`{name}` cannot be published: {reason}"));
            }
        }
    }

    /// A sentence that says why a file or a folder above it is not published; `None` if neither was excluded.
    /// `name` is relative to the site's folder or the build.
    pub fn explain(&self, name: &str) -> Option<String> {
        let exclusion = self.result.exclusions.iter().find(|known| known.covers("", Some(name)));
        exclusion.map(ToString::to_string)
    }

    /// Adds a note if some users may not read the pages in the folder `place`.
    pub fn note_audience(&mut self, audience: Audience, place: &str) {
        self.result.notes.extend(audience.describe(place));
    }

    /// Sorts the exclusions by name, keeps the first one for each name, and warns of entries of
    /// `site.publish` that match no file, or that name a file or folder which cannot be published.
    pub fn finish(mut self, faults: &mut Vec<Fault>) -> PublicationResult {
        self.result.exclusions.sort_by(|a, b| a.path_in_site.cmp(&b.path_in_site));
        self.result.exclusions.dedup_by(|a, b| a.path_in_site == b.path_in_site);
        let entries = self.options.publish.iter().flat_map(|publish| {
            let fault = |message| Fault::warning(&publish.place, publish.line, message);
            publish.value.iter().map(move |entry| (entry, fault))
        });
        for ((entry, fault), (is_used, refused)) in entries.zip(self.matches) {
            if let Some(refused) = refused {
                faults.push(fault(format!("`site.publish`: {refused}")));
            } else if !is_used {
                let fault = fault(format!("`site.publish`: no file that can be published matches `{entry}`"));
                let hint =
                    "correct the path, which is relative to the build or to the site's folder, or remove it";
                faults.push(fault.hint(hint));
            }
        }
        self.result
    }
}

impl Exclusion {
    /// Whether this exclusion applies to a request for `path` (decoded), or to the file `name` (relative to
    /// the site's folder or the build). An excluded folder covers its files, and an excluded page its
    /// Markdown.
    pub fn covers(&self, path: &str, name: Option<&str>) -> bool {
        if self.path_in_site.ends_with('/') {
            return path.starts_with(&self.path)
                || name.is_some_and(|name| name.starts_with(&self.path_in_site));
        }
        // The Markdown of `/a/` is at `/a.md`, and that of `/` at `/index.md`.
        let stem = path.strip_suffix(".md").map(|stem| if stem == "/index" { "" } else { stem });
        path == self.path || stem == Some(self.path.trim_end_matches('/')) || name == Some(&self.path_in_site)
    }
}

#[cfg(test)]
mod tests;
