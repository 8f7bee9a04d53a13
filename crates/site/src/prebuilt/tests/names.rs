//! Tests of builds whose files have unusual names.

use super::*;

/// The paths of the pages that lists such as `llms.txt` show.
fn listed(site: &Site) -> Vec<String> {
    site.pages.iter().map(|page| page.path.clone()).collect()
}

#[test]
fn files_with_encoded_names_are_at_their_decoded_paths() {
    let text = page("Text", "<p>Text of the page.");
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text of the page.")),
        ("tag/%E6%97%A5/index.html", &text),
        ("with%20spaces.html", &text),
        ("img/%E6%97%A5.png", "x"),
        ("100%/index.html", &text),
        ("%2Ehidden.txt", "x"),
        ("a%2Fb.txt", "x"),
        ("same%41.txt", "x"),
        ("sameA.txt", "y"),
    ]);
    let site = bench.site();
    for (path, expected) in [
        ("/tag/日/", "page /tag/%E6%97%A5.md"),
        ("/tag/%E6%97%A5/", "308 /tag/%E6%97%A5/"),
        ("/with spaces", "page /with%20spaces.md"),
        ("/with%20spaces", "308 /with%20spaces"),
        ("/img/日.png", "Asset image/png"),
        ("/img/%E6%97%A5.png", "308 /img/%E6%97%A5.png"),
        ("/100%/", "page /100%25.md"),
        ("/%2Ehidden.txt", "Asset text/plain; charset=utf-8"),
        ("/.hidden.txt", "nothing"),
        ("/a%2Fb.txt", "Asset text/plain; charset=utf-8"),
        ("/same%41.txt", "Asset text/plain; charset=utf-8"),
    ] {
        assert_eq!(describe(&site, path), expected, "{path}");
    }
}

#[test]
fn encoded_names_behind_a_symbolic_link_are_listed_once() {
    let text = page("Text", "<p>Text of the page.");
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", "<p>Text of the page.")),
        ("v2/caf%C3%A9.html", &text),
        ("v2/100%.html", &text),
    ]);
    symlink("v2", bench.folder.path().join("latest")).expect("a link");
    let site = bench.site();
    assert_eq!(listed(&site), ["/", "/v2/100%25", "/v2/caf%C3%A9"]);
    assert_eq!(describe(&site, "/latest/café"), "page /latest/caf%C3%A9.md");
}

#[test]
fn shells_and_copies_in_groups_are_served_but_not_listed() {
    let (home, about) = (page("Home", "<p>Text of the page."), page("About", "<p>Text of the page."));
    let numbered = page("Part 403", "<p>Text of the page. <a href=404s>Next</a> <a href=401>Back</a>");
    let mut bench = Bench::new(&[
        ("index.html", &home),
        ("200.html", &page("Home", "<script src=app.js></script>")),
        ("__spa-fallback.html", &home),
        ("_not-found/index.html", &about),
        ("[slug].html", &about),
        ("about.html", &about),
        ("(tabs)/about.html", &about),
        ("(tabs)/index.html", &page("Other", "<p>Text of the page.")),
        ("401.html", &numbered),
        ("403.html", &about),
        ("404s.html", &numbered),
    ]);
    let site = bench.site();
    assert_eq!(listed(&site), ["/", "/(tabs)/", "/401", "/404s", "/about"]);
    for path in ["/200", "/__spa-fallback", "/_not-found/", "/[slug]", "/(tabs)/about", "/403"] {
        assert!(describe(&site, path).starts_with("page"), "{path}");
    }
}

#[test]
fn absolute_links_decide_on_extensions_too() {
    let url = "https://www.example.com/about.html";
    let mut bench = Bench::new(&[
        ("index.html", &page("Home", &format!("<p>Text of the <a href={url}>page</a>."))),
        ("about.html", &page("About", "<p>Text of the page.")),
    ]);
    assert_eq!(describe(&bench.site(), "/about.html"), "page /about.md");
}
