//! Reads a page's metadata from Open Graph, JSON-LD and `<meta>`, and writes it as front matter.

use super::clean::{base_url, count_page_letters};
use super::dom::{DOCUMENT, Dom, NodeId, Tag, collapse};
use super::inline_spacing::shown_text;
use super::language_tag::language_tag;
use super::links;
use super::parse::parse;
use super::titles::{Titles, clip_value, site_key};
use serde_json::Value;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use url::{Position, Url};

/// The metadata that a page declares about itself. Addresses are escaped for Markdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub title: Option<String>,
    pub description: Option<String>,
    /// The canonical address of the page, or else the one in Open Graph.
    pub url: Option<String>,
    /// The address in `<link rel="canonical">`, if there is one.
    pub canonical: Option<String>,
    pub site: Option<String>,
    pub author: Option<String>,
    /// The publication date as the page states it, normally in RFC 3339 format.
    pub published: Option<String>,
    pub modified: Option<String>,
    /// A BCP 47 language tag.
    pub language: Option<String>,
    pub image: Option<String>,
    /// The first usable address to which the page redirects with `<meta>`. An address of the page itself,
    /// with any fragment, only reloads it and does not count.
    pub redirect: Option<String>,
    /// Whether the page asks search engines not to list it.
    pub forbids_index: bool,
    /// Whether the page forbids indexing, or redirects to another page with `<meta>`.
    pub is_unlisted: bool,
}

/// Reads the metadata of the page at `url` except its title. Prefers JSON-LD for the author and the dates,
/// the attribute `lang` for the language, the canonical link for the URL, and `<meta>` for other values. The
/// title depends on the headings of the main region, so the second value has the declared titles to choose
/// from.
///
/// `site_name` is the name of the site, if the caller knows it.
pub(super) fn read_metadata(dom: &Dom, url: Option<&Url>, site_name: Option<&str>) -> (Metadata, Titles) {
    let base = base_url(dom, url);
    let base = base.as_ref();
    let head = Head::read(dom, base);
    let data = read_articles(dom, head.title.as_deref());
    let first = |names: &[&str]| head.first_value(names);
    let site = first(&["og:site_name", "application-name"]).or(data.site);
    let names = site.as_deref().into_iter().chain(head.logos.iter().map(String::as_str)).chain(site_name);
    let site_names = names.map(site_key).collect();
    // A title in JSON-LD counts only if `<title>` contains it or is missing.
    let declared = [
        data.title.filter(|t| head.title.as_ref().is_none_or(|h| h.contains(t.as_str()))),
        first(&["og:title", "twitter:title", "dc.title"]),
        head.title.clone(),
    ];
    let titles = Titles { declared, site_names };
    let resolve = |link: String| links::resolve_link(base, &link);
    // A second `author` is often the name of the publishing system, so read only the first. Some pages list
    // several authors under the other names of `<meta>`.
    let limit = |name: &str| if matches!(name, "author" | "article:author") { 1 } else { usize::MAX };
    let author = || AUTHOR.iter().find_map(|name| join_names(head.values_of(name).take(limit(name))));
    let reloads = |to: &str| {
        let target = base.and_then(|base| base.join(to).ok());
        let without_fragment = |url: &Url| url[..Position::AfterQuery].to_owned();
        url.is_some_and(|url| target.as_ref().map(without_fragment) == Some(without_fragment(url)))
    };
    let redirect = head.redirects.iter().filter(|to| !reloads(to)).find_map(|to| resolve(to.clone()));
    let language = || LANGUAGE.iter().find_map(|name| head.values_of(name).find_map(language_tag));
    let metadata = Metadata {
        title: None,
        description: first(DESCRIPTION).or(data.description),
        url: head.canonical.clone().or_else(|| first(&["og:url"])).and_then(resolve),
        canonical: head.canonical.clone().and_then(resolve),
        author: data.author.or_else(author),
        published: data.published.or_else(|| first(PUBLISHED)),
        modified: data.modified.or_else(|| first(MODIFIED)),
        language: head.language.clone().or_else(language).or(data.language),
        image: first(&["og:image", "twitter:image"]).and_then(resolve),
        forbids_index: head.forbids_index(),
        is_unlisted: redirect.is_some() || head.forbids_index(),
        redirect,
        site,
    };
    (metadata, titles)
}

/// The names of `<meta>` values with the publication date, with the date of the last change, with an author,
/// with the description, and with the language.
#[rustfmt::skip]
const PUBLISHED: &[&str] = &[
    "article:published_time", "date", "dc.date", "citation_publication_date", "parsely-pub-date", "datepublished",
    "dcterms.issued", "dc.date.issued", "citation_date", "citation_online_date", "og:published_time",
    "og:article:published_time", "dcterms.date", "dcterms.created", "dc.date.created", "dcterms.available", "pubdate",
    "publish_date", "publish-date", "publishdate", "publication_date", "sailthru.date", "govuk:first-published-at",
    ITEM_PUBLISHED,
];
const MODIFIED: &[&str] = &[
    "article:modified_time",
    "og:updated_time",
    "last-modified",
    "datemodified",
    "dcterms.modified",
    "dc.date.modified",
    "govuk:public-updated-at",
    "revised",
    ITEM_MODIFIED,
];
const AUTHOR: [&str; 7] = [
    "author",
    "article:author",
    "dc.creator",
    "dcterms.creator",
    "citation_author",
    "parsely-author",
    "authors",
];
const DESCRIPTION: &[&str] = &[
    "description",
    "og:description",
    "twitter:description",
    "dcterms.description",
    "dc.description",
    "dcterms.abstract",
];
const LANGUAGE: &[&str] = &["content-language", "og:locale", "dc.language", "dcterms.language"];

impl Metadata {
    /// The metadata as YAML front matter, with `more` after the title, but without [`Self::canonical`],
    /// [`Self::forbids_index`] and [`Self::is_unlisted`]. Empty if there are no values.
    pub fn front_matter(&self, more: &[(&str, &str)]) -> String {
        let fields = [
            ("description", &self.description),
            ("url", &self.url),
            ("site", &self.site),
            ("author", &self.author),
            ("date", &self.published),
            ("last_updated", &self.modified),
            ("language", &self.language),
            ("image", &self.image),
        ];
        let title = self.title.as_deref().map(|title| ("title", title));
        let others = fields.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        let values = title.into_iter().chain(more.iter().copied()).chain(others);
        let lines: String = values.map(|(name, value)| format!("{name}: {}\n", yaml_scalar(value))).collect();
        if lines.is_empty() { lines } else { format!("---\n{lines}---\n\n") }
    }
}

/// Formats a YAML scalar: plain if that is unambiguous, otherwise as a JSON string, which is also valid YAML.
fn yaml_scalar(value: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_syntax = |c: char| ":#\"'\\[]{}`|>&*!%@,\u{2028}\u{2029}\u{feff}".contains(c) || c.is_control();
    let is_plain = value.starts_with(char::is_alphabetic)
        && !value.contains(is_syntax)
        && !value.ends_with(' ')
        && !WORDS.iter().any(|word| value.eq_ignore_ascii_case(word));
    if is_plain { value.to_owned() } else { Value::from(value).to_string().replace('\u{7f}', "\\u007F") }
}

/// The metadata in `<html>`, `<title>`, `<link>` and `<meta>`.
#[derive(Default)]
struct Head {
    title: Option<String>,
    canonical: Option<String>,
    language: Option<String>,
    /// The URLs in `<meta http-equiv="refresh">`.
    redirects: Vec<String>,
    /// The texts of the first links to the home page.
    logos: Vec<String>,
    values: Vec<(String, String)>,
}

/// The URL in the `content` of `<meta http-equiv="refresh">`, such as `0; url='/new/'` or `0; /new/`. `None`
/// if there is none, so that the page reloads itself, or no time before it, so that browsers ignore it.
fn refresh_target(content: &str) -> Option<&str> {
    let is_time = |c: char| c.is_ascii_digit() || c == '.';
    let after_time = Some(content.trim_start()).filter(|text| text.starts_with(is_time))?;
    let after_time = after_time.trim_start_matches(is_time);
    let rest = after_time.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | ','));
    let name = rest.get(..3).filter(|name| name.eq_ignore_ascii_case("url"));
    let named = name.and_then(|name| rest[name.len()..].trim_start().strip_prefix('='));
    let target = named.or_else(|| (rest.len() < after_time.len()).then_some(rest))?;
    Some(target.trim().trim_matches(['"', '\''])).filter(|target| !target.is_empty())
}

/// Whether a page has almost no text, and a script that leads elsewhere ([`sets_location`]). A page with text
/// may lead visitors without scripts to a simpler page, which is no redirect for others.
fn only_redirects(dom: &Dom) -> bool {
    const MAX_LETTERS: usize = 200;
    let leads_elsewhere = |id| dom.tag(id) == Tag::Script && sets_location(&dom.text_content(id));
    count_page_letters(dom, MAX_LETTERS) < MAX_LETTERS && dom.descendants(DOCUMENT).any(leads_elsewhere)
}

/// Whether a script opens another page: it assigns to `location`, its `href` or its `pathname`, or calls its
/// `replace` or `assign`. Declarations of variables named `location` do not count.
fn sets_location(script: &str) -> bool {
    let is_in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-');
    let is_assigned = |rest: &str| {
        let value = rest.trim_start().strip_prefix('=');
        value.is_some_and(|value| !value.starts_with(['=', '>']))
    };
    script.match_indices("location").any(|(at, name)| {
        let (before, after) = (&script[..at], script[at + name.len()..].trim_start());
        let is_declared = || ["const ", "let "].iter().any(|word| before.ends_with(word));
        if before.ends_with(is_in_name) {
            return false;
        }
        let Some(property) = after.strip_prefix('.').map(str::trim_start) else {
            return is_assigned(after) && !is_declared();
        };
        let (name, rest) = property.split_at(property.find(|c| !is_in_name(c)).unwrap_or(property.len()));
        match name {
            "href" | "pathname" => is_assigned(rest),
            "replace" | "assign" => rest.trim_start().starts_with('('),
            _ => false,
        }
    })
}

impl Head {
    /// Reads the whole document, because pages may have `<meta>` in the body. Of several titles, the first
    /// one with text outside of drawings counts, and of several canonical links, the last one with an
    /// address. Leaves out redirects in `<noscript>` unless the page [`only_redirects`], dates of parts
    /// ([`is_of_part`]), and several different values of `datePublished` or of `dateModified`, or of a kind
    /// of date in the text ([`date_of_item`]).
    fn read(dom: &Dom, base: Option<&Url>) -> Self {
        let mut head = Self::default();
        let only_redirects = LazyCell::new(|| only_redirects(dom));
        let is = |id, name, value: &str| {
            dom.attribute(id, name).is_some_and(|own| own.eq_ignore_ascii_case(value))
        };
        for id in dom.descendants(DOCUMENT) {
            match dom.tag(id) {
                Tag::Html | Tag::Body if head.language.is_none() => {
                    head.language = dom.first_attribute(id, &["lang", "xml:lang"]).and_then(language_tag);
                }
                Tag::Title if head.title.is_none() && !dom.is_in(id, &[Tag::Svg]) => {
                    head.title = Some(clip_value(&dom.text_content(id))).filter(|t| !t.is_empty());
                }
                Tag::Link if is(id, "rel", "canonical") => {
                    let href = dom.first_attribute(id, &["href"]).map(str::to_owned);
                    head.canonical = href.or(head.canonical);
                }
                Tag::A
                    if head.logos.len() < MAX_LOGOS
                        && is_home_link(dom, id, base, head.canonical.as_deref()) =>
                {
                    head.logos.push(clip_value(&shown_text(dom, id)));
                }
                Tag::Meta => {
                    if is(id, "http-equiv", "refresh")
                        && (!dom.is_in(id, &[Tag::Noscript]) || *only_redirects)
                    {
                        let target = refresh_target(dom.attribute(id, "content").unwrap_or_default());
                        head.redirects.extend(target.map(clip_value));
                    }
                    let name = dom.first_attribute(id, &["property", "name", "itemprop", "http-equiv"]);
                    if let (Some(name), Some(value)) = (name, dom.first_attribute(id, &["content"]))
                        && !is_of_part(dom, id)
                    {
                        head.values.push((name.to_ascii_lowercase(), clip_value(value)));
                    }
                }
                _ => head.values.extend(date_of_item(dom, id)),
            }
        }
        // A page with several different dates is a list of articles, and has no date of its own.
        for date in ["datepublished", "datemodified", ITEM_PUBLISHED, ITEM_MODIFIED] {
            if head.values_of(date).collect::<HashSet<&str>>().len() > 1 {
                head.values.retain(|(name, _)| name != date);
            }
        }
        head
    }

    /// The `<meta>` values with this name, in document order.
    fn values_of(&self, name: &str) -> impl Iterator<Item = &str> {
        self.values.iter().filter(move |(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// Whether the page asks crawlers not to list it. If values contradict each other, the strictest counts.
    fn forbids_index(&self) -> bool {
        let mut addressed = self.values.iter().filter(|(name, _)| CRAWLERS.contains(&name.as_str()));
        addressed.any(|(_, directives)| forbids_index(directives))
    }

    /// The `<meta>` value of the first name in `names` that the page declares.
    fn first_value(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.values_of(name).next().map(str::to_owned))
    }
}

/// Whether an element, such as a `<meta>`, is a date in the microdata of a part of the page, such as a review
/// or a comment: its item is a property of another item, other than the main one.
fn is_of_part(dom: &Dom, element: NodeId) -> bool {
    let is_date = |name: &str| matches!(name, "datePublished" | "dateModified");
    dom.attribute(element, "itemprop").is_some_and(is_date)
        && item_around(dom, element)
            .and_then(|item| dom.attribute(item, "itemprop"))
            .is_some_and(|property| property != "mainEntity")
}

/// The nearest microdata item around a property.
fn item_around(dom: &Dom, property: NodeId) -> Option<NodeId> {
    dom.ancestors(property).skip(1).find(|&a| dom.has_attribute(a, "itemscope"))
}

/// Names in [`Head::values`] for dates from the page's text ([`date_of_item`]).
const ITEM_PUBLISHED: &str = "datePublished in the text";
const ITEM_MODIFIED: &str = "dateModified in the text";

/// The name ([`ITEM_PUBLISHED`] or [`ITEM_MODIFIED`]) and the date that a `<time>` with a `datetime` gives to
/// the page: as microdata of an article, a page or no item, or with a class of microformats in an `h-entry`.
/// `None` beside the content, and in parts such as comments.
fn date_of_item(dom: &Dom, id: NodeId) -> Option<(String, String)> {
    let date = dom.first_attribute(id, &["datetime"]).filter(|_| dom.name(id) == "time")?;
    let is_entry = || dom.ancestors(id).any(|a| dom.has_class(a, "h-entry"));
    let is_main = |item| {
        let kind = dom.attribute(item, "itemtype").unwrap_or_default();
        kind.is_empty()
            || ["Article", "Posting", "Page", "Recipe", "CreativeWork"].iter().any(|k| kind.ends_with(k))
    };
    let name = match dom.attribute(id, "itemprop") {
        Some("datePublished") => ITEM_PUBLISHED,
        Some("dateModified") => ITEM_MODIFIED,
        None if dom.has_class(id, "dt-published") && is_entry() => ITEM_PUBLISHED,
        None if dom.has_class(id, "dt-updated") && is_entry() => ITEM_MODIFIED,
        _ => return None,
    };
    let is_beside =
        dom.is_in(id, &[Tag::Aside, Tag::Nav]) || dom.ancestors(id).any(|a| dom.has_class(a, "h-cite"));
    let is_own = !is_beside && !is_of_part(dom, id) && item_around(dom, id).is_none_or(is_main);
    is_own.then(|| (name.to_owned(), clip_value(date)))
}

/// The names that address crawlers in `<meta>` and `X-Robots-Tag`: three for all of them, and those of large
/// search engines.
#[rustfmt::skip]
const CRAWLERS: [&str; 13] = [
    "robots", "x-robots-tag", "*", "applebot", "baiduspider", "bingbot", "duckduckbot", "googlebot", "msnbot", "slurp",
    "teoma", "yandex", "yandexbot",
];

/// Whether the value of a robots `<meta>`, or of one line of `X-Robots-Tag`, asks not to list the page: one
/// of its directives is `noindex` or `none`. In the header, the name of a crawler may precede the directives
/// that it must follow. Directives for a crawler of no search engine forbid nothing.
pub fn forbids_index(directives: &str) -> bool {
    let directives = directives.to_ascii_lowercase();
    let mut is_addressed = true;
    directives.split([',', ';']).any(|directive| {
        let mut rest = directive.trim();
        while let Some((name, value)) = rest.split_once(':') {
            let name = name.trim_end();
            // The values of other directives, as in `max-image-preview: none`, forbid nothing. A colon after
            // several words is that of a time.
            let has_value = ["max-", "unavailable"].iter().any(|other| name.starts_with(other));
            if has_value || name.contains(char::is_whitespace) {
                return false;
            }
            is_addressed = CRAWLERS.contains(&name);
            rest = value.trim_start();
        }
        is_addressed && rest.split_whitespace().any(|word| matches!(word, "noindex" | "none"))
    })
}

/// Maximum number of links to the home page that are read.
const MAX_LOGOS: usize = 4;

/// Whether a link may be a logo: it has `rel="home"`, or leads to the home page or to the start of a section
/// above the page and is outside of `<main>` or in a first-level heading. The site is that of `base` or of
/// the canonical address; without these, any site.
fn is_home_link(dom: &Dom, link: NodeId, base: Option<&Url>, canonical: Option<&str>) -> bool {
    let Some(href) = dom.attribute(link, "href") else { return false };
    if dom.attribute(link, "rel") == Some("home") {
        return true;
    }
    let is_origin = || {
        href.strip_prefix("https://")
            .or_else(|| href.strip_prefix("http://"))
            .is_some_and(|rest| rest.trim_end_matches('/').bytes().all(|b| !matches!(b, b'/' | b'?' | b'#')))
    };
    let host = |url: &Url| url.host_str().map(|host| host.trim_start_matches("www.").to_owned());
    let is_own_site = || {
        let canonical = canonical.and_then(|url| Url::parse(url).ok());
        let mut own = [base, canonical.as_ref()].into_iter().flatten().peekable();
        let to = Url::parse(href).ok().as_ref().and_then(host);
        own.peek().is_none() || own.any(|url| host(url) == to)
    };
    let without_index = |path: &str| path.strip_suffix("index.html").unwrap_or(path).to_owned();
    let folder = without_index(href);
    // The start page of a section may link to itself, but it is not the home page.
    let is_own =
        |base: &Url| !base.join(href).is_ok_and(|to| without_index(to.path()) != without_index(base.path()));
    let is_above = || {
        folder.split('/').all(|part| matches!(part, "" | "." | ".."))
            && (folder != href || !folder.is_empty())
            && !base.is_some_and(is_own)
    };
    let is_main = |a| dom.tag(a) == Tag::Main || dom.attribute(a, "role") == Some("main");
    (matches!(href, "/" | "./" | "." | "../" | "..") || is_origin() && is_own_site() || is_above())
        && (dom.is_in(link, &[Tag::H1]) || !dom.ancestors(link).any(is_main))
}

/// Reads a text in JSON-LD: truncates it like [`clip_value`], and decodes the character references that
/// WordPress and others write for characters such as `&`.
fn read_text(value: &str) -> String {
    let value = clip_value(value);
    if !value.contains('&') || !value.contains(';') {
        return value;
    }
    let escaped = value.replace('<', "&lt;");
    let dom = parse(&format!("<!doctype html><body>{escaped}"));
    collapse(&dom.text_content(dom.body()))
}

/// The text that a browser shows for HTML.
fn text_of_html(html: &str) -> String {
    let dom = parse(&format!("<!doctype html><body>{html}"));
    shown_text(&dom, dom.body())
}

/// Returns the first value of each property in the JSON-LD: the dates and the language of articles and pages,
/// the title, the author and the description of articles, and the name of the site. Other values are missing.
/// If there is no article, values may come from the only other item ([`find_only_work`]). `page_title` is the
/// text of `<title>`.
fn read_articles(dom: &Dom, page_title: Option<&str>) -> Metadata {
    let mut data = Metadata::default();
    let items: Vec<Value> = read_structured_data(dom).collect();
    let by_id: HashMap<&str, &Value> = items
        .iter()
        .filter(|item| item["name"].is_string())
        .filter_map(|i| Some((i["@id"].as_str()?, i)))
        .collect();
    for item in &items {
        let kinds = match &item["@type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => Vec::from_iter(kind.as_str()),
        };
        let has_kind = |ends: &[&str]| kinds.iter().any(|kind| ends.iter().any(|end| kind.ends_with(end)));
        let text = |name: &str| item[name].as_str().map(read_text).filter(|t| !t.is_empty());
        if kinds.contains(&"WebSite") {
            data.site = data.site.or_else(|| text("name"));
        }
        let is_article = has_kind(&["Article", "Posting"]) || kinds.contains(&"Report");
        if is_article {
            data.title = data.title.or_else(|| text("headline"));
            data.author = data.author.or_else(|| author_names(&item["author"], &by_id));
            // Search engines ask for HTML in the description of a job.
            let is_html = kinds.contains(&"JobPosting");
            let description =
                || text("description").map(|text| if is_html { text_of_html(&text) } else { text });
            data.description = data.description.or_else(description);
        }
        if is_article || has_kind(&["Page"]) || kinds.contains(&"CreativeWork") {
            data.published = data.published.or_else(|| text("datePublished")).or_else(|| text("datePosted"));
            data.modified = data.modified.or_else(|| text("dateModified"));
            data.language = data.language.or_else(|| language_tag(&text("inLanguage")?));
        }
    }
    if let Some(work) = find_only_work(&items, page_title) {
        let text = |name: &str| work[name].as_str().map(read_text).filter(|t| !t.is_empty());
        data.published = data.published.or_else(|| text("datePublished")).or_else(|| text("uploadDate"));
        data.modified = data.modified.or_else(|| text("dateModified"));
        data.author = data.author.or_else(|| author_names(&work["author"], &by_id));
        data.description =
            data.description.or_else(|| text("description").filter(|text| !text.contains('<')));
    }
    data
}

/// The types of a JSON-LD item.
fn kinds_of(item: &Value) -> impl Iterator<Item = &str> {
    let kind = &item["@type"];
    kind.as_array().map_or(std::slice::from_ref(kind), Vec::as_slice).iter().filter_map(Value::as_str)
}

/// The only item of the JSON-LD that may be what the page is about, such as a recipe: not the site, its
/// owner, a page or an image. `None` if there are several items or an article, and for a video that does not
/// have the title of the page, which may be only a part of it.
fn find_only_work<'i>(items: &'i [Value], page_title: Option<&str>) -> Option<&'i Value> {
    const AROUND: [&str; 9] = [
        "Article",
        "BreadcrumbList",
        "ImageObject",
        "Organization",
        "Page",
        "Person",
        "Posting",
        "SiteNavigationElement",
        "WebSite",
    ];
    let is_work = |item: &&Value| {
        let mut own = kinds_of(item).peekable();
        own.peek().is_some() && !own.any(|kind| AROUND.iter().any(|around| kind.ends_with(around)))
    };
    let mut works = items.iter().filter(is_work);
    let only = works.next().filter(|_| works.next().is_none())?;
    let is_article = |item| kinds_of(item).any(|kind| kind.ends_with("Article") || kind.ends_with("Posting"));
    let has_title =
        || only["name"].as_str().zip(page_title).is_some_and(|(name, title)| title.contains(name));
    let is_about = !kinds_of(only).any(|kind| kind.ends_with("VideoObject")) || has_title();
    (is_about && !items.iter().any(is_article)).then_some(only)
}

/// The top-level items of the JSON-LD in a page, or those of its `@graph`, each followed by its main entity,
/// which is taken out of it. A list of several main entities does not count. Skips invalid JSON, except as
/// `parse_json` repairs it.
pub(super) fn read_structured_data(dom: &Dom) -> impl Iterator<Item = Value> {
    let is_script = |&id: &NodeId| {
        dom.tag(id) == Tag::Script
            && dom.attribute(id, "type").is_some_and(|t| t.eq_ignore_ascii_case("application/ld+json"))
    };
    let scripts = dom.descendants(DOCUMENT).filter(is_script);
    let documents = scripts.filter_map(|id| parse_json(&dom.text_content(id)));
    let items = documents.flat_map(|mut document: Value| {
        let is_graph = |graph: &&mut Value| graph.is_array() || graph.is_object();
        let graph = document.get_mut("@graph").filter(is_graph).map(Value::take);
        match graph.unwrap_or(document) {
            Value::Array(items) => items,
            item => vec![item],
        }
    });
    items.flat_map(|mut item| {
        let entity = item.get_mut("mainEntity").and_then(|entity| match entity {
            Value::Array(entities) if entities.len() == 1 => entities.pop(),
            entity => Some(entity.take()),
        });
        let entity = entity.filter(Value::is_object);
        std::iter::once(item).chain(entity)
    })
}

/// Parses JSON that may be in a CDATA section or a comment, as in XHTML. If it is invalid, tries
/// [`repair_json`]; `None` if that does not help.
fn parse_json(text: &str) -> Option<Value> {
    let text = text.split_once("<![CDATA[").map_or(text, |(_, inner)| inner);
    let text = text.rsplit_once("]]>").map_or(text, |(inner, _)| inner).trim();
    let text = text.strip_prefix("<!--").unwrap_or(text).trim_end_matches("-->");
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '/' | '*' | ';'));
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&repair_json(text)).ok())
}

/// Replaces control characters in strings with spaces, and drops commas at the end of lists and objects.
fn repair_json(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped) = (false, false);
    for c in text.chars() {
        match c {
            _ if is_string && c.is_control() => repaired.push(' '),
            '}' | ']' if !is_string => {
                let end = repaired.trim_end().strip_suffix(',').map(str::len);
                repaired.truncate(end.unwrap_or(repaired.len()));
                repaired.push(c);
            }
            _ => repaired.push(c),
        }
        is_string ^= c == '"' && !is_escaped;
        is_escaped = is_string && c == '\\' && !is_escaped;
    }
    repaired
}

/// The names of the authors in JSON-LD ([`join_names`]). `value` is a name, an object with a `name` or
/// with the `@id` of an object in `by_id`, or a list of these.
fn author_names(value: &Value, by_id: &HashMap<&str, &Value>) -> Option<String> {
    let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    join_names(values.iter().filter_map(|value| {
        let other = || by_id.get(value.get("@id")?.as_str()?)?.get("name")?.as_str();
        value.as_str().or_else(|| value.get("name")?.as_str()).or_else(other)
    }))
}

/// Joins the first 20 names with commas, or with semicolons if one has a comma. Skips empty and repeated
/// names, and those that begin with `http`, which are addresses. `None` if no name is left.
fn join_names<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names.take(20).map(read_text) {
        if !name.is_empty() && !name.starts_with("http") && !found.contains(&name) {
            found.push(name);
        }
    }
    let separator = if found.iter().any(|name| name.contains(',')) { "; " } else { ", " };
    (!found.is_empty()).then(|| found.join(separator))
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn reads_the_head_and_structured_data() {
        let dom = parse(
            r#"<html lang=en><title>A: "guide" | Site</title><meta property=og:site_name content=Site>
            <meta name=description content="What it is"><link rel=canonical href=/a>
            <script type=application/ld+json>{"@graph":[{"@type":"BlogPosting","headline":"A: \"guide\"",
            "author":[{"name":"Ada"},{"name":"Bob"}],"datePublished":"2026-01-02"}]}</script>"#,
        );
        let base = Url::parse("https://example.com/x").expect("a URL");
        let (mut metadata, titles) = read_metadata(&dom, Some(&base), None);
        metadata.title = titles.choose(&dom, DOCUMENT, false, false);
        let front_matter = metadata.front_matter(&[]);
        let expected = "---\ntitle: \"A: \\\"guide\\\"\"\ndescription: What it is\nurl: \"https://example.com/a\"\nsite: Site\n\
            author: \"Ada, Bob\"\ndate: \"2026-01-02\"\nlanguage: en\n---\n\n";
        assert_eq!(front_matter, expected);
    }

    #[test]
    fn reads_dates_authors_and_languages() {
        let part = |property: &str| {
            format!(
                "<div itemscope><p itemscope itemprop={property}><meta itemprop=datePublished content=1></p></div>"
            )
        };
        let json = |text: &str| format!("<script type='application/ld+json'>{text}</script>");
        let article = r#"{"@type":"Article","datePublished":"1","author":{"name":"A"}}"#;
        for (html, expected) in [
            ("<meta itemprop=datePublished content=1><meta itemprop=dateModified content=2>", "||1|2"),
            ("<meta itemprop=datePublished content=1><meta itemprop=datePublished content=2>", "|||"),
            ("<meta itemprop=datePublished content=1><meta itemprop=datePublished content=1>", "||1|"),
            (&part("review"), "|||"),
            (&part("mainEntity"), "||1|"),
            ("<meta name=dcterms.issued content=1><meta name=dcterms.modified content=2>", "||1|2"),
            ("<meta name=DC.Date.issued content=1><meta name=citation_date content=2>", "||1|"),
            ("<meta name=dcterms.creator content=A>", "|A||"),
            (
                "<meta name=citation_author content='A, B'><meta name=citation_author content='C'><meta name=citation_author content='C'>",
                "|A, B; C||",
            ),
            ("<meta name=author content=Ann><meta name=author content=WordPress>", "|Ann||"),
            ("<meta name=author content=https://a.example/><meta name=dc.creator content=A>", "|A||"),
            ("<body lang=de><p>x", "de|||"),
            ("<html lang=en><body lang=de><p>x", "en|||"),
            ("<meta http-equiv=Content-Language content=de><meta property=og:locale content=en_US>", "de|||"),
            ("<meta property=og:locale content=en_US>", "en-US|||"),
            ("<html lang=de_AT><p>x", "de-AT|||"),
            ("<html lang='{{ lang }}'><meta name=DC.language content=fr>", "fr|||"),
            ("<meta http-equiv=Content-Language content='de, en'>", "de|||"),
            ("<html lang=English><p>x", "|||"),
            (
                "<meta http-equiv=content-language content=English><meta property=og:locale content=en_US>",
                "en-US|||",
            ),
            (&json(r#"{"@type":"Article","inLanguage":"zh_Hant"}"#), "zh-Hant|||"),
            (&json(r#"{"@type":"WebSite","inLanguage":"en"}"#), "|||"),
            (&json(&format!("//<![CDATA[\n{article}\n//]]>")), "|A|1|"),
            (&json(&format!("/*<![CDATA[*/{article}/*]]>*/")), "|A|1|"),
            (&json(&format!("<!--\n{article}\n-->")), "|A|1|"),
            (&json("{\"@type\":\"Article\",\"x\":[\"a,]\\\"\n,}\",],\"dateModified\":\"2\" ,\n}"), "|||2"),
            (&json("{\"@type\":\"Article\",\"dateModified\":\"2\""), "|||"),
            (&json(r#"{"@type":"Article","author":"A &amp; B O&#039;C"}"#), "|A & B O'C||"),
            (&json(r#"{"@type":"Article","author":"A &b; <C>"}"#), "|A &b; <C>||"),
            (
                &json(
                    r##"{"@graph":[{"@type":"Article","author":[{"@id":"#p"},{"@id":"#q"}]},{"@id":"#p","name":"A"}]}"##,
                ),
                "|A||",
            ),
            (&json(&format!(r#"{{"@type":"WebPage","dateModified":"2","mainEntity":{article}}}"#)), "|A|1|2"),
        ] {
            let metadata = read_metadata(&parse(&format!("<!doctype html>{html}")), None, None).0;
            let fields = [metadata.language, metadata.author, metadata.published, metadata.modified];
            assert_eq!(fields.map(Option::unwrap_or_default).join("|"), expected, "{html}");
        }
    }

    #[test]
    fn descriptions_of_jobs_are_read_as_html() {
        for (kind, description, expected) in [
            ("JobPosting", "<p>We <b>look</b> for</p><ul><li>a driver</ul>", "We look for a driver"),
            ("JobPosting", "&lt;p&gt;A &amp;amp; B&lt;/p&gt;", "A & B"),
            ("JobPosting", "A driver", "A driver"),
            ("Article", "What <main> is for", "What <main> is for"),
        ] {
            let html = format!(
                r#"<script type="application/ld+json">{{"@type":"{kind}","description":"{description}"}}</script>"#
            );
            let metadata = read_metadata(&parse(&html), None, None).0;
            assert_eq!(metadata.description.as_deref(), Some(expected), "{kind} {description}");
        }
    }

    #[test]
    fn reads_dates_of_other_vocabularies() {
        let json = |text: &str| format!("<script type='application/ld+json'>{text}</script>");
        let recipe = r#"{"@type":"Recipe","datePublished":"1","author":{"name":"A"},"description":"D"}"#;
        let video = r#"{"@type":"VideoObject","name":"Ropes","uploadDate":"1"}"#;
        let article = r#"{"@type":"Article","datePublished":"2"}"#;
        let entry = "<article itemscope itemtype=https://schema.org/BlogPosting><time itemprop=datePublished datetime=1>";
        let comment =
            "<div itemscope itemtype=https://schema.org/Comment><time itemprop=datePublished datetime=1>";
        for (html, expected) in [
            ("<meta name=dcterms.date content=1><meta name=revised content=2>", "1|2||"),
            ("<meta name=dcterms.date content=2><meta name=dcterms.issued content=1>", "1|||"),
            ("<meta property=og:published_time content=1>", "1|||"),
            (
                "<meta name=govuk:first-published-at content=1><meta name=govuk:public-updated-at content=2>",
                "1|2||",
            ),
            ("<meta name=authors content='A, B'><meta name=dcterms.abstract content=D>", "||A, B|D"),
            (entry, "1|||"),
            (&format!("{entry}</time><time itemprop=dateModified datetime=2>"), "1|2||"),
            (&format!("{entry}</time></article>{}", entry.replace('1', "3")), "|||"),
            (&format!("<meta itemprop=datePublished content=2>{entry}"), "2|||"),
            (&format!("<aside>{entry}"), "|||"),
            (comment, "|||"),
            ("<p><time itemprop=dateModified datetime=2>", "|2||"),
            ("<p><time itemprop=startDate class=dt-published datetime=2>", "|||"),
            ("<p class=h-entry><time class=dt-published datetime=1>", "1|||"),
            ("<p class=h-entry><b class=h-cite><time class=dt-published datetime=1>", "|||"),
            ("<p><time class=dt-published datetime=1>", "|||"),
            (&json(recipe), "1||A|D"),
            (&json(&format!("[{recipe},{{\"@type\":\"WebPage\"}},{{\"@type\":\"WebSite\"}}]")), "1||A|D"),
            (&json(&format!("[{recipe},{recipe}]")), "|||"),
            (&json(&format!("[{recipe},{article}]")), "2|||"),
            (&json(&format!(r#"{{"@graph":{article}}}"#)), "2|||"),
            (&json(&format!(r#"{{"@type":"WebPage","mainEntity":[{article}]}}"#)), "2|||"),
            (&json(&format!(r#"{{"@type":"WebPage","mainEntity":[{article},{article}]}}"#)), "|||"),
            (&json(r#"{"@type":"JobPosting","datePosted":"1"}"#), "1|||"),
            (&json(r#"{"@type":"Organization","description":"D"}"#), "|||"),
            (&json(video), "|||"),
            (&format!("<title>Ropes - Oak</title>{}", json(video)), "1|||"),
        ] {
            let metadata = read_metadata(&parse(&format!("<!doctype html>{html}")), None, None).0;
            let fields = [metadata.published, metadata.modified, metadata.author, metadata.description];
            assert_eq!(fields.map(Option::unwrap_or_default).join("|"), expected, "{html}");
        }
    }

    #[test]
    fn a_page_without_metadata_has_no_front_matter() {
        assert_eq!(read_metadata(&parse("<p>x"), None, None).0.front_matter(&[]), "");
    }

    #[test]
    fn a_page_that_reloads_itself_is_no_redirect() {
        let url = Url::parse("https://example.com/a/").expect("a URL");
        for (head, expected) in [
            ("<meta http-equiv=refresh content='0; url=/b/'>", Some("https://example.com/b/")),
            ("<meta http-equiv=Refresh content='0; URL = \"b\"'>", Some("https://example.com/a/b")),
            ("<meta http-equiv=refresh content='0;/curl/'>", Some("https://example.com/curl/")),
            ("<meta http-equiv=refresh content=0.5,url=/b/>", Some("https://example.com/b/")),
            (
                "<meta http-equiv=refresh content='9; url=/a/'><meta http-equiv=refresh content='9; url=/b/'>",
                Some("https://example.com/b/"),
            ),
            ("<base href=/><meta http-equiv=refresh content=0;url=/>", Some("https://example.com/")),
            ("<base href=/><meta http-equiv=refresh content=9;url=a/>", None),
            (
                "<base target=_top><base href=/c/><base href=/d/><meta http-equiv=refresh content=0;url=b>",
                Some("https://example.com/c/b"),
            ),
            ("<meta http-equiv=refresh content=30>", None),
            ("<meta http-equiv=refresh content='30; url='>", None),
            ("<meta http-equiv=refresh content='30; url=/a/'>", None),
            ("<meta http-equiv=refresh content='30; url=https://EXAMPLE.com/a/#top'>", None),
            ("<meta http-equiv=refresh content='30; url=#top'>", None),
            ("<meta http-equiv=refresh content='curl'>", None),
            ("<meta http-equiv=refresh content='url=/b/'>", None),
            ("<meta http-equiv=refresh content='; url=/b/'>", None),
            (
                "<title>Redirecting</title><noscript><meta http-equiv=refresh content='1; url=latest/'></noscript>\
                 <script>location.replace('latest/')</script>",
                Some("https://example.com/a/latest/"),
            ),
            (
                &format!(
                    "<noscript><meta http-equiv=refresh content='0; url=/b/'></noscript><p>{}",
                    "a ".repeat(200)
                ),
                None,
            ),
        ] {
            let dom = parse(&format!("<!doctype html>{head}<p>Text"));
            let Metadata { redirect, is_unlisted, .. } = read_metadata(&dom, Some(&url), None).0;
            assert_eq!((redirect.as_deref(), is_unlisted), (expected, expected.is_some()), "{head}");
        }
    }

    #[test]
    fn only_a_script_that_opens_another_page_redirects() {
        for (script, expected) in [
            ("location='/b/'", true),
            ("window.location = \"/b/\";", true),
            ("document.location.href='/b/'", true),
            ("top.location . href = url", true),
            ("location.pathname = '/en' + location.pathname", true),
            ("location.replace('/b/')", true),
            ("window.location.assign ( '/b/' )", true),
            ("if (location.hash == '') location=url", true),
            ("navigator.geolocation.getCurrentPosition(f)", false),
            ("var geolocation = 1, allocation = 2, location_id = 3", false),
            ("<p data-location=oslo>", false),
            ("const location = window.location.pathname", false),
            ("if (location.pathname === '/a/' || location == x) f(location)", false),
            ("track(location.href, location.href.replace(/#.*/, ''))", false),
            ("history.listen(location => f(location))", false),
            ("location.hash = '#a'; location.reload()", false),
        ] {
            let meta = "<noscript><meta http-equiv=refresh content='0; url=/b/'></noscript>";
            let dom = parse(&format!("<!doctype html>{meta}<script>{script}</script><p>Text"));
            assert_eq!(read_metadata(&dom, None, None).0.is_unlisted, expected, "{script}");
        }
    }

    #[test]
    fn a_canonical_link_without_an_address_is_ignored() {
        for links in [
            "<link rel=canonical href=https://example.com/a><link rel=canonical>",
            "<link rel=canonical href><link rel=Canonical href=https://example.com/a>",
        ] {
            let canonical = read_metadata(&parse(&format!("<!doctype html>{links}")), None, None).0.canonical;
            assert_eq!(canonical.as_deref(), Some("https://example.com/a"), "{links}");
        }
    }

    #[test]
    fn pages_ask_crawlers_not_to_list_them() {
        for (meta, expected) in [
            ("<meta name=robots content=noindex>", true),
            ("<META NAME=ROBOTS CONTENT=\"NOINDEX, FOLLOW\">", true),
            ("<meta name=robots content=none>", true),
            ("<meta name=robots content=\"follow , None\">", true),
            ("<meta name=robots content=\"nofollow noindex\">", true),
            ("<meta name=googlebot content=noindex>", true),
            ("<meta http-equiv=X-Robots-Tag content=noindex>", true),
            ("<meta name=robots content=index><meta name=robots content=noindex>", true),
            ("<meta name=robots content=\"index, follow\">", false),
            ("<meta name=robots content=\"max-image-preview:none, max-snippet:-1\">", false),
            ("<meta name=robots content=\"max-image-preview: none\">", false),
            ("<meta name=robots content=\"noindexing, noneSuch, noarchive\">", false),
            ("<meta name=description content=\"noindex, none\">", false),
            ("<meta name=googlebot-news content=noindex>", false),
        ] {
            let dom = parse(&format!("<!doctype html><title>T</title>{meta}<p>Text"));
            assert_eq!(read_metadata(&dom, None, None).0.is_unlisted, expected, "{meta}");
        }
        for (header, expected) in [
            ("noindex", true),
            ("googlebot: noindex, nofollow", true),
            ("googlebot: nofollow, noindex", true),
            ("BingBot : NoIndex", true),
            ("otherbot: nofollow, googlebot: none", true),
            ("*: noindex", true),
            ("noindex, otherbot: nofollow", true),
            ("GPTBot: noindex", false),
            ("googlebot-news: noindex", false),
            ("nofollow, otherbot: none", false),
            ("otherbot: nofollow, noindex", false),
            ("googlebot: max-image-preview: none", false),
            ("unavailable_after: Thursday, 25-Jun-26 15:00:00 UTC, noindex", true),
            ("unavailable_after: 25 Jun 2026 15:00:00 PST", false),
            ("noarchive", false),
            ("noindex;nofollow", true),
            ("max-image-preview:none; nofollow", false),
        ] {
            assert_eq!(forbids_index(header), expected, "{header}");
        }
    }
}
