//! Extracts the main content from a page of another site. Guesses what belongs to it, and so may lose
//! parts of the page. Pages of the operator's own site are read by [`super::main_content`].

use std::cmp::Reverse;
use std::collections::HashMap;

use super::clean;
use super::dom::{DOCUMENT, Dom, NodeId, Tag, clip};
use super::main_content::move_heading_into;
use super::metadata::read_structured_data;
use super::omission_reason::Rule;
use super::parse::parse;
use super::text_measure::{Measures, measure_elements};

/// Properties of a page's content, which the page declares with the schema.org vocabulary.
#[derive(Default)]
pub(super) struct Declared {
    /// Whether the page is a forum thread, or a question with answers.
    is_discussion: bool,
    /// The longest description of a product, as plain text; empty if there is none.
    description: String,
}

impl Declared {
    /// Reads the JSON-LD, and the types in microdata. Call this before scripts are removed from the tree.
    pub(super) fn read(dom: &Dom) -> Self {
        let mut declared = Self::default();
        for item in read_structured_data(dom) {
            let kind = &item["@type"];
            let has_kind =
                |name: &str| kind == name || kind.as_array().is_some_and(|k| k.iter().any(|k| k == name));
            declared.is_discussion |= DISCUSSIONS.into_iter().any(has_kind);
            if let Some(text) = item["description"].as_str().filter(|_| has_kind("Product")) {
                // Descriptions may contain HTML.
                let text = parse(text).text_content(DOCUMENT);
                if text.len() > declared.description.len() {
                    declared.description = text;
                }
            }
        }
        declared.is_discussion |= dom.descendants(DOCUMENT).any(|id| {
            let kind = dom.attribute(id, "itemtype").and_then(|kind| kind.rsplit('/').next());
            kind.is_some_and(|kind| DISCUSSIONS.contains(&kind))
        });
        declared
    }
}

/// The schema.org types of pages on which replies are content.
const DISCUSSIONS: [&str; 2] = ["DiscussionForumPosting", "QAPage"];

/// Removes hidden elements, navigation, lists of links, repeated labels and other boilerplate; boilerplate
/// with most of the text stays, except `<footer>` and `<nav>`. Returns the element with the declared
/// description of a product, even if it was removed as boilerplate, unless the description is only a summary
/// or not on the page; or else the element that contains the content. Moves a preceding first-level heading
/// into it if it has none.
pub(super) fn isolate_content(dom: &mut Dom, declared: &Declared) -> NodeId {
    let body = dom.body();
    clean::remove_hidden(dom, body, true);
    let description = find_text(dom, body, &declared.description);
    let measures = measure_elements(dom, body);
    dom.omit_each(body, |dom, id| {
        let is_most = !matches!(dom.tag(id), Tag::Footer | Tag::Nav)
            && measures[id].weight() * 2 > measures[body].weight();
        (!is_most && is_boilerplate(dom, id, declared.is_discussion)).then_some(Rule::Article)
    });
    let measures = measure_elements(dom, body);
    let root = choose_content_root(dom, body, &measures, declared.is_discussion);
    remove_link_lists(dom, root, &measures);
    remove_repeated_labels(dom, root, &measures);
    let is_content = |&id: &NodeId| dom.letters(id) * MAX_SURROUNDINGS >= dom.letters(root);
    let root = description.filter(is_content).unwrap_or(root);
    move_heading_into(dom, body, root);
    root
}

/// A product's description is the content, because the element that would be chosen without it also contains
/// offers, reviews and other products. If that element has more than this many times the letters, the
/// description is only a summary, and the element is chosen.
const MAX_SURROUNDINGS: usize = 10;

/// Finds the innermost element that contains the first occurrence of `text` below `root`. Compares only
/// letters and digits, so `text` may cross elements. `None` if `text` has none of these or does not occur.
fn find_text(dom: &Dom, root: NodeId, text: &str) -> Option<NodeId> {
    let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let text = Some(letters(text)).filter(|text| !text.is_empty())?;
    let mut page = String::new();
    let mut starts = Vec::new();
    for id in dom.descendants(root) {
        if let Some(text) = dom.text(id) {
            starts.push((page.len(), id));
            page.push_str(&letters(text));
        }
    }
    let start = page.find(&text)?;
    let node_at = |at: usize| starts[starts.partition_point(|&(start, _)| start <= at) - 1].1;
    let around: Vec<NodeId> = dom.ancestors(node_at(start + text.len() - 1)).collect();
    dom.ancestors(node_at(start)).skip(1).find(|id| around.contains(id))
}

/// Chooses the element that contains the content. Narrows the body to the largest `<main>` or element with
/// that role, then to the largest `<article>` or `articleBody` unless it is one of many, if these have at
/// least 30 % of the text, with prose counted four times, and then as long as the largest child is a
/// container such as `<div>` and has 85 % of it. In a discussion, only narrows the body to `<main>`, because
/// one post may have most of the text.
fn choose_content_root(dom: &Dom, body: NodeId, measures: &Measures, is_discussion: bool) -> NodeId {
    let weight = |id: NodeId| measures[id].weight();
    let narrow = |root: NodeId, is_match: &dyn Fn(NodeId) -> bool| {
        let matches = dom.descendants(root).filter(|&id| is_match(id));
        let largest = matches.max_by_key(|&id| (weight(id), Reverse(id)));
        largest.filter(|&id| weight(id) * 10 >= weight(root) * 3).unwrap_or(root)
    };
    let main = narrow(body, &|id| dom.tag(id) == Tag::Main || dom.attribute(id, "role") == Some("main"));
    if is_discussion {
        return main;
    }
    let is_article = |id| dom.tag(id) == Tag::Article || dom.attribute(id, "itemprop") == Some("articleBody");
    let article = narrow(main, &is_article);
    let mut root = if is_one_of_many(dom, article, measures) { main } else { article };
    let is_container = |id| {
        use Tag::{Article, Center, Div, Form, Main, Section};
        matches!(dom.tag(id), Article | Center | Div | Form | Main | Section)
    };
    while let Some(child) = dom.child_elements(root).max_by_key(|&id| weight(id))
        && weight(child) * 100 >= weight(root) * 85
        && is_container(child)
    {
        root = child;
    }
    root
}

/// Whether at least four children of the element's parent have prose, and the tag and the first class of the
/// element, as the posts of a thread have.
fn is_one_of_many(dom: &Dom, id: NodeId, measures: &Measures) -> bool {
    let kind = |id: NodeId| (dom.tag(id), dom.classes(id).next());
    let siblings = dom.parent(id).into_iter().flat_map(|parent| dom.child_elements(parent));
    siblings.filter(|&other| kind(other) == kind(id) && measures[other].prose > 0).nth(3).is_some()
}

/// Removes `<ul>`, `<ol>`, `<div>`, `<section>`, `<table>` and `<aside>` elements that have no prose, at
/// least three links with more than three quarters of their text, and less than a quarter of the main
/// content's text. Does nothing if together they have half of that text or more, or if the main content has
/// at most 500 bytes of prose.
fn remove_link_lists(dom: &mut Dom, root: NodeId, measures: &Measures) {
    let whole = measures[root];
    if whole.prose <= 500 {
        return;
    }
    let lists = dom.outermost(root, |id| {
        let own = measures[id];
        matches!(dom.tag(id), Tag::Ul | Tag::Ol | Tag::Div | Tag::Section | Tag::Table | Tag::Aside)
            && own.linked * 4 > own.text * 3
            && own.prose == 0
            && own.text * 4 < whole.text
            && dom.descendants(id).filter(|&d| dom.tag(d) == Tag::A).count() > 2
    });
    if lists.iter().map(|&id| measures[id].text).sum::<usize>() * 2 < whole.text {
        for id in lists {
            dom.omit(id, Rule::Article);
        }
    }
}

/// Removes all links and buttons of at most 40 bytes that are not part of a sentence, if at least three of
/// them have the same label, such as "Add to cart".
fn remove_repeated_labels(dom: &mut Dom, root: NodeId, measures: &Measures) {
    let labels = dom.outermost(root, |id| {
        let own = measures[id].text;
        let is_alone = |parent| measures[parent].text <= measures[parent].linked.max(own);
        matches!(dom.tag(id), Tag::A | Tag::Button)
            && (1..=40).contains(&own)
            && dom.parent(id).is_some_and(is_alone)
    });
    let mut places: HashMap<String, Vec<NodeId>> = HashMap::new();
    for id in labels {
        places.entry(dom.collapsed_text(id)).or_default().push(id);
    }
    for id in places.into_values().filter(|ids| ids.len() >= 3).flatten() {
        dom.omit(id, Rule::Article);
    }
}

/// Whether an element is probably not part of the content, judging by its tag, its role, the property
/// `author`, or the words in its id and classes. Those words do not count in paragraphs and code, and
/// "comments" not in a discussion. Headings, the `<footer>` of a quotation or figure, and elements such as
/// `<main>`, `<article>` and `<p>` always belong to the content.
fn is_boilerplate(dom: &Dom, id: NodeId, is_discussion: bool) -> bool {
    match dom.tag(id) {
        Tag::Nav | Tag::Search | Tag::Dialog | Tag::Aside => return true,
        Tag::Footer => return !dom.is_in(id, &[Tag::Blockquote, Tag::Figure]),
        Tag::Body | Tag::Main | Tag::Article | Tag::Html | Tag::Pre | Tag::Code | Tag::P => return false,
        _ if dom.is_heading(id) => return false,
        _ => {}
    }
    let role = dom.attribute(id, "role").unwrap_or_default();
    if matches!(role, "navigation" | "search" | "banner" | "contentinfo" | "complementary" | "dialog")
        || dom.attribute(id, "itemprop") == Some("author")
    {
        return true;
    }
    let names = ["id", "class"].into_iter().filter_map(|name| dom.attribute(id, name));
    names
        .flat_map(|names| split_identifier(clip(names, 400)))
        .any(|word| BOILERPLATE.contains(&&*word) && !(is_discussion && word == "comments"))
        && !dom.is_in(id, &[Tag::Pre, Tag::Code, Tag::P])
}

/// Words in ids and classes that mark an element as boilerplate.
#[rustfmt::skip]
const BOILERPLATE: [&str; 19] = [
    "breadcrumb", "breadcrumbs", "comments", "cookie", "cookies", "footer", "menu", "modal", "navigation",
    "newsletter", "pagination", "popup", "promo", "related", "share", "sidebar", "social", "subscribe",
    "toolbar",
];

/// Splits an identifier into lower-case words: at characters other than ASCII letters and digits, and before
/// capitals after lower-case letters. Some of the words may be empty.
fn split_identifier(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && was_lower {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::{Options, convert};

    const SENTENCE: &str = "A sentence that is long enough to be prose, like the others of its page.";

    /// The Markdown of the article of a page with this body.
    fn article(body: &str) -> String {
        let html = format!("<!doctype html><title>Title</title><body>{body}");
        convert(&html, &Options { article: true, ..Options::default() }).markdown
    }

    #[test]
    fn what_is_probably_not_part_of_an_article_is_left_out() {
        let text = format!("<p>{}</p>", SENTENCE.repeat(9));
        let links = "<a href=/a>A</a> <a href=/b>B</a> <a href=/c>C</a>";
        for left_out in [
            "<aside><p>no</p></aside>",
            "<div class=related><p>no</p></div>",
            "<div id=site-footer>no</div>",
            &format!("<footer>{}</footer>", text.repeat(9)),
            "<p><span itemprop=author>no</span></p>",
            &format!("<ul><li>{links}</ul>"),
        ] {
            let html = format!(
                "<div class=topMenu>no</div><main><article><h1>a</h1>{text}{left_out}</article></main>"
            );
            assert_eq!(article(&html), format!("# a\n\n{}\n", SENTENCE.repeat(9)), "{left_out}");
        }
        let kept = format!("<div><h1>a</h1><div class=menu>{text}</div></div>");
        assert!(article(&kept).contains(SENTENCE), "a name does not remove most of the text");
    }

    #[test]
    fn labels_that_repeat_are_left_out() {
        let items = |label: &str| {
            (1..4).map(|n| format!("<div><p>{SENTENCE}</p>{label} {n}</div>")).collect::<String>()
        };
        assert!(!article(&items("<div><a href=/x>Read</a></div>")).contains("Read"));
        assert!(article(&items("<div>See <a href=/x>Read</a></div>")).contains("See [Read](/x)"));
        assert!(article(&format!("<div><a href=/x>Read</a></div><p>{SENTENCE}")).contains("[Read](/x)"));
    }

    #[test]
    fn one_of_many_articles_is_not_the_content() {
        let (short, long) = (format!("<article>{SENTENCE}</article>"), SENTENCE.repeat(9));
        let long = format!("<article>{long}</article>");
        assert_eq!(article(&format!("<div>{long}</div><div>{short}</div>")).matches("A sentence").count(), 9);
        let posts = format!("<div>{long}{short}{short}{short}</div>");
        assert_eq!(article(&posts).matches("A sentence").count(), 12);
    }

    #[test]
    fn replies_are_content_of_a_discussion_only() {
        let page = |attributes: &str| {
            let text = SENTENCE.repeat(9);
            article(&format!(
                "<main {attributes}><article>{text}</article><section class=comments><p>reply</section></main>"
            ))
        };
        assert!(!page("").contains("reply"));
        assert!(page("itemscope itemtype=https://schema.org/DiscussionForumPosting").contains("reply"));
        let json = r#"<script type=application/ld+json>[{"@type":["QAPage"]}]</script>"#;
        assert!(page(&format!(">{json}<div")).contains("reply"));
    }

    #[test]
    fn the_declared_description_of_a_product_is_the_content() {
        let page = |description: &str, rest: &str| {
            article(&format!(
                "<script type=application/ld+json>{{\"@graph\":[{{\"@type\":\"Product\",\"description\":\"{description}\"}}]}}</script>\
                 <h1>a</h1><div>{rest}</div><div role=dialog><div><p>{SENTENCE}</p><ul><li>b<li>c</ul></div></div>"
            ))
        };
        let description = format!("<p>{SENTENCE}</p> b &amp; c");
        let reviews = |count| format!("<p>Reviews {}</p>", "Another sentence of the page. ".repeat(count));
        assert_eq!(page(&description, &reviews(10)), format!("# a\n\n{SENTENCE}\n\n- b\n- c\n"));
        // A summary, and a description that the page does not show.
        assert!(page(&description, &reviews(40)).contains("Reviews"));
        assert!(page("unseen", &reviews(10)).contains("Reviews"));
    }

    #[test]
    fn fallbacks_are_content_if_they_are_most_of_the_page() {
        let fallback = format!("<noscript><p>{SENTENCE}</p></noscript>");
        assert!(article(&format!("<div>Loading</div>{fallback}")).contains(SENTENCE));
        assert!(!article(&format!("<p>{}</p>{fallback}", "other ".repeat(50))).contains(SENTENCE));
    }
}
