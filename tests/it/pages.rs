//! Pages: representations, validators, encodings, redirects and missing pages.

use std::io::Read as _;

use crate::support::{Answer, TestServer, example_site};

const CHROME: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";

/// All paths in the sitemap.
fn paths(server: &TestServer) -> Vec<String> {
    let sitemap = server.get("/sitemap.xml", &[]);
    let base = format!("http://{}", server.address);
    let paths: Vec<String> = sitemap
        .text()
        .split("<loc>")
        .skip(1)
        .filter_map(|part| part.split_once("</loc>"))
        .map(|(address, _)| address.strip_prefix(&base).expect("it is on this site").to_owned())
        .collect();
    assert!(paths.len() > 15, "{paths:?}");
    paths
}

fn varies_by_accept(answer: &Answer) -> bool {
    answer
        .header("vary")
        .is_some_and(|vary| vary.split(',').any(|name| name.trim().eq_ignore_ascii_case("accept")))
}

#[test]
fn every_page_is_html_for_people_and_markdown_for_agents() {
    let server = TestServer::with_example_site();
    let mut connection = server.connect();
    for path in paths(&server) {
        for (accept, media_type) in [
            (CHROME, "text/html; charset=utf-8"),
            ("text/markdown", "text/markdown; charset=utf-8"),
            ("text/markdown, text/html, */*", "text/markdown; charset=utf-8"),
            ("text/html, */*", "text/html; charset=utf-8"),
            ("*/*", "text/html; charset=utf-8"),
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "text/html; charset=utf-8"),
        ] {
            let answer = connection.request("GET", &path, &[("Accept", accept)], b"").expect("an answer");
            assert_eq!(answer.status, 200, "{path} {accept}");
            assert_eq!(answer.header("content-type"), Some(media_type), "{path} {accept}");
            assert!(varies_by_accept(&answer), "{path} {accept}");
            assert_eq!(answer.header("cache-control"), Some("no-cache"));

            let head = connection.request("HEAD", &path, &[("Accept", accept)], b"").expect("an answer");
            let but_date = |answer: &Answer| -> Vec<(String, String)> {
                answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect()
            };
            assert_eq!((head.status, but_date(&head)), (200, but_date(&answer)), "HEAD equals GET");

            let etag = answer.header("etag").expect("a validator").to_owned();
            assert!(etag.starts_with('"'), "it is strong: {etag}");
            let again = connection
                .request("GET", &path, &[("Accept", accept), ("If-None-Match", &etag)], b"")
                .expect("an answer");
            assert_eq!(again.status, 304, "{path} {accept}");
            for name in ["vary", "etag", "cache-control", "link"] {
                assert_eq!(again.header(name), answer.header(name), "{name} of 304");
            }
            assert!(again.body.is_empty());
        }
    }
}

#[test]
fn a_validator_belongs_to_one_representation_and_one_encoding() {
    let server = TestServer::with_example_site();
    let mut etags = Vec::new();
    for accept in ["text/html", "text/markdown"] {
        for encoding in ["identity", "gzip", "br", "zstd"] {
            let answer = server.get("/developers/", &[("Accept", accept), ("Accept-Encoding", encoding)]);
            let expected = Some(encoding).filter(|encoding| *encoding != "identity");
            assert_eq!(answer.header("content-encoding"), expected);
            assert_eq!(answer.header("vary"), Some("Accept, Accept-Encoding"));
            let etag = answer.header("etag").expect("a validator").to_owned();
            let other = server.get(
                "/developers/",
                &[("Accept", accept), ("Accept-Encoding", "deflate"), ("If-None-Match", &etag)],
            );
            assert_eq!(
                other.status,
                if expected.is_none() { 304 } else { 200 },
                "{etag} belongs only to {encoding}"
            );
            etags.push(etag);
        }
    }
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), 8);
}

#[test]
fn if_match_is_compared_with_the_selected_representation() {
    let server = TestServer::with_example_site();
    let mut connection = server.connect();
    let mut etags = Vec::new();
    for accept in ["text/html", "text/markdown"] {
        for encoding in ["identity", "br"] {
            let selection = [("Accept", accept), ("Accept-Encoding", encoding)];
            let answer = connection.request("GET", "/developers/", &selection, b"").expect("an answer");
            etags.push(answer.header("etag").expect("a validator").to_owned());
        }
    }
    // Requests the identity encoding, because stronger Brotli encodings with other validators may replace the
    // first ones during the test.
    let selection = [("Accept", "text/markdown"), ("Accept-Encoding", "identity")];
    for (at, etag) in etags.iter().enumerate() {
        for method in ["GET", "HEAD"] {
            let headers = [&selection[..], &[("If-Match", etag)]].concat();
            let answer = connection.request(method, "/developers/", &headers, b"").expect("an answer");
            assert_eq!(answer.status, if at == 2 { 200 } else { 412 }, "{method} {etag}");
            assert_eq!(answer.header("vary"), Some("Accept, Accept-Encoding"));
            if at != 2 {
                assert_eq!(answer.header("cache-control"), Some("no-store"));
                assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
                assert_eq!(answer.header("etag"), None);
                assert_eq!(answer.text().contains("If-Match"), method == "GET");
            }
        }
    }
    let counted = server.ops("/metrics").text().to_owned();
    assert!(counted.lines().any(|line| line.contains("status=\"412\"") && line.ends_with(" 6")), "{counted}");
    // A form's endpoint has no representations, and the submission counts regardless of preconditions.
    for condition in [("If-Match", "\"a\""), ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")] {
        let headers = [("Content-Type", "application/json"), condition];
        let answer = server.request("POST", "/api/waitlist", &headers, br#"{"email":"ada@example.com"}"#);
        assert_eq!(answer.status, 200, "{condition:?}");
    }
    server.expect(1);
}

#[test]
fn an_encoded_answer_holds_the_same_bytes() {
    let server = TestServer::with_example_site();
    let plain = server.get("/", &[]);
    let gzip = server.get("/", &[("Accept-Encoding", "gzip")]);
    assert!(gzip.body.len() < plain.body.len() / 2);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_end(&mut unpacked).expect("gzip");
    assert_eq!(unpacked, plain.body);
}

#[test]
fn representations_point_to_each_other() {
    let server = TestServer::with_example_site();
    let base = format!("http://{}", server.address);
    let html = server.get("/developers/", &[]);
    assert_eq!(html.header("link"), Some("</developers.md>; rel=\"alternate\"; type=\"text/markdown\""));
    assert!(html.text().contains("<link rel=\"alternate\" type=\"text/markdown\" href=\"/developers.md\""));
    let markdown = server.get("/developers/", &[("Accept", "text/markdown")]);
    let canonical = format!("<{base}/developers/>; rel=\"canonical\"");
    assert_eq!(markdown.header("link"), Some(canonical.as_str()));
    let home = server.get("/", &[]);
    let link = home.header("link").expect("links");
    assert!(link.starts_with("</index.md>; rel=\"alternate\"; type=\"text/markdown\""), "{link}");
    assert!(link.contains("rel=\"api-catalog\""), "{link}");
}

#[test]
fn the_twin_is_markdown_for_any_accept_header() {
    let server = TestServer::with_example_site();
    let mut connection = server.connect();
    for path in paths(&server) {
        let negotiated =
            connection.request("GET", &path, &[("Accept", "text/markdown")], b"").expect("an answer");
        let stem = path.trim_end_matches('/');
        let twin = if stem.is_empty() { "/index.md".to_owned() } else { format!("{stem}.md") };
        for name in [twin, format!("{stem}/index.md"), format!("{stem}/index.html.md")] {
            for accept in ["text/html", "application/json", "text/markdown;q=0"] {
                let answer = connection.request("GET", &name, &[("Accept", accept)], b"").expect("an answer");
                assert_eq!(
                    (answer.status, answer.header("content-type")),
                    (200, Some("text/markdown; charset=utf-8")),
                    "{name}"
                );
                assert_eq!(answer.body, negotiated.body, "{name}");
                assert_eq!(answer.header("etag"), negotiated.header("etag"));
            }
        }
    }
}

#[test]
fn links_in_markdown_are_absolute() {
    let server = TestServer::with_example_site();
    let mut connection = server.connect();
    for path in paths(&server) {
        let answer =
            connection.request("GET", &path, &[("Accept", "text/markdown")], b"").expect("an answer");
        let mut in_code = false;
        for line in answer.text().lines() {
            in_code ^= line.trim_start().starts_with("```");
            if in_code {
                continue;
            }
            // Text between backticks is shown, not linked.
            let prose: String = line.split('`').step_by(2).collect();
            for part in prose.split("](").skip(1) {
                let target = part.trim_start_matches('<');
                assert!(target.starts_with("http") || target.starts_with("mailto:"), "{path}: {line}");
            }
        }
    }
}

#[test]
fn a_406_lists_the_available_representations() {
    let server = TestServer::with_example_site();
    for accept in
        ["application/json", "text/html;q=0, text/markdown;q=0", "image/*", "*/*;q=0", "application/rss+xml"]
    {
        let answer = server.get("/developers/", &[("Accept", accept)]);
        assert_eq!(answer.status, 406, "{accept}");
        assert!(varies_by_accept(&answer));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        let link = answer.header("link").expect("links");
        assert!(link.contains("</developers/>; rel=\"alternate\"; type=\"text/html\""), "{link}");
        assert!(link.contains("</developers.md>; rel=\"alternate\"; type=\"text/markdown\""), "{link}");
        for word in ["text/html", "/developers/", "text/markdown", "/developers.md"] {
            assert!(answer.text().contains(word), "{}", answer.text());
        }
    }
}

#[test]
fn a_404_has_the_requested_representation() {
    let server = TestServer::with_example_site();
    for (accept, media_type) in [
        ("*/*", "text/html; charset=utf-8"),
        ("text/markdown", "text/markdown; charset=utf-8"),
        ("application/json", "text/plain; charset=utf-8"),
    ] {
        let answer = server.get("/no/such/page/", &[("Accept", accept)]);
        assert_eq!((answer.status, answer.header("content-type")), (404, Some(media_type)), "{accept}");
        assert!(varies_by_accept(&answer));
        assert!(answer.text().contains("/sitemap.md"), "it helps: {}", answer.text());
    }
    // The 404 page has no URL, so nothing may point to one.
    for accept in ["text/html", "text/markdown"] {
        let answer = server.get("/no/such/page/", &[("Accept", accept)]);
        assert!(!answer.text().contains("/404") && !answer.text().contains("0000-"), "{}", answer.text());
    }
    assert_eq!(server.get("/no-such.md", &[]).status, 404);
    assert_eq!(server.get("/assets/no-such.css", &[]).status, 404);
}

#[test]
fn a_removed_page_is_410_in_the_requested_representation() {
    let site = tempfile::tempdir().expect("a folder");
    assert!(
        crate::support::frontdesk().arg("init").arg(site.path()).output().expect("it runs").status.success()
    );
    let file = site.path().join("frontdesk.toml");
    let config = std::fs::read_to_string(&file).expect("a configuration");
    let redirects = "\n[redirects]\n\"/offer\" = 410\n\"/shop/*\" = 410\n\"/api/v0\" = 410\n";
    std::fs::write(&file, config + redirects).expect("it can be written");
    let server = TestServer::with(site.path(), &[]);
    for path in ["/offer", "/offer/", "/shop/shoes/?size=42"] {
        for (accept, media_type) in [
            ("*/*", "text/html; charset=utf-8"),
            ("text/markdown", "text/markdown; charset=utf-8"),
            ("application/json", "text/plain; charset=utf-8"),
        ] {
            let answer = server.get(path, &[("Accept", accept), ("If-None-Match", "*")]);
            let found = (answer.status, answer.header("content-type"), answer.header("etag"));
            assert_eq!(found, (410, Some(media_type), None), "{path} {accept}");
            assert!(varies_by_accept(&answer));
            assert!(answer.text().contains("/sitemap.md"), "it helps: {}", answer.text());
        }
        assert_eq!(server.request("POST", path, &[], b"").status, 410, "{path}");
    }
    let endpoint = server.get("/api/v0", &[]);
    assert_eq!((endpoint.status, endpoint.header("content-type")), (410, Some("application/json")));
    assert!(endpoint.json()["error"].as_str().is_some_and(|error| error.contains("removed")));
}

#[test]
fn aliases_of_a_page_redirect_to_it() {
    let server = TestServer::with_example_site();
    for (path, location) in [
        ("/developers", "/developers/"),
        ("/developers?a=b", "/developers/?a=b"),
        ("/developers/index.html", "/developers/"),
        ("/index.html", "/"),
        ("/platform/", "/product/"),
        ("/platform", "/product/"),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = server.request(method, path, &[("Accept", "application/json")], b"");
            assert_eq!((answer.status, answer.header("location")), (308, Some(location)), "{method} {path}");
            assert!(varies_by_accept(&answer));
        }
    }
}

#[test]
fn other_methods_are_405() {
    let server = TestServer::with_example_site();
    for path in ["/", "/developers/", "/developers.md", "/llms.txt", "/developers"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"] {
            let answer = server.request(method, path, &[], b"");
            assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method} {path}");
        }
    }
}

#[test]
fn ambiguous_paths_are_refused() {
    let server = TestServer::with_example_site();
    for path in [
        "/../etc/passwd",
        "/%2e%2e/x",
        "/a/./b",
        "//api/contact",
        "/a%2fb",
        "//a%5cb",
        "/%00",
        "/%zz",
        "/%ff",
    ] {
        assert_eq!(server.get(path, &[]).status, 400, "{path}");
    }
    for (path, to) in
        [("//developers/", "/developers/"), ("//evil.example//a?b=//c", "/evil.example/a?b=//c")]
    {
        let answer = server.get(path, &[]);
        assert_eq!((answer.status, answer.header("location")), (308, Some(to)));
        assert_eq!(server.request("POST", path, &[], b"").status, 400, "{path}");
    }
    assert_eq!(server.get("/develo%70ers/", &[]).status, 200, "what is not ambiguous is decoded");
}

#[test]
fn drawings_keep_their_own_styles_but_run_no_scripts() {
    let server = TestServer::with_example_site();
    for (path, has_styles) in [("/assets/logo.svg", true), ("/robots.txt", false)] {
        let answer = server.get(path, &[]);
        let policy = answer.header("content-security-policy").expect("a policy").to_owned();
        assert_eq!(policy.contains("style-src 'self' 'unsafe-inline'"), has_styles, "{path}: {policy}");
        assert!(policy.contains("default-src 'none'; script-src 'self';"), "{path}: {policy}");
    }
}

#[test]
fn fingerprinted_assets_are_immutable_and_named_ones_revalidated() {
    let server = TestServer::with_example_site();
    let home = server.get("/", &[]);
    let name = home
        .text()
        .split("href=\"")
        .find_map(|part| part.strip_prefix("/assets/style."))
        .expect("a stylesheet");
    let fingerprinted = format!("/assets/style.{}", name.split('"').next().expect("a name"));
    let answer = server.get(&fingerprinted, &[]);
    assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(answer.header("vary"), Some("Accept-Encoding"));
    let plain = server.get("/assets/style.css", &[("Accept", "application/json")]);
    assert_eq!((plain.status, plain.header("cache-control")), (200, Some("no-cache")));
    assert_eq!(plain.body, answer.body);
}

#[test]
fn every_answer_carries_the_security_headers() {
    let server = TestServer::with_example_site();
    for (method, path) in [
        ("GET", "/"),
        ("GET", "/nope"),
        ("GET", "/llms.txt"),
        ("PUT", "/"),
        ("GET", "/api/contact"),
        ("GET", "/%zz"),
    ] {
        let answer = server.request(method, path, &[], b"");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}

#[test]
fn the_link_that_copies_markdown_can_be_switched_off() {
    let html = |environment: &[(&str, &str)]| {
        let server = TestServer::with(&example_site(), environment);
        server.get("/developers/", &[("Accept", "text/html")]).text().to_owned()
    };
    assert!(html(&[]).contains("class=\"copy\""));
    let without = html(&[("FRONTDESK_SITE__COPY_MARKDOWN", "false")]);
    assert!(!without.contains("class=\"copy\"") && without.contains("type=\"text/markdown\""), "{without}");
}

#[test]
fn a_custom_theme_replaces_templates_and_resources_file_by_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(crate::support::frontdesk().arg("init").arg(&site).status().expect("it runs").success());
    let write = |name: &str, text: &str| {
        let file = site.join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be created");
        std::fs::write(file, text).expect("it can be written");
    };
    write(
        "theme/page.html",
        "{% extends \"base.html\" %}{% block main %}<p>Ours: {{ page.title }}</p>{{ page.html }}{% endblock %}",
    );
    write("static/llms.txt", "# Ours\n");
    write("static/favicon.ico", "icon");
    write("static/notes.md", "# A file, not a page\n");
    let server = TestServer::with(&site, &[]);
    assert!(server.get("/developers/", &[]).text().contains("<p>Ours: Developers and agents</p>"));
    assert_eq!(server.get("/llms.txt", &[]).text(), "# Ours\n");
    assert_eq!(server.get("/favicon.ico", &[]).header("content-type"), Some("image/x-icon"));
    assert_eq!(server.get("/notes.md", &[]).header("content-type"), Some("text/markdown; charset=utf-8"));
    assert_eq!(server.get("/notes/", &[]).status, 404);
}

#[test]
fn stray_files_are_not_published() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    assert!(crate::support::frontdesk().arg("init").arg(&site).output().expect("it runs").status.success());
    let write = |name: &str, text: &str| {
        let file = site.join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be created");
        std::fs::write(file, text).expect("it can be written");
    };
    write("pages/contact.md.bak", "old");
    write("pages/notes.txt", "old");
    write("pages/team/index.md", "---\ntitle: Team\ndescription: Us.\n---\n![us](us.png)\n");
    // The header of an image of one pixel.
    let image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";
    std::fs::write(site.join("pages/team/us.png"), image).expect("it can be written");
    write("posts/secret/index.md", "---\ntitle: Secret\ndate: 2026-01-01\ndraft: true\n---\n");
    write("posts/secret/plan.png", "png");
    write("pages/guide/index.md", "---\ntitle: Guide\ndescription: Not yet.\ndraft: true\n---\n");
    write(
        "pages/guide/part.md",
        "---\ntitle: Part\ndescription: A part.\naliases: [/guide/part/, /old/, /old/]\n---\n![p](p.png)\n",
    );
    std::fs::write(site.join("pages/guide/p.png"), image).expect("it can be written");
    write("pages/404.md", "---\ntitle: Lost?\ndescription: So are we.\n---\nOur own words.\n");
    write("static/promo/index.html", "<!doctype html><title>Promo</title>");
    let server = TestServer::with(&site, &[]);
    for (path, status) in [
        ("/contact.md.bak", 404),
        ("/notes.txt", 404),
        ("/team/us.png", 200),
        ("/guide/", 404),
        ("/guide/p.png", 200),
        ("/old/", 308),
        ("/blog/secret/", 404),
        ("/blog/secret/plan.png", 404),
        ("/404/", 404),
        ("/promo/", 200),
        ("/promo/index.html", 200),
        ("/promo", 308),
    ] {
        assert_eq!(server.get(path, &[]).status, status, "{path}");
    }
    assert!(server.get("/team/", &[]).text().contains("src=\"/team/us."), "under its fingerprinted name");
    let missing = server.get("/nope/", &[]);
    assert!(missing.text().contains("Our own words.") && missing.text().contains("<h1>Lost?</h1>"));
    let missing = server.get("/nope/", &[("Accept", "text/markdown")]);
    assert!(missing.text().contains("Our own words.") && missing.text().contains("/sitemap.md"));
    let output = crate::support::frontdesk().arg("check").arg(&site).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("pages/notes.txt: the file is not published")
            && said.contains("pages/contact.md.bak is not published")
            && said.ends_with("1 warning\n"),
        "{said}"
    );
}

#[test]
fn the_example_site_has_no_findings() {
    let output = crate::support::frontdesk().arg("check").arg(example_site()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
