//! Planted faults of the group basics.

use std::time::Duration;

use frontdesk_audit::Options;
use frontdesk_audit::Severity::{self, Advice, Broken};

use crate::site::{Answer, Asked, FakeSite, describe};

/// A site on whose page `/about/` a text of the HTML is replaced.
fn replacing(from: &'static str, to: &'static str) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| {
        let is_html = answer.header("content-type").starts_with("text/html");
        if asked.path() == "/about/" && is_html { answer.replaced(from, to) } else { answer }
    })
}

#[track_caller]
fn assert_found(from: &'static str, to: &'static str, expected: &[(&str, Severity)]) {
    assert_eq!(replacing(from, to).found_in("basics"), expected, "{from} {to}");
}

#[test]
fn parts_that_a_page_lacks_are_found() {
    for (from, to, rule) in [
        ("<title>About us</title>", "<title> </title>", "title-missing"),
        ("name=\"description\"", "name=\"other\"", "description-missing"),
        ("name=\"viewport\"", "name=\"other\"", "viewport-missing"),
        ("<html lang=\"en\">", "<html>", "language-missing"),
        ("<html lang=\"en\">", "<html lang=\"en_US\">", "language-invalid"),
        ("<html lang=\"en\">", "<html lang=\"english\">", "language-invalid"),
        ("main>", "div>", "main-landmark-missing"),
        ("<h1>About us</h1>", "<p>About us</p>", "heading-first-missing"),
        ("<h2>Details</h2>", "<h1>Details</h1>", "heading-first-repeated"),
        ("<h2>Details</h2>", "<h3>Details</h3>", "heading-levels-skipped"),
        (" alt=\"A picture of the office\"", "", "image-alt-missing"),
        ("<h2>", "<a href=\"/docs/\"><svg></svg></a><h2>", "link-text-missing"),
        ("<h2>", "<button><svg></svg></button><h2>", "button-text-missing"),
        ("<h2>", "<input type=button><h2>", "button-text-missing"),
        ("<h2>", "<h2 id=a><span id=a></span>", "duplicate-id"),
        ("<h2>", "<input name=email><h2>", "control-label-missing"),
        ("<h2>", "<label for=other>x</label><select id=own></select><h2>", "control-label-missing"),
        ("<title>", "<meta http-equiv=Refresh content='0; url=/docs/'><title>", "meta-refresh"),
    ] {
        assert_found(from, to, &[(rule, Advice)]);
    }
}

#[test]
fn legitimate_pages_have_no_finding() {
    for (from, to) in [
        ("<html lang=\"en\">", "<html lang=\"sr-Latn-RS\">"),
        ("name=\"description\"", "name=\"Description\""),
        ("<main>", "<main role=main>"),
        ("<h1>About us</h1>", "<div role=heading aria-level=1>About us</div>"),
        ("<header>", "<header><h1>Example company</h1>"),
        (" alt=\"A picture of the office\"", " alt=\"\""),
        (" alt=\"A picture of the office\"", " role=presentation"),
        ("<h2>", "<a href=\"/docs/\"><img src=\"/image.png\" alt=Home></a><h2>"),
        ("<h2>", "<a href=\"/docs/\" aria-label=Home><svg></svg></a><h2>"),
        ("<h2>", "<div hidden><h4>x</h4><input><a href=/docs/></a></div><h2>"),
        ("<h2>", "<label>Name <input></label><label for=a>x</label><input id=a><input type=submit><h2>"),
        ("<h2>", "<button aria-label=Menu></button><button><img alt=Menu></button><button>Menu</button><h2>"),
        ("<h2>", "<input type=button value=Menu><label for=a>x</label><button id=a></button><h2>"),
        ("<h2>", "<svg><g id=a></g></svg><svg><g id=a></g></svg><h2>"),
        ("<title>", "<noscript><meta http-equiv=refresh content='0; url=/docs/'></noscript><title>"),
    ] {
        assert_found(from, to, &[]);
    }
}

#[test]
fn an_untrue_content_coding_is_one_finding() {
    // Bytes that are not compressed, and compressed bytes that are damaged.
    for damage in [
        |body: Vec<u8>| [b"plain: ".as_slice(), &body].concat(),
        |body: Vec<u8>| body[..body.len() - 20].to_vec(),
    ] {
        let site = FakeSite::with_late_fault(move |asked, answer| {
            if asked.path() == "/about/" && answer.header("content-encoding") == "gzip" {
                Answer { body: damage(answer.body.clone()), ..answer }
            } else {
                answer
            }
        });
        site.assert_finds("encoding-untrue", Broken);
    }
}

const STYLESHEET: &str = "<link rel=stylesheet href=/style.css>";
const SCRIPT: &str = "<script src=/main.js></script>";

/// A site whose home page loads files, which `answer` serves.
fn with_assets(tags: &'static str, answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeSite {
    FakeSite::with_fault(move |asked, page| match asked.path() {
        "/style.css" | "/main.js" => answer(asked),
        "/" => page.replaced("</head>", &format!("{tags}</head>")),
        _ => page,
    })
}

fn not_found(_: &Asked) -> Answer {
    Answer::new(404, "text/plain", "none")
}

#[test]
fn missing_assets_are_found() {
    with_assets(STYLESHEET, not_found).assert_finds("asset-broken", Broken);
    for script in [
        SCRIPT,
        "<script type=Module src=/main.js></script>",
        "<script type=Text/JavaScript src=/main.js></script>",
    ] {
        with_assets(script, |_| Answer::new(200, "text/html", "<!doctype html><title>App</title>"))
            .assert_finds("asset-broken", Broken);
    }
    let image = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/image.png" => not_found(asked),
        _ => answer,
    });
    image.assert_finds("asset-broken", Broken);
    // Two files, if there are enough requests.
    let both: &str = "<link rel=stylesheet href=/style.css><script src=/main.js></script>";
    let site = with_assets(both, not_found);
    let report = site.audit_with(&Options { max_requests: 80, pace: Duration::ZERO, ..Options::default() });
    let own = report.findings.iter().filter(|own| own.rule.id == "asset-broken");
    assert_eq!(own.count(), 2, "{}", describe(&report));
}

#[test]
fn assets_that_browsers_can_load_have_no_finding() {
    let css = || Answer::new(200, "text/css", "/* */");
    with_assets(STYLESHEET, move |_| css()).assert_clean();
    // HEAD fails.
    with_assets(STYLESHEET, move |asked| if asked.method == "HEAD" { not_found(asked) } else { css() })
        .assert_clean();
    with_assets(STYLESHEET, |_| Answer::new(302, "", "").with("location", "/image.png")).assert_clean();
    // Refused to unknown clients.
    with_assets(STYLESHEET, |_| Answer::new(403, "text/html", "<!doctype html>no")).assert_clean();
    for skipped in [
        "<noscript><link rel=stylesheet href=/style.css></noscript>",
        "<link rel=stylesheet href=''>",
        "<script type=text/plain src=/main.js></script>",
        "<script type=speculationrules src=/main.js></script>",
    ] {
        with_assets(skipped, not_found).assert_clean();
    }
    for placeholder in ["src=\"\"", "src=\"#\"", "src=\"/\""] {
        FakeSite::with_fault(move |_, answer| {
            let is_html = answer.header("content-type").starts_with("text/html");
            if is_html { answer.replaced("src=\"/image.png\"", placeholder) } else { answer }
        })
        .assert_clean();
    }
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" => answer.replaced("Allow: /", "Disallow: /image.png"),
        _ => answer,
    });
    site.assert_clean();
    assert!(site.requests().iter().all(|asked| asked.path() != "/image.png"));
}

#[test]
fn an_incomplete_page_lacks_nothing() {
    // The first page breaks off after its start tag.
    let site = FakeSite::raw(|asked, stream| {
        use std::io::Write as _;
        let (status, body) = if asked.path() == "/" { (200, "<!doctype html><html>") } else { (404, "none") };
        let head = format!("HTTP/1.1 {status} x\r\ncontent-type: text/html\r\ncontent-length: 9000\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    });
    let lacking: Vec<_> = site.found_in("basics").into_iter().map(|(rule, _)| rule).collect();
    assert!(lacking.iter().all(|rule| !rule.contains("missing")), "{lacking:?}");
}

#[test]
fn one_repeated_id_is_counted_in_the_singular() {
    for (to, expected) in [
        ("<h2 id=a><b id=a>", "1 value of `id` occurs"),
        ("<h2 id=a><b id=a><i id=b><u id=b>", "2 values of `id` occur"),
    ] {
        let report = replacing("<h2>", to).audit();
        let message = report.findings.iter().find(|finding| finding.rule.id == "duplicate-id");
        assert!(message.is_some_and(|own| own.message.starts_with(expected)), "{}", describe(&report));
    }
}

#[test]
fn a_page_without_an_encoding_is_found() {
    let site = |from: &'static str, to: &'static str| {
        FakeSite::with_fault(move |asked, answer| {
            let kind = answer.header("content-type").replace("text/html; charset=utf-8", "text/html");
            if asked.path() == "/about/" {
                answer.with("content-type", &kind).replaced(from, to)
            } else {
                answer
            }
        })
    };
    let late: &'static str = Box::leak(format!("<!--{}--><meta charset=\"utf-8\">", "x".repeat(1100)).into());
    for (from, to, expected) in [
        ("<meta charset=\"utf-8\">", "", &[("charset-undeclared", Advice)][..]),
        ("<meta charset=\"utf-8\">\n<title>About", "<title>Über", &[("charset-undeclared", Broken)]),
        ("<meta charset=\"utf-8\">", late, &[("charset-undeclared", Advice)]),
        ("x", "x", &[]),
    ] {
        assert_eq!(site(from, to).found_in("basics"), expected, "{to}");
    }
}

#[test]
fn a_listed_page_that_must_not_be_indexed_is_found() {
    assert_found(
        "<title>",
        "<meta name=Robots content='NoIndex, follow'><title>",
        &[("noindex-listed", Broken)],
    );
    let with_header = |path: &'static str, lines: &'static [&'static str]| {
        FakeSite::with_fault(move |asked, mut answer| {
            let fields = lines.iter().map(|line| ("x-robots-tag".to_owned(), (*line).to_owned()));
            answer.headers.extend(fields.filter(|_| asked.path() == path));
            answer
        })
    };
    for (path, lines, expected) in [
        ("/about/", &["noindex"][..], &[("noindex-listed", Broken)][..]),
        ("/about/", &["otherbot: noarchive", "noindex"], &[("noindex-listed", Broken)]),
        ("/about/", &["GPTBot: noindex, nofollow"], &[]),
        // Twins may be left out of search.
        ("/about/index.md", &["noindex"], &[]),
    ] {
        assert_eq!(with_header(path, lines).found_in("basics"), expected, "{path} {lines:?}");
    }
    let unlisted = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/sitemap.xml" => Answer::new(404, "text/plain", "none"),
        "/robots.txt" => answer.replaced("Sitemap:", "# Sitemap:"),
        "/about/" => answer.with("x-robots-tag", "noindex"),
        "/llms.txt" => answer.replaced("/about/index.md", "/about/"),
        _ => answer,
    });
    assert_eq!(unlisted.found_in("basics"), [("noindex-listed", Advice)]);
}

#[test]
fn a_page_that_fails_is_found() {
    let site = FakeSite::with_fault(|asked, answer| {
        if asked.path() == "/about/" {
            Answer::new(502, "text/html", "<!doctype html>bad gateway")
        } else {
            answer
        }
    });
    let report = site.audit();
    let failing = report.findings.iter().filter(|finding| finding.rule.id == "server-errors");
    let failing: Vec<_> = failing.map(|finding| (&*finding.message, finding.severity)).collect();
    assert_eq!(failing, [("The page returns 502 Bad Gateway", Broken)], "{}", describe(&report));
}

#[test]
fn text_without_compression_is_found() {
    let uncompressed = |length: usize, cache_control: &'static str| {
        FakeSite::serving(move |asked| {
            let filler = format!("<h2>{}", "x".repeat(length));
            let answer = crate::content::answer(asked).replaced("<h2>", &filler);
            answer.with("cache-control", cache_control)
        })
    };
    assert_eq!(uncompressed(2000, "no-cache").found_in("basics")[0], ("no-compression", Advice));
    assert_eq!(uncompressed(0, "no-cache").found_in("basics"), []);
    assert_eq!(uncompressed(2000, "no-cache, no-transform").found_in("basics"), []);
}

#[test]
fn elements_are_counted_and_shown_on_one_line() {
    let site = replacing("<h2>", "<a href='/docs/#\u{1b}[31m\nx'></a><a href=/docs/></a><h2>");
    let report = site.audit();
    let message =
        &report.findings.iter().find(|finding| finding.rule.id == "link-text-missing").unwrap().message;
    assert_eq!(message, "2 links have no text, starting with `<a href=\"/docs/#[31mx\">`");
}

/// Takes minutes if a part of the audit reads the page again for each element.
#[test]
fn pages_full_of_elements_are_judged() {
    for (piece, count, expected) in [
        ("<a href=x></a>", 18_000, "18000 links have no text, starting with `<a href=\"x\">`"),
        ("<input>", 36_000, "36000 controls have no label, starting with `<input>`"),
    ] {
        let site = FakeSite::serving(move |asked| match asked.path() {
            "/" => Answer::new(200, "text/html", format!("<!doctype html>{}", piece.repeat(count))),
            _ => Answer::new(404, "text/plain", "none"),
        });
        let report = site.audit();
        let messages: Vec<_> = report.findings.iter().map(|finding| &*finding.message).collect();
        assert!(messages.contains(&expected), "{messages:?}");
    }
}
