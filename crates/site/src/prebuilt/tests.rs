//! Tests of whole builds.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::file::noindex_header;
use crate::resources::{ResourceCache, ResourceOptions};
use crate::{LoadCache, LoadResult, RulesDialect};
use frontdesk_forms::FormSet;
use http::header::CONTENT_SECURITY_POLICY;

mod names;
mod restart;

/// A build in a temporary folder.
struct Bench {
    folder: tempfile::TempDir,
    options: PagesOptions,
    cache: LoadCache,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = PagesOptions {
            base_url: "https://www.example.com".into(),
            reserved: vec!["/llms.txt", "/agents.md"],
            build: Some(BuildOptions {
                folder: folder.path().to_owned(),
                mount: "/".into(),
                rules: RulesDialect::Netlify,
                main: String::new(),
                exclude: String::new(),
                adds_link_element: false,
            }),
            ..PagesOptions::default()
        };
        let bench = Self { folder, options, cache: LoadCache::default() };
        for (name, text) in files {
            bench.write(name, text);
        }
        bench
    }

    fn write(&self, name: &str, text: &str) {
        let at = self.folder.path().join(name);
        fs::create_dir_all(at.parent().expect("a folder")).expect("the folder exists");
        fs::write(at, text).expect("the file is written");
    }

    fn build(&mut self) -> &mut BuildOptions {
        self.options.build.as_mut().expect("a build")
    }

    fn load(&mut self) -> LoadResult {
        self.cache.load(Path::new("/nonexistent"), &self.options, &[])
    }

    /// The site of a build without faults.
    fn site(&mut self) -> Site {
        let loaded = self.load();
        assert_eq!(loaded.faults, []);
        loaded.site.expect("a site")
    }
}

/// A page with a title, navigation, main content and footer.
fn page(title: &str, main: &str) -> String {
    format!(
        "<!doctype html><html lang=en><title>{title}</title><body><nav><a href=/>Home</a></nav>\
         <main><h1>{title}</h1>{main}</main><footer>All rights reserved</footer></body></html>"
    )
}

/// A short description of the entry at a path.
fn describe(site: &Site, path: &str) -> String {
    match site.get(path) {
        None => "nothing".to_owned(),
        Some(SiteEntry::Gone) => "gone".to_owned(),
        Some(SiteEntry::Redirect(redirect)) => format!("{} {}", redirect.status.as_u16(), redirect.to),
        Some(SiteEntry::File(file, role)) => format!("{role:?} {}", file.media_type),
        Some(SiteEntry::Page(page)) => format!("page {}", page.twin),
    }
}

fn markdown(site: &Site, path: &str) -> String {
    let file = site.markdown(path).unwrap_or_else(|| panic!("no page at {path}"));
    String::from_utf8(file.unencoded().bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_rewritten_path_has_the_headers_of_its_own_rules() {
    let rules = "/*\n  X-Frame-Options: DENY\n/\n  X-A: home\n  Content-Security-Policy: default-src 'none'\n\
                 /app/*\n  X-Robots-Tag: noindex\n/app/in/*\n  X-A: inner\n/one\n  X-A: one\n\
                 /*/edit\n  X-B: edit\n";
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text of the page.")),
        ("data.json", "{}"),
        ("_headers", rules),
        ("_redirects", "/one /data.json 200\n/app/* /index.html 200\n/rest/* / 200\n"),
    ]);
    for _ in 0..2 {
        let site = bench.site();
        let headers = |file: &File| {
            let mut headers: Vec<_> = file.headers.iter().collect();
            headers.retain(|(name, _)| name.as_str().starts_with("x-"));
            let text =
                |(name, value): &(HeaderName, HeaderValue)| format!("{name}: {value:?}").replace('"', "");
            headers.into_iter().map(text).collect::<Vec<_>>().join(", ")
        };
        for (path, expected) in [
            ("/", "x-frame-options: DENY, x-a: home"),
            ("/rest/x", "x-frame-options: DENY"),
            ("/app/x", "x-frame-options: DENY, x-robots-tag: noindex"),
            ("/app/in/x", "x-frame-options: DENY, x-robots-tag: noindex, x-a: inner"),
            // Two rules match this path, but no example path matches both, so only one of them applies.
            ("/app/edit", "x-frame-options: DENY, x-robots-tag: noindex"),
            ("/one", "x-frame-options: DENY, x-a: one"),
        ] {
            assert_eq!(headers(&site.not_found.html), "x-frame-options: DENY");
            let entry = site.get(path).map(Cow::Borrowed).or_else(|| site.find_rule(path));
            match &*entry.expect(path) {
                SiteEntry::Page(page) => {
                    assert_eq!(
                        [&page.html, &page.markdown].map(|file| headers(file)),
                        [expected; 2],
                        "{path}"
                    );
                    assert!(
                        page.html.headers.iter().any(|(name, _)| name == CONTENT_SECURITY_POLICY),
                        "{path}"
                    );
                    assert_eq!(&*page.path, "/");
                    assert!(site.files().iter().any(|file| Arc::ptr_eq(file, &page.html)), "{path}");
                }
                SiteEntry::File(file, _) => assert_eq!(headers(file), expected, "{path}"),
                other => panic!("{path}: {other:?}"),
            }
        }
    }
}

#[test]
fn files_of_a_build_can_be_embedded_and_run_as_workers() {
    let chart = "<!doctype html><body><p id=a><script>alert(1)</script>";
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text of the page.")),
        ("chart.html", chart),
        ("a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("worker.js", "postMessage(1)"),
        ("own.js", "postMessage(1)"),
        ("_headers", "/own.js\n  Content-Security-Policy: default-src 'none'\n"),
    ]);
    let site = bench.site();
    let policy = |path: &str| {
        let Some(SiteEntry::File(file, _)) = site.get(path) else { panic!("{path} is no file") };
        let mut policies = file.headers.iter().filter(|(name, _)| name == CONTENT_SECURITY_POLICY);
        let (policy, None) = (policies.next(), policies.next()) else { panic!("two policies of {path}") };
        policy.and_then(|(_, value)| value.to_str().ok()).expect("a policy").to_owned()
    };
    let scripts = "; script-src 'self' https: blob: 'wasm-unsafe-eval'";
    for (path, end) in [
        ("/chart.html", &*format!("{scripts} 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='")),
        ("/a.svg", "; script-src 'self'"),
        ("/worker.js", scripts),
    ] {
        let policy = policy(path);
        assert!(policy.contains("frame-ancestors 'self'; ") && policy.ends_with(end), "{path}: {policy}");
    }
    assert_eq!(policy("/own.js"), "default-src 'none'");
}

#[test]
fn files_that_browsers_must_decode_have_their_content_coding() {
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text of the page.")),
        ("Build/game.loader.js", "load()"),
        ("Build/game.wasm.br", "x"),
        ("other.wasm.br", "x"),
        ("_headers", "/*.svgz\n  X-A: 1\n"),
    ]);
    fs::write(bench.folder.path().join("a.svgz"), [&[0x1f, 0x8b][..], &[b'x'; 300]].concat())
        .expect("a file");
    let site = bench.site();
    for (path, media_type, coding) in [
        ("/Build/game.wasm.br", "application/wasm", Some("br")),
        ("/other.wasm.br", "application/octet-stream", None),
        ("/a.svgz", "image/svg+xml", Some("gzip")),
    ] {
        let Some(SiteEntry::File(file, _)) = site.get(path) else { panic!("{path} is no file") };
        let found = file.headers.iter().find(|(name, _)| name == http::header::CONTENT_ENCODING);
        assert_eq!(found.map(|(_, value)| value.to_str().expect("ASCII")), coding, "{path}");
        assert_eq!((file.media_type, file.compressible), (media_type, false), "{path}");
    }
}

#[test]
fn each_path_has_what_a_static_host_would_send() {
    let text = page("Title", "<p>Text</p>");
    let mut bench = Bench::new(&[
        ("index.html", &text),
        ("about/index.html", &text),
        ("contact.html", &text),
        ("agents/index.html", &text),
        ("404.html", &text),
        ("proof.html", "proof-of-ownership: 1234"),
        ("guide/index.html", &text),
        ("guide.md", "# By hand"),
        ("contact.txt", "data"),
        ("css/style.0a1b2c3d4e.css", "p {}"),
        ("llms.txt", "# Own"),
        ("frontdesk.toml", "secret"),
        (".env", "secret"),
        (".well-known/x.json", "{}"),
    ]);
    let site = bench.site();
    for (path, expected) in [
        ("/", "page /index.md"),
        ("/index.html", "308 /"),
        ("/about/", "page /about.md"),
        ("/about", "308 /about/"),
        ("/about/index.html", "308 /about/"),
        ("/about.md", "Twin(\"/about/\") text/markdown; charset=utf-8"),
        ("/about/index.html.md", "Twin(\"/about/\") text/markdown; charset=utf-8"),
        ("/contact", "page /contact.md"),
        ("/contact.html", "308 /contact"),
        ("/contact/", "308 /contact"),
        ("/contact.txt", "Asset text/plain; charset=utf-8"),
        // `/agents.md` is reserved for the site's guide.
        ("/agents/", "page /agents/index.md"),
        ("/agents.md", "nothing"),
        ("/404.html", "nothing"),
        ("/proof.html", "Asset text/html; charset=utf-8"),
        ("/proof", "nothing"),
        ("/guide/", "page /guide.md"),
        ("/llms.txt", "Asset text/plain; charset=utf-8"),
        ("/frontdesk.toml", "nothing"),
        ("/.env", "nothing"),
        ("/.well-known/x.json", "Asset application/json"),
    ] {
        assert_eq!(describe(&site, path), expected, "{path}");
    }
    assert_eq!(
        markdown(&site, "/guide/"),
        "# By hand",
        "a Markdown file of the build is the page's Markdown"
    );
    let Some(SiteEntry::Page(home)) = site.get("/") else { panic!("no home page") };
    assert_eq!(home.html.unencoded().bytes, text.as_bytes());
    assert_eq!(site.not_found.html.unencoded().bytes, text.as_bytes());
    let Some(SiteEntry::File(style, _)) = site.get("/css/style.0a1b2c3d4e.css") else { panic!("no style") };
    assert_eq!(style.cache, Cache::Immutable);
}

#[test]
fn pages_without_a_title_have_their_paths() {
    let stub = "<!doctype html><meta http-equiv=Refresh content='0; url=/about/'><script>x</script>";
    let mut bench = Bench::new(&[
        ("index.html", "<html><body><h2>Welcome</h2><p><a href=about/>About</a></body></html>"),
        ("about/index.html", "<html><body><h1>About us</h1><p>Text</body></html>"),
        ("about.html", "<p>A part"),
        ("contact.html", "<body><h1>Contact</h1><p>Text"),
        ("map.html", "<!doctype html><body><h2>Map</h2>"),
        ("part.html", "<h1>Part</h1>"),
        ("old/index.html", stub),
        ("older.html", stub),
        ("js/index.html", ""),
        ("404.html", "<body><p>Not here"),
        ("de/404.html", "<p>Nicht hier"),
    ]);
    let site = bench.site();
    for (path, expected) in [
        ("/", "page /index.md"),
        ("/index.html", "308 /"),
        ("/about/", "page /about.md"),
        ("/about", "308 /about/"),
        ("/about.html", "Asset text/html; charset=utf-8"),
        ("/contact", "page /contact.md"),
        ("/contact.html", "308 /contact"),
        ("/map.html", "Asset text/html; charset=utf-8"),
        ("/map", "nothing"),
        ("/map.md", "nothing"),
        ("/part.html", "Asset text/html; charset=utf-8"),
        ("/old/", "page /old.md"),
        ("/old", "308 /old/"),
        ("/older", "page /older.md"),
        ("/js/", "page /js.md"),
        ("/404.html", "nothing"),
    ] {
        assert_eq!(describe(&site, path), expected, "{path}");
    }
    let listed: Vec<_> = site.pages.iter().map(|page| (page.path.as_str(), page.title.as_str())).collect();
    assert_eq!(listed, [("/", "/"), ("/about/", "About us"), ("/contact", "Contact")]);
    assert!(markdown(&site, "/").ends_with("## Welcome\n\n[About](https://www.example.com/about/)\n"));
    for (path, expected) in [("/x", "Not here\n"), ("/de/x", "Nicht hier\n")] {
        let markdown = &site.not_found_at(path).markdown.unencoded().bytes;
        assert!(markdown.ends_with(expected.as_bytes()), "{path}: {markdown:?}");
    }
}

#[test]
fn redirects_do_not_hide_what_all_other_pages_share() {
    let menu = "<ul><li><a href=/a/>A</a><li><a href=/b/>B</a></ul>";
    let pages = (0..6).map(|number| {
        let text = page(&format!("Page {number} | Site"), &format!("{menu}<p>text {number}"));
        (format!("{number}/index.html"), text)
    });
    let stub = "<!doctype html><html lang=en><meta http-equiv=refresh content=0;url=/0/>";
    let stubs = (0..9).map(|number| (format!("old-{number}/index.html"), stub.to_owned()));
    let files: Vec<_> = pages.chain(stubs).chain([("index.html".to_owned(), page("Site", menu))]).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    let text = markdown(&Bench::new(&files).site(), "/3/");
    assert!(text.starts_with("---\ntitle: Page 3\n") && text.ends_with("| Site\n\ntext 3\n"), "{text}");
}

#[test]
fn converted_markdown_replaces_no_file_of_the_operator() {
    let about = page("About", "<p>Text</p>");
    let mut bench = Bench::new(&[("index.html", &page("Home", "<p>Home</p>")), ("about.html", &about)]);
    let sources = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("static/about.md", "# By the operator\n"),
        ("pages/news.md", "---\ntitle: News\ndescription: News.\n---\n\nNews.\n"),
    ] {
        let at = sources.path().join(name);
        fs::create_dir(at.parent().expect("a folder")).expect("a folder");
        fs::write(at, text).expect("a file");
    }
    let loaded = bench.cache.load(sources.path(), &bench.options, &[]);
    let site = loaded.site.unwrap_or_else(|| panic!("{:?}", loaded.faults));
    let Some(SiteEntry::File(file, _)) = site.get("/about.md") else { panic!("no file") };
    assert_eq!(String::from_utf8_lossy(&file.unencoded().bytes), "# By the operator\n");
    assert!(markdown(&site, "/about").contains("Text"));
}

#[test]
fn pages_keep_their_extension_where_the_links_have_it() {
    let home = page("Home", "<p><a href=\"guide.html#a\">Guide</a></p>");
    let mut bench = Bench::new(&[("index.html", &home), ("guide.html", &page("Guide", "<p>Text</p>"))]);
    bench.build().mount = "/docs/".into();
    let site = bench.site();
    for (path, expected) in [
        ("/", "308 /docs/"),
        ("/docs", "308 /docs/"),
        ("/docs/", "page /docs.md"),
        ("/docs/guide.html", "page /docs/guide.md"),
        ("/docs/guide", "308 /docs/guide.html"),
        ("/docs/guide/", "308 /docs/guide.html"),
    ] {
        assert_eq!(describe(&site, path), expected, "{path}");
    }
    assert!(markdown(&site, "/docs/").contains("[Guide](https://www.example.com/docs/guide.html#a)"));
}

#[test]
fn each_page_has_the_extension_that_its_links_have() {
    let text = page("Page", "<p>Text");
    let api = page("API", "<p><a href=\"Foo.html\">Foo</a>");
    let home =
        page("Home", "<p><a href=/docs/intro>Intro</a> <a href=/docs/more/>More</a> <a href=/api/>API</a>");
    let mut bench = Bench::new(&[
        ("index.html", &home),
        ("docs/intro.html", &text),
        ("docs/more.html", &text),
        ("docs/unlinked.html", &text),
        ("api/index.html", &api),
        ("api/Foo.html", &text),
        ("api/Unlinked.html", &text),
    ]);
    let check = |site: &Site, docs: [&str; 3]| {
        let [plain, html, slash] = docs;
        for (path, expected) in [
            ("/docs/intro", plain),
            ("/docs/intro.html", html),
            ("/docs/intro/", slash),
            ("/docs/more/", "308 /docs/more"),
            ("/docs/unlinked", "page /docs/unlinked.md"),
            ("/api/Foo.html", "page /api/Foo.md"),
            ("/api/Foo", "308 /api/Foo.html"),
            ("/api/Foo/", "308 /api/Foo.html"),
            ("/api/Unlinked.html", "page /api/Unlinked.md"),
        ] {
            assert_eq!(describe(site, path), expected, "{path}");
        }
    };
    let clean = ["page /docs/intro.md", "308 /docs/intro", "308 /docs/intro"];
    check(&bench.site(), clean);
    // Links with both spellings.
    bench.write("docs/more.html", &page("More", "<p><a href=intro.html>Intro</a>"));
    check(&bench.site(), clean);
    bench.write("index.html", &home.replace("/docs/intro", "/docs/intro.html"));
    let kept = ["308 /docs/intro.html", "page /docs/intro.md", "308 /docs/intro.html"];
    let site = bench.site();
    let fresh = LoadCache::default().load(Path::new("/nonexistent"), &bench.options, &[]);
    for site in [site, fresh.site.expect("a site")] {
        for (path, expected) in ["/docs/intro", "/docs/intro.html", "/docs/intro/"].into_iter().zip(kept) {
            assert_eq!(describe(&site, path), expected, "{path}");
        }
        // The folder now has one page of each kind, so its other page follows the build.
        assert_eq!(describe(&site, "/docs/unlinked.html"), "page /docs/unlinked.md");
        let markdown = markdown(&site, "/docs/intro.html");
        assert!(markdown.contains("https://www.example.com/docs/intro.html"), "{markdown}");
    }
}

#[test]
fn only_links_that_nearly_all_pages_share_are_left_out() {
    let links = "<ul><li><a href=/>Home</a><li><a href=/a/>A</a></ul>";
    let names =
        ["index.html", "a/index.html", "b/index.html", "c/index.html", "d/index.html", "e/index.html"];
    let pages: Vec<(String, String)> = names
        .iter()
        .map(|name| {
            let shared = "<p>Call us: <a href=tel:1>1</a>.<p><a href=tel:2>2</a><h2>Examples</h2>";
            let main = format!("{links}{shared}<p>The text of {name} alone.</p>{links}");
            ((*name).to_owned(), page(name, &main))
        })
        .collect();
    let files: Vec<(&str, &str)> = pages.iter().map(|(name, text)| (&**name, &**text)).collect();
    let mut bench = Bench::new(&files);
    let site = bench.site();
    let text = markdown(&site, "/a/");
    let expected = "\n# a/index.html\n\nCall us: [1](tel:1).\n\n[2](tel:2)\n\n## Examples\n\nThe text of a/index.html alone.\n";
    assert!(text.ends_with(expected), "{text}");
    let beginning: Vec<&str> = text.lines().take(5).collect();
    assert_eq!(
        beginning[..3],
        ["---", "title: a/index.html", "llms_txt: \"https://www.example.com/llms.txt\""]
    );
    assert!(beginning[3].starts_with("doc_version: "), "{text}");
    assert_eq!(beginning[4], "url: \"https://www.example.com/a/\"");
    // The next load takes the conversions from the cache.
    assert_eq!(markdown(&bench.site(), "/a/"), text);
    bench.write("a/index.html", &page("New", "<p>Another text</p>"));
    assert!(markdown(&bench.site(), "/a/").ends_with("# New\n\nAnother text\n"));
}

#[test]
fn menus_that_the_pages_of_one_language_share_are_left_out() {
    let pages: Vec<(String, String)> = ["en", "de"]
        .iter()
        .flat_map(|language| {
            (0..6).map(move |number| {
                let text = format!("<ul><li><a href=/{language}/0.html>{language}</a></ul><p>text {number}");
                let text = page(&format!("{language} {number}"), &text)
                    .replace("lang=en", &format!("lang={language}"));
                (format!("{language}/{number}.html"), text)
            })
        })
        .chain([("index.html".to_owned(), page("Home", "<p>text"))])
        .collect();
    let files: Vec<(&str, &str)> = pages.iter().map(|(name, text)| (&**name, &**text)).collect();
    let site = Bench::new(&files).site();
    assert!(markdown(&site, "/de/3.html").ends_with("\n# de 3\n\ntext 3\n"));
}

#[test]
fn the_name_of_the_site_is_not_the_title_of_a_page() {
    let page = |title: &str, main: &str| format!("<!doctype html><title>{title}</title><body>{main}");
    let site = Bench::new(&[
        ("index.html", &page("Manual", "<p>x")),
        ("a.html", &page("Manual", "<h2>4.1 Cranes</h2><p>x")),
        ("b.html", &page("Pumps -- Manual", "<p>x")),
        ("c.html", &page("Ropes -- Manual", "<h1>All ropes</h1><p>x")),
    ])
    .site();
    for (path, title, heading) in [
        ("/", "Manual", "Manual"),
        ("/a", "\"4.1 Cranes\"", "4.1 Cranes"),
        ("/b", "Pumps", "Pumps"),
        ("/c", "Ropes", "All ropes"),
    ] {
        let text = markdown(&site, path);
        assert!(text.starts_with(&format!("---\ntitle: {title}\n")), "{path}: {text}");
        assert!(text.ends_with(&format!("\n# {heading}\n\nx\n")), "{path}: {text}");
    }
}

#[test]
fn rules_of_the_host_apply() {
    let text = page("Title", "<p>Text</p>");
    let mut bench = Bench::new(&[
        ("index.html", &text),
        ("about/index.html", &text),
        ("_headers", "/about/\n  Link: </x>; rel=\"next\"\n  Cache-Control: no-store\n"),
        (
            "_redirects",
            "/about/ /\n/old/* /about/:splat\n/app/* /index.html 200\n/late /about/ 200\n/old/x /\n\
             /*.php / 200\n/api/old/* /about/api/:splat\n",
        ),
    ]);
    let LoadResult { site, faults, .. } = bench.load();
    let site = site.expect("a site");
    assert_eq!(describe(&site, "/about/"), "page /about.md", "files take precedence");
    let shadowed = "_redirects:1: the rule has no effect: `/about/` is a page or a file";
    assert!(faults.len() == 1 && faults[0].to_string().starts_with(shadowed), "{faults:?}");
    assert_eq!(describe(&site, "/_redirects"), "nothing");
    let rule = |path| match site.find_rule(path) {
        Some(Cow::Owned(SiteEntry::Redirect(redirect))) => redirect.to,
        Some(Cow::Borrowed(SiteEntry::Page(page))) => format!("page {}", page.path),
        other => format!("{other:?}"),
    };
    assert_eq!(describe(&site, "/late"), "page /about.md", "rules without placeholders are entries");
    assert_eq!(describe(&site, "/late/"), "page /about.md");
    assert_eq!(describe(&site, "/old/x"), "nothing", "an earlier rule with a placeholder applies");
    for (path, expected) in [
        ("/old/x", "/about/x"),
        ("/app/a/b", "page /"),
        ("/x", "None"),
        ("/api/x.php", "None"),
        ("/api/old/x", "/about/api/x"),
        ("/x.php", "page /"),
    ] {
        assert_eq!(rule(path), expected, "{path}");
    }
    let Some(SiteEntry::Page(about)) = site.get("/about/") else { panic!("no page") };
    let link = about.html.link.clone().expect("a link");
    assert_eq!(link, "</about.md>; rel=\"alternate\"; type=\"text/markdown\", </x>; rel=\"next\"");
    assert!(about.html.headers.iter().any(|(name, value)| name == "cache-control" && value == "no-store"));

    bench.build().rules = RulesDialect::Cloudflare;
    assert_eq!(describe(&bench.site(), "/about/"), "302 /", "rules take precedence");
}

#[test]
fn a_rule_can_stand_for_the_home_page() {
    for (rules, expected) in [
        ("/ /en/ 302", Some("302 /en/")),
        ("/ /en/index.html 200", None),
        ("/ /de/ 302 Language=de\n/* /en/:splat 302", None),
    ] {
        let mut bench = Bench::new(&[("en/index.html", &page("Home", "<p>Text</p>")), ("_redirects", rules)]);
        assert_eq!(has_home_page(bench.folder.path()), rules.starts_with("/ /en/"), "{rules}");
        let LoadResult { site, faults, options, .. } = bench.load();
        let errors = faults.iter().filter(|fault| fault.severity == crate::fault::Severity::Error).count();
        assert_eq!(errors == 0, rules.starts_with("/ /en/"), "{rules} {faults:?}");
        if let Some(expected) = expected {
            assert_eq!(describe(&site.expect("a site"), "/"), expected);
            assert_eq!(options.title, "Home");
        }
    }
}

#[test]
fn circular_rules_are_ignored_with_a_warning() {
    let text = page("Title", "<p>Text</p>");
    let rules = "/about/ /about\n/self /self\n/articles/:slug /articles/:slug/\n/flat/:page/ /flat/:page\n\
                 /a /b\n/b /a\n/slash /slash/\n/x/* /x/y/:splat\n/to/* /about/\n";
    let mut bench = Bench::new(&[
        ("index.html", &text),
        ("about/index.html", &text),
        ("articles/new/index.html", &text),
        ("flat/one.html", &text),
        ("flat/two/index.html", &text),
        ("x/y/page.html", &text),
        ("_redirects", rules),
    ]);
    let check = |bench: &mut Bench, lines: &[usize], paths: &[(&str, &str)]| {
        let loaded = bench.load();
        let found: Vec<_> = loaded.faults.iter().filter_map(|fault| fault.line).collect();
        assert_eq!(found, lines, "{:?}", loaded.faults);
        let site = loaded.site.expect("a site");
        for (path, expected) in paths {
            let found = match site.find_rule(path).filter(|_| site.get(path).is_none()) {
                Some(Cow::Owned(SiteEntry::Redirect(redirect))) => redirect.to,
                _ => describe(&site, path),
            };
            assert_eq!(found, *expected, "{path}");
        }
    };
    let both = [
        ("/about/", "page /about.md"),
        ("/about", "308 /about/"),
        ("/self", "nothing"),
        ("/articles/new/", "page /articles/new.md"),
        ("/flat/two/", "page /flat/two.md"),
        ("/flat/one", "page /flat/one.md"),
        ("/a", "nothing"),
        ("/b", "nothing"),
        ("/x/page", "/x/y/page"),
        ("/x/other", "nothing"),
        ("/to/x", "/about/"),
    ];
    check(&mut bench, &[2, 3, 4, 5, 6, 7], &both);
    bench.build().rules = RulesDialect::Cloudflare;
    check(&mut bench, &[1, 2, 4, 5, 6, 8], &both);
}

#[test]
fn pages_of_a_build_state_the_preferences_unless_its_rules_do() {
    let text = page("Title", "<p>Text</p>");
    let mut bench = Bench::new(&[
        ("index.html", &text),
        ("index.md", "Written\n"),
        ("own/index.html", &text),
        ("robots.txt", "User-agent: *\nContent-Usage: train-ai=n\n"),
        ("_headers", "/own/\n  Content-Usage: search=n\n"),
    ]);
    let usage = |site: &Site, path: &str| {
        let Some(SiteEntry::Page(page)) = site.get(path) else { panic!("no page") };
        [&page.html, &page.markdown].map(|file| {
            let values = file.headers.iter().filter(|(name, _)| name == "content-usage");
            values.map(|(_, value)| value.to_str().expect("ASCII")).collect::<Vec<_>>().join("; ")
        })
    };
    assert_eq!(usage(&bench.site(), "/"), ["", ""]);
    bench.options.signals.ai_train = Some(false);
    let site = bench.site();
    assert_eq!(usage(&site, "/"), ["train-ai=n", "train-ai=n"]);
    assert_eq!(usage(&site, "/own/"), ["search=n", "search=n"]);
    assert!(markdown(&site, "/").ends_with("Written\n"));
}

#[test]
fn rules_apply_to_generated_files_at_their_own_paths() {
    let rules = "/*\n  X-All: 1\n  Link: </a>; rel=next\n  Content-Type: text/html\n/b\n  X-Robots-Tag: noindex\n\
                 /*.md\n  X-Robots-Tag: none\n/llms.txt\n  Content-Type: text/markdown\n  Cache-Control: no-store\n";
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text</p>")),
        ("b.html", &page("B", "<p>Text</p>")),
        ("w.html", &page("W", "<p>Text</p>")),
        ("w.md", "Written\n"),
        ("_headers", rules),
    ]);
    let mut site = bench.site();
    ResourceCache::default().add_resources(&mut site, &bench.options, &ResourceOptions::default());
    let headers = |file: &File| {
        let headers = file
            .headers
            .iter()
            .filter(|(name, _)| name != CONTENT_SECURITY_POLICY)
            .map(|(name, value)| (name.as_str(), value.to_str().expect("ASCII")));
        let mut lines: Vec<_> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
        lines.sort();
        (lines.join(", "), String::from_utf8_lossy(file.link.as_deref().unwrap_or_default()).into_owned())
    };
    for (path, expected) in [
        ("/b.md", "x-all: 1, x-robots-tag: none"),
        ("/w.md", "x-all: 1, x-robots-tag: none"),
        ("/index.md", "x-all: 1, x-robots-tag: none"),
        ("/llms.txt", "cache-control: no-store, content-type: text/markdown, x-all: 1"),
        ("/openapi.json", "x-all: 1"),
    ] {
        let Some(SiteEntry::File(file, _)) = site.get(path) else { panic!("no file {path}") };
        let (found, link) = headers(file);
        assert_eq!(found, expected, "{path}");
        assert_eq!(link.matches("</a>; rel=next").count(), 1, "{path}: {link}");
    }
    let of_page = headers(site.markdown("/b").expect("a page")).0;
    assert_eq!(of_page, "x-all: 1, x-robots-tag: noindex");
}

#[test]
fn doubtful_pages_and_missing_home_pages_are_faults() {
    let menu =
        format!("<nav>{}</nav><main><p>Short</p></main>", "<a href=/x>Some link of a menu</a> ".repeat(40));
    let wide = format!("<main><table><tr>{}</table></main>", "<th>Column".repeat(201));
    let mut bench = Bench::new(&[
        ("app.html", "<!doctype html><title>App</title><body><div id=app></div><script src=/x.js></script>"),
        ("menu.html", &format!("<!doctype html><title>Menu</title><body>{menu}</body>")),
        ("result.html", "<!doctype html><title></title><body>Searching<script src=/x.js></script>"),
        ("local.html", &page("Local", "<p>Text</p><img src='C:\\a.png' alt=b>")),
        ("wide.html", &page("Wide", &wide)),
    ]);
    let loaded = bench.load();
    let said: Vec<String> =
        loaded.faults.iter().map(|fault| format!("{}: {}", fault.place, fault.message)).collect();
    assert_eq!(
        said,
        [
            "app.html: the page has almost no text unless its scripts run",
            "index.html: the build has no home page",
            "local.html: `C:\\a.png` is a file on a computer, which visitors cannot open",
            "wide.html: 6 of 1210 letters of the main region are missing from the Markdown; the first missing text is \
             \"Column\" in <th> (column of a table that is too wide)",
        ]
    );
    assert!(loaded.site.is_none());

    let mut bench = Bench::new(&[("index.html", &page("Home", "<p>Text</p>"))]);
    bench.build().main = ".none".into();
    assert_eq!(
        bench.load().faults[0].message,
        "`convert.main`: the selector `.none` matches nothing on any page"
    );
    bench.build().main = "footer".into();
    assert!(markdown(&bench.site(), "/").ends_with("# Home\n\nAll rights reserved\n"));
}

/// The controls of a form that fits the definition in [`faults_of`].
const FITTING: &str = "<input name=email><input type=checkbox name='topics[]' value=A><input type=checkbox name=terms value=accepted>\
            <select name=seats><option value=''>?<option>1<option>2</select><input name=desk_note><button name=x>Send</button>\
            <select name=plan><option disabled>Choose<option value=Pro>The best</select><input type=submit name=y value=1>\
            <input type=hidden name=terms value=0><input type=hidden name=token value=1>";

/// The faults of a site with these pages and the form `quote`.
fn faults_of(files: &[(&str, &str)]) -> Vec<String> {
    let text = "title = \"T\"\n\
         [[field]]\nname = \"email\"\ntype = \"email\"\nlabel = \"E\"\nrequired = true\n\
         [[field]]\nname = \"seats\"\ntype = \"number\"\nmax = 9\nlabel = \"S\"\n\
         [[field]]\nname = \"plan\"\ntype = \"choice\"\noptions = [\"Basic\", \"Pro\"]\nlabel = \"P\"\n\
         [[field]]\nname = \"topics\"\ntype = \"choices\"\noptions = [\"A\", \"B\"]\nlabel = \"T\"\n\
         [[field]]\nname = \"terms\"\ntype = \"consent\"\nlabel = \"C\"\n";
    let form = frontdesk_forms::FormFile::read("quote", text, "forms/quote.toml").unwrap().form;
    let mut bench = Bench::new(files);
    let forms = [PageForm { definition: form, confirms: false, markdown: String::new() }];
    let mut load = || bench.cache.load(Path::new("/nonexistent"), &bench.options, &forms).faults;
    let first = load();
    assert_eq!(load(), first, "the second load takes the conversions from memory");
    first.iter().map(ToString::to_string).collect()
}

/// A page with the form `quote`, which has these controls from line 3 of the page on.
fn form_page(title: &str, controls: &str) -> String {
    let form = format!("<form data-frontdesk=quote>\n{controls}</form>");
    page(title, &format!("<p>All of the text of this page.</p>\n{form}"))
}

#[test]
fn controls_that_do_not_fit_the_definition_of_their_form_are_faults() {
    let faults = |files: &[(&str, &str)]| {
        let files: Vec<_> = files.iter().map(|(name, controls)| (*name, form_page(name, controls))).collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        faults_of(&files)
    };
    let full = FITTING;
    let check = |controls: &str, expected: &str| {
        let faults = faults(&[("index.html", controls)]);
        assert_eq!(faults.len(), usize::from(!expected.is_empty()), "{controls} {faults:?}");
        assert!(faults.concat().contains(expected), "{controls} {faults:?}");
    };
    check(full, "");
    check("", "");
    check(&format!("{full}\n<input name=emial>"), "index.html:4: the form `quote` has no field `emial`");
    check(&format!("{full}<textarea name='topic[]'></textarea>"), "did you mean `topics`?");
    check(&full.replace("<input name=email>", ""), "index.html:2: the form `quote` requires `email`");
    check(&full.replace("<input name=email>", "<button name=email value=a@b.example>Send</button>"), "");
    check(&full.replace("name=y value=1", "name=plan value=Gold"), "the control `plan` offers \"Gold\"");
    check(&full.replace("<option>2", "<option>two"), "the control `seats` offers \"two\"");
    check(&full.replace("value=Pro", "value=Gold"), "must be one of \"Basic\" and \"Pro\"");
    check(&full.replace("value=A", "value=C"), "the control `topics[]` offers \"C\"");
    check(
        &full.replace("checkbox name=terms", "radio name=terms"),
        "`terms` of the form `quote` is a consent",
    );
    let both = format!("{full}<input name=budget>");
    let found = faults(&[("index.html", &both), ("a.html", full), ("b.html", &both)]);
    assert!(matches!(&found[..], [one] if one.contains("(2 pages)")), "{found:?}");
}

#[test]
fn a_fault_names_the_line_of_the_control() {
    // The line is that of the control, not of another attribute that contains the same text.
    let lines = format!(
        "{FITTING}<p data-name=ema title='name=ema'>\n<input type=hidden name=emax>\n<INPUT Name = ema>"
    );
    let found = faults_of(&[("index.html", &form_page("A", &lines))]);
    assert!(found[0].starts_with("index.html:5: the form `quote` has no field `ema`"), "{found:?}");
    let meta = faults_of(&[("index.html", &form_page("A", &format!("{FITTING}\n<input name=author>")))]);
    assert!(meta[0].starts_with("index.html:4: "), "{meta:?}");
    let text = "<p>All of the text of this page.</p>";
    // A control elsewhere counts only if it belongs to the form, and code in scripts is no HTML.
    for (before, controls, after, line) in [
        ("<input name=emu form=f>\n", "", "\n<form><input name=emu></form>", 2),
        ("<input name=emu>\n", "", "\n<input name=emu form=f>", 5),
        ("<input name=emu form=g>\n", "\n<input name=emu>", "", 5),
        ("<script>\nif (a<b && c='x\"y') z=\"\n</script>", "<input name=emu>", "", 5),
        ("<!-- <script> -->\n<STYLE>\na<b c=\"\n</STYLE>", "<input name=emu>", "", 6),
        (
            "<!-- <style> <input name=emu form=f> -->",
            "",
            "<form data-frontdesk=quote>\n<input name=emu></form>",
            4,
        ),
    ] {
        let form = format!("<form data-frontdesk=quote id=f>\n{FITTING}{controls}</form>");
        let found = faults_of(&[("index.html", &page("A", &format!("{text}\n{before}{form}{after}")))]);
        let expected = format!("index.html:{line}: the form `quote` has no field `emu`");
        assert!(found.iter().any(|fault| fault.starts_with(&expected)), "{before} {found:?}");
    }
}

#[test]
fn pages_in_other_encodings_are_converted() {
    let mut bench = Bench::new(&[("index.html", &page("Home", ""))]);
    let latin = page("Caf\u{e9}", "<p>Gr\u{fc}n</p>").replace("<title>", "<meta charset=iso-8859-1><title>");
    let bytes: Vec<u8> = latin.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin 1")).collect();
    fs::write(bench.folder.path().join("latin.html"), &bytes).expect("the file is written");
    let site = bench.site();
    assert!(markdown(&site, "/latin").ends_with("# Caf\u{e9}\n\nGr\u{fc}n\n"));
    let Some(SiteEntry::Page(latin)) = site.get("/latin") else { panic!("no page") };
    assert_eq!(latin.html.media_type, "text/html", "the page declares its own encoding");
}

#[test]
fn the_404_page_of_the_innermost_folder_applies() {
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text</p>")),
        ("404.html", &page("Nothing", "")),
        ("de/index.html", &page("Start", "<p>Text</p>")),
        ("de/404.html", &page("Nichts", "")),
        ("de/api/404.html", &page("Keine API", "")),
    ]);
    let check = |site: &Site, cases: &[(&str, &str)]| {
        for (path, expected) in cases {
            let page = site.not_found_at(path);
            let html = String::from_utf8_lossy(&page.html.unencoded().bytes);
            assert!(html.contains(&format!("<title>{expected}<")), "{path}: {html}");
            let markdown = String::from_utf8_lossy(&page.markdown.unencoded().bytes);
            assert!(markdown.contains(&format!("# {expected}\n")), "{path}: {markdown}");
            assert_eq!((&page.html.link, &page.markdown.link), (&None, &None), "{path}");
        }
    };
    let site = bench.site();
    check(&site, &[("/x", "Nothing"), ("/dex", "Nothing"), ("/de", "Nichts"), ("/de/x/y", "Nichts")]);
    check(&site, &[("/de/api/", "Keine API"), ("/de/api/x", "Keine API")]);
    let listed: Vec<&str> = site.pages.iter().map(|page| page.path.as_str()).collect();
    assert_eq!(listed, ["/", "/de/"]);
    assert_eq!(describe(&site, "/de/404"), "page /de/404.md", "it may be an ordinary page");
    bench.build().mount = "/docs/".into();
    check(&bench.site(), &[("/x", "Nothing"), ("/de/x", "Nothing"), ("/docs/de/x", "Nichts")]);
}

#[test]
fn the_404_page_of_a_language_may_be_in_a_folder() {
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text</p>")),
        ("de/404/index.html", &page("Nichts", "")),
        ("zh-Hant/404/index.html", &page("Wu", "")),
        ("errors/404/index.html", &page("The status 404", "<p>Text</p>")),
        ("de/errors/404/index.html", &page("Der Status 404", "<p>Text</p>")),
        ("500.html", &page("Broken", "<link rel=canonical href=/500.html><p><a href=/500>Reload</a>")),
    ]);
    let site = bench.site();
    let listed: Vec<&str> = site.pages.iter().map(|page| page.path.as_str()).collect();
    assert_eq!(listed, ["/", "/de/errors/404/", "/errors/404/"]);
    for (path, expected) in [("/de/x", "Nichts"), ("/zh-Hant/x", "Wu"), ("/errors/x", "Not found")] {
        let html = &site.not_found_at(path).html.unencoded().bytes;
        assert!(String::from_utf8_lossy(html).contains(&format!("<title>{expected}<")), "{path}");
    }
    assert_eq!(describe(&site, "/500"), "page /500.md");
}

#[test]
fn pages_with_another_canonical_page_are_not_listed() {
    let named = |title: &str, url: &str| {
        page(title, "<p>Text</p>").replace("<title>", &format!("<link rel=canonical href=\"{url}\"><title>"))
    };
    let host = "https://docs.example.com";
    let mut bench = Bench::new(&[
        ("index.html", &named("Home", "https://www.docs.example.com/")),
        ("latest/a.html", &named("A", &format!("{host}/latest/a.html"))),
        ("v1/a.html", &named("A 1", &format!("{host}/latest/a"))),
        ("print/a/index.html", &named("A print", "/latest/a/?print#top")),
        ("own/index.html", &named("Own", &format!("{host}/own"))),
        ("gone.html", &named("Gone", &format!("{host}/nowhere/"))),
        ("copy.html", &named("Copy", "https://blog.example.org/copy/")),
        ("third.html", &named("Third", &format!("{host}/v1/a.html"))),
        (
            "hidden.html",
            &page("Hidden", "<p>Text</p>").replace("<title>", "<meta name=robots content=noindex><title>"),
        ),
        ("to-hidden.html", &named("To hidden", &format!("{host}/hidden"))),
        ("none.html", &page("None", "<p>Text</p>")),
    ]);
    let listed = |site: &Site| site.pages.iter().map(|page| page.path.clone()).collect::<Vec<_>>();
    let site = bench.site();
    assert_eq!(listed(&site), ["/", "/gone", "/latest/a", "/none", "/own/", "/third", "/to-hidden"]);
    for (path, canonical) in [
        ("/v1/a", "https://www.example.com/latest/a"),
        ("/print/a/", "https://www.example.com/latest/a"),
        ("/copy", "https://blog.example.org/copy/"),
        ("/gone", "https://www.example.com/gone"),
        ("/third", "https://www.example.com/third"),
        ("/to-hidden", "https://www.example.com/to-hidden"),
    ] {
        let link = site.markdown(path).and_then(|file| file.link.clone()).expect(path);
        assert_eq!(link, format!("<{canonical}>; rel=\"canonical\""), "{path}");
    }
    for (path, expected) in [("/hidden", true), ("/to-hidden", false), ("/copy", false)] {
        let headers = &site.markdown(path).expect(path).headers;
        assert_eq!(headers.contains(&noindex_header()), expected, "{path}");
    }
    // A template that names the same page everywhere.
    let pages = ["a.html", "b.html", "c.html"].map(|name| (name, named(name, &format!("{host}/"))));
    let home = page("Home", "<p>Text</p>");
    let mut files = vec![("index.html", &*home)];
    files.extend(pages.iter().map(|(name, text)| (*name, &**text)));
    assert_eq!(listed(&Bench::new(&files).site()), ["/", "/a", "/b", "/c"]);
}

#[test]
fn decomposed_names_are_found_at_composed_paths() {
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "")),
        ("cafe\u{301}/index.html", &page("Cafe", "")),
        ("\u{e9}.txt", ""),
    ]);
    let site = bench.site();
    for (path, expected) in [
        ("/caf\u{e9}/", "page /cafe%CC%81.md"),
        ("/cafe\u{301}/", "page /cafe%CC%81.md"),
        ("/e\u{301}.txt", "Asset text/plain; charset=utf-8"),
        ("/cafe/", "nothing"),
    ] {
        assert_eq!(describe(&site, path), expected, "{path}");
    }
}

#[test]
fn documents_for_other_origins_can_be_read_by_them() {
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text</p>")),
        (".well-known/nostr.json", "{}"),
        (".well-known/own.json", "{}"),
        ("data.json", "{}"),
        ("_headers", "/.well-known/own.json\n  Access-Control-Allow-Origin: https://a.example\n"),
    ]);
    let site = bench.site();
    for (path, expected) in [
        ("/.well-known/nostr.json", &["*"][..]),
        ("/.well-known/own.json", &["https://a.example"]),
        ("/data.json", &[]),
    ] {
        let Some(SiteEntry::File(file, _)) = site.get(path) else { panic!("{path}") };
        let origins = file.headers.iter().filter(|(name, _)| name == "access-control-allow-origin");
        assert_eq!(origins.map(|(_, value)| value).collect::<Vec<_>>(), expected, "{path}");
    }
}

#[test]
fn a_build_for_another_base_path_is_reported() {
    let links = "<link rel=stylesheet href=/repo/s.css><a href=/repo/>A</a> <a href=/repo/a/?b#c>B</a> \
                 <a href=/repo>C</a> <a href=/other>D</a> <a href=//example.org/a/>E</a>";
    let files = [
        ("index.html", page("Home", links)),
        ("a/index.html", page("A", "<p>Text</p>")),
        ("s.css", String::new()),
    ];
    let mut files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, &**text)).collect();
    let faults = |bench: &mut Bench| bench.load().faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut bench = Bench::new(&files);
    let found = faults(&mut bench);
    assert!(
        found.len() == 1 && found[0].starts_with("index.html: most of its links begin with `/repo/`"),
        "{found:?}"
    );
    bench.build().mount = "/repo/".into();
    assert_eq!(faults(&mut bench), [""; 0]);
    files.push(("repo/x.txt", ""));
    assert_eq!(faults(&mut Bench::new(&files)), [""; 0], "the build has this folder");
    let broken = page("Home", "<a href=/repo/x>A</a> <a href=/repo/y>B</a> <a href=/a/>C</a>");
    files[0].1 = &broken;
    files.pop();
    assert_eq!(faults(&mut Bench::new(&files)), [""; 0], "the links are only broken");
}

#[test]
fn a_link_to_the_markdown_is_added_on_request() {
    let mut bench = Bench::new(&[("index.html", "<html><head><title>A</title></head><body><h1>A</h1>")]);
    bench.build().adds_link_element = true;
    let site = bench.site();
    let Some(SiteEntry::Page(home)) = site.get("/") else { panic!("no page") };
    let expected = "<html><head><title>A</title>\
        <link rel=\"alternate\" type=\"text/markdown\" href=\"/index.md\"></head><body><h1>A</h1>";
    assert_eq!(home.html.unencoded().bytes, expected);
}

#[test]
fn texts_that_are_not_configured_come_from_the_home_page() {
    let home = "<html><head><title>Home | Acme</title><meta property=og:site_name content=Acme>\
        <meta name=description content=\"What we make\"></head><body><h1>Home</h1>";
    let mut bench = Bench::new(&[("index.html", home)]);
    let options = bench.load().options;
    assert_eq!((options.title.as_str(), options.description.as_str()), ("Acme", "What we make"));
    bench.options.title = "Own".into();
    assert_eq!(bench.load().options.title, "Own");
    // The name that the titles have in common, and a home page that only redirects.
    let titled =
        |title: &str| format!("<html><head><title>{title}</title></head><body><h1>{title}</h1><p>Text");
    let home = titled("Home | Cranes");
    let [about, team] = ["About | Cranes", "Team | Cranes"].map(titled);
    let redirect = "<html><head><title>Redirecting</title>\
        <meta http-equiv=refresh content='0; url=https://www.example.com/en/index.html'></head><body>";
    for files in [
        vec![("index.html", &*home), ("about.html", &about), ("team.html", &team)],
        vec![
            ("index.html", redirect),
            ("en/index.html", &home),
            ("about.html", &about),
            ("team.html", &team),
        ],
        vec![
            ("index.html", redirect),
            ("en/index.html", "<html><head><title>Cranes</title></head><body><p>Text"),
        ],
    ] {
        assert_eq!(Bench::new(&files).load().options.title, "Cranes", "{files:?}");
    }
}

#[test]
fn a_title_that_most_pages_have_names_none_of_them() {
    let page = |own: &str| {
        format!("<!doctype html><title>Acme</title><body><main><h1>Acme</h1><h2>{own}</h2><p>Text</main>")
    };
    let files = [("index.html", page("Welcome")), ("a.html", page("Prices")), ("b.html", page("About"))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let site = Bench::new(&files).site();
    let titles: Vec<&str> = site.pages.iter().map(|page| page.title.as_str()).collect();
    assert_eq!(titles, ["Acme", "Prices", "About"]);
}

#[test]
fn pages_of_a_build_and_markdown_pages_share_a_site() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench =
        Bench::new(&[("index.html", &page("Build", "<p>Text</p>")), ("404.html", &page("Gone", ""))]);
    fs::create_dir(folder.path().join("pages")).expect("a folder");
    let write = |name: &str| {
        let text = "---\ntitle: Own\ndescription: A page.\n---\n[Home](/)\n";
        fs::write(folder.path().join("pages").join(name), text).expect("the file is written");
    };
    write("own.md");
    let loaded = bench.cache.load(folder.path(), &bench.options, &[]);
    assert_eq!(loaded.faults, []);
    let site = loaded.site.expect("a site");
    assert_eq!(
        (describe(&site, "/").as_str(), describe(&site, "/own/").as_str()),
        ("page /index.md", "page /own.md")
    );
    assert_eq!(site.page_count, 2);
    assert!(String::from_utf8_lossy(&site.not_found.html.unencoded().bytes).contains("Gone"));
    write("index.md");
    let loaded = bench.cache.load(folder.path(), &bench.options, &[]);
    assert_eq!(loaded.faults[0].message, "the path `/` is taken by index.html");
}

#[test]
fn a_folder_is_a_build_unless_its_pages_are_sources() {
    for (files, expected) in [
        (&["index.html"][..], true),
        (&["index.html", "pages/about.html"], true),
        (&["index.html", "pages/photo.png", "frontdesk.toml"], true),
        // Generators write Markdown beside the HTML.
        (&["index.html", "pages/about.html", "pages/about.md"], true),
        (&["index.html", "pages/about/index.html", "pages/about.md", "pages/about/index.md"], true),
        (&["index.html", "pages/a/b.html", "pages/a/b/index.md"], true),
        (&["index.html", "pages/index.html", "pages/index.md"], true),
        // Sources of a site, also beside other HTML.
        (&["index.html", "pages/index.md"], false),
        (&["index.html", "pages/about.html", "pages/de/about.md"], false),
        (&["index.html", "frontdesk.toml", "pages/index.md", "pages/index.html", "pages/a.md"], false),
        (&["about.html", "pages/about.html"], false),
        (&["index.html/a"], false),
        (&["index.htm"], true),
        (&["index.htm", "pages/index.md"], false),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        for name in files {
            let at = folder.path().join(name);
            fs::create_dir_all(at.parent().expect("a folder")).expect("the folder exists");
            fs::write(at, "").expect("the file is written");
        }
        assert_eq!(is_build(folder.path()), expected, "{files:?}");
        assert_eq!(
            has_home_page(folder.path()),
            ["index.html", "index.htm"].contains(&files[0]),
            "{files:?}"
        );
    }
    assert!(!is_build(Path::new("")));
}

#[test]
fn a_folder_named_pages_is_a_part_of_the_build() {
    let text = page("Home", "<p>Text</p>");
    let mut bench = Bench::new(&[("index.html", &text), ("pages/about.html", &page("About", "<p>Us</p>"))]);
    bench.write("pages/about.md", "# About\n\nWritten.\n");
    let folder = bench.folder.path().to_owned();
    let loaded = bench.cache.load(&folder, &bench.options, &[]);
    assert_eq!(loaded.faults, []);
    let site = loaded.site.expect("a site");
    assert_eq!(describe(&site, "/pages/about"), "page /pages/about.md");
    assert_eq!(markdown(&site, "/pages/about"), "# About\n\nWritten.\n");
}

#[test]
fn pages_that_forbid_indexing_are_served_and_not_listed() {
    let hidden = |robots: &str| {
        page("Hidden", "<p>Text</p>")
            .replace("<title>", &format!("<meta name=robots content={robots}><title>"))
    };
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text</p>")),
        ("a.html", &hidden("NOINDEX")),
        ("b.html", &hidden("none")),
        ("c.html", &page("C", "<p>Text</p>")),
        ("drafts/d.html", &page("D", "<p>Text</p>")),
        ("e.html", &page("E", "<p>Text</p>")),
        (
            "_headers",
            "/drafts/*\n  X-Robots-Tag: googlebot: noindex\n/c\n  X-Robots-Tag: noarchive\n\
                      /e\n  X-Robots-Tag: GPTBot: noindex\n",
        ),
    ]);
    let site = bench.site();
    let listed: Vec<&str> = site.pages.iter().map(|page| page.path.as_str()).collect();
    assert_eq!(listed, ["/", "/c", "/e"]);
    for path in ["/a", "/b", "/drafts/d"] {
        assert!(describe(&site, path).starts_with("page "), "{path}");
    }
}

#[test]
fn pages_that_crawlers_must_not_fetch_are_not_listed() {
    let text = page("Title", "<p>Text</p>");
    let mut bench = Bench::new(&[
        ("index.html", &text),
        ("secret.html", &text),
        ("own/a.html", &text),
        ("own/b/index.html", &text),
        ("robots.txt", "User-agent: *\nDisallow: /secret.html\nDisallow: /own/\nAllow: /own/b/\n"),
    ]);
    let site = bench.site();
    let listed: Vec<&str> = site.pages.iter().map(|page| page.path.as_str()).collect();
    assert_eq!(listed, ["/", "/own/b/"]);
    assert!(describe(&site, "/secret").starts_with("page "));
}

#[test]
fn versions_behind_symbolic_links_are_listed_once() {
    let text = |title: &str| page(title, "<p>Text</p>");
    let named = text("C").replace("<title>", "<link rel=canonical href=/latest/c><title>");
    let mut bench = Bench::new(&[
        ("v1/a.html", &text("A 1")),
        ("v2/a.html", &text("A 2")),
        ("v2/index.html", &text("Version 2")),
        ("v2/c.html", &named),
    ]);
    for (link, target) in [("latest", "v2"), ("dev", "latest"), ("index.html", "v2/index.html")] {
        symlink(target, bench.folder.path().join(link)).expect("a link");
    }
    let site = bench.site();
    let listed: Vec<&str> = site.pages.iter().map(|page| page.path.as_str()).collect();
    assert_eq!(listed, ["/", "/latest/c", "/v1/a", "/v2/", "/v2/a"]);
    let link = site.markdown("/dev/a").and_then(|file| file.link.clone()).expect("a link");
    assert_eq!(link, "<https://www.example.com/v2/a>; rel=\"canonical\"");
    fs::remove_file(bench.folder.path().join("dev")).expect("it is removed");
    for (name, text) in
        [("robots.txt", "User-agent: *\nDisallow: /v2/\n"), ("_headers", "/v2/*\n  X-Robots-Tag: noindex\n")]
    {
        bench.write(name, text);
        let site = bench.site();
        let listed: Vec<&str> = site.pages.iter().map(|page| page.path.as_str()).collect();
        assert_eq!(listed, ["/", "/latest/", "/latest/a", "/latest/c", "/v1/a"], "{name}");
        bench.write(name, "");
    }
}

#[test]
fn a_home_page_that_is_a_source_is_reported() {
    let mut bench = Bench::new(&[("index.html", "---\nlayout: default\n---\n<h1>Home</h1>{{ content }}")]);
    let said: Vec<String> = bench.load().faults.iter().map(ToString::to_string).collect();
    assert!(said.len() == 1 && said[0].starts_with("index.html: begins with front matter"), "{said:?}");
}

#[test]
fn pages_at_the_endpoints_of_forms_are_reported() {
    let text = page("Title", "<p>Text</p>");
    let mut bench =
        Bench::new(&[("index.html", &text), ("api/contact.html", &text), ("api/waitlist/index.html", &text)]);
    bench.options.form_set = FormSet::built_in().clone();
    let said: Vec<String> = bench.load().faults.iter().map(ToString::to_string).collect();
    let expected =
        "api/contact.html: the page cannot be reached: `/api/contact` is the endpoint of the form `contact`";
    assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
}

#[test]
fn copies_of_sources_do_not_replace_the_markdown_of_a_page() {
    let text = page("Title", "<p>Text</p>");
    let mut bench = Bench::new(&[
        ("index.html", &text),
        ("index.md", "---\ntitle: Title\n---\n# Title\n\nWritten.\n"),
        ("raw/index.html", &text),
        ("raw.md", "---\ntitle: Title\n---\n{{< include \"a\" >}}\n"),
        ("other.html", &text),
        ("other.md", "{% include a %}\n"),
        ("loose.md", "{% include a %}\n"),
    ]);
    let loaded = bench.load();
    let said: Vec<String> = loaded.faults.iter().map(ToString::to_string).collect();
    let expected = "other.md:1: has template syntax (`{%`), as does one other file; the Markdown of the page is made from \
                    its HTML";
    assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
    let site = loaded.site.expect("a site");
    assert!(markdown(&site, "/").ends_with("# Title\n\nWritten.\n"), "{}", markdown(&site, "/"));
    for (path, twin) in [("/raw/", "/raw.md"), ("/other", "/other.md")] {
        assert_eq!(describe(&site, path), format!("page {twin}"));
        assert!(markdown(&site, path).ends_with("# Title\n\nText\n"), "{}", markdown(&site, path));
        let Some(SiteEntry::File(file, Role::Twin(_))) = site.get(twin) else { panic!("no twin") };
        assert_eq!(file.unencoded().bytes, markdown(&site, path));
    }
    assert!(describe(&site, "/loose.md").starts_with("Asset"), "it is beside no page");
}

#[test]
fn plain_pages_have_the_direction_of_their_language() {
    for (language, expected) in [("he", "<html lang=\"he\" dir=\"rtl\">"), ("de", "<html lang=\"de\">")] {
        let mut bench = Bench::new(&[("index.html", &page("Home", "<p>Text</p>"))]);
        (bench.options.language, bench.options.html_posts) = (language.into(), true);
        let forms =
            [PageForm { definition: *frontdesk_forms::CONTACT, confirms: false, markdown: String::new() }];
        let site = bench.cache.load(Path::new("/nonexistent"), &bench.options, &forms).site.expect("a site");
        let Some(SiteEntry::Page(thanks)) = site.get("/thanks/") else { panic!("no page after the form") };
        let thanks = String::from_utf8_lossy(&thanks.html.unencoded().bytes);
        let answer = format!("{:?}", site.form_page("contact", "/").expect("a page for the form"));
        for html in [thanks.into_owned(), answer.replace("\\\"", "\"")] {
            assert!(html.contains(expected), "{html}");
        }
    }
}

#[test]
fn a_home_page_may_be_named_index_htm() {
    let mut bench = Bench::new(&[("index.htm", "<p>Text</p>"), ("a/index.htm", "<p>Text</p>")]);
    let site = bench.site();
    assert_eq!(describe(&site, "/"), "page /index.md");
    assert_eq!(describe(&site, "/a/"), "page /a.md");
    let links: String = ["x", "y", "z"].map(|name| format!("<a href=/docs/{name}.html>{name}</a>")).concat();
    let files = ["index.htm", "x.html", "y.html", "z.html"].map(|name| (name, page("Title", &links)));
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let said = Bench::new(&files).load().faults;
    assert!(
        said.len() == 1 && said[0].to_string().starts_with("index.htm: most of its links begin"),
        "{said:?}"
    );
}

#[test]
fn sites_with_the_same_hash_have_the_same_headers() {
    let hash = |rules: &str, change: &dyn Fn(&mut PagesOptions)| {
        let home = page("Home", "<p>Text</p>");
        let mut bench = Bench::new(&[
            ("index.html", &home),
            ("data.json", "{}"),
            ("_redirects", "/one /data.json 200\n"),
            ("_headers", rules),
        ]);
        change(&mut bench.options);
        bench.site().hash().to_owned()
    };
    let first = hash("/*\n  X-A: 1\n", &|_| {});
    assert_eq!(hash("/*\n  X-A: 1\n", &|_| {}), first);
    let signals = |options: &mut PagesOptions| options.signals.search = Some(true);
    let links = |options: &mut PagesOptions| options.home_links = vec!["</x>; rel=\"y\"".to_owned()];
    for other in [
        hash("/*\n  X-A: 2\n", &|_| {}),
        hash("/data.json\n  X-A: 1\n", &|_| {}),
        hash("/*\n  X-A: 1\n/one\n  X-B: 1\n", &|_| {}),
        hash("/*\n  X-A: 1\n", &signals),
        hash("/*\n  X-A: 1\n", &links),
    ] {
        assert_ne!(other, first);
    }
}

#[test]
fn panics_on_files_of_a_build_are_reported() {
    if std::env::var_os("INJECT_PANICS").is_none() {
        // Run this test again in a process in which code panics.
        let folder = tempfile::tempdir().expect("a folder");
        let points = folder.path().join("points");
        let lines = "build-page-again a.html\ntemplate-syntax a.md\nfragment part.html\n";
        fs::write(&points, lines).expect("the file is written");
        let output = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "prebuilt::tests::panics_on_files_of_a_build_are_reported"])
            .env("INJECT_PANICS", &points)
            .output()
            .expect("it runs");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
        return;
    }
    let text = |title: &str| format!("<!doctype html><title>{title} | Acme</title><main><p>Text</p></main>");
    let pages = ["index", "a", "b", "c"].map(|name| (format!("{name}.html"), text(name)));
    let mut bench = Bench::new(&[("part.html", "<p>Part</p>"), ("a.md", "# A\n\n{% include x %}\n")]);
    for (name, text) in &pages {
        bench.write(name, text);
    }
    for load in ["first", "second"] {
        let LoadResult { site, faults, .. } = bench.load();
        let said: Vec<_> =
            faults.iter().map(|fault| (fault.place.as_str(), fault.message.as_str())).collect();
        let consequences = [
            ("a.html", "the page's Markdown may contain links and a site name that other pages share"),
            ("a.md", "the Markdown of the page is made from its HTML"),
            ("part.html", "its inline scripts and styles do not apply"),
        ];
        assert_eq!(said.len(), 3, "{load}: {said:?}");
        for ((place, message), (file, consequence)) in said.into_iter().zip(consequences) {
            assert!(place == file && message.ends_with(consequence), "{load}: {place}: {message}");
            assert!(message.starts_with("a defect in frontdesk"), "{load}: {message}");
        }
        let site = site.expect("a site");
        assert!(markdown(&site, "/a").ends_with("# a | Acme\n\nText\n"), "{}", markdown(&site, "/a"));
        assert!(markdown(&site, "/b").ends_with("# b\n\nText\n"), "{}", markdown(&site, "/b"));
    }
    // The first Markdown of `a` was dropped, and making it again panics, too.
    for (name, text) in pages.iter().filter(|(name, _)| name != "a.html") {
        bench.write(name, &text.replace("Acme", "Other"));
    }
    let LoadResult { site, faults, .. } = bench.load();
    let consequence = "the page's Markdown only links to its HTML";
    assert!(faults[0].place == "a.html" && faults[0].message.ends_with(consequence), "{faults:?}");
    assert!(markdown(&site.expect("a site"), "/a").contains("available as HTML: <"));
}

#[test]
fn the_markdown_of_a_hidden_page_stays_hidden_beside_other_directives() {
    let hidden =
        page("Hidden", "<p>Text</p>").replace("<title>", "<meta name=robots content=noindex><title>");
    let redirect = "<title>To</title><meta http-equiv=refresh content='0; url=/'>";
    let hidden_redirect = format!("{redirect}<meta name=robots content=noindex>");
    let site = Bench::new(&[
        ("index.html", &*page("Home", "")),
        ("a.html", &hidden),
        ("b.html", &hidden),
        ("b.md", "# Own"),
        ("to.html", redirect),
        ("from.html", &hidden_redirect),
        ("_headers", "/*\n  X-Robots-Tag: noai\n/a.md\n  X-Robots-Tag: noarchive\n"),
    ])
    .site();
    let robots = |path: &str| {
        let file = match site.get(path) {
            Some(SiteEntry::Page(page)) => &page.markdown,
            Some(SiteEntry::File(file, _)) => file,
            other => panic!("{path}: {other:?}"),
        };
        let values = file.headers.iter().filter(|(name, _)| name == X_ROBOTS_TAG);
        values.map(|(_, value)| value.to_str().expect("ASCII").to_owned()).collect::<Vec<_>>().join("; ")
    };
    for path in ["/a", "/b", "/from"] {
        assert_eq!(robots(path), "noindex, noai", "{path}");
    }
    for path in ["/to", "/"] {
        assert_eq!(robots(path), "noai", "{path}");
    }
    assert!(robots("/a.md").starts_with("noindex, "), "{}", robots("/a.md"));
}

#[test]
fn access_rules_of_other_hosts_are_errors_if_files_are_below_them() {
    let rule = ("members/.htaccess", "Require valid-user");
    let home = page("Home", "");
    let load = |files: &[(&str, &str)]| Bench::new(files).load();
    let guarded = load(&[("index.html", &home), rule, ("members/a.html", &home)]);
    assert!(guarded.site.is_none(), "{:?}", guarded.faults);
    let empty = load(&[("index.html", &home), rule, ("members/a.php", "<?php")]);
    assert!(empty.site.is_some(), "{:?}", empty.faults);
}
