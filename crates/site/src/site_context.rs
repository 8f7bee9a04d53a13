//! The data that all pages of a site share, as templates use it.

use std::sync::Arc;

use minijinja::value::{Serde, Value};
use serde::Serialize;

use super::brand::Brand;
use super::document::{Document, PageKind, Tag, listed_tags};
use super::form_view::FormView;
use super::language::Language;
use super::link_resolution::percent_decoded;
use super::options::{FooterGroup, PageForm, PagesOptions};
use super::path::encode;
use super::section::{NavSection, SectionPage, sections};
use super::structure::{Structure, StructureInputs};
use super::theme::CompiledTheme;
use super::translations::Translations;
use super::words::WordList;
use frontdesk_process::hash_maps::HashMap;

/// A link to a page, with its title.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub(super) struct NavLink {
    pub title: String,
    /// The percent-encoded path.
    pub path: String,
}

impl NavLink {
    pub fn new(title: &str, page: &Document) -> Self {
        Self { title: title.to_owned(), path: encode(&page.path).into_owned() }
    }
}

/// The inputs of [`SiteContext`], except the templates.
#[derive(Debug, PartialEq)]
pub(super) struct SiteData {
    /// Without the footer and the words, which [`LanguageData`] contains, and without redirects. `today` is
    /// the first day of the year.
    pub options: PagesOptions,
    pub forms: Vec<PageForm>,
    /// The data of each language, in the order of the site's languages.
    pub languages: Vec<LanguageData>,
    /// The URL of the stylesheet with the operator's additions.
    pub custom_css: Option<String>,
    pub brand: Brand,
    pub has_search: bool,
}

/// The data that all pages in one language share.
#[derive(Debug, PartialEq)]
pub(super) struct LanguageData {
    pub language: Language,
    pub navigation: Vec<NavLink>,
    pub tags: Vec<Tag>,
    /// The footer's groups. A link without a configured title has its page's short title or its address.
    pub footer: Vec<FooterGroup>,
    /// The path of the language's home page; `/` if the language has no home page.
    pub home: String,
    pub sections: Vec<NavSection>,
}

/// Parts of [`LanguageData`] as template values, converted once.
#[derive(Debug)]
pub(super) struct LanguageValues {
    pub words: Value,
    /// The words of the forms' script as JSON; `None` if they are the English ones.
    pub form_words: Option<String>,
    pub footer: Value,
    pub tags: Value,
    pub forms: Value,
    /// The index of each tag in [`LanguageData::tags`], by name.
    tag_index: HashMap<String, usize>,
}

/// The templates and the data that all pages share.
#[derive(Debug)]
pub(super) struct SiteContext {
    pub data: Arc<SiteData>,
    pub templates: Arc<CompiledTheme>,
    // Parts of `data`, converted to template values once.
    pub operator: Value,
    pub brand: Value,
    /// The values of each language, in the order of the site's languages.
    pub languages: Vec<LanguageValues>,
}

impl SiteData {
    /// Collects the data that pages share from the documents and options of a structure. Clears the footer,
    /// words and redirects in its options, and reduces today's date to the year.
    pub fn new(structure: &Structure, has_search: bool) -> Self {
        let StructureInputs { options, languages, forms, .. } = &*structure.inputs;
        let documents = structure.documents();
        let links = Translations::new(documents, languages, &options.base_url);
        let by_path: HashMap<&str, &Document> =
            documents.iter().map(|document| (document.path.as_str(), document)).collect();
        let language_data = languages.iter().enumerate().map(|(index, language)| {
            let navigation = navigation_pages(documents, index).into_iter();
            let home = language.home();
            LanguageData {
                navigation: navigation.map(|page| NavLink::new(page.nav_title_or_title(), page)).collect(),
                tags: listed_tags(documents, index, &language.prefix),
                footer: footer_in(index, language, &options.footer, &by_path, &links),
                home: if by_path.contains_key(home.as_str()) { home } else { "/".to_owned() },
                sections: sections(&section_pages(documents, index)),
                language: language.clone(),
            }
        });
        let mut options = options.clone();
        // Pages show only the year. A new day must not invalidate all cached pages.
        options.today = options.today.first_of_year();
        options.footer.clear();
        options.words.clear();
        options.redirects.clear();
        Self {
            options,
            forms: forms.clone(),
            languages: language_data.collect(),
            custom_css: structure.asset_urls.get("custom.css").cloned(),
            brand: structure.brand.clone(),
            has_search,
        }
    }
}

impl SiteContext {
    /// Converts the shared data to template values.
    pub fn new(data: Arc<SiteData>, templates: Arc<CompiledTheme>) -> Self {
        let english = WordList::english();
        Self {
            operator: to_template_value(&data.options.operator),
            brand: to_template_value(&data.brand),
            languages: data.languages.iter().map(|of| LanguageValues::new(of, &data, &english)).collect(),
            data,
            templates,
        }
    }

    /// The data of the page's language.
    pub fn language(&self, document: &Document) -> &LanguageData {
        &self.data.languages[document.language]
    }

    /// The tag with this name in the language with this index; `None` if no listed post has it.
    pub fn find_tag(&self, name: &str, language: usize) -> Option<&Tag> {
        self.languages[language].tag_index.get(name).map(|at| &self.data.languages[language].tags[*at])
    }

    /// The absolute URL of a decoded path.
    pub fn absolute_url(&self, path: &str) -> String {
        format!("{}{}", self.data.options.base_url, encode(path))
    }
}

impl SiteContext {
    /// Whether the site has a form with this name. Loading the site reports pages that name an unknown form.
    pub fn has_form(&self, name: &str) -> bool {
        self.data.forms.iter().any(|form| form.definition.name == name)
    }
}

impl LanguageValues {
    /// Converts the data of a language to template values. The words of the forms' script are `None` if they
    /// are those in `english`.
    fn new(data: &LanguageData, site: &SiteData, english: &WordList) -> Self {
        let words = &data.language.words;
        Self {
            words: words.to_template_value(),
            form_words: words.of_script(english),
            footer: to_template_value(&data.footer),
            tags: to_template_value(&data.tags),
            forms: FormView {
                words,
                is_default_language: data.language.prefix.is_empty(),
                works_without_script: site.options.html_posts,
                answered: None,
            }
            .values_and_faulty(&site.forms, site.options.form_set.faulty()),
            tag_index: data.tags.iter().map(|tag| tag.name.clone()).zip(0..).collect(),
        }
    }
}

/// The pages in one language that may be in a section: those that open one, and listed pages except the home
/// page, posts and generated lists.
fn section_pages(documents: &[Document], language: usize) -> Vec<SectionPage> {
    let listed = documents.iter().filter(|document| {
        let matter = &document.front_matter;
        document.language == language
            && (matter.section || (document.kind == PageKind::Page && !matter.unlisted))
    });
    let page = |document: &Document| SectionPage {
        path: document.path.clone(),
        title: document.nav_title_or_title().to_owned(),
        weight: document.front_matter.weight,
        group: document.front_matter.group.clone(),
        opens_section: document.front_matter.section,
    };
    listed.map(page).collect()
}

/// The pages in one language that have `nav` in their front matter, lowest value of `nav` first.
pub(super) fn navigation_pages(documents: &[Document], language: usize) -> Vec<&Document> {
    let is_in_navigation =
        |document: &&Document| document.language == language && document.front_matter.nav.is_some();
    let mut pages: Vec<&Document> = documents.iter().filter(is_in_navigation).collect();
    pages.sort_by_key(|document| document.front_matter.nav);
    pages
}

/// The footer in a language, without the groups of other languages. Links whose address is the path of a
/// page, percent-encoded or not, without a query or fragment, lead to its translation, if there is one. Fills
/// in missing titles: the short title of the linked page, or the link's address if there is no such page.
fn footer_in(
    index: usize,
    language: &Language,
    groups: &[FooterGroup],
    by_path: &HashMap<&str, &Document>,
    translations: &Translations<'_>,
) -> Vec<FooterGroup> {
    let is_shown = |group: &&FooterGroup| {
        group.language.as_ref().is_none_or(|tag| tag.eq_ignore_ascii_case(&language.tag))
    };
    let mut groups: Vec<FooterGroup> = groups.iter().filter(is_shown).cloned().collect();
    for link in groups.iter_mut().flat_map(|group| &mut group.links) {
        let mut page = by_path.get(&*percent_decoded(&link.href)).copied();
        if let Some(found) = page {
            let path = translations.path_in(index, found).unwrap_or(&found.path);
            page = by_path.get(path).copied();
            link.href = encode(path).into_owned();
        }
        let title = link.title.clone().or_else(|| Some(page?.nav_title_or_title().to_owned()));
        link.title = Some(title.unwrap_or_else(|| link.href.clone()));
    }
    groups
}

pub(super) fn to_template_value(value: impl Serialize) -> Value {
    Value::from(Serde(value))
}
