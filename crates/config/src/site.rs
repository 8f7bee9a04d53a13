//! `[site]` and `[convert]`: names, languages, the output of a site generator, search and the footer.

use super::reader::{ConfigKey, Reader, deliveries, requests};
use super::redirects_and_extra;
use super::value_parsers::{self, Raw};
use frontdesk_site::fault::Placed;
use frontdesk_site::{
    self as pages, BuildOptions, FooterGroup, FooterLink, PagesOptions, PublicationOptions, RulesDialect,
};

/// Reads `base_url`, which comes before the first table in the file.
pub(super) fn read_base_url(r: &mut Reader<'_>) -> String {
    r.get(
        deliveries("base_url").with_example("\"https://www.example.com\"").show_in_starter_file(),
        "",
        "The public address of the site. Links in Markdown, sitemaps and feeds begin with it. If unset, the \
         first name in `tls.acme_domains` is used, or the address that the server listens on, which is wrong \
         behind a proxy.",
        value_parsers::base_url,
    )
}

/// Reads `[site]`, `[site.extra]` and `[convert]`; the other options have their defaults. The description
/// defaults to the tagline.
pub(super) fn read(r: &mut Reader<'_>) -> PagesOptions {
    let mut text =
        |key: ConfigKey, example| r.get(key.set_in_starter_file(example), "", "", value_parsers::parse_line);
    let title = text(deliveries("site.title"), "\"Example\"");
    let tagline = text(requests("site.tagline"), "\"A small site to begin with\"");
    let description = text(
        requests("site.description"),
        "\"Example is a small website with a page, a post and two forms, served to people and to agents.\"",
    );
    let (language, languages) = read_languages(r);
    let mut build = read_build_options(r);
    let publish = read_publish(r);
    let search = r.get(
        requests("site.search"),
        "auto",
        "Whether visitors can search the pages: true, false, or \"auto\", which means that the site has ten \
         pages or more (docs/pages/search.md).",
        |raw| match raw.as_text() {
            Some("auto") => Ok(None),
            _ => value_parsers::parse_bool(raw).map(Some).map_err(|_| "\"auto\", true or false".to_owned()),
        },
    );
    let posts_per_page = r.get(
        requests("site.posts_per_page"),
        "20",
        "The number of posts on each page of the blog and of a tag; 0 puts all posts on one page.",
        value_parsers::count(0..=1000),
    );
    let copy_markdown = r.get(
        requests("site.copy_markdown"),
        "true",
        "Whether pages have a link that copies their Markdown.",
        value_parsers::parse_bool,
    );
    let footer = r.get(
        requests("site.footer").set_in_starter_file(STARTER_FOOTER),
        "[]",
        "Groups of links in the footer. A link is the path of a page, or { title, href } for any other \
         address.",
        parse_footer,
    );
    let extra = redirects_and_extra::read_extra(r);
    read_selectors(r, build.as_mut());
    let description = if description.is_empty() { tagline.clone() } else { description };
    PagesOptions {
        title,
        tagline,
        description,
        language,
        languages,
        build,
        publication: PublicationOptions { publish, ..PublicationOptions::default() },
        search,
        posts_per_page,
        hides_copy_link: !copy_markdown,
        footer,
        extra,
        ..PagesOptions::default()
    }
}

/// Reads the language of the pages, and the list of all languages, which must contain it unless the list is
/// empty.
fn read_languages(r: &mut Reader<'_>) -> (String, Vec<String>) {
    let language = r.get(
        deliveries("site.language"),
        "en",
        "A language tag, such as \"en\" or \"de-CH\".",
        value_parsers::language,
    );
    let mut languages = r.get(
        requests("site.languages").with_example("[\"en\", \"de\"]"),
        "[]",
        "All languages, if there are several. Pages in pages/de/ and posts in posts/de/ are in German, at \
         /de/; `language` needs no folder.",
        value_parsers::languages,
    );
    // Language tags are compared without case (RFC 5646 §2.1.1).
    let own = languages.iter_mut().find(|tag| tag.eq_ignore_ascii_case(&language));
    let has_own = own.map(|tag| tag.clone_from(&language)).is_some();
    r.refuse_if(
        !languages.is_empty() && !has_own,
        "site.languages",
        "must contain `site.language`, the language of pages outside the other languages' folders",
    );
    (language, languages)
}

/// Reads the paths of files to publish even if the files look private. `None` if there are no paths.
fn read_publish(r: &mut Reader<'_>) -> Option<Placed<Vec<String>>> {
    let publish = r.get(
        requests("site.publish").with_example("[\"static/sample.sqlite\", \".nojekyll\"]"),
        "[]",
        "Files to publish although their names, modes or contents suggest that they are private, such as backups, \
         databases and hidden files: paths relative to the build or to this folder, in which `*` stands for any \
         characters of a name and `**` for any folders. `frontdesk check` lists what is not published \
         (docs/pages/security.md#what-is-published).",
        parse_publish,
    );
    (!publish.is_empty()).then(|| r.place("site.publish", publish))
}

/// Reads `[convert]` into the options of the build. Without a build, the selectors have no effect.
fn read_selectors(r: &mut Reader<'_>, build: Option<&mut BuildOptions>) {
    let main = r.get(
        requests("convert.main").with_example("\"main, .content\""),
        "",
        "CSS selectors for pages in `site.prebuilt`: the main content, which is detected if this is empty, and \
         elements to leave out of the Markdown. Try them with `frontdesk convert`.",
        value_parsers::css_selector,
    );
    let exclude =
        r.get(requests("convert.exclude").with_example("\".advert\""), "", "", value_parsers::css_selector);
    if let Some(build) = build {
        (build.main, build.exclude) = (main, exclude);
    }
}

/// Reads the options of `site.prebuilt`, or of a site folder that is itself a build; `None` for other sites.
/// [`read_selectors`] fills in the selectors.
fn read_build_options(r: &mut Reader<'_>) -> Option<BuildOptions> {
    let prebuilt = r.served_folder(
        requests("site.prebuilt").with_example("\"dist\""),
        "The folder with the output of a site generator, relative to this folder. Its pages are served \
         unchanged, and as Markdown to agents (docs/pages/any-site.md).",
    );
    let mount = r.get(
        requests("site.prebuilt_path").with_example("\"/docs/\""),
        "/",
        "The path at which the generator's output is published: the base path that it was built for.",
        value_parsers::parse_mount,
    );
    let rules = r.get(
        requests("site.rules"),
        "netlify",
        "The dialect of `_redirects` and `_headers` in that folder: \"netlify\" or \"cloudflare\".",
        value_parsers::one_of(&[
            ("netlify", RulesDialect::Netlify),
            ("cloudflare", RulesDialect::Cloudflare),
        ]),
    );
    let adds_link_element = r.get(
        requests("site.link_element"),
        "false",
        "Whether the HTML of each page in that folder gets a link to its Markdown. The `Link` header always \
         has one.",
        value_parsers::parse_bool,
    );
    let folder = r.site_folder();
    let folder = prebuilt.or_else(|| pages::is_build(folder).then(|| folder.to_owned()))?;
    let (main, exclude) = (String::new(), String::new());
    Some(BuildOptions { folder, mount, rules, main, exclude, adds_link_element })
}

const STARTER_FOOTER: &str = r#"[[site.footer]]
title = "Company"
links = ["/contact/", "/waitlist/"]

[[site.footer]]
title = "For machines"
links = [{ title = "llms.txt", href = "/llms.txt" }, { title = "OpenAPI", href = "/openapi.json" }, { title = "RSS feed", href = "/blog/rss.xml" }]"#;

/// Parses paths of files, with wildcards. Refuses empty paths, `..` and NUL characters.
fn parse_publish(raw: &Raw) -> Result<Vec<String>, String> {
    let expected =
        "a list of paths relative to the build or to this folder, such as [\"static/sample.sqlite\"]";
    value_parsers::parse_items(raw, expected, |item| {
        let is_path = |part: &str| part != ".." && !part.contains('\0');
        (!item.is_empty() && item.split('/').all(is_path)).then(|| item.to_owned())
    })
}

/// Parses groups, each with a title, links and optionally a language. A link is a path, or a table with
/// `title` and `href`, which is a path or a URL.
fn parse_footer(raw: &Raw) -> Result<Vec<FooterGroup>, String> {
    let expected = || {
        "groups `[[site.footer]]`, each with a `title`, `links` and optionally a `lang`; a link is a path such as \"/privacy/\" or { title = \"…\", href = \"…\" }"
            .to_owned()
    };
    let read_link = |link: &Raw| {
        let link = match link {
            Raw::Text(href) => FooterLink { title: None, href: href.clone() },
            link => {
                let [title, href] = link.members(["title", "href"])?;
                FooterLink { title: Some(title.as_text()?.to_owned()), href: href.as_text()?.to_owned() }
            }
        };
        // Refuse URLs without a title. Refuse relative links, because pages at any depth show the footer.
        (link.href.starts_with('/') || (link.title.is_some() && link.href.contains(':'))).then_some(link)
    };
    let read_group = |group: &Raw| {
        let (title, links, language) = if let Some([title, links]) = group.members(["title", "links"]) {
            (title, links, None)
        } else {
            let [title, links, language] = group.members(["title", "links", "lang"])?;
            (title, links, Some(language.as_text()?.to_owned()))
        };
        let Raw::List(links) = links else { return None };
        let links = links.iter().map(read_link).collect::<Option<_>>()?;
        Some(FooterGroup { title: title.as_text()?.to_owned(), language, links })
    };
    let Raw::List(groups) = raw else { return Err(expected()) };
    groups.iter().map(read_group).collect::<Option<_>>().ok_or_else(expected)
}
