//! Lays out all pages of a site: creates their HTML and Markdown files. A reload reuses the files of a page
//! if its inputs are equal.

use std::sync::Arc;

use super::document::{Document, PageKind, Tag};
use super::file::{Blob, Cache, File, noindex_header};
use super::layout::TemplateContext;
use super::link_rewriting::fragment_names;
use super::live_reload::add_reload_script;
use super::markdown_twin;
use super::options::PageForm;
use super::page_bodies::{Bodies, Content};
use super::page_navigation::{ListItem, PageIndex, RelatedPages};
use super::path::{self, encode};
use super::site::Page;
use super::site_context::SiteContext;
use super::structure::Structure;
use crate::fault::Fault;
use frontdesk_process::allocator;
use frontdesk_process::hash_maps::HashSet;
use frontdesk_process::memo::{ByPointer, MemoMap};
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::panics::{self, Part};

/// The number of pages that are laid out before the texts of their bodies are freed.
const BATCH: usize = 1_000;

/// The first load of a site with at least this many pages returns freed memory to the system after each step:
/// otherwise, fragments of sources and bodies would add more than 100 MB to its peak with 10,000 pages.
const LARGE_SITE: usize = 4_000;

/// The files of all pages, by the paths of the pages.
#[derive(Debug, Default)]
pub(super) struct PageFiles {
    by_path: MemoMap<PageInputs, Arc<LaidOutPage>>,
    spill: Arc<PageSpill>,
}

/// The inputs of a page's files.
#[derive(Debug)]
struct PageInputs {
    shared: ByPointer<SiteContext>,
    structure: Arc<Structure>,
    /// The index of the page's document among all of the structure's documents.
    index: usize,
    content: Content,
    view: Arc<RelatedPages>,
}

impl PageInputs {
    fn document(&self) -> &Document {
        &self.structure.all()[self.index]
    }
}

impl PartialEq for PageInputs {
    /// Compares the documents themselves, not their positions in the structures.
    fn eq(&self, other: &Self) -> bool {
        let is_same_document = Arc::ptr_eq(&self.structure, &other.structure) && self.index == other.index;
        self.shared == other.shared
            && self.content == other.content
            && (Arc::ptr_eq(&self.view, &other.view) || self.view == other.view)
            && (is_same_document || self.document() == other.document())
    }
}

/// The files of a page, and the data about the page that later steps of the load use.
#[derive(Debug)]
pub(super) struct LaidOutPage {
    pub page: Page,
    /// The ids in the HTML.
    pub anchors: Arc<HashSet<Box<str>>>,
    pub view: Arc<RelatedPages>,
    /// The names of the forms that the page shows, including those that only its template adds.
    pub forms: Vec<&'static str>,
    /// The body's HTML and Markdown, as slices of the page's files.
    content: Content,
    /// The warning that the page's template panicked; `None` if it did not.
    defect: Option<Fault>,
}

impl PageFiles {
    /// An empty cache that keeps the files of a large site in `spill`.
    pub fn new(spill: Arc<PageSpill>) -> Self {
        Self { spill, ..Self::default() }
    }

    /// The storage that holds the files of a large site on disk.
    pub fn spill(&self) -> &Arc<PageSpill> {
        &self.spill
    }

    /// Returns an empty cache that keeps its files in the same storage.
    #[must_use]
    pub fn cleared(self) -> Self {
        Self::new(self.spill)
    }

    /// The body that the files of the page at `path` were last built from.
    #[cfg(test)]
    pub fn content(&mut self, path: &str) -> Option<&Content> {
        self.by_path.get_mut(path).map(|(inputs, _)| &inputs.content)
    }

    /// Whether this is the first load of a large site. The caller then returns freed memory to the system.
    pub fn needs_trimming(&self, structure: &Structure) -> bool {
        self.by_path.is_empty() && structure.all().len() >= LARGE_SITE
    }

    /// Lays out all pages, in the order of the structure, and adds their faults to `faults`. `None` if any
    /// template fails. Replaces each text in `bodies` with a slice of the page's files, which saves the copy.
    pub fn update(
        &mut self,
        structure: &Arc<Structure>,
        shared: &Arc<SiteContext>,
        bodies: &mut Bodies,
        faults: &mut Vec<Fault>,
    ) -> Option<Vec<Arc<LaidOutPage>>> {
        let index = PageIndex::new(structure, shared, bodies);
        let shared = ByPointer(shared.clone());
        let all: Vec<(usize, &Document)> = structure.all().iter().enumerate().collect();
        let mut pages = Vec::with_capacity(all.len());
        let needs_trimming = self.needs_trimming(structure);
        // This total is a lower bound: the HTML of a page also contains the layout, and the Markdown adds
        // about half as much.
        let sizes = all.iter().map(|(_, document)| bodies.of(document).html.size() as u64);
        self.spill.begin(sizes.sum());
        let spill = &self.spill;
        for batch in all.chunks(BATCH) {
            let inputs = |(at, document): &(usize, &Document), last: Option<&(PageInputs, _)>| {
                // Compute the related pages again if they list posts: the list depends on the posts' bodies.
                let is_same = |last: &&PageInputs| {
                    Arc::ptr_eq(&last.structure, structure)
                        && (last.index, &last.shared) == (*at, &shared)
                        && last.view.listing.is_empty()
                };
                let last = last.map(|(inputs, _)| inputs).filter(is_same);
                let view = last.map(|last| last.view.clone());
                PageInputs {
                    shared: shared.clone(),
                    structure: structure.clone(),
                    index: *at,
                    content: bodies.of(document).clone(),
                    view: view.unwrap_or_else(|| Arc::new(index.related_pages(document))),
                }
            };
            let new = self.by_path.get_all(
                batch,
                |(_, document)| &document.path,
                inputs,
                |(_, document), inputs, _| lay_out_page(document, inputs, spill),
            );
            for ((at, document), page) in batch.iter().zip(new) {
                let Ok(page) = page.map_err(|fault| faults.push(fault)) else { continue };
                faults.extend(page.defect.clone());
                // Take the text from the page, where it is a slice of the page's files, so that the other
                // copy is freed. Take the facts from this load, because line numbers may have changed even if
                // the text has not.
                let body = bodies.of(document);
                if !body.has_texts_of(&page.content) {
                    let content = page.content.with_facts_of(body);
                    // If several documents have this path, which is an error, only one of their pages is
                    // cached.
                    if let Some((inputs, _)) = self.by_path.get_mut(&document.path)
                        && inputs.index == *at
                    {
                        inputs.content = content.clone();
                    }
                    bodies.set(document, content);
                }
                pages.push(page);
            }
            if needs_trimming {
                allocator::release_memory();
            }
        }
        self.by_path.keep_only(all.iter().map(|(_, document)| document.path.as_str()));
        (pages.len() == all.len()).then_some(pages)
    }
}

/// The names of the forms on a page, in the order of `forms`: that of its front matter, even if the template
/// does not show it, and those in the rendered HTML, which the forms' script recognizes by the same
/// attribute. Leaves out names that no form has.
fn form_names(html: &str, of_page: Option<&str>, forms: &[PageForm]) -> Vec<&'static str> {
    const ATTRIBUTE: &str = "data-frontdesk=\"";
    let in_html = html.split(ATTRIBUTE).skip(1).filter_map(|rest| rest.split_once('"'));
    let names: Vec<&str> = in_html.map(|(name, _)| name).chain(of_page).collect();
    forms.iter().map(|form| form.definition.name).filter(|name| names.contains(name)).collect()
}

/// Renders a document's HTML, composes its Markdown twin, and collects the anchors in the HTML. Fails if the
/// template does. If the template panics, the page is rendered without the theme and has a defect. A page
/// without a URL gets neither a `Link` nor content signals. The `Link` of a home page also has `home_links`.
/// The Markdown of a page with `noindex` has the header of [`noindex_header`].
fn lay_out_page(
    document: &Document,
    inputs: &PageInputs,
    spill: &PageSpill,
) -> Result<Arc<LaidOutPage>, Fault> {
    let PageInputs { shared: ByPointer(shared), content, view, .. } = inputs;
    let template = TemplateContext { shared, document, content, view };
    let options = &shared.data.options;
    let path = encode(&document.path).into_owned();
    let twin_path = encode(&path::twin_path(&document.path)).into_owned();
    let url = format!("{}{path}", options.base_url);
    let (html, defect) = match panics::catch(Part::Content, || template.render_html()) {
        Ok(html) => (html?, None),
        Err(panic) => {
            let fault = Fault::defect(&document.file, &panic, "the page is shown without the theme");
            (template.render_without_theme(), Some(fault))
        }
    };
    let forms = form_names(&html, document.front_matter.form.as_deref(), &shared.data.forms);
    let is_list_of_tags = document.kind == PageKind::Tags;
    let item = |tag: &Tag| {
        let title = format!("{} ({})", tag.name, tag.count);
        ListItem { title, path: tag.path.clone(), ..ListItem::default() }
    };
    let tags: Vec<ListItem> =
        shared.language(document).tags.iter().filter(|_| is_list_of_tags).map(item).collect();
    let markdown =
        markdown_twin::compose(&template, &url, if is_list_of_tags { &tags } else { &view.listing }, &forms);
    let mut link = format!("<{twin_path}>; rel=\"alternate\"; type=\"text/markdown\"");
    if document.kind == PageKind::Home {
        let guide = format!("<{}/llms.txt>", shared.language(document).language.prefix);
        for more in &options.home_links {
            link.push_str(", ");
            link.push_str(&more.replace("</llms.txt>", &guide));
        }
    }
    let anchors: HashSet<Box<str>> = fragment_names(&html).map(Into::into).collect();
    let mut html =
        if options.has_reload_script { add_reload_script(html.as_bytes()) } else { html.into_bytes() };
    html.shrink_to_fit();
    let file = |media_type, text| File::from_blob(media_type, Cache::Revalidate, Blob::in_spill(text, spill));
    let mut html = file("text/html; charset=utf-8", html);
    let mut markdown = file("text/markdown; charset=utf-8", markdown.into_bytes());
    // `NotFound` is the kind of 404 pages and confirmation pages, which have no URL.
    if document.kind != PageKind::NotFound {
        html = html.with_link(link);
        markdown = markdown.with_link(format!("<{url}>; rel=\"canonical\""));
        if document.noindex {
            markdown.headers.push(noindex_header());
        }
        options.signals.add_to(&mut html);
        options.signals.add_to(&mut markdown);
    }
    let content = content.as_slices_of(&html.unencoded().bytes, &markdown.unencoded().bytes);
    spill.note_read(html.unencoded().bytes.len() + markdown.unencoded().bytes.len());
    let page = Page::new(Arc::new(html), Arc::new(markdown), path.into(), twin_path.into());
    // Made here, so that a reload that reuses the page does not make them again.
    let page = page.with_other_paths();
    Ok(Arc::new(LaidOutPage { page, anchors: Arc::new(anchors), view: view.clone(), forms, content, defect }))
}
