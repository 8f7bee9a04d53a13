//! A loaded site: entries by path, and summaries of the pages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use jiff::civil::Date;

use super::confirm::ConfirmPage;
use super::file::{Encoded, Encodings, File, encode_strongly};
use super::form_answer::{FormPage, FormPages, THANKS};
use super::header_rules::at_path;
use super::images::LargeImage;
use super::language::Language;
use super::options::PagesOptions;
use super::path;
use super::redirects::is_circular;
use super::rules::headers_of_rewritten_paths::RewriteHeaders;
use super::rules::{HeaderRule, RedirectRule, RuleList};
use super::schedule::ScheduledPage;
use frontdesk_forms::FormSet;
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::parallel::in_parallel;
use frontdesk_process::progress;
use frontdesk_process::spill::BLOCK;

mod entry;
mod other_paths;

pub use entry::{Page, Redirect, Role, SiteEntry};

/// Maximum number of posts in the feed.
pub const FEED_LENGTH: usize = 50;

/// A page's entry in `llms.txt`, sitemaps and feeds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageSummary {
    /// The percent-encoded path.
    pub path: String,
    /// The percent-encoded path of the Markdown twin.
    pub twin: String,
    pub title: String,
    pub description: Option<String>,
    pub date: Option<Date>,
    /// The exact time of the page's date. `None` if only the day is known.
    pub dated_at: Option<Timestamp>,
    pub updated: Date,
    pub author: Option<String>,
    pub tags: Vec<String>,
    pub is_post: bool,
    /// The index of the page's language in [`Site::languages`].
    pub language: usize,
    /// The languages and percent-encoded paths of the page and its translations. Empty if there are none.
    pub translations: Vec<(usize, String)>,
    /// Whether the page has no source file, but is generated to list posts or tags.
    pub is_generated: bool,
    /// The body as HTML with absolute links. Empty unless the page is one of the first [`FEED_LENGTH`]
    /// listed posts in its language, which that language's feed contains.
    pub feed_html: String,
}

/// The pages, files, redirects and rules of a site, ready to answer GET and HEAD requests.
#[derive(Debug, Clone)]
pub struct Site {
    /// The entries by their decoded paths, without those at the other paths of pages.
    pub(super) entries: HashMap<Box<str>, SiteEntry>,
    /// The listed pages in reading order.
    pub pages: Arc<Vec<PageSummary>>,
    /// The languages, the default language first.
    pub languages: Vec<Language>,
    /// The 404 page, except in the folders of `folder_not_found`.
    pub not_found: Page,
    /// The 404 pages of certain folders, such as that of a language, each with the decoded path of its folder
    /// without a trailing slash. An inner folder comes before those that contain it.
    pub folder_not_found: Vec<(String, Page)>,
    /// The pages behind links that confirm addresses, in the order of [`ConfirmPage::ALL`]. Empty if visitors
    /// do not confirm their addresses, or if the site has no theme.
    pub(super) confirm_pages: Vec<Page>,
    /// Whether any form asks visitors to confirm their addresses.
    pub confirms_addresses: bool,
    /// The site's forms. Each form has an endpoint, `/api/NAME`.
    pub form_set: FormSet,
    /// The names of the forms that pages show.
    pub shown_forms: Vec<&'static str>,
    /// The percent-encoded paths of pages that show a form, except the pages of a build.
    pub form_paths: Vec<String>,
    /// Scheme and authority of the site's public address, without a trailing slash.
    pub base_url: String,
    /// The number of pages, including unlisted ones.
    pub page_count: usize,
    /// The pages that are published or taken down later, in the order of their times.
    pub scheduled: Vec<ScheduledPage>,
    /// The source files of drafts.
    pub drafts: Vec<String>,
    /// The source files of pages that are no longer published.
    pub expired: Vec<String>,
    /// The answers to forms that are sent without JavaScript. Empty if the site does not accept such forms.
    pub(super) form_pages: FormPages,
    /// The rules with placeholders, in order: those of a later [`Site::add_rules`] call first, and forced
    /// ones first within each call. Applied to paths that have no [`SiteEntry`].
    rules: RuleList<RedirectRule>,
    /// The rules that require query parameters, in order. They take precedence over all other rules.
    query_rules: RuleList<RedirectRule>,
    /// The rules of the build's `_headers`, for the generated resources that are inserted later.
    pub(super) header_rules: RuleList<HeaderRule>,
    /// The headers of paths that a rule rewrites.
    pub(super) rewrite_headers: RewriteHeaders<SiteEntry>,
    /// The images with variants for smaller screens.
    pub(super) large_images: Vec<LargeImage>,
    /// The storage of page bodies: on disk for a large site, otherwise on the heap.
    pub(super) spills: Vec<Arc<PageSpill>>,
    pub(super) hash: OnceLock<String>,
}

impl Site {
    /// A site with a 404 page and no entries. Its only language is the default one, with English words.
    pub fn new(options: &PagesOptions, not_found: Page) -> Self {
        Self {
            entries: HashMap::default(),
            pages: Arc::default(),
            languages: vec![Language::only(options)],
            not_found,
            folder_not_found: Vec::new(),
            confirm_pages: Vec::new(),
            confirms_addresses: options.confirms_addresses(),
            form_set: options.form_set.clone(),
            shown_forms: Vec::new(),
            form_paths: Vec::new(),
            base_url: options.base_url.clone(),
            page_count: 0,
            scheduled: Vec::new(),
            drafts: Vec::new(),
            expired: Vec::new(),
            form_pages: FormPages::default(),
            rules: RuleList::default(),
            query_rules: RuleList::default(),
            header_rules: RuleList::default(),
            rewrite_headers: RewriteHeaders::default(),
            large_images: Vec::new(),
            spills: Vec::new(),
            hash: OnceLock::new(),
        }
    }

    /// The entry at a decoded path, or else at the same path in the other normalization form of Unicode.
    pub fn get(&self, path: &str) -> Option<&SiteEntry> {
        self.entry_at(path).or_else(|| self.entry_at(&path::other_form(path)?))
    }

    /// The HTML of a confirmation page; `None` if the site has no confirmation pages.
    pub fn confirm_page(&self, page: ConfirmPage) -> Option<&File> {
        self.confirm_pages.get(page as usize).map(|page| &*page.html)
    }

    /// The page that is sent for a decoded path without an entry or with [`SiteEntry::Gone`]: that of the
    /// innermost folder which has one, or else that of the site.
    pub fn not_found_at(&self, path: &str) -> &Page {
        let mut folders = self.folder_not_found.iter();
        folders.find(|(folder, _)| path::is_in_folder(path, folder)).map_or(&self.not_found, |(_, page)| page)
    }

    /// Sets the page for paths without an entry in a folder; the empty folder stands for the whole site.
    /// Replaces an earlier page for the same folder.
    pub(super) fn set_not_found(&mut self, folder: &str, page: Page) {
        if folder.is_empty() {
            self.not_found = page;
            return;
        }
        self.folder_not_found.retain(|(known, _)| known != folder);
        self.folder_not_found.push((folder.to_owned(), page));
        self.folder_not_found.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
    }

    /// The index of the language with the folder that contains a decoded path. 0 if no folder contains it.
    fn language_at(&self, path: &str) -> usize {
        let mut translated = self.languages.iter().skip(1);
        let translated = translated.position(|language| path::is_in_folder(path, &language.prefix));
        translated.map_or(0, |index| index + 1)
    }

    /// The page that answers the form named `form` without JavaScript, in the language of the page at a
    /// decoded path, or else in the first language that has one. `None` if there is no such form, if no page
    /// shows all of its fields, or if the site does not accept forms without JavaScript.
    pub fn form_page(&self, form: &str, path: &str) -> Option<&FormPage> {
        self.form_pages.find(form, self.language_at(path))
    }

    /// The percent-encoded path of the thank-you page in the language of the page at a decoded path, or in
    /// the default language if there is no translation. Does not check that the latter exists.
    pub fn thanks_path(&self, path: &str) -> String {
        let prefix = self.languages.get(self.language_at(path)).map_or("", |language| &language.prefix);
        let translated = format!("{prefix}{THANKS}");
        if self.get(&translated).is_some() { translated } else { THANKS.to_owned() }
    }

    /// Adds rules. Those without placeholders become entries, but replace existing entries only if they are
    /// forced. Those with placeholders apply to paths without an entry, and forced ones also replace the
    /// entries that they match now. Those with query parameters precede all others. Among rules with
    /// placeholders, and among rules with query parameters, the new ones precede those of earlier calls.
    /// Skips a rule without placeholders if an earlier one of `rules` applies to its path, or if it is a
    /// rewrite whose target does not exist. Skips rules for paths to which they lead back. Returns the first
    /// such path of each rule, by the line of the rule.
    pub(super) fn add_rules(&mut self, rules: Vec<RedirectRule>) -> BTreeMap<Option<usize>, String> {
        let (with_query, rules): (Vec<_>, Vec<_>) = rules.into_iter().partition(RedirectRule::has_parameters);
        let earlier = std::mem::take(&mut self.query_rules).into_vec();
        self.query_rules = RuleList::new(with_query.into_iter().chain(earlier).collect());
        let rules = RuleList::new(rules);
        let (mut circular, mut replaced) = (BTreeMap::new(), Vec::new());
        let mut insert = |site: &mut Self, path: String, line, entry| {
            site.keep_other_paths(&path);
            let before = site.entries.insert(path.as_str().into(), entry);
            replaced.push((path, line, before));
        };
        for rule in rules.all() {
            for path in rule.literal_paths() {
                let first = rules.candidates(&path).find(|rule| rule.target(&path, None).is_some());
                let is_earlier = first.is_some_and(|first| !std::ptr::eq(first, rule));
                let is_free = rule.is_forced || self.get(&path).is_none();
                if let Some(result) = self.follow_rule(rule, &path, None).filter(|_| is_free && !is_earlier) {
                    let entry = result.into_owned();
                    insert(self, path, rule.line, entry);
                }
            }
        }
        let with_placeholders = rules.all().iter().filter(|rule| rule.literal_paths().is_empty()).cloned();
        let (forced, others): (Vec<_>, Vec<_>) = with_placeholders.partition(|rule| rule.is_forced);
        let forced = RuleList::new(forced);
        let replacement = |path: &str| {
            let apply =
                |rule: &RedirectRule| Some((rule.line, self.follow_rule(rule, path, None)?.into_owned()));
            Some((path.to_owned(), forced.candidates(path).find_map(apply)?))
        };
        if !forced.all().is_empty() {
            let mut matching: Vec<_> = self.entries().filter_map(|(path, _)| replacement(&path)).collect();
            matching.sort_by(|(a, _), (b, _)| a.cmp(b));
            for (path, (line, entry)) in matching {
                insert(self, path, line, entry);
            }
        }
        // Check for circular redirects only after inserting all rules: a later rule may replace a redirect.
        for (path, line, before) in replaced.into_iter().rev() {
            if self.entries.get(&*path).is_some_and(|entry| self.is_circular(&path, entry, &rules)) {
                match before {
                    Some(before) => drop(self.entries.insert(path.as_str().into(), before)),
                    None => drop(self.entries.remove(&*path)),
                }
                circular.insert(line, path);
            }
        }
        let earlier = std::mem::take(&mut self.rules).into_vec();
        self.rules = RuleList::new(forced.into_vec().into_iter().chain(others).chain(earlier).collect());
        circular
    }

    /// Whether an entry for a decoded path is a redirect that leads back to the path, or through too many
    /// redirects. `rules` apply to paths without an entry.
    fn is_circular(&self, path: &str, entry: &SiteEntry, rules: &RuleList<RedirectRule>) -> bool {
        let target =
            |entry: &SiteEntry| if let SiteEntry::Redirect(it) = entry { Some(it.to.clone()) } else { None };
        let apply = |path: &str| rules.candidates(path).find_map(|rule| self.follow_rule(rule, path, None));
        let next = |path: &str| target(&*self.get(path).map(Cow::Borrowed).or_else(|| apply(path))?);
        target(entry).is_some_and(|to| is_circular(path, to, next))
    }

    /// Whether the site has rules with placeholders or query parameters.
    pub fn has_rules(&self) -> bool {
        !self.rules.all().is_empty() || self.has_query_rules()
    }

    /// Whether the site has rules that require query parameters.
    pub fn has_query_rules(&self) -> bool {
        !self.query_rules.all().is_empty()
    }

    /// Returns a copy of the site that has no rules with placeholders or query parameters.
    #[must_use]
    pub fn without_rules(&self) -> Self {
        Self { rules: RuleList::default(), query_rules: RuleList::default(), ..self.clone() }
    }

    /// The rules with placeholders or query parameters as lines of `_redirects`. Leaves out those with the
    /// status 410, which such a file cannot express.
    pub fn rule_lines(&self) -> Vec<String> {
        let rules = self.query_rules.all().iter().chain(self.rules.all());
        rules.filter(|rule| !rule.is_gone()).map(RedirectRule::to_line).collect()
    }

    /// The result of the first rule with placeholders that applies to a decoded path. Does not check that the
    /// path has no entry. Skips a rewrite whose target does not exist, a redirect that leads back to the path
    /// or through too many redirects, and, below `/api/`, rules such as `/*`.
    pub fn find_rule(&self, path: &str) -> Option<Cow<'_, SiteEntry>> {
        let rules = self.rules.candidates_for_request(path);
        let mut found = rules.filter_map(|rule| self.follow_rule(rule, path, None));
        found.find(|entry| !self.is_circular(path, entry, &self.rules))
    }

    /// The result of the first rule with query parameters that applies to a decoded path and an encoded
    /// query. Unless it is forced, such a rule does not apply to the path of a page or a file. Skips a
    /// rewrite whose target does not exist, a redirect to the request itself, and, below `/api/`, rules such
    /// as `/*`.
    pub fn find_query_rule(&self, path: &str, query: &str) -> Option<Cow<'_, SiteEntry>> {
        let has_content = || matches!(self.get(path), Some(SiteEntry::Page(_) | SiteEntry::File(..)));
        let rules =
            self.query_rules.candidates_for_request(path).filter(|rule| rule.is_forced || !has_content());
        let is_request = |to: &str| {
            let (to_path, to_query) = to.split('#').next()?.split_once('?')?;
            Some(to_query == query && path::decode(to_path).is_ok_and(|to_path| to_path == path))
        };
        let mut found = rules.filter_map(|rule| self.follow_rule(rule, path, Some(query)));
        found.find(|entry| match &**entry {
            SiteEntry::Redirect(redirect) => is_request(&redirect.to) != Some(true),
            _ => true,
        })
    }

    /// The redirect or [`SiteEntry::Gone`] that a rule defines, or, for a rewrite, the entry at its target,
    /// with the headers for `path`. `None` if the rule does not apply, or if the entry does not exist. If the
    /// entry is a redirect, returns the entry to which that leads.
    fn follow_rule(
        &self,
        rule: &RedirectRule,
        path: &str,
        query: Option<&str>,
    ) -> Option<Cow<'_, SiteEntry>> {
        let to = rule.target(path, query)?;
        // Do not add the query again if the rule has query parameters: `RedirectRule::target` handles it.
        let keeps_query = !rule.has_parameters();
        match rule.status {
            StatusCode::OK => {}
            StatusCode::GONE => return Some(Cow::Owned(SiteEntry::Gone)),
            status => return Some(Cow::Owned(SiteEntry::Redirect(Redirect { to, status, keeps_query }))),
        }
        let (target, entry) = self.rewrite_target(&to)?;
        Some(Cow::Borrowed(self.rewrite_headers.find(&target, path).unwrap_or(entry)))
    }

    /// The decoded path and the entry to which a rewrite to the encoded path `to` leads, without regard to
    /// its query. Follows one redirect. `None` if there is no entry.
    pub(super) fn rewrite_target(&self, to: &str) -> Option<(String, &SiteEntry)> {
        let find = |path: &str| {
            let path = path::decode(path).ok()?.into_owned();
            self.get(&path).map(|entry| (path, entry))
        };
        match find(to.split(['?', '#']).next()?)? {
            // Follow the redirect, for example from `/index.html` to `/`.
            (_, SiteEntry::Redirect(redirect)) => find(&redirect.to),
            found => Some(found),
        }
    }

    /// Total size in bytes of the unencoded bodies of [`Self::files`]. Counts an asset once, although it has
    /// two names. A file that is served from the disk counts as 0, as does `llms-full.txt`, which shares the
    /// bodies of pages.
    pub fn size(&self) -> usize {
        let mut bodies: Vec<_> = self.files().iter().map(|file| &file.unencoded().bytes).collect();
        bodies.sort_unstable_by_key(|bytes| bytes.as_ptr());
        bodies.dedup_by_key(|bytes| bytes.as_ptr());
        bodies.iter().map(|bytes| bytes.len()).sum()
    }

    /// The Markdown of the page at a percent-encoded path. `None` if there is no page.
    pub fn markdown(&self, path: &str) -> Option<&File> {
        match self.get(&path::decode(path).ok()?)? {
            SiteEntry::Page(page) => Some(&page.markdown),
            _ => None,
        }
    }

    /// Inserts an unlisted page, which replaces an entry at its path, and counts it. The site then serves the
    /// page's Markdown, and redirects to the page, at the page's other paths.
    pub fn insert_page(&mut self, decoded: &str, page: Page) {
        self.page_count += 1;
        self.entries.insert(decoded.into(), SiteEntry::Page(page.with_other_paths()));
    }

    /// Lists a page in `llms.txt`, sitemaps and the feed. Does nothing if `summary` is `None`.
    pub(super) fn list_page(&mut self, summary: Option<PageSummary>) {
        Arc::make_mut(&mut self.pages).extend(summary);
    }

    /// Inserts a resource, unless there is an entry at the path, such as a file of the operator. The build's
    /// rules for headers apply to it.
    pub fn insert_resource(&mut self, path: &str, file: impl Into<Arc<File>>) {
        if self.entry_at(path).is_none() {
            let file = at_path(file.into(), &self.header_rules, path);
            self.entries.insert(path.into(), SiteEntry::File(file, Role::Resource));
        }
    }

    /// Reuses the files of an earlier site that have the same path, headers and content, and with them their
    /// encodings. Pages that confirm addresses stay as they are.
    pub fn adopt(&mut self, earlier: &Site) {
        let take = |new: &mut Arc<File>, old: &Arc<File>| {
            if !Arc::ptr_eq(new, old) && new.is_like(old) {
                new.clone_from(old);
            }
        };
        let take_both = |new: &mut Page, old: &Page| {
            take(&mut new.html, &old.html);
            take(&mut new.markdown, &old.markdown);
            new.update_other_paths();
        };
        take_both(&mut self.not_found, &earlier.not_found);
        for (folder, new) in &mut self.folder_not_found {
            let old = earlier.folder_not_found.iter().find(|(known, _)| known == folder);
            if let Some((_, old)) = old {
                take_both(new, old);
            }
        }
        let entries = self.entries.iter_mut();
        let entries = entries.filter_map(|(path, new)| Some((new, earlier.entries.get(path)?)));
        for pair in entries.chain(self.rewrite_headers.pairs_with(&earlier.rewrite_headers)) {
            match pair {
                (SiteEntry::Page(new), SiteEntry::Page(old)) => take_both(new, old),
                (SiteEntry::File(new, _), SiteEntry::File(old, _)) => take(new, old),
                _ => {}
            }
        }
    }

    /// A fingerprint of 16 hexadecimal digits: servers with the same one have the same bodies, headers of
    /// files and redirects at all paths, and the same rules, 404 pages and pages that confirm addresses.
    /// Ignores the variants of images, and the pages that answer forms. The first call computes the
    /// fingerprint; later changes to the site do not change it.
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let file = |file: &File| {
                let File { media_type, cache, link, headers, .. } = file;
                format!("{media_type} {cache:?} {link:?} {headers:?} {}", file.unencoded().etag())
            };
            let page = |page: &Page| [&page.html, &page.markdown].map(|both| file(both));
            // Leave out image variants: what is served at their paths depends on the cache.
            let variants: HashSet<&str> =
                self.large_images.iter().flat_map(|image| &image.variants).map(String::as_str).collect();
            // Keep only a digest of each line: the lines of a large site add up to more than 100 MB.
            let digest = |line: String| *blake3::hash(line.as_bytes()).as_bytes();
            let mut digests: Vec<[u8; 32]> = self
                .entries
                .iter()
                .filter(|(path, _)| !variants.contains(&***path))
                .map(|(path, entry)| match entry {
                    SiteEntry::Page(both) => format!("{path:?} {:?}", page(both)),
                    SiteEntry::File(one, _) => format!("{path:?} {}", file(one)),
                    SiteEntry::Redirect(to) => format!("{path:?} {to:?}"),
                    SiteEntry::Gone => format!("{path:?} gone"),
                })
                .map(digest)
                .collect();
            let rules = (self.rules.all(), self.query_rules.all(), self.rewrite_headers.rules.all());
            digests.push(digest(format!("{:?} {rules:?}", page(&self.not_found))));
            let of_folder = |(folder, missing): &(String, Page)| format!("{folder:?} {:?}", page(missing));
            digests.extend(self.folder_not_found.iter().map(of_folder).map(digest));
            digests.extend(self.confirm_pages.iter().map(|confirm| digest(format!("{:?}", page(confirm)))));
            digests.sort_unstable();
            blake3::hash(digests.as_flattened()).to_hex()[..16].to_owned()
        })
    }

    /// Compresses the files that lack encodings on all cores, smallest first, as long as their unencoded
    /// bodies add up to at most `budget` bytes. Uses cached strong encodings where available, and otherwise
    /// creates quick ones.
    pub fn compress(&self, budget: usize, cache: Option<&Encodings>) {
        let mut files = self.files();
        files.retain(|file| file.awaits_compression());
        files.sort_unstable_by_key(|file| (file.unencoded().memory_len(), *file.hash.as_bytes()));
        // Group files with the same bytes, such as an asset under its two names, to compress them only once.
        let contents: Vec<&[&Arc<File>]> = files.chunk_by(|a, b| a.hash == b.hash).collect();
        let mut sum = 0;
        let affordable = contents
            .iter()
            .take_while(|files| {
                sum += files[0].unencoded().memory_len();
                sum <= budget
            })
            .count();
        progress::begin("files compressed", affordable as u64);
        in_parallel(&contents[..affordable], |files| {
            progress::advance(1);
            let [first, others @ ..] = files else { return };
            match cache.and_then(|cache| cache.read(first.hash)) {
                Some(strong) => first.use_strong_encodings(&strong),
                None => first.compress_to(|bytes| self.keep(bytes)),
            }
            for other in others {
                other.copy_encodings_from(first);
            }
            self.note_read(first);
        });
    }

    /// Stores a compressed body on disk if it fills a block and pages are on disk; otherwise, on the heap.
    fn keep(&self, bytes: Vec<u8>) -> Bytes {
        let spill = self.spills.iter().find(|spill| spill.is_active() && bytes.len() as u64 >= BLOCK);
        match spill {
            Some(spill) => spill.store(bytes),
            None => bytes.into_boxed_slice().into(),
        }
    }

    /// Creates and stores the missing strong encodings of the site's files, and removes the encodings of
    /// other files from the cache. Takes minutes for a large site; once `stop` is set, stops early and
    /// removes nothing. Returns whether the cache has strong encodings that this site does not use yet.
    pub fn strengthen(&self, cache: &Encodings, stop: &AtomicBool) -> io::Result<bool> {
        cache.strengthen(self.files(), stop, |file| self.note_read(file))
    }

    /// Releases the mapped memory of bodies on disk from time to time. Call this after reading the body of
    /// `file`.
    pub fn note_read(&self, file: &File) {
        self.spills.iter().for_each(|spill| spill.note_read(file.unencoded().memory_len()));
    }

    /// A copy of the site with the strong encodings and the image variants from the cache. The copy has new
    /// [`File`]s, because a response must take its bytes and its validator from the same encoding.
    #[must_use]
    pub fn strengthened(&self, cache: &Encodings) -> Self {
        let mut site = self.reencoded(|file| cache.read(file.hash));
        site.use_variants(cache);
        site
    }

    /// A copy of the site with strong encodings of every file and all image variants. Creates those that are
    /// missing from the cache, without storing them. Uses all cores, and takes minutes for a large site.
    #[must_use]
    pub fn strengthened_now(&self, cache: &Encodings) -> Self {
        let strong = |file: &File| cache.read(file.hash).unwrap_or_else(|| encode_strongly(file));
        let mut site = self.reencoded(|file| Some(strong(file)));
        site.use_variants_now(cache);
        site
    }

    /// A copy of the site with the strong encodings that `encoded` returns. A file for which it returns
    /// `None` keeps its encodings. Does not call `encoded` for files that are not compressible or have strong
    /// encodings already.
    fn reencoded(&self, encoded: impl Fn(&File) -> Option<Encoded> + Sync) -> Self {
        let weak: Vec<&Arc<File>> =
            self.files().into_iter().filter(|file| file.compressible && !file.is_strong()).collect();
        progress::begin("files compressed", weak.len() as u64);
        let strong = in_parallel(&weak, |file| {
            progress::advance(1);
            let strong = file.without_encodings();
            strong.use_strong_encodings(&encoded(file)?);
            self.note_read(file);
            Some(Arc::new(strong))
        });
        let stronger: HashMap<*const File, Arc<File>> = weak
            .into_iter()
            .zip(strong)
            .filter_map(|(weak, strong)| Some((Arc::as_ptr(weak), strong?)))
            .collect();
        let mut site = self.clone();
        let replace = |file: &mut Arc<File>| {
            if let Some(strong) = stronger.get(&Arc::as_ptr(file)) {
                file.clone_from(strong);
            }
        };
        let replace_both = |page: &mut Page| {
            [&mut page.html, &mut page.markdown].into_iter().for_each(replace);
            page.update_other_paths();
        };
        site.folder_not_found.iter_mut().for_each(|(_, page)| replace_both(page));
        replace_both(&mut site.not_found);
        for entry in site.entries.values_mut().chain(site.rewrite_headers.entries_mut()) {
            match entry {
                SiteEntry::Page(page) => replace_both(page),
                SiteEntry::File(file, _) => replace(file),
                SiteEntry::Redirect(_) | SiteEntry::Gone => {}
            }
        }
        site
    }

    /// The files of all entries, of their variants for rewritten paths, and of 404 pages. A file with several
    /// paths is returned once. The pages that answer forms, and those that confirm addresses, are not among
    /// them.
    pub fn files(&self) -> Vec<&Arc<File>> {
        let missing =
            std::iter::once(&self.not_found).chain(self.folder_not_found.iter().map(|(_, page)| page));
        let mut files: Vec<&Arc<File>> = missing.flat_map(|page| [&page.html, &page.markdown]).collect();
        for entry in self.entries.values().chain(self.rewrite_headers.entries()) {
            match entry {
                SiteEntry::Page(page) => files.extend([&page.html, &page.markdown]),
                SiteEntry::File(file, _) => files.push(file),
                SiteEntry::Redirect(_) | SiteEntry::Gone => {}
            }
        }
        files.sort_unstable_by_key(|file| Arc::as_ptr(file));
        files.dedup_by_key(|file| Arc::as_ptr(file));
        files
    }
}

#[cfg(test)]
mod encoding_tests;
