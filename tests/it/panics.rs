//! A panic costs only the item that caused it: injected at each place that works on content, stored rows,
//! requests or replies, at the start, at a reload and at run time.

use std::path::{Path, PathBuf};

use frontdesk_inbox::submission::delivery::{Delivery, DeliveryState};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::channel_site::{ChannelSite, maildir, until, write_site};
use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::panics::PanicPoints;
use crate::support::port::Port;
use crate::support::prebuilt::write_build;
use crate::support::{TestServer, frontdesk, small_site};

/// The number of panics in a part, from `/metrics`.
fn panics_in(server: &TestServer, part: &str) -> u64 {
    let answer = server.ops("/metrics");
    let start = format!("frontdesk_panics_total{{part=\"{part}\"}} ");
    let line = answer.text().lines().find_map(|line| line.strip_prefix(&start));
    line.and_then(|count| count.parse().ok()).expect("the metric is there")
}

fn wait_for_panic(server: &TestServer, part: &str) {
    until(|| (panics_in(server, part) > 0).then_some(())).expect("it panics");
}

fn write(file: &Path, text: impl AsRef<[u8]>) {
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be created");
    std::fs::write(file, text).expect("it can be written");
}

fn page(title: &str, body: &str) -> String {
    format!("---\ntitle: {title}\ndescription: A page about {title} for a test of panics.\n---\n\n{body}\n")
}

fn jpeg(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let pixels = vec![128; usize::from(width) * usize::from(height)];
    let encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
    encoder.encode(&pixels, width, height, jpeg_encoder::ColorType::Luma).expect("it can be encoded");
    bytes
}

/// The starter site with one page for each place where content is processed.
fn content_site(folder: &Path) -> PathBuf {
    let site = write_site(folder, "");
    for (name, body) in [
        ("plain", "Nothing special."),
        ("front", "The front matter panics."),
        ("body", "A *body* with <b>a tag</b>."),
        ("code", "```rust\nfn highlighted() {}\n```"),
        ("formula", "The formula $x^2$."),
        ("theme", "The template panics."),
        ("image", "![A picture](/assets/picture.jpg)"),
    ] {
        write(&site.join(format!("pages/{name}.md")), page(name, body));
    }
    write(&site.join("assets/picture.jpg"), jpeg(1800, 40));
    write(&site.join("assets/brand.woff2"), "not a font, but its parser panics first");
    let file = site.join("frontdesk.toml");
    let text = std::fs::read_to_string(&file).expect("it is there");
    write(&file, text.replace("[brand]\n", "[brand]\nfont = \"brand.woff2\"\n"));
    site
}

const CONTENT_POINTS: [&str; 8] = [
    "front-matter front.md",
    "page body.md",
    "highlight highlighted",
    "formula x^2",
    "template theme.md",
    "image picture.jpg",
    "variant",
    "font",
];

/// Checks that each item is degraded on its own, and that everything else is served.
fn assert_degraded(server: &TestServer) {
    let html = |path: &str| server.get(path, &[]);
    assert_eq!(html("/front/").status, 404);
    assert!(html("/plain/").text().contains("<p>Nothing special.</p>"));
    let body = html("/body/");
    assert!(body.text().contains("<pre>A *body* with &lt;b&gt;a tag&lt;/b&gt;."), "{}", body.text());
    assert!(server.get("/body.md", &[]).text().contains("A *body* with <b>a tag</b>."));
    assert!(html("/code/").text().contains(">fn highlighted"), "{}", html("/code/").text());
    assert!(html("/formula/").text().contains("<code>x^2</code>"));
    let theme = html("/theme/");
    assert!(theme.text().contains("<h1>theme</h1>\n<p>The template panics.</p>"), "{}", theme.text());
    assert!(server.get("/theme.md", &[]).text().contains("The template panics."));
    let image = html("/image/");
    assert!(image.text().contains("alt=\"A picture\"") && !image.text().contains("width=\"1800\""));
    assert_eq!(html("/assets/picture.jpg").status, 200);
    assert!(!html("/").text().contains("brand."), "the font is not used");
    assert!(server.get("/llms.txt", &[]).text().contains("/plain.md"));
    assert_eq!(server.ops("/livez").status, 200);
}

/// Checks that nothing is degraded.
fn assert_whole(server: &TestServer) {
    assert_eq!(server.get("/front/", &[]).status, 200);
    assert!(server.get("/body/", &[]).text().contains("<em>body</em>"));
    assert!(server.get("/code/", &[]).text().contains("c-keyword"));
    assert!(server.get("/formula/", &[]).text().contains("<math"));
    assert!(server.get("/theme/", &[]).text().contains("<header"));
    assert!(server.get("/image/", &[]).text().contains("width=\"1800\""));
}

#[test]
fn content_that_panics_at_the_start_costs_only_that_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = content_site(folder.path());
    let points = PanicPoints::new(&CONTENT_POINTS);
    let server = TestServer::with(&site, &[points.variable()]);
    assert_degraded(&server);
    let panics = panics_in(&server, "content");
    assert!(panics >= 7, "{panics}: {}", server.log());

    let output = frontdesk().arg("check").arg(&site).envs([points.variable()]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    for (file, consequence) in [
        ("pages/front.md", "the page is left out"),
        ("pages/body.md", "the page shows its source"),
        ("pages/code.md", "the code block is not highlighted"),
        ("pages/formula.md", "the formula cannot be shown"),
        ("pages/theme.md", "the page is shown without the theme"),
        ("assets/picture.jpg", "pages do not state the size of the image"),
        ("assets/brand.woff2", "pages are shown in the system's font"),
    ] {
        let line = said.lines().find(|line| line.contains(file) && line.contains(consequence));
        assert!(line.is_some(), "{file}: {said}");
        let names_cause =
            file.contains("formula") || line.is_some_and(|line| line.contains("a defect in frontdesk"));
        assert!(names_cause, "{line:?}");
    }
}

#[test]
fn content_that_panics_at_a_reload_costs_only_that_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = content_site(folder.path());
    // A valid font is not at hand, so the site begins without one.
    let file = site.join("frontdesk.toml");
    let with_font = std::fs::read_to_string(&file).expect("it is there");
    let without_font = with_font.replace("font = \"brand.woff2\"", "# font");
    write(&file, &without_font);
    let points = PanicPoints::new(&[]);
    let server = TestServer::with(&site, &[points.variable()]);
    assert_whole(&server);

    let touch = |note: &str| {
        for file in std::fs::read_dir(site.join("pages")).expect("a folder").flatten() {
            let text = std::fs::read_to_string(file.path()).expect("it is there");
            // A block that has not changed would not be highlighted again.
            write(&file.path(), format!("{}\n{note}\n", text.replace("highlighted", "highlighted_again")));
        }
    };
    touch("Changed once.");
    write(&site.join("assets/picture.jpg"), jpeg(1800, 41));
    write(&file, &with_font);
    points.set(&CONTENT_POINTS);
    server.signal(Signal::HUP);
    until(|| server.get("/plain/", &[]).text().contains("Changed once.").then_some(())).expect("a reload");
    assert_degraded(&server);

    touch("Changed twice.");
    write(&file, &without_font);
    write(&site.join("assets/picture.jpg"), jpeg(1800, 42));
    points.set(&[]);
    server.signal(Signal::HUP);
    until(|| server.get("/plain/", &[]).text().contains("Changed twice.").then_some(())).expect("a reload");
    assert_whole(&server);
}

#[test]
fn a_panic_of_the_whole_load_fails_the_reload_or_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = content_site(folder.path());
    let file = site.join("frontdesk.toml");
    let text = std::fs::read_to_string(&file).expect("it is there");
    write(&file, text.replace("font = \"brand.woff2\"", "# font"));
    let points = PanicPoints::new(&[]);
    let mut server = TestServer::with(&site, &[points.variable()]);
    points.set(&["site"]);
    write(&site.join("pages/plain.md"), page("plain", "Changed."));
    server.signal(Signal::HUP);
    until(|| server.log().contains("still serving the previous site").then_some(()))
        .expect("the reload fails");
    server.assert_logged("a defect in frontdesk");
    assert!(server.get("/plain/", &[]).text().contains("Nothing special."));
    points.set(&[]);
    server.signal(Signal::HUP);
    until(|| server.get("/plain/", &[]).text().contains("Changed.").then_some(())).expect("a reload");

    points.set(&["site"]);
    assert_eq!(server.terminate().0, Some(0));
    let said = server.try_restart(&[]).expect_err("it does not start").join("\n");
    for part in ["the site's files", "a defect in frontdesk", "the site cannot be"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(server.has_ended());
    points.set(&[]);
    server.restart();
    assert_whole(&server);
}

#[test]
fn a_template_that_overflows_the_stack_or_never_ends_fails_the_reload() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = write_site(folder.path(), "");
    let server = TestServer::with(&site, &[]);
    let template = site.join("theme/page.html");
    let templates = [
        ("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", "signal 6 ended it"),
        ("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}", "fuel"),
    ];
    for ((text, why), failures) in templates.into_iter().zip(1..) {
        write(&template, text);
        server.signal(Signal::HUP);
        let failed = || server.log().matches("still serving the previous site").count() == failures;
        until(|| failed().then_some(())).expect("the reload fails");
        server.assert_logged(why);
        assert_eq!(server.get("/contact/", &[]).status, 200);
    }
    std::fs::remove_file(&template).expect("it is there");
    write(&site.join("pages/plain.md"), page("plain", "New."));
    server.signal(Signal::HUP);
    until(|| server.get("/plain/", &[]).text().contains("New.").then_some(())).expect("a reload");
}

#[test]
fn a_page_or_a_rule_of_a_build_that_panics_costs_only_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("build");
    write_build(&build, &"What we make. ".repeat(20));
    let points = PanicPoints::new(&["build-page about", "rules _redirects"]);
    let server = TestServer::with(&build, &[points.variable()]);
    let is_degraded = || {
        let markdown = server.get("/about.md", &[]);
        markdown.text().contains("This page is available as HTML: <http")
            && server.get("/about/", &[]).text().contains("What we make.")
    };
    assert!(is_degraded(), "{}", server.get("/about.md", &[]).text());
    assert!(server.get("/contact.md", &[]).text().contains("Write to us."));
    assert_eq!(server.get("/moved", &[]).status, 404);
    assert!(panics_in(&server, "content") >= 2);

    points.set(&["rules _redirects"]);
    write_build(&build, &"What we make now. ".repeat(20));
    server.signal(Signal::HUP);
    until(|| server.get("/about.md", &[]).text().contains("What we make now.").then_some(()))
        .expect("a reload");
    points.set(&["build-page about", "rules _redirects"]);
    write_build(&build, &"What we make. ".repeat(20));
    server.signal(Signal::HUP);
    until(|| is_degraded().then_some(())).expect("a reload");
}

#[test]
fn an_image_that_cannot_be_scaled_is_served_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = write_site(folder.path(), "");
    write(&site.join("assets/picture.jpg"), jpeg(1800, 40));
    write(&site.join("pages/image.md"), page("image", "![A picture](/assets/picture.jpg)"));
    let points = PanicPoints::new(&["variant"]);
    let server = TestServer::with(&site, &[points.variable()]);
    until(|| server.log().contains("cannot scale assets/picture.jpg").then_some(())).expect("it panics");
    let html = server.get("/image/", &[]);
    let (_, rest) = html.text().split_once("srcset=\"").expect("variants");
    let variant = rest.split(' ').next().expect("an address");
    assert_eq!(server.get(variant, &[]).status, 200);
    assert_eq!(server.ops("/livez").status, 200);
}

/// A site with a Maildir that is in the server's folder.
fn site_with_maildir(points: &PanicPoints) -> (ChannelSite, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let site = ChannelSite::open(&maildir("box", &folder.path().join("box")), &[points.variable()]);
    (site, folder)
}

fn status_of(server: &TestServer, message: &str) -> Option<String> {
    let inbox = server.inbox();
    let found =
        inbox.iter().find(|submission| submission["message"].as_str().is_some_and(|it| it.contains(message)));
    found.and_then(|submission| submission["status"].as_str()).map(str::to_owned)
}

/// A submission whose processing panics at `point` is set aside, at run time and after a restart, and later
/// ones are delivered. A retry without the panic delivers it.
fn assert_set_aside(point: &str) {
    let points = PanicPoints::new(&[point]);
    let (mut site, _folder) = site_with_maildir(&points);
    assert_eq!(site.post(1).status, 200);
    until(|| (status_of(&site.server, "(1)")? == "parked").then_some(())).expect("it is set aside");
    site.server.assert_logged("a defect in frontdesk");
    let id = site.id(1).to_string();
    assert!(site.inbox(&["show", &id]).contains("a defect in frontdesk"), "{}", site.inbox(&["show", &id]));
    points.set(&[]);
    let other = site.submit(2);
    site.wait_for(other, "box", |delivery| delivery.state == DeliveryState::Delivered);
    assert!(panics_in(&site.server, "submission") > 0);

    // The row must not stop the next start either.
    points.set(&[point]);
    assert_eq!(site.post(3).status, 200);
    site.server.kill();
    site.server.restart();
    until(|| (status_of(&site.server, "(3)")? == "parked").then_some(())).expect("it is set aside");
    points.set(&[]);
    site.inbox(&["retry", &id]);
    site.wait_for(site.id(1), "box", |delivery| delivery.state == DeliveryState::Delivered);
    site.assert_discreet();
}

#[test]
fn a_submission_whose_screening_panics_is_set_aside() {
    assert_set_aside("screening");
}

#[test]
fn a_row_whose_processing_panics_is_set_aside() {
    assert_set_aside("row");
}

#[test]
fn a_submission_whose_opinion_panics_is_delivered_without_one() {
    let points = PanicPoints::new(&["opinion"]);
    let (folder, peer) = (tempfile::tempdir().expect("a folder"), HttpPeer::start([Reply::Silence]));
    let (url, channel) = (peer.url(""), maildir("box", &folder.path().join("box")));
    let site = ChannelSite::open(&channel, &[points.variable(), ("FRONTDESK_SCREENING__RSPAMD_URL", &url)]);
    let id = site.submit(1);
    wait_for_panic(&site.server, "submission");
    site.wait_for(id, "box", |delivery| delivery.state == DeliveryState::Delivered);
    assert!(peer.requests().is_empty());
    site.assert_discreet();
}

/// Whether an attempt has ended, and the next one is waiting.
fn has_failed(delivery: &Delivery) -> bool {
    delivery.state == DeliveryState::Waiting && !delivery.attempts.is_empty()
}

#[test]
fn a_delivery_that_panics_is_a_failed_attempt() {
    let points = PanicPoints::new(&["delivery box"]);
    let (mut site, _folder) = site_with_maildir(&points);
    let id = site.submit(1);
    site.wait_for(id, "box", has_failed);
    assert!(site.inbox(&["show", &id.to_string()]).contains("a defect in frontdesk"));
    assert!(panics_in(&site.server, "delivery") > 0);
    site.server.kill();
    site.server.restart();
    site.inbox(&["retry", &id.to_string()]);
    site.wait_for(id, "box", has_failed);
    points.set(&[]);
    site.inbox(&["retry", &id.to_string()]);
    site.wait_for(id, "box", |delivery| delivery.state == DeliveryState::Delivered);
    site.assert_discreet();
}

#[test]
fn maintenance_that_panics_stops_neither_deliveries_nor_its_other_tasks() {
    let points = PanicPoints::new(&["maintenance"]);
    let (site, _folder) = site_with_maildir(&points);
    wait_for_panic(&site.server, "maintenance");
    until(|| site.server.log().contains("\"task\":\"digest\"").then_some(())).expect("the last task begins");
    let id = site.submit(1);
    site.wait_for(id, "box", |delivery| delivery.state == DeliveryState::Delivered);
}

#[test]
fn a_request_that_panics_closes_its_connection() {
    let points = PanicPoints::new(&["request /no-such-page"]);
    let server = TestServer::with(&small_site(), &[points.variable()]);
    assert!(server.connect().request("POST", "/no-such-page", &[], b"").is_err());
    assert_eq!(server.get("/", &[]).status, 200);
    assert_eq!(server.get("/other", &[]).status, 404);
    assert!(panics_in(&server, "request") > 0);
}

#[test]
fn a_certificate_order_that_panics_is_tried_again() {
    let points = PanicPoints::new(&["acme"]);
    let tls = Port::reserve();
    let address = tls.address().to_string();
    let server = TestServer::with(
        &small_site(),
        &[
            points.variable(),
            ("FRONTDESK_TLS__LISTEN", &address),
            ("FRONTDESK_TLS__ACME_DOMAINS", "desk.example.com"),
            ("FRONTDESK_TLS__ACME_DIRECTORY", "https://127.0.0.1:9/directory"),
        ],
    );
    until(|| (panics_in(&server, "certificate") > 1).then_some(())).expect("it is tried again");
    server.assert_logged("certificate order failed; will retry");
    assert_eq!(server.get("/", &[]).status, 308, "it redirects to HTTPS");
}

#[test]
fn a_page_that_the_canary_cannot_judge_is_skipped() {
    let points = PanicPoints::new(&["canary-page /contact/"]);
    let server = TestServer::with(&small_site(), &[points.variable(), ("FRONTDESK_CANARY__EVERY", "10s")]);
    wait_for_panic(&server, "background");
    let status = || {
        let inbox = frontdesk_inbox::store::InboxReader::open(server.data_dir().join("inbox.sqlite")).ok()?;
        inbox.canary_status().ok().flatten()
    };
    let status = until(status).expect("the run ends");
    let steps = status.report["steps"].as_array().expect("steps");
    let outcome = |subject: &str| {
        let step = steps.iter().find(|step| step["subject"] == subject);
        step.unwrap_or_else(|| panic!("{subject}: {steps:#?}"))["outcome"].as_str().map(str::to_owned)
    };
    assert_eq!(outcome("/contact/ contact").as_deref(), Some("skipped"));
    assert_eq!(outcome("waitlist").as_deref(), Some("ok"));
    assert!(status.is_ok, "{status:#?}");
}

#[test]
fn a_panic_of_the_writer_ends_the_process_and_loses_nothing() {
    let points = PanicPoints::new(&[]);
    let mut server = TestServer::with(&small_site(), &[points.variable()]);
    let send = |server: &TestServer, email: &str| {
        let mut connection = server.connect();
        let body = json!({ "email": email }).to_string();
        connection.request("POST", "/api/waitlist", &[("Content-Type", "application/json")], body.as_bytes())
    };
    assert!(send(&server, "kept@example.com").is_ok_and(|answer| answer.status == 200));
    points.set(&["writer"]);
    assert!(send(&server, "lost@example.com").is_err(), "there is no answer");
    until(|| server.has_ended().then_some(())).expect("the process ends");
    server.kill();
    server.assert_logged("the process ends now and must be started again");
    points.set(&[]);
    server.restart();
    let inbox = server.inbox();
    let emails: Vec<&Value> = inbox.iter().map(|submission| &submission["email"]).collect();
    assert_eq!(emails, ["kept@example.com"]);
    server.expect(1);
}
