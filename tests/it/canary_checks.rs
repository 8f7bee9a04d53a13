//! The canary's checks beside the test submission: pages, certificates, disk and clock; and `doctor --watch`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use frontdesk_inbox::store::CanaryStatus;
use rustix::process::{Pid, Signal, kill_process};

use super::canary::faults::behind;
use super::canary::{CanarySite, EVERY, assert_failed, step};
use super::support::channel_site::{until, webhook};
use super::support::http_peer::{HttpPeer, Reply};
use super::support::port::Port;
use super::support::prebuilt::write_build;
use super::support::tls::Authority;
use super::support::{TestServer, frontdesk, store_of};

/// Replaces the body of a response whose body `changes`.
fn with_body(response: Vec<u8>, changes: impl Fn(&str) -> Option<String>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&response).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return response };
    let Some(body) = changes(body) else { return response };
    let lines = head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"));
    let head: Vec<&str> = lines.collect();
    format!("{}\r\ncontent-length: {}\r\n\r\n{body}", head.join("\r\n"), body.len()).into_bytes()
}

/// A site behind a proxy that replaces text in pages with the contact form.
fn behind_replacing(old: &'static str, new: &'static str) -> CanarySite {
    behind(move |response| {
        with_body(response, |body| {
            let is_page = body.contains("<form") && body.contains("\"contact\"");
            is_page.then(|| body.replace(old, new))
        })
    })
}

/// The steps of a kind.
fn steps(status: &CanaryStatus, kind: &str) -> Vec<(String, String, String)> {
    let all = status.report["steps"].as_array().expect("steps");
    let text = |step: &serde_json::Value, member: &str| step[member].as_str().expect("text").to_owned();
    let of_kind = all.iter().filter(|step| step["step"] == kind);
    of_kind.map(|step| (text(step, "subject"), text(step, "outcome"), text(step, "text"))).collect()
}

#[test]
fn pages_with_forms_are_fine_as_they_are() {
    let site = CanarySite::open("", &[]);
    let first = site.first();
    assert!(first.is_ok, "{first:#?}");
    let pages = steps(&first, "page");
    let subjects: Vec<&str> = pages.iter().map(|(subject, ..)| subject.as_str()).collect();
    assert!(
        subjects.contains(&"/contact/ contact") && subjects.contains(&"/waitlist/ waitlist"),
        "{pages:?}"
    );
    assert!(subjects.iter().any(|subject| subject.ends_with(".js")), "{pages:?}");
    assert!(pages.iter().all(|(_, outcome, _)| outcome == "ok"), "{pages:?}");
    let (outcome, text) = step(&first, "dns", "127.0.0.1");
    assert!(outcome == "ok" && text == "the name leads to this machine (127.0.0.1)", "{text}");
    let is_on_server = store_of(&site.server.data_dir()).is_some();
    assert_eq!(step(&first, "disk", "inbox").0, if is_on_server { "skipped" } else { "ok" });
    // The metrics follow the stored report a moment later.
    let has_step = |metrics: &String| metrics.contains("frontdesk_canary_step_ok{step=\"page\"} 1");
    let metrics = || site.server.ops("/metrics").text().to_owned();
    assert!(until(|| Some(metrics()).filter(has_step)).is_some(), "{}", metrics());
}

#[test]
fn a_page_that_visitors_get_without_the_form_is_named() {
    let site = behind(|response| {
        with_body(response, |body| {
            body.contains("data-frontdesk=\"contact\"").then(|| "<title>Sign in</title><p>x".to_owned())
        })
    });
    let first = site.first();
    assert_failed(&first, "page", "/contact/ contact", "visitors get a page (\"Sign in\") without the form");
    assert_eq!(step(&first, "form", "contact").0, "ok");
    assert_eq!(step(&first, "page", "/waitlist/ waitlist").0, "ok");
}

#[test]
fn a_changed_address_or_field_of_a_form_is_named() {
    for (old, new, expected) in [
        (
            "action=\"/api/contact",
            "action=\"https://old.example/send",
            "the form is sent to https://old.example/send",
        ),
        ("name=\"email\"", "name=\"mail\"", "it lacks `email`, which its definition requires"),
        ("data-frontdesk=\"contact\"", "data-frontdesk=\"contcat\"", "visitors get says \"contcat\""),
        ("method=\"post\"", "method=\"get\"", "the method GET"),
    ] {
        let first = behind_replacing(old, new).first();
        assert_failed(&first, "page", "/contact/ contact", expected);
    }
}

#[test]
fn a_script_that_does_not_arrive_is_named() {
    let is_script = |text: &str| text.contains("querySelector") && text.contains("data-frontdesk");
    let missing = behind(move |response| {
        if is_script(&String::from_utf8_lossy(&response)) {
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec()
        } else {
            response
        }
    });
    let first = missing.first();
    let script = steps(&first, "page")
        .into_iter()
        .find(|(subject, ..)| subject.ends_with(".js"))
        .expect("it is there");
    assert_failed(&first, "page", &script.0, "visitors get 404 Not Found instead");
    // Another version may work.
    let changed = behind(move |response| {
        with_body(response, |body| is_script(body).then(|| format!("{body}// a proxy was here\n")))
    });
    let first = changed.first();
    let (outcome, text) = step(&first, "page", &script.0);
    assert!(
        first.is_ok && outcome == "warning" && text.contains("another version than this server's"),
        "{text}"
    );
}

/// Writes a page of a build with a form that has these attributes.
fn write_form(build: &Path, attributes: &str) {
    let page = format!(
        "<!doctype html><html lang=en><head><title>Write | Acme</title></head><body><main><h1>Write to us</h1>\
         <form {attributes}><input name=name required><input name=email required>\
         <textarea name=message required></textarea><button>Send</button></form></main>\
         <script src=\"/_frontdesk/forms.js\" defer></script></body></html>"
    );
    std::fs::create_dir_all(build.join("write")).expect("it can be created");
    std::fs::write(build.join("write/index.html"), page).expect("it can be written");
}

#[test]
fn a_form_of_a_build_that_loses_its_attribute_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    write_build(&build, "The first state.");
    write_form(&build, "data-frontdesk=\"contact\"");
    let site = CanarySite::of(TestServer::with(&build, &[EVERY]));
    let first = site.first();
    assert!(first.is_ok, "{first:#?}");
    assert_eq!(step(&first, "page", "/write/ contact").0, "ok");
    write_form(&build, "class=\"contact\"");
    site.server.reload();
    let is_lost = |status: &CanaryStatus| !status.is_ok;
    let lost = until(|| site.reader().canary_status().ok().flatten().filter(is_lost)).expect("it is noticed");
    assert_failed(
        &lost,
        "page",
        "/write/ contact",
        "the form has lost its attribute `data-frontdesk=\"contact\"`",
    );
    // It is known until it is back.
    assert_failed(&site.next(Some(&lost)), "page", "/write/ contact", "the form has lost its attribute");
    let doctor = site.run(&["doctor"]);
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("fix   canary page /write/ contact: the form has lost its attribute"), "{text}");
    assert!(!doctor.status.success());
    write_form(&build, "data-frontdesk=\"contact\"");
    site.server.reload();
    let is_good = |status: &CanaryStatus| status.is_ok;
    let good = until(|| site.reader().canary_status().ok().flatten().filter(is_good)).expect("it recovers");
    assert_eq!(step(&good, "page", "/write/ contact").0, "ok");
}

#[test]
fn an_unmarked_form_of_a_build_is_only_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let build = folder.path().join("dist");
    write_build(&build, "The first state.");
    write_form(&build, "class=\"contact\"");
    let site = CanarySite::of(TestServer::with(&build, &[EVERY]));
    let first = site.first();
    let (outcome, text) = step(&first, "page", "/write/ contact");
    assert!(first.is_ok && outcome == "warning", "{first:#?}");
    assert!(text.contains("neither `data-frontdesk=\"contact\"` nor an address"), "{text}");
}

/// A server over TLS with a certificate, whose canary trusts the authority.
fn over_tls(authority: &Authority, certificate: (String, String)) -> (CanaryStatus, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let [pem, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&pem, certificate.0).expect("it can be written");
    std::fs::write(&key, certificate.1).expect("it can be written");
    let port = Port::reserve();
    let (listen, url) = (port.address().to_string(), format!("https://{}", port.address()));
    let root = authority.file().display().to_string();
    let environment = [
        ("FRONTDESK_TLS__LISTEN", &*listen),
        ("FRONTDESK_TLS__CERTIFICATE", &*pem),
        ("FRONTDESK_TLS__KEY", &*key),
        ("FRONTDESK_BASE_URL", &*url),
        ("FRONTDESK_CANARY__CA_FILE", &*root),
    ];
    let status = CanarySite::open("", &environment).first();
    (status, listen, pem)
}

#[test]
fn a_certificate_that_is_not_renewed_is_named_before_it_expires() {
    let authority = Authority::new();
    let (good, host, file) = over_tls(&authority, authority.issue_until(60));
    assert!(good.is_ok, "{good:#?}");
    for subject in [&host, &file] {
        assert_eq!(
            step(&good, "certificate", subject),
            ("ok".to_owned(), "the certificate is valid for 60 days".to_owned())
        );
    }
    let (warned, host, _) = over_tls(&authority, authority.issue_until(13));
    let (outcome, text) = step(&warned, "certificate", &host);
    assert!(
        warned.is_ok && outcome == "warning" && text.contains("expires in 13 days and was not renewed"),
        "{text}"
    );
    let (failed, host, file) = over_tls(&authority, authority.issue_until(2));
    for subject in [&host, &file] {
        assert_failed(&failed, "certificate", subject, "expires in 2 days and was not renewed");
    }
}

#[test]
fn an_expired_certificate_is_named_once_by_its_handshake() {
    let authority = Authority::new();
    let (expired, host, file) = over_tls(&authority, authority.issue_expired());
    assert_failed(&expired, "tls", &host, "the certificate has expired");
    assert_eq!(step(&expired, "certificate", &host).0, "skipped");
    assert_failed(&expired, "certificate", &file, "the certificate expired at 2020-01-01T00:00:00Z");
    assert_eq!(step(&expired, "page", "/contact/ contact").0, "skipped");
}

#[test]
fn the_certificate_of_the_inboxs_domain_is_checked_as_well() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().expect("a folder");
    let [pem, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
    let certificate = authority.issue_until(2);
    std::fs::write(&pem, certificate.0).expect("it can be written");
    std::fs::write(&key, certificate.1).expect("it can be written");
    let port = Port::reserve();
    let listen = port.address().to_string();
    let root = authority.file().display().to_string();
    let environment = [
        ("FRONTDESK_INBOX__DOMAIN", "localhost"),
        ("FRONTDESK_INBOX__LISTEN", &*listen),
        ("FRONTDESK_INBOX__CERTIFICATE", &*pem),
        ("FRONTDESK_INBOX__KEY", &*key),
        ("FRONTDESK_CANARY__CA_FILE", &*root),
    ];
    let first = CanarySite::open("", &environment).first();
    let subject = format!("localhost:{}", port.address().port());
    for subject in [&subject, &pem] {
        assert_failed(&first, "certificate", subject, "expires in 2 days and was not renewed");
    }
}

#[test]
fn a_full_disk_is_named() {
    let site = CanarySite::open("", &[("FRONTDESK_STORE__MIN_FREE", "900TiB")]);
    let first = site.first();
    if store_of(&site.server.data_dir()).is_some() {
        assert_eq!(step(&first, "disk", "inbox").0, "skipped");
        return;
    }
    assert_failed(&first, "disk", "inbox", "(store.min_free). Free some space.");
    assert_eq!(step(&first, "form", "contact").0, "ok");
}

#[test]
fn a_wrong_clock_is_named_and_no_success_is_reported() {
    let hook = HttpPeer::start([Reply::with(200, "Date", "Fri, 20 Nov 2020 12:00:00 GMT")]);
    let service = HttpPeer::start([Reply::status(200)]);
    let url = service.url("/");
    let site = CanarySite::open(&webhook("crm", &hook.url("/"), ""), &[("FRONTDESK_CANARY__PING_URL", &url)]);
    let first = site.first();
    let subject = "the receiver of channel crm";
    assert_failed(&first, "clock", subject, "days ahead of the clock of the receiver of channel crm");
    assert_eq!(step(&first, "channel", "crm").0, "ok");
    assert!(service.requests().is_empty());
    // The receiver's clock is right again, and agrees with this one.
    hook.follow([Reply::with(200, "Date", &http_date_now())]);
    let is_good = |status: &CanaryStatus| status.is_ok;
    let good = until(|| site.reader().canary_status().ok().flatten().filter(is_good)).expect("it recovers");
    assert_eq!(step(&good, "clock", subject).0, "ok");
    assert!(!service.requests().is_empty());
}

fn http_date_now() -> String {
    jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A running command. Dropping it kills the command.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_watch_appends_changes_until_it_is_interrupted() {
    let hook = HttpPeer::start([Reply::status(204)]);
    let site = CanarySite::open(&webhook("crm", &hook.url("/"), ""), &[]);
    assert!(site.first().is_ok);
    let before = hook.requests().len();
    let child = frontdesk()
        .args(["doctor", "--watch", "--site"])
        .arg(site.server.site())
        .arg("--data-dir")
        .arg(site.server.data_dir())
        .env(EVERY.0, EVERY.1)
        .envs(store_of(&site.server.data_dir()))
        .stdout(Stdio::piped())
        .spawn();
    let mut watch = Watch(child.expect("the command runs"));
    let (sender, lines) = std::sync::mpsc::channel();
    let out = BufReader::new(watch.0.stdout.take().expect("it is piped"));
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let wait_for = |expected: &str| {
        let found = until(|| lines.try_iter().find(|line| line.contains(expected)));
        found.unwrap_or_else(|| panic!("{expected} does not appear"))
    };
    wait_for("ok    channel crm: 0 delivered, 0 waiting, 0 parked");
    wait_for("ok    canary: the last run succeeded");
    wait_for("ok    canary page /contact/ contact: the form has its address, its fields and its script");
    // A fault appears without a new start of the command.
    hook.follow([Reply::status(500)]);
    let failed = wait_for("fix   canary channel crm: 500");
    assert!(failed.starts_with("20"), "{failed}");
    // It sends nothing: only the canary of the server does, every ten seconds.
    assert!(hook.requests().len() - before <= 8, "{}", hook.requests().len());
    let pid = Pid::from_raw(i32::try_from(watch.0.id()).expect("a process id")).expect("a process");
    kill_process(pid, Signal::INT).expect("it can be told");
    let status = until(|| watch.0.try_wait().expect("it can be asked")).expect("it ends");
    assert_eq!(status.code(), Some(1), "the last state is a problem");
}
