//! Forms that browsers send without JavaScript, and forms on other sites.

use serde_json::json;

use crate::support::{Answer, TestServer, small_site};

const HTML_POSTS: (&str, &str) = ("FRONTDESK_FORMS__HTML_POSTS", "true");
const ORIGINS: (&str, &str) = ("FRONTDESK_FORMS__ALLOWED_ORIGINS", "https://a.example,http://localhost:4321");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("Content-Type", "application/json");
const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");
const FIELDS: &str = "name=Ada&email=ada%40example.com&message=Hello%0D%0Athere&desk_note=";
const CORS: [&str; 5] = [
    "access-control-allow-origin",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
    "access-control-expose-headers",
];

fn post(server: &TestServer, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    server.request("POST", path, headers, body.as_bytes())
}

fn assert_page(answer: &Answer, status: u16, message: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("vary"), Some("Accept"));
    let html = answer.text();
    assert!(html.contains("<title>Error: "), "{html}");
    let start = html.find("data-status>").expect("a status") + "data-status>".len();
    assert!(html[start..].starts_with(message), "{}", &html[start..start + 300]);
    assert!(!html.contains(['\u{fdd0}', '\u{fdd1}']), "a marker is left");
}

#[test]
fn an_html_form_is_stored_and_leads_to_the_thank_you_page() {
    let server = TestServer::with(&small_site(), &[HTML_POSTS]);
    let own = format!("http://{}", server.address);
    let referer = format!("{own}/contact/");
    for header in [SAME, ("Origin", &*own), ("Referer", &*referer)] {
        let headers = [FORM, BROWSER, header];
        let answer = post(&server, "/api/contact?page=/contact/", &headers, FIELDS);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/thanks/")), "{answer:?}");
    }
    // The second and the third one are repeats, and so is the same content as JSON.
    let same = json!({ "name": "Ada", "email": "ada@example.com", "message": "Hello\nthere" });
    assert_eq!(server.post("/api/contact", &same).status, 200);
    let thanks = server.get("/thanks/", &[BROWSER]);
    assert!(thanks.status == 200 && thanks.text().contains("<h1>Thank you</h1>"), "{thanks:?}");
    assert!(!thanks.text().contains("class=\"copy\""), "a visitor does not copy the thank-you page");
    assert!(server.get("/contact/", &[BROWSER]).text().contains("class=\"copy\""));
    assert!(!server.get("/sitemap.xml", &[]).text().contains("/thanks/"));
    let kept = server.inbox().swap_remove(0);
    assert_eq!((&kept["message"], &kept["name"]), (&json!("Hello\nthere"), &json!("Ada")));
    server.expect(1);
}

#[test]
fn a_multipart_form_is_stored_and_one_with_a_file_comes_back() {
    let server = TestServer::with(&small_site(), &[HTML_POSTS]);
    let part = |name: &str, value: &str| {
        format!("--x.y\r\nContent-Disposition: form-data; name={name}\r\n\r\n{value}\r\n")
    };
    let fields = [
        part("\"name\"", "Ada"),
        part("\"email\"", "ada@example.com"),
        part("\"message\"", "Hello\r\nthere"),
    ];
    let body = |more: &str| [&fields.concat(), more, "--x.y--\r\n"].concat();
    let multipart = ("Content-Type", "multipart/form-data; boundary=\"x.y\"");
    let path = "/api/contact?page=/contact/";
    let no_file = part("\"cv\"; filename=\"\"", "");
    assert_eq!(post(&server, path, &[multipart, BROWSER, SAME], &body(&no_file)).status, 303);
    // A script with a `FormData` object.
    let answer = post(&server, path, &[multipart, SAME], &body(""));
    assert_eq!((answer.status, answer.text()), (200, "{\"ok\":true}"));
    let file = part("\"cv\"; filename=\"cv.pdf\"", "%PDF");
    let answer = post(&server, path, &[multipart, BROWSER, SAME], &body(&file));
    assert_page(&answer, 400, "Your message was not accepted: A file cannot be sent with this form.");
    assert!(answer.text().contains("value=\"Ada\"") && answer.text().contains("\nHello\nthere</textarea>"));
    // From another site.
    assert_eq!(post(&server, path, &[multipart], &body("")).status, 400);
    let kept = server.inbox().swap_remove(0);
    assert_eq!((&kept["message"], &kept["name"]), (&json!("Hello\nthere"), &json!("Ada")));
    server.expect(1);
}

#[test]
fn the_source_of_a_lead_comes_from_the_body_the_address_and_the_referer() {
    let server = TestServer::with(&small_site(), &[HTML_POSTS, ORIGINS]);
    let own = format!("http://{}", server.address);
    let referer = format!("{own}/contact/?utm_campaign=spring%20sale&x=1&ref=%1b");
    let error_page = format!("{own}/api/contact?page=/contact/");
    let lead = |path: &str, headers: &[(&str, &str)], body: &str| {
        let before = server.inbox().len();
        let answer = post(&server, path, headers, body);
        assert!(matches!(answer.status, 200 | 303), "{answer:?}");
        let inbox = server.inbox();
        assert_eq!(inbox.len(), before + 1, "{inbox:?}");
        inbox[0]["lead"].clone()
    };
    let form = |n: u8| format!("{FIELDS}&name={n}");
    let json = |n: u8, lead: &serde_json::Value| {
        let mut body = json!({ "name": n.to_string(), "email": "ada@example.com", "message": "Hello" });
        for (name, value) in lead.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body.to_string()
    };
    // Without JavaScript, from the form's address and the page that sent it.
    let html = [FORM, BROWSER, SAME, ("Referer", &*referer)];
    assert_eq!(
        lead("/api/contact?page=/%C3%BCber/", &html, &form(1)),
        json!({ "page": "/über/", "utm_campaign": "spring sale" })
    );
    assert_eq!(
        lead("/api/contact", &html, &form(2)),
        json!({ "page": "/contact/", "utm_campaign": "spring sale" })
    );
    assert_eq!(
        lead("/api/contact", &[FORM, BROWSER, SAME, ("Referer", &*error_page)], &form(3)),
        json!(null)
    );
    // With JavaScript. The host of this site is no referrer, and a page of another site is not believed.
    let sent = json!({ "desk_page": "/de/?x", "desk_referrer": "Search.Example.com", "desk_ref": "letter" });
    assert_eq!(
        lead("/api/contact", &[JSON], &json(4, &sent)),
        json!({ "page": "/de/", "referrer": "search.example.com", "ref": "letter" })
    );
    let sent =
        json!({ "desk_page": "https://other.example/", "desk_referrer": "Example.com", "desk_utm_id": "1" });
    assert_eq!(lead("/api/contact", &[JSON], &json(5, &sent)), json!(null));
    // A page of a permitted origin has that origin.
    let sent = json!({ "desk_page": "/shop/" });
    assert_eq!(
        lead("/api/contact", &[JSON, ("Origin", "https://a.example")], &json(6, &sent)),
        json!({ "page": "https://a.example/shop/" })
    );
    server.expect(6);
}

#[test]
fn no_source_of_a_lead_is_stored_if_it_is_switched_off() {
    let server = TestServer::with(&small_site(), &[("FRONTDESK_FORMS__LEAD_SOURCE", "false")]);
    let own = format!("http://{}/contact/?ref=letter", server.address);
    let body = json!({ "email": "ada@example.com", "desk_page": "/", "desk_ref": "letter" }).to_string();
    assert_eq!(post(&server, "/api/waitlist", &[JSON, ("Referer", &own)], &body).status, 200);
    assert_eq!(server.inbox().swap_remove(0).get("lead"), None);
    server.expect(1);
}

#[test]
fn an_invalid_html_form_comes_back_with_its_text_and_errors() {
    let server = TestServer::with(&small_site(), &[HTML_POSTS]);
    let body = "name=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E&email=nobody&message=%0D%0A%3C/textarea%3E%00";
    let answer = post(&server, "/api/contact?page=/contact/", &[FORM, BROWSER, SAME], body);
    let links = "Not sent. Please correct: <a href=\"#form-contact-email\">E-mail</a>, <a href=\"#form-contact-message\">Message</a>.";
    assert_page(&answer, 400, links);
    let html = answer.text();
    assert!(html.contains("value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\""), "{html}");
    assert!(html.contains(">\n\n&lt;/textarea&gt;\0</textarea>"), "{html}");
    assert!(html.contains("aria-describedby=\"form-contact-email-error form-contact-email-hint\" aria-invalid=\"true\" value=\"nobody\""), "{html}");
    assert!(html.contains("id=\"form-contact-email-error\">Please enter an e-mail address"), "{html}");
    assert!(html.contains("id=\"form-contact-name-error\" hidden></p>"), "{html}");
    assert_eq!(html.matches("aria-invalid").count(), 2);
    assert!(!html.contains("<script>alert"));
    // Without a form in the body, all fields are empty.
    let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], "");
    assert_page(&answer, 400, "Not sent. Please correct: <a href=\"#form-contact-name\">Name</a>, ");
    let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], "name=Andr%E9&email=a@b&message=x");
    assert_page(
        &answer,
        400,
        "Your message was not accepted: The text of a field is neither UTF-8 nor in the encoding that the form names. Please check the text below",
    );
    assert!(answer.text().contains("value=\"André\""), "{}", answer.text());
    let latin = ("Content-Type", "application/x-www-form-urlencoded; charset=iso-8859-1");
    let body = "name=Andr%E9&email=ada@example.com&message=caf%E9";
    assert_eq!(post(&server, "/api/contact", &[latin, BROWSER, SAME], body).status, 303);
    assert_eq!(server.inbox().swap_remove(0)["name"], "André");
    server.expect(1);
}

#[test]
fn an_html_form_from_another_site_is_refused_with_a_page() {
    let server = TestServer::with(&small_site(), &[HTML_POSTS]);
    for headers in [
        &[FORM, BROWSER][..],
        &[FORM, BROWSER, ("Origin", "https://evil.example")],
        &[FORM, BROWSER, ("Origin", "null")],
        &[FORM, BROWSER, ("Referer", "https://evil.example/contact/")],
        &[FORM, BROWSER, ("Sec-Fetch-Site", "cross-site")],
        &[FORM, BROWSER, ("Sec-Fetch-Site", "same-site")],
        &[FORM, BROWSER, ("Sec-Fetch-Site", "none")],
        &[FORM, BROWSER, ("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")],
    ] {
        let answer = post(&server, "/api/contact", headers, FIELDS);
        assert_page(&answer, 403, "Not sent: your browser did not say that the form came from this site.");
        assert!(!answer.text().contains("value=\"Ada\""), "another site must not fill in the form");
    }
    let answer = post(&server, "/api/contact", &[FORM], FIELDS);
    assert_eq!((answer.status, answer.header("content-type")), (403, Some("application/json")));
    server.expect(0);
}

#[test]
fn other_errors_of_html_forms_are_pages_and_those_of_json_are_json() {
    let limits = [HTML_POSTS, ("FRONTDESK_LIMITS__ENABLED", "true"), ("FRONTDESK_LIMITS__PER_MINUTE", "4")];
    let server = TestServer::with(&small_site(), &limits);
    let path = "/api/contact?page=/contact/";
    assert_page(&server.request("GET", path, &[BROWSER], b""), 405, "Nothing has been sent yet.");
    assert_eq!(server.request("GET", path, &[BROWSER], b"").header("allow"), Some("POST"));
    let json = server.request("GET", path, &[], b"");
    assert_eq!((json.status, json.header("content-type")), (405, Some("application/json")));
    let long = format!("{FIELDS}{}", "x".repeat(64 * 1024));
    assert_page(&post(&server, path, &[FORM, BROWSER, SAME], &long), 413, "Not sent: the text is too long.");
    let plain = ("Content-Type", "text/plain");
    assert_page(
        &post(&server, path, &[plain, BROWSER, SAME], "name=Ada"),
        400,
        "Your message was not accepted: The page sent the form in a format that is not accepted.",
    );
    let compressed = post(&server, path, &[JSON, ("Content-Encoding", "gzip")], "\u{1f}");
    assert!(compressed.status == 400 && compressed.text().contains("`gzip`"), "{compressed:?}");
    // JSON stays JSON, even for a client that prefers HTML.
    let answer = post(&server, path, &[JSON, BROWSER, SAME], "{}");
    assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/json")));
    let limited = post(&server, path, &[FORM, BROWSER, SAME], FIELDS);
    assert_page(&limited, 429, "There were too many requests from your network.");
    assert!(limited.header("retry-after").is_some() && limited.text().contains("value=\"Ada\""));
    let limited = post(&server, path, &[FORM, BROWSER], FIELDS);
    assert!(limited.status == 429 && !limited.text().contains("value=\"Ada\""), "{limited:?}");
    server.expect(0);
}

#[test]
fn a_form_that_cannot_be_stored_comes_back_with_its_text() {
    let server = TestServer::with(&small_site(), &[HTML_POSTS]);
    let inbox = server.data_dir().join("inbox.sqlite");
    let lock = rusqlite::Connection::open(inbox).expect("it opens");
    lock.execute_batch("BEGIN EXCLUSIVE").expect("it locks");
    let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], FIELDS);
    assert_page(&answer, 500, "Your message was not received because of an error on our server.");
    assert!(answer.header("x-request-id").is_some());
    assert!(answer.text().contains("value=\"Ada\"") && answer.text().contains("\nHello\nthere</textarea>"));
    lock.execute_batch("ROLLBACK").expect("it unlocks");
    server.expect_anything();
}

#[test]
fn without_the_key_nothing_changes() {
    let server = TestServer::start();
    let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], FIELDS);
    assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/json")));
    assert_eq!(answer.header("vary"), None);
    let preflight = [("Origin", "https://a.example"), ("Access-Control-Request-Method", "POST")];
    let answer = server.request("OPTIONS", "/api/contact", &preflight, b"");
    assert_eq!((answer.status, answer.header("allow"), answer.header("vary")), (405, Some("POST"), None));
    assert!(CORS.iter().all(|name| answer.header(name).is_none()), "{answer:?}");
    let page = server.get("/contact/", &[BROWSER]).text().to_owned();
    assert!(page.contains("action=\"/api/contact\" method=\"post\" novalidate hidden"), "{page}");
    assert_eq!(server.get("/thanks/", &[]).status, 404);
    assert_eq!(server.get("/_frontdesk/style.css", &[]).status, 404);
    server.expect(0);
}

#[test]
fn a_permitted_origin_gets_a_preflight_and_readable_responses() {
    let server = TestServer::with(&small_site(), &[ORIGINS]);
    let wanted = ("Access-Control-Request-Method", "POST");
    for (path, origin) in [("/api/contact", "https://a.example"), ("/api/waitlist", "http://localhost:4321")]
    {
        let answer = server.request("OPTIONS", path, &[("Origin", origin), wanted], b"");
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        let found = CORS.map(|name| answer.header(name));
        assert_eq!(
            found,
            [Some(origin), Some("POST"), Some("content-type, idempotency-key"), Some("7200"), None]
        );
        let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
        assert_eq!(answer.header("vary"), Some(vary));
    }
    let exposed = Some("Retry-After, RateLimit, RateLimit-Policy, X-Request-Id");
    let cross = [JSON, ("Origin", "https://a.example"), ("Sec-Fetch-Site", "cross-site")];
    let valid = json!({ "name": "Ada", "email": "ada@example.com", "message": "Hello" }).to_string();
    for (body, status) in [(&*valid, 200), ("{}", 400), (&"x".repeat(70_000), 413)] {
        let answer = post(&server, "/api/contact", &cross, body);
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://a.example"));
        assert_eq!(
            (answer.header("access-control-expose-headers"), answer.header("vary")),
            (exposed, Some("Origin"))
        );
    }
    assert_eq!(
        server.request("GET", "/api/contact", &cross[1..], b"").header("access-control-allow-origin"),
        Some("https://a.example")
    );
    server.expect(1);
}

#[test]
fn other_origins_and_other_paths_get_no_cors_headers() {
    let server = TestServer::with(&small_site(), &[ORIGINS]);
    let wanted = ("Access-Control-Request-Method", "POST");
    for origin in
        ["https://b.example", "https://a.example:8443", "http://a.example", "https://a.example.evil", "null"]
    {
        let answer = server.request("OPTIONS", "/api/contact", &[("Origin", origin), wanted], b"");
        assert_eq!((answer.status, answer.header("vary")), (405, Some("Origin")), "{origin}");
        assert!(CORS.iter().all(|name| answer.header(name).is_none()), "{answer:?}");
        let answer = post(&server, "/api/contact", &[JSON, ("Origin", origin)], "{}");
        assert_eq!((answer.status, answer.header("vary")), (400, Some("Origin")), "{origin}");
        assert!(CORS.iter().all(|name| answer.header(name).is_none()), "{answer:?}");
    }
    assert_eq!(
        server.post("/api/contact", &json!({})).header("vary"),
        Some("Origin"),
        "without an origin, too"
    );
    for path in ["/", "/api/other", "/openapi.json"] {
        for method in ["GET", "OPTIONS"] {
            let answer = server.request(method, path, &[("Origin", "https://a.example"), wanted], b"");
            assert!(CORS.iter().all(|name| answer.header(name).is_none()), "{method} {path}: {answer:?}");
            assert!(!answer.header("vary").unwrap_or_default().contains("Origin"), "{method} {path}");
        }
    }
}

#[test]
fn a_permitted_origin_is_not_foreign_to_screening() {
    let server = TestServer::with(&small_site(), &[ORIGINS]);
    for (origin, message) in [("https://a.example", "permitted"), ("https://b.example", "foreign")] {
        let body = json!({ "name": "Ada", "email": "ada@example.com", "message": message }).to_string();
        let headers = [JSON, ("Origin", origin), ("Sec-Fetch-Site", "cross-site")];
        assert_eq!(post(&server, "/api/contact", &headers, &body).status, 200);
    }
    let by = |message: &str| {
        let found = server.inbox().into_iter().find(|one| one["message"] == message);
        found.expect("it is in the inbox").to_string()
    };
    assert!(by("foreign").contains("origin"), "{}", by("foreign"));
    assert!(!by("permitted").contains("origin"), "{}", by("permitted"));
    server.expect(2);
}

#[test]
fn an_html_form_of_a_permitted_origin_leads_to_this_site_only() {
    let server = TestServer::with(&small_site(), &[HTML_POSTS, ORIGINS]);
    let cross = [FORM, BROWSER, ("Origin", "https://a.example"), ("Sec-Fetch-Site", "cross-site")];
    for query in ["", "?page=https://a.example/thanks/", "?page=//a.example/", "?next=//a.example/"] {
        let answer = post(&server, &format!("/api/contact{query}"), &cross, FIELDS);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/thanks/")), "{query}");
    }
    server.expect(1);
}

#[test]
fn the_output_of_a_site_generator_gets_plain_pages() {
    let build = tempfile::tempdir().expect("a folder");
    let page =
        "<!doctype html><html lang=en><title>Built</title><main><h1>Built</h1><p>Some text.</p></main>";
    std::fs::write(build.path().join("index.html"), page).expect("it can be written");
    let server = TestServer::with(build.path(), &[HTML_POSTS]);
    let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], "name=Ada&email=nobody");
    assert_page(&answer, 400, "Not sent. Please correct: <a href=\"#form-contact-email\">E-mail</a>, ");
    assert!(answer.text().contains("value=\"nobody\"") && !answer.text().contains("mailto:"));
    assert_eq!(server.get("/_frontdesk/style.css", &[]).status, 200);
    let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], FIELDS);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/thanks/")));
    assert!(server.get("/thanks/", &[BROWSER]).text().contains("<h1>Thank you</h1>"));
    server.expect(1);
}

#[test]
fn the_operators_thank_you_page_wins_and_an_old_theme_still_works() {
    let site = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = site.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be created");
        std::fs::write(path, text).expect("it can be written");
    };
    write(
        "frontdesk.toml",
        "[operator]\nname = \"A\"\nemail = \"a@example.com\"\n[forms]\nhtml_posts = true\n",
    );
    write("pages/index.md", "---\ntitle: Home\n---\n");
    write("pages/contact.md", "---\ntitle: Contact\nform: contact\n---\n");
    for (name, text) in [
        ("static/thanks/index.html", "<title>Ours</title>"),
        ("pages/thanks.md", "---\ntitle: Ours\n---\n"),
        ("pages/other.md", "---\ntitle: Ours\naliases: [/thanks/]\n---\n"),
    ] {
        write(name, text);
        let server = TestServer::with(site.path(), &[]);
        let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], FIELDS);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/thanks/")));
        let thanks = server.get("/thanks/", &[BROWSER]);
        assert!(thanks.text().contains("Ours") || thanks.header("location") == Some("/other/"), "{thanks:?}");
        server.expect(1);
        drop(server);
        std::fs::remove_file(site.path().join(name)).expect("it can be removed");
    }
    // The form of an older theme has no place for errors, so a plain page shows them.
    write("theme/partials/form-contact.html", "<form action=\"/api/contact\" method=\"post\"></form>");
    let check = crate::support::frontdesk().arg("check").arg(site.path()).output().expect("it runs");
    let told = String::from_utf8_lossy(&check.stdout) + String::from_utf8_lossy(&check.stderr);
    assert!(told.contains("`contact` does not show errors to visitors without JavaScript"), "{told}");
    let server = TestServer::with(site.path(), &[]);
    let answer = post(&server, "/api/contact", &[FORM, BROWSER, SAME], "name=Ada&email=nobody");
    assert_page(&answer, 400, "Not sent. Please correct: <a href=\"#form-contact-email\">E-mail</a>, ");
    server.expect(0);
}
