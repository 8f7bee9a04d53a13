//! Resolves the links that authors write, for both representations of a page.

use std::borrow::Cow;

use super::images::ImageFacts;
use super::path;
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_site_rules::content_origins::ContentOrigins;

/// The possible targets of links: pages by source file, and assets by path.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LinkCatalog {
    /// Scheme and authority of the site's public address, without a trailing slash.
    pub base_url: String,
    /// The decoded paths of pages, by source file: `pages/developers.md` → `/developers/`.
    pub pages: HashMap<String, String>,
    /// The paths that end in `.md` or `.markdown` and are no Markdown of a page: files in `static/` and
    /// generated resources such as `/agents.md`.
    pub markdown_files: HashSet<String>,
    /// The paths of the files in `static/`.
    pub static_files: HashSet<String>,
    /// The fingerprinted paths of assets, by path: `/assets/diagram.svg` → `/assets/diagram.0a1b2c3d4e.svg`.
    pub assets: HashMap<String, String>,
    /// The images whose size is known, by path.
    pub images: HashMap<String, ImageFacts>,
    /// The other origins from which pages may load content.
    pub allowed: ContentOrigins,
}

/// The page that contains a link.
#[derive(Debug, Clone, Copy)]
pub struct LinkOrigin<'a> {
    /// The page's source file, relative to the site's folder.
    pub file: &'a str,
    pub path: &'a str,
}

/// A link, resolved for a page's HTML and for its Markdown. Its target may not exist.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ResolvedLink {
    /// The link for HTML. Links to assets use the fingerprinted name.
    pub href: String,
    /// The link for Markdown, which is absolute so that it also works in a copy of the text.
    pub absolute: String,
    /// The path on this site that the link leads to. `None` for links to other sites.
    pub target: Option<LinkTarget>,
}

/// A path on this site, with an optional anchor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkTarget {
    pub path: Box<str>,
    /// The anchor, without `#`.
    pub fragment: Option<Box<str>>,
    /// The link as the author wrote it, for error messages. `None` if its decoded path equals `path`, and for
    /// a link without a path, such as `#anchor`.
    pub written: Option<Box<str>>,
}

impl LinkCatalog {
    /// Resolves a link relative to the source file (`../posts/x.md`, `../static/x.png`, an image in the same
    /// folder) or, if there is no such file, relative to the page's path. `@/x.md` names a source file, as in
    /// Zola, and so does `/x.md`, as in Docusaurus and VitePress. Links with a scheme or a host have no
    /// target and stay unchanged, except that `//host` gets the site's scheme in `absolute`, and that a file
    /// on the author's computer has itself as target, so that it is reported. Does not check that the target
    /// exists.
    pub fn resolve(&self, place: LinkOrigin<'_>, link: &str) -> ResolvedLink {
        if has_scheme(link) {
            let written = Some(link.into());
            let target =
                is_local_file(link).then(|| LinkTarget { path: link.into(), fragment: None, written });
            return ResolvedLink { href: link.to_owned(), absolute: link.to_owned(), target };
        }
        if link.starts_with("//") {
            let scheme = self.base_url.split_once("//").map_or("https:", |(scheme, _)| scheme);
            return ResolvedLink { href: link.to_owned(), absolute: format!("{scheme}{link}"), target: None };
        }
        // Keep the query and the fragment unchanged.
        let (raw, tail) = link.split_at(link.find(['?', '#']).unwrap_or(link.len()));
        let raw = percent_decoded(raw);
        let found =
            if raw.is_empty() { place.path.to_owned() } else { self.find_target_path(place, &raw, tail) };
        let encoded = path::encode(&found);
        let href = if raw.is_empty() && !tail.starts_with('?') {
            link.to_owned()
        } else {
            [self.assets.get(&found).map_or(encoded.as_ref(), String::as_str), tail].concat()
        };
        let fragment = tail.split_once('#').map(|(_, fragment)| fragment).filter(|text| !text.is_empty());
        let fragment = fragment.map(|fragment| percent_decoded(fragment).into());
        let written = (!raw.is_empty() && raw != found).then(|| link.into());
        ResolvedLink {
            href,
            absolute: [&self.base_url, encoded.as_ref(), tail].concat(),
            target: Some(LinkTarget { path: found.into(), fragment, written }),
        }
    }

    /// Whether a URL with a scheme, or one that begins with `//`, is on this site. Case and the default port
    /// do not matter.
    pub fn is_own(&self, url: &str) -> bool {
        let base = &*self.base_url;
        let port = if base.starts_with("https:") { ":443" } else { ":80" };
        let base = base.strip_suffix(port).unwrap_or(base);
        let base = if url.starts_with("//") { base.trim_start_matches(|c| c != '/') } else { base };
        url.split_at_checked(base.len()).is_some_and(|(start, rest)| {
            let rest = rest.strip_prefix(port).unwrap_or(rest);
            start.eq_ignore_ascii_case(base) && (rest.is_empty() || rest.starts_with(['/', '?', '#', '\\']))
        })
    }

    /// The decoded path to which a link's decoded path leads: that of the source file, asset or file in
    /// `static/` that it names, or else the path resolved against the page's. An unknown `@/x.md` leads to
    /// `/x.md`, and an unknown `@/x/_index.md` to the folder `/x/`, with `/blog/` in place of `/posts/`.
    /// `tail` is the query and the fragment.
    fn find_target_path(&self, place: LinkOrigin<'_>, raw: &str, tail: &str) -> String {
        if let Some(file) = raw.strip_prefix("@/") {
            // Zola's content folder corresponds to `pages/` and `posts/`, and a section's `_index.md` to
            // `index.md`. A page in a folder, such as `blog/x.md`, may be the post `posts/x.md`.
            let whole = [
                format!("pages/{file}"),
                format!("posts/{file}"),
                format!("pages/{file}").replace("_index.md", "index.md"),
            ];
            let beyond = file.split_once('/').map(|(_, name)| format!("posts/{name}"));
            let mut known = whole.into_iter().chain(beyond);
            let section = || {
                file.strip_suffix("_index.md").map(|folder| format!("/{folder}").replace("/posts/", "/blog/"))
            };
            let page = known.find_map(|file| self.pages.get(&file)).cloned();
            return page.or_else(section).unwrap_or_else(|| format!("/{file}"));
        }
        if raw.starts_with('/') {
            let path = path::resolve_relative("/", raw);
            return self.find_rooted_source(place, &path, tail).cloned().unwrap_or(path);
        }
        let beside = path::resolve_relative(&format!("/{}", place.file), raw);
        let beside = beside.trim_start_matches('/');
        let find = |file: &str| {
            let asset = || Some(path::public_path(file)).filter(|path| self.assets.contains_key(path));
            let in_static = || Some(file.strip_prefix("static")?.to_owned());
            let is_there = |path: &String| self.static_files.contains(path);
            self.pages.get(file).cloned().or_else(asset).or_else(|| in_static().filter(is_there))
        };
        let found = find(beside).or_else(|| find(&path::other_form(beside)?));
        found.unwrap_or_else(|| path::resolve_relative(place.path, raw))
    }

    /// The path of the page whose source file a path that begins with `/` names: in `pages/`, in `posts/`, or
    /// in the site's folder. `None` if there is no such page or a file has this path, or if the page links to
    /// itself without a query or fragment: such a link shows readers the page's Markdown.
    fn find_rooted_source(&self, place: LinkOrigin<'_>, path: &str, tail: &str) -> Option<&String> {
        let is_markdown = path.ends_with(".md") || path.ends_with(".markdown");
        if !is_markdown || place.file.is_empty() || self.markdown_files.contains(path) {
            return None;
        }
        let sources = ["pages", "posts", ""].map(|folder| format!("{folder}{path}"));
        let find = |file: &str| self.pages.get_key_value(file.trim_start_matches('/'));
        let spelled = |file: &String| find(file).or_else(|| find(&path::other_form(file)?));
        let (file, page) = sources.iter().find_map(spelled)?;
        (file != place.file || !tail.is_empty()).then_some(page)
    }
}

/// Whether a link begins with a URI scheme, as `mailto:` links do.
pub(super) fn has_scheme(link: &str) -> bool {
    link.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// Whether a link leads to a file on the author's computer, as `file:///a.png` and `C:\a.png` do, and not to
/// another computer, as `file://server/a.png` does.
pub(super) fn is_local_file(link: &str) -> bool {
    link.trim_start().split_once(':').is_some_and(|(scheme, rest)| {
        let is_drive = scheme.len() == 1 && scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        let has_host = rest.strip_prefix("//").is_some_and(|rest| !rest.starts_with('/'));
        scheme.eq_ignore_ascii_case("file") && !has_host || is_drive && rest.starts_with(['\\', '/'])
    })
}

/// Percent-decodes a part of a link. Returns text with invalid escapes, an encoded slash or invalid UTF-8
/// unchanged.
pub(super) fn percent_decoded(text: &str) -> Cow<'_, str> {
    path::percent_decode(text).unwrap_or(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_composed_link_leads_to_a_file_with_a_decomposed_name() {
        let mut catalog = LinkCatalog::default();
        catalog.pages.insert("pages/cafe\u{301}.md".into(), "/x/".into());
        catalog.assets.insert("/e\u{301}.png".into(), "/e.0123456789.png".into());
        let place = LinkOrigin { file: "pages/index.md", path: "/" };
        for (link, href) in [
            ("caf\u{e9}.md", "/x/"),
            ("cafe\u{301}.md", "/x/"),
            ("\u{e9}.png", "/e.0123456789.png"),
            ("cafe.md", "/cafe.md"),
        ] {
            assert_eq!(catalog.resolve(place, link).href, href, "{link}");
        }
    }

    #[test]
    fn a_relative_link_leads_to_a_file_in_static() {
        let mut catalog = LinkCatalog::default();
        catalog.static_files.insert("/a/b.png".into());
        let place = LinkOrigin { file: "posts/2026-01-02-x.md", path: "/blog/x/" };
        for (link, href) in [
            ("../static/a/b.png", "/a/b.png"),
            ("../static/c.png", "/blog/static/c.png"),
            ("../statica/b.png", "/blog/statica/b.png"),
        ] {
            assert_eq!(catalog.resolve(place, link).href, href, "{link}");
        }
    }

    #[test]
    fn a_link_from_the_root_to_a_source_file_leads_to_its_page() {
        let mut catalog = LinkCatalog::default();
        for (file, path) in [
            ("pages/index.md", "/"),
            ("pages/guide/intro.md", "/guide/intro/"),
            ("pages/cafe\u{301}.markdown", "/x/"),
            ("pages/pricing/index.md", "/pricing/"),
            ("pages/agents.md", "/for-agents/"),
            ("posts/2026-01-02-x.md", "/blog/x/"),
        ] {
            catalog.pages.insert(file.into(), path.into());
        }
        catalog.markdown_files.insert("/agents.md".into());
        let place = LinkOrigin { file: "pages/guide/intro.md", path: "/guide/intro/" };
        for (link, href) in [
            ("/index.md", "/"),
            ("/pages/index.md?a#b", "/?a#b"),
            ("/caf\u{e9}.markdown", "/x/"),
            ("/pricing/index.md", "/pricing/"),
            ("/2026-01-02-x.md#a", "/blog/x/#a"),
            ("/posts/2026-01-02-x.md", "/blog/x/"),
            ("/guide/intro.md#a", "/guide/intro/#a"),
            // The Markdown of this page, that of a page with another file name, and another file.
            ("/guide/intro.md", "/guide/intro.md"),
            ("/pricing.md", "/pricing.md"),
            ("/guide/intro/index.md", "/guide/intro/index.md"),
            ("/agents.md", "/agents.md"),
            ("/guide/intro", "/guide/intro"),
        ] {
            assert_eq!(catalog.resolve(place, link).href, href, "{link}");
        }
        let footer = LinkOrigin { file: "", path: "/" };
        assert_eq!(catalog.resolve(footer, "/index.md").href, "/index.md");
    }

    #[test]
    fn the_default_port_does_not_make_a_url_foreign() {
        for (base_url, url, is_own) in [
            ("https://a.example", "https://a.example:443/a.png", true),
            ("https://a.example", "https://A.example:443", true),
            ("https://a.example", "//a.example:443/a.png", true),
            ("https://a.example:443", "https://a.example/a.png", true),
            ("https://a.example:443", "https://a.example:443/a.png", true),
            ("http://a.example", "http://a.example:80?b", true),
            ("https://a.example", "https://a.example:4430/a.png", false),
            ("https://a.example", "https://a.example:80/a.png", false),
            ("https://a.example", "http://a.example/a.png", false),
            ("https://a.example:8443", "https://a.example:8443/a.png", true),
            ("https://a.example:8443", "https://a.example/a.png", false),
        ] {
            let catalog = LinkCatalog { base_url: base_url.into(), ..LinkCatalog::default() };
            assert_eq!(catalog.is_own(url), is_own, "{base_url} {url}");
        }
    }

    #[test]
    fn links_lead_where_the_author_meant() {
        let mut catalog =
            LinkCatalog { base_url: "https://www.example.com".into(), ..LinkCatalog::default() };
        for (file, path) in [
            ("pages/developers.md", "/developers/"),
            ("posts/2026-01-02-x.md", "/blog/x/"),
            ("pages/index.md", "/"),
        ] {
            catalog.pages.insert(file.into(), path.into());
        }
        catalog.assets.insert("/assets/a b.svg".into(), "/assets/a%20b.0123456789.svg".into());
        catalog.assets.insert("/blog/pic.png".into(), "/blog/pic.0123456789.png".into());
        let place = LinkOrigin { file: "posts/2026-01-02-x.md", path: "/blog/x/" };
        for (link, href, absolute, target) in [
            (
                "/developers/",
                "/developers/",
                "https://www.example.com/developers/",
                Some(("/developers/", None)),
            ),
            (
                "../pages/developers.md#a",
                "/developers/#a",
                "https://www.example.com/developers/#a",
                Some(("/developers/", Some("a"))),
            ),
            (
                "@/developers.md",
                "/developers/",
                "https://www.example.com/developers/",
                Some(("/developers/", None)),
            ),
            (
                "@/blog/2026-01-02-x.md",
                "/blog/x/",
                "https://www.example.com/blog/x/",
                Some(("/blog/x/", None)),
            ),
            ("#top", "#top", "https://www.example.com/blog/x/#top", Some(("/blog/x/", Some("top")))),
            ("@/_index.md", "/", "https://www.example.com/", Some(("/", None))),
            ("@/posts/_index.md", "/blog/", "https://www.example.com/blog/", Some(("/blog/", None))),
            ("@/nope.md", "/nope.md", "https://www.example.com/nope.md", Some(("/nope.md", None))),
            ("../y/", "/blog/y/", "https://www.example.com/blog/y/", Some(("/blog/y/", None))),
            (
                "pic.png",
                "/blog/pic.0123456789.png",
                "https://www.example.com/blog/pic.png",
                Some(("/blog/pic.png", None)),
            ),
            (
                "/assets/a%20b.svg",
                "/assets/a%20b.0123456789.svg",
                "https://www.example.com/assets/a%20b.svg",
                Some(("/assets/a b.svg", None)),
            ),
            ("/?q=1", "/?q=1", "https://www.example.com/?q=1", Some(("/", None))),
            ("mailto:a@example.com", "mailto:a@example.com", "mailto:a@example.com", None),
            ("https://example.org/x", "https://example.org/x", "https://example.org/x", None),
            ("//example.org/x", "//example.org/x", "https://example.org/x", None),
        ] {
            let target = target.map(|(path, fragment): (&str, Option<&str>)| LinkTarget {
                path: path.into(),
                fragment: fragment.map(Into::into),
                written: (!link.starts_with(['/', '#'])).then(|| link.into()),
            });
            let expected = ResolvedLink { href: href.into(), absolute: absolute.into(), target };
            assert_eq!(catalog.resolve(place, link), expected, "{link}");
        }
    }
}
