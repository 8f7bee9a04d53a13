//! Planted faults of the group files.

use frontdesk_audit::Group;
use frontdesk_audit::Severity::{self, Advice, Broken};

use crate::content;
use crate::site::{Answer, Asked, FakeSite, describe};

const SECURITY: &str = "/.well-known/security.txt";
const CATALOG: &str = "/.well-known/api-catalog";
const SKILLS: &str = "/.well-known/agent-skills/index.json";
const OPENAPI: &str = "/openapi.json";

/// A site in which one file is changed.
fn with_file(path: &'static str, change: impl Fn(Answer) -> Answer + Send + Sync + 'static) -> FakeSite {
    FakeSite::with_fault(move |asked, answer| if asked.path() == path { change(answer) } else { answer })
}

/// Asserts what the audit finds if a text in a file is replaced. Each case must change the file.
#[track_caller]
fn assert_replaced(path: &'static str, cases: &[(&'static str, &'static str, &str, Severity)]) {
    for &(from, to, rule, severity) in cases {
        let site = with_file(path, move |answer| {
            let changed = answer.clone().replaced(from, to);
            assert_ne!(changed.body, answer.body, "{from}");
            changed
        });
        site.assert_finds(rule, severity);
    }
}

/// Asserts that replacing a text in a file is no defect.
#[track_caller]
fn assert_harmless(path: &'static str, cases: &[(&'static str, &'static str)]) {
    for &(from, to) in cases {
        with_file(path, move |answer| answer.replaced(from, to)).assert_clean();
    }
}

fn missing() -> Answer {
    Answer::new(404, "text/plain", "Not found\n")
}

fn page() -> Answer {
    Answer::new(200, "text/html", "<!doctype html><title>App</title><div id=app></div>")
}

#[test]
fn a_page_in_place_of_robots_txt_is_found() {
    with_file("/robots.txt", |_| page()).assert_finds("robots-is-html", Broken);
    with_file("/robots.txt", |_| missing()).assert_clean();
}

#[test]
fn a_failing_robots_txt_forbids_the_site() {
    with_file("/robots.txt", |_| Answer::new(502, "text/html", "<html>Bad gateway"))
        .assert_finds("robots-server-error", Broken);
    with_file("/robots.txt", |_| Answer::new(403, "text/plain", "no")).assert_clean();
    let moved =
        with_file("/robots.txt", |answer| Answer { status: 301, ..answer }.with("location", "/robots"));
    let report = moved.audit();
    assert!(report.findings.is_empty(), "{}", describe(&report));
    assert!(report.not_judged.iter().any(|note| note.reason.contains("redirects")), "{}", describe(&report));
}

#[test]
fn lines_of_robots_txt_that_crawlers_skip_are_found() {
    assert_replaced(
        "/robots.txt",
        &[
            ("Allow: /\n", "Allow: /\nDisallow /private\n", "robots-faulty-lines", Advice),
            ("User-agent: *\n", "Disallow: /private\nUser-agent: *\n", "robots-faulty-lines", Advice),
        ],
    );
    assert_harmless(
        "/robots.txt",
        &[("Allow: /\n", "# Comment\nCrawl-delay: 1\nAllow: /\nDisallow: /private\n")],
    );
}

#[test]
fn pages_for_assistants_that_robots_txt_forbids_are_found() {
    assert_replaced(
        "/robots.txt",
        &[("Allow: /\n", "Disallow: /docs/install/index.md\n", "robots-blocks-llms", Broken)],
    );
    let all = "User-agent: ChatGPT-User\nUser-agent: OAI-SearchBot\nUser-agent: Claude-User\n\
               User-agent: Claude-SearchBot\nUser-agent: PerplexityBot\nUser-agent: Perplexity-User\n\
               User-agent: MistralAI-User\nUser-agent: DuckAssistBot\nDisallow: /\n\nSitemap";
    assert_replaced("/robots.txt", &[("Sitemap", all, "robots-blocks-llms", Advice)]);
    let some = "User-agent: GPTBot\nUser-agent: ClaudeBot\nUser-agent: ChatGPT-User\nDisallow: /\n\nSitemap";
    assert_harmless("/robots.txt", &[("Sitemap", some)]);
}

#[test]
fn a_sitemap_that_does_not_exist_is_found() {
    for answer in [missing(), page(), Answer::new(500, "text/plain", "error")] {
        let site = FakeSite::with_fault(move |asked, right| match asked.path() {
            "/map.xml" => answer.clone(),
            "/robots.txt" => right.replaced("/sitemap.xml", "/map.xml"),
            _ => right,
        });
        let report = site.audit();
        let found = report.findings.iter().find(|finding| finding.rule.id == "robots-sitemap-broken");
        assert!(found.is_some_and(|finding| finding.severity == Broken), "{}", describe(&report));
    }
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" => answer.replaced(&asked.origin, ""),
        _ => answer,
    });
    site.assert_finds("robots-sitemap-broken", Advice);
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/robots.txt" => {
            answer.replaced("Sitemap:", &format!("Sitemap: {}/news.xml\nSitemap:", asked.origin))
        }
        "/news.xml" => content::answer(&Asked { target: "/sitemap.xml".into(), ..asked.clone() }),
        "/sitemap.xml" => missing(),
        _ => answer,
    });
    site.assert_finds("robots-sitemap-broken", Broken);
}

#[test]
fn a_sitemap_behind_a_redirect_is_requested_once() {
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/sitemap.xml" => Answer::new(301, "text/plain", "").with("location", "/map.xml"),
        "/map.xml" => content::answer(&Asked { target: "/sitemap.xml".into(), ..asked.clone() }),
        _ => answer,
    });
    site.audit();
    assert_eq!(site.requests().iter().filter(|asked| asked.path() == "/sitemap.xml").count(), 1);
}

#[test]
fn signals_that_crawlers_cannot_read_are_found() {
    let line = "search=yes, ai-input=yes";
    assert_replaced(
        "/robots.txt",
        &[
            (line, "search, ai-train", "content-signal-invalid", Broken),
            (line, "search=yes, ai-train=false", "content-signal-invalid", Broken),
            (line, "search=yes, use=no", "content-signal-invalid", Broken),
            (line, "search=yes, ai_train=no", "content-signal-invalid", Advice),
            ("Allow: /", "Content-Usage: / train-ai: n", "content-usage-invalid", Broken),
            ("Allow: /", "Content-Usage: / train-ai=no", "content-usage-invalid", Broken),
        ],
    );
    let usage = "Content-Usage: / train-ai=n, search=y, other=1\nContent-Usage: ai-use=y\nAllow: /\n";
    assert_harmless(
        "/robots.txt",
        &[(line, " SEARCH = yes ,ai-train=NO,use=reference"), ("Allow: /\n", usage)],
    );
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/about/" => answer.with("content-usage", "train-ai=?0"),
        _ => answer,
    });
    site.assert_finds("content-usage-invalid", Broken);
}

#[test]
fn contradictory_statements_about_use_are_found() {
    let field = |name: &'static str, value: &'static str| {
        FakeSite::with_fault(move |asked, answer| match (asked.path(), answer.status) {
            // As a converter does that adds its own field to the Markdown.
            ("/", 200) if asked.header("accept").contains("markdown") => answer.with(name, value),
            _ => answer,
        })
    };
    field("content-signal", "ai-input=no").assert_finds("usage-signals-disagree", Broken);
    field("content-usage", "search=n").assert_finds("usage-signals-disagree", Broken);
    field("content-signal", "ai-train=yes, search=yes").assert_clean();
    assert_replaced(
        "/robots.txt",
        &[("Allow: /", "Content-Usage: / search=n\nAllow: /", "usage-signals-disagree", Broken)],
    );
    // Another path, and another crawler.
    let lines = "Content-Usage: / search=y\nContent-Usage: /shop/ search=n\nAllow: /\n\n\
                 User-agent: GPTBot\nContent-Signal: search=no\n";
    assert_harmless("/robots.txt", &[("Allow: /\n", lines)]);
}

#[test]
fn pages_in_place_of_files_are_found() {
    let is_fallback = |asked: &Asked| asked.path().starts_with("/.well-known/") || asked.path() == OPENAPI;
    let site = FakeSite::with_fault(move |asked, answer| if is_fallback(asked) { page() } else { answer });
    site.assert_finds("file-is-page", Broken);
    let message = &site.audit().findings[0].message;
    assert!(message.starts_with("/.well-known/security.txt, /.well-known/api-catalog, "), "{message}");
    let is_sitemap = |asked: &Asked| asked.path() == "/sitemap.xml";
    let site = FakeSite::with_fault(move |asked, answer| match asked.path() {
        "/robots.txt" => answer.replaced("Sitemap:", "# Sitemap:"),
        _ if is_sitemap(asked) => page(),
        _ => answer,
    });
    site.assert_finds("file-is-page", Broken);
    // Another rule reports the sitemap that `robots.txt` names.
    let site = FakeSite::with_fault(move |asked, answer| if is_sitemap(asked) { page() } else { answer });
    site.assert_finds("robots-sitemap-broken", Broken);
    // A redirect to the home page is no file either, but programs see it.
    let site = FakeSite::with_fault(move |asked, answer| {
        if is_fallback(asked) { Answer::new(302, "", "").with("location", "/") } else { answer }
    });
    let report = site.audit();
    assert!(report.findings.is_empty(), "{}", describe(&report));
}

#[test]
fn files_with_a_wrong_media_type_are_found() {
    for (path, kind) in [
        ("/robots.txt", "text/html"),
        ("/llms.txt", "application/octet-stream"),
        (SKILLS, "text/plain"),
        (OPENAPI, "binary/octet-stream"),
        (OPENAPI, ""),
        ("/sitemap.xml", "text/html"),
    ] {
        with_file(path, move |answer| answer.with("content-type", kind))
            .assert_finds("file-content-type", Advice);
    }
    let yaml = |kind: &'static str| {
        with_file(OPENAPI, move |answer| {
            let description = "openapi: 3.1.0\ninfo: {title: Example company, version: '1'}\npaths: {}\n";
            Answer { body: description.into(), ..answer }.with("content-type", kind)
        })
    };
    for kind in ["text/plain", "application/json"] {
        let site = yaml(kind);
        site.assert_finds("file-content-type", Advice);
        let message = &site.audit().findings[0].message;
        assert!(message.ends_with("use `application/yaml`"), "{message}");
    }
    with_file(OPENAPI, |answer| Answer { body: [b"\xef\xbb\xbf", &*answer.body].concat(), ..answer })
        .assert_clean();
    for kind in ["application/yaml", "application/vnd.oai.openapi", "application/openapi+yaml"] {
        yaml(kind).assert_clean();
    }
    for (path, kind) in
        [("/llms.txt", "text/markdown"), (OPENAPI, "application/vnd.oai.openapi+json;version=3.1")]
    {
        with_file(path, move |answer| answer.with("content-type", kind)).assert_clean();
    }
}

#[test]
fn llms_txt_is_expected_of_sites_with_markdown_only() {
    with_file("/llms.txt", |_| missing()).assert_finds("llms-missing", Advice);
    let site = FakeSite::with_fault(|asked, answer| match asked.path() {
        "/llms.txt" => missing(),
        path if content::PAGES.iter().any(|(own, _)| *own == path) => {
            let html = content::html_page(asked, path, "Only HTML");
            Answer::new(200, "text/html; charset=utf-8", html)
        }
        _ => answer,
    });
    let report = site.audit();
    assert!(report.findings.iter().all(|finding| finding.rule.id != "llms-missing"), "{}", describe(&report));
}

#[test]
fn an_llms_txt_that_agents_cut_is_found() {
    let long = |length: usize| {
        with_file("/llms.txt", move |answer| {
            let more = length - answer.body.len() - 1;
            answer.replaced("tests audits", &format!("{} tests audits", "ü".repeat(more)))
        })
    };
    long(50_001).assert_finds("llms-too-long", Advice);
    long(50_000).assert_clean();
}

#[test]
fn faults_of_security_txt_are_found() {
    with_file(SECURITY, |_| missing()).assert_clean();
    with_file(SECURITY, |answer| answer.with("content-type", "text/html"))
        .assert_finds("security-txt-invalid", Advice);
    assert_replaced(
        SECURITY,
        &[
            ("Contact: ", "# Contact: ", "security-txt-invalid", Broken),
            ("mailto:", "", "security-txt-invalid", Advice),
            ("mailto:security@", "http://", "security-txt-invalid", Advice),
            ("Expires: ", "Expired: ", "security-txt-invalid", Advice),
            ("Expires: ", "Expires: 2125-01-01T00:00:00Z\nExpires: ", "security-txt-invalid", Advice),
            ("2126-01-01T00:00:00Z", "2126-01-01", "security-txt-invalid", Advice),
            ("2126-", "2020-", "security-txt-expired", Broken),
        ],
    );
    assert_harmless(
        SECURITY,
        &[
            ("2126-01-01T00:00:00Z", "2126-01-01T00:00:00.5+02:00"),
            (
                "Contact: ",
                "contact: https://example.com/report\r\n\r\nCONTACT:tel:+1-201-555-0123\nContact: ",
            ),
        ],
    );
}

#[test]
fn faults_of_the_api_catalog_are_found() {
    assert_replaced(
        CATALOG,
        &[
            ("{\"linkset\"", "{linkset", "api-catalog-invalid", Broken),
            ("linkset", "links", "api-catalog-invalid", Broken),
            ("\"href\"", "\"url\"", "api-catalog-invalid", Broken),
            ("service-desc", "anchor", "api-catalog-invalid", Advice),
            ("/openapi.json", "/openapi-v2.json", "api-catalog-link-broken", Broken),
            ("}]}]}", "}],\"service-doc\":[{\"href\":\"/manual/\"}]}]}", "api-catalog-link-broken", Broken),
        ],
    );
    with_file(CATALOG, |answer| answer.with("content-type", "application/json"))
        .assert_finds("api-catalog-invalid", Advice);
    with_file(CATALOG, |answer| answer.with("content-type", "application/linkset+json; profile=\"x\""))
        .assert_clean();
    with_file(CATALOG, |_| missing()).assert_clean();
    // An endpoint need not answer GET, and other hosts are not asked.
    let more =
        "}],\"item\":[{\"href\":\"/api/none\"}],\"service-doc\":[{\"href\":\"https://example.com/\"}]}]}";
    assert_harmless(CATALOG, &[("}]}]}", more)]);
}

#[test]
fn faults_of_agent_skills_are_found() {
    assert_replaced(
        SKILLS,
        &[
            ("\"skills\"", "skills", "skills-index-invalid", Broken),
            ("\"skills\"", "\"skill\"", "skills-index-invalid", Broken),
            ("\"description\"", "\"summary\"", "skills-index-invalid", Broken),
            ("\"url\"", "\"href\"", "skills-index-invalid", Broken),
            ("\"guide\"", "\"The Guide\"", "skills-index-invalid", Advice),
            ("guide/SKILL.md", "other/SKILL.md", "skills-index-invalid", Broken),
            ("sha256:", "sha256:0", "skills-digest-wrong", Broken),
        ],
    );
    with_file("/.well-known/agent-skills/guide/SKILL.md", |answer| answer.replaced("Read", "Ignore"))
        .assert_finds("skills-digest-wrong", Broken);
    with_file(SKILLS, |_| missing()).assert_clean();
}

#[test]
fn the_earlier_form_of_the_skills_index_is_read() {
    let index = |digest: &'static str| {
        with_file(SKILLS, move |answer| {
            let text = String::from_utf8(answer.body.clone()).expect("JSON");
            let right = text.split("sha256:").nth(1).expect("a digest")[..64].to_owned();
            let digest = if digest.is_empty() { right } else { digest.to_owned() };
            let text = format!(
                "{{\"version\":\"0.2.0\",\"skills\":[{{\"name\":\"guide\",\"description\":\"x\",\"digest\":\"sha256:1\",\
                 \"files\":[{{\"path\":\"SKILL.md\",\"digest\":\"sha256:{digest}\"}}]}}]}}"
            );
            Answer { body: text.into_bytes(), ..answer }
        })
    };
    index("").assert_clean();
    index("00").assert_finds("skills-digest-wrong", Broken);
}

#[test]
fn faults_of_openapi_are_found() {
    assert_replaced(
        OPENAPI,
        &[
            ("\"paths\"", "paths", "openapi-invalid", Broken),
            ("\"openapi\"", "\"version\"", "openapi-invalid", Broken),
            ("\"paths\"", "\"routes\"", "openapi-invalid", Broken),
            ("{\"type\":\"string\"}", "{\"$ref\":\"#/components/schemas/None\"}", "openapi-invalid", Broken),
            (
                "{\"type\":\"string\"}",
                "{\"patternProperties\":{\"default\":{\"$ref\":\"#/none\"}}}",
                "openapi-invalid",
                Broken,
            ),
            ("\"title\"", "\"name\"", "openapi-invalid", Advice),
        ],
    );
    let old = "\"/old\":{\"put\":{}},\"/api/contact\"";
    with_file(OPENAPI, |answer| answer.replaced("3.1.0", "3.0.3").replaced("\"/api/contact\"", old))
        .assert_finds("openapi-invalid", Advice);
    with_file(OPENAPI, |answer| answer.replaced("\"/api/contact\"", old)).assert_clean();
    let unusual = "{\"type\":\"string\",\"example\":{\"$ref\":\"#/none\"},\"default\":{\"$ref\":\"#/none\"}}";
    assert_harmless(OPENAPI, &[("{\"type\":\"string\"}", unusual)]);
    let declared = FakeSite::with_fault(|asked, answer| match asked.path() {
        CATALOG => missing(),
        "/" => answer.with("link", "</description.json>; rel=\"service-desc\""),
        _ => answer,
    });
    declared.assert_finds("openapi-invalid", Broken);
    with_file(OPENAPI, |_| page()).assert_finds("openapi-invalid", Advice);
}

#[test]
fn other_descriptions_are_not_judged_as_openapi() {
    let graphql = FakeSite::with_fault(|asked, answer| match asked.path() {
        CATALOG => answer.replaced("/openapi.json", "/schema"),
        "/schema" => Answer::new(200, "application/json", "{\"data\":{\"__schema\":{}}}"),
        _ => answer,
    });
    graphql.assert_clean();
    with_file(OPENAPI, |answer| {
        Answer { body: b"swagger: '2.0'\npaths: {}\n".to_vec(), ..answer }
            .with("content-type", "application/yaml")
    })
    .assert_clean();
    let without = FakeSite::with_fault(|asked, answer| match asked.path() {
        CATALOG | OPENAPI => missing(),
        _ => answer,
    });
    without.assert_clean();
}

#[test]
fn servers_of_the_api_at_another_domain_are_found() {
    let servers = |url: &'static str| {
        FakeSite::with_fault(move |asked, answer| match asked.path() {
            OPENAPI => answer.replaced(
                &format!("\"servers\":[{{\"url\":\"{}\"}}]", asked.origin),
                &format!("\"servers\":[{{\"url\":\"{url}\"}}]"),
            ),
            _ => answer,
        })
    };
    servers("https://staging.example.com/v1").assert_finds("openapi-servers-foreign", Advice);
    servers("/").assert_clean();
}

/// A site of another design: HTML without any of these files, and a form that is a page.
#[test]
fn a_plain_site_is_not_broken() {
    let site = FakeSite::serving(|asked| match (&*asked.method, asked.path()) {
        (_, "/robots.txt") => Answer::new(404, "text/html", "<!doctype html><title>Not found</title>"),
        (_, path) if content::PAGES.iter().any(|(own, _)| *own == path) => {
            let form = "<form method=post action=/send.php><input type=email name=email></form></main>";
            let html = content::html_page(asked, path, "Plain").replace("</main>", form);
            Answer::new(200, "text/html", html).with("cache-control", "private").with("etag", "W/\"1\"")
        }
        _ => Answer::new(404, "text/html", "<!doctype html><title>Not found</title>"),
    });
    let report = site.audit();
    let own =
        report.findings.iter().filter(|finding| matches!(finding.rule.group, Group::Files | Group::Forms));
    let found: Vec<_> = own.map(|finding| (finding.rule.id, finding.severity)).collect();
    assert_eq!(found, [], "{}", describe(&report));
}

/// Files that consist of surprising bytes: nothing panics or hangs.
#[test]
fn hostile_files_are_survived() {
    for body in [
        format!("Contact: \u{1b}[2J{}", "x".repeat(100_000)),
        "{".repeat(100_000),
        "[".repeat(100_000),
        "a: &a [*a]".to_owned(),
        "\u{feff}".to_owned(),
        (0..5_000).map(|n| format!("Sitemap: {n}\nUser-agent: *\nContent-Signal: {n}\nContent-Usage: /{n} a={n}\n")).collect(),
        "User-agent:\nDisallow:\u{0}*".repeat(1_000),
        "{\"linkset\":[1,{\"service-desc\":[1,{\"href\":\"http://[\"}]}],\"skills\":[1,{\"url\":\"//\"}],\"openapi\":\"3.1.0\",\
         \"paths\":{\"/a\":{\"$ref\":\"#/paths/~1a\"},\"x\":1},\"servers\":[{\"url\":\"{x}\",\"variables\":{\"x\":1}}]}"
            .to_owned(),
    ] {
        let site = FakeSite::with_fault(move |asked, answer| {
            let is_file = asked.path().contains('.') && asked.path() != "/image.png" || asked.path() == CATALOG;
            if is_file { Answer { body: body.clone().into_bytes(), ..answer } } else { answer }
        });
        let report = site.audit();
        assert!(report.requests <= 60);
        let is_short = |text: &str| text.len() <= 2_000 && !text.contains(char::is_control);
        assert!(report.findings.iter().all(|finding| is_short(&finding.message)), "{}", describe(&report));
    }
}
