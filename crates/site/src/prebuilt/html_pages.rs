//! Separates the HTML files of a build into pages and fragments.

use std::borrow::Cow;
use std::collections::HashSet;

use frontdesk_convert::{Embedded, attributes, decode_html, is_fragment};

use super::html_extensions::LinkSpellings;
use crate::fault::Fault;
use crate::options::{BuildOptions, PagesOptions};
use crate::path::encode;
use crate::rules::content_security_policy::content_security_policy;
use crate::rules::page_paths::{is_shell, page_path};
use crate::site_files::BuildFile;
use frontdesk_forms::FormSet;
use frontdesk_process::page_spill::PageSpill;
use frontdesk_process::panics::{self, Panic, Part};
use frontdesk_process::parallel::in_parallel;

/// An HTML file that is a page, not a fragment.
pub(super) struct HtmlPage<'a> {
    pub file: &'a BuildFile,
    pub media_type: &'static str,
    pub path: String,
    pub url: String,
    /// Whether the file is the shell of an app or an error page, see [`is_shell`], and no other page links
    /// to it.
    pub is_shell: bool,
}

impl HtmlPage<'_> {
    /// The name of the HTML file in the build.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// The decoded HTML, which is a copy unless the file is UTF-8. Drop it soon, to free its memory.
    pub fn html(&self) -> Cow<'_, str> {
        decode_html(&self.file.blob.bytes).0
    }
}

/// An HTML file that is not a page: a part of pages, a diagram that pages embed, or a proof of ownership of
/// the site for another service.
pub(super) struct Fragment<'a> {
    pub file: &'a BuildFile,
    /// The content security policy.
    pub policy: String,
}

/// Separates HTML files into pages, which get their paths, and fragments. `others` are the other files of the
/// build. The links on pages decide which pages keep the extension `.html` in their paths. Reports panics,
/// pages at the endpoints of forms, and a home page that is a generator's source.
pub(super) fn separate_fragments<'a>(
    html: &'a [BuildFile],
    others: &[BuildFile],
    build: &BuildOptions,
    options: &PagesOptions,
    spill: &PageSpill,
    faults: &mut Vec<Fault>,
) -> (Vec<HtmlPage<'a>>, Vec<Fragment<'a>>) {
    let names: HashSet<&str> = html.iter().map(|file| &*file.name).collect();
    let spellings = LinkSpellings::new(&names);
    let files: Vec<&BuildFile> = html.iter().collect();
    let read = in_parallel(&files, |file| {
        let file: &'a BuildFile = file;
        let (text, media_type) = decode_html(&file.blob.bytes);
        let is_page = is_page(&file.name, &text);
        if is_page {
            spellings.record_links(&text, &file.name, &build.mount, &options.base_url);
        }
        let policy = (!is_page).then(|| fragment_policy(&file.name, &text));
        spill.note_read(file.blob.bytes.len());
        (media_type, policy)
    });
    let is_shell = |name: &str| is_shell(name) && !spellings.is_linked(name);
    let shells: HashSet<&str> = names.iter().copied().filter(|name| is_shell(name)).collect();
    let keeping = spellings.into_keeping(&others.iter().map(|file| &*file.name).collect());
    let (mut pages, mut fragments) = (Vec::new(), Vec::new());
    for (file, (media_type, policy)) in html.iter().zip(read) {
        if let Some((policy, panic)) = policy {
            let consequence = "its inline scripts and styles do not apply";
            faults.extend(panic.map(|panic| Fault::defect(&file.name, &panic, consequence)));
            fragments.push(Fragment { file, policy });
        } else {
            let path = page_path(&build.mount, &file.name, &names, keeping.contains(&*file.name));
            let url = format!("{}{}", options.base_url, encode(&path));
            let is_shell = shells.contains(&*file.name);
            pages.push(HtmlPage { file, media_type, path, url, is_shell });
        }
    }
    report_endpoints(&pages, &options.form_set, faults);
    let sources = pages.iter().filter(|page| {
        let html = &page.file.blob.bytes;
        page.path == build.mount && (html.starts_with(b"---\n") || html.starts_with(b"---\r\n"))
    });
    faults.extend(sources.map(|page| {
        let message = "begins with front matter: it is a source, not a page that a generator has built";
        let hint = "build the site, and name the folder with the output, such as `_site`, in `site.prebuilt`";
        Fault::warning(page.name(), None, message).hint(hint)
    }));
    (pages, fragments)
}

/// Warns about pages that cannot be reached, because a form has its endpoint at the same path.
fn report_endpoints(pages: &[HtmlPage<'_>], forms: &FormSet, faults: &mut Vec<Fault>) {
    for page in pages {
        let Some(form) = forms.iter().find(|form| form.path == page.path) else { continue };
        let (path, name) = (form.path, form.name);
        let message = format!("the page cannot be reached: `{path}` is the endpoint of the form `{name}`");
        let hint = format!("rename the page, or write `enabled = false` below `[forms.{name}]`");
        faults.push(Fault::warning(page.name(), None, message).hint(hint));
    }
}

/// The policy of a fragment. If the parser panics, also returns the panic; the inline code is unknown then,
/// and the policy permits none.
fn fragment_policy(name: &str, html: &str) -> (String, Option<Panic>) {
    let code = panics::catch(Part::Content, || {
        panics::inject("fragment", name);
        Embedded::of_html(html)
    });
    let policy = content_security_policy(code.as_ref().unwrap_or(&Embedded::default()));
    (policy, code.err())
}

/// Whether an HTML file is a page of its own: its name is `index.html`, `index.htm` or `404.html`, or it has
/// a title that is not empty, redirects, or is a complete document with a first-level heading. Doxygen writes
/// documents with neither title nor heading for the results of its search.
fn is_page(name: &str, html: &str) -> bool {
    let find = |names: [&str; 2]| names.iter().filter_map(|name| html.find(name)).min();
    let has_title = || {
        let Some(start) = find(["<title", "<TITLE"]).or_else(|| html.find("<Title")) else { return false };
        let text = html[start..].split_once('>').map_or("", |(_, text)| text);
        !text.split('<').next().unwrap_or_default().trim().is_empty()
    };
    let redirects = || {
        attributes(html).any(|(attribute, value)| {
            attribute.eq_ignore_ascii_case("http-equiv") && html[value].trim().eq_ignore_ascii_case("refresh")
        })
    };
    matches!(name.rsplit('/').next(), Some("index.html" | "index.htm" | "404.html"))
        || has_title()
        || !is_fragment(html) && find(["<h1", "<H1"]).is_some()
        || redirects()
}
