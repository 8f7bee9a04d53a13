//! The other pages that each page shows: breadcrumbs, lists of posts, neighbors and translations.

use serde::Serialize;

use super::document::{Document, PageKind, Tag, listed_posts_newest_first};
use super::page_bodies::Bodies;
use super::pagination::{ListPage, Pagination, post_range};
use super::path::encode;
use super::site_context::{LanguageData, NavLink, SiteContext, navigation_pages};
use super::structure::Structure;
use super::translations::{LanguageLink, Translations};
use frontdesk_convert::{escape_sentence, escape_text};
use frontdesk_process::hash_maps::HashMap;

/// A page or a tag in a list.
#[derive(Debug, Clone, Default, Serialize, PartialEq)]
pub(super) struct ListItem {
    pub title: String,
    /// The percent-encoded path.
    pub path: String,
    pub description: Option<String>,
    pub date: Option<String>,
    pub date_human: Option<String>,
    pub author: Option<String>,
    pub tags: Vec<Tag>,
    pub reading_minutes: usize,
    /// Whether only a preview shows the page.
    pub draft: bool,
}

/// The links and lists of other pages that a page's template may show.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RelatedPages {
    /// The pages from the home page to this page, which is the last entry. Empty on the home page and on
    /// pages without a URL.
    pub breadcrumbs: Vec<NavLink>,
    /// The next older post.
    pub previous: Option<NavLink>,
    /// The next newer post.
    pub next: Option<NavLink>,
    /// The posts that the page lists.
    pub listing: Vec<ListItem>,
    /// Links to the pages of a list that is divided into pages, such as the blog.
    pub pagination: Option<Pagination>,
    /// Links to the main pages as Markdown, for the 404 page.
    pub help: String,
    /// This page and its translations, if there are any.
    pub translations: Vec<LanguageLink>,
    /// Links to the site's languages, if there are several.
    pub switcher: Vec<LanguageLink>,
}

/// Finds the related pages of each document.
pub(super) struct PageIndex<'a> {
    documents: &'a [Document],
    shared: &'a SiteContext,
    by_path: HashMap<&'a str, &'a Document>,
    /// The listed posts of each language, newest first.
    posts: Vec<Vec<&'a Document>>,
    /// The index of each post in its language's `posts`, by path.
    post_index: HashMap<&'a str, usize>,
    /// The reading time of each listed post in minutes, by path.
    reading_minutes: HashMap<&'a str, usize>,
    /// The listed posts with each tag, by language and tag, newest first.
    posts_by_tag: HashMap<(usize, &'a str), Vec<&'a Document>>,
    translations: Translations<'a>,
}

impl<'a> PageIndex<'a> {
    /// Indexes the documents with a URL, and computes the reading times of listed posts from their bodies.
    pub fn new(structure: &'a Structure, shared: &'a SiteContext, bodies: &Bodies) -> Self {
        let (documents, languages) = (structure.documents(), &structure.inputs.languages);
        let posts = (0..languages.len()).map(|index| listed_posts_newest_first(documents, index));
        let posts: Vec<Vec<&Document>> = posts.collect();
        let mut posts_by_tag: HashMap<(usize, &str), Vec<&Document>> = HashMap::default();
        for &post in posts.iter().flatten() {
            for tag in &post.front_matter.tags {
                posts_by_tag.entry((post.language, tag)).or_default().push(post);
            }
        }
        Self {
            documents,
            shared,
            by_path: documents.iter().map(|document| (document.path.as_str(), document)).collect(),
            post_index: posts
                .iter()
                .flat_map(|posts| posts.iter().enumerate().map(|(at, post)| (post.path.as_str(), at)))
                .collect(),
            reading_minutes: posts
                .iter()
                .flatten()
                .map(|post| (post.path.as_str(), bodies.of(post).reading_minutes()))
                .collect(),
            posts,
            posts_by_tag,
            translations: Translations::new(documents, languages, &shared.data.options.base_url),
        }
    }

    /// The other pages that the template of `document` shows.
    pub fn related_pages(&self, document: &Document) -> RelatedPages {
        // The posts are sorted: the newest has position 0.
        let position = self.post_index.get(document.path.as_str()).copied();
        let neighbor = |at: Option<usize>| {
            let post = self.posts[document.language].get(at?)?;
            Some(NavLink::new(&post.front_matter.title, post))
        };
        RelatedPages {
            breadcrumbs: self.breadcrumbs(document),
            previous: neighbor(position.map(|at| at + 1)),
            next: neighbor(position.and_then(|at| at.checked_sub(1))),
            listing: self.listed_posts(document),
            pagination: document.list_page.as_ref().and_then(ListPage::links),
            help: if document.kind == PageKind::NotFound { self.main_pages(document) } else { String::new() },
            translations: self.translations.of(document),
            switcher: self.translations.switcher(document),
        }
    }

    /// The posts that a page lists, in its language: a page of all posts or of those with a tag, or the three
    /// newest on the home page. If the list is divided into pages, only the part on this one. Empty for other
    /// pages.
    fn listed_posts(&self, document: &Document) -> Vec<ListItem> {
        let all = &self.posts[document.language];
        let posts: &[&Document] = match &document.kind {
            PageKind::Blog => all,
            PageKind::Home => &all[..all.len().min(3)],
            PageKind::Tag(name) => {
                self.posts_by_tag.get(&(document.language, name.as_str())).map_or(&[], Vec::as_slice)
            }
            _ => &[],
        };
        let shown = match &document.list_page {
            Some(page) => post_range(page.number, self.shared.data.options.posts_per_page, posts.len()),
            None => 0..posts.len(),
        };
        posts[shown].iter().map(|post| self.list_item(post)).collect()
    }

    /// The entry of a post in a list, with its date written in the post's language. Leaves out tags that no
    /// listed post has.
    fn list_item(&self, document: &Document) -> ListItem {
        let matter = &document.front_matter;
        let tags = matter.tags.iter().filter_map(|name| self.shared.find_tag(name, document.language));
        let words = &self.shared.language(document).language.words;
        ListItem {
            title: matter.title.clone(),
            path: encode(&document.path).into_owned(),
            description: matter.description.clone(),
            date: matter.date.map(|date| date.to_string()),
            date_human: matter.date.map(|date| words.date(date)),
            author: matter.author.clone(),
            tags: tags.cloned().collect(),
            reading_minutes: self.reading_minutes.get(document.path.as_str()).copied().unwrap_or_default(),
            draft: document.unpublished.is_some(),
        }
    }

    /// The pages above a document, beginning with the home page of its language, and the document itself.
    /// Skips folders without a page. Empty for the home page and for pages without a URL.
    fn breadcrumbs(&self, document: &Document) -> Vec<NavLink> {
        if matches!(document.kind, PageKind::Home | PageKind::NotFound) {
            return Vec::new();
        }
        let LanguageData { language, home, .. } = self.shared.language(document);
        let name = language.words.get("home");
        let title = |page: &Document| {
            if page.path == *home { name.to_owned() } else { page.nav_title_or_title().to_owned() }
        };
        let ends = document.path.match_indices('/').map(|(at, _)| &document.path[..=at]);
        // Leave out both home pages: `home` comes first in any case, and `/` does not contain pages in
        // another language.
        let folders = ends.filter(|path| *path != "/" && *path != home);
        let above = std::iter::once(home.as_str()).chain(folders).filter_map(|path| self.by_path.get(path));
        above.map(|page| NavLink::new(&title(page), page)).collect()
    }

    /// Lists the home page, if there is one, and the pages of the main navigation as Markdown, for the 404
    /// page.
    fn main_pages(&self, document: &Document) -> String {
        let base = &self.shared.data.options.base_url;
        let LanguageData { language, home, .. } = self.shared.language(document);
        let mut text = format!("{}\n\n", language.words.get("main_pages"));
        let mut navigation = navigation_pages(self.documents, document.language);
        navigation.retain(|document| document.path != *home);
        for page in self.by_path.get(home.as_str()).into_iter().chain(&navigation) {
            let description = page.front_matter.description.as_deref().map(escape_sentence);
            let description = description.map(|text| format!(": {text}")).unwrap_or_default();
            let (title, path) = (escape_text(page.nav_title_or_title()), encode(&page.path));
            text.push_str(&format!("- [{title}]({base}{path}){description}\n"));
        }
        text
    }
}
