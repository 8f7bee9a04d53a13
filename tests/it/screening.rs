//! Submissions that look like spam get a 200, are stored and held for the operator; others are unaffected.

mod files;
mod lessons;

use serde_json::{Value, json};

use crate::support::channel_site::{ChannelSite, maildir, until};
use crate::support::{Answer, TestServer, frontdesk, small_site, store_of};

const NO_LIMITS: (&str, &str) = ("FRONTDESK_LIMITS__ENABLED", "false");

/// A typical enquiry.
fn enquiry(number: usize) -> Value {
    json!({
        "name": "Ada Lovelace",
        "email": format!("ada{number}@example.com"),
        "message": format!("Good day, we run {number} machines and wonder whether your sandbox works on them. Could we talk?"),
    })
}

/// Text that spammers send to thousands of forms.
fn spam(number: usize) -> Value {
    json!({
        "name": "SEO Team",
        "email": format!("offer{number}@mailinator.com"),
        "message": format!(
            "Dear sir, we offer first page ranking on Google, cheap backlinks and casino traffic! \
             https://bit.ly/a{number} https://bit.ly/b https://seo.example.com/x https://seo.example.com/y Contact us on WhatsApp now!!!"
        ),
    })
}

/// Sends the contact form as JSON with these additional headers.
fn post(server: &TestServer, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let all = [&[("Content-Type", "application/json")], headers].concat();
    server.request("POST", "/api/contact", &all, body.to_string().as_bytes())
}

/// The submission with this e-mail address, which must be in the inbox.
fn testbed(server: &TestServer, email: &str) -> Value {
    server.inbox().into_iter().find(|submission| submission["email"] == email).expect("it is kept")
}

/// The output of `frontdesk inbox` with these arguments.
pub fn command(server: &TestServer, arguments: &[&str]) -> String {
    let output = frontdesk()
        .arg("inbox")
        .args(arguments)
        .arg("--site")
        .arg(server.site())
        .arg("--data-dir")
        .arg(server.data_dir())
        .envs(store_of(&server.data_dir()))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn spam_gets_the_same_answer_and_is_held_until_it_is_released() {
    let folder = tempfile::tempdir().expect("a folder");
    let mailbox = folder.path().join("mailbox");
    let channels = ChannelSite::open(&maildir("box", &mailbox), &[]);
    let server = &channels.server;
    let (fine, held) = (post(server, &enquiry(1), &[]), post(server, &spam(1), &[]));
    assert_eq!((fine.status, &fine.body), (200, &held.body));
    assert_eq!(held.status, 200);
    let names = |answer: &Answer| answer.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&fine), names(&held), "the responses do not reveal which one is held");

    let delivered = || std::fs::read_dir(mailbox.join("new")).map_or(0, Iterator::count);
    until(|| (delivered() == 1).then_some(())).expect("the enquiry is delivered");
    let spam = testbed(server, "offer1@mailinator.com");
    assert_eq!(spam["status"], "held", "{spam}");
    assert!(spam["_score"].as_u64().is_some_and(|score| score >= 100), "{spam}");
    let signals: Vec<&str> = spam["_reasons"]
        .as_array()
        .expect("reasons")
        .iter()
        .filter_map(|reason| reason["signal"].as_str())
        .collect();
    assert!(signals.contains(&"offer") && signals.contains(&"disposable"), "{signals:?}");
    assert_eq!(testbed(server, "ada1@example.com")["_score"], 0);

    // A repeat is the same submission and remains held.
    assert_eq!(post(server, &self::spam(1), &[]).status, 200);
    assert_eq!(server.inbox().len(), 2);
    let id = spam["id"].as_str().expect("an id");
    assert!(command(server, &["show", id]).contains("mailinator.com"));
    command(server, &["release", id]);
    until(|| (delivered() == 2).then_some(())).expect("what was released is delivered");
    let abuse: Value = serde_json::from_str(&command(server, &["stats", "--abuse", "--json"])).expect("JSON");
    assert_eq!((&abuse["held"], &abuse["released"]), (&json!(1), &json!(1)), "{abuse}");
}

#[test]
fn each_signal_of_the_request_counts_and_none_is_asked_for() {
    let server = TestServer::with(&small_site(), &[NO_LIMITS]);
    let own = format!("http://{}", server.address);
    let mut number = 0;
    let mut score = |change: &dyn Fn(&mut Value), headers: &[(&str, &str)]| {
        number += 1;
        let mut body = enquiry(number);
        change(&mut body);
        assert_eq!(post(&server, &body, headers).status, 200);
        let kept = testbed(&server, &format!("ada{number}@example.com"));
        let signals: Vec<String> = kept["_reasons"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|reason| Some(reason["signal"].as_str()?.to_owned()))
            .collect();
        assert!(kept.get("desk_note").is_none() && kept.get("desk_ms").is_none(), "{kept}");
        (kept["status"].as_str().expect("a status").to_owned(), signals.join(" "))
    };
    let plain = |_: &mut Value| {};
    let kept = |signals: &str| ("kept".to_owned(), signals.to_owned());
    assert_eq!(score(&plain, &[]), kept(""));
    assert_eq!(score(&plain, &[("User-Agent", "curl/8"), ("Accept", "*/*")]), kept(""));
    assert_eq!(score(&plain, &[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]), kept(""));
    assert_eq!(score(&plain, &[("Origin", "https://other.example.net")]), kept("origin"));
    assert_eq!(score(&plain, &[("Sec-Fetch-Site", "cross-site")]), kept("origin"));
    assert_eq!(
        score(&plain, &[("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Site", "same-origin")]),
        kept("origin")
    );
    let set = |name: &'static str, value: Value| move |body: &mut Value| body[name] = value.clone();
    let (status, signals) = score(&set("desk_note", json!("https://spam.example.com")), &[]);
    assert_eq!((&*status, &*signals), ("held", "honeypot"));
    assert_eq!(score(&set("desk_note", json!("")), &[]), kept(""));
    assert_eq!(score(&set("desk_ms", json!(150)), &[]), kept("time-to-fill"));
    assert_eq!(score(&set("desk_ms", json!(60_000)), &[]), kept(""));
    for odd in [json!(null), json!(-1), json!("x"), json!([1])] {
        assert_eq!(score(&set("desk_ms", odd.clone()), &[]).0, "kept", "{odd}");
    }
    server.expect_anything();
}

#[test]
fn a_form_past_its_limit_holds_and_never_refuses() {
    let server = TestServer::with(
        &small_site(),
        &[
            ("FRONTDESK_LIMITS__PER_MINUTE", "8"),
            ("FRONTDESK_LIMITS__NETWORK_PER_MINUTE", "8"),
            ("FRONTDESK_LIMITS__FORM_PER_MINUTE", "8"),
            ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
        ],
    );
    let mut statuses = Vec::new();
    for number in 0..14 {
        let client = format!("192.0.{}.1", number / 7);
        statuses.push(post(&server, &enquiry(number), &[("X-Forwarded-For", &client)]).status);
    }
    assert_eq!(statuses, [200; 14]);
    let held: Vec<Value> =
        server.inbox().into_iter().filter(|submission| submission["status"] == "held").collect();
    assert_eq!(held.len(), 4, "{held:#?}");
    assert!(held.iter().all(|submission| submission["_reasons"][0]["signal"] == "form-rate"));
    // A source beyond its quota is refused. Shutdown writes the number of refusals, which `stats --abuse`
    // shows.
    let again = |number| post(&server, &enquiry(number), &[("X-Forwarded-For", "192.0.1.1")]).status;
    assert_eq!([again(20), again(21), again(22)], [200, 429, 429]);
    let mut server = server;
    assert_eq!(server.terminate().0, Some(0));
    let abuse: Value =
        serde_json::from_str(&command(&server, &["stats", "--abuse", "--json"])).expect("JSON");
    let refused: u64 = abuse["sources"]
        .as_array()
        .expect("sources")
        .iter()
        .filter_map(|source| source["refused"].as_u64())
        .sum();
    assert_eq!(refused, 2, "{abuse:#}");
    server.expect(15);
}

#[test]
fn the_team_is_notified_of_a_flood_and_others_are_delivered() {
    let folder = tempfile::tempdir().expect("a folder");
    let mailbox = folder.path().join("mailbox");
    let settings = [
        ("FRONTDESK_LIMITS__ENABLED", "true"),
        ("FRONTDESK_LIMITS__PER_MINUTE", "100"),
        ("FRONTDESK_LIMITS__FORM_PER_MINUTE", "100"),
        ("FRONTDESK_LIMITS__NETWORK_PER_MINUTE", "100"),
        ("FRONTDESK_LIMITS__PER_HOUR", "100"),
        ("FRONTDESK_LIMITS__NETWORK_PER_HOUR", "100"),
        ("FRONTDESK_LIMITS__FORM_PER_HOUR", "100"),
        ("FRONTDESK_SERVER__TRUSTED_PROXIES", "127.0.0.1"),
    ];
    let channels = ChannelSite::open(&maildir("box", &mailbox), &settings);
    let send = |number: usize, network: usize| {
        let client = format!("10.0.{network}.1");
        assert_eq!(post(&channels.server, &enquiry(number), &[("X-Forwarded-For", &client)]).status, 200);
    };
    // On a slow machine some more are accepted: the hourly quota regains one request every 36 seconds.
    for number in 0..180 {
        send(number, number / 90);
    }
    let mails = || -> Vec<String> {
        let files = std::fs::read_dir(mailbox.join("new")).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect()
    };
    let notices = || mails().iter().filter(|mail| mail.contains("A form is being flooded")).count();
    until(|| (notices() == 1).then_some(())).expect("the team is notified");
    send(200, 2);
    until(|| mails().iter().any(|mail| mail.contains("ada200@example.com")).then_some(()))
        .expect("it is delivered");
    assert_eq!(testbed(&channels.server, "ada179@example.com")["status"], "held");
    assert_eq!(notices(), 1, "at most once an hour");
}
