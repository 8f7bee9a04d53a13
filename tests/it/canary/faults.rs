//! Each fault between the visitor and the team is named.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use super::*;
use crate::support::port::Port;
use crate::support::smtp_peer::{At, Do};
use crate::support::tls::Authority;

#[test]
fn an_answer_of_a_proxy_is_named() {
    let login = Reply::Answer {
        status: 200,
        headers: vec![("Content-Type".to_owned(), "text/html".to_owned())],
        body: b"<html><title>Sign in</title>".to_vec(),
        delay: Duration::ZERO,
    };
    for (reply, expected) in [
        (login, "200 OK with an HTML page \"Sign in\""),
        (
            Reply::with(301, "Location", "https://www.example.com/"),
            "redirected to https://www.example.com/ (301",
        ),
        (Reply::status(429), "a proxy or firewall limits requests"),
        (Reply::CloseAfterRequest, "the connection ended without a response"),
        (
            Reply::saying(200, "{\"ok\": true}"),
            "another instance of frontdesk, or to one with another database",
        ),
    ] {
        let proxy = HttpPeer::start([reply]);
        let site = CanarySite::open("", &[("FRONTDESK_BASE_URL", &proxy.url(""))]);
        let first = site.first();
        assert_failed(&first, "form", "contact", expected);
        assert_eq!(step(&first, "connect", &proxy.address().to_string()).0, "ok");
    }
}

/// A site whose public address is a proxy in front of its server. `on_response` may change the bytes of a
/// response.
pub(crate) fn behind(on_response: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static) -> CanarySite {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (on_response, server) = (Arc::new(on_response), Arc::new(OnceLock::<SocketAddr>::new()));
    let to = server.clone();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let (on_response, to) = (on_response.clone(), to.clone());
            thread::spawn(move || {
                let mut server = TcpStream::connect(to.wait()).expect("the server listens");
                let mut request = client.try_clone().expect("a copy");
                let mut upstream = server.try_clone().expect("a copy");
                thread::spawn(move || std::io::copy(&mut request, &mut upstream));
                let mut response = Vec::new();
                let _ = server.read_to_end(&mut response);
                let _ = client.write_all(&on_response(response));
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    let site = CanarySite::open("", &[("FRONTDESK_BASE_URL", &url)]);
    server.set(site.server.address).expect("it is set once");
    site
}

#[test]
fn a_cached_answer_is_named() {
    // Like a CDN that caches POST: it passes each request on, but always answers with the first response.
    let cached: Mutex<Option<Vec<u8>>> = Mutex::default();
    let site = behind(move |response| cached.lock().expect("no panic").get_or_insert(response).clone());
    let first = site.first();
    assert_eq!(step(&first, "form", "waitlist").0, "ok");
    assert_failed(&first, "form", "contact", "a cache answered instead of this server");
}

#[test]
fn a_proxy_that_removes_the_header_of_responses_is_no_fault() {
    let site = behind(|response| {
        String::from_utf8(response).expect("it is text").replace("frontdesk-canary", "x-removed").into_bytes()
    });
    let first = site.first();
    assert!(first.is_ok, "{first:#?}");
}

#[test]
fn a_name_or_port_that_leads_nowhere_is_named() {
    let site = CanarySite::open("", &[("FRONTDESK_BASE_URL", "http://nowhere.invalid")]);
    let first = site.first();
    assert_failed(&first, "dns", "nowhere.invalid", "nowhere.invalid has no usable address");
    assert_eq!(step(&first, "form", "contact").0, "skipped");
    let port = Port::reserve();
    let site = CanarySite::open("", &[("FRONTDESK_BASE_URL", &format!("http://{}", port.address()))]);
    assert_failed(&site.first(), "connect", &port.address().to_string(), "no connection");
}

#[test]
fn a_bad_certificate_is_named() {
    let check =
        |certificate: (String, String), trusts: bool, authority: &Authority, expected: Option<&str>| {
            let folder = tempfile::tempdir().expect("a folder");
            let [pem, key] =
                ["cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
            std::fs::write(&pem, certificate.0).expect("it can be written");
            std::fs::write(&key, certificate.1).expect("it can be written");
            let port = Port::reserve();
            let (listen, url) = (port.address().to_string(), format!("https://{}", port.address()));
            let root = authority.file().display().to_string();
            let mut environment = vec![
                ("FRONTDESK_TLS__LISTEN", &*listen),
                ("FRONTDESK_TLS__CERTIFICATE", &*pem),
                ("FRONTDESK_TLS__KEY", &*key),
                ("FRONTDESK_BASE_URL", &*url),
            ];
            if trusts {
                environment.push(("FRONTDESK_CANARY__CA_FILE", &root));
            }
            let site = CanarySite::open("", &environment);
            let first = site.first();
            match expected {
                Some(expected) => assert_failed(&first, "tls", &listen, expected),
                None => assert!(first.is_ok, "{first:#?}"),
            }
        };
    let authority = Authority::new();
    check(authority.issue(), true, &authority, None);
    check(authority.issue(), false, &authority, Some("issuer is unknown"));
    let other = authority.issue_for(vec!["other.example.com".into()]);
    check(other, true, &authority, Some("the certificate is for another name than 127.0.0.1"));
    check(authority.issue_expired(), true, &authority, Some("the certificate has expired"));
}

#[test]
fn a_faulty_channel_is_named_and_reported_through_another_one_once() {
    let hook = HttpPeer::start([Reply::with(302, "Location", "https://login.example.com/")]);
    let folder = tempfile::tempdir().expect("a folder");
    let boxed = folder.path().join("box");
    let site = CanarySite::open(&(webhook("crm", &hook.url("/"), "") + &maildir("box", &boxed)), &[]);
    let first = site.first();
    assert_failed(
        &first,
        "channel",
        "crm",
        "302 Found: the redirect to https://login.example.com/ was not followed",
    );
    assert_eq!(step(&first, "channel", "box").0, "ok");
    // The canary's message and the notification of the outage.
    let notified = until(|| site.reader().canary_status().ok().flatten().filter(|status| status.is_notified));
    let notified = notified.expect("the team is notified");
    assert_messages(&boxed, "canary", 1);
    assert_messages(&boxed, "canary-fault", 1);
    let second = site.next(Some(&notified));
    assert!(second.is_notified && second.failing_since == first.failing_since, "{second:#?}");
    // One notification for each outage.
    assert_messages(&boxed, "canary-fault", 1);
    assert!(site.text(&["inbox", "digest"]).contains("The canary has been failing since"));
    let doctor = site.run(&["doctor", "--channel", "box"]);
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("fix   canary: the last run failed") && !doctor.status.success(), "{text}");
    assert!(text.contains("fix   canary channel crm: 302 Found"), "{text}");
    hook.follow([Reply::status(200)]);
    until(|| site.reader().canary_status().ok().flatten().filter(|status| status.is_ok))
        .expect("it recovers");
    site.server.assert_logged("the canary succeeds again");
    let log = site.server.log();
    assert_eq!(log.matches("\"the canary failed").count(), 1, "{log}");
    assert!(!log.contains("login.example.com"), "{log}");
}

#[test]
fn mail_that_is_accepted_and_lost_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let boxed = folder.path().join("box");
    for part in ["tmp", "new", "cur"] {
        std::fs::create_dir_all(boxed.join(part)).expect("it can be created");
    }
    let mail = SmtpPeer::start(vec![Script::usual()]);
    let path = boxed.display().to_string();
    let site =
        CanarySite::open(&smtp("mail", mail.address.port(), ""), &[("FRONTDESK_CANARY__MAILBOX", &path)]);
    let first = site.first();
    assert_eq!(step(&first, "channel", "mail").0, "ok");
    assert_failed(
        &first,
        "mailbox",
        &path,
        "accepted by the server (channel mail), but did not arrive within 5 s",
    );
    // Now the mail arrives: each accepted message is put into the mailbox.
    let arrives = |earlier: &CanaryStatus| {
        until(|| {
            for (number, received) in mail.record().received.iter().enumerate() {
                let file = boxed.join("new").join(number.to_string());
                if number > 0 && !file.exists() {
                    std::fs::write(file, received.message()).expect("it can be written");
                }
            }
            let status = site.reader().canary_status().ok().flatten();
            status.filter(|status| status.started_at > earlier.started_at && status.is_ok)
        })
    };
    let good = arrives(&first).expect("it recovers");
    assert_eq!(step(&good, "mailbox", &path), ("ok".to_owned(), "the mail arrived".to_owned()));
}

#[test]
fn mail_that_is_refused_is_another_fault() {
    let mail = SmtpPeer::start(vec![Script::with(At::Rcpt, Do::Say("550 5.7.1 not here"))]);
    let path = "/nonexistent/Maildir";
    let site =
        CanarySite::open(&smtp("mail", mail.address.port(), ""), &[("FRONTDESK_CANARY__MAILBOX", path)]);
    let first = site.first();
    assert_failed(&first, "channel", "mail", "550 5.7.1 not here");
    assert_eq!(
        step(&first, "mailbox", path),
        ("skipped".to_owned(), "no channel has sent a mail".to_owned())
    );
    mail.follow(vec![Script::usual()]);
    let accepted = until(|| {
        site.reader().canary_status().ok().flatten().filter(|it| step(it, "channel", "mail").0 == "ok")
    });
    let accepted = accepted.expect("the mail is accepted");
    assert_failed(
        &accepted,
        "mailbox",
        path,
        "`canary.mailbox` must be a Maildir that the user of this process can read",
    );
}

#[test]
fn a_submission_that_is_accepted_and_not_processed_is_named() {
    let mut site = CanarySite::open("", &[("FRONTDESK_CANARY__EVERY", "off")]);
    site.server.expect_anything();
    // No transaction that processes a test submission can be committed.
    let data = site.server.data_dir();
    if store_of(&data).is_some() {
        return;
    }
    let trigger =
        "CREATE TRIGGER stuck BEFORE UPDATE OF processed_at ON canary BEGIN SELECT RAISE(IGNORE); END";
    let connection = rusqlite::Connection::open(data.join("inbox.sqlite")).expect("it is there");
    connection.execute_batch(trigger).expect("it is made");
    drop(connection);
    site.server.kill();
    site.server.set(&[EVERY]);
    site.server.restart();
    let first = site.first();
    assert_eq!(step(&first, "form", "contact").0, "ok");
    assert_failed(&first, "intake", "contact", "accepted, but not processed within 10 s");
}
