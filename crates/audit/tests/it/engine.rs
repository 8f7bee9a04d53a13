//! The manners of an audit, and sites that are hostile.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use frontdesk_audit::{Baseline, Options};

use crate::content;
use crate::site::{Answer, Asked, FakeSite, describe};

fn quick() -> Options {
    Options { pace: Duration::ZERO, ..Options::default() }
}

#[test]
fn a_correct_site_has_no_finding() {
    let site = FakeSite::correct();
    site.assert_clean();
    let report = site.audit();
    assert_eq!(report.pages.len(), 3);
    assert!(report.not_judged.is_empty(), "{}", describe(&report));
}

#[test]
fn requests_stay_within_the_budget() {
    for budget in [1, 3, 8] {
        let site = FakeSite::correct();
        let result = site.try_audit("/", &Options { max_requests: budget, ..quick() });
        assert!(site.requests().len() <= budget);
        if let Ok(report) = result {
            assert!(report.findings.is_empty(), "{}", describe(&report));
            assert!(report.not_judged.iter().any(|note| note.reason.contains("--max-requests")));
        }
    }
    let site = FakeSite::correct();
    site.audit();
    assert!(site.requests().len() <= 60, "{}", site.requests().len());
}

#[test]
fn a_budget_that_ends_at_a_markdown_page_is_named() {
    for max_requests in [1, 2] {
        let site = FakeSite::with_fault(|asked, answer| match &*asked.target {
            "/" => Answer::new(200, "text/markdown", "# Start\n"),
            _ => answer,
        });
        let report = site.audit_with(&Options { max_requests, ..quick() });
        assert!(report.not_judged[0].reason.contains("--max-requests"), "{}", describe(&report));
    }
}

#[test]
fn forbidden_pages_and_other_hosts_are_not_requested() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" => answer.replaced("Allow: /\n", "Disallow: /about/\n"),
        _ => answer.replaced("/docs/install/", "http://localhost:9/other"),
    });
    let report = site.audit();
    assert!(site.requests().iter().all(|asked| !asked.path().starts_with("/about")), "{}", describe(&report));
    assert!(report.not_judged.iter().any(|note| note.reason.contains("robots.txt")), "{}", describe(&report));
}

#[test]
fn an_audit_ends_when_the_site_asks_for_fewer_requests() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/llms.txt" => Answer::new(429, "text/plain", "slow down"),
        _ => answer,
    });
    let report = site.audit();
    // Another request may be on its way already.
    assert!(site.requests().len() <= 4, "{:?}", site.requests().len());
    assert!(report.not_judged.iter().any(|note| note.reason.contains("429")), "{}", describe(&report));
}

#[test]
fn a_site_that_cannot_be_judged_is_an_error() {
    for (status, headers, expected) in [
        (401, ("www-authenticate", "Basic"), "login"),
        (403, ("cf-mitigated", "challenge"), "Cloudflare"),
        (302, ("location", "https://login.example.com/"), "redirects to https://login.example.com/"),
        (301, ("location", "/"), "/ and never reach a page"),
        (500, ("x", "y"), "answered 500"),
        (200, ("content-type", "application/json"), "is not an HTML page (`Content-Type: application/json`)"),
    ] {
        let site = FakeSite::serving(move |_| Answer::new(status, "", "{}").with(headers.0, headers.1));
        let error = site.try_audit("/", &quick()).expect_err("it cannot be judged").to_string();
        assert!(error.contains(expected), "{status}: {error}");
    }
}

#[test]
fn known_findings_are_recognized_on_another_host() {
    let lines = |site: &FakeSite| {
        let report = site.audit();
        report.findings.iter().map(|finding| format!("{}\n", finding.to_json())).collect::<String>()
    };
    let faulty = || {
        FakeSite::with_fault(|_, answer| if answer.status == 200 { answer.with("vary", "") } else { answer })
    };
    let baseline = Baseline::parse(&lines(&faulty())).expect("JSON lines");
    let again = faulty().audit();
    assert!(!again.findings.is_empty() && again.findings.iter().all(|finding| baseline.contains(finding)));
    assert!(Baseline::parse("{}\nnot JSON").expect_err("line 2").contains("line 2"));
}

#[test]
fn findings_show_urls_without_the_query_of_the_audit() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/frontdesk-audit-no-such-page" => {
            Answer::new(302, "", "").with("location", &asked.target.replace(asked.path(), "/about/"))
        }
        _ => answer,
    });
    let report = site.audit();
    let finding = report.findings.iter().find(|finding| finding.rule.id == "soft-not-found").expect("it");
    assert_eq!(finding.url, site.url("/about/").as_str());
    assert!(finding.message.contains("/about/: "), "{}", finding.message);
    assert!(finding.evidence[0].url().query().is_some_and(|query| query.starts_with("frontdesk-audit=")));
}

#[test]
fn pages_that_redirect_are_compared_where_they_lead() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/sitemap.xml" => answer.replaced("/</loc>", "</loc>"),
        "/docs" | "/about" | "/docs/install" => {
            Answer::new(301, "", "").with("location", &format!("{}/", asked.target))
        }
        _ => answer,
    });
    let pages = site.audit().pages;
    assert_eq!(pages, ["/", "/docs/", "/about/"].map(|path| site.url(path).to_string()));

    let home = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/docs/" => Answer::new(301, "", "").with("location", "/"),
        "/about/" => Answer::new(301, "", "").with("location", "https://www.example.com/about/"),
        _ => answer,
    });
    assert_eq!(home.audit().pages, [home.url("/").to_string()], "no page twice, and none of another site");
}

#[test]
fn a_page_names_the_sitemap_if_robots_txt_does_not() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" => answer.replaced("Sitemap:", "# Sitemap:"),
        "/sitemap.xml" => Answer::new(404, "text/plain", "not here"),
        "/lists/pages.xml" => content::answer(&Asked { target: "/sitemap.xml".into(), ..asked.clone() }),
        _ => answer.replaced(
            "<link rel=\"help\"",
            "<link rel=\"sitemap\" href=\"/lists/pages.xml\">\n<link rel=\"help\"",
        ),
    });
    let report = site.audit();
    assert!(report.findings.is_empty(), "{}", describe(&report));
    assert_eq!(report.pages, ["/", "/docs/", "/about/"].map(|path| site.url(path).to_string()));
    assert!(site.requests().iter().any(|asked| asked.path() == "/lists/pages.xml"));
    assert!(site.requests().iter().all(|asked| asked.path() != "/sitemap.xml"));
}

/// The root of a code host's domain may belong to another project.
#[test]
fn a_site_below_a_path_has_its_lists_there() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" | "/llms.txt" | "/sitemap.xml" => Answer::new(404, "text/plain", "not here"),
        "/docs/llms.txt" | "/docs/sitemap.xml" => {
            content::answer(&Asked { target: asked.target.replace("/docs", ""), ..asked.clone() })
        }
        _ => answer,
    });
    let report = site.try_audit("/docs/", &quick()).expect("a report");
    assert!(report.findings.iter().all(|finding| finding.rule.id != "llms-missing"), "{}", describe(&report));
    let paths: Vec<_> = report.pages.iter().map(|page| page.replace(site.url("/").as_str(), "/")).collect();
    assert_eq!(paths, ["/docs/", "/", "/about/"]);
    let count =
        |site: &FakeSite| site.requests().iter().filter(|asked| asked.path().ends_with("/llms.txt")).count();
    assert_eq!(count(&site), 2);
    let root = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/llms.txt" => Answer::new(404, "text/plain", "not here"),
        _ => answer,
    });
    root.audit();
    assert_eq!(count(&root), 1, "no further request for a site at the root");
}

/// Sites whose responses never end, are broken, or send the client in circles.
#[test]
fn hostile_sites_end_the_audit_in_time() {
    type Serve = fn(&mut TcpStream);
    let cases: [(&str, Serve); 6] = [
        ("nothing", |_| {}),
        ("no HTTP", |stream| drop(stream.write_all(b"220 mail.example.com ESMTP\r\n"))),
        (
            "endless header",
            |stream| while stream.write_all(b"HTTP/1.1 200 OK\r\nx: y\r\nx: y\r\n").is_ok() {},
        ),
        ("endless body", |stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<!doctype html>");
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        }),
        ("redirect to itself", |stream| {
            drop(stream.write_all(b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"));
        }),
        ("wrong length", |stream| {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 99999\r\n\r\n<!doctype html><p>x"));
        }),
    ];
    for (name, serve) in cases {
        let site = FakeSite::raw(move |_, stream| serve(stream));
        if let Ok(report) = site.try_audit("/", &quick()) {
            assert!(report.requests <= 60, "{name}");
        }
    }
}

#[test]
fn deeply_nested_files_are_read_in_time() {
    let site = FakeSite::with_fault(|asked, mut answer| {
        match asked.path() {
            "/sitemap.xml" => answer.body = "<urlset>".repeat(200_000).into_bytes(),
            "/llms.txt" => answer.body = "> ".repeat(500_000).into_bytes(),
            "/openapi.json" => answer.body = "[".repeat(1_000_000).into_bytes(),
            "/" => answer.body.extend("<div><b>".repeat(100_000).bytes()),
            _ => {}
        }
        answer
    });
    let report = site.audit();
    assert!(report.requests <= 60, "{}", describe(&report));
}

/// Every resource of the site in turn is replaced by bytes that its reader may not expect.
#[test]
fn no_garbage_stops_an_audit() {
    const BODIES: [&[u8]; 14] = [
        b"",
        b"\0\0\0\0",
        b"\xff\xfe\xfd",
        b"null",
        b"[]",
        b"{}",
        b"{\"linkset\":5,\"skills\":{},\"paths\":[],\"openapi\":[]}",
        b"{\"linkset\":[5,{\"service-desc\":[{}]}],\"skills\":[5,{\"url\":5}],\"openapi\":\"3.1.0\",\"paths\":{\"/x\":5,\"/y\":{\"post\":5},\"/z\":{\"post\":{\"requestBody\":5,\"responses\":[]}}}}",
        b"{\"openapi\":\"3.1.0\",\"paths\":{\"/api/contact\":{\"$ref\":\"#/paths/~1api~1contact\"}}}",
        b"<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"c\">]><urlset><url><loc>&b;</loc></url></urlset>",
        b"<urlset><url><loc>javascript:x</loc></url><url><loc></loc></url><url><loc>http://[</loc></url></urlset>",
        b"<!doctype html><base href=\"http://[\"><a href=\"http://[\">x</a><link rel=alternate type=text/markdown href=\"//\"><meta http-equiv=refresh><form method=post action=\"http://[\">",
        b"User-agent\nDisallow: *$*$\nContent-Signal: =,=;\nContent-Usage: (\nSitemap: http://[\nExpires: \xff\n",
        b"# \n[]()\n![](\n```\n---\n---\n",
    ];
    const HEADERS: [(&str, &str); 6] = [
        ("link", "<>; rel=, <http://[>; rel=alternate; type=text/markdown, <"),
        ("vary", ",,*,"),
        ("etag", "W/\""),
        ("cache-control", "max-age=99999999999999999999, s-maxage=\"\""),
        ("cache-status", "\"; hit; ttl=x"),
        ("age", "-1"),
    ];
    let paths = FakeSite::correct();
    paths.audit();
    let mut paths: Vec<_> = paths.requests().iter().map(|asked| asked.path().to_owned()).collect();
    paths.sort();
    paths.dedup();
    // Bodies in a format are tried where the format is read.
    let is_read = |path: &str, body: &[u8]| match body.get(..2) {
        Some(b"{\"") => path.contains("json") || path.contains("api"),
        Some(b"<?" | b"<u") => path.contains("xml"),
        Some(b"<!") => path.ends_with('/'),
        Some(b"Us") => path.ends_with(".txt"),
        Some(b"# ") => path.ends_with(".md") || path.ends_with(".txt"),
        _ => true,
    };
    for path in paths {
        for body in BODIES.into_iter().filter(|body| is_read(&path, body)) {
            let path = path.clone();
            let site = FakeSite::with_fault(move |asked, mut answer| {
                if asked.path() == path {
                    answer.body = body.to_vec();
                    return HEADERS.iter().fold(answer, |answer, (name, value)| answer.with(name, value));
                }
                answer
            });
            if let Ok(report) = site.try_audit("/", &quick()) {
                assert!(report.requests <= 60);
            }
        }
    }
}
