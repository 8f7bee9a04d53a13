//! The languages of a site: their paths and words, and which pages are translations of each other.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::document::Document;
use super::options::PagesOptions;
use super::path::encode;
use super::words::Words;
use crate::fault::Fault;

/// A language of the site. The first one is the default language.
#[derive(Debug, Clone, PartialEq)]
pub struct Language {
    /// A language tag (BCP 47).
    pub tag: String,
    /// The path of the language's folder without a trailing slash, such as `/de`; empty for the default
    /// language.
    pub prefix: String,
    pub words: Arc<Words>,
    /// The site's title in this language. The next two are translated as well.
    pub title: String,
    pub tagline: String,
    pub description: String,
}

impl Language {
    /// The languages in the options, with their words in the same order.
    pub(super) fn list(options: &PagesOptions, words: Vec<Words>) -> Vec<Self> {
        let tags = options.language_tags().into_iter();
        tags.zip(words)
            .enumerate()
            .map(|(index, (tag, words))| Self::new(index, tag, words, options))
            .collect()
    }

    /// The only language of a site without translations.
    pub(super) fn only(options: &PagesOptions) -> Self {
        Self::new(0, &options.language, Words::english(), options)
    }

    fn new(index: usize, tag: &str, words: Words, options: &PagesOptions) -> Self {
        let text = |name: &str, configured: &str| match words.get(name) {
            "" => configured.to_owned(),
            word => word.to_owned(),
        };
        Self {
            tag: tag.to_owned(),
            prefix: if index == 0 { String::new() } else { format!("/{tag}") },
            title: text("site_title", &options.title),
            tagline: text("site_tagline", &options.tagline),
            description: text("site_description", &options.description),
            words: Arc::new(words),
        }
    }

    /// The path of the home page.
    pub fn home(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// The value of the Open Graph property `og:locale`, such as `de_DE`.
    pub(super) fn open_graph_locale(&self) -> String {
        if self.tag.contains('-') {
            self.tag.replace('-', "_")
        } else {
            self.words.get("og_locale").to_owned()
        }
    }
}

/// A link to a page in one of the site's languages.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct LanguageLink {
    /// The language tag.
    pub language: String,
    /// The language's own name, such as `Deutsch`.
    pub name: String,
    /// Percent-encoded.
    pub path: String,
    pub url: String,
    /// The value of `og:locale`.
    pub locale: String,
    pub current: bool,
}

/// The translations of each page of a site with several languages.
#[derive(Debug, Default)]
pub(super) struct Translations<'a> {
    languages: &'a [Language],
    base_url: &'a str,
    /// By key, at most one page per language, in the order of the languages.
    by_key: HashMap<String, Vec<&'a Document>>,
    homes: Vec<Option<&'a Document>>,
}

impl<'a> Translations<'a> {
    pub fn new(documents: &'a [Document], languages: &'a [Language], base_url: &'a str) -> Self {
        let mut by_key: HashMap<String, Vec<&Document>> = HashMap::new();
        if languages.len() > 1 {
            for document in documents {
                let group = by_key.entry(key(document, languages)).or_default();
                if !group.iter().any(|other| other.language == document.language) {
                    group.push(document);
                }
            }
        }
        by_key.values_mut().for_each(|group| group.sort_by_key(|document| document.language));
        let home = |language: &Language| documents.iter().find(|document| document.path == language.home());
        Self { languages, base_url, by_key, homes: languages.iter().map(home).collect() }
    }

    /// The pages with the same content as `document` in all languages, including itself. Empty if it has no
    /// translation.
    pub fn of(&self, document: &Document) -> Vec<LanguageLink> {
        let group = self.group(document);
        if group.len() < 2 || !group.iter().any(|page| page.path == document.path) {
            return Vec::new();
        }
        group.iter().map(|page| self.link(page, document)).collect()
    }

    /// One link for each of the site's languages: to the translation of `document`, or else to the language's
    /// home page. Empty for a site with one language.
    pub fn switcher(&self, document: &Document) -> Vec<LanguageLink> {
        let group = self.group(document);
        let links = self.languages.iter().enumerate().filter_map(|(index, _)| {
            if index == document.language {
                return Some(self.link(document, document));
            }
            let page = group.iter().find(|page| page.language == index).copied();
            Some(self.link(page.or(self.homes[index])?, document))
        });
        let links: Vec<LanguageLink> = links.collect();
        if links.len() > 1 { links } else { Vec::new() }
    }

    /// The path of the page at `path` in another language; `None` if there is no such page.
    pub fn path_in(&self, language: usize, page: &Document) -> Option<&'a str> {
        let found = self.group(page).iter().find(|page| page.language == language)?;
        Some(&found.path)
    }

    fn group(&self, document: &Document) -> &[&'a Document] {
        let group = (self.languages.len() > 1).then(|| self.by_key.get(&key(document, self.languages)));
        group.flatten().map_or(&[], Vec::as_slice)
    }

    fn link(&self, to: &Document, from: &Document) -> LanguageLink {
        let language = &self.languages[to.language];
        let path = encode(&to.path).into_owned();
        LanguageLink {
            language: language.tag.clone(),
            name: language.words.get("language_name").to_owned(),
            url: format!("{}{path}", self.base_url),
            path,
            locale: language.open_graph_locale(),
            current: to.language == from.language,
        }
    }
}

/// A text that is the same for a page and its translations.
fn key(document: &Document, languages: &[Language]) -> String {
    if let Some(name) = &document.front_matter.translation {
        return format!("translation {name}");
    }
    match &document.source_key {
        Some(key) => key.clone(),
        None => document
            .path
            .strip_prefix(&languages[document.language].prefix)
            .unwrap_or(&document.path)
            .to_owned(),
    }
}

/// Warns about pages in the same language with the same `translation`.
pub(super) fn report_repeated_translations(documents: &[Document], faults: &mut Vec<Fault>) {
    let mut first: HashMap<(usize, &str), &Document> = HashMap::new();
    for document in documents {
        let Some(name) = &document.front_matter.translation else { continue };
        let other = *first.entry((document.language, name)).or_insert(document);
        if !std::ptr::eq(other, document) {
            let message = format!("{} has the same `translation` in the same language", other.place());
            faults.push(
                document
                    .warning_at_key("translation", message)
                    .hint("only the first one is linked as a translation"),
            );
        }
    }
}

#[cfg(test)]
mod tests;
