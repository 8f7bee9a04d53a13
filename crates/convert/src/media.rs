//! Finds the addresses of images, image maps and embedded media, and writes them as Markdown.

use super::dom::{Dom, NodeId, Tag, clip, collapse, count_letters, escape_html};
use super::inline::Inline;
use super::links::{MAX_ADDRESS, quoted_title, resolve_link, text_after};
use url::Url;

/// Attributes in which lazy-loading scripts store the address of an image.
#[rustfmt::skip]
const LAZY_SOURCES: &[&str] = &[
    "data-src", "data-lazy-src", "data-original", "data-orig-file", "data-full-src", "data-large-file", "data-hi-res-src",
    "data-lazy",
];

/// Adds an image. Writes an emoji image as text, and an image without a usable address as its description.
/// Leaves out tracking pixels and copies for a lightbox.
pub(super) fn add_image(dom: &Dom, base: Option<&Url>, id: NodeId, out: &mut Inline) {
    let alt = collapse(dom.attribute(id, "alt").unwrap_or_default());
    if is_emoji_image(dom, id, &alt) {
        return out.add_text(&alt);
    }
    if is_tracking_pixel(dom, id) || is_lightbox_copy(dom, id) {
        return;
    }
    let Some(source) = image_source(dom, id).and_then(|s| resolve_link(base, &s)) else {
        return add_description(dom, id, &alt, out);
    };
    let alt = Inline::description(&alt);
    out.add_markdown(&format!("![{alt}]({source}{})", quoted_title(dom, id)));
}

/// Adds the link of an area of an image map, with the description of the area as its text. Leaves out an area
/// without a usable address, one like the area before it, and one without a description: that repeats another
/// link, or has only a tooltip.
pub(super) fn add_area(dom: &Dom, base: Option<&Url>, id: NodeId, out: &mut Inline) {
    let label = collapse(dom.first_attribute(id, &["alt", "aria-label"]).unwrap_or_default());
    let href = dom.attribute(id, "href");
    let is_repeated = dom.previous_element(id).is_some_and(|before| {
        dom.attribute(before, "href") == href && dom.attribute(before, "alt") == dom.attribute(id, "alt")
    });
    let address = href.and_then(|href| resolve_link(base, href));
    if let Some(address) = address.filter(|_| count_letters(&label) > 0 && !is_repeated) {
        out.add_space();
        out.add_link(&address, &label);
        out.add_space();
    }
}

/// The address of an image; `None` if no address is usable, or if the image is an emoji.
pub(super) fn image_address(dom: &Dom, base: Option<&Url>, id: NodeId) -> Option<String> {
    let alt = collapse(dom.attribute(id, "alt").unwrap_or_default());
    let source = image_source(dom, id).filter(|_| !is_emoji_image(dom, id, &alt))?;
    resolve_link(base, &source)
}

/// Adds the description of an image as text, with spaces between it and other words. Adds nothing if the page
/// has the same text or image beside it, or if the description says nothing.
pub(super) fn add_description(dom: &Dom, id: NodeId, alt: &str, out: &mut Inline) {
    // Jupyter writes this description for the images in the output of cells.
    let is_default = || alt == "No description has been provided for this image";
    if count_letters(alt) == 0 || is_default() || is_repeated_beside(dom, id, alt) {
        return;
    }
    out.add_space_after_word();
    out.add_text(alt);
    if text_after(dom, id).starts_with(char::is_alphanumeric) {
        out.add_space();
    }
}

/// Whether the link around an image, or one of the nodes near it in the same cell or list item, contains a
/// text that is the image's description, or another image with the same description and an address. These are
/// three nodes on each side of the image and of each of the two elements around it.
fn is_repeated_beside(dom: &Dom, id: NodeId, alt: &str) -> bool {
    // Do not look outside of a cell or a list item: another one may have the same text or image by chance.
    let is_cell = |a: &NodeId| matches!(dom.tag(*a), Tag::Td | Tag::Th | Tag::Li | Tag::Dd);
    let around = || dom.ancestors(id).take(3).take_while(|a| !is_cell(a));
    let links = around().filter(|&a| dom.tag(a) == Tag::A);
    let beside = around().flat_map(|a| dom.nodes_after(a).take(3).chain(dom.nodes_before(a).take(3)));
    // Read at most 12 nodes of each element: it may be read again for each of many images beside it.
    let mut nodes = links.chain(beside).flat_map(|node| dom.subtree(node).take(12));
    nodes.any(|node| match (dom.text(node), dom.tag(node)) {
        (Some(text), _) => clip(text, MAX_ADDRESS).split_whitespace().eq(alt.split_whitespace()),
        (None, Tag::Img) if node != id => {
            dom.attribute(node, "alt")
                .is_some_and(|other| other.split_whitespace().eq(alt.split_whitespace()))
                && image_source(dom, node).is_some()
        }
        _ => false,
    })
}

/// The address of an image: from an attribute in [`LAZY_SOURCES`], else from `src`, else the largest in
/// `srcset` or in the first `<source>` of its `<picture>`, else from [`other_lazy_source`], if `src` is
/// missing or may be a placeholder. Such a `src`, or one with a class such as `lazy`, comes last. Ignores
/// known placeholders ([`is_placeholder_image`]).
fn image_source(dom: &Dom, id: NodeId) -> Option<String> {
    let plain = dom.first_attribute(id, &["src"]).filter(|s| !is_placeholder_image(s));
    let mut lazy = LAZY_SOURCES.iter().filter_map(|name| dom.first_attribute(id, &[name]));
    let lazy = lazy.find(|value| is_image_address(value));
    let set = || {
        let own = dom.first_attribute(id, &["srcset", "data-srcset", "data-lazy-srcset", "srcSet"]);
        let in_picture = || {
            dom.parent(id).filter(|&p| dom.tag(p) == Tag::Picture)?;
            let before = dom.nodes_before(id).filter(|&c| dom.element(c).is_some());
            let sources = before.take_while(|&c| dom.tag(c) == Tag::Source);
            sources.filter_map(|s| dom.first_attribute(s, &["srcset", "data-srcset"])).last()
        };
        own.or_else(in_picture).and_then(largest_candidate)
    };
    let is_doubtful = plain.is_some_and(may_be_placeholder);
    let is_small = dom.has_class_in(id, &["lazy", "lazyload"]) || is_doubtful;
    let other = || other_lazy_source(dom, id).filter(|_| plain.is_none() || is_doubtful);
    let plain = || plain.map(str::to_owned);
    lazy.map(str::to_owned)
        .or_else(|| plain().filter(|_| !is_small))
        .or_else(set)
        .or_else(other)
        .or_else(plain)
}

/// The first address ([`is_image_address`]) in an attribute, other than `src`, whose name ends with `src`, or
/// in a `data-` attribute with the address of an image file. Each lazy-loading script has its own, such as
/// `nitro-lazy-src` and `data-echo`. Of the `data-` attributes that do not end with `src`, skips those for
/// other images and for pages, whose names contain a word such as `zoom` or `link`.
fn other_lazy_source(dom: &Dom, id: NodeId) -> Option<String> {
    const OTHERS: [&str; 5] = ["zoom", "hover", "page", "resource", "link"];
    const FILES: [&str; 7] = [".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".svg"];
    let is_file = |value: &str| {
        let path = value.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        FILES.iter().any(|end| path.ends_with(end))
    };
    let attributes = dom.element(id)?.attributes.iter();
    let mut addresses = attributes.filter(|attribute| {
        let (name, value) = (&*attribute.name.local, attribute.value.trim());
        let is_named = name.ends_with("src") && name != "src";
        let is_data =
            || name.starts_with("data-") && is_file(value) && !OTHERS.iter().any(|o| name.contains(o));
        (is_named || is_data()) && !value.contains(' ') && is_image_address(value)
    });
    addresses.next().map(|a| a.value.trim().to_owned())
}

/// Whether the value of an attribute for lazy loading is an address, and neither a switch such as `true`, a
/// template such as `{src}`, nor a placeholder.
fn is_image_address(value: &str) -> bool {
    value.contains(['/', '.']) && !value.starts_with('{') && !is_placeholder_image(value)
}

/// Whether an image's address is that of a placeholder: a `data:` or `about:` URL, or a file such as
/// `blank.gif`.
fn is_placeholder_image(source: &str) -> bool {
    source.starts_with("data:")
        || source.starts_with("about:")
        || source.ends_with("/blank.gif")
        || source.ends_with("/spacer.gif")
}

/// Whether an address may be that of a placeholder: it contains `placeholder`, or its file has a name such as
/// `blank` or `pixel`. [`image_source`] returns such an address only if the image has no other.
fn may_be_placeholder(source: &str) -> bool {
    #[rustfmt::skip]
    const NAMES: [&str; 11] =
        ["1x1", "blank", "dot", "gray", "grey", "lazy", "loading", "pixel", "spacer", "trans", "transparent"];
    let path = source.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    source.contains("placeholder") || name.split('.').next().is_some_and(|name| NAMES.contains(&name))
}

/// The candidate in a `srcset` with the largest width or density, which is 1 if it cannot be read. Ignores
/// placeholders; `None` if no candidate is left.
fn largest_candidate(set: &str) -> Option<String> {
    let mut best: Option<(f64, &str)> = None;
    let mut rest = set.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (address, after) = (rest[..end].trim_end_matches(','), &rest[end..]);
        let descriptor_end =
            if rest[..end].ends_with(',') { 0 } else { after.find(',').unwrap_or(after.len()) };
        // A candidate may have a height besides its width, as in `100w 50h`.
        let mut descriptors = after[..descriptor_end].split_ascii_whitespace();
        let size = descriptors.find_map(|d| d.strip_suffix(['w', 'x'])?.parse().ok()).unwrap_or(1.0);
        if !address.is_empty() && !is_placeholder_image(address) && best.is_none_or(|(b, _)| size > b) {
            best = Some((size, address));
        }
        rest = after[descriptor_end..].trim_start_matches([',', ' ', '\n', '\t', '\r']);
    }
    best.map(|(_, address)| address.to_owned())
}

/// Whether an image shows an emoji: its class says so and its description is short, or its description has
/// only characters from U+1F300 on.
fn is_emoji_image(dom: &Dom, id: NodeId, alt: &str) -> bool {
    let is_marked = dom.has_class_in(id, &["emoji", "wp-smiley", "gemoji"]);
    !alt.is_empty() && (is_marked && alt.chars().count() <= 8 || alt.chars().all(|c| c >= '\u{1F300}'))
}

/// Whether an attribute says that the image is at most one pixel wide or high, like images that track
/// visitors or make space, and nothing says the contrary: a description, a size in `style`, `sizes` or
/// `srcset`.
fn is_tracking_pixel(dom: &Dom, id: NodeId) -> bool {
    let is_tiny = |size: &str| matches!(size.trim(), "0" | "1" | "1px" | "0px");
    let is_thin =
        |name| dom.attribute(id, name).is_some_and(is_tiny) && dom.style(id, name).is_none_or(is_tiny);
    (is_thin("width") || is_thin("height")) && dom.first_attribute(id, &["alt", "sizes", "srcset"]).is_none()
}

/// Whether the element before this image is a thumbnail that links to the image.
fn is_lightbox_copy(dom: &Dom, id: NodeId) -> bool {
    let link = dom.previous_element(id).filter(|&p| dom.tag(p) == Tag::A && dom.find(p, Tag::Img).is_some());
    link.and_then(|link| dom.first_attribute(link, &["href"]))
        .is_some_and(|href| dom.first_attribute(id, &["src"]) == Some(href))
}

/// The text that a form control shows and visitors cannot change: that of a `readonly` `<textarea>` or
/// `<input>` for text or a URL, or the label of an `<input>` that is a button, except to reset. `None` for
/// other controls, for empty texts, and for controls that are hidden from screen readers or in `<pre>`, which
/// hold copies for scripts.
pub(super) fn control_text(dom: &Dom, id: NodeId) -> Option<String> {
    let is_readonly = dom.has_attribute(id, "readonly");
    let text = match (dom.tag(id), dom.attribute(id, "type").unwrap_or("text")) {
        (Tag::Textarea, _) if is_readonly => dom.text_content(id),
        (Tag::Input, "text" | "url") if is_readonly => dom.attribute(id, "value")?.to_owned(),
        (Tag::Input, "submit" | "button") => dom.attribute(id, "value")?.to_owned(),
        (Tag::Input, "image") => dom.attribute(id, "alt")?.to_owned(),
        _ => return None,
    };
    let is_copy = |a| dom.attribute(a, "aria-hidden") == Some("true") || dom.tag(a) == Tag::Pre;
    (!text.trim().is_empty() && !dom.ancestors(id).any(is_copy)).then(|| text.trim().to_owned())
}

/// Whether elements with this tag embed media or another page by its address, unlike `<canvas>`. Their
/// content describes the media, or is for browsers that cannot show it.
pub(super) fn is_embedded(tag: Tag) -> bool {
    matches!(tag, Tag::Video | Tag::Audio | Tag::Iframe | Tag::Frame | Tag::Embed | Tag::Object)
}

/// Whether an element embeds a file for Flash, Java or Silverlight: by its `type` or, for Flash only, by an
/// address that ends with `.swf`. Browsers no longer run these and show the fallback.
pub(super) fn is_for_plugin(dom: &Dom, id: NodeId) -> bool {
    let kind = dom.attribute(id, "type").unwrap_or_default();
    let address = embedded_source(dom, id).and_then(|source| source.split(['?', '#']).next());
    ["application/x-shockwave-flash", "application/x-java", "application/x-silverlight"]
        .iter()
        .any(|plugin| kind.starts_with(plugin))
        || address.is_some_and(|address| address.ends_with(".swf"))
}

/// The address of a video, an audio file, a framed page or an object: from its `src`, an attribute of
/// lazy-loading scripts or `data`, else from the first `<source>` in it. Ignores placeholders.
pub(super) fn embedded_source(dom: &Dom, id: NodeId) -> Option<&str> {
    let names = ["src", "data-src", "data-lazy-src", "data-litespeed-src", "data"];
    let is_address = |source: &&str| !is_placeholder_image(source);
    let mut own = names.iter().filter_map(|name| dom.first_attribute(id, &[name]));
    own.find(is_address).or_else(|| {
        let source = dom.find(id, Tag::Source)?;
        names.iter().filter_map(|name| dom.first_attribute(source, &[name])).find(is_address)
    })
}

/// Adds the link to a video, an audio file, a framed page or an object ([`embedded_link`]). Adds nothing and
/// returns `false` if there is none.
pub(super) fn add_embedded(dom: &Dom, base: Option<&Url>, id: NodeId, out: &mut Inline) -> bool {
    let link = embedded_link(dom, base, id);
    if let Some((address, label)) = &link {
        out.add_link(address, label);
    }
    link.is_some()
}

/// The address and the text of the link to a video, an audio file, a framed page or an object; for a player
/// of YouTube, to the page of its video. The text is the title, the label or the like of the element, or else
/// its kind, such as "Video". `None` if the address is missing or harmful.
pub(super) fn embedded_link<'d>(dom: &'d Dom, base: Option<&Url>, id: NodeId) -> Option<(String, &'d str)> {
    let address = embedded_source(dom, id).and_then(|source| resolve_link(base, source))?;
    let address = video_page_url(&address).unwrap_or(address);
    let name = match dom.tag(id) {
        Tag::Video => "Video",
        Tag::Audio => "Audio",
        _ if ["youtube.com", "youtu.be/", "vimeo.com"].iter().any(|host| address.contains(host)) => "Video",
        Tag::Iframe | Tag::Frame => "Embedded page",
        _ => "Embedded content",
    };
    let other_name = || match dom.tag(id) {
        Tag::Frame => dom.first_attribute(id, &["name"]),
        Tag::Object => dom.first_attribute(dom.find(id, Tag::Img)?, &["alt"]),
        _ => None,
    };
    let label = dom.first_attribute(id, &["title", "aria-label"]).or_else(other_name).unwrap_or(name);
    Some((address, label))
}

/// Writes the link to embedded media ([`embedded_link`]) as inline HTML: inside of a link, only its text.
/// `None` for other elements, and without a usable address.
pub(super) fn embedded_as_html(dom: &Dom, base: Option<&Url>, id: NodeId) -> Option<String> {
    let (address, label) = embedded_link(dom, base, id).filter(|_| is_embedded(dom.tag(id)))?;
    let (address, label) = (escape_html(&address), escape_html(label));
    let is_in_link = dom.is_in(id, &[Tag::A]);
    Some(if is_in_link { label } else { format!(" <a href=\"{address}\">{label}</a> ") })
}

/// Writes an image as inline HTML. An emoji or an image without a usable address becomes its description.
pub(super) fn image_as_html(dom: &Dom, base: Option<&Url>, id: NodeId) -> String {
    let alt = escape_html(dom.attribute(id, "alt").unwrap_or_default());
    match image_address(dom, base, id) {
        Some(source) => format!("<img src=\"{}\" alt=\"{alt}\">", escape_html(&source)),
        None => alt,
    }
}

/// Converts the address of an embedded YouTube player to that of the page of its video, playlist or live
/// stream. Keeps the playlist and the start of a video. `None` for other addresses.
fn video_page_url(address: &str) -> Option<String> {
    let (_, rest) = address
        .split_once("youtube.com/embed")
        .or_else(|| address.split_once("youtube-nocookie.com/embed"))?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let id = |text: &str| -> Option<String> {
        let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        Some(text.chars().take_while(is_part).collect()).filter(|id: &String| !id.is_empty())
    };
    let parameter = |name: &str| {
        let mut pairs = query.split('&').map(|pair| pair.strip_prefix("amp;").unwrap_or(pair));
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).and_then(id)
    };
    let page = match path.strip_prefix('/').and_then(id).as_deref() {
        Some("live_stream") => format!("channel/{}/live", parameter("channel")?),
        None | Some("videoseries") => format!("playlist?list={}", parameter("list")?),
        Some(video) => {
            let list = parameter("list").map(|list| format!("&list={list}"));
            let start = parameter("start").map(|start| format!("&t={start}"));
            format!("watch?v={video}{}{}", list.unwrap_or_default(), start.unwrap_or_default())
        }
    };
    Some(format!("https://www.youtube.com/{page}"))
}

/// Whether an address is that of a video or a playlist on YouTube or Vimeo, or of its player. It must begin
/// with `http`, `https` or `//` and have no white space inside.
pub(super) fn is_video_page(address: &str) -> bool {
    let address = address.trim();
    let rest = ["https://", "http://", "//"].iter().find_map(|scheme| address.strip_prefix(scheme));
    rest.filter(|rest| !rest.contains(char::is_whitespace)).is_some_and(|rest| {
        let rest = rest.strip_prefix("www.").or_else(|| rest.strip_prefix("m.")).unwrap_or(rest);
        let is_vimeo = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
        VIDEO_PAGES.iter().any(|page| rest.len() > page.len() && rest.starts_with(page))
            || rest.strip_prefix("vimeo.com/").is_some_and(is_vimeo)
    })
}

/// Prefixes of the addresses of videos and their players, without the scheme and without `www.` or `m.`.
#[rustfmt::skip]
const VIDEO_PAGES: [&str; 7] = [
    "youtube.com/watch?", "youtube.com/embed/", "youtube.com/shorts/", "youtube.com/playlist?",
    "youtube-nocookie.com/embed/", "youtu.be/", "player.vimeo.com/video/",
];

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;
    use super::*;

    #[test]
    fn chooses_the_real_source_of_an_image() {
        for html in [
            "<img src=data:image/gif;base64,R0 data-src=/a.png alt=x>",
            "<img src=/a.png alt=x>",
            "<picture><source srcset='/s.png 100w, /a.png 800w'><img alt=x></picture>",
            "<img srcset='/a.png 2x, /b.png 1x' alt=x>",
            "<img srcset='/b.png 60w 50h, /a.png 100w 40h' alt=x>",
            "<img srcset='/b.png 50h 60w, /a.png 40h 100w' alt=x>",
            "<img alt=x nitro-lazy-src=/a.png>",
            "<img src=/blank.gif data-wpfc-original-src=/a.png alt=x>",
            "<img src=/a.png data-hover-src=/b.png class=lazyload alt=x>",
            "<img src=/a.png data-lazy=true alt=x>",
            "<img src=/b.png data-original=1 data-lazy-src=/a.png alt=x>",
            "<img src=/blank.png data-actualsrc=/a.png alt=x>",
            "<img src=/loading.gif?v=1 data-page=/c.png data-echo=/a.png alt=x>",
            "<img src=/1x1.trans.gif data-lazy-srcset='/b.png 300w, /a.png 900w' alt=x>",
            "<img src=/a.png data-backup=/b.png data-zoom-src=/c.png alt=x>",
        ] {
            assert_eq!(markdown(html), "![x](/a.png)\n", "{html}");
        }
        for (html, is_content) in [
            ("<img src=/x width=1 height=1 alt>", false),
            ("<img src=/x height=0>", false),
            ("<img src=/x width=1 height=1 style='width: 1px; border: 0'>", false),
            ("<img src=/x width=1 height=90>", false),
            ("<img src=/x style='width: 0; min-width: 100%'>", true),
            ("<img src=/x width=0 height=0 sizes=100vw>", true),
            ("<img src=/x width=0 height=0 srcset='/x 2x'>", true),
            ("<img src=/x width=0 height=0 style='width: 100%; height: auto'>", true),
        ] {
            assert_eq!(markdown(html), if is_content { "![](/x)\n" } else { "" }, "{html}");
        }
        assert_eq!(markdown("<img src=/x width=1 height=1 alt=y>"), "![y](/x)\n");
        // Without another address, the image is what visitors see.
        for name in ["loading.gif", "placeholder.png"] {
            assert_eq!(markdown(&format!("<img src=/{name} data-id=5 alt=y>")), format!("![y](/{name})\n"));
        }
        let lightbox = "<div><a href=/large.png><img src=/small.png></a><img src=/large.png></div>";
        assert_eq!(markdown(lightbox), "[![](/small.png)](/large.png)\n");
    }

    #[test]
    fn areas_of_an_image_map_are_links() {
        let map = |areas: &str| format!("<p><img src=/m alt=Oslo usemap=#m><map name=m>{areas}</map>");
        for (areas, expected) in [
            ("<area href=/a alt=North><area href=/b alt='S *x*'>", " [North](/a) [S \\*x\\*](/b)"),
            (
                "<area href=/a alt=N coords=1><area href=/a alt=N coords=2><area href=/b aria-label=S>",
                " [N](/a) [S](/b)",
            ),
            ("<area href=/a alt=''><area alt=b><area href=javascript:x alt=c><area href=/d title=d>", ""),
        ] {
            assert_eq!(markdown(&map(areas)), format!("![Oslo](/m){expected}\n"), "{areas}");
        }
    }

    #[test]
    fn images_and_links_without_content_show_their_labels() {
        for (html, expected) in [
            ("<img src=data:image/png;base64,R0 alt='a *b*'>", "a \\*b\\*\n"),
            ("<a href=/x><img class=lazy src=blob:1 alt='a b'></a>", "[a b](/x)\n"),
            ("<p>a<img src=data:, alt=b><b>c</b><img src=data:, alt=d>.", "a b **c** d.\n"),
            ("<a href=/x><b><img src=data:, alt=a></b><i><u>a</u></i></a>", "[*a*](/x)\n"),
            ("<p><img src=data:, alt='a b'><span><img src=/c alt='a b'></span>", "![a b](/c)\n"),
            ("<p>a<img src=data:, alt=...>", "a\n"),
            (
                "<table><tr><th>a<th>b<tr><td>c<td><i role=img aria-label='d|e'></i></table>",
                "| a | b |\n| --- | --- |\n| c | d\\|e |\n",
            ),
            (
                "<table><tr><th>a<th>b<tr><td>Yes<td><img src=data:, alt=Yes></table>",
                "| a | b |\n| --- | --- |\n| Yes | Yes |\n",
            ),
            ("<a href=/x aria-label='a b'><svg><path/></svg></a>", "[a b](/x)\n"),
            ("<canvas role=img aria-label='a b'>c</canvas>", "a b\n"),
            (
                "<a href=/x title=a><i class=icon></i></a><a href=/y><svg><title>b</title></svg></a>",
                "[a](/x) [b](/y)\n",
            ),
            ("<a href=/x><i aria-label=a></i></a>", "[a](/x)\n"),
            ("<a href=/x aria-label=a><div><svg></svg></div></a>", "[a](/x)\n"),
            ("<a href=/x aria-label=a><svg></svg>b</a>", "[b](/x)\n"),
            (
                "<details><summary><a href=/x><img src=data:, alt=a></a></summary>b</details>",
                "<details>\n<summary><a href=\"/x\">a</a></summary>\n\nb\n\n</details>\n",
            ),
            (
                "<p>Mail: <a href=mailto:a@b.example?subject=c><i></i></a>",
                "Mail: [a@b.example](mailto:a@b.example?subject=c)\n",
            ),
            ("<ul><li><a href=tel:+49401><svg><path/></svg></a></ul>", "- [+49401](tel:+49401)\n"),
            (
                "<a href=https://www.c.example/in/a><img src=data:, alt></a>",
                "[c.example](https://www.c.example/in/a)\n",
            ),
            ("<p><a href=tel:+49401><i></i></a> +49401", "+49401\n"),
            ("<p>a<a href=https://c.example/share?u=1><i></i></a>", "a\n"),
            (
                "<p>a <a href=https://shares.example/><i></i></a>",
                "a [shares.example](https://shares.example/)\n",
            ),
            (
                "<a href=https://c.example/a><i></i></a><b><a href=https://c.example/a>a</a></b>",
                "**[a](https://c.example/a)**\n",
            ),
            ("<div role=img aria-label='Sales rise to 9'></div><p>b", "Sales rise to 9\n\nb\n"),
            ("<p>a <svg role=img aria-label='Plan of b'><path/></svg>", "a Plan of b\n"),
            ("<p>a <span role=img aria-label='Oak tree'>🌳</span>", "a 🌳\n"),
            ("<h2>a<i role=img aria-label='b c'></i></h2>", "## a\n"),
            ("<amp-img src=/a.png alt=b></amp-img>", "![b](/a.png)\n"),
            ("<p>a</p><textarea readonly>&lt;b>\nc</textarea>", "a\n\n`<b>`  \n`c`\n"),
            ("<p>Run <input readonly value='npm i'> now", "Run `npm i` now\n"),
            ("<p>a<input type=submit value='Book now'>", "a Book now\n"),
            ("<p>a<input type=image src=/b.png alt='Book now'>", "a Book now\n"),
            ("<p>a<textarea>b</textarea><input value=c><input type=hidden readonly value=d>", "a\n"),
            ("<p>a<textarea readonly aria-hidden=true>b</textarea>", "a\n"),
            // No label is shown in headings, for sharing, editing or copying, and for links over a whole
            // card.
            ("<h2>a<a href=/x aria-label='Link'><svg></svg></a></h2>", "## a\n"),
            (
                "<p>a <a href=/edit/x title=Edit><svg></svg></a><a href=/x title='Share on X'><svg></svg></a>",
                "a\n",
            ),
            ("<h2>a<a class=anchor href=#a><img src=data:, alt=Link></a></h2>", "## a\n"),
            ("<p>a <a href=#a aria-label='Link'><svg></svg></a>", "a\n"),
            ("<p>a <button><img src=data:, alt=Copy></button>", "a\n"),
            ("<a href=/x aria-label=a></a><a href=/x>b</a>", "[b](/x)\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn descriptions_and_titles_are_text() {
        for (html, expected) in [
            ("<img src=a alt='C:\\'>", "![C:\\\\](a)\n"),
            (
                "<img src=a alt='*b* [c](d) `e` &lt;f> &amp;amp; x|y'>",
                "![\\*b\\* \\[c\\](d) \\`e\\` \\<f> \\&amp; x\\|y](a)\n",
            ),
            ("<a href=a title='b\\ \"c\" &amp;amp;'>d</a>", "[d](a \"b\\\\ \\\"c\\\" &amp;amp;\")\n"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn media_become_links() {
        let html = "<iframe src=https://www.youtube.com/embed/abc?x=1 title=Talk></iframe>";
        assert_eq!(markdown(html), "[Talk](https://www.youtube.com/watch?v=abc)\n");
        for (html, expected) in [
            ("<video><source src=/a.mp4></video>", "[Video](/a.mp4)\n"),
            ("<video aria-label=b><source data-src=/a.mp4></video>", "[b](/a.mp4)\n"),
            ("<iframe src=about:blank data-lazy-src=/a></iframe>", "[Embedded page](/a)\n"),
            (
                "<iframe data-litespeed-src=/a src=about:blank></iframe><noscript><iframe src=/a></iframe></noscript>",
                "[Embedded page](/a)\n",
            ),
            ("<div></div><noscript><iframe src=/a></iframe></noscript>", "[Embedded page](/a)\n"),
            ("<p>b<noscript><iframe src=/a height=0 width=0></iframe></noscript>", "b\n"),
            ("<p>b<noscript><iframe src=/a style=display:none></iframe></noscript>", "b\n"),
            ("<video><source src=/a.mp4><p>b</p></video>c", "[Video](/a.mp4)\n\nc\n"),
            ("<ul><li><audio src=/a.mp3><div>b</div></audio></ul>", "- [Audio](/a.mp3)\n"),
            ("<object data=/a.pdf title=c>b</object>", "[c](/a.pdf)\n"),
            ("<object data=/a.svg><img src=/a.png alt=b></object>", "[b](/a.svg)\n"),
            ("<object data=/a.pdf><p>b</object>", "[Embedded content](/a.pdf)\n"),
            (
                "<object data=/a.swf type=application/x-shockwave-flash><p>b</object>",
                "[Embedded content](/a.swf)\n\nb\n",
            ),
            (
                "<object data=/old.swf><p>Call us: 123.</object>",
                "[Embedded content](/old.swf)\n\nCall us: 123.\n",
            ),
            ("<object data=/a type=application/x-java-applet><p>b</object>", "[Embedded content](/a)\n\nb\n"),
            ("<object>b <embed src=/a.pdf></object>", "b [Embedded content](/a.pdf)\n"),
            ("<video><p>b</video>", "b\n"),
            (
                "<details><summary>b<video src=/a?b&c title='d<'>e</video></summary>f</details>",
                "<details>\n<summary>b <a href=\"/a?b&amp;c\">d&lt;</a></summary>\n\nf\n\n</details>\n",
            ),
            (
                "<details><summary><a href=/x><audio src=/a></audio></a><object>b</object></summary>c</details>",
                "<details>\n<summary><a href=\"/x\">Audio</a>b</summary>\n\nc\n\n</details>\n",
            ),
            (
                "<!doctype html><title>t</title><frameset><frameset><frame src=/a title=b><frame src=/c name=d>\
                 </frameset><frame src=/e><noframes><p>f</noframes></frameset>",
                "# t\n\n[b](/a)\n\n[d](/c)\n\n[Embedded page](/e)\n",
            ),
            (
                "<table><tr><th>a<th>b<tr><td>c<td><embed src=/d></table>",
                "| a | b |\n| --- | --- |\n| c | [Embedded content](/d) |\n",
            ),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn players_become_the_pages_of_their_videos() {
        let page = |rest: &str| format!("https://www.youtube.com/{rest}");
        for (player, expected) in [
            ("//www.youtube-nocookie.com/embed/a-b_c", Some(page("watch?v=a-b_c"))),
            ("https://www.youtube.com/embed/a?start=90&list=PL2&x=1", Some(page("watch?v=a&list=PL2&t=90"))),
            ("https://www.youtube.com/embed/videoseries?list=PL1", Some(page("playlist?list=PL1"))),
            ("https://www.youtube.com/embed?listType=playlist&amp;list=PL1", Some(page("playlist?list=PL1"))),
            ("https://www.youtube.com/embed/live_stream?channel=UC1", Some(page("channel/UC1/live"))),
            ("https://www.youtube.com/embed/live_stream", None),
            ("https://www.youtube.com/embed/?list=", None),
            ("https://a.example/embed/b", None),
        ] {
            assert_eq!(video_page_url(player), expected, "{player}");
        }
    }
}
