//! Lists the files below the served folders, without private files and files that their names exclude. Checks
//! modes and symbolic links.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirEntry, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use blake3::Hash;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::publication::{
    Audience, ContentMark, ExclusionReason, HostingFile, PrivateFiles, Publication, Siblings,
    exclusion_by_name, exclusion_by_structure, find_access_rule, has_entry, has_settings, is_inbox,
    is_program, may_restrict_access, restrict_readers,
};
use frontdesk_fault::Fault;
use frontdesk_forms::text::visible;
use frontdesk_process::parallel::in_parallel;

/// Maximum size of a published file in bytes. Larger files belong on a download server.
pub const MAX_FILE_BYTES: u64 = 512 << 20;

/// Maximum number of files and folders that are listed below symbolic links to folders. Folders that link to
/// each other have very many paths.
const MAX_LINKED: usize = 100_000;

/// Maximum size of a configuration whose access rules are read, in bytes.
const MAX_RULES_BYTES: u64 = 1 << 20;

/// Minimum number of entries in a folder for examining them on all cores. Starting a thread takes as long as
/// examining about 50 entries.
const MIN_PARALLEL: usize = 256;

/// Maximum number of folders in the path of a file, counted from a served folder.
const MAX_DEPTH: usize = 100;

/// The error for a file or folder that has changed since its metadata was checked.
#[derive(Debug)]
pub struct FileChanged;

/// A file that may be published, unless its content excludes it.
pub struct FoundFile {
    /// The path relative to the folder that was listed.
    pub path_in_folder: String,
    /// The path relative to the site's folder, or to the output folder of a site generator.
    pub path_in_site: String,
    /// The canonical path: absolute, with all symbolic links resolved.
    pub canonical_path: PathBuf,
    pub metadata: Metadata,
    /// The read bits of the file's mode, minus those of users who cannot enter a folder above the file.
    pub readers: u32,
    /// Whether `site.publish` lists the file.
    pub is_listed: bool,
}

impl FoundFile {
    /// Reads the file. Fails with [`FileChanged`] if its device, inode or mode has changed since it was
    /// listed, or if it has grown beyond [`MAX_FILE_BYTES`]. The inner error means that it cannot be read.
    pub fn read(&self) -> Result<io::Result<Vec<u8>>, FileChanged> {
        self.read_up_to(MAX_FILE_BYTES)
    }

    /// Like [`Self::read`], with `limit` in place of [`MAX_FILE_BYTES`].
    fn read_up_to(&self, limit: u64) -> Result<io::Result<Vec<u8>>, FileChanged> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.metadata.len()).unwrap_or_default());
        let opened = open_unchanged(&self.canonical_path, &self.metadata)?;
        let read = opened.and_then(|file| file.take(limit + 1).read_to_end(&mut bytes));
        if bytes.len() as u64 > limit { Err(FileChanged) } else { Ok(read.map(|_| bytes)) }
    }
}

/// Opens the file at a canonical path for reading. Fails with [`FileChanged`] unless device, inode and mode
/// are those of `listed`; the size may differ. The inner error means that the file cannot be opened.
pub fn open_unchanged(at: &Path, listed: &Metadata) -> Result<io::Result<File>, FileChanged> {
    open_with_flags(at, listed, OFlags::NONBLOCK)
}

/// Opens the file or folder at a canonical path. Fails with [`FileChanged`] unless device, inode and mode are
/// those of `listed`. Follows no symbolic link, because one may have replaced a folder of the path; without
/// `openat2`, this holds only for the last part of the path. The size may differ: files such as logs grow.
fn open_with_flags(at: &Path, listed: &Metadata, flags: OFlags) -> Result<io::Result<File>, FileChanged> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = match openat2(CWD, at, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // The kernel is older than Linux 5.6 or a sandbox denies `openat2`, so use `open`.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(at, flags, Mode::empty()),
        opened => opened,
    };
    let file = match opened {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Err(FileChanged),
        Err(why) => return Ok(Err(why.into())),
    };
    let found = match file.metadata() {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let identity = |file: &Metadata| (file.dev(), file.ino(), file.mode());
    if identity(&found) == identity(listed) { Ok(Ok(file)) } else { Err(FileChanged) }
}

/// The folders with the files to publish: a site's folders, or the output folder of a site generator.
pub struct ServedFolders<'a> {
    /// The site's folder, or the output folder of a site generator.
    root: &'a Path,
    /// The canonical paths of the served folders, with their modes.
    folders: Vec<(PathBuf, u32)>,
    private: PrivateFiles<'a>,
    /// Maps the name of a file or folder, relative to `root`, to the decoded path at which it is served.
    served_path: &'a dyn Fn(&str) -> String,
    /// The modes of the listed folders, by their names relative to `root`, which end with a slash.
    modes: BTreeMap<String, u32>,
    /// Whether a file or folder changed while it was listed.
    pub has_changed: bool,
    /// The error if symbolic links lead to more than `MAX_LINKED` files and folders.
    pub limit_fault: Option<Fault>,
    /// The errors about published files that the access rules of another server would protect.
    pub access_faults: Vec<Fault>,
}

/// The mode of the served folder `part`, or 0777 for a build, whose `part` is empty. The mode of a build says
/// nothing about its files: a temporary folder, for example, has the mode 0700.
fn restricting_mode(part: &str, folder: &Metadata) -> u32 {
    if part.is_empty() { 0o777 } else { folder.mode() }
}

impl<'a> ServedFolders<'a> {
    /// Finds the folders `parts` of `root`, and the operator's private files. Skips folders that do not
    /// exist.
    pub fn new(
        root: &'a Path,
        parts: &[&str],
        publication: &Publication<'a>,
        served_path: &'a dyn Fn(&str) -> String,
    ) -> Self {
        let folder = |part: &&str| {
            let real = root.join(part).canonicalize().ok()?;
            let mode = restricting_mode(part, &real.metadata().ok()?);
            Some((real, mode))
        };
        let folders: Vec<(PathBuf, u32)> = parts.iter().filter_map(folder).collect();
        let paths: Vec<PathBuf> = folders.iter().map(|(real, _)| real.clone()).collect();
        let private = publication.private_files(&paths);
        let modes = BTreeMap::new();
        let (limit_fault, access_faults) = (None, Vec::new());
        Self { root, folders, private, served_path, modes, has_changed: false, limit_fault, access_faults }
    }

    /// Lists the files below the folder `part`, sorted by name. Leaves out the operator's private files,
    /// files for the server of a hosting provider and, unless `site.publish` lists them, files whose names
    /// exclude them. Records these in `publication`, and sets [`Self::has_changed`], [`Self::limit_fault`]
    /// and [`Self::access_faults`]. Returns no files if the folder does not exist, which is no fault, or is
    /// private itself.
    ///
    /// The folder itself must not be a symbolic link to a place outside the site's folder. Symbolic links
    /// inside the folder must point into served folders, because the site's folder also contains the
    /// configuration, the inbox and perhaps the certificate's key. Other links are faults and are not
    /// followed.
    pub fn list(
        &mut self,
        part: &str,
        publication: &mut Publication<'_>,
        faults: &mut Vec<Fault>,
    ) -> Vec<FoundFile> {
        let top = self.root.join(part);
        let Ok(metadata) = top.metadata() else { return Vec::new() };
        let boundary = self.root.canonicalize().unwrap_or_else(|_| self.root.to_owned());
        let Some(real) = top.canonicalize().ok().filter(|real| real.starts_with(&boundary)) else {
            let target = top.canonicalize().unwrap_or_default();
            faults.push(outside_link_fault(part, "the site's folder", &target));
            return Vec::new();
        };
        let mode = restricting_mode(part, &metadata);
        let place = if part.is_empty() { String::new() } else { [part, "/"].concat() };
        if let Some(why) = self.private.find(&real, &metadata) {
            let path = (self.served_path)(&place);
            publication.exclude(place, path, ExclusionReason::Private(why.to_owned()));
            return Vec::new();
        }
        self.modes.insert(place.clone(), mode);
        let mut listing = FolderListing {
            served: self,
            publication,
            faults,
            place,
            folders: Vec::new(),
            files: Vec::new(),
            access_faults: Vec::new(),
            linked: 0,
        };
        let readers = restrict_readers(0o444, mode);
        listing.folders.push(Folder {
            path: vec![real],
            metadata,
            name: String::new(),
            readers,
            is_excluded: false,
            is_linked: false,
        });
        while let Some(folder) = listing.folders.pop() {
            if listing.read_folder(&folder).is_err() {
                listing.served.has_changed = true;
            }
        }
        let (mut files, mut access_faults) = (listing.files, listing.access_faults);
        files.sort_unstable_by(|a, b| a.path_in_folder.cmp(&b.path_in_folder));
        // A rule in a folder without published files, such as one of scripts for another server, protects
        // nothing here.
        let folder_of = |fault: &Fault| fault.place.rfind('/').map_or(0, |end| end + 1);
        access_faults.retain(|fault| {
            let folder = &fault.place[..folder_of(fault)];
            files.iter().any(|file| file.path_in_site.starts_with(folder) && file.path_in_site != fault.place)
        });
        self.access_faults.append(&mut access_faults);
        files
    }

    /// Whether all of `audience` may read the file, or `site.publish` lists it. Records an exclusion if not:
    /// of the outermost folder that denies it, or else of the file.
    pub fn is_for(&self, audience: Audience, file: &FoundFile, publication: &mut Publication<'_>) -> bool {
        if file.is_listed || audience.includes(file.readers) {
            return true;
        }
        let folders = file.path_in_site.match_indices('/').map(|(at, _)| &file.path_in_site[..=at]);
        let mode_of = |folder: &str| Some((folder.to_owned(), *self.modes.get(folder)?));
        let is_closed = |(_, mode): &(String, u32)| !audience.includes(restrict_readers(0o444, *mode));
        // If the audience cannot enter a folder, record the outermost such folder instead of its files.
        let closed = folders.filter_map(mode_of).find(is_closed);
        let (name, mode) = closed.unwrap_or_else(|| (file.path_in_site.clone(), file.metadata.mode()));
        let path = (self.served_path)(&name);
        publication.exclude(name, path, ExclusionReason::Mode(mode));
        false
    }

    /// Whether the file is a copy of one of the operator's small private files (8 bytes to 64 KiB, no
    /// certificates). Records an exclusion if so.
    pub fn is_copy(&self, file: &FoundFile, content: &Hash, publication: &mut Publication<'_>) -> bool {
        let Some(why) = self.private.find_copied(content) else { return false };
        let reason = ExclusionReason::Private(format!("it is a copy of a private file: {why}"));
        self.exclude(file, reason, publication);
        true
    }

    /// Records that a found file is not published, and the reason.
    pub fn exclude(&self, file: &FoundFile, reason: ExclusionReason, publication: &mut Publication<'_>) {
        let path = (self.served_path)(&file.path_in_site);
        publication.exclude(file.path_in_site.clone(), path, reason);
    }

    /// Whether the target of a symbolic link is, or is in, a file or folder for the server of a hosting
    /// provider at the root of a served folder. The configuration of a provider does not count.
    fn is_hosting(&self, target: &Path) -> bool {
        let mut below = self.folders.iter().filter_map(|(served, _)| target.strip_prefix(served).ok());
        let parts = below.next().map(|below| (below.iter().next(), below.iter().count()));
        let Some((Some(first), count)) = parts else { return false };
        let found = HostingFile::from_name(&first.to_string_lossy(), count > 1 || target.is_dir());
        found.is_some_and(|found| found != HostingFile::Configuration)
    }

    /// The read bits of the classes (owner, group and others) that can enter all folders above `target`, up
    /// to the served folder or, if there is none, the root of the file system. Empty if the mode of one of
    /// these folders cannot be read.
    fn readers_above(&self, target: &Path) -> u32 {
        let mut readers = 0o444;
        for folder in target.ancestors().skip(1) {
            if let Some((_, mode)) = self.folders.iter().find(|(served, _)| served == folder) {
                return restrict_readers(readers, *mode);
            }
            readers = folder.metadata().map_or(0, |folder| restrict_readers(readers, folder.mode()));
        }
        readers
    }
}

/// A folder to list.
struct Folder {
    /// The canonical paths of the folders from the top of the listing to this folder, which is the last.
    /// After a symbolic link, a path need not be inside the one before it.
    path: Vec<PathBuf>,
    metadata: Metadata,
    /// The path relative to the folder that was listed. Ends with a slash unless it is empty.
    name: String,
    /// The read bits of the classes (owner, group and others) that can enter this folder and those above it,
    /// up to the served folder.
    readers: u32,
    /// Whether the folder is listed only because it may have files that `site.publish` lists.
    is_excluded: bool,
    /// Whether the folder is below, or is, the target of a symbolic link.
    is_linked: bool,
}

/// An entry of a folder with its metadata.
struct Entry {
    at: PathBuf,
    is_link: bool,
    /// The metadata of the file or folder to which a symbolic link leads.
    metadata: io::Result<Metadata>,
    /// Why the name excludes the entry; `None` if it does not, or is not UTF-8.
    by_name: Option<ExclusionReason>,
}

impl Entry {
    fn examine(entry: &DirEntry, name: &OsStr, siblings: Siblings) -> Self {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let at = entry.path();
        let metadata = if is_link { at.metadata() } else { entry.metadata() };
        let is_folder = metadata.as_ref().is_ok_and(Metadata::is_dir);
        let by_name = name.to_str().and_then(|name| exclusion_by_name(name, is_folder, siblings));
        Self { at, is_link, metadata, by_name }
    }
}

/// A listing in progress: the files found so far, and the folders that are still to be read.
struct FolderListing<'l, 'a, 'p> {
    served: &'l mut ServedFolders<'a>,
    publication: &'l mut Publication<'p>,
    faults: &'l mut Vec<Fault>,
    /// The name of the listed folder, relative to the site's folder. Ends with a slash unless it is empty.
    place: String,
    folders: Vec<Folder>,
    files: Vec<FoundFile>,
    access_faults: Vec<Fault>,
    /// The number of files and folders below symbolic links.
    linked: usize,
}

impl FolderListing<'_, '_, '_> {
    /// Adds the published files in a folder, and the folders in it that are still to be listed. Reports a
    /// folder that cannot be read, a name that is not UTF-8, and rules of another server that restrict
    /// access. Ends the whole listing at [`MAX_LINKED`]. Fails if the folder has changed since it was found.
    fn read_folder(&mut self, folder: &Folder) -> Result<(), FileChanged> {
        let Some(real) = folder.path.last() else { return Ok(()) };
        let place = [&self.place, folder.name.trim_end_matches('/')].concat();
        let place = place.trim_end_matches('/');
        let opened = open_with_flags(real, &folder.metadata, OFlags::DIRECTORY)?;
        let list = || std::fs::read_dir(real)?.collect::<io::Result<Vec<DirEntry>>>();
        let entries = match opened.and_then(|_| list()) {
            Ok(entries) => entries,
            Err(why) => {
                let message = format!("the folder cannot be read: {why}");
                self.faults.push(Fault::error(place, None, message));
                return Ok(());
            }
        };
        self.linked += if folder.is_linked { entries.len() } else { 0 };
        if self.linked > MAX_LINKED {
            let message =
                format!("symbolic links to folders lead to more than {MAX_LINKED} files and folders");
            let hint = "remove symbolic links to large folders, or between folders that link to each other";
            self.served.limit_fault = Some(Fault::error(place, None, message).hint(hint));
            self.folders.clear();
            return Ok(());
        }
        let mut listed: Vec<_> = entries.into_iter().map(|entry| (entry.file_name(), entry)).collect();
        // The file system lists names in any order. These few bytes are sorted faster than the found files.
        listed.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let siblings = Siblings::from_names(listed.iter().filter_map(|(name, _)| name.to_str()));
        let examine = |(name, entry): &(OsString, DirEntry)| Entry::examine(entry, name, siblings);
        let examined = if listed.len() < MIN_PARALLEL {
            listed.iter().map(examine).collect()
        } else {
            in_parallel(&listed, examine)
        };
        for (entry, (name, _)) in examined.into_iter().zip(&listed) {
            let place = [&self.place, &folder.name, &*name.to_string_lossy()].concat();
            self.report_access_rule(folder, real, &name.to_string_lossy(), &place);
            let result = match name.to_str() {
                Some(name) => self.read_entry(folder, entry, name, &place),
                None => Err(Fault::error(place, None, "its name is not valid UTF-8")
                    .hint("rename the file or folder")),
            };
            self.faults.extend(result.err());
        }
        Ok(())
    }

    /// Adds the file or folder, or records why it is not published. `place` is its name relative to the
    /// site's folder or the build. Returns the fault of an entry that cannot be published, such as a broken
    /// link, or a file above [`MAX_FILE_BYTES`]. Ignores files in an excluded folder that `site.publish` does
    /// not list; sets [`ServedFolders::has_changed`] for an entry that has been removed.
    fn read_entry(&mut self, folder: &Folder, entry: Entry, name: &str, place: &str) -> Result<(), Fault> {
        let Entry { at, is_link, metadata, by_name } = entry;
        let is_folder = metadata.as_ref().is_ok_and(Metadata::is_dir);
        let place = if is_folder { [place, "/"].concat() } else { place.to_owned() };
        let is_listed = self.publication.lists(&place);
        if let Ok(file) = &metadata
            && let Some(why) = self.served.private.find(&at, file).filter(|_| !is_link)
        {
            self.exclude(place, ExclusionReason::Private(why.to_owned()));
            return Ok(());
        }
        if folder.name.is_empty() && self.leave_out_hosting(name, &place, &at, is_folder, is_listed) {
            return Ok(());
        }
        let by_structure = || is_folder.then(|| exclusion_by_structure(&at)).flatten();
        let by_name = by_name.or_else(by_structure);
        // `site.publish` has no effect if the reason is final.
        if let Some(reason) = by_name.clone().filter(|reason| !is_listed || reason.is_final()) {
            // Record an inbox as an inbox, not as a database: `site.publish` can publish other databases, but
            // never an inbox.
            let is_final = reason == ExclusionReason::Database
                && metadata.is_ok_and(|file| file.is_file())
                && is_inbox(&at);
            self.exclude(place, if is_final { ExclusionReason::Content(ContentMark::Inbox) } else { reason });
            return Ok(());
        }
        if folder.is_excluded && !is_listed {
            // An unlisted file in an excluded folder needs no exclusion of its own.
            return Ok(());
        }
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(why) if is_link => return Err(broken_link_fault(&place, &at, &why)),
            Err(why) if why.kind() == ErrorKind::NotFound => {
                self.served.has_changed = true;
                return Ok(());
            }
            Err(why) => return Err(unexamined_fault(place, &why)),
        };
        let (canonical_path, readers) = if is_link {
            match self.follow_link(folder, &at, &place, &metadata, is_listed)? {
                Some(found) => found,
                None => return Ok(()),
            }
        } else {
            (at, folder.readers)
        };
        let mode = metadata.mode();
        if is_folder {
            self.served.modes.insert(place, mode);
            self.add_folder(Folder {
                path: folder.path.iter().cloned().chain([canonical_path]).collect(),
                metadata,
                name: [&folder.name, name, "/"].concat(),
                readers: restrict_readers(readers, mode),
                is_excluded: folder.is_excluded || by_name.is_some(),
                is_linked: folder.is_linked || is_link,
            })?;
        } else if metadata.is_file() && metadata.len() <= MAX_FILE_BYTES {
            let path_in_folder = [&folder.name, name].concat();
            let (path_in_site, readers) = (place, readers & mode);
            let file =
                FoundFile { path_in_folder, path_in_site, canonical_path, metadata, readers, is_listed };
            self.files.push(file);
        } else if metadata.is_file() {
            let message =
                format!("is larger than {} MiB, the limit for a published file", MAX_FILE_BYTES >> 20);
            let hint = "move it to another server, and link to it there";
            return Err(Fault::error(place, None, message).hint(hint));
        } else {
            return Err(Fault::error(place, None, "is neither a regular file nor a folder").hint("remove it"));
        }
        Ok(())
    }

    /// Adds the folder to those to be read. Fails if it is nested in more than [`MAX_DEPTH`] folders.
    fn add_folder(&mut self, folder: Folder) -> Result<(), Fault> {
        if folder.path.len() > MAX_DEPTH + 1 {
            let message = format!("is nested in more than {MAX_DEPTH} folders");
            let place = [&self.place, &*folder.name].concat();
            return Err(
                Fault::error(place, None, message).hint("move it to a folder with fewer levels above it")
            );
        }
        self.folders.push(folder);
        Ok(())
    }

    /// The target of a symbolic link, and the read bits of the users who can enter all folders above it. If
    /// the target is private, is for a hosting provider, or has a name that is not published and
    /// `site.publish` does not list the link (`is_listed`), excludes the link and returns `None`. Fails if
    /// [`Self::find_target`] does, or with a warning if the link leads to a folder that contains it.
    fn follow_link(
        &mut self,
        folder: &Folder,
        link: &Path,
        place: &str,
        metadata: &Metadata,
        is_listed: bool,
    ) -> Result<Option<(PathBuf, u32)>, Fault> {
        let target = self.find_target(link, place.trim_end_matches('/'), is_listed)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let by_name = exclusion_by_name(&name, metadata.is_dir(), Siblings::default()).filter(|_| !is_listed);
        let private = self.served.private.find(&target, metadata);
        let private = private.map(|why| ExclusionReason::Private(why.to_owned()));
        let hosting = self.served.is_hosting(&target).then_some(ExclusionReason::Hosting);
        if let Some(reason) = private.or(hosting).or(by_name) {
            self.exclude(place.to_owned(), reason);
            return Ok(None);
        }
        if metadata.is_dir() && folder.path.contains(&target) {
            let message = "the symbolic link points to a folder that contains it, and is not followed";
            return Err(Fault::warning(place, None, message));
        }
        let readers = self.served.readers_above(&target);
        Ok(Some((target, readers)))
    }

    /// Reports a rule of another server in the file `name` that restricts access to published files, because
    /// they would be public without it. `real` is the path of the folder. Unreadable files, and those above
    /// [`MAX_RULES_BYTES`], do not count.
    fn report_access_rule(&mut self, folder: &Folder, real: &Path, name: &str, place: &str) {
        let is_root = folder.name.is_empty() && matches!(&*self.place, "" | "static/");
        if folder.is_excluded || !may_restrict_access(name, is_root) {
            return;
        }
        let at = self.served.root.join(place);
        let is_small = at.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_RULES_BYTES);
        let Some(bytes) = is_small.then(|| std::fs::read(at).ok()).flatten() else { return };
        let exists = |path: &str| has_entry(real, path);
        if let Some(rule) = find_access_rule(name, &String::from_utf8_lossy(&bytes), exists) {
            let message =
                format!("`{}` restricts access to files, which this server cannot enforce", rule.text);
            let hint = "remove the files, or this rule if they may be public";
            self.access_faults.push(Fault::error(place, rule.line, message).hint(hint));
        }
    }

    /// Excludes an entry at the root of a build, or of `static/`, that is for the server of a hosting
    /// provider, and returns whether it is. The caller passes only entries at the root of the listed folder.
    /// Warns if frontdesk does not apply its rules, configuration or programs. Rules at the root of a build
    /// are applied, so they are left out without an exclusion. Does not exclude a configuration, or an entry
    /// that [`is_program`] recognizes, if `site.publish` lists it.
    fn leave_out_hosting(
        &mut self,
        name: &str,
        place: &str,
        at: &Path,
        is_folder: bool,
        is_listed: bool,
    ) -> bool {
        let is_build = self.place.is_empty();
        if !is_build && self.place != "static/" {
            return false;
        }
        let warn = |message: &str| Fault::warning(place, None, message);
        let has_settings = || (!is_folder && has_settings(name, at)).then_some(HostingFile::Configuration);
        match HostingFile::from_name(name, is_folder).or_else(has_settings) {
            Some(HostingFile::Rules) if is_build => {
                // Do not list the rules of a build as excluded, because the server applies them itself.
                self.publication.refuse(place, &ExclusionReason::Hosting);
                return true;
            }
            Some(HostingFile::Rules) => {
                let hint = if name == "_redirects" {
                    "move its rules to `[redirects]` in frontdesk.toml"
                } else {
                    "add the headers in a proxy in front of frontdesk"
                };
                let message =
                    "has no effect here: rules apply only at the root of a build; it is not published";
                self.faults.push(warn(message).hint(hint));
            }
            Some(HostingFile::Program) if !name.to_ascii_lowercase().starts_with("_worker.js.") => {
                let message = "is for Cloudflare Pages Functions; it is neither run nor published";
                self.faults.push(warn(message));
            }
            Some(HostingFile::Program | HostingFile::RulesCopy) => {}
            Some(HostingFile::Configuration) if !is_listed => {
                self.faults.push(warn(
                    "is the configuration of a hosting provider; it is neither applied nor published",
                ));
                self.exclude(place.to_owned(), ExclusionReason::Configuration);
                return true;
            }
            _ if is_build && !is_listed && is_program(name, at) => {
                let message = "is for the server of a hosting provider; it is neither run nor published";
                self.faults.push(warn(message));
                self.exclude(place.to_owned(), ExclusionReason::ServerCode);
                return true;
            }
            _ => return false,
        }
        self.exclude(place.to_owned(), ExclusionReason::Hosting);
        true
    }

    /// The canonical path of a symbolic link's target. Fails if the target cannot be reached or is outside of
    /// the served folders, or if it is hidden and `site.publish` does not list the link. Names that
    /// begin with two dots do not count as hidden. `place` is the name of the link.
    fn find_target(&self, link: &Path, place: &str, is_listed: bool) -> Result<PathBuf, Fault> {
        let target = link.canonicalize().map_err(|why| broken_link_fault(place, link, &why))?;
        let is_hidden = |name: &OsStr| {
            let reason = exclusion_by_name(&name.to_string_lossy(), true, Siblings::default());
            reason == Some(ExclusionReason::Hidden)
        };
        let mut below = self.served.folders.iter().filter_map(|(served, _)| target.strip_prefix(served).ok());
        // In a Kubernetes volume, files link to a folder such as `..data`, which is replaced atomically.
        let is_version = |name: &OsStr| name.as_encoded_bytes().starts_with(b"..");
        let is_hidden = |name: &OsStr| is_hidden(name) && !is_version(name);
        match below.next().map(|below| !is_listed && below.iter().any(is_hidden)) {
            Some(false) => Ok(target),
            Some(true) => {
                let message = format!(
                    "the symbolic link points to {}, which is hidden: a name in its path begins with a dot",
                    shown_path(&target)
                );
                let hint = "replace the link with a copy of its target, or list the link in `site.publish`";
                Err(Fault::error(place, None, message).hint(hint))
            }
            None => Err(outside_link_fault(place, "the published folders", &target)),
        }
    }

    fn exclude(&mut self, place: String, reason: ExclusionReason) {
        let path = (self.served.served_path)(&place);
        self.publication.exclude(place, path, reason);
    }
}

fn shown_path(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

fn outside_link_fault(place: &str, boundary: &str, target: &Path) -> Fault {
    let message = format!("the symbolic link points outside {boundary}, to {}", shown_path(target));
    Fault::error(place, None, message).hint("replace the link with a copy of its target")
}

/// The fault of a file or folder whose metadata cannot be read.
fn unexamined_fault(place: String, why: &io::Error) -> Fault {
    Fault::error(place, None, format!("cannot be examined: {why}"))
        .hint("give the server's user access to the folder that contains it")
}

/// The fault of a symbolic link whose target is missing, or cannot be reached for the reason `why`.
fn broken_link_fault(place: &str, link: &Path, why: &io::Error) -> Fault {
    let target = shown_path(&link.read_link().unwrap_or_default());
    let (message, hint) = if why.kind() == ErrorKind::NotFound {
        (format!("the symbolic link is broken: {target} does not exist"), "correct the link, or remove it")
    } else {
        let message = format!("the symbolic link to {target} cannot be followed: {why}");
        (message, "give the server's user access to the folders above the target, or remove the link")
    };
    Fault::error(place, None, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::PublicationOptions;

    const SITE_FOLDERS: [&str; 5] = ["pages", "posts", "assets", "static", "theme"];

    fn list(root: &Path, faults: &mut Vec<Fault>) -> Vec<FoundFile> {
        let options = PublicationOptions::default();
        let mut publication = Publication::new(&options);
        let mut served = ServedFolders::new(root, &SITE_FOLDERS, &publication, &str::to_owned);
        let files = served.list("static", &mut publication, faults);
        faults.append(&mut served.access_faults);
        files
    }

    /// Makes `static/link` a symbolic link to `target`, and checks that the site then has the files `found`
    /// in `static/` and reports `fault`.
    fn check(target: &str, found: &[&str], fault: Option<&str>) {
        let outside = tempfile::tempdir().expect("a folder");
        std::fs::write(outside.path().join("secret"), "secret").expect("the file is written");
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for part in ["pages", "static/.git", "static/..2026", "assets", "data"] {
            std::fs::create_dir_all(root.join(part)).expect("a folder");
        }
        for file in [
            "frontdesk.toml",
            "data/inbox.sqlite",
            "static/.git/config",
            "static/..2026/c.txt",
            "static/a.txt",
            "assets/b.txt",
        ] {
            std::fs::write(root.join(file), "x").expect("the file is written");
        }
        let target = target.replace("OUTSIDE", outside.path().to_str().expect("a name"));
        symlink(&target, root.join("static/link")).expect("a link");
        let mut faults = Vec::new();
        let listed = list(root, &mut faults);
        let names: Vec<&str> = listed.iter().map(|file| &*file.path_in_folder).collect();
        assert_eq!(names, found, "{target}");
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), usize::from(fault.is_some()), "{target}: {said:?}");
        assert!(fault.is_none_or(|fault| said[0].contains(fault)), "{target}: {said:?}");
    }

    #[test]
    fn a_symbolic_link_out_of_the_published_folders_is_a_fault() {
        check("a.txt", &["a.txt", "link"], None);
        check("../assets/b.txt", &["a.txt", "link"], None);
        check("../assets", &["a.txt", "link/b.txt"], None);
        // As in a volume of Kubernetes.
        check("..2026/c.txt", &["a.txt", "link"], None);
        check("..2026", &["a.txt"], None);
        // A link to the folder that contains it.
        check(".", &["a.txt"], Some("static/link/: the symbolic link points to a folder that contains it"));
        let out = Some("static/link: the symbolic link points outside the published folders");
        for target in
            ["OUTSIDE/secret", "OUTSIDE", "..", "../frontdesk.toml", "../data", "../data/inbox.sqlite"]
        {
            check(target, &["a.txt"], out);
        }
        check(".git", &["a.txt"], Some("static/.git, which is hidden"));
        check(".git/config", &["a.txt"], Some("static/.git/config, which is hidden"));
        let broken = "static/link: the symbolic link is broken: ../none does not exist";
        check("../none", &["a.txt"], Some(broken));
        check("link", &["a.txt"], Some("static/link: the symbolic link to link cannot be followed"));
    }

    #[test]
    fn a_rule_that_restricts_access_to_published_files_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let routes = "{\"routes\": [\n{\"route\": \"/members/*\", \"allowedRoles\": [\"a\"]}]}";
        for (name, text) in [
            ("members/.htaccess", "AuthType Basic\nRequire valid-user\n"),
            ("members/a.html", "x"),
            ("members/netlify.toml", "Basic-Auth = \"a:b\""),
            ("node_modules/.htaccess", "Require valid-user"),
            ("uploads/.htaccess", "Deny from all"),
            ("uploads/index.php", "<?php"),
            ("package.json", "{}"),
            ("staticwebapp.config.json", routes),
            ("static.json", "{\"today\": 1}"),
            ("serve.json", "{\"cleanUrls\": true}"),
        ] {
            let at = folder.path().join("static").join(name);
            std::fs::create_dir_all(at.parent().expect("a folder")).expect("a folder");
            std::fs::write(at, text).expect("it is written");
        }
        let mut faults = Vec::new();
        let files = list(folder.path(), &mut faults);
        let names: Vec<&str> = files.iter().map(|file| &*file.path_in_folder).collect();
        assert_eq!(names, ["members/a.html", "members/netlify.toml", "package.json", "static.json"]);
        let mut errors: Vec<String> = faults
            .iter()
            .map(|fault| format!("{}:{:?} {}", fault.place, fault.line, fault.message))
            .filter(|fault| fault.contains("restricts access"))
            .collect();
        errors.sort();
        let rest = "restricts access to files, which this server cannot enforce";
        let expected = [
            format!("static/members/.htaccess:Some(2) `Require valid-user` {rest}"),
            format!("static/staticwebapp.config.json:Some(2) `allowedRoles of /members/*` {rest}"),
        ];
        assert_eq!(errors, expected);
        assert_eq!(faults.len(), 4, "{faults:?}");
    }

    #[test]
    fn a_file_that_grows_beyond_the_limit_has_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("static")).expect("a folder");
        let name = folder.path().join("static/a.log");
        std::fs::write(&name, "abc").expect("the file is written");
        let files = list(folder.path(), &mut Vec::new());
        std::fs::write(&name, "abcdef").expect("the file is written");
        for (limit, expected) in [(7, Some("abcdef")), (6, Some("abcdef")), (5, None)] {
            let read = files[0].read_up_to(limit).ok().map(|read| read.expect("readable"));
            assert_eq!(read.as_deref(), expected.map(str::as_bytes), "{limit}");
        }
    }

    #[test]
    fn a_folder_that_links_out_of_the_site_is_a_fault() {
        let (outside, folder) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        std::fs::write(outside.path().join("a.txt"), "x").expect("the file is written");
        std::fs::create_dir(folder.path().join("pages")).expect("a folder");
        symlink(outside.path(), folder.path().join("static")).expect("a link");
        let mut faults = Vec::new();
        assert!(list(folder.path(), &mut faults).is_empty());
        assert_eq!(faults.len(), 1);
        assert!(faults[0].to_string().contains("static: the symbolic link points outside the site's folder"));
    }

    #[test]
    fn a_file_that_fewer_users_may_read_than_the_pages_is_excluded() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let write = |name: &str, mode| {
            std::fs::create_dir_all(root.join(name).parent().expect("a folder")).expect("a folder");
            std::fs::write(root.join(name), "x").expect("it is written");
            std::fs::set_permissions(root.join(name), Permissions::from_mode(mode)).expect("ours");
        };
        let close = |name: &str, mode| {
            std::fs::set_permissions(root.join(name), Permissions::from_mode(mode)).expect("ours");
        };
        for (name, mode) in [
            ("static/all", 0o644),
            ("static/group", 0o640),
            ("static/own", 0o600),
            ("static/open/all", 0o644),
            ("static/closed/all", 0o644),
            ("static/closed/in/all", 0o644),
            ("static/hidden/all", 0o644),
            ("assets/all", 0o644),
        ] {
            write(name, mode);
        }
        for (name, mode) in [("static", 0o755), ("static/open", 0o755), ("static/closed/in", 0o755)] {
            close(name, mode);
        }
        close("static/closed", 0o750);
        close("static/hidden", 0o700);
        close("assets", 0o750);
        symlink("closed/in/all", root.join("static/link")).expect("a link");
        symlink("../assets/all", root.join("static/other")).expect("a link");
        let check = |audience, expected: &[&str]| {
            let options = PublicationOptions::default();
            let mut publication = Publication::new(&options);
            let mut served = ServedFolders::new(root, &SITE_FOLDERS, &publication, &str::to_owned);
            let files = served.list("static", &mut publication, &mut Vec::new());
            for file in files {
                served.is_for(audience, &file, &mut publication);
            }
            let excluded = publication.finish(&mut Vec::new()).exclusions;
            let excluded: Vec<String> = excluded
                .iter()
                .map(|exclusion| match exclusion.reason {
                    ExclusionReason::Mode(mode) => format!("{} {:o}", exclusion.path_in_site, mode & 0o777),
                    _ => exclusion.to_string(),
                })
                .collect();
            assert_eq!(excluded, expected, "{audience:?}");
        };
        let closed = [
            "static/closed/ 750",
            "static/group 640",
            "static/hidden/ 700",
            "static/link 644",
            "static/other 644",
            "static/own 600",
        ];
        check(Audience::Others, &closed);
        check(Audience::Group, &["static/hidden/ 700", "static/own 600"]);
        check(Audience::Owner, &[]);
    }

    #[test]
    fn a_folder_has_as_many_names_as_links_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["static/v1", "static/v2/deep"] {
            std::fs::create_dir_all(at(name)).expect("a folder");
        }
        for name in ["static/v1/a", "static/v2/deep/b"] {
            std::fs::write(at(name), "x").expect("it is written");
        }
        for (target, link) in [
            ("v1", "static/old"),
            ("v2", "static/latest"),
            ("v2", "static/stable"),
            ("../../v1", "static/v2/deep/before"),
            ("../v2", "static/v1/after"),
        ] {
            symlink(target, at(link)).expect("a link");
        }
        let mut faults = Vec::new();
        let files = list(folder.path(), &mut faults);
        let names: Vec<&str> = files.iter().map(|file| &*file.path_in_folder).collect();
        let expected = [
            "latest/deep/b",
            "latest/deep/before/a",
            "old/a",
            "old/after/deep/b",
            "stable/deep/b",
            "stable/deep/before/a",
            "v1/a",
            "v1/after/deep/b",
            "v2/deep/b",
            "v2/deep/before/a",
        ];
        assert_eq!(names, expected);
        let mut said: Vec<String> = faults.iter().map(|fault| fault.place.clone()).collect();
        said.sort();
        let skipped = [
            "static/latest/deep/before/after/",
            "static/old/after/deep/before/",
            "static/stable/deep/before/after/",
            "static/v1/after/deep/before/",
            "static/v2/deep/before/after/",
        ];
        assert_eq!(said, skipped);
    }

    #[test]
    fn folders_that_link_to_each_other_are_listed_up_to_a_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: String| folder.path().join("static").join(name);
        for name in 0..12 {
            std::fs::create_dir_all(at(format!("{name}"))).expect("a folder");
            for other in (0..12).filter(|other| *other != name) {
                symlink(format!("../{other}"), at(format!("{name}/{other}"))).expect("a link");
            }
        }
        let options = PublicationOptions::default();
        let mut publication = Publication::new(&options);
        let mut served = ServedFolders::new(folder.path(), &SITE_FOLDERS, &publication, &str::to_owned);
        served.list("static", &mut publication, &mut Vec::new());
        let fault = served.limit_fault.expect("a fault").to_string();
        assert!(fault.contains("symbolic links to folders lead to more than 100000 files"), "{fault}");
    }

    #[test]
    fn only_the_listed_file_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str| std::fs::write(at(name), name).expect("it is written");
        let reset = || {
            for name in ["static", "outside"] {
                let _ = std::fs::remove_dir_all(at(name));
                let _ = std::fs::remove_file(at(name));
            }
            for name in ["static/sub", "outside"] {
                std::fs::create_dir_all(at(name)).expect("a folder");
            }
            write("static/sub/a.txt");
            write("static/sub/private");
            write("outside/a.txt");
            list(folder.path(), &mut Vec::new()).swap_remove(0)
        };
        let remove = |name: &str| std::fs::remove_file(at(name)).expect("ours");
        let rename = |from: &str, to: &str| std::fs::rename(at(from), at(to)).expect("ours");
        let read = |file: &FoundFile| file.read().map(|read| read.expect("it is read"));
        let file = reset();
        assert_eq!(read(&file).expect("unchanged"), b"static/sub/a.txt");
        std::fs::write(at("static/sub/a.txt"), "a longer text than before").expect("it is written");
        assert_eq!(read(&file).expect("the same file"), b"a longer text than before");
        std::fs::set_permissions(at("static/sub/a.txt"), Permissions::from_mode(0o600)).expect("ours");
        assert!(read(&file).is_err(), "the mode is another one");
        let changes: [(&str, &dyn Fn()); 5] = [
            ("removed", &|| remove("static/sub/a.txt")),
            ("replaced with another file", &|| rename("static/sub/private", "static/sub/a.txt")),
            ("replaced with a link", &|| {
                remove("static/sub/a.txt");
                symlink(at("outside/a.txt"), at("static/sub/a.txt")).expect("a link");
            }),
            ("in a folder that was replaced with a link", &|| {
                rename("static/sub", "outside/sub");
                symlink(at("outside"), at("static/sub")).expect("a link");
            }),
            // Even to the same file.
            ("in a folder that was moved", &|| {
                rename("static/sub", "outside/sub");
                symlink(at("outside/sub"), at("static/sub")).expect("a link");
            }),
        ];
        for (change, make) in changes {
            let file = reset();
            make();
            assert!(read(&file).is_err(), "{change}");
        }
    }
}
