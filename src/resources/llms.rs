//! `/llms.txt`: a guide to the site for language models (llmstxt.org), and `/llms-full.txt`: all of it in one file.

use super::{Options, list_item};
use crate::pages::{Site, Summary};

/// A heading, a summary as a quotation, and lists of links to the Markdown of each page.
pub(super) fn guide(pages: &[Summary], options: &Options) -> String {
    let base = &options.base_url;
    let mut text = format!("# {}\n\n> {}\n\n", options.title, options.description);
    text.push_str(&format!(
        "Every page is available as Markdown: at its own address with `Accept: text/markdown`, or at the address with `.md`, as linked here. \
         The two forms (waitlist and contact) are described in [agents.md]({base}/agents.md) and, for programs, at {base}/openapi.json. \
         Obtain the user's explicit confirmation of the content before you submit either form.\n",
    ));
    let section = |title: &str, wanted: &dyn Fn(&Summary) -> bool| {
        let items: String =
            pages.iter().filter(|page| wanted(page)).map(|page| list_item(base, &page.twin, page)).collect();
        if items.is_empty() { String::new() } else { format!("\n## {title}\n\n{items}") }
    };
    text.push_str(&section("Pages", &|page| !page.is_post && !page.is_generated));
    text.push_str(&section("Posts", &|page| page.is_post));
    text.push_str(&format!(
        "\n## Optional\n\n- [Agent guide]({base}/agents.md): how to read this site and send its forms\n- [Sitemap]({base}/sitemap.md): every page with the date of its last change\n"
    ));
    text
}

/// Every page's Markdown, one after the other.
pub(super) fn full(site: &Site, options: &Options) -> String {
    let pages = site.pages().iter().filter(|page| !page.is_generated);
    let bodies: Vec<&[u8]> =
        pages.filter_map(|page| Some(&site.markdown(&page.path)?.identity().bytes[..])).collect();
    let mut text = format!("# {}\n\n> {}\n", options.title, options.description);
    text.reserve(bodies.iter().map(|body| body.len() + 2).sum());
    for body in bodies {
        text.push_str("\n\n");
        // Which it is; the search for what is not takes its time.
        match std::str::from_utf8(body) {
            Ok(body) => text.push_str(body),
            Err(_) => text.push_str(&String::from_utf8_lossy(body)),
        }
    }
    text
}
