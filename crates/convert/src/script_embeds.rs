//! Finds the videos and pages that scripts embed where the HTML has no `<iframe>`, and adds the element that
//! the script would add.

use super::dom::{DOCUMENT, Dom, NodeId, Tag};
use super::media::{embedded_source, is_embedded, is_video_page};
use super::parse::parse;
use serde_json::Value;

/// Maximum length in bytes of an attribute that is searched for an address.
const MAX_ATTRIBUTE_BYTES: usize = 20_000;

/// Maximum number of nodes that are searched for the link with the page's canonical address.
const MAX_HEAD_NODES: usize = 2000;

/// Maximum number of nodes in an element that are searched for media and links.
const SEARCHED_NODES: usize = 60;

/// Attributes that may hold the id or the address of a video on YouTube or Vimeo.
#[rustfmt::skip]
const VIDEO_IDS: [&str; 9] = [
    "videoid", "video-id", "data-videoid", "data-video-id", "data-youtube-id", "data-vimeo-id", "data-plyr-embed-id",
    "data-embed", "data-id",
];

/// Maximum number of letters and digits in the text of a player, such as "Play video". The settings of an
/// element with more text are not read.
const MAX_LABEL: usize = 20;

/// Extensions of images, scripts and style sheets, which visitors neither open as a page nor play.
#[rustfmt::skip]
const PARTS_OF_PAGES: [&str; 10] = [
    ".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".svg", ".js", ".mjs", ".css",
];

/// Attributes with the title of a video or a page.
const TITLES: [&str; 6] = ["title", "aria-label", "playlabel", "data-title", "data-iframe-title", "alt"];

/// Scripts that write an embedded page: how their addresses begin, after the scheme. The address of the page
/// is that of the script without `.js`.
const PAGE_SCRIPTS: [&str; 3] = ["gist.github.com/", "asciinema.org/a/", "gitlab.com/-/snippets/"];

/// A page or media file that a script embeds: the name of the HTML element for it, its address, and its
/// title, if it has one.
struct Embed {
    element: &'static str,
    address: String,
    title: Option<String>,
}

/// The address in the page's first `<link rel="canonical">`. `None` if it is beyond the first
/// [`MAX_HEAD_NODES`] nodes or has no address.
pub(super) fn canonical_address(dom: &Dom) -> Option<&str> {
    let is_canonical =
        |&id: &NodeId| dom.tag(id) == Tag::Link && dom.attribute(id, "rel") == Some("canonical");
    let link = dom.descendants(DOCUMENT).take(MAX_HEAD_NODES).find(is_canonical)?;
    dom.attribute(link, "href")
}

/// Adds an `<iframe>`, `<video>` or `<audio>` for each video or page that a script embeds: as the last child
/// of the element that names its address, or before the script. Leaves out those before a `<noscript>`, which
/// has the same content, those of elements that contain embedded content or a link, and the address of the
/// page itself, which widgets have for other purposes. Of elements inside each other, the innermost counts.
pub(super) fn show_embeds(dom: &mut Dom) {
    let found: Vec<(NodeId, Embed)> =
        dom.descendants(dom.body()).filter_map(|id| Some((id, find_embed(dom, id)?))).collect();
    let own = canonical_address(dom).map(str::to_owned);
    // Page builders repeat the address of a video in the elements around the player.
    let is_inside = |&(inner, _): &(NodeId, Embed), outer| dom.ancestors(inner).any(|a| a == outer);
    let holds_next = |at: usize| found.get(at + 1).is_some_and(|next| is_inside(next, found[at].0));
    let is_repeated: Vec<bool> = (0..found.len()).map(holds_next).collect();
    for ((id, embed), is_repeated) in found.into_iter().zip(is_repeated) {
        if is_repeated || own.as_ref() == Some(&embed.address) {
            continue;
        }
        let added = dom.push_element(embed.element, &[("src", &embed.address)]);
        if let Some(title) = embed.title {
            dom.set_attribute(added, "title", &title);
        }
        if dom.tag(id) == Tag::Script {
            dom.insert_before(id, added);
        } else {
            dom.append(id, added);
        }
    }
}

/// Reads what a script embeds in an element, or a `<script>` beside itself. `None` if this is nothing. Except
/// for scripts, also `None` if a `<noscript>` follows the element, or if its first [`SEARCHED_NODES`] nodes
/// have embedded content, a `<noscript>` or a link.
fn find_embed(dom: &Dom, id: NodeId) -> Option<Embed> {
    let element = dom.element(id)?;
    if element.attributes.is_empty() || is_embedded(dom.tag(id)) {
        return None;
    }
    if dom.tag(id) == Tag::Script {
        return page_of_script(dom.attribute(id, "src")?);
    }
    let title = || dom.first_attribute(id, &TITLES).map(str::to_owned);
    let embed = |element, address| Embed { element, address, title: title() };
    let found = player_page(dom, id)
        .or_else(|| video_by_id(dom, id))
        .map(|address| embed("iframe", address))
        .or_else(|| own_address(dom, id).map(|(element, address)| embed(element, address)))
        .or_else(|| embedded_html(dom, id))
        .or_else(|| video_in_settings(dom, id).map(|address| embed("iframe", address)))?;
    let has_fallback = dom.next_element(id).is_some_and(|next| dom.tag(next) == Tag::Noscript);
    let is_shown = |d: NodeId| {
        is_embedded(dom.tag(d))
            || dom.tag(d) == Tag::Noscript
            || dom.tag(d) == Tag::A && dom.first_attribute(d, &["href"]).is_some_and(|href| href != "#")
    };
    (!has_fallback && !dom.descendants(id).take(SEARCHED_NODES).any(is_shown)).then_some(found)
}

/// The page that a script of a host in [`PAGE_SCRIPTS`] embeds, by the address of the script; `None` for
/// other scripts. Its title is the name of a file, if the address selects one.
fn page_of_script(source: &str) -> Option<Embed> {
    let (scheme, rest) = source.trim().split_once("//")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let page = path.strip_suffix(".js")?;
    let is_page = PAGE_SCRIPTS.iter().any(|host| page.len() > host.len() && page.starts_with(host));
    let title = query.split('&').find_map(|pair| pair.strip_prefix("file=")).map(str::to_owned);
    let scheme = if scheme.is_empty() { "https:" } else { scheme };
    is_page.then(|| Embed { element: "iframe", address: format!("{scheme}//{page}"), title })
}

/// The URL of the player for a video on Wistia or Mux, from the video's id in an attribute or a class.
fn player_page(dom: &Dom, id: NodeId) -> Option<String> {
    let (host, video) = match dom.name(id) {
        "mux-player" => ("player.mux.com", dom.first_attribute(id, &["playback-id"])?),
        "wistia-player" => ("fast.wistia.net/embed/iframe", dom.first_attribute(id, &["media-id"])?),
        _ => {
            let video = dom.classes(id).find_map(|class| class.strip_prefix("wistia_async_"))?;
            ("fast.wistia.net/embed/iframe", video)
        }
    };
    video.bytes().all(|b| b.is_ascii_alphanumeric()).then(|| format!("https://{host}/{video}"))
}

/// The address of a video on YouTube or Vimeo whose id or address is in an attribute. An id counts only if
/// the element's name, class or provider names the player, and not in `data-id` of `<li>`, `<i>` and
/// `<span>`, where page builders and menus have ids of their own.
fn video_by_id(dom: &Dom, id: NodeId) -> Option<String> {
    let value = dom.first_attribute(id, &VIDEO_IDS)?;
    let provider = dom.first_attribute(id, &["data-plyr-provider", "data-provider", "provider"]);
    let names = dom.classes(id).take(20).chain([dom.name(id)]).chain(provider);
    let player = names
        .map(str::to_ascii_lowercase)
        .find_map(|name| ["youtube", "vimeo"].into_iter().find(|player| name.contains(player)));
    let is_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if is_video_page(value) {
        return Some(value.to_owned());
    }
    let is_own_id = matches!(dom.tag(id), Tag::Li | Tag::I | Tag::Span)
        && dom.first_attribute(id, &VIDEO_IDS) == dom.attribute(id, "data-id");
    match player? {
        "youtube" if !is_own_id && value.len() == 11 && value.chars().all(is_id) => {
            Some(format!("https://www.youtube.com/watch?v={value}"))
        }
        "vimeo"
            if !is_own_id && (6..=20).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit()) =>
        {
            Some(format!("https://vimeo.com/{value}"))
        }
        _ => None,
    }
}

/// The address in an attribute of an element that has no text and no image, and the name of the element to
/// add: `src` of a custom element such as `<amp-video>`, `url` of an `<oembed>`, `href` of a link for
/// Iframely, and the absolute address of a `<div>` whose class says that it becomes a player or a widget, but
/// not one for sharing, comments, backgrounds or captchas. Ignores images, scripts and style sheets, and
/// animations without a title, which are decoration.
fn own_address(dom: &Dom, id: NodeId) -> Option<(&'static str, String)> {
    let is_empty = || {
        dom.subtree(id).take(SEARCHED_NODES).all(|d| match dom.tag(d) {
            Tag::Text => dom.text(d).is_none_or(|text| text.trim().is_empty()),
            tag => tag != Tag::Img,
        })
    };
    let is_animation = |address: &str| address.ends_with(".json") || address.ends_with(".lottie");
    let is_titled = || dom.first_attribute(id, &TITLES).is_some();
    let is_address = |address: &str| {
        address.contains(['/', '.'])
            && !address.contains(char::is_whitespace)
            && !is_part_of_page(address)
            && (!is_animation(address) || is_titled())
    };
    let address_in = |names: &[&str]| {
        dom.first_attribute(id, names).filter(|a| is_address(a) && is_empty()).map(str::to_owned)
    };
    match (dom.tag(id), dom.name(id)) {
        (_, "oembed") => Some(("iframe", address_in(&["url"])?)),
        // A script of Iframely replaces an empty link with the page to which the link leads.
        (Tag::A, _) => {
            dom.attribute(id, "data-iframely-url")?;
            Some(("iframe", address_in(&["href"])?))
        }
        (Tag::Other, name) => {
            let element = match name.rsplit_once('-')?.1 {
                "video" => "video",
                "audio" => "audio",
                "iframe" | "player" | "viewer" | "md" => "iframe",
                _ => return None,
            };
            Some((element, address_in(&["src"])?))
        }
        (Tag::Div, _) => {
            let address = address_in(&["data-url", "data-src", "data-href"])?;
            let words: Vec<&str> =
                dom.classes(id).take(20).flat_map(|class| class.split(['-', '_'])).collect();
            let is_widget =
                words.iter().any(|w| matches!(*w, "embed" | "widget" | "player" | "video" | "fb"));
            #[rustfmt::skip]
            let is_other = words.iter().any(|w| matches!(
                *w, "share" | "sharing" | "social" | "like" | "comments" | "bg" | "background" | "captcha" | "recaptcha"
            ));
            let is_page = address.starts_with("http://") || address.starts_with("https://");
            (is_widget && !is_other && is_page).then_some(("iframe", address))
        }
        _ => None,
    }
}

/// Whether an address is that of an image, a script or a style sheet, or is below `/wp-json/` or `/wp-admin/`
/// of WordPress.
fn is_part_of_page(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    PARTS_OF_PAGES.iter().any(|end| path.ends_with(end))
        || path.contains("/wp-json/")
        || path.contains("/wp-admin/")
}

/// The first embedded page or media file in the HTML of `data-html`, which a script shows; always as an
/// `<iframe>`. `None` if the HTML is longer than [`MAX_ATTRIBUTE_BYTES`].
fn embedded_html(dom: &Dom, id: NodeId) -> Option<Embed> {
    let html = dom
        .attribute(id, "data-html")
        .filter(|html| html.contains('<') && html.len() <= MAX_ATTRIBUTE_BYTES)?;
    let part = parse(html);
    let frame = part.descendants(DOCUMENT).find(|&d| is_embedded(part.tag(d)))?;
    let title = part.first_attribute(frame, &["title"]).or_else(|| dom.first_attribute(id, &TITLES));
    let address = embedded_source(&part, frame)?.to_owned();
    Some(Embed { element: "iframe", address, title: title.map(str::to_owned) })
}

/// The address of a video on YouTube or Vimeo in a `data-` attribute with JSON, unless it is a background.
/// `None` for links, and for elements with more than [`SEARCHED_NODES`] nodes or more text than a button has:
/// the data of a whole page also names videos that the page does not show.
fn video_in_settings(dom: &Dom, id: NodeId) -> Option<String> {
    let attributes = dom.element(id)?.attributes.iter();
    let is_settings = |value: &str| {
        value.starts_with('{')
            && value.len() <= MAX_ATTRIBUTE_BYTES
            && ["youtube", "youtu.be", "vimeo"].iter().any(|host| value.contains(host))
    };
    let mut settings =
        attributes.filter(|a| a.name.local.starts_with("data-") && is_settings(a.value.trim()));
    let found = settings.find_map(|a| find_video(&serde_json::from_str(a.value.trim()).ok()?));
    let is_player = || dom.subtree(id).nth(SEARCHED_NODES).is_none() && dom.letters(id) <= MAX_LABEL;
    found.filter(|_| dom.tag(id) != Tag::A && is_player())
}

/// The first address of a video in a JSON value, except below keys with `background`. The parser limits the
/// depth of JSON.
fn find_video(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_video_page(text).then(|| text.trim().to_owned()),
        Value::Array(values) => values.iter().find_map(find_video),
        Value::Object(map) => {
            map.iter().filter(|(key, _)| !key.contains("background")).find_map(|(_, value)| find_video(value))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::markdown;

    #[test]
    fn videos_and_pages_that_scripts_embed_become_links() {
        let video = |title: &str| format!("[{title}](https://www.youtube.com/watch?v=abcdefghijk)\n");
        for (html, title) in [
            ("<lite-youtube videoid=abcdefghijk playlabel=Talk></lite-youtube>", "Talk"),
            ("<lite-youtube videoid=abcdefghijk><button>x</button></lite-youtube>", "x [Video]"),
            ("<amp-youtube data-videoid=abcdefghijk></amp-youtube>", "Video"),
            ("<div data-plyr-provider=youtube data-plyr-embed-id=abcdefghijk></div>", "Video"),
            ("<div class=youtube data-embed=abcdefghijk><div class=play></div></div>", "Video"),
            ("<figure><oembed url='https://www.youtube.com/watch?v=abcdefghijk'></oembed></figure>", "Video"),
            ("<youtube-video src='https://www.youtube.com/watch?v=abcdefghijk'></youtube-video>", "Video"),
            (
                "<div data-html='&lt;iframe title=Talk src=\"//www.youtube.com/embed/abcdefghijk\"&gt;'></div>",
                "Talk",
            ),
            (
                r#"<div data-settings='{"a":[1],"youtube_url":"https:\/\/www.youtube.com\/watch?v=abcdefghijk"}'></div>"#,
                "Video",
            ),
            (
                r#"<div data-block='{"url":"https://youtu.be/abcdefghijk"}'><p data-html="&lt;iframe src=//www.youtube.com/embed/abcdefghijk>"></p></div>"#,
                "Video",
            ),
            (
                r#"<div data-settings='{"a":"https://www.youtube.com/watch?v=abcdefghijk"}'><i role=button>Play</i></div>"#,
                "*Play* [Video]",
            ),
            ("<a data-iframely-url href='https://www.youtube.com/watch?v=abcdefghijk'></a>", "Video"),
        ] {
            let expected = match title.strip_suffix(" [Video]") {
                Some(before) => format!("{before} {}", video("Video")),
                None => video(title),
            };
            assert_eq!(markdown(html), expected, "{html}");
        }
        for (html, expected) in [
            ("<amp-vimeo data-videoid=27246366></amp-vimeo>", "[Video](https://vimeo.com/27246366)\n"),
            (
                "<amp-video src=/a.mp4></amp-video><hls-video src=/b.m3u8 title=c></hls-video>",
                "[Video](/a.mp4) [c](/b.m3u8)\n",
            ),
            (
                "<mux-player playback-id=a1 title=Talk></mux-player> <wistia-player media-id=b2></wistia-player>",
                "[Talk](https://player.mux.com/a1) [Embedded page](https://fast.wistia.net/embed/iframe/b2)\n",
            ),
            (
                "<div class='wistia_embed wistia_async_b2'></div>",
                "[Embedded page](https://fast.wistia.net/embed/iframe/b2)\n",
            ),
            (
                "<div class=fb-post data-href=https://www.facebook.com/a/posts/1></div>",
                "[Embedded page](https://www.facebook.com/a/posts/1)\n",
            ),
            ("<model-viewer src=/a.glb alt='A chair'></model-viewer>", "[A chair](/a.glb)\n"),
            ("<lottie-player src=/a.json aria-label=b></lottie-player>", "[b](/a.json)\n"),
            (
                "<p>a</p><div class=x-widget data-url=https://a.example/b></div>",
                "a\n\n[Embedded page](https://a.example/b)\n",
            ),
            (
                "<p>a</p><script src=https://gist.github.com/a/1.js?file=b.rs></script><p>c",
                "a\n\n[b.rs](https://gist.github.com/a/1)\n\nc\n",
            ),
            (
                "<p>a <script src=//asciinema.org/a/14.js></script>",
                "a [Embedded page](https://asciinema.org/a/14)\n",
            ),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn what_is_no_embedded_page_adds_no_link() {
        for html in [
            // The link or the frame is there, or in a fallback.
            "<lite-youtube videoid=abcdefghijk><a href=/b>a</a></lite-youtube>",
            "<div class=youtube data-id=abcdefghijk></div><noscript><a href=/b>a</a></noscript>",
            "<div data-settings='{\"background_video\":\"https://youtu.be/abcdefghijk\"}'><a href=/b>a</a></div>",
            // Decoration, tools, widgets with content, ids of something else, and scripts.
            "<a href=/b>a</a><lottie-player src=/a.json></lottie-player>",
            "<a href=/b>a</a><div class='share-widget' data-url=https://a.example/b></div>",
            "<link rel=canonical href=https://a.example/b><a href=/b>a</a><div class=x-widget data-url=https://a.example/b></div>",
            "<a href=/b>a</a><div class=widget data-url=/b></div><x-icon src=/a.svg></x-icon>",
            "<a href=/b>a</a><div data-id=abcdefghijk></div><div class=youtube data-id='a b c d'></div>",
            "<a href=/b>a</a><div class=fb-like data-href=https://a.example/b></div><mux-player></mux-player>",
            "<a href=/b>a</a><div class='wistia_async_b/2'></div>",
            "<a href=/b>a</a><div data-settings='{\"youtube\":'></div><div data-html='a<b'></div>",
            "<a href=/b>a</a><script src=https://a.example/1.js></script><script src=https://gist.github.com/.js></script>",
            // Ids of page builders and menus, and parts of the page that a script loads later.
            "<a href=/b>a</a><div class='x-widget x-widget-youtube_feed' data-id=5f3a1bc></div>",
            "<a href=/b>a</a><i class=fa-youtube data-id=abcdefghijk></i><div class=vimeo data-id=3></div>",
            "<a href=/b>a</a><div class=video-wrap data-src=https://a.example/b.jpg?c></div>",
            "<a href=/b>a</a><div class=video-bg data-src=https://a.example/b.mp4></div>",
            "<a href=/b>a</a><div class=x-widget data-url=https://a.example/wp-admin/admin-ajax.php></div>",
            "<a href=/b>a</a><div class=video data-src=https://img.youtube.com/vi/abcdefghijk/hq.jpg></div>",
        ] {
            assert_eq!(markdown(html), "[a](/b)\n", "{html}");
        }
        assert_eq!(markdown("<div class=widget data-url=https://a.example/b>c</div>"), "c\n");
        let long = "oak ".repeat(10);
        let app = format!("<div data-page='{{\"b\":\"https://youtu.be/abcdefghijk\"}}'>{long}</div>");
        assert_eq!(markdown(&app), format!("{}\n", long.trim()));
    }
}
