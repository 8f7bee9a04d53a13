//! Every page of the site, in memory, by path: read from Markdown, laid out once, and answered without further work.
//!
//! In reading order: [`load()`] turns a folder into a [`Site`]; [`negotiate`] chooses a representation; [`mod@file`] holds what is
//! sent. A page that does not come from Markdown enters by [`Site::insert_page`].

mod blob;
mod content;
mod document;
pub mod encodings;
pub mod file;
pub mod front_matter;
pub mod highlight;
pub mod html;
mod layout;
pub mod link;
mod load;
pub mod markdown;
mod names;
pub mod negotiate;
pub mod path;
mod theme;
mod tree;
mod twin;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use jiff::civil::Date;
use serde::Serialize;

pub use encodings::Encodings;
use file::Encoded;
pub use file::File;
pub use load::{Loaded, Previous, load};
pub use theme::built_in as built_in_theme;
pub use twin::bracketed;

/// What the operator says about the site as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The site's name.
    pub title: String,
    /// A few words that say what it is about.
    pub tagline: String,
    /// One or two sentences, for guides and feeds.
    pub description: String,
    /// A language tag (BCP 47), `en` by default.
    pub language: String,
    /// Scheme and authority under which the site is reached, without a trailing slash.
    pub base_url: String,
    /// Whose website it is.
    pub operator: Operator,
    /// The footer's groups of links.
    pub footer: Vec<FooterGroup>,
    /// Links in the header of the home page beside its Markdown twin, in the syntax of `Link` (RFC 8288).
    pub home_links: Vec<String>,
    /// The day on which the site is loaded, in UTC.
    pub today: Date,
    /// Paths of generated resources and endpoints, which no page may have.
    pub reserved: Vec<&'static str>,
}

/// The company whose website this is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// Where its team is reached.
    pub email: String,
    /// Where provisioned organizations sign in; empty if nowhere.
    pub console_url: String,
}

/// One group of links in the footer.
#[derive(Debug, Clone, PartialEq)]
pub struct FooterGroup {
    /// Its heading.
    pub title: String,
    /// What it leads to.
    pub links: Vec<FooterLink>,
}

/// A link of the footer.
#[derive(Debug, Clone, PartialEq)]
pub struct FooterLink {
    /// What it says; a page's own short title if it says nothing.
    pub title: Option<String>,
    /// A path on this site, or an address elsewhere.
    pub href: String,
}

/// A form as pages show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Form {
    /// `contact`
    pub name: &'static str,
    /// `/api/contact`
    pub action: &'static str,
    /// What is asked.
    pub fields: Vec<Field>,
    /// How to send it, as a section of the page's Markdown.
    #[serde(skip)]
    pub markdown: String,
}

/// One field of a form as pages show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// The member's name in JSON.
    pub name: &'static str,
    /// What a person reads.
    pub label: &'static str,
    /// `email`, `line` or `text`.
    pub kind: &'static str,
    /// Whether it may be left out.
    pub required: bool,
    /// The longest value, in characters.
    pub max: usize,
    /// The value of the `autocomplete` attribute.
    pub autocomplete: &'static str,
    /// What to write.
    pub description: &'static str,
}

/// A page with its two representations.
#[derive(Debug, Clone)]
pub struct Page {
    /// For people.
    pub html: Arc<File>,
    /// For agents; the same bytes as at [`Page::twin`].
    pub markdown: Arc<File>,
    /// Percent-encoded path of the page itself.
    pub path: String,
    /// Percent-encoded path of the Markdown twin.
    pub twin: String,
}

/// What a file with a single representation is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A page's Markdown at an address of its own.
    Twin,
    /// For machines, made from pages and forms.
    Resource,
    /// One of the operator's own files.
    Asset,
}

/// What is at a path.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A page, whose representation is negotiated.
    Page(Page),
    /// A single representation, whatever `Accept` says.
    File(Arc<File>, Role),
    /// A permanent redirect to this percent-encoded path.
    Redirect(String),
}

/// How many posts the feed has, newest first.
pub const FEED_LENGTH: usize = 50;

/// What guides, sitemaps and feeds say of a page.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Percent-encoded.
    pub path: String,
    /// Percent-encoded path of the Markdown twin.
    pub twin: String,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// First published.
    pub date: Option<Date>,
    /// Last changed.
    pub updated: Date,
    /// Who wrote it.
    pub author: Option<String>,
    /// Its subjects.
    pub tags: Vec<String>,
    /// Whether it is a post.
    pub is_post: bool,
    /// Whether it is made from other pages (the blog's index, tags).
    pub is_generated: bool,
    /// The body as HTML with absolute links, for the feed; only of its posts, which are the first [`FEED_LENGTH`] listed ones.
    pub feed_html: String,
}

/// All that is served by GET and HEAD.
#[derive(Debug)]
pub struct Site {
    entries: HashMap<Box<str>, Entry>,
    /// In reading order. Unlisted pages are not among them.
    pages: Vec<Summary>,
    not_found: Page,
    base_url: String,
    /// How many pages there are, unlisted ones included.
    page_count: usize,
    /// Of everything, once somebody has asked.
    hash: OnceLock<String>,
}

impl Site {
    pub(crate) fn new(base_url: &str, not_found: Page) -> Self {
        let base_url = base_url.to_owned();
        Self {
            entries: HashMap::new(),
            pages: Vec::new(),
            not_found,
            base_url,
            page_count: 0,
            hash: OnceLock::new(),
        }
    }

    /// Scheme and authority, without a trailing slash.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// What is at a decoded path.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Everything by its decoded path, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (&**path, entry))
    }

    /// The page that stands in for what is missing.
    pub fn not_found(&self) -> &Page {
        &self.not_found
    }

    /// The pages that guides list.
    pub fn pages(&self) -> &[Summary] {
        &self.pages
    }

    /// How many pages there are.
    pub fn page_count(&self) -> usize {
        self.page_count
    }

    /// The bytes of all bodies as they are, without further encodings. An asset has two names and one body.
    pub fn size(&self) -> usize {
        let mut bodies: Vec<_> = self.files().iter().map(|file| &file.identity().bytes).collect();
        bodies.sort_by_key(|bytes| bytes.as_ptr());
        bodies.dedup_by_key(|bytes| bytes.as_ptr());
        bodies.iter().map(|bytes| bytes.len()).sum()
    }

    /// The Markdown of a page, by its percent-encoded path.
    pub fn markdown(&self, path: &str) -> Option<&File> {
        match self.get(&path::decode(path).ok()?)? {
            Entry::Page(page) => Some(&page.markdown),
            _ => None,
        }
    }

    /// Puts a page at a decoded path, with its twin and the other names that lead to it, none of which displaces anything.
    /// Guides, sitemaps and the feed list it where it has a summary.
    pub fn insert_page(&mut self, decoded: &str, page: Page, summary: Option<Summary>) {
        self.page_count += 1;
        self.pages.extend(summary);
        let [twin, others @ ..] = path::twins(decoded);
        self.entries.insert(twin.into(), Entry::File(page.markdown.clone(), Role::Twin));
        for name in others {
            self.entries.entry(name.into()).or_insert_with(|| Entry::File(page.markdown.clone(), Role::Twin));
        }
        for name in path::redirects(decoded) {
            self.entries.entry(name.into()).or_insert_with(|| Entry::Redirect(page.path.clone()));
        }
        self.entries.insert(decoded.into(), Entry::Page(page));
    }

    /// Puts a resource at a decoded path unless the operator has a file of their own there.
    pub fn insert_resource(&mut self, path: &str, file: File) {
        self.entries.entry(path.into()).or_insert_with(|| Entry::File(Arc::new(file), Role::Resource));
    }

    /// Takes over the files of an earlier site where they are the same and at the same path, with the encodings that they have.
    pub fn adopt(&mut self, earlier: &Site) {
        let take = |new: &mut Arc<File>, old: &Arc<File>| {
            if !Arc::ptr_eq(new, old) && new.is_like(old) {
                new.clone_from(old);
            }
        };
        let take_both = |new: &mut Page, old: &Page| {
            take(&mut new.html, &old.html);
            take(&mut new.markdown, &old.markdown);
        };
        take_both(&mut self.not_found, &earlier.not_found);
        for (path, new) in &mut self.entries {
            match (new, earlier.entries.get(path)) {
                (Entry::Page(new), Some(Entry::Page(old))) => take_both(new, old),
                (Entry::File(new, _), Some(Entry::File(old, _))) => take(new, old),
                _ => {}
            }
        }
    }

    /// A fingerprint of everything that is served: two servers with the same one give the same answers. 16 hexadecimal digits,
    /// made when first asked for.
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let page =
                |page: &Page| [&page.html, &page.markdown].map(|file| file.identity().etag().to_owned());
            let mut lines: Vec<String> = self
                .entries
                .iter()
                .map(|(path, entry)| match entry {
                    Entry::Page(both) => format!("{path:?} {:?}", page(both)),
                    Entry::File(file, _) => format!("{path:?} {}", file.identity().etag()),
                    Entry::Redirect(to) => format!("{path:?} to {to:?}"),
                })
                .collect();
            lines.push(format!("{:?}", page(&self.not_found)));
            lines.sort_unstable();
            blake3::hash(lines.join("\n").as_bytes()).to_hex()[..16].to_owned()
        })
    }

    /// Prepares the encodings of the smallest files first, on all cores, until `budget` bytes of bodies have been worked on.
    pub fn compress(&self, budget: usize) {
        self.compress_with(budget, None);
    }

    /// The same, with the encodings that are kept where there are any.
    pub fn compress_with(&self, budget: usize, kept: Option<&Encodings>) {
        let mut files = self.files();
        files.retain(|file| file.awaits_compression());
        files.sort_by_key(|file| (file.identity().bytes.len(), *file.hash.as_bytes()));
        // An asset has two names, and the same bytes at both.
        let contents: Vec<&[&Arc<File>]> = files.chunk_by(|a, b| a.hash == b.hash).collect();
        let mut sum = 0;
        let affordable = contents
            .iter()
            .take_while(|files| {
                sum += files[0].identity().bytes.len();
                sum <= budget
            })
            .count();
        in_parallel(&contents[..affordable], |files| {
            let [first, others @ ..] = files else { return };
            match kept.and_then(|kept| kept.read(first.hash)) {
                Some(strong) => first.supply_strong(strong),
                None => first.compress(),
            }
            for other in others {
                other.supply_from(first);
            }
        });
    }

    /// The same site with the strong encodings that have been made meanwhile. What is prepared is never replaced in a file: each
    /// answer is from one file, and so are its bytes and its validator.
    #[must_use]
    pub fn strengthened(&self, kept: &Encodings) -> Self {
        self.reencoded(|file| kept.read(file.hash))
    }

    /// The same site with the strong encodings of every file: those that are kept, and the others made now, on all cores. Takes
    /// minutes for a large site.
    #[must_use]
    pub fn strengthened_now(&self, kept: &Encodings) -> Self {
        self.reencoded(|file| Some(kept.read(file.hash).unwrap_or_else(|| encodings::make(file))))
    }

    fn reencoded(&self, encoded: impl Fn(&File) -> Option<Encoded> + Sync) -> Self {
        let weak: Vec<&Arc<File>> =
            self.files().into_iter().filter(|file| file.compressible && !file.is_strong()).collect();
        let strong = in_parallel(&weak, |file| {
            let strong = file.unencoded();
            strong.supply_strong(encoded(file)?);
            Some(Arc::new(strong))
        });
        let stronger: HashMap<*const File, Arc<File>> = weak
            .into_iter()
            .zip(strong)
            .filter_map(|(weak, strong)| Some((Arc::as_ptr(weak), strong?)))
            .collect();
        let of = |file: &Arc<File>| stronger.get(&Arc::as_ptr(file)).unwrap_or(file).clone();
        let of_page =
            |page: &Page| Page { html: of(&page.html), markdown: of(&page.markdown), ..page.clone() };
        let entries = self.entries.iter().map(|(path, entry)| {
            let entry = match entry {
                Entry::Page(page) => Entry::Page(of_page(page)),
                Entry::File(file, role) => Entry::File(of(file), *role),
                Entry::Redirect(to) => Entry::Redirect(to.clone()),
            };
            (path.clone(), entry)
        });
        Self {
            entries: entries.collect(),
            pages: self.pages.clone(),
            not_found: of_page(&self.not_found),
            base_url: self.base_url.clone(),
            page_count: self.page_count,
            hash: self.hash.clone(),
        }
    }

    /// Every file once, although most are known by several names.
    fn files(&self) -> Vec<&Arc<File>> {
        let mut files = vec![&self.not_found.html, &self.not_found.markdown];
        for entry in self.entries.values() {
            match entry {
                Entry::Page(page) => files.extend([&page.html, &page.markdown]),
                Entry::File(file, _) => files.push(file),
                Entry::Redirect(_) => {}
            }
        }
        files.sort_by_key(|file| Arc::as_ptr(file));
        files.dedup_by_key(|file| Arc::as_ptr(file));
        files
    }
}

/// Runs `work` on every item, on all cores, and returns the results in order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads =
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len().max(1));
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let run = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { return done };
                done.push((at, work(item)));
            }
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut all = run();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
    for (at, result) in done {
        results[at] = Some(result);
    }
    results.into_iter().flatten().collect()
}
