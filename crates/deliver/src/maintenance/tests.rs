//! Tests maintenance with a real inbox.

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::mail::MailAddresses;
use crate::smtp::{SmtpDeadlines, SmtpOptions, SmtpTls};
use crate::smtp_peer::{Script, SmtpPeer};
use crate::{ChannelOptions, TransportOptions, maildir};
use frontdesk_forms::{CONTACT, parse};
use frontdesk_inbox::intake::Arrival;
use frontdesk_inbox::store::{Filter, ReferrerCount, ViewCount, ViewCounts, ViewFilter};
use frontdesk_inbox::submission::delivery::{ChannelTarget, Condition, Route};
use frontdesk_inbox::testing::inbox::{Options, TestInbox};
use frontdesk_limits::Source;
use frontdesk_limits::source::RefusedRequests;
use frontdesk_screening::Evidence;
use frontdesk_screening::verdict::{ScreeningVerdict, Signal};

#[test]
fn the_digest_is_sent_once_a_day_through_a_working_channel() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = Options::new(folder.path().join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    // A file occupies this Maildir's path, so every delivery to it fails.
    std::fs::write(folder.path().join("broken"), "").unwrap();
    let channels: Vec<_> =
        ["off", "broken", "well"].map(|name| (name.to_owned(), open(&folder.path().join(name)))).into();
    let digest_at = Some(Time::constant(7, 0, 0, 0));
    let maintenance = MaintenanceOptions { digest_at, ..MaintenanceOptions::default() };
    let maintenance = Maintenance { channels, ..maintain(maintenance, &options, &store) };
    let run = |now: &str, is_reliable| {
        let now = now.parse().unwrap();
        runtime.block_on(maintenance.send_digest(now, is_reliable)).unwrap();
        ["off", "well"].map(|name| mails(&folder.path().join(name)).len())
    };
    let tell = |now: &str| run(now, true);
    hold(&runtime, &store, "sesame", "2026-11-20T05:00:00Z");
    let gone = ChannelTarget { name: "off".to_owned(), destination: String::new() };
    runtime.block_on(store.switch_off(gone, "410".to_owned(), Timestamp::UNIX_EPOCH)).unwrap();
    assert_eq!(tell("2026-11-20T06:00:00Z"), [0, 0], "a new inbox starts with the next digest");
    assert_eq!(tell("2026-11-20T07:00:00Z"), [0, 1]);
    assert_eq!(tell("2026-11-20T23:59:00Z"), [0, 1], "once a day");
    assert_eq!(tell("2026-11-22T12:00:00Z"), [0, 2], "a missed digest is not sent later");
    assert_eq!(tell("2026-11-22T06:59:59Z"), [0, 2], "the clock was set back a little");
    assert_eq!(tell("2026-11-22T07:00:00Z"), [0, 2], "this one was sent");
    assert_eq!(run("2026-11-01T12:00:00Z", false), [0, 2], "the clock is behind after a start");
    assert_eq!(run("2026-11-02T12:00:00Z", false), [0, 2], "still behind");
    assert_eq!(run("2026-11-22T12:00:00Z", false), [0, 2], "it was corrected: this one was sent");
    assert_eq!(tell("2027-11-22T07:00:00Z"), [0, 3], "the clock is a year ahead");
    assert_eq!(tell("2026-11-22T12:00:00Z"), [0, 3], "it was set back: start with the next digest");
    assert_eq!(tell("2026-11-23T07:00:00Z"), [0, 4]);
    let mail = &mails(&folder.path().join("well"))[0];
    assert!(mail.contains("1 submission is held") && mail.contains("switched off"), "{mail}");
    assert!(!mail.contains("sesame") && !mail.contains("ada@example.com"), "{mail}");
}

#[test]
fn each_user_gets_one_mail_a_day_about_due_follow_ups_and_new_submissions() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = Options::new(folder.path().join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    let noon = daily_user_reminder::local("2026-11-20T12:00:00Z".parse().unwrap());
    let eight = noon.with().hour(8).minute(0).build().unwrap();
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let run = |at: &jiff::Zoned, port: u16, is_reliable| {
        let reminders = ReminderOptions {
            at: Time::constant(8, 0, 0, 0),
            users: ["ada@example.com", "grace@example.com"].map(str::to_owned).into(),
            smtp: SmtpOptions {
                host: "127.0.0.1".to_owned(),
                port,
                tls: SmtpTls::None,
                login: None,
                helo: None,
                addresses: MailAddresses::new("desk@example.com", "", &["team@example.com".to_owned()])
                    .unwrap(),
                extra_roots: None,
                deadlines: SmtpDeadlines::default(),
            },
            site: "Example".to_owned(),
        };
        let maintenance = MaintenanceOptions { reminders: Some(reminders), ..MaintenanceOptions::default() };
        let maintenance = maintain(maintenance, &options, &store);
        runtime.block_on(maintenance.send_reminders(at.timestamp(), is_reliable)).unwrap();
        peer.record().received.len()
    };
    let send = |at: &jiff::Zoned, port| run(at, port, true);
    let day = jiff::SignedDuration::from_hours(24);
    assert_eq!(send(&eight, peer.address.port()), 0, "there is nothing to say");
    hold(&runtime, &store, "sesame", "2026-11-01T05:00:00Z");
    let mut editor = frontdesk_inbox::store::Editor::open(options.url.clone()).unwrap();
    let id = InboxReader::open(&options.url)
        .unwrap()
        .list(&Filter::default())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .id;
    assert!(editor.release(id, &[], noon.timestamp()).unwrap());
    editor.assign(id, Some("ada@example.com")).unwrap();
    editor.set_follow_up(id, Some(noon.date())).unwrap();
    assert_eq!(send(&(&eight + day), closed), 0, "the mail server is down");
    assert_eq!(send(&(&eight + day), peer.address.port()), 1, "only the assignee has something to do");
    assert_eq!(send(&(&noon + day), peer.address.port()), 1, "once a day");
    assert_eq!(
        send(&(&noon + day + day + jiff::SignedDuration::from_hours(5)), peer.address.port()),
        1,
        "too late"
    );
    let year = day * 365;
    let port = peer.address.port();
    assert_eq!(run(&(&eight - day * 7), port, false), 1, "the clock is behind after a start");
    assert_eq!(run(&(&noon + day), port, false), 1, "it was corrected");
    assert_eq!(send(&(&eight + year), peer.address.port()), 2, "the clock is a year ahead");
    assert_eq!(send(&(&noon + day), peer.address.port()), 3, "it was set back");
    assert_eq!(send(&(&noon + day), peer.address.port()), 3, "once a day");
    let record = peer.record();
    let mail = String::from_utf8_lossy(&record.received[0].message()).into_owned();
    assert_eq!(record.received[0].to, ["ada@example.com"]);
    let line = format!("- Ada (contact), due {}", noon.date());
    assert!(mail.contains(&line) && mail.contains("1 open, 0 held"), "{mail}");
    assert!(!mail.contains("sesame") && !mail.contains("New since"), "{mail}");
    let quits = record.commands.iter().filter(|line| *line == "QUIT").count();
    assert_eq!(quits, record.connections, "each connection is closed properly");
}

#[test]
fn the_team_is_notified_of_a_flood_at_most_once_an_hour() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = Options::new(folder.path().join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    let channels = vec![("well".to_owned(), open(&folder.path().join("well")))];
    let maintenance = Maintenance { channels, ..maintain(MaintenanceOptions::default(), &options, &store) };
    let send = |now: &str| {
        let mut failure_log = FailureLog::default();
        let next = maintenance.send_flood_notification(now.parse().unwrap(), &mut failure_log);
        let minutes = runtime.block_on(next).unwrap().map(|wait| wait.as_secs() / 60);
        (minutes, mails(&folder.path().join("well")).len())
    };
    hold(&runtime, &store, "sesame", "2026-11-20T05:00:00Z");
    assert_eq!(send("2026-11-20T12:00:00Z"), (None, 0), "there is no flood");
    let database = rusqlite::Connection::open(folder.path().join("inbox.db")).unwrap();
    database.execute_batch("UPDATE submission SET flood = 1").unwrap();
    assert_eq!(send("2026-11-20T12:00:00Z"), (Some(60), 1));
    assert_eq!(send("2026-11-20T12:59:00Z"), (Some(1), 1));
    assert_eq!(send("2026-11-20T11:30:00Z"), (Some(90), 1), "the clock was set back a little");
    assert_eq!(send("2026-11-20T13:00:00Z"), (Some(60), 2));
    assert_eq!(send("2026-11-19T13:00:00Z"), (Some(60), 3), "the clock was set back by a day");
}

#[test]
fn the_team_is_notified_once_that_mails_to_visitors_reached_their_limit() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = Options::new(folder.path().join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    // A file occupies this Maildir's path, so every delivery to it fails.
    std::fs::write(folder.path().join("broken"), "").unwrap();
    let mut failure_log = FailureLog::default();
    let mut send = |channel: &str, now: &str| {
        let channels = vec![(channel.to_owned(), open(&folder.path().join(channel)))];
        let maintenance =
            Maintenance { channels, ..maintain(MaintenanceOptions::default(), &options, &store) };
        let is_done = maintenance.send_mail_limit_notification(now.parse().unwrap(), &mut failure_log);
        (runtime.block_on(is_done).unwrap(), mails(&folder.path().join("well")).len())
    };
    assert_eq!(send("well", "2026-11-20T12:00:00Z"), (true, 0), "nothing has happened");
    let since = "2026-11-20T12:00:00Z".parse().unwrap();
    runtime.block_on(store.change(move |tx| tx.store_time("visitor mails limited since", since))).unwrap();
    assert_eq!(send("broken", "2026-11-20T12:00:01Z"), (false, 0), "it is retried");
    assert_eq!(send("well", "2026-11-20T12:01:01Z"), (true, 1));
    assert_eq!(send("well", "2026-11-20T12:15:00Z"), (true, 1), "once");
    let mail = &mails(&folder.path().join("well"))[0];
    assert!(mail.contains("Since 2026-11-20T12:00:00Z, visitors get no mail or less mail"), "{mail}");
}

#[test]
fn the_clock_is_unreliable_for_15_minutes_after_a_start_or_a_change() {
    let (instant, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
    let mut clock = ClockCheck::default();
    let mut at = |passed, told| {
        clock.runs_evenly(instant + Duration::from_mins(passed), now + Duration::from_mins(told))
    };
    assert!(!at(0, 0), "the start");
    assert!(at(15, 15));
    assert!(!at(30, 1000), "set forward");
    assert!(at(45, 1015), "both clocks have advanced evenly since");
    assert!(!at(60, 60), "set back");
    assert!(!at(65, 65), "a run after five minutes");
    assert!(at(80, 80));
}

#[test]
fn held_submissions_expire_only_if_configured() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options = Options::new(folder.path().join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
    // One more than a single transaction removes.
    for n in 0..=BATCH {
        hold(&runtime, &store, &n.to_string(), "2026-10-21T11:59:59Z");
    }
    hold(&runtime, &store, "not yet", "2026-10-21T12:00:00Z");
    let remove = |retention, retention_held| {
        let maintenance = MaintenanceOptions { retention, retention_held, ..MaintenanceOptions::default() };
        let maintenance = maintain(maintenance, &options, &store);
        let removed = runtime.block_on(async {
            maintenance.remove_expired(now).await.unwrap() + maintenance.remove_long_held(now).await.unwrap()
        });
        (removed, InboxReader::open(&options.url).unwrap().queue().unwrap().held)
    };
    let days = |days: u64| Some(Duration::from_hours(24 * days));
    assert_eq!(remove(None, None), (0, BATCH + 2));
    assert_eq!(remove(days(1), None), (0, BATCH + 2), "`retention` does not apply to held submissions");
    assert_eq!(remove(None, days(30)), (BATCH + 1, 1));
    assert_eq!(remove(None, days(30)), (0, 1));
}

#[test]
fn a_held_submission_is_sealed_unless_a_channel_could_deliver_it() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut options = Options::new(folder.path().join("inbox.db"));
    options.channels = vec![Route::new("box")];
    let store = TestInbox::open(&options).unwrap();
    hold(&runtime, &store, "sesame", "2026-11-20T05:00:00Z");
    let recipient =
        Recipient::parse("age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p").unwrap();
    let maintenance = MaintenanceOptions { recipient: Some(recipient), ..MaintenanceOptions::default() };
    let maintenance = maintain(maintenance, &options, &store);
    let seal = |channels: Vec<Route>| {
        store.reconfigure(&Options { channels, ..options.clone() });
        runtime.block_on(maintenance.seal_settled()).unwrap()
    };
    assert_eq!(seal(options.channels.clone()), 0);
    // After a release, the channel with the new name would deliver the submission.
    assert_eq!(seal(vec![Route::new("renamed")]), 0);
    let other_form = Route { forms: vec!["waitlist".to_owned()], ..Route::new("other") };
    assert_eq!(seal(vec![other_form]), 1);
    assert_eq!(seal(Vec::new()), 0);
    let held = InboxReader::open(&options.url).unwrap().list(&Filter::default()).unwrap().next();
    assert!(held.is_some_and(|held| held.unwrap().sealed.is_some()));
}

#[test]
fn refusals_are_stored_for_thirty_days() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options = Options::new(folder.path().join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    let today: Date = "2026-11-30".parse().unwrap();
    for (at, sources) in [("2026-10-31", 500), ("2026-11-01", 2), ("2026-11-30", 3)] {
        let source = |n: u32| Some(Source::V4(n.to_be_bytes()));
        let refused = |n| RefusedRequests { source: source(n), form: "contact", count: 1 };
        runtime
            .block_on(store.record_refusals((0..sources).map(refused).collect(), at.parse().unwrap()))
            .unwrap();
    }
    let ever = "1970-01-01".parse().unwrap();
    let refused = || InboxReader::open(&options.url).unwrap().abuse(ever, &TimeZone::UTC, 0).unwrap().refused;
    assert_eq!(refused(), 505);
    runtime.block_on(remove_old_refusal_counts(&store, today)).unwrap();
    assert_eq!(refused(), 5);
}

#[test]
fn page_views_are_stored_for_four_hundred_days() {
    let folder = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let options = Options::new(folder.path().join("inbox.db"));
    let store = TestInbox::open(&options).unwrap();
    let today: Date = "2026-11-30".parse().unwrap();
    for (at, pages) in [("2025-10-26", 500), ("2025-10-27", 2), ("2026-11-30", 3)] {
        let page = |n: usize| ViewCount {
            path: format!("/{n}/").into(),
            representation: "html",
            agent: "browser",
            count: 1,
        };
        let host = |n: usize| ReferrerCount { host: format!("{n}.example").into(), count: 1 };
        let (pages, referrers) = ((0..pages).map(page).collect(), (0..pages).map(host).collect());
        let mut counts = ViewCounts { pages, referrers };
        runtime.block_on(store.record_views(&mut counts, at.parse().unwrap())).unwrap();
    }
    let counted = || {
        let from = "1970-01-01".parse().unwrap();
        let filter = ViewFilter {
            from,
            until: None,
            page: None,
            ai_agents: &["GPTBot"],
            browsers: &["browser"],
            most: 9,
        };
        let report = InboxReader::open(&options.url).unwrap().page_views(&filter).unwrap();
        (report.total.all, report.referred)
    };
    assert_eq!(counted(), (505, 505));
    runtime.block_on(remove_old_view_counts(&store, today)).unwrap();
    assert_eq!(counted(), (5, 5));
}

#[test]
fn the_time_to_the_next_run_ends_at_the_next_digest() {
    let at = |time: Option<Time>, now: &str| time_to_next_run(time, now.parse().unwrap());
    let seven = Some(Time::constant(7, 0, 0, 0));
    assert_eq!(at(None, "2026-11-20T06:00:00Z"), INTERVAL);
    assert_eq!(at(seven, "2026-11-20T06:00:00Z"), INTERVAL);
    assert_eq!(at(seven, "2026-11-20T06:59:00Z"), Duration::from_mins(1));
    assert_eq!(at(seven, "2026-11-20T07:00:00Z"), INTERVAL);
}

fn maintain(maintenance: MaintenanceOptions, inbox: &Options, store: &TestInbox) -> Maintenance {
    Maintenance {
        options: maintenance,
        place: inbox.url.clone(),
        store: Store::clone(store),
        channels: Vec::new(),
        sealed: Rc::default(),
        // Other tests in this process panic on purpose.
        reported_panics: Rc::new(Cell::new(u64::MAX)),
    }
}

/// Stores a message as if screening had held it.
fn hold(runtime: &tokio::runtime::Runtime, store: &TestInbox, message: &str, received_at: &str) {
    let body = serde_json::json!({"message": message, "email": "ada@example.com", "name": "Ada"});
    let arrival = Arrival {
        entry: parse(&CONTACT, body.to_string().as_bytes()).unwrap(),
        idempotency_key: None,
        source: Source::V4([192, 0, 2, 1]),
        received_at: received_at.parse().unwrap(),
        evidence: Evidence::Verdict(ScreeningVerdict::default()),
        agent: None,
        lead: frontdesk_forms::LeadSource::default(),
    };
    runtime.block_on(store.accept_and_process(arrival.held_for(&[(Signal::Links, "4 links")]))).unwrap();
}

fn channel_options(name: &str, path: &Path) -> ChannelOptions {
    let options = maildir::MaildirOptions {
        path: path.to_owned(),
        addresses: MailAddresses::new("desk@example.com", "", &["team@example.com".to_owned()]).unwrap(),
    };
    ChannelOptions {
        has_daily_quota: false,
        name: name.to_owned(),
        forms: Vec::new(),
        when: Condition::default(),
        concurrency: 1,
        kind: TransportOptions::Maildir(options),
    }
}

fn open(path: &Path) -> Rc<Channel> {
    Rc::new(Channel::open(&channel_options("", path).kind))
}

fn mails(maildir: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(maildir.join("new")) else { return Vec::new() };
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort_unstable();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn a_digest_is_undelivered_an_hour_after_it_was_due() {
    let time = |text: &str| -> Timestamp { text.parse().unwrap() };
    let (last, due) = (time("2026-11-19T07:00:00Z"), time("2026-11-20T07:00:00Z"));
    for (last, now, expected) in [
        (last, "2026-11-20T07:59:00Z", false),
        (last, "2026-11-20T08:00:01Z", true),
        (due, "2026-11-20T12:00:00Z", false),
    ] {
        assert_eq!(is_undelivered(last, due, time(now)), expected, "{last} {now}");
    }
}
