//! Serves the output of a site generator.

use std::path::Path;

use crate::support::channel_site::until;
use crate::support::prebuilt::write_build;
use crate::support::{TestServer, frontdesk};

/// The security policy of a page that has the inline script `go()`.
const HASH_OF_GO: &str = "'sha256-5KYv+PUboo5h+0+YAtGRPbwv5d/QxzHslP4YGnUaxRw='";

#[test]
fn a_build_is_served_unchanged_and_as_markdown() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    write_build(&build, "The first state.");
    // The fast path and hyper.
    for fast_lane in ["true", "false"] {
        let server = TestServer::with(&build, &[("FRONTDESK_SERVER__FAST_LANE", fast_lane)]);
        let html = server.get("/about/", &[("Accept", "text/html")]);
        assert_eq!(html.body, std::fs::read(build.join("about/index.html")).expect("the file exists"));
        let policies = html.headers.iter().filter(|(name, _)| name == "content-security-policy");
        let policies: Vec<&str> = policies.map(|(_, value)| value.as_str()).collect();
        assert!(policies.len() == 1 && policies[0].contains(HASH_OF_GO), "{policies:?}");
        assert_eq!(html.header("x-robots-tag"), Some("noarchive"));
        assert_eq!(html.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(html.header("vary"), Some("Accept, Accept-Encoding"));
        assert_eq!(html.header("link"), Some("</about.md>; rel=\"alternate\"; type=\"text/markdown\""));
        let markdown = server.get("/about/", &[("Accept", "text/markdown")]);
        assert!(markdown.text().ends_with("# About\n\nThe first state.\n"), "{}", markdown.text());
        assert_eq!(markdown.body, server.get("/about.md", &[]).body);
        assert_eq!(server.get("/about/", &[("Accept", "image/png")]).status, 406);
        for (path, status, location) in [
            ("/about", 308, "/about/"),
            ("/contact.html?a=b", 308, "/contact?a=b"),
            ("/old/post?a=b", 301, "/blog/post?a=b"),
            ("/moved", 302, "https://www.example.org/"),
        ] {
            let answer = server.get(path, &[]);
            assert_eq!((answer.status, answer.header("location")), (status, Some(location)), "{path}");
        }
        assert_eq!(server.get("/app/anything", &[]).body, server.get("/", &[]).body);
        let missing = server.get("/nothing", &[]);
        assert_eq!((missing.status, missing.text().contains("Lost")), (404, true));
        let asset = server.get("/assets/style.0a1b2c3d.css", &[]);
        assert_eq!(asset.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert!(server.get("/llms.txt", &[]).text().starts_with("# Acme\n\n> What Acme makes.\n"));
        for hidden in ["/_headers", "/_redirects", "/frontdesk.toml"] {
            assert_eq!(server.get(hidden, &[]).status, 404, "{hidden}");
        }
    }
}

#[test]
fn submissions_are_never_stored_inside_a_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    write_build(&build, "A state.");
    let run = |data: &[(&str, &str)]| {
        let mut command = frontdesk();
        command.arg("config").arg(&build).envs(data.iter().copied());
        let output = command.output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let beside = folder.path().join("dist-data").display().to_string();
    let (is_valid, said, _) = run(&[]);
    assert!(is_valid && said.contains(&format!("store.data_dir = \"{beside}\"")), "{said}");
    let (is_valid, _, said) = run(&[("FRONTDESK_STORE__DATA_DIR", "data")]);
    assert!(
        !is_valid && said.contains("`store.data_dir` must not be inside a folder that is published"),
        "{said}"
    );
}

#[test]
fn a_rebuild_replaces_the_site_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (build, data) = (folder.path().join("dist"), folder.path().join("data"));
    write_build(&build, "The first state.");
    let server = TestServer::serving(&build, &data, &["--watch"], &[]);
    let says = |state: &str| server.get("/about.md", &[]).text().contains(state);
    for state in ["The second state.", "The third state."] {
        // Generators remove the folder and create it again. Meanwhile the previous site is served.
        std::fs::remove_dir_all(&build).expect("it can be removed");
        assert_eq!(server.get("/contact", &[]).status, 200);
        write_build(&build, state);
        let is_new = || {
            assert_eq!(server.get("/contact", &[]).status, 200);
            says(state).then_some(())
        };
        assert!(until(is_new).is_some(), "{state}\n{}", server.log());
    }
    assert!(!server.log().contains("reload failed"), "{}", server.log());
}

#[test]
fn convert_prints_the_markdown_of_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    write_build(folder.path(), "A state.");
    let run = |arguments: &[&str]| {
        let page = Path::new("about/index.html");
        let mut command = frontdesk();
        command.arg("convert").arg(folder.path().join(page)).args(arguments);
        let output = command.output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (_, said, _) = run(&["--url", "https://www.example.com/about/"]);
    assert!(said.ends_with("# About\n\nA state.\n"), "{said}");
    let (_, said, _) = run(&["--selector", "footer"]);
    assert!(said.ends_with("# About\n\nAll rights reserved\n"), "{said}");
    let (_, said, _) = run(&["--article"]);
    assert!(said.ends_with("# About\n\nA state.\n"), "{said}");
    let (_, said, _) = run(&["--explain"]);
    let [omitted @ .., last] = &*said.lines().collect::<Vec<_>>() else { panic!("{said}") };
    assert!(omitted.iter().any(|line| line.starts_with("outside the main region ")), "{said}");
    assert_eq!(*last, "All other text is in the Markdown: 11 letters and digits.", "{said}");
    let (is_success, _, said) = run(&["--selector", ".none"]);
    assert!(!is_success && said.contains("`--selector` matches nothing in "), "{said}");
    let (is_success, _, said) = run(&["--selector", "p["]);
    assert!(!is_success && said.contains("not a CSS selector: p["), "{said}");
}

#[test]
fn a_folder_with_sources_is_a_build_only_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    write_build(&build, "A state.");
    std::fs::remove_file(build.join("frontdesk.toml")).expect("it can be removed");
    std::fs::create_dir(build.join("pages")).expect("it can be created");
    std::fs::write(build.join("pages/notes.md"), "# Notes\n").expect("it can be written");
    let run = |arguments: &[&str], site: &Path| {
        let output =
            frontdesk().args(arguments).arg(site).current_dir(folder.path()).output().expect("it runs");
        (output.status.success(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let (is_valid, said) = run(&["check"], &build);
    assert!(!is_valid && said.contains("pages/notes.md is a source without its HTML"), "{said}");
    let (is_written, said) = run(&["init", "desk", "--prebuilt"], Path::new("dist"));
    assert!(is_written, "{said}");
    let (is_valid, said) = run(&["check"], &folder.path().join("desk"));
    assert!(is_valid, "{said}");

    std::fs::write(build.join("pages/notes.html"), "<title>Notes</title>").expect("it can be written");
    let (is_valid, said) = run(&["check"], &build);
    assert!(is_valid, "{said}");
}

#[test]
fn redirects_depend_on_the_query_and_keep_the_rest_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    write_build(&build, "A state.");
    let rules = "/ p=:post /posts/:post 301!\n/about/ id=:id /x 302\n/store id=:id /item/:id 302\n/store /shop 302\n\
                 /view page=contact /contact 200\n/own page=:p /own?page=:p 301\n/find/:word /search?q=:word 302\n/coffee /café/ 302\n";
    std::fs::write(build.join("_redirects"), rules).expect("it can be written");
    // The fast path and hyper.
    for fast_lane in ["true", "false"] {
        let server = TestServer::with(&build, &[("FRONTDESK_SERVER__FAST_LANE", fast_lane)]);
        for (path, status, location) in [
            ("/?p=12", 301, Some("/posts/12")),
            ("/?a=b&p=a%26b", 301, Some("/posts/a&b?a=b")),
            ("/?q=12", 200, None),
            ("/", 200, None),
            // Files precede rules that are not forced.
            ("/about/?id=5", 200, None),
            ("/store?id=5", 302, Some("/item/5")),
            ("/store?other=5", 302, Some("/shop?other=5")),
            ("/store", 302, Some("/shop")),
            ("/view?page=contact", 200, None),
            ("/view?page=other", 404, None),
            ("/own?x=1&page=2", 301, Some("/own?page=2")),
            ("/own?page=2", 404, None),
            ("/find/a%26b%20%C3%A9", 302, Some("/search?q=a%26b%20%C3%A9")),
            ("/coffee", 302, Some("/caf%C3%A9/")),
        ] {
            let answer = server.get(path, &[]);
            assert_eq!((answer.status, answer.header("location")), (status, location), "{path} {fast_lane}");
        }
        assert_eq!(server.get("/view?page=contact", &[]).body, server.get("/contact", &[]).body);
    }
}

#[test]
fn a_rule_for_the_html_does_not_label_the_markdown() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    write_build(&build, "A state.");
    std::fs::write(build.join("contact.md"), "# Contact\n").expect("it can be written");
    let rules = "/*\n  Content-Type: text/html; charset=utf-8\n/data.json\n  Content-Type: application/ld+json\n\
                 /about/\n  Content-Type: text/plain\n";
    std::fs::write(build.join("_headers"), rules).expect("it can be written");
    let server = TestServer::with(&build, &[]);
    for (path, accept, expected) in [
        ("/", "text/html", "text/html; charset=utf-8"),
        ("/", "text/markdown", "text/markdown; charset=utf-8"),
        ("/index.md", "*/*", "text/markdown; charset=utf-8"),
        ("/contact", "text/markdown", "text/markdown; charset=utf-8"),
        ("/contact.md", "*/*", "text/markdown; charset=utf-8"),
        ("/about/", "text/html", "text/html; charset=utf-8"),
        ("/about/", "text/markdown", "text/markdown; charset=utf-8"),
        ("/none", "text/markdown", "text/markdown; charset=utf-8"),
        ("/data.json", "*/*", "application/ld+json"),
    ] {
        let answer = server.get(path, &[("Accept", accept)]);
        assert_eq!(answer.header("content-type"), Some(expected), "{path} {accept}");
    }
}

/// Names and values.
type Headers = Vec<(String, String)>;

/// The headers and bodies of the pages of [`write_build`], without what depends on time.
fn pages_of(server: &TestServer) -> Vec<(String, Headers, Vec<u8>)> {
    let paths =
        ["/", "/about/", "/about.md", "/contact", "/contact.md", "/llms.txt", "/llms-full.txt", "/none"];
    let asked = paths.iter().flat_map(|path| ["text/html", "text/markdown"].map(|accept| (path, accept)));
    let answers = asked.map(|(path, accept)| {
        let mut answer = server.get(path, &[("Accept", accept)]);
        answer.headers.retain(|(name, _)| !matches!(&**name, "date" | "x-request-id"));
        (format!("{path} {accept} {}", answer.status), answer.headers, answer.body)
    });
    answers.collect()
}

#[test]
fn a_restart_uses_the_conversions_of_the_last_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let (build, data) = (folder.path().join("dist"), folder.path().join("data"));
    write_build(&build, "The first state.");
    let cache = data.join("conversions");
    let names = || {
        let entries = std::fs::read_dir(&cache).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.path()).collect();
        names.retain(|name| name.extension().is_none());
        names.sort_unstable();
        names
    };
    let start = |arguments: &[&str]| {
        TestServer::serving(&build, &data, arguments, &[("FRONTDESK_BASE_URL", "https://www.example.com")])
    };
    let stored = |count: usize| until(|| (names().len() == count).then_some(())).expect("they are stored");

    let server = start(&[]);
    let first = pages_of(&server);
    stored(4);
    drop(server);
    let known = names();
    assert_eq!(pages_of(&start(&[])), first);

    // A damaged conversion is not used, and repaired.
    let whole: Vec<Vec<u8>> = known.iter().map(|name| std::fs::read(name).expect("a file")).collect();
    for (name, file) in known.iter().zip(&whole) {
        std::fs::write(name, &file[..file.len() - 1]).expect("a file");
    }
    let server = start(&[]);
    assert_eq!(pages_of(&server), first);
    let is_whole =
        || known.iter().zip(&whole).all(|(name, file)| std::fs::read(name).is_ok_and(|is| is == *file));
    assert!(until(|| is_whole().then_some(())).is_some());
    drop(server);

    // A changed page has another conversion, and a changed option changes those of all pages.
    write_build(&build, "The second state.");
    let server = start(&[]);
    assert!(server.get("/about.md", &[]).text().ends_with("# About\n\nThe second state.\n"));
    until(|| (names().len() == 4 && names() != known).then_some(())).expect("the old one is dropped");
    assert_eq!(names().iter().filter(|name| known.contains(name)).count(), 3);
    drop(server);
    std::fs::write(build.join("frontdesk.toml"), "[convert]\nexclude = \"p\"\n").expect("a file");
    let server = start(&[]);
    assert!(!server.get("/about.md", &[]).text().contains("state"));
    until(|| (names().len() == 4 && !names().contains(&known[0])).then_some(())).expect("new ones");
}

#[test]
fn a_cache_that_cannot_be_written_costs_one_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let (build, data) = (folder.path().join("dist"), folder.path().join("data"));
    write_build(&build, "The first state.");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("conversions"), "not a folder").expect("a file");
    let server = TestServer::serving(&build, &data, &["--watch"], &[]);
    let warning = "cannot cache the Markdown of the build's pages";
    server.assert_logged(warning);
    write_build(&build, "The second state.");
    let is_new = || server.get("/about.md", &[]).text().contains("The second state.").then_some(());
    assert!(until(is_new).is_some(), "{}", server.log());
    server.assert_logged("site and configuration reloaded");
    assert_eq!(server.log().matches(warning).count(), 1, "{}", server.log());
}
