//! Finds the header of a page that stands before its main region: the heading with the subtitle, the date and
//! the introduction beside it.

use super::dom::{Dom, NodeId, Tag};
use super::inline_spacing::shown_text;
use super::text_measure::{Measures, measure_elements};
use super::titles::Titles;
use std::collections::HashSet;

/// The elements of the header of the page around `heading`, in document order. They are outside of the main
/// region `root`, which follows the heading.
///
/// These are the outermost element around the heading that neither contains the region nor has a part of a
/// header of the site ([`Header::is_site_part`]), and what follows this element up to the end of its parent
/// without such parts. If the parent contains the region, only what is between the heading itself and the
/// region, without blocks of links. In navigation, which is no content, only the heading itself and what
/// follows it up to the end of its parent, without what belongs to the site ([`Header::is_of_site`]).
pub(super) fn find_page_header(dom: &Dom, titles: &Titles, root: NodeId, heading: NodeId) -> Vec<NodeId> {
    let body = dom.body();
    let around: HashSet<NodeId> = dom.ancestors(root).collect();
    let header = Header { dom, titles, measures: measure_elements(dom, body) };
    let is_navigation = |id| dom.tag(id) == Tag::Nav || dom.attribute(id, "role") == Some("navigation");
    if dom.ancestors(heading).take_while(|id| !around.contains(id)).any(is_navigation) {
        let is_own = |&id: &NodeId| dom.letters(id) > 0 && !header.is_of_site(id);
        return std::iter::once(heading).chain(dom.nodes_after(heading).filter(is_own)).collect();
    }
    let mut block = heading;
    while let Some(parent) = dom.parent(block) {
        let after = || dom.nodes_after(block);
        if around.contains(&parent) {
            let between = after().filter(|_| block == heading).take_while(|id| !around.contains(id));
            let shown = between.filter(|&id| !header.is_site_part(id) && !header.is_linked(id));
            return std::iter::once(block).chain(shown).collect();
        }
        let is_chrome = |id| header.is_site_part(id);
        if dom.nodes_before(block).any(|id| header.is_of_site(id)) || after().any(is_chrome) {
            return std::iter::once(block).chain(after().filter(|&id| !is_chrome(id))).collect();
        }
        block = parent;
    }
    vec![heading]
}

struct Header<'d> {
    dom: &'d Dom,
    titles: &'d Titles,
    measures: Measures,
}

impl Header<'_> {
    /// Whether at least half of the text of an element is in links.
    fn is_linked(&self, id: NodeId) -> bool {
        let measure = self.measures[id];
        measure.linked > 0 && measure.linked * 2 >= measure.text
    }

    /// Whether what is before a heading, or beside it in navigation, belongs to the site, not to the page:
    /// parts of a header of the site, blocks of links such as the trail to the page, buttons such as that of
    /// a menu, and the name of the site.
    fn is_of_site(&self, id: NodeId) -> bool {
        let is_button = |d| self.dom.tag(d) == Tag::Button;
        let is_name = || self.titles.is_site_name(&shown_text(self.dom, id));
        self.is_site_part(id)
            || self.is_linked(id)
            || self.dom.subtree(id).any(is_button)
            || !self.dom.is_blank(id) && is_name()
    }

    /// Whether an element has navigation, a form, another first-level heading, what stands beside content, a
    /// link to the home page, the current page or another language, or a list with links for more than tags.
    fn is_site_part(&self, root: NodeId) -> bool {
        let dom = self.dom;
        dom.subtree(root).any(|id| match dom.tag(id) {
            Tag::Nav | Tag::Form | Tag::Search | Tag::H1 | Tag::Aside | Tag::Footer | Tag::Dialog => true,
            Tag::A => leads_around_site(dom, id),
            Tag::Ul | Tag::Ol => self.is_linked(id) && is_menu(dom, id),
            _ => dom.attribute(id, "role").is_some_and(|role| ROLES.contains(&role)),
        })
    }
}

/// The roles of elements that are not part of a page's content.
const ROLES: [&str; 5] = ["navigation", "search", "complementary", "contentinfo", "dialog"];

/// Whether a link leads to the home page, a parent page, the page itself or a translation of the page.
fn leads_around_site(dom: &Dom, link: NodeId) -> bool {
    let path = dom.attribute(link, "href").unwrap_or_default().split(['#', '?']).next().unwrap_or_default();
    let folder = path.strip_suffix("index.html").unwrap_or(path);
    !path.is_empty() && folder.split('/').all(|part| matches!(part, "" | "." | ".."))
        || dom.attribute(link, "rel") == Some("home")
        || ["aria-current", "hreflang"].iter().any(|name| dom.has_attribute(link, name))
}

/// Whether a list of links has more than [`MAX_BUTTONS`] links, and neither it nor a link in it is named for
/// tags or categories.
fn is_menu(dom: &Dom, list: NodeId) -> bool {
    let links: Vec<NodeId> = dom.descendants(list).filter(|&id| dom.tag(id) == Tag::A).collect();
    let is_tag = |id| {
        let mut names = dom.classes(id).chain(dom.attribute(id, "rel"));
        names.any(|name| name.contains("tag") || name.contains("categor"))
    };
    links.len() > MAX_BUTTONS && !std::iter::once(list).chain(links).any(is_tag)
}

/// Maximum number of links in a list that may be the buttons below an introduction.
const MAX_BUTTONS: usize = 3;

#[cfg(test)]
mod tests {
    use super::super::{Options, convert, parse_url};

    fn converted(title: &str, html: &str, path: &str) -> String {
        let page =
            format!("<!doctype html><html><head><title>{title}</title></head><body>{html}</body></html>");
        let url = parse_url(&format!("https://oak.example/{path}")).ok();
        convert(&page, &Options { url, ..Options::default() }).markdown
    }

    const MENU: &str = "<nav><a href=/>Oak</a><ul><li><a href=/a>About</a></ul></nav>";

    #[test]
    fn the_header_of_a_page_before_its_content_stays() {
        for (html, expected) in [
            (
                "<section><h1>Ropes</h1><p>14 June, Old harbour</section><main>a</main>",
                "14 June, Old harbour\n\na",
            ),
            (
                "<header><div><div><h1>Ropes</h1><h2>A history</h2><b>By <a href=/ann>Ann</a></b></div></div></header><main>a</main>",
                "## A history\n\n**By [Ann](https://oak.example/ann)**\n\na",
            ),
            ("<div><p>News</p><h1>Ropes</h1></div><main>a</main>", "a"),
            (
                "<div><div><h1>Ropes</h1><p>Replace them.<p><a href=/order>Order</a></div></div><div role=main><article>a</article></div>",
                "Replace them.\n\n[Order](https://oak.example/order)\n\na",
            ),
            (
                "<header><div><h1>Ropes</h1></div><div><p>Ann</div><div><h4>Abstract</h4><p>b</div></header><div><main>a</main></div>",
                "Ann\n\n#### Abstract\n\nb\n\na",
            ),
            // The trail to the page precedes the heading, and tags follow it.
            (
                "<div><div><nav><a href=/>Home</a></nav><h1>Ropes</h1><p>1 May</p><ul class=tags><li><a href=/t>t</a></ul></div><article><p>A long sentence about ropes.</article></div>",
                "1 May\n\n- [t](https://oak.example/t)\n\nA long sentence about ropes.",
            ),
            ("<h1>Ropes</h1><p>Lead.</p><div><a href=/x>x</a></div><main>a</main>", "Lead.\n\na"),
            ("<div><h1>Ropes</h1><p>Lead.</p></div><div>no</div><main>a</main>", "Lead.\n\na"),
        ] {
            let expected = if html.contains("News") {
                format!("News\n\n# Ropes\n\n{expected}\n")
            } else {
                format!("# Ropes\n\n{expected}\n")
            };
            assert_eq!(converted("Ropes | Oak", &format!("{MENU}{html}"), "ropes"), expected, "{html}");
        }
    }

    #[test]
    fn the_header_of_a_site_does_not_come_with_the_heading() {
        for html in [
            format!("<header>{MENU}<h1>Ropes</h1>{MENU}</header>"),
            format!("<header><div>Call us on weekdays.</div><div>{MENU}<h1>Ropes</h1></div></header>"),
            "<header><p>Call us on weekdays.</p><a href=../index.html>Home</a><h1>Ropes</h1></header>".to_owned(),
            "<header><p>no</p><button>Menu</button><h1>Ropes</h1></header>".to_owned(),
            "<header><p>no</p><b>Oak</b><h1>Ropes</h1></header>".to_owned(),
            "<header><h1>Ropes</h1><form><p>Search for words.</form></header>".to_owned(),
            "<div><h1>Ropes</h1><ul><li><a href=/a>A</a><li><a href=/b>B</a><li><a href=/c>C</a><li><a href=/d>D</a></ul></div>".to_owned(),
            "<div><h1>Ropes</h1><ul><li><a href=/de hreflang=de>Deutsch</a></ul></div>".to_owned(),
            "<h1>Ropes</h1><aside>no</aside><div role=navigation>no</div>".to_owned(),
        ] {
            let page = format!("<a rel=home href=/>Oak</a>{html}<main>a</main>");
            assert_eq!(converted("Ropes | Oak", &page, "ropes"), "# Ropes\n\na\n", "{html}");
        }
    }

    #[test]
    fn a_heading_in_navigation_comes_without_the_navigation() {
        for (html, expected) in [
            ("<nav><h1>Lift boats</h1><a href=/prices>Prices</a> | <a href=/a>A</a></nav>", ""),
            ("<div role=navigation><div><h1>Lift boats</h1><button>Menu</button></div></div>", ""),
            (
                "<nav><div><h1>Lift boats</h1><p>Without tears.</div><ul><li><a href=/a>A</a></ul></nav>",
                "Without tears.\n\n",
            ),
            ("<header><nav><h1>Lift boats</h1><a href=/a>A</a></nav></header>", ""),
        ] {
            let page = format!("{html}<main><p>a</main>");
            assert_eq!(
                converted("Oak cranes", &page, ""),
                format!("# Lift boats\n\n{expected}a\n"),
                "{html}"
            );
        }
    }

    #[test]
    fn only_a_heading_with_the_title_brings_its_header() {
        let page = |main: &str| {
            format!(
                "<header role=banner><h1>Oak</h1><h2>Cranes for all</h2><a href=https://c.example>Code</a></header><main>{main}</main>"
            )
        };
        let own = "<h1>Ropes</h1><p>a";
        assert_eq!(converted("Ropes | Oak", &page(own), "ropes"), "# Ropes\n\na\n");
        assert_eq!(converted("Ropes | Oak", &page("<h2>Ropes</h2><p>a"), "ropes"), "# Ropes\n\na\n");
        assert_eq!(
            converted("Ropes | Oak", &page("<h2>Knots</h2><p>a"), "ropes"),
            "# Oak\n\n## Knots\n\na\n"
        );
        let meta = "Oak | Ropes</title><meta property=og:title content=Ropes><title>";
        assert_eq!(converted(meta, &page("<p>a"), "ropes"), "# Oak\n\na\n");
        for (title, is_own) in [
            ("Ropes 2025 | Oak", true),
            ("Oak » Docs » Ropes", true),
            ("ROPES", true),
            ("Knots » Ropes", false),
            ("Ropeswing", false),
        ] {
            let html = format!("{MENU}<div><h1>Ropes</h1><p>Lead.</div><main>a</main>");
            let expected = if is_own { "# Ropes\n\nLead.\n\na\n" } else { "# Ropes\n\na\n" };
            assert_eq!(converted(title, &html, "ropes"), expected, "{title}");
        }
        // The start page declares only the name of the site.
        let start = "<div><h1>Lift boats</h1><p>Without tears.</div><main>a</main>";
        assert_eq!(converted("Oak", start, ""), "# Lift boats\n\nWithout tears.\n\na\n");
        assert_eq!(converted("Oak", start, "ropes"), "# Lift boats\n\na\n");
    }

    #[test]
    fn nothing_is_added_to_a_region_that_a_page_marks_for_search() {
        let page = "<div><h1>Ropes</h1><p>no</div><main data-pagefind-body>a</main>";
        assert_eq!(converted("Ropes", page, "ropes"), "# Ropes\n\na\n");
    }
}
