//! Decides whether a page without a main region has content outside of the only element that looks like one.

use super::dom::{Dom, NodeId, Tag};
use super::text_measure::measure_elements;
use std::collections::HashSet;

/// Whether `region` is only a part of the content below `body`: outside of it is text of at least a tenth of
/// its size, with a table or with a heading and a sentence, or sentences longer than the whole region. Links,
/// buttons, first-level headings and what usually surrounds content ([`is_surrounding`]) do not count.
pub(super) fn has_other_content(dom: &Dom, body: NodeId, region: NodeId) -> bool {
    let measures = measure_elements(dom, body);
    let around: HashSet<NodeId> = dom.ancestors(region).skip(1).collect();
    let is_left_out = |id| {
        id == region
            || !around.contains(&id)
                && (matches!(dom.tag(id), Tag::A | Tag::Button | Tag::H1) || is_surrounding(dom, id))
    };
    let (mut text, mut prose, mut has_heading, mut has_table) = (0, 0, false, false);
    for id in dom.walk(body, |id| is_left_out(id) || dom.tag(id) == Tag::P) {
        if is_left_out(id) {
            continue;
        }
        if matches!(dom.tag(id), Tag::P | Tag::Text) {
            text += measures[id].text - measures[id].linked;
            prose += measures[id].prose;
        } else if dom.is_heading(id) {
            has_heading |= !dom.is_blank(id);
        } else {
            has_table |= dom.tag(id) == Tag::Table && !around.contains(&id);
        }
    }
    let size = measures[region].text;
    let is_part = has_table || has_heading && prose > 0;
    is_part && text > 0 && text * 10 >= size || prose > size
}

/// Whether an element usually surrounds content: a header or a footer (outside of articles and sections),
/// navigation, a form, a dialog, an alert, an element beside the content, or one with a class or an id for
/// these, for comments or for recommendations.
fn is_surrounding(dom: &Dom, id: NodeId) -> bool {
    use Tag::{Aside, Dialog, Footer, Form, Header, Nav, Search};
    const ROLES: [&str; 9] = [
        "alert",
        "alertdialog",
        "banner",
        "complementary",
        "contentinfo",
        "dialog",
        "navigation",
        "search",
        "status",
    ];
    let is_nested = || dom.is_in(id, &[Tag::Article, Tag::Section]);
    // Any part of a page may have a class that only contains the word, such as `elementor-widget`. SiteOrigin
    // builds a page from widgets in panels.
    let is_widget = |class: &str| matches!(class.split(['-', '_']).next(), Some("widget" | "widgets"));
    let is_list = |class: &str| LISTS_AROUND_CONTENT.iter().any(|list| class.contains(list));
    matches!(dom.tag(id), Aside | Dialog | Form | Nav | Search)
        || matches!(dom.tag(id), Header | Footer) && !is_nested()
        || dom.attribute(id, "role").is_some_and(|role| ROLES.contains(&role))
        || has_word_in_name(dom, id, AROUND_CONTENT)
        || dom.classes(id).any(is_widget) && !dom.has_class(id, "so-panel")
        || dom.classes(id).any(is_list)
}

/// Whether a class or the id of an element has one of `words` or its plural. Hyphens and underscores divide
/// names into words.
pub(super) fn has_word_in_name(dom: &Dom, id: NodeId, words: &[&str]) -> bool {
    let mut parts = dom.classes(id).chain(dom.attribute(id, "id")).flat_map(|name| name.split(['-', '_']));
    parts.any(|part| words.contains(&part.strip_suffix('s').unwrap_or(part)))
}

/// Words in the classes and ids of elements around content.
#[rustfmt::skip]
const AROUND_CONTENT: &[&str] = &[
    "author", "breadcrumb", "comment", "consent", "cookie", "cookieconsent", "disqu", "footer", "gdpr", "modal", "navigation",
    "newsletter", "pagination", "popup", "related", "respond", "share", "sharedaddy", "sharing", "sidebar", "subscribe", "toc",
];

/// Parts of the classes of lists around content. A single word of them does not count, because content uses
/// it, too, as in `social-proof` and `recent-work`.
const LISTS_AROUND_CONTENT: [&str; 6] =
    ["recent-post", "recent-comment", "social-icon", "social-link", "social-media", "social-share"];

#[cfg(test)]
mod tests {
    use super::super::{Options, convert};

    fn body(html: &str) -> String {
        let page = format!("<!doctype html><html><head><meta charset=utf-8></head><body>{html}");
        convert(&page, &Options::default()).markdown
    }

    const SENTENCE: &str = "We lift boats of up to nine tonnes out of the water and store them until spring.";

    #[test]
    fn one_post_on_a_start_page_is_not_the_page() {
        let post = "<article class='post hentry'><h3>New crane</h3><div class=entry-content><p>It lifts 9 t.</div></article>";
        let html = format!(
            "<header><a href=/>Oak</a></header><section><h1>Lift</h1><p>{SENTENCE}</section>\
             <section><h2>Services</h2><p>{SENTENCE}</section><section><h2>News</h2>{post}</section><footer>x</footer>"
        );
        let expected = format!(
            "# Lift\n\n{SENTENCE}\n\n## Services\n\n{SENTENCE}\n\n## News\n\n### New crane\n\nIt lifts 9 t.\n"
        );
        assert_eq!(body(&html), expected);
        let lead = format!(
            "<div><h1>Ropes</h1><p class=lead>{SENTENCE}</div><div><div itemprop=articleBody><p>Short.</div></div>"
        );
        assert_eq!(body(&lead), format!("# Ropes\n\n{SENTENCE}\n\nShort.\n"));
        for mark in ["itemprop=articleBody", "class='post entry-content'"] {
            let footer = "<div><footer>Prices include VAT.</footer></div></div></div><footer>no</footer>";
            let html = lead.replace("itemprop=articleBody", mark).replace("</div></div>", footer);
            let expected = format!("# Ropes\n\n{SENTENCE}\n\nShort.\n\nPrices include VAT.\n");
            assert_eq!(body(&html), expected, "{mark}");
        }
    }

    #[test]
    fn sections_beside_a_lone_article_stay() {
        let article = format!("<article><h1>a</h1><p>{SENTENCE}<p>{SENTENCE}</article>");
        let prices = "<section><h2>Prices</h2><table><tr><th>Crane<th>Price<tr><td>9 t<td>$90</table><p>Call +49 30 1.</section>";
        let markdown = body(&format!("{article}{prices}<footer>x</footer>"));
        assert!(markdown.ends_with("| 9 t | $90 |\n\nCall +49 30 1.\n"), "{markdown}");
    }

    #[test]
    fn sections_of_page_builders_are_content() {
        let article = format!("<article><p>{SENTENCE}<p>{SENTENCE}</article>");
        for class in
            ["elementor-widget", "so-panel widget widget_editor", "social-proof", "tocantins", "recent-work"]
        {
            let html =
                format!("<h1>Oak</h1><div class='{class}'><h2>Prices</h2><p>{SENTENCE}</div>{article}");
            let markdown = body(&html);
            assert!(markdown.contains("## Prices\n\nWe lift"), "{class}: {markdown}");
        }
    }

    #[test]
    fn the_tab_of_a_product_is_not_the_page() {
        let html = format!(
            "<div><h1>Pump</h1><p>$18</p><ul role=tablist><li role=tab aria-controls=d>About</ul>\
             <div class='panel entry-content' id=d role=tabpanel><h2>About</h2><p>{SENTENCE}</div></div>"
        );
        assert!(body(&html).starts_with("# Pump\n\n$18\n\n"), "{}", body(&html));
    }

    #[test]
    fn what_surrounds_an_entry_is_no_other_content() {
        let long = format!("<p>{SENTENCE} {SENTENCE} {SENTENCE}").repeat(9);
        for around in [
            format!("<div id=comments><h3>2 comments</h3><p>{SENTENCE}</div>"),
            format!("<div class=widget-area><h3>About</h3><p>{SENTENCE}</div>"),
            format!("<div role=dialog><h2>Cookies</h2><p>{SENTENCE}</div>"),
            format!("<aside><h2>More</h2><p>{SENTENCE}</aside>"),
            format!("<div><h2>News by mail</h2><p>{SENTENCE}</div>"),
            "<div><h3>Menu</h3><ul><li><a href=/a>A long name of a page about boats and cranes</a></ul></div>".to_owned(),
        ] {
            for post in ["<div class=entry-content>", "<article>", "<div class=hentry><div class=entry-content>"] {
                let html = format!("<h1>t</h1>{post}{long}</div></div></article>{around}");
                let markdown = body(&html);
                assert_eq!(markdown.matches("We lift").count(), 27, "{post} {around}");
                assert!(!markdown.contains("A long name"), "{post} {around}: {markdown}");
            }
        }
    }
}
