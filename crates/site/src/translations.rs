//! Finds the translations of each page, and links to them.

use std::collections::HashMap;

use serde::Serialize;

use super::document::Document;
use super::language::Language;
use super::path::encode;
use crate::fault::Fault;

/// A link to a page in one of the site's languages.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct LanguageLink {
    /// The language tag.
    pub language: String,
    /// The language's own name, such as `Deutsch`.
    pub name: String,
    /// The percent-encoded path.
    pub path: String,
    pub url: String,
    /// The value of `og:locale`.
    pub locale: String,
    /// Whether the link leads to the language of the page that shows it.
    pub current: bool,
}

/// The translations of each page of a site with several languages.
#[derive(Debug, Default)]
pub(super) struct Translations<'a> {
    languages: &'a [Language],
    base_url: &'a str,
    /// The pages that are translations of each other, by their common key: at most one page per language, in
    /// the order of the languages.
    by_key: HashMap<String, Vec<&'a Document>>,
    /// The home page of each language, if there is one.
    homes: Vec<Option<&'a Document>>,
}

impl<'a> Translations<'a> {
    /// Groups the documents with their translations. If several pages in a language have the same key, only
    /// the first one counts. On a site with one language, there are no groups.
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
        for group in by_key.values_mut() {
            group.sort_by_key(|document| document.language);
        }
        let home = |language: &Language| {
            let home = language.home();
            documents.iter().find(|document| document.path == home)
        };
        Self { languages, base_url, by_key, homes: languages.iter().map(home).collect() }
    }

    /// The pages with the same content as `document` in all languages, including itself. Empty if it has no
    /// translation, or if another page in its language has the same `translation` and comes first.
    pub fn of(&self, document: &Document) -> Vec<LanguageLink> {
        let group = self.group(document);
        if group.len() < 2 || !group.iter().any(|page| page.path == document.path) {
            return Vec::new();
        }
        group.iter().map(|page| self.link(page, document)).collect()
    }

    /// One link for each of the site's languages: to `document` itself, its translation, or else to the
    /// language's home page. Leaves out languages with neither. Empty if only one link would be left.
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

    /// The path of `page` in the language with this index, not percent-encoded; `None` if there is no
    /// translation, or if the site has one language.
    pub fn path_in(&self, language: usize, page: &Document) -> Option<&'a str> {
        let found = self.group(page).iter().find(|page| page.language == language)?;
        Some(&found.path)
    }

    /// The pages with the same translation key as `document`. Empty on a site with one language.
    fn group(&self, document: &Document) -> &[&'a Document] {
        let group = (self.languages.len() > 1).then(|| self.by_key.get(&key(document, self.languages)));
        group.flatten().map_or(&[], Vec::as_slice)
    }

    /// A link to a page, for the page `from`. It is marked as current if both have the same language.
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

/// A string that is the same for a page and all its translations: their `translation` in the front matter, or
/// else their file name without the language's folder, or for pages without one, the path without the
/// language's prefix.
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
                    .hint("change one of them: only the first page is linked as a translation"),
            );
        }
    }
}

#[cfg(test)]
mod tests;
