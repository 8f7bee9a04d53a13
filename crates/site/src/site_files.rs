//! Reads the changed files in a site's folder or a build, and gives assets fingerprinted names.

#![expect(clippy::disallowed_methods, reason = "the age of a file is measured with the system clock")]

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use jiff::civil::Date;
use memchr::memchr;

use super::file::{Blob, is_served_from_disk};
use super::path::{self, encode};
use super::theme::{Theme, is_theme_asset};
use crate::fault::{Fault, Severity};
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::parallel::in_parallel;
use frontdesk_process::progress;
use frontdesk_publish::disk_file::{DiskContent, DiskFile, held_open_limit};
use frontdesk_publish::media_type::media_type;
use frontdesk_publish::{
    Audience, ContentMark, ExclusionReason, FileChanged, FoundFile, Publication, ServedFolders, examine,
};

/// The subfolders of the site's folder that are loaded.
pub const SITE_FOLDERS: [&str; 5] = ["pages", "posts", "assets", "static", "theme"];

/// A Markdown file below `pages/` or `posts/`.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// The file's name relative to the site's folder.
    pub file: String,
    pub hash: Hash,
    /// The date of the last change, in UTC.
    pub changed: Date,
    at: PathBuf,
    /// The file's text. `None` if the file is unchanged and was not read, or if the text was taken.
    text: Mutex<Option<String>>,
}

impl SourceFile {
    /// The length of the text in bytes; 0 if the file is unchanged, or if the text was taken.
    pub fn size(&self) -> u64 {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.as_ref().map_or(0, |text| text.len() as u64)
    }

    /// Calls `read` with the text. Reads the file if the text is not in memory; fails if the file cannot be
    /// read or has changed since the load listed it. Does not keep a text that it reads.
    pub fn with_text<T>(&self, read: impl FnOnce(&str) -> T) -> Result<T, FileChanged> {
        match &*self.text.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(text) => Ok(read(text)),
            None => self.read_again().map(|text| read(&text)),
        }
    }

    /// Takes the text out of memory. Reads the file if the text is not in memory, and fails as
    /// [`Self::with_text`] does.
    pub fn take_text(&self) -> Result<String, FileChanged> {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).take();
        text.map_or_else(|| self.read_again(), Ok)
    }

    /// Reads the file again. Fails if it cannot be read, or if its content has changed.
    fn read_again(&self) -> Result<String, FileChanged> {
        let bytes = std::fs::read(&self.at).map_err(|_| FileChanged)?;
        if blake3::hash(&bytes) != self.hash {
            return Err(FileChanged);
        }
        String::from_utf8(bytes).map(normalize_line_ends).map_err(|_| FileChanged)
    }
}

/// Ends each line with LF. As in CommonMark, a line may end with LF, CR or CR LF.
fn normalize_line_ends(text: String) -> String {
    if memchr(b'\r', text.as_bytes()).is_some() {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text
    }
}

type FileSignature = ([u64; 3], [i64; 4]);

/// The metadata that changes with a file's content, if the file is settled; see [`is_settled`]. Includes the
/// inode change time, which programs cannot set, unlike the modification time.
fn signature(file: &Metadata) -> FileSignature {
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    ([file.dev(), file.ino(), file.size()], times)
}

/// The coarsest resolution of file timestamps, that of FAT. A file that changed within the last two seconds
/// may change again without getting a new timestamp, so every load reads such a file again.
const COARSEST_STAMP: Duration = Duration::from_secs(2);

/// Whether every change to the file after `now` will also change its timestamps: its inode change time is
/// older than [`COARSEST_STAMP`].
pub(super) fn is_settled(file: &Metadata, now: SystemTime) -> bool {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).ok();
    let since = since.and_then(|since| i64::try_from(since.checked_sub(COARSEST_STAMP)?.as_secs()).ok());
    since.is_some_and(|since| file.ctime() < since)
}

/// The files from the last load, keyed by their names relative to the site's or the build's folder.
#[derive(Debug, Default)]
pub(super) struct FileCache(HashMap<String, CachedFile>);

impl FileCache {
    /// Caches a file's content. `now` is a time before the file was read.
    fn insert(&mut self, name: String, file: &Metadata, now: SystemTime, content: FileContent) {
        let (signature, is_settled) = (signature(file), is_settled(file, now));
        self.0.insert(name, CachedFile { signature, is_settled, content });
    }

    /// Makes the next load read every file.
    pub fn invalidate(&mut self) {
        self.0.values_mut().for_each(|seen| seen.is_settled = false);
    }

    /// Makes the next load read only files whose metadata has changed.
    #[cfg(test)]
    pub fn trust(&mut self) {
        self.0.values_mut().for_each(|seen| seen.is_settled = true);
    }
}

#[derive(Debug)]
struct CachedFile {
    signature: FileSignature,
    /// Whether an unchanged signature means unchanged content.
    is_settled: bool,
    content: FileContent,
}

/// The cached content of a file. For a source, only the hash: its text is not needed after rendering.
#[derive(Debug, Clone)]
enum FileContent {
    Source(Hash),
    /// The content, and the mark, if any, that excludes the file unless `site.publish` lists it.
    Blob(Blob, Option<ContentMark>),
    /// The file is not published, so its bytes are not kept.
    Excluded(ContentMark),
}

impl FileContent {
    /// The hash of the content; `None` for an excluded file.
    fn hash(&self) -> Option<&Hash> {
        match self {
            Self::Source(hash) => Some(hash),
            Self::Blob(blob, _) => Some(&blob.hash),
            Self::Excluded(_) => None,
        }
    }
}

/// The purpose of a file in the site's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Source,
    Asset,
    Verbatim,
    /// A file of a build, of any type.
    Build,
    ThemeAsset,
    /// A template or the words of a language. Not published as a file.
    Template,
    /// The file is not published.
    None,
}

impl Purpose {
    /// The purpose of a file in the folder `part`, which is one of [`SITE_FOLDERS`]. A file in `pages` or
    /// `posts` that pages cannot show is not published unless `site.publish` lists it.
    fn of_file(part: &str, FoundFile { path_in_folder: name, is_listed, .. }: &FoundFile) -> Self {
        match part {
            "pages" | "posts" if name.ends_with(".md") || name.ends_with(".markdown") => Self::Source,
            "pages" | "posts" if !is_listed && !is_media_file(name) => Self::None,
            "pages" | "posts" | "assets" => Self::Asset,
            "static" => Self::Verbatim,
            _ if is_theme_asset(name) => Self::ThemeAsset,
            _ => Self::Template,
        }
    }
}

/// The files of a site that are published, and its templates.
#[derive(Debug, Default)]
pub(super) struct SiteFiles {
    pub has_pages_folder: bool,
    pub sources: Vec<SourceFile>,
    /// The assets, by their names relative to the site's folder.
    pub assets: Vec<(String, Blob)>,
    /// The files in `static/`, by their names relative to that folder.
    pub verbatim: Vec<(String, Blob)>,
    /// The files in `theme/`, by their names relative to that folder.
    pub theme: Vec<(String, Blob)>,
}

impl SiteFiles {
    /// Returns the files that are published, and the templates; reads only the changed ones. Leaves out files
    /// that the pages' [`Audience`] may not read, and sources that [`is_partial`] finds, unless
    /// `site.publish` lists them. Updates the cache, and reports unreadable files and a missing folder
    /// `pages`. Fails if a file changes meanwhile. `served_path` returns the path at which a file is served,
    /// by its name.
    pub fn read(
        folder: &Path,
        served_path: &dyn Fn(&str) -> String,
        publication: &mut Publication<'_>,
        known: &mut FileCache,
        faults: &mut Vec<Fault>,
    ) -> Result<Self, FileChanged> {
        let mut tree = Self { has_pages_folder: folder.join("pages").is_dir(), ..Self::default() };
        if !tree.has_pages_folder {
            let fault = Fault::error("pages/", None, "the site's folder has no `pages` folder");
            faults
                .push(fault.hint(
                    "create `pages/index.md`, or name the folder that contains `pages` in the command",
                ));
        }
        let mut reader = FileReader::new(known);
        let mut served = ServedFolders::new(folder, &SITE_FOLDERS, publication, served_path);
        let found: Vec<(&str, Vec<FoundFile>)> =
            SITE_FOLDERS.iter().map(|part| (*part, served.list(part, publication, faults))).collect();
        if served.has_changed {
            return Err(FileChanged);
        }
        faults.extend(served.limit_fault.take());
        faults.append(&mut served.access_faults);
        let sources = found.iter().flat_map(|(part, files)| {
            files.iter().filter(|file| Purpose::of_file(part, file) == Purpose::Source)
        });
        let audience =
            Audience::of_pages(sources.map(|file| (file.readers, file.path_in_site == "pages/index.md")));
        publication.note_audience(audience, &folder.display().to_string());
        for (part, mut found) in found {
            found.retain(|file| {
                let purpose = Purpose::of_file(part, file);
                if purpose == Purpose::Source && !file.is_listed && is_partial(&file.path_in_folder) {
                    served.exclude(file, ExclusionReason::Partial, publication);
                    return false;
                }
                // Keep every template: it is not published as a file, and only serves to render pages.
                purpose == Purpose::Template || served.is_for(audience, file, publication)
            });
            let purpose = |file: &FoundFile| Purpose::of_file(part, file);
            for ReadFile { file, purpose, content, text } in
                reader.read(found, purpose, &served, publication, faults)?
            {
                match (purpose, content) {
                    (_, FileContent::Source(hash)) => tree.sources.push(SourceFile {
                        changed: modification_date(&file.metadata),
                        file: file.path_in_site,
                        hash,
                        at: file.canonical_path,
                        text: Mutex::new(text),
                    }),
                    (Purpose::Verbatim, FileContent::Blob(blob, _)) => {
                        tree.verbatim.push((file.path_in_folder, blob));
                    }
                    (Purpose::Template | Purpose::ThemeAsset, FileContent::Blob(blob, _)) => {
                        tree.theme.push((file.path_in_folder, blob));
                    }
                    (_, FileContent::Blob(blob, _)) => {
                        tree.assets.push((file.path_in_site, blob));
                    }
                    (_, FileContent::Excluded(_)) => {}
                }
            }
        }
        Ok(tree)
    }
}

/// Reads the changed files of one load, and updates the cache.
struct FileReader<'a> {
    now: SystemTime,
    before: HashMap<String, CachedFile>,
    known: &'a mut FileCache,
    /// The contents of this load's files, by hash, so that files with the same content share memory.
    shared: HashMap<Hash, Blob>,
    /// How many more files may be kept open, so that their content is served from disk.
    may_hold_open: u64,
    /// The storage for the HTML of a build; `None` for a site's folder.
    spill: Option<&'a PageSpill>,
}

/// A published file, or a template.
struct ReadFile {
    file: FoundFile,
    purpose: Purpose,
    content: FileContent,
    /// The text of a Markdown source that has changed since the last load; `None` for all other files.
    text: Option<String>,
}

impl<'a> FileReader<'a> {
    /// Takes the files of the last load out of `known`. `Self::read` adds the files of this load.
    fn new(known: &'a mut FileCache) -> Self {
        let before = std::mem::take(known).0;
        Self {
            now: SystemTime::now(),
            before,
            known,
            shared: HashMap::default(),
            may_hold_open: held_open_limit(),
            spill: None,
        }
    }

    /// Reads the files that have changed, and takes the others from the cache. Reports unreadable ones, and
    /// leaves out those whose content excludes them and copies of the operator's private files. Updates the
    /// cache. Keeps files that are served from the disk open, up to the process's limit. Fails if a file
    /// changes meanwhile.
    fn read(
        &mut self,
        found: Vec<FoundFile>,
        purpose: impl Fn(&FoundFile) -> Purpose + Sync,
        served: &ServedFolders<'_>,
        publication: &mut Publication<'_>,
        faults: &mut Vec<Fault>,
    ) -> Result<Vec<ReadFile>, FileChanged> {
        progress::begin("files", found.len() as u64);
        let read = in_parallel(&found, |file| {
            progress::advance(1);
            let spill = self.spill.filter(|_| is_html(&file.path_in_folder));
            read_file(file, purpose(file), self.before.get(&file.path_in_site), spill)
        });
        let mut files = Vec::with_capacity(found.len());
        self.known.0.reserve(found.len());
        for (file, content) in found.into_iter().zip(read) {
            let Ok((mut content, text)) = content?.map_err(|fault| faults.push(fault)) else { continue };
            if let FileContent::Blob(Blob { disk: Some(file), .. }, _) = &content {
                if self.may_hold_open > 0 {
                    file.hold_open();
                    self.may_hold_open -= 1;
                }
            } else if let FileContent::Blob(blob, _) = &mut content {
                *blob = self.shared.entry(blob.hash).or_insert_with(|| blob.clone()).clone();
            }
            self.known.insert(file.path_in_site.clone(), &file.metadata, self.now, content.clone());
            let purpose = purpose(&file);
            let mut is_copy = |hash| served.is_copy(&file, hash, publication);
            if purpose != Purpose::Template && content.hash().is_some_and(&mut is_copy) {
                continue;
            }
            if let FileContent::Excluded(mark) = content {
                served.exclude(&file, ExclusionReason::Content(mark), publication);
            } else {
                files.push(ReadFile { file, purpose, content, text });
            }
        }
        Ok(files)
    }
}

/// The possible names of a build's home page, in order of preference.
pub(super) const HOME_PAGES: [&str; 2] = ["index.html", "index.htm"];

/// A file in a build.
#[derive(Debug)]
pub(super) struct BuildFile {
    /// The name relative to the build's folder.
    pub name: String,
    /// The name of the file to which symbolic links lead from `name`. `None` without such links, and for a
    /// file outside of the build's folder.
    pub linked: Option<String>,
    pub blob: Blob,
    /// The date of the last change, in UTC.
    pub changed: Date,
}

/// Returns the files in a build that are published; reads only the changed ones. Leaves out files that the
/// pages' [`Audience`] may not read, unless `site.publish` lists them. Updates the cache, and reports
/// unreadable files. Fails if a file changes meanwhile. `served_path` returns the path at which a file is
/// served, by its name. Faults of the listing become warnings, except [`ServedFolders::limit_fault`] and
/// [`ServedFolders::access_faults`].
pub(super) fn read_build(
    folder: &Path,
    served_path: &dyn Fn(&str) -> String,
    publication: &mut Publication<'_>,
    known: &mut FileCache,
    spill: &PageSpill,
    faults: &mut Vec<Fault>,
) -> Result<Vec<BuildFile>, FileChanged> {
    let mut reader = FileReader::new(known);
    let mut unlisted = Vec::new();
    let mut served = ServedFolders::new(folder, &[""], publication, served_path);
    let mut found = served.list("", publication, &mut unlisted);
    if served.has_changed {
        return Err(FileChanged);
    }
    faults.extend(served.limit_fault.take());
    faults.append(&mut served.access_faults);
    // Warnings, because the build is served without the files that cannot be published, such as symbolic
    // links to system files.
    faults.extend(unlisted.into_iter().map(|fault| Fault { severity: Severity::Warning, ..fault }));
    let pages = found.iter().filter(|file| media_type(&file.path_in_folder).starts_with("text/html"));
    let is_home = |file: &FoundFile| HOME_PAGES.contains(&&*file.path_in_folder);
    let audience = Audience::of_pages(pages.map(|file| (file.readers, is_home(file))));
    publication.note_audience(audience, &folder.display().to_string());
    found.retain(|file| served.is_for(audience, file, publication));
    let pages = found.iter().filter(|file| is_html(&file.path_in_folder));
    spill.begin(pages.map(|file| file.metadata.len()).sum());
    reader.spill = Some(spill);
    let read = reader.read(found, |_| Purpose::Build, &served, publication, faults)?;
    let root = folder.canonicalize().unwrap_or_default();
    let build_file = |ReadFile { file, content, .. }| {
        let FileContent::Blob(blob, _) = content else { return None };
        let target = file.canonical_path.strip_prefix(&root).ok().and_then(|name| name.to_str());
        let linked = target.filter(|name| *name != file.path_in_folder).map(str::to_owned);
        let changed = modification_date(&file.metadata);
        Some(BuildFile { name: file.path_in_folder, linked, blob, changed })
    };
    Ok(read.into_iter().filter_map(build_file).collect())
}

/// A file's content, and the text if the file is a source and has changed.
type ReadContent = (FileContent, Option<String>);

/// Reads a file, or takes its content from `before` if the file is unchanged. A file that is served from the
/// disk is only hashed and examined. The inner error is the fault of a file that cannot be read or published;
/// the outer one means that the file changed while it was read. A file that its content excludes is
/// `FileContent::Excluded`, and no fault; sources and templates are not examined for this.
fn read_file(
    file: &FoundFile,
    purpose: Purpose,
    before: Option<&CachedFile>,
    spill: Option<&PageSpill>,
) -> Result<Result<ReadContent, Fault>, FileChanged> {
    let place = &file.path_in_site;
    if purpose == Purpose::None {
        let fault = Fault::warning(place, None, "the file is not published");
        let is_markdown = media_type(place).starts_with("text/markdown") || {
            let lower = file.path_in_folder.to_ascii_lowercase();
            [".mdx", ".mkd", ".qmd", ".rmd"].iter().any(|ending| lower.ends_with(ending))
        };
        return Ok(Err(fault.hint(if is_markdown {
            "only files that end with `.md` are pages; rename it, and remove what is not Markdown"
        } else {
            "only images, audio, video and PDFs are published from pages/ and posts/; move other files to assets/ or static/"
        })));
    }
    if purpose != Purpose::Source && purpose != Purpose::Template && !is_requestable(&file.path_in_folder) {
        let fault = Fault::warning(place, None, "the file is not published: its path cannot be requested");
        return Ok(Err(fault.hint("rename it without backslashes and control characters")));
    }
    let is_excluded = |mark: ContentMark| mark.is_final() || !file.is_listed;
    let is_same = |seen: &&CachedFile| seen.is_settled && seen.signature == signature(&file.metadata);
    match before.filter(is_same).map(|seen| &seen.content) {
        // `site.publish` lists the file now, so its content is needed.
        Some(FileContent::Excluded(mark)) if !is_excluded(*mark) => {}
        Some(FileContent::Blob(_, Some(mark))) if is_excluded(*mark) => {
            return Ok(Ok((FileContent::Excluded(*mark), None)));
        }
        Some(content) => return Ok(Ok((content.clone(), None))),
        None => {}
    }
    let is_kept_unread = matches!(purpose, Purpose::Asset | Purpose::Verbatim | Purpose::Build);
    if is_kept_unread
        && is_served_from_disk(&file.path_in_folder, file.metadata.len(), purpose != Purpose::Build)
    {
        let read = match DiskFile::read(file, is_excluded)? {
            Ok((DiskContent::Published(on_disk, hash), mark)) => {
                Ok((FileContent::Blob(Blob::on_disk(on_disk, hash), mark), None))
            }
            Ok((DiskContent::Excluded(mark), _)) => Ok((FileContent::Excluded(mark), None)),
            Err(error) => Err(Fault::error(place, None, error.to_string())),
        };
        return Ok(read);
    }
    let bytes = match file.read()? {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(Fault::error(place, None, error.to_string()))),
    };
    if purpose != Purpose::Source {
        let mark = if purpose == Purpose::Template { None } else { examine(&file.path_in_folder, &bytes) };
        if let Some(mark) = mark.filter(|mark| is_excluded(*mark)) {
            return Ok(Ok((FileContent::Excluded(mark), None)));
        }
        let unchanged = before.and_then(|seen| match &seen.content {
            FileContent::Blob(blob, _) if blob.disk.is_none() && blob.bytes == bytes => Some(blob.clone()),
            _ => None,
        });
        let blob = unchanged.unwrap_or_else(|| match spill {
            Some(spill) => Blob::in_spill(bytes, spill),
            None => Blob::new(bytes),
        });
        return Ok(Ok((FileContent::Blob(blob, mark), None)));
    }
    let hash = blake3::hash(&bytes);
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Ok((FileContent::Source(hash), Some(normalize_line_ends(text)))),
        Err(error) => {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = valid.split(|byte| *byte == b'\n').count();
            Err(Fault::error(place, Some(line), "the file is not valid UTF-8").hint("save it as UTF-8"))
        }
    })
}

/// Whether the name of a Markdown file, or of a folder above it, begins with `_`: many site generators
/// publish no page for it. Index files (`_index.md`, `_index.de.md`) and folders `_drafts`, whose pages are
/// drafts, do not count.
fn is_partial(path: &str) -> bool {
    let is_known = |name: &str| name == "_drafts" || name.starts_with("_index.");
    path.split('/').any(|name| name.starts_with('_') && !is_known(name))
}

/// Whether a file's name has neither a backslash nor a control character, which requests must not contain.
fn is_requestable(name: &str) -> bool {
    !name.contains(|c: char| c == '\\' || c.is_control())
}

/// Whether a file of a build is HTML, by its extension in any case.
pub(super) fn is_html(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["html", "htm"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Whether the file's extension is that of a PDF, or of an image, audio or video in a format that browsers
/// show. Other files in `pages/` and `posts/`, such as notes and backups, are not published.
fn is_media_file(name: &str) -> bool {
    match media_type(name).split_once('/') {
        // Browsers show formats whose types have no vendor prefix. TypeScript shares its extension with
        // segments of videos, which need a playlist.
        Some(("image" | "audio" | "video", format)) => {
            format == "x-icon"
                || !(format.starts_with("vnd.") || format.starts_with("x-") || format == "mp2t")
        }
        Some(("application", format)) => format == "pdf",
        _ => false,
    }
}

/// The date of the last change in UTC; 0000-01-01 if it is unknown.
fn modification_date(file: &Metadata) -> Date {
    file.modified()
        .ok()
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .map(|at| at.to_zoned(jiff::tz::TimeZone::UTC).date())
        .unwrap_or_default()
}

/// A file with a path that contains its fingerprint, so that caches can keep it forever.
#[derive(Debug)]
pub(super) struct Asset {
    /// The name of the file relative to the site's folder: `assets/diagram.svg`.
    pub file: String,
    /// The decoded path: `/assets/diagram.svg`.
    pub path: String,
    /// The percent-encoded path with the fingerprint: `/assets/diagram.0a1b2c3d4e.svg`.
    pub fingerprinted: String,
    pub blob: Blob,
}

impl Asset {
    /// Derives the path from the name of the file, and the fingerprinted path also from the hash of `blob`.
    pub fn new(file: String, blob: &Blob) -> Self {
        let path = path::public_path(&file);
        // 40 bits of the hash make it very unlikely that two versions of a file get the same name.
        let print = blob.fingerprint(10);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path.as_str()));
        let fingerprinted = match name.rsplit_once('.') {
            Some((stem, ending)) => format!("{folder}/{stem}.{print}.{ending}"),
            None => format!("{folder}/{name}.{print}"),
        };
        let fingerprinted = encode(&fingerprinted).into_owned();
        Self { file, path, fingerprinted, blob: blob.clone() }
    }
}

/// Gives every asset of the site and of the theme a fingerprinted name. A file of the site replaces the
/// theme's file with the same path; two files of the site with one path are both in the result. Also returns
/// the assets' URLs, keyed by the names that templates use. Of two assets with the same name, such as
/// `/a.svg` and `/assets/a.svg`, the one in `/assets/` gets it.
pub(super) fn name_assets<'a>(
    files: impl Iterator<Item = &'a (String, Blob)>,
    theme: &'a Theme,
) -> (Vec<Asset>, BTreeMap<String, String>) {
    let mut assets: Vec<Asset> = files.map(|(file, blob)| Asset::new(file.clone(), blob)).collect();
    let own: HashSet<String> = assets.iter().map(|asset| asset.path.clone()).collect();
    let themed = theme.asset_files().map(|(name, blob)| Asset::new(format!("assets/{name}"), blob));
    assets.extend(themed.filter(|asset| !own.contains(&asset.path)));
    assets.sort_by(|a, b| a.path.cmp(&b.path));
    let named = |asset: &Asset| asset.path.trim_start_matches("/assets/").trim_start_matches('/').to_owned();
    let (own, others): (Vec<&Asset>, Vec<&Asset>) =
        assets.iter().partition(|asset| asset.path.starts_with("/assets/"));
    let urls =
        others.into_iter().chain(own).map(|asset| (named(asset), asset.fingerprinted.clone())).collect();
    (assets, urls)
}
