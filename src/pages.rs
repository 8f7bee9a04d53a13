//! Every page of the site, in memory, by path: read from Markdown, laid out once, and answered without further work.
//!
//! In reading order: [`load()`] turns a folder into a [`Site`]; [`negotiate`] chooses a representation; [`mod@file`] holds what is
//! sent. A page that does not come from Markdown enters by [`Site::insert_page`].

mod document;
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

pub use file::File;
pub use load::{Loaded, load};
pub use theme::built_in as built_in_theme;
pub use twin::bracketed;

use file::Cache;

/// What the operator says about the site as a whole.
#[derive(Debug, Clone, Default)]
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
#[derive(Debug, Clone, Default, Serialize)]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// Where its team is reached.
    pub email: String,
    /// Where provisioned organizations sign in; empty if nowhere.
    pub console_url: String,
}

/// One group of links in the footer.
#[derive(Debug, Clone)]
pub struct FooterGroup {
    /// Its heading.
    pub title: String,
    /// What it leads to.
    pub links: Vec<FooterLink>,
}

/// A link of the footer.
#[derive(Debug, Clone)]
pub struct FooterLink {
    /// What it says; a page's own short title if it says nothing.
    pub title: Option<String>,
    /// A path on this site, or an address elsewhere.
    pub href: String,
}

/// A form as pages show it.
#[derive(Debug, Clone, Serialize)]
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
#[derive(Debug, Clone, Serialize)]
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
#[derive(Debug)]
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
#[derive(Debug)]
pub enum Entry {
    /// A page, whose representation is negotiated.
    Page(Page),
    /// A single representation, whatever `Accept` says.
    File(Arc<File>, Role),
    /// A permanent redirect to this percent-encoded path.
    Redirect(String),
}

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
    /// The body as HTML with absolute links, for the feed; posts only.
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
    fn new(base_url: &str, not_found: Page) -> Self {
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
    pub fn insert_resource(&mut self, path: &str, media_type: &'static str, body: impl Into<bytes::Bytes>) {
        self.insert_file(path, media_type, body, Role::Resource);
    }

    fn insert_file(
        &mut self,
        path: &str,
        media_type: &'static str,
        body: impl Into<bytes::Bytes>,
        role: Role,
    ) {
        let file = || Arc::new(File::new(media_type, Cache::Revalidate, body));
        self.entries.entry(path.into()).or_insert_with(|| Entry::File(file(), role));
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
        let mut files = self.files();
        files.retain(|file| file.awaits_compression());
        files.sort_by_key(|file| file.identity().bytes.len());
        let mut sum = 0;
        let affordable = files
            .iter()
            .take_while(|file| {
                sum += file.identity().bytes.len();
                sum <= budget
            })
            .count();
        in_parallel(&files[..affordable], |file| file.compress());
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
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads =
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(items.len().max(1));
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
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
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
