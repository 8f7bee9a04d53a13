//! Converts the pages of a build, or takes their conversions from the cache on disk.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use blake3::Hash;
use frontdesk_convert::{Options, Selector, convert, parse_url};
use frontdesk_process::panics::{self, Panic, Part};

use super::conversion::{Conversion, Shared, hash_inputs, hash_settings};
use super::conversion_cache::CachePlaces;
use super::forms::{FormTexts, with_all_forms};
use super::html_pages::HtmlPage;
use crate::options::BuildOptions;

/// Converts the HTML pages of a build to Markdown while a site is loaded. Reads conversions from the cache,
/// and records which ones it lacks.
pub(super) struct PageConverter<'a> {
    /// The options that are the same for all pages.
    options: Options,
    /// A hash of the options and of the converter's code.
    settings: Hash,
    places: &'a CachePlaces,
    /// The input hashes of the conversions that were not in the cache.
    uncached: Mutex<HashSet<Hash>>,
}

impl<'a> PageConverter<'a> {
    /// Prepares the options that all conversions share. An invalid selector counts as empty.
    pub fn new(build: &BuildOptions, forms: &FormTexts, places: &'a CachePlaces) -> Self {
        // Reading the configuration has already rejected invalid selectors, so `ok` drops no error.
        let selector =
            |css: &str| Some(css).filter(|css| !css.is_empty()).and_then(|css| Selector::parse(css).ok());
        let options = Options {
            main: selector(&build.main),
            exclude: selector(&build.exclude),
            forms: forms.clone(),
            ..Options::default()
        };
        Self { options, settings: hash_settings(build, forms), places, uncached: Mutex::default() }
    }

    /// A hash of everything that the conversion of a page depends on.
    pub fn inputs(&self, page: &HtmlPage<'_>, shared: &Shared) -> Hash {
        hash_inputs(page, &self.settings, shared)
    }

    /// The conversion of a page without the parts in `shared`. `inputs` is the result of [`Self::inputs`].
    /// With `needs_text`, the conversion has its Markdown. Returns the panic if the conversion panics. Reads
    /// the conversion from the cache on disk if that has it; otherwise, converts the page and records
    /// that the cache lacks it.
    pub fn convert(
        &self,
        page: &HtmlPage<'_>,
        inputs: &Hash,
        shared: &Shared,
        needs_text: bool,
    ) -> Result<Conversion, Panic> {
        let stored = self.places.conversions.as_ref().and_then(|cache| cache.read(inputs));
        if let Some(stored) = stored.filter(|stored| !needs_text || stored.markdown.is_some()) {
            return Ok(stored);
        }
        let conversion = panics::catch(Part::Content, || {
            panics::inject(if needs_text { "build-page-again" } else { "build-page" }, page.name());
            let Shared { links: boilerplate, site_name, has_common_title } = shared.clone();
            let url = parse_url(&page.url).ok();
            let options = Options { url, boilerplate, site_name, has_common_title, ..self.options.clone() };
            let html = page.html();
            Conversion::new(&html, with_all_forms(convert(&html, &options), &options.forms))
        })?;
        self.places.spill.note_read(page.file.blob.bytes.len());
        self.uncached.lock().unwrap_or_else(PoisonError::into_inner).insert(*inputs);
        Ok(conversion)
    }

    /// The conversion of a page without the parts in `shared`, with its Markdown. If that panics, returns the
    /// conversion with these parts: `alone`, or a new one if the Markdown of `alone` was dropped. If that
    /// panics too, returns [`Conversion::unconverted`]. Also returns the first panic.
    pub fn convert_again(
        &self,
        page: &HtmlPage<'_>,
        inputs: &Hash,
        shared: &Shared,
        alone: &Conversion,
    ) -> (Conversion, Option<Panic>) {
        let panic = match self.convert(page, inputs, shared, true) {
            Ok(converted) => return (converted, None),
            Err(panic) => panic,
        };
        let none = Shared::default();
        let known = Some(alone.clone()).filter(|alone| alone.markdown.is_some());
        let with_shared = || self.convert(page, &self.inputs(page, &none), &none, true).ok();
        let converted = known.or_else(with_shared).unwrap_or_else(|| Conversion::unconverted(page));
        (converted, Some(panic))
    }

    /// The input hashes of the conversions that were not in the cache.
    pub fn into_uncached(self) -> HashSet<Hash> {
        self.uncached.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
