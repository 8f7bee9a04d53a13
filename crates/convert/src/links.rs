//! Resolves the addresses of links and images, and judges links: whether Markdown writes a bare address,
//! what labels a link with a symbol, and whether a link leads to a page of the same site or shares the page.

use super::autolink_detection::end_of_address;
use super::dom::{Dom, NodeId, Tag, clip, collapse};
use super::inline::may_be_entity;
use std::borrow::Cow;
use url::Url;

/// Resolves an address against `base` and escapes it for Markdown. A fragment, and an address that cannot be
/// resolved, are only escaped. A redirect of Google is replaced by its target. `None` if the address is empty
/// or `#`, runs a script or embeds data.
pub(super) fn resolve_link(base: Option<&Url>, link: &str) -> Option<String> {
    // Browsers ignore line breaks and tabs in an address, and control characters around it.
    let link = link.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    let link = &*if link.contains(['\n', '\r', '\t']) {
        Cow::Owned(link.replace(['\n', '\r', '\t'], ""))
    } else {
        Cow::Borrowed(link)
    };
    let scheme = link.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    if matches!(link, "" | "#") || scheme.is_some_and(|s| HARMFUL_SCHEMES.contains(&&*s)) {
        return None;
    }
    let link = &*redirect_target(link).map_or(Cow::Borrowed(link), Cow::Owned);
    let resolved = base.filter(|_| !link.starts_with('#')).and_then(|base| base.join(link).ok());
    Some(escape_destination(resolved.as_ref().map_or(link, Url::as_str)))
}

/// The target of a link that leads through the redirects of Google, as in documents exported from Google
/// Docs: a visitor who follows such a link sees a notice instead of the target. `None` for other links.
fn redirect_target(link: &str) -> Option<String> {
    let (scheme, query) = link.split_once("://www.google.com/url?")?;
    if !["https", "http"].iter().any(|own| scheme.eq_ignore_ascii_case(own)) {
        return None;
    }
    let target = |(name, value): (Cow<str>, Cow<str>)| {
        let is_page = value.starts_with("https://") || value.starts_with("http://");
        (is_page && matches!(&*name, "q" | "url")).then(|| value.into_owned())
    };
    url::form_urlencoded::parse(query.as_bytes()).find_map(target)
}

/// Schemes of addresses that run a script or embed data.
const HARMFUL_SCHEMES: [&str; 4] = ["javascript", "data", "blob", "vbscript"];

/// Percent-encodes the characters in an address that renderers encode or that would break the destination of
/// a Markdown link. Writes `\` before all parentheses if they are unbalanced, and `&amp;` for the `&` of a
/// character reference.
fn escape_destination(link: &str) -> String {
    let mut depth = 0_i32;
    let is_balanced = link.bytes().all(|b| {
        depth += i32::from(b == b'(') - i32::from(b == b')');
        depth >= 0
    }) && depth == 0;
    let is_unsafe = |c: char| {
        !c.is_ascii_graphic() || matches!(c, '<' | '>' | '|' | '\\' | '`' | '"' | '[' | ']' | '{' | '}' | '^')
    };
    if is_balanced && !link.contains(|c| is_unsafe(c) || c == '&') {
        return link.to_owned();
    }
    let mut out = String::with_capacity(link.len() + 8);
    for (at, c) in link.char_indices() {
        match c {
            '(' | ')' if !is_balanced => out.extend(['\\', c]),
            // Write `&amp;` instead of `\&`: some parsers read `\&amp;` as `&`.
            '&' if may_be_entity(&link[at..], false) => out.push_str("&amp;"),
            c if is_unsafe(c) => {
                for byte in link[at..at + c.len_utf8()].bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// The title of a link or image as Markdown, with a space before it; empty if there is no title.
pub(super) fn quoted_title(dom: &Dom, id: NodeId) -> String {
    let Some(title) = dom.first_attribute(id, &["title"]) else { return String::new() };
    // Write `&` as the entity `&amp;`: some parsers read `\&amp;` in a title as `&`, not as `&amp;`.
    let title =
        collapse(title).replace('\\', "\\\\").replace('"', "\\\"").replace('|', "\\|").replace('&', "&amp;");
    format!(" \"{title}\"")
}

/// The text of a link, if GitHub Flavored Markdown would autolink this text to the same address, and the text
/// after the link would not become part of it. `None` otherwise, and for a link with a title, with more than
/// 2000 bytes, with `|` in its text, or with elements such as emphasis or images.
pub(super) fn bare_address(dom: &Dom, link: NodeId) -> Option<String> {
    let href = dom.attribute(link, "href")?.trim();
    let is_plain = |id: NodeId| matches!(dom.tag(id), Tag::Text | Tag::Span | Tag::Other | Tag::U);
    if dom.has_attribute(link, "title") || href.len() > MAX_ADDRESS || !dom.descendants(link).all(is_plain) {
        return None;
    }
    let text = dom.collapsed_text(link);
    if text.contains(|c: char| c.is_whitespace() || c == '|' || c == '<') {
        return None;
    }
    let after = text_after(dom, link);
    // Renderers percent-encode non-ASCII characters of an address, so compare the encoded addresses.
    let is_encoded = !text.is_ascii() && {
        let scheme = if text.starts_with("www.") { "http://" } else { "" };
        let own = Url::parse(&format!("{scheme}{text}"));
        own.is_ok_and(|own| Url::parse(href).is_ok_and(|href| href == own))
    };
    let is_bare = match if is_encoded { "" } else { href.strip_suffix(&*text)? } {
        "mailto:" => {
            let after = after.strip_prefix('.').unwrap_or(&after);
            let continues = |c: char| c.is_ascii_alphanumeric() || "-_@/+".contains(c);
            is_bare_email(&text) && !after.starts_with(continues)
        }
        before => {
            (before.is_empty() || before == "http://" && text.starts_with("www."))
                && end_of_address(&format!("{text}{after}"), 0) == Some(text.len())
        }
    };
    is_bare.then_some(text)
}

/// The text for a link with a symbol, which the caller has found to have neither text nor label: the address
/// of a `mailto:`, `tel:` or `sms:` link, or else the host of another site. `None` for other links, for those
/// that share or edit the page or have more than 2000 bytes, and if a text or a link beside the link says the
/// same.
pub(super) fn label_of_symbol_link(dom: &Dom, link: NodeId, base: Option<&Url>) -> Option<String> {
    let href = dom.attribute(link, "href").map(str::trim).filter(|href| href.len() <= MAX_ADDRESS)?;
    if !shows_symbol(dom, link) {
        return None;
    }
    let url = absolute_url(href, base)?;
    let label = match url.scheme() {
        "mailto" | "tel" | "sms" => {
            let address = href.split_once(':')?.1.trim_start_matches('/');
            address.split(['?', ';']).next().unwrap_or_default().replace("%40", "@")
        }
        "http" | "https" => {
            host(&url).filter(|own| !is_tool(href) && base.and_then(host).as_ref() != Some(own))?
        }
        _ => return None,
    };
    let around = dom.ancestors(link).skip(1).take(2).flat_map(|a| dom.descendants(a).take(40));
    let is_said = |d: NodeId| {
        dom.text(d).is_some_and(|text| clip(text, MAX_ADDRESS).contains(&label))
            || d != link
                && dom.attribute(d, "href").is_some_and(|other| other.trim() == href)
                && !dom.is_blank(d)
    };
    (!label.is_empty() && !around.into_iter().any(is_said)).then_some(label)
}

/// Whether one of the first ten nodes in a link is a symbol: a drawing, an image, an `<i>`, or an element
/// with a class for icons.
pub(super) fn shows_symbol(dom: &Dom, link: NodeId) -> bool {
    dom.descendants(link).take(10).any(|d| {
        matches!(dom.tag(d), Tag::Svg | Tag::I | Tag::Img) || dom.classes(d).any(|c| c.contains("icon"))
    })
}

/// Whether a link leads to a page of the site at `base` and, judging by its address, neither shares nor edits
/// a page. An address with a query does not count: it may be that of an action, such as adding to a cart.
pub(super) fn leads_to_own_page(dom: &Dom, link: NodeId, base: Option<&Url>) -> bool {
    let href = dom.attribute(link, "href").unwrap_or_default().trim();
    let has_query = || href.split('#').next().is_some_and(|address| address.contains('?'));
    !is_tool(href) && !has_query() && is_own_address(href, base)
}

/// Whether a link leads to a form for sharing the page on another site, such as a social network.
pub(super) fn shares_page(dom: &Dom, link: NodeId, base: Option<&Url>) -> bool {
    let href = dom.attribute(link, "href").unwrap_or_default().trim();
    let forms = ["/intent/", "/sharer", "/share?", "/shareArticle", "/share-offsite"];
    forms.iter().any(|form| href.contains(form)) && !is_own_address(href, base)
}

/// Whether an address is on the site at `base`. Without `base`, it must be relative and name no host. True
/// for an invalid address that does not begin with `//`.
fn is_own_address(href: &str, base: Option<&Url>) -> bool {
    let Some(url) = absolute_url(href, base) else { return !href.starts_with("//") };
    let is_page =
        matches!(url.scheme(), "http" | "https") || base.is_some_and(|b| b.scheme() == url.scheme());
    is_page && base.and_then(host) == host(&url)
}

/// The address of a link as an absolute URL. `None` if it is invalid, or relative without `base`.
fn absolute_url(href: &str, base: Option<&Url>) -> Option<Url> {
    base.map_or_else(|| Url::parse(href), |base| base.join(href)).ok()
}

/// The host of an address, without `www.`.
fn host(url: &Url) -> Option<String> {
    url.host_str().map(|host| host.trim_start_matches("www.").to_owned())
}

/// Whether an address probably leads to a form for sharing or editing a page.
fn is_tool(href: &str) -> bool {
    let is_share = |part: &str| {
        part == "share"
            || ["sharer", "shareArticle", "share-offsite"].iter().any(|name| part.starts_with(name))
    };
    href.split(['/', '?', '#', '.', '&', '=']).any(is_share)
        || ["/intent/", "/edit/", "/submit"].iter().any(|part| href.contains(part))
}

/// Maximum length in bytes of an address that is written as bare text.
pub(super) const MAX_ADDRESS: usize = 2000;

/// Whether GitHub Flavored Markdown autolinks the text as an e-mail address.
fn is_bare_email(text: &str) -> bool {
    let is_part = |part: &str, others: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.split_once('@').is_some_and(|(local, domain)| {
            is_part(local, ".-_+")
                && domain.contains('.')
                && domain.split('.').all(|label| is_part(label, "-_"))
        })
}

/// The text directly after a node: up to white space, a line break, a block, or the end of emphasis and the
/// like around the node. At an element other than `<span>`, the text ends with an `a` in place of the
/// element. Stops after about 2000 bytes.
pub(super) fn text_after(dom: &Dom, id: NodeId) -> String {
    let (mut id, mut after) = (id, String::new());
    while !dom.tag(id).is_block() {
        let Some(next) = dom.node(id).next else {
            // Whether the Markdown for an element ends with a delimiter or a tag, which ends an autolink.
            let is_delimited = |tag| {
                use Tag::{B, Del, Em, I, Kbd, Mark, S, Strike, Strong, Sub, Sup};
                matches!(tag, B | Del | Em | I | Kbd | Mark | S | Strike | Strong | Sub | Sup)
            };
            let Some(parent) = dom.parent(id).filter(|&p| !is_delimited(dom.tag(p))) else { break };
            id = parent;
            continue;
        };
        let text = matches!(dom.tag(next), Tag::Span | Tag::Text).then(|| dom.text_content(next));
        match text {
            Some(text) => {
                after.extend(text.chars().take(MAX_ADDRESS).take_while(|c| !c.is_whitespace()));
                if text.contains(char::is_whitespace) || after.len() > MAX_ADDRESS {
                    break;
                }
            }
            None if dom.tag(next) == Tag::Br || dom.tag(next).is_block() => break,
            None if dom.element(next).is_some() => {
                after.push('a');
                break;
            }
            None => {}
        }
        id = next;
    }
    after
}

#[cfg(test)]
mod tests {
    use super::super::dom::DOCUMENT;
    use super::super::parse::parse;
    use super::super::tests::markdown;
    use super::super::{Options, convert};
    use super::*;

    #[test]
    fn symbols_that_screen_readers_skip_are_labeled_in_links() {
        for (html, expected) in [
            (
                "<p>Call <a href=tel:+49401><i class=fa aria-hidden=true></i></a> or <a href=mailto:a@b.example><svg aria-hidden=true><path/></svg></a>.",
                "Call [+49401](tel:+49401) or [a@b.example](mailto:a@b.example).\n",
            ),
            (
                "<div><a href=https://c.example/a><i aria-hidden=true class=fa></i></a> <a href=https://d.example aria-label='On D'><b aria-hidden=true class=material-icons>home</b></a></div>",
                "[c.example](https://c.example/a) [On D](https://d.example)\n",
            ),
            ("<a href=/x><b aria-hidden=true><svg></svg></b><i class=sr-only>a</i></a>", "[*a*](/x)\n"),
            (
                "<p>a <a href=https://c.example/sharer?u=1 aria-label=C><i aria-hidden=true></i></a><a href=/x><i hidden></i></a>",
                "a\n",
            ),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn an_empty_link_over_a_card_is_the_link_of_its_heading() {
        for (html, expected) in [
            ("<div><h3>a</h3><p>b</p><a href=/x aria-label=c></a></div>", "### [a](/x)\n\nb"),
            ("<div><a href=/x><span></span></a><div><h3>a</h3></div></div>", "### [a](/x)"),
            ("<ul><li><a href=/x></a><h3>a</h3><p>b</p></li><li>c</li></ul>", "- ### [a](/x)\n\n  b\n\n- c"),
            ("<article><p>a</p><a href=/x title=b></a></article>", "a\n\n[b](/x)"),
            ("<section><p>a</p><a href=/x></a></section>", "[a](/x)"),
            ("<div><h3>a</h3><p>b</p><a href=/x><i aria-hidden=true></i></a></div>", "### [a](/x)\n\nb"),
            ("<div><h3>a</h3><p>b</p><a href=/x><svg></svg></a></div>", "### [a](/x)\n\nb"),
            (
                "<div><h3>a</h3><p>b</p><a href=mailto:c@d.example><i aria-hidden=true></i></a></div>",
                "### a\n\nb\n\n[c@d.example](mailto:c@d.example)",
            ),
            (
                "<div><h3>a</h3><a href=https://c.example aria-label=C><b class=icon-c></b></a></div>",
                "### a\n\n[C](https://c.example)",
            ),
            ("<div><h3>a</h3><a href=/x></a><p><a href=/x>b</a></p></div>", "### a\n\n[b](/x)"),
            ("<div><h3>a</h3><a href=/x></a><p><a href=/xy>b</a></p></div>", "### [a](/x)\n\n[b](/xy)"),
            ("<div><a href=/x></a><a href=/y></a><h3>a</h3></div>", "### a"),
            (
                "<div><a href=#x></a><h3>a</h3></div><div><a rel=prev href=/x></a><h3>b</h3></div>",
                "### a\n\n### b",
            ),
        ] {
            let page =
                format!("<!doctype html><title>t</title><main><h1>t</h1><a href=/></a><p>s</p>{html}</main>");
            assert_eq!(markdown(&page), format!("# t\n\ns\n\n{expected}\n"), "{html}");
        }
    }

    #[test]
    fn a_link_with_a_symbol_covers_a_card_only_if_it_leads_to_a_page() {
        let url = Url::parse("https://oak.example/").expect("a URL");
        for (links, expected) in [
            ("<a href=/oak></a><a href='/wishlist?add=1'><i class=fa-heart></i></a>", "### [Oak](/oak)"),
            ("<a href=/oak></a><a href=/wishlist/1><i class=fa-heart></i></a>", "### [Oak](/oak)"),
            ("<a href=/a></a><a href=/b></a><a href=/c><i></i></a>", "### Oak"),
            ("<a href=/oak#a?b><i></i></a>", "### [Oak](/oak#a?b)"),
            ("<a href='/cart/add?id=5'><i></i></a>", "### Oak"),
            ("<a href=//www.oak.example/oak><i></i></a>", "### [Oak](//www.oak.example/oak)"),
            ("<a href=//c.example/ann><i></i></a>", "### Oak\n\n[c.example](//c.example/ann)"),
        ] {
            let page = format!(
                "<!doctype html><title>t</title><main><h1>t</h1><p>s<div><h3>Oak</h3>{links}</div></main>"
            );
            let options = Options { url: Some(url.clone()), ..Options::default() };
            let markdown = convert(&page, &options).markdown.replace("https://oak.example", "");
            let markdown = markdown.replace("https:", "");
            assert_eq!(markdown, format!("# t\n\ns\n\n{expected}\n"), "{links}");
        }
    }

    #[test]
    fn only_other_sites_share_a_page() {
        let url = Url::parse("https://oak.example/a").expect("a URL");
        for (href, base, is_shared) in [
            ("https://c.example/intent/post?u=1", Some(&url), true),
            ("https://c.example/intent/post?u=1", None, true),
            ("//c.example/sharer?u=1", Some(&url), true),
            ("//c.example/sharer?u=1", None, true),
            ("/intent/post", Some(&url), false),
            ("/intent/post", None, false),
            ("https://www.oak.example/intent/post", Some(&url), false),
        ] {
            let dom = parse(&format!("<a href='{href}'>x</a>"));
            let link = dom.find(DOCUMENT, Tag::A).expect("a link");
            assert_eq!(shares_page(&dom, link, base), is_shared, "{href} {base:?}");
        }
    }

    #[test]
    fn links_through_a_redirect_lead_to_its_target() {
        for (link, expected) in [
            (
                "https://www.google.com/url?q=https://a.example/b?c%3D1&sa=D&source=editors",
                "https://a.example/b?c=1",
            ),
            (
                "https://www.google.com/url?q=javascript:alert(1)",
                "https://www.google.com/url?q=javascript:alert(1)",
            ),
            (
                "https://www.google.com/search?q=https://a.example",
                "https://www.google.com/search?q=https://a.example",
            ),
            ("HTTP://www.google.com/url?url=https://a.example", "https://a.example"),
            (
                "https://a.example/?u=https://www.google.com/url?q=https://b.example",
                "https://a.example/?u=https://www.google.com/url?q=https://b.example",
            ),
            (
                "/?u=https://www.google.com/url?q=https://b.example",
                "/?u=https://www.google.com/url?q=https://b.example",
            ),
        ] {
            assert_eq!(resolve_link(None, link).as_deref(), Some(expected));
        }
    }

    #[test]
    fn destinations_cannot_end_early() {
        assert_eq!(resolve_link(None, "a b)(c").as_deref(), Some("a%20b\\)\\(c"));
        for link in ["JavaScript:alert(1)", "java\nscript:alert(1)", "\u{1}javascript:x", " data\t:x", "\t#"]
        {
            assert_eq!(resolve_link(None, link), None, "{link:?}");
        }
        assert_eq!(resolve_link(None, " a\n b").as_deref(), Some("a%20b"));
        let base = Url::parse("https://example.com/a/").expect("a URL");
        assert_eq!(resolve_link(Some(&base), "../b?c").as_deref(), Some("https://example.com/b?c"));
    }
}
