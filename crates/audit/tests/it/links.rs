//! Planted faults in links, lists of pages and declarations.

use frontdesk_audit::Finding;
use frontdesk_audit::Severity::{Advice, Broken};

use crate::site::{Answer, Asked, FakeSite, describe};

/// A site that answers 404 to requests for a path.
fn without(path: &'static str) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| {
        if asked.path() == path { Answer::new(404, "text/plain", "not found") } else { answer }
    })
}

/// A site whose answer at one path is changed.
fn with(path: &'static str, change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> FakeSite {
    FakeSite::with_fault(
        move |asked, answer| if asked.path() == path { change(asked, answer) } else { answer },
    )
}

/// A site whose HTML is changed by replacing text.
fn with_html(from: &'static str, to: &'static str) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| {
        if !answer.header("content-type").starts_with("text/html") {
            return answer;
        }
        let to = to.replace("{origin}", &asked.origin).replace("{path}", asked.path());
        answer.replaced(from, &to)
    })
}

#[test]
fn broken_links_of_llms_txt_are_found() {
    without("/docs/install/index.md").assert_finds("llms-link-broken", Broken);
    let refused = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/docs/install/index.md" => Answer::new(403, "text/plain", "for members"),
        _ => answer,
    });
    refused.assert_clean();
}

#[test]
fn an_llms_txt_behind_a_redirect_is_read() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/llms.txt" => Answer::new(302, "", "").with("location", "/docs/llms.txt"),
        "/docs/llms.txt" => Answer::new(200, "text/plain", "# Example\n\n> x\n\n- [a](/none.md): x\n"),
        _ => answer,
    });
    let report = site.audit();
    assert!(report.findings.iter().any(|f| f.rule.id == "llms-link-broken"), "{}", describe(&report));
}

#[test]
fn links_of_llms_txt_to_html_are_found() {
    with("/llms.txt", |_, answer| answer.replaced("index.md", ""))
        .assert_finds("llms-link-not-markdown", Advice);
}

#[test]
fn an_llms_txt_without_its_form_is_found() {
    with("/llms.txt", |_, answer| answer.replaced("# Example company\n\n", ""))
        .assert_finds("llms-format", Advice);
    let text = "# Example company\n\nSee our website.\n";
    with("/llms.txt", move |_, answer| Answer { body: text.into(), ..answer })
        .assert_finds("llms-format", Advice);
}

#[test]
fn lists_that_disagree_are_found() {
    let site = with("/sitemap.xml", |asked, answer| {
        let about = format!("<url><loc>{}/about/</loc></url>\n", asked.origin);
        let start = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">";
        Answer { body: format!("{start}{about}</urlset>").into(), ..answer }
    });
    site.assert_finds("llms-sitemap-disagree", Advice);
}

#[test]
fn an_invalid_sitemap_is_found() {
    let late = "\n<?xml version=\"1.0\"?><urlset";
    for (from, to) in [("</urlset>", ""), ("urlset", "sites"), ("/about/", "/?a=1&b=2"), ("<urlset", late)] {
        with("/sitemap.xml", move |_, answer| answer.replaced(from, to))
            .assert_finds("sitemap-invalid", Broken);
    }
    for base in ["", "www.example.com", "localhost:4321"] {
        let site = with("/sitemap.xml", move |asked, answer| answer.replaced(&asked.origin, base));
        let report = site.audit();
        let found = report.findings.iter().find(|finding| finding.rule.id == "sitemap-invalid");
        let expected = format!("not absolute: 4 in total, starting with `{base}/`");
        assert!(found.is_some_and(|own| own.message.ends_with(&expected)), "{}", describe(&report));
    }
}

#[test]
fn other_forms_of_sitemaps_are_valid() {
    let site = with("/sitemap.xml", |asked, _| {
        let urls = crate::content::PAGES.map(|(path, _)| format!("{}{path}\n", asked.origin));
        Answer::new(200, "text/plain", urls.concat()).with("cache-control", "no-cache")
    });
    site.assert_clean();
    let site = with("/sitemap.xml", |_, answer| Answer { body: b"\x1f\x8b\x08\x00".to_vec(), ..answer });
    site.assert_clean();
}

#[test]
fn broken_links_of_the_sitemap_are_found() {
    let site = with("/sitemap.xml", |asked, answer| {
        answer.replaced("</urlset>", &format!("<url><loc>{}/old/</loc></url></urlset>", asked.origin))
    });
    site.assert_finds("sitemap-link-broken", Broken);
}

#[test]
fn foreign_addresses_in_the_sitemap_are_found() {
    let site = with("/sitemap.xml", |asked, answer| {
        answer.replaced(&format!("{}/about/", asked.origin), "https://www.example.com/about/")
    });
    site.assert_finds("sitemap-foreign-urls", Advice);
}

/// A local build has the addresses of the public site everywhere.
#[test]
fn the_host_of_the_public_site_is_no_fault_of_a_build() {
    let build = |lists: &'static [&'static str]| {
        FakeSite::with_fault(move |asked, answer| {
            let is_page = answer.header("content-type").starts_with("text/html");
            let answer = match asked.path() == "/robots.txt" {
                true => answer.replaced("Sitemap:", "# Sitemap:"),
                false if is_page || lists.contains(&asked.path()) => {
                    answer.replaced(&asked.origin, "https://www.example.com")
                }
                false => answer,
            };
            let twin = format!(
                "<https://www.example.com{}index.md>; rel=alternate; type=text/markdown",
                asked.path()
            );
            if is_page && answer.status == 200 { answer.with("link", &twin) } else { answer }
        })
    };
    assert_eq!(build(&["/sitemap.xml", "/llms.txt"]).found_in("links"), []);
    // The server of a build may have made `llms.txt`.
    assert_eq!(build(&["/sitemap.xml"]).found_in("links"), []);
    // A sitemap that has the audited host contradicts the pages.
    let found = build(&["/llms.txt"]).found_in("links");
    let rules: Vec<_> = found.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(rules, ["link-header-disagrees", "canonical-foreign"]);
}

/// A local copy has the parts of its sitemap at the paths that the index names with public URLs.
#[test]
fn parts_of_the_sitemap_of_a_local_copy_are_read() {
    let site = |is_local: bool, part: &'static str| {
        FakeSite::with_fault(move |asked, answer| {
            let schema = "xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"";
            let xml = |text: String| Answer::new(200, "application/xml", text);
            let host = if is_local { &asked.origin } else { "https://www.example.com" };
            match asked.path() {
                "/sitemap.xml" => xml(format!(
                    "<sitemapindex {schema}><sitemap><loc>{host}{part}</loc></sitemap></sitemapindex>"
                )),
                "/part.xml" => {
                    xml(format!("<urlset {schema}><url><loc>{}/gone/</loc></url></urlset>", asked.origin))
                }
                _ => answer,
            }
        })
    };
    site(false, "/part.xml").assert_finds("sitemap-link-broken", Broken);
    site(true, "/no.xml").assert_finds("sitemap-link-broken", Broken);
    site(false, "/no.xml").assert_clean();
}

#[test]
fn invalid_dates_in_the_sitemap_are_found() {
    for (date, is_valid) in [
        ("2026", true),
        ("2026-11", true),
        ("2026-11-01T12:00Z", true),
        ("2026-11-01T12:00:00.123+02:00", true),
        ("2026-11-01T12:00:00&#43;02:00", true),
        ("<![CDATA[2026-11-01]]>", true),
        ("2026-11-01</lastmod><!-- <lastmod>YYYY-MM-DD</lastmod> --><lastmod>2026", true),
        ("2026</lastmod><s:lastmod xmlns:s=\"x\">01.11.2026</s:lastmod><lastmod>2026", false),
        ("2026-13", false),
        ("2026-11-31", false),
        ("2026-11-01 12:00", false),
        ("01.11.2026", false),
        ("", false),
    ] {
        let site = with("/sitemap.xml", move |_, answer| answer.replaced("2026-11-01", date));
        if is_valid {
            site.assert_clean();
        } else {
            site.assert_finds("sitemap-lastmod-invalid", Advice);
        }
    }
}

#[test]
fn declared_markdown_that_does_not_exist_is_found() {
    let site = with_html("/index.md", "/page.md");
    let site_of_root =
        FakeSite::with_fault(|_, answer| answer.replaced("href=\"/index.md\"", "href=\"/page.md\""));
    for site in [site, site_of_root] {
        site.assert_finds("alternate-broken", Broken);
    }
}

#[test]
fn declared_markdown_of_another_type_is_found() {
    let site = FakeSite::with_fault(|asked, answer| {
        let page = "<!doctype html><html lang=en><title>App</title><h1>App</h1></html>";
        match asked.path() {
            "/about/index.md" => Answer::new(200, "text/html", page),
            "/llms.txt" => answer.replaced("/about/index.md", "/docs/index.md"),
            _ => answer,
        }
    });
    site.assert_finds("alternate-wrong-type", Broken);
}

#[test]
fn undeclared_markdown_is_found() {
    with_html("type=\"text/markdown\"", "type=\"text/other\"").assert_finds("alternate-missing", Advice);
}

#[test]
fn a_faulty_link_field_is_found() {
    for (value, severity) in [
        ("/index.md; rel=alternate", Broken),
        ("</llms.txt>", Advice),
        ("</llms.txt>; rel=\"help\", </index.md>; type=\"text/markdown\"", Advice),
    ] {
        with("/", move |_, answer| answer.with("link", value)).assert_finds("link-header-invalid", severity);
    }
    with("/", |_, answer| answer.with("link", "</a,b>; rel=next; title=\"c, d\"")).assert_clean();
}

#[test]
fn a_link_field_that_disagrees_is_found() {
    let value = "</docs/index.md>; rel=\"alternate\"; type=\"text/markdown\"";
    with("/", move |_, answer| answer.with("link", value)).assert_finds("link-header-disagrees", Advice);
    let value = "</index.md>; rel=\"alternate\"; type=\"text/markdown\"";
    with("/", move |_, answer| answer.with("link", value)).assert_clean();
}

#[test]
fn a_broken_or_invalid_feed_is_found() {
    without("/feed.xml").assert_finds("feed-broken", Broken);
    let second = "<link rel=alternate type=application/rss+xml href=/comments.xml></head>";
    with("/", move |_, answer| answer.replaced("</head>", second)).assert_finds("feed-broken", Broken);
    for body in [
        "<html><body>No news</body></html>",
        "<feed><title>a & b</title></feed>",
        "{\"version\": 1}",
        "news",
        "\n<?xml version=\"1.0\"?><rss><channel/></rss>",
    ] {
        with("/feed.xml", move |_, answer| Answer { body: body.into(), ..answer })
            .assert_finds("feed-invalid", Broken);
    }
    for body in [
        "{\"version\": \"https://jsonfeed.org/version/1.1\", \"title\": \"News\", \"items\": []}",
        "<rss><channel/></rss>",
    ] {
        with("/feed.xml", move |_, answer| Answer { body: body.into(), ..answer }).assert_clean();
    }
}

#[test]
fn an_unknown_page_that_answers_200_is_found() {
    let site = with("/frontdesk-audit-no-such-page", |_, answer| Answer { status: 200, ..answer });
    site.assert_finds("soft-not-found", Broken);
    let site = with("/frontdesk-audit-no-such-page", |asked, answer| {
        let status = if asked.header("accept").starts_with("text/markdown") { 200 } else { answer.status };
        Answer { status, ..answer }
    });
    site.assert_finds("soft-not-found", Broken);
    let site = with("/frontdesk-audit-no-such-page", |_, _| {
        Answer::new(302, "", "")
            .with("location", "/")
            .with("cache-control", "no-cache")
            .with("vary", "Accept")
    });
    site.assert_finds("soft-not-found", Advice);
}

#[test]
fn a_redirect_that_loses_the_markdown_is_found() {
    let redirect = |to: &str| Answer::new(301, "", "").with("location", to).with("vary", "Accept");
    let site = FakeSite::with_fault(move |asked, answer| match asked.path() {
        "/docs" => redirect("/docs/index.html"),
        "/docs/index.html" => Answer::new(
            200,
            "text/html; charset=utf-8",
            crate::content::html_page(asked, "/docs/", "Documentation"),
        ),
        _ => answer,
    });
    site.assert_finds("redirect-loses-representation", Broken);
    with("/docs", move |_, _| redirect("/docs/")).assert_clean();
}

#[test]
fn redirects_in_a_circle_are_found() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/docs/install/" => Answer::new(301, "", "").with("location", "/docs/install"),
        "/docs/install" => Answer::new(301, "", "").with("location", "/docs/install/"),
        _ => answer,
    });
    site.assert_finds("redirect-loop", Broken);
}

/// Some servers leave out header fields for HEAD or redirect it to the same URL, and some block unknown
/// clients with statuses of their own.
#[test]
fn odd_answers_to_head_and_odd_statuses_are_no_broken_links() {
    let without_target = |asked: &Asked, answer: Answer| {
        let is_odd = asked.method == "HEAD" && asked.path() == "/docs/install/";
        if is_odd { Answer::new(301, "", "") } else { answer }
    };
    FakeSite::with_fault(without_target).assert_clean();
    let redirecting_head = |asked: &Asked, answer: Answer| {
        let is_odd = asked.method == "HEAD" && asked.path() == "/docs/install/";
        if is_odd { Answer::new(302, "", "").with("location", &asked.target) } else { answer }
    };
    FakeSite::with_fault(redirecting_head).assert_clean();
    with("/docs/install/index.md", |_, _| Answer::new(999, "", "")).assert_clean();
}

#[test]
fn redirects_without_a_target_are_broken_links() {
    for location in ["", " "] {
        let site =
            with("/docs/install/index.md", move |_, _| Answer::new(302, "", "").with("location", location));
        site.assert_finds("llms-link-broken", Broken);
    }
}

#[test]
fn a_foreign_canonical_address_is_found() {
    with_html("rel=\"canonical\" href=\"", "rel=\"canonical\" href=\"https://www.example.com/?")
        .assert_finds("canonical-foreign", Advice);
}

#[test]
fn a_broken_canonical_address_is_found() {
    with_html("rel=\"canonical\" href=\"", "rel=\"canonical\" href=\"{origin}/old?")
        .assert_finds("canonical-broken", Broken);
}

#[test]
fn a_canonical_address_of_markdown_is_found() {
    let site = with_html(
        "<link rel=\"canonical\"",
        "<link rel=\"canonical\" href=\"{path}index.md\"><link rel=\"x\"",
    );
    site.assert_finds("canonical-markdown", Broken);
}

/// The home page declares a German version, which declares it unless it is faulty.
fn with_languages(german: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| match asked.path() {
        "/" if answer.header("content-type").starts_with("text/html") => {
            let links = "<link rel=\"alternate\" hreflang=\"en\" href=\"/\">\n<link rel=\"alternate\" hreflang=\"de\" href=\"/de/\">\n</head>";
            answer.replaced("</head>", links)
        }
        "/de/" => german(asked),
        _ => answer,
    })
}

#[test]
fn faulty_links_to_other_languages_are_found() {
    with_languages(|_| Answer::new(404, "text/plain", "nicht gefunden"))
        .assert_finds("language-link-broken", Broken);
    let page = |links: &str| {
        let html = format!(
            "<!doctype html><html lang=de><head><title>Start</title>{links}</head><h1>Start</h1></html>"
        );
        Answer::new(200, "text/html; charset=utf-8", html)
    };
    with_languages(move |_| page("")).assert_finds("language-link-not-mutual", Advice);
    with_languages(move |_| page("<link rel=alternate hreflang=en href=/>")).assert_clean();
}

#[test]
fn broken_links_of_pages_are_found() {
    let site = FakeSite::with_fault(|asked, answer| {
        let answer = answer.replaced("<a href=\"/docs/install/\">", "<a href=\"/docs/setup/\">");
        // The Markdown has the same link.
        answer
            .replaced(&format!("{}/docs/install/)", asked.origin), &format!("{}/docs/setup/)", asked.origin))
    });
    site.assert_finds("page-link-broken", Broken);
}

#[test]
fn broken_links_of_markdown_are_found() {
    let site = FakeSite::with_fault(|asked, answer| {
        answer.replaced(
            "and another sentence.\n\n```sh",
            &format!("and [another]({}/more/) sentence.\n\n```sh", asked.origin),
        )
    });
    site.assert_finds("markdown-link-broken", Broken);
}

#[test]
fn links_that_only_redirect_are_not_broken() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/docs/setup/" => Answer::new(301, "", "").with("location", "/docs/install/").with("vary", "Accept"),
        _ => answer.replaced("<a href=\"/docs/install/\">", "<a href=\"/docs/setup/\">"),
    });
    let report = site.audit();
    let is_link = |finding: &&Finding| finding.rule.id == "page-link-broken";
    assert!(report.findings.iter().find(is_link).is_none(), "{}", describe(&report));
}

#[test]
fn servers_without_head_are_asked_by_get() {
    let site = FakeSite::with_late_fault(|asked, answer| match &*asked.method {
        "HEAD" => Answer::new(404, "text/plain", ""),
        _ => answer,
    });
    let report = site.audit();
    let links: Vec<_> =
        report.findings.iter().filter(|finding| finding.rule.group.title() == "links").collect();
    assert!(links.is_empty(), "{}", describe(&report));
}

#[test]
fn missing_anchors_are_found() {
    with_html("<h2>Details</h2>", "<h2>Details</h2><p><a href=\"#more\">More</a></p>")
        .assert_finds("anchor-missing", Advice);
    let anchors = "<h2 id=\"d\u{e9}tails\">Details</h2><a href=\"#d%C3%A9tails\">x</a><a href=\"#d\u{e9}tails\">x</a>\
                   <a href=\"#d%c3%a9tails\">x</a><a href=\"#std%3A%3Avector\">x</a><i id=\"std::vector\">x</i>\
                   <a href=\"#a%20b\">x</a><i id=\"a%20b\">x</i><a href=\"#100%\">x</a><i id=\"100%\">x</i>\
                   <a href=\"#top\">x</a><a href=\"#\">x</a><a href=\"#/route\">x</a><a href=\"#:~:text=x\">x</a>\
                   <a href=\"#action%3Aopen%26a%3Db\">x</a><a href=\"#tab=2\">x</a><a href=\"#chat\" role=button>x</a>";
    with_html("<h2>Details</h2>", anchors).assert_clean();
}

/// Sites without lists, feeds and Markdown promise nothing.
#[test]
fn plain_sites_have_no_finding() {
    let page = "<!doctype html><html lang=en><head><title>Plain</title></head><main><h1>Plain</h1><p>A page \
                with <a href=/other>another one</a>.</p></main></html>";
    let site = |unknown: u16| {
        FakeSite::serving(move |asked| match asked.path() {
            "/" | "/other" => Answer::new(200, "text/html; charset=utf-8", page),
            _ => Answer::new(unknown, "text/html; charset=utf-8", page),
        })
    };
    let found = |site: FakeSite| -> Vec<_> {
        let report = site.audit();
        let of_links = report.findings.iter().filter(|finding| finding.rule.group.title() == "links");
        of_links.map(|finding| finding.rule.id).collect()
    };
    assert_eq!(found(site(404)), [""; 0]);
    assert_eq!(found(site(200)), ["soft-not-found"], "the same page for all addresses is one finding");
}

#[test]
fn agents_that_are_redirected_to_another_page_are_found() {
    let to = |target: &str| Answer::new(302, "", "").with("location", target).with("vary", "Accept");
    let is_page = |asked: &Asked| crate::content::PAGES.iter().any(|(path, _)| *path == asked.path());
    let site = FakeSite::with_fault(move |asked, answer| {
        let is_markdown = answer.header("content-type").starts_with("text/markdown");
        if is_page(asked) && is_markdown && asked.path() != "/" { to("/") } else { answer }
    });
    let found = site.found_in("links");
    assert!(found.contains(&("redirect-loses-representation", Broken)), "{found:?}");
    // The redirect leads to the page's own Markdown.
    let site = FakeSite::with_fault(move |asked, answer| {
        let is_markdown = answer.header("content-type").starts_with("text/markdown");
        if is_page(asked) && is_markdown { to(&format!("{}index.md", asked.path())) } else { answer }
    });
    assert_eq!(site.found_in("links"), []);
}

#[test]
fn declared_markdown_that_redirects_to_html_is_found() {
    for (is_negotiated, severity) in [(false, Broken), (true, Advice)] {
        let site = FakeSite::with_fault(move |asked, answer| {
            let page = asked.path().strip_suffix("index.md");
            match crate::content::PAGES.iter().find(|(path, _)| *path == page.unwrap_or(asked.path())) {
                Some((path, _)) if page.is_some() => Answer::new(301, "", "").with("location", path),
                Some((path, title)) if !is_negotiated => {
                    let html = crate::content::html_page(asked, path, title);
                    Answer::new(200, "text/html; charset=utf-8", html)
                }
                _ => answer,
            }
        });
        let found = site.found_in("links");
        assert!(found.contains(&("redirect-loses-representation", severity)), "{found:?}");
    }
}

#[test]
fn redirects_of_linked_pages_to_html_files_are_found() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/more/" => Answer::new(302, "", "").with("location", "/more/index.html").with("vary", "Accept"),
        "/more/index.html" => {
            let html = crate::content::html_page(asked, "/about/", "About us");
            Answer::new(200, "text/html; charset=utf-8", html)
        }
        _ => answer.replaced("and another sentence.\n\n```sh", "and [another](/more/) sentence.\n\n```sh"),
    });
    let found = site.found_in("links");
    assert!(found.contains(&("redirect-loses-representation", Broken)), "{found:?}");
}

#[test]
fn redirects_to_the_own_computer_are_found() {
    let site = |target: &'static str| {
        with("/docs", move |_, _| Answer::new(302, "", "").with("location", target).with("vary", "Accept"))
    };
    for target in ["http://localhost:3000/docs/", "https://[::1]/docs/", "http://0.0.0.0:1/"] {
        site(target).assert_finds("redirect-to-loopback", Broken);
    }
    site("https://www.example.com/docs/").assert_clean();
}

/// A site whose pages have different texts, with a changed answer.
fn with_texts(change: impl Fn(&Asked, Answer) -> Answer + Send + Sync + 'static) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| {
        let page = asked.path().trim_end_matches("index.md");
        let words: Vec<_> = (0..60).map(|number| format!("{}{number}", page.replace('/', "x"))).collect();
        let text = "A second paragraph has";
        change(asked, answer.replaced(text, &format!("{}. {text}", words.join(" "))))
    })
}

#[test]
fn a_canonical_address_of_another_page_is_found() {
    let change = |asked: &Asked, answer: Answer| match asked.path() {
        "/docs/" | "/about/" => answer.replaced(
            &format!("rel=\"canonical\" href=\"{}{}\"", asked.origin, asked.path()),
            "rel=\"canonical\" href=\"/\"",
        ),
        _ => answer,
    };
    with_texts(change).assert_finds("canonical-other-page", Broken);
    // These pages have nearly the same text.
    FakeSite::with_fault(change).assert_clean();
    with_texts(|_, answer| match answer.header("content-type") {
        kind if kind.starts_with("text/markdown") => answer.with("link", "</>; rel=\"canonical\""),
        _ => answer,
    })
    .assert_finds("canonical-other-page", Broken);
}

#[test]
fn canonical_addresses_that_disagree_are_found() {
    with("/", |_, answer| answer.with("link", "</?page=1>; rel=\"canonical\""))
        .assert_finds("canonical-disagrees", Advice);
    with("/", |_, answer| answer.with("link", "</>; rel=\"canonical\"")).assert_clean();
}

#[test]
fn versions_in_another_language_than_declared_are_found() {
    let page = |lang: &str, declared: &str| {
        let html = format!(
            "<!doctype html><html lang={lang}><head><title>Start</title><link rel=alternate hreflang=en href=/>\
             <link rel=alternate hreflang={declared} href=/de/></head><h1>Start</h1></html>"
        );
        Answer::new(200, "text/html; charset=utf-8", html)
    };
    with_languages(move |_| page("en", "en")).assert_finds("language-link-wrong", Broken);
    with_languages(move |_| page("en", "de")).assert_finds("language-link-wrong", Advice);
    with_languages(move |_| page("de-AT", "de")).assert_clean();
}

#[test]
fn invalid_languages_of_declared_versions_are_found() {
    for language in ["en_UK", "en-UK", "english"] {
        let link = format!("<link rel=alternate hreflang={language} href=/></head>");
        with("/", move |_, answer| answer.replaced("</head>", &link))
            .assert_finds("language-link-invalid", Advice);
    }
    for language in ["en-GB", "uk", "x-default"] {
        let link = format!("<link rel=alternate hreflang={language} href=/></head>");
        let site = with("/", move |_, answer| answer.replaced("</head>", &link));
        let found = site.found_in("links");
        assert!(found.iter().all(|(rule, _)| *rule != "language-link-invalid"), "{found:?}");
    }
}

#[test]
fn a_canonical_address_in_another_language_is_found() {
    let german = |canonical: &str| {
        let words: Vec<_> = (0..60).map(|number| format!("wort{number}")).collect();
        let html = format!(
            "<!doctype html><html lang=de><head><title>Startseite</title><link rel=canonical href={canonical}>\
             <link rel=alternate hreflang=en href=/></head><main><h1>Startseite</h1><p>{}</p></main></html>",
            words.join(" ")
        );
        Answer::new(200, "text/html; charset=utf-8", html)
    };
    with_languages(move |_| german("/")).assert_finds("canonical-other-page", Broken);
    with_languages(move |_| german("/de/")).assert_clean();
}
