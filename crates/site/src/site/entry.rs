//! The entries of a site: pages, files and redirects.

use std::sync::Arc;

use http::StatusCode;

use crate::file::File;
use crate::path;

/// A page as HTML and as Markdown.
#[derive(Debug, Clone)]
pub struct Page {
    pub html: Arc<File>,
    pub markdown: Arc<File>,
    /// The percent-encoded path. Shared with the counts of page views, which outlive a reload.
    pub path: Arc<str>,
    /// The percent-encoded path of the Markdown twin.
    pub twin: Arc<str>,
    /// The entries at the page's other paths. `None` if the site stores these entries itself, or has none.
    pub(super) others: Option<Arc<OtherPaths>>,
}

impl Page {
    /// A page at `path`, whose Markdown is at `twin`. Both are percent-encoded.
    pub fn new(html: Arc<File>, markdown: Arc<File>, path: Arc<str>, twin: Arc<str>) -> Self {
        Self { html, markdown, path, twin, others: None }
    }

    /// The page with [`OtherPaths`]. Keeps those that it has.
    #[must_use]
    pub(crate) fn with_other_paths(mut self) -> Self {
        self.others = Some(self.others.take().unwrap_or_else(|| OtherPaths::of(&self)));
        self
    }

    /// Makes [`OtherPaths`] serve the Markdown of the page, after that was replaced. Does nothing for a page
    /// without other paths.
    pub(super) fn update_other_paths(&mut self) {
        if let Some(OtherPaths { markdown: SiteEntry::File(file, _), .. }) = self.others.as_deref()
            && !Arc::ptr_eq(file, &self.markdown)
        {
            self.others = Some(OtherPaths::of(self));
        }
    }
}

/// The purpose of a file that has only one representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The Markdown of a page, served at its own path. The value is the page's percent-encoded path.
    Twin(Arc<str>),
    /// A machine-readable file generated from pages and forms.
    Resource,
    /// A file from the operator or the theme.
    Asset,
}

/// The content at a path.
#[derive(Debug, Clone)]
pub enum SiteEntry {
    /// A page, with content negotiation.
    Page(Page),
    /// A single representation, which does not depend on `Accept`.
    File(Arc<File>, Role),
    Redirect(Redirect),
    /// A page that was removed for good (RFC 9110 §15.5.11).
    Gone,
}

/// A redirect from a path on the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// A percent-encoded path or a URL, which may have a query and a fragment.
    pub to: String,
    pub status: StatusCode,
    /// Whether the redirect keeps the request's query, unless `to` has its own.
    pub keeps_query: bool,
}

impl Redirect {
    /// A permanent redirect that keeps the method (RFC 9110 §15.4.9) and the query.
    pub fn permanent(to: impl Into<String>) -> Self {
        Self { to: to.into(), status: StatusCode::PERMANENT_REDIRECT, keeps_query: true }
    }
}

/// The entries at the [`path::markdown_paths`] and [`path::redirect_paths`] of a page. They apply where the
/// site has no other entry.
#[derive(Debug)]
pub(crate) struct OtherPaths {
    pub(super) markdown: SiteEntry,
    pub(super) redirect: SiteEntry,
}

impl OtherPaths {
    fn of(page: &Page) -> Arc<Self> {
        Arc::new(Self {
            markdown: SiteEntry::File(page.markdown.clone(), Role::Twin(page.path.clone())),
            redirect: SiteEntry::Redirect(Redirect::permanent(&*page.path)),
        })
    }

    /// The other paths of the page at a decoded path, decoded, each with its entry. A path may occur twice.
    pub(super) fn list(&self, page: &str) -> Vec<(String, &SiteEntry)> {
        let mut all = Vec::new();
        for path in path::markdown_paths(page) {
            all.push((path, &self.markdown));
        }
        for path in path::redirect_paths(page) {
            all.push((path, &self.redirect));
        }
        all
    }
}
