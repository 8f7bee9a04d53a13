//! Annotations, the operator log, login links, sessions, and pages of the list.

use super::*;
use crate::change::Changes;
use crate::login_session::{SecretToken, resume};
use crate::store::test_statement_recorder as recorder;
use frontdesk_screening::verdict::Signal;
use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;

fn now() -> Timestamp {
    "2026-11-20T15:00:00Z".parse().unwrap()
}

fn new(hash: TokenHash) -> NewSession {
    NewSession { hash, is_trusted: false, client: String::new() }
}

/// Whether any browser can use a login link.
fn has_login(reader: &InboxReader, login: &TokenHash, at: Timestamp) -> bool {
    reader.login_state(login, None, at).unwrap() == LoginState::Valid
}

fn actions(fixture: &Fixture) -> Vec<String> {
    let log = fixture.reader().operator_log(None, 100).unwrap();
    log.iter().map(|entry| format!("{} {} {}", entry.user, entry.action, entry.count)).collect()
}

#[test]
fn a_submission_is_done_until_it_is_reopened() {
    let fixture = Fixture::new();
    let id = fixture.accept_new(&contact("one"));
    let mut editor = fixture.editor().on_behalf_of("ada");
    let find = || fixture.reader().annotations(&[id]).unwrap().remove(&id);
    assert_eq!(find(), Some(Annotation::default()));
    assert_eq!(editor.set_done(id, false, now()).unwrap(), Annotated::Unchanged);
    assert_eq!(editor.set_done(id, true, now()).unwrap(), Annotated::Changed);
    assert_eq!(editor.set_done(id, true, now() + DAY).unwrap(), Annotated::Unchanged);
    assert_eq!(find(), Some(Annotation { done_at: Some(now()), ..Annotation::default() }));
    assert_eq!(editor.set_done(id, false, now()).unwrap(), Annotated::Changed);
    assert_eq!(find(), Some(Annotation::default()));
    assert_eq!(editor.set_done(Uuid::max(), true, now()).unwrap(), Annotated::Missing);
}

#[test]
fn every_change_is_logged_with_its_user_and_extent() {
    let fixture = Fixture::with_channels(&["box", "crm"], &[]);
    let ids: Vec<Uuid> = (0..3).map(|n| fixture.accept_new(&contact(&n.to_string()))).collect();
    let mut editor = fixture.editor().on_behalf_of("ada");
    let routes = &fixture.options.channels;
    assert!(editor.hold(ids[0], "secret reason", now()).unwrap());
    assert!(!editor.hold(ids[0], "again", now()).unwrap());
    assert!(editor.release(ids[0], routes, now()).unwrap());
    assert!(!editor.release(ids[0], routes, now()).unwrap());
    assert_eq!(editor.deliver(ids[0], routes, now()).unwrap(), 0);
    assert_eq!(editor.deliver(ids[0], &channels(&["new"], &[]), now()).unwrap(), 1);
    let which = Retry { channel: Some("crm".to_owned()), ..Retry::default() };
    assert_eq!(editor.retry(&which, now()).unwrap(), 3);
    editor.log_test("box").unwrap();
    for id in &ids[1..] {
        assert!(editor.hold(*id, "odd", now()).unwrap());
    }
    assert_eq!(editor.discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH).unwrap().submissions, 2);
    assert_eq!(editor.discard_held(&HeldFilter::default(), Timestamp::UNIX_EPOCH).unwrap().submissions, 0);
    assert_eq!(editor.erase("ADA@example.com").unwrap().submissions, 1);
    assert_eq!(
        actions(&fixture),
        [
            "ada erase 1",
            "ada discard 2",
            "ada hold 1",
            "ada hold 1",
            "ada test 1",
            "ada retry 3",
            "ada deliver 1",
            "ada release 1",
            "ada hold 1"
        ]
    );
    let log = fixture.reader().operator_log(None, 100).unwrap();
    assert_eq!((log[8].submission, &log[5].channel), (Some(ids[0]), &Some("crm".to_owned())));
    assert_eq!((log[1].submission, &log[4].channel), (None, &Some("box".to_owned())));
    let rest = fixture.reader().operator_log(Some(log[6].id), 1).unwrap();
    assert_eq!(rest, log[7..8]);
    for text in ["secret reason", "Ada"] {
        assert!(!format!("{log:?}").contains(text), "{text}");
    }
}

#[test]
fn a_login_link_works_once_and_for_ten_minutes() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor().on_behalf_of("ada");
    let (login, session) = ([1; 32], [2; 32]);
    let enter =
        |editor: &mut Editor, after| editor.log_in(&login, None, &new(session), now() + after).unwrap();
    assert_eq!(enter(&mut editor, Duration::ZERO), None, "there is no link");
    editor.create_login(&login, now()).unwrap();
    let end = Duration::from_mins(10);
    assert!(has_login(&fixture.reader(), &login, now() + end.saturating_sub(MILLISECOND)));
    assert!(!has_login(&fixture.reader(), &login, now() + end));
    assert_eq!(enter(&mut editor, end), None, "it has expired");
    editor.create_login(&login, now()).unwrap();
    assert_eq!(enter(&mut editor, end.saturating_sub(MILLISECOND)), Some("ada".to_owned()));
    assert_eq!(enter(&mut editor, Duration::ZERO), None, "it has been used");
    assert!(!has_login(&fixture.reader(), &login, now()));
    assert_eq!(actions(&fixture), ["ada log-in 1", "ada open 1", "ada open 1"]);
}

#[test]
fn a_link_in_a_mail_works_in_the_browser_that_asked_for_it() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor().on_behalf_of("ada@example.com");
    let reader = fixture.reader();
    let (login, browser, other) = ([1; 32], [2; 32], [3; 32]);
    assert!(editor.create_mailed_login(&login, &browser, now()).unwrap());
    for wrong in [None, Some(&other)] {
        assert_eq!(reader.login_state(&login, wrong, now()).unwrap(), LoginState::OtherBrowser);
        assert_eq!(editor.log_in(&login, wrong, &new([4; 32]), now()).unwrap(), None);
    }
    assert_eq!(reader.login_state(&other, Some(&browser), now()).unwrap(), LoginState::Invalid);
    assert_eq!(reader.login_state(&login, Some(&browser), now()).unwrap(), LoginState::Valid);
    let session = NewSession { is_trusted: true, client: "Firefox on Linux".to_owned(), ..new([5; 32]) };
    let user = editor.log_in(&login, Some(&browser), &session, now()).unwrap();
    assert_eq!(user.as_deref(), Some("ada@example.com"));
    assert_eq!(reader.login_state(&login, Some(&browser), now()).unwrap(), LoginState::Invalid);
    let found = reader.sessions(now()).unwrap().remove(0);
    assert_eq!((found.is_mailed, found.is_trusted, &*found.client), (true, true, "Firefox on Linux"));
    // A client can neither fill the table nor push out a link that is on its way.
    let count = (10..30).filter(|n| editor.create_mailed_login(&[*n; 32], &browser, now()).unwrap()).count();
    assert_eq!((count, fixture.count("login_token")), (10, 10));
    editor.create_login(&[40; 32], now()).unwrap();
    assert_eq!(fixture.count("login_token"), 11);
    editor.remove_mailed_logins(&|user| user == "grace").unwrap();
    assert_eq!(fixture.count("login_token"), 11);
    assert!(editor.create_mailed_login(&[31; 32], &browser, now() + Duration::from_mins(10)).unwrap());
    assert_eq!(fixture.count("login_token"), 1);
    editor.create_login(&[41; 32], now() + Duration::from_mins(10)).unwrap();
    editor.remove_mailed_logins(&|user| user == "ada@example.com").unwrap();
    assert_eq!(fixture.count("login_token"), 1, "the link of a command stays");
}

#[test]
fn a_session_on_a_trusted_device_ends_thirty_days_after_its_login() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor().on_behalf_of("ada");
    editor.create_login(&[1; 32], now()).unwrap();
    let session = NewSession { is_trusted: true, ..new([2; 32]) };
    editor.log_in(&[1; 32], None, &session, now()).unwrap().unwrap();
    let is_valid = |after| fixture.reader().session(&[2; 32], now() + after).unwrap().is_some();
    assert!(is_valid(29 * DAY) && is_valid((30 * DAY).saturating_sub(MILLISECOND)) && !is_valid(30 * DAY));
    editor.touch_session(&[2; 32], now() + 29 * DAY).unwrap();
    assert!(!is_valid(30 * DAY), "use does not extend it");
    // A login of another user removes it once it has ended.
    editor.create_login(&[3; 32], now() + 30 * DAY).unwrap();
    assert_eq!(fixture.count("session"), 0);
}

#[test]
fn a_session_ends_after_a_day_without_use_or_when_it_is_revoked() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor().on_behalf_of("ada");
    for n in 1..=3 {
        editor.create_login(&[n; 32], now()).unwrap();
        assert!(editor.log_in(&[n; 32], None, &new([n + 10; 32]), now()).unwrap().is_some());
    }
    let reader = fixture.reader();
    let is_valid = |n: u8, after| reader.session(&[n; 32], now() + after).unwrap().is_some();
    assert!(is_valid(11, DAY.saturating_sub(MILLISECOND)) && !is_valid(11, DAY));
    editor.touch_session(&[11; 32], now() + DAY / 2).unwrap();
    assert!(is_valid(11, DAY) && !is_valid(12, DAY));
    let sessions = reader.sessions(now() + DAY / 2).unwrap();
    assert_eq!(
        sessions.iter().map(Session::short_id).collect::<Vec<_>>(),
        ["0b0b0b0b", "0c0c0c0c", "0d0d0d0d"]
    );
    assert_eq!(editor.revoke(Some(&[[12; 32], [99; 32]])).unwrap(), 1);
    assert!(is_valid(11, DAY / 2) && !is_valid(12, DAY / 2));
    editor.create_login(&[7; 32], now() + DAY / 2).unwrap();
    assert_eq!(editor.revoke(None).unwrap(), 2);
    assert!(!is_valid(11, DAY / 2) && !has_login(&reader, &[7; 32], now() + DAY / 2));
    // Without a session, login links become invalid too, which is logged. Nothing to remove is not.
    editor.create_login(&[8; 32], now() + DAY / 2).unwrap();
    assert_eq!((editor.revoke(None).unwrap(), editor.revoke(None).unwrap()), (0, 0));
    assert!(!has_login(&reader, &[8; 32], now() + DAY / 2));
    let log = reader.operator_log(None, 2).unwrap();
    let log: Vec<_> = log.iter().map(|entry| (entry.action.as_str(), entry.count)).collect();
    assert_eq!(log, [("revoke", 0), ("open", 1)]);
}

#[test]
fn login_links_and_sessions_from_the_future_are_not_valid() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor().on_behalf_of("ada");
    let later = now() + Duration::from_mins(6);
    for n in 1..=2 {
        editor.create_login(&[n; 32], later).unwrap();
    }
    let reader = fixture.reader();
    assert!(!has_login(&reader, &[1; 32], now()) && has_login(&reader, &[1; 32], later));
    assert_eq!(editor.log_in(&[1; 32], None, &new([11; 32]), now()).unwrap(), None);
    assert!(editor.log_in(&[2; 32], None, &new([12; 32]), later).unwrap().is_some());
    let is_valid = |at| reader.session(&[12; 32], at).unwrap().is_some();
    assert!(!is_valid(now()) && is_valid(now() + Duration::from_mins(1)), "clocks may differ a little");
    assert_eq!(reader.sessions(now()).unwrap(), []);
    assert!(reader.is_session_from_future(&[12; 32], now()).unwrap());
    assert!(!reader.is_session_from_future(&[12; 32], later).unwrap());
    // A request with its cookie ends it, so it does not become valid when the time has come.
    let token = SecretToken::generate().unwrap();
    editor.create_login(&[4; 32], later).unwrap();
    assert!(editor.log_in(&[4; 32], None, &new(token.hash()), later).unwrap().is_some());
    let resume = |at| resume(&fixture.options.url, &reader, &token, at).unwrap().is_some();
    assert!(resume(later) && !resume(now()) && !resume(later));
    assert!(is_valid(later), "another session stays");
    // The next login removes them too.
    editor.create_login(&[3; 32], now()).unwrap();
    assert_eq!((fixture.count("login_token"), fixture.count("session")), (1, 0));
}

#[test]
fn the_number_of_login_links_and_sessions_is_limited() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor().on_behalf_of("ada");
    let hash = |n: u32| {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&n.to_be_bytes());
        hash
    };
    for n in 0..120_u32 {
        let at = now() + MILLISECOND * n;
        editor.create_login(&hash(n), at).unwrap();
        editor.log_in(&hash(n), None, &new(hash(n + 1000)), at).unwrap().unwrap();
    }
    let sessions = fixture.reader().sessions(now()).unwrap();
    assert_eq!((sessions.len(), sessions[0].hash, sessions[99].hash), (100, hash(1119), hash(1020)));
    for n in 0..30_u32 {
        editor.create_login(&hash(n), now() + MILLISECOND * n).unwrap();
    }
    assert_eq!(fixture.count("login_token"), 20);
    // Expired ones are removed by the next login link.
    editor.create_login(&hash(99), now() + 2 * DAY).unwrap();
    assert_eq!((fixture.count("login_token"), fixture.count("session")), (1, 0));
}

/// All pages of a list, each read with a time limit that has already passed.
fn read_slowly(reader: &InboxReader, filter: &Filter, words: Option<&str>, size: usize) -> Vec<Vec<Uuid>> {
    let words = words.map(|text| SearchText::parse(text).unwrap());
    let (mut filter, mut pages) = (filter.clone(), Vec::new());
    loop {
        let page = reader.page(&filter, words.as_ref(), size, &|| true).unwrap();
        pages.push(page.submissions.iter().map(|submission| submission.id).collect());
        let Some(next) = page.next else { return pages };
        filter.before = Some(next);
        assert!(pages.len() < 100);
    }
}

/// The ids of a listing, which has as many as are counted, and begins as one with a limit does.
fn list_all(reader: &InboxReader, filter: &Filter) -> Vec<Uuid> {
    let list = |filter| reader.list(filter).unwrap().map(|s| s.unwrap().id).collect::<Vec<Uuid>>();
    let listed = list(filter);
    assert_eq!(listed.len(), reader.count(filter).unwrap(), "{filter:?}");
    let limited = list(&Filter { limit: Some(300), ..filter.clone() });
    assert_eq!(limited, listed[..listed.len().min(300)], "{filter:?}");
    listed
}

#[test]
fn pages_have_what_a_listing_has_whatever_the_time_limit() {
    let fixture = Fixture::with_channels(&["box"], &["waitlist"]);
    let mut arrivals: Vec<Arrival> = (0..600).map(|n| contact(&format!("number {n}"))).collect();
    arrivals.push(waitlist("Grete@example.com"));
    arrivals.extend((0..10).map(|n| contact(&format!("held {n}")).held_for(&[(Signal::Links, "odd")])));
    for arrivals in arrivals.chunks(100) {
        assert!(fixture.accept_all(arrivals).iter().all(Result::is_ok));
    }
    let reader = fixture.reader();
    let newest = fixture.list()[3].id;
    fixture.editor().set_done(newest, true, now()).unwrap();
    let [read, spam] = [4, 5].map(|at| fixture.list()[at].id);
    fixture.editor().set_seen(read, true, now()).unwrap();
    fixture.editor().set_spam(spam, true, now()).unwrap();
    let all = Filter::default();
    let open =
        Filter { is_done: Some(false), is_held: Some(false), is_spam: Some(false), ..Filter::default() };
    let filters = [
        all.clone(),
        Filter { form: Some("waitlist".to_owned()), ..all.clone() },
        Filter { status: Some(Status::Held), ..all.clone() },
        Filter { status: Some(Status::Waiting), ..all.clone() },
        Filter { status: Some(Status::Kept), ..all.clone() },
        Filter { status: Some(Status::Parked), ..all.clone() },
        Filter { is_done: Some(true), ..all.clone() },
        Filter { is_done: Some(false), ..all.clone() },
        open.clone(),
        Filter { is_unread: true, ..open.clone() },
        Filter { forms: Some(vec!["waitlist".to_owned(), "none".to_owned()]), ..open.clone() },
        Filter { form: Some("contact".to_owned()), ..open },
        Filter { forms: Some(vec!["contact".to_owned()]), ..all.clone() },
        Filter { forms: Some(Vec::new()), ..all.clone() },
        Filter { is_spam: Some(true), ..all.clone() },
        Filter { from: Some(now()), ..all.clone() },
        Filter { until: Some(now()), ..all.clone() },
    ];
    for filter in &filters {
        let listed = list_all(&reader, filter);
        for size in [1, 50, 1000] {
            let mut expected = listed.clone();
            // Reads at most a hundred pages.
            let mut found = if size == 1 && listed.len() > 50 {
                expected.truncate(1);
                reader.page(filter, None, 1, &|| false).unwrap().submissions.iter().map(|s| s.id).collect()
            } else {
                read_slowly(&reader, filter, None, size).concat()
            };
            found.truncate(expected.len());
            assert_eq!(found, expected, "{filter:?} {size}");
        }
        let at_once = reader.page(filter, None, 1000, &|| false).unwrap();
        assert_eq!(
            (at_once.submissions.len(), at_once.next, at_once.is_partial),
            (listed.len(), None, false)
        );
    }
    // A list that is read at once has an end, however slow the machine is.
    for filter in &filters[11..] {
        let page = reader.page(filter, None, 1000, &|| true).unwrap();
        let listed = reader.list(filter).unwrap().count();
        if listed < 256 {
            assert_eq!(
                (page.submissions.len(), page.next, page.is_partial),
                (listed, None, false),
                "{filter:?}"
            );
        }
    }
    // Nothing before the start of the period is read.
    let later = Filter { from: Some(now() + DAY), ..all };
    let page = reader.page(&later, None, 50, &|| true).unwrap();
    assert_eq!((page.submissions.len(), page.next), (0, None));
}

#[test]
fn a_search_ignores_case_and_says_how_far_it_got() {
    let fixture = Fixture::new();
    let mut arrivals = vec![contact("Grüße aus ÄRÖ \"quoted\" \\ back"), contact("A plain NEEDLE")];
    arrivals.extend((0..600).map(|n| contact(&format!("number {n}"))));
    let first = fixture.accept_all(&arrivals[..1])[0].as_ref().unwrap().id();
    let second = fixture.accept_all(&arrivals[1..2])[0].as_ref().unwrap().id();
    assert!(fixture.accept_all(&arrivals[2..]).iter().all(Result::is_ok));
    let reader = fixture.reader();
    let search = |text: &str| read_slowly(&reader, &Filter::default(), Some(text), 10).concat();
    for text in ["gruse", "nothing of the kind", "back needle", "\"aus grusse\""] {
        assert!(search(text).is_empty(), "{text}");
    }
    for text in [
        "back grusse",
        "grusse aus aro",
        "GRÜßE",
        "grüsse",
        "gru\u{308}sse",
        "ärö",
        "\"QUOTED\"",
        "\\ BACK",
        "ÄRÖ \"quo",
    ] {
        assert_eq!(search(text), [first], "{text}");
    }
    assert_eq!(search("needle"), [second]);
    fixture.sql(
        "INSERT INTO note (id, submission, at, actor, text)
         SELECT id, id, 0, 'ada', 'Rang MÜLLER' FROM submission ORDER BY id LIMIT 1",
    );
    assert_eq!(search("muller back rang"), [first]);
    // Names of fields are not searched.
    assert!(search("message").is_empty());
    let words = SearchText::parse("needle").unwrap();
    let page = reader.page(&Filter::default(), Some(&words), 10, &|| true).unwrap();
    assert!(page.is_partial && page.submissions.is_empty() && page.next.is_some());
}

#[test]
fn the_statements_of_a_page_use_indexes() {
    let fixture = Fixture::recorded(Fresh::file);
    fixture.accept_new(&contact("one"));
    recorder::stop(&fixture.options.url);
    let connection = fixture.connection();
    let mut checked = 0;
    let open =
        Filter { is_done: Some(false), is_held: Some(false), is_spam: Some(false), ..Filter::default() };
    let filters = [
        Filter { is_unread: true, ..open.clone() },
        open,
        Filter { is_spam: Some(true), ..Filter::default() },
        Filter { is_done: Some(true), ..Filter::default() },
        Filter { form: Some("contact".to_owned()), ..Filter::default() },
    ];
    for filter in &filters {
        for statement in
            sql::search_page::statements(filter).into_iter().filter(|it| it.contains("WHERE form = ?1"))
        {
            let plan = plans::plan(&connection, &statement).concat();
            let index =
                ["unread", "open", "spam", "done", "form"].map(|name| format!("INDEX submission_{name}"));
            let at = filters.iter().position(|it| it == filter).unwrap();
            assert!(plan.contains(&index[at]), "{plan}: {statement}");
        }
    }
    for is_done in [None, Some(true), Some(false)] {
        for status in Status::ALL.into_iter().map(Some).chain([None]) {
            let filter = Filter { status, is_done, ..Filter::default() };
            for statement in sql::search_page::statements(&filter) {
                for step in plans::plan(&connection, &statement) {
                    let is_scan = step.starts_with("SCAN")
                        && !step.contains("USING")
                        && !step.contains("CONSTANT ROW")
                        && step != "SCAN found";
                    assert!(!is_scan && !step.contains("TEMP B-TREE"), "{step}: {statement}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn submissions_are_counted_by_day_and_status() {
    let fixture = Fixture::with_channels(&["box", "crm"], &["waitlist"]);
    fixture.accept_new(&contact("first"));
    fixture.accept_new(&contact("second").held_for(&[(Signal::Links, "odd")]));
    fixture.accept_new(&later(&waitlist("ada@example.com"), 2 * DAY));
    let reader = fixture.reader();
    let days: Vec<Date> = jiff::civil::date(2026, 11, 19).series(1.day()).take(5).collect();
    let count_by_day = |zone: &str| -> Vec<usize> {
        let daily = reader.daily_counts(&TimeZone::get(zone).unwrap()).unwrap();
        let of_day = |day: &Date| daily.iter().filter(|of| of.day == *day).map(|of| of.count).sum();
        days.iter().map(of_day).collect()
    };
    // They arrive at 14:03 UTC.
    assert_eq!(count_by_day("UTC"), [0, 2, 0, 1, 0]);
    assert_eq!(count_by_day("Pacific/Auckland"), [0, 0, 2, 0, 1]);
    assert_eq!(count_by_day("Asia/Kolkata"), [0, 2, 0, 1, 0]);
    assert_eq!(count_by_day("America/Los_Angeles"), [0, 2, 0, 1, 0]);
    let count = |status, most| reader.count_up_to(status, most).unwrap();
    let counts = || (count(Status::Held, 9), count(Status::Waiting, 9), count(Status::Parked, 9));
    assert_eq!(counts(), (1, 1, 0));
    fixture.sql("UPDATE delivery SET state = 'parked', due_at = NULL WHERE state = 'waiting'");
    assert_eq!(counts(), (1, 0, 1));
    assert_eq!((count(Status::Kept, 2), count(Status::Kept, 9)), (2, 3));
}

#[test]
fn the_stamp_of_a_list_changes_with_its_content() {
    let fixture = Fixture::new();
    let stamp = || fixture.reader().list_stamp().unwrap();
    let mut seen = vec![stamp()];
    assert_eq!(stamp(), seen[0]);
    let id = fixture.accept_new(&contact("one"));
    seen.push(stamp());
    fixture.editor().set_done(id, true, now()).unwrap();
    seen.push(stamp());
    assert!(fixture.editor().hold(id, "odd", now()).unwrap());
    seen.push(stamp());
    fixture.sql("DELETE FROM submission");
    seen.push(stamp());
    let different: std::collections::BTreeSet<_> = seen.iter().collect();
    assert_eq!(different.len(), seen.len(), "{seen:?}");
}

#[test]
fn a_submission_is_unread_until_it_is_opened_and_open_until_it_is_done() {
    let fixture = Fixture::new();
    let [one, two] = ["one", "two"].map(|message| fixture.accept_new(&contact(message)));
    let mut editor = fixture.editor().on_behalf_of("ada");
    let counts = || fixture.reader().count_open(9).unwrap();
    assert_eq!(counts(), [2, 2]);
    assert_eq!(fixture.reader().count_open(1).unwrap(), [1, 1]);
    assert_eq!(editor.set_seen(one, true, now()).unwrap(), Annotated::Changed);
    assert_eq!(editor.set_seen(one, true, now() + DAY).unwrap(), Annotated::Unchanged);
    assert_eq!(counts(), [2, 1]);
    assert_eq!(editor.set_done(two, true, now()).unwrap(), Annotated::Changed);
    assert_eq!(counts(), [1, 0]);
    assert_eq!(editor.set_spam(one, true, now()).unwrap(), Annotated::Changed);
    assert_eq!(editor.set_spam(one, true, now()).unwrap(), Annotated::Unchanged);
    assert_eq!(counts(), [0, 0]);
    let found = fixture.reader().annotations(&[one]).unwrap().remove(&one).unwrap();
    assert_eq!((found.seen_at, found.spam_at, found.done_at), (Some(now()), Some(now()), None));
    assert_eq!(editor.set_spam(one, false, now()).unwrap(), Annotated::Changed);
    assert_eq!(editor.set_seen(one, false, now()).unwrap(), Annotated::Changed);
    assert_eq!(counts(), [1, 1]);
    assert_eq!(editor.set_spam(Uuid::max(), true, now()).unwrap(), Annotated::Missing);
    assert_eq!(editor.set_seen(Uuid::max(), true, now()).unwrap(), Annotated::Unchanged);
    let actions = actions(&fixture);
    assert!(actions.concat().contains("not-spam"), "{actions:?}");
    // A held one that is marked as spam needs no review.
    assert!(editor.hold(one, "odd", now()).unwrap());
    assert_eq!(fixture.reader().count_up_to(Status::Held, 9).unwrap(), 1);
    editor.set_spam(one, true, now()).unwrap();
    assert_eq!(fixture.reader().count_up_to(Status::Held, 9).unwrap(), 0);
}

#[test]
fn removing_the_mark_of_spam_releases_only_what_the_mark_holds() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let [spam, held] = ["spam", "held"].map(|message| fixture.accept_new(&contact(message)));
    let reader = fixture.reader();
    let mut changes = Changes::open(&fixture.options.url, &reader, "ada").unwrap();
    // An operator may give any reason.
    assert!(changes.editor.hold(held, "marked as spam", now()).unwrap());
    for id in [spam, held] {
        assert_eq!(changes.editor.mark_spam(id, now()).unwrap(), Annotated::Changed);
        assert_eq!(fixture.status(id), Status::Held);
    }
    for id in [spam, held] {
        assert_eq!(
            changes.editor.unmark_spam(id, &fixture.options.channels, now()).unwrap(),
            Annotated::Changed
        );
    }
    assert_eq!((fixture.status(spam), fixture.status(held)), (Status::Waiting, Status::Held));
    // A release ends the hold of the mark, so removing the mark later does not end another hold.
    changes.editor.mark_spam(spam, now()).unwrap();
    changes.release(spam, &fixture.options.channels, now()).unwrap();
    assert!(changes.editor.hold(spam, "odd", now()).unwrap());
    changes.editor.unmark_spam(spam, &fixture.options.channels, now()).unwrap();
    assert_eq!(fixture.status(spam), Status::Held);
}

#[test]
fn a_mark_of_spam_and_its_hold_begin_and_end_together() {
    let fixture = Fixture::in_file_with_channels(&["crm"]);
    let id = fixture.accept_new(&contact("offer"));
    let (reader, channels) = (fixture.reader(), &fixture.options.channels);
    let mut editor = fixture.editor();
    let is_marked =
        || reader.annotations(&[id]).unwrap().get(&id).is_some_and(|found| found.spam_at.is_some());
    // The second half of each change fails: nothing of it remains.
    let fail_on = |column: &str| {
        fixture.sql(&format!(
            "CREATE TRIGGER fault BEFORE UPDATE OF {column} ON submission BEGIN SELECT RAISE(ABORT, 'full'); END"
        ));
    };
    fail_on("spam_at");
    editor.mark_spam(id, now()).unwrap_err();
    assert_eq!((is_marked(), fixture.status(id)), (false, Status::Waiting));
    fixture.sql("DROP TRIGGER fault");
    editor.mark_spam(id, now()).unwrap();
    assert_eq!((is_marked(), fixture.status(id)), (true, Status::Held));
    fail_on("released_at");
    editor.unmark_spam(id, channels, now()).unwrap_err();
    editor.undo_spam(id, channels, now()).unwrap_err();
    editor.mark_ham(id, channels, now()).unwrap_err();
    assert_eq!((is_marked(), fixture.status(id)), (true, Status::Held));
}

#[test]
fn not_spam_releases_what_screening_holds_and_no_later_hold() {
    let fixture = Fixture::with_channels(&["crm"], &[]);
    let screened = |text: &str| fixture.accept_new(&contact(text).held_for(&[(Signal::Links, "4 links")]));
    let [held, flooded, held_again, marked] = ["held", "flooded", "held again", "marked"].map(screened);
    fixture.sql("UPDATE submission SET flood = 1 WHERE CAST(fields AS text) LIKE '%flooded%'");
    let reader = fixture.reader();
    let mut changes = Changes::open(&fixture.options.url, &reader, "ada").unwrap();
    for id in [held_again, marked] {
        changes.release(id, &fixture.options.channels, now()).unwrap();
    }
    assert!(changes.editor.hold(held_again, "odd", now()).unwrap());
    changes.editor.mark_spam(marked, now()).unwrap();
    for (id, status) in [
        (held, Status::Waiting),
        (flooded, Status::Waiting),
        (held_again, Status::Held),
        (marked, Status::Waiting),
    ] {
        changes.editor.mark_ham(id, &fixture.options.channels, now()).unwrap();
        assert_eq!(fixture.status(id), status, "{id}");
    }
    // It is still a false positive of screening.
    assert!(fixture.get(held_again).screening.unwrap().withheld);
}

#[test]
fn the_forms_of_all_submissions_are_listed() {
    let fixture = Fixture::new();
    assert_eq!(fixture.reader().forms().unwrap(), [""; 0]);
    fixture.accept_new(&waitlist("ada@example.com"));
    fixture.accept_new(&contact("one"));
    fixture.accept_new(&contact("two"));
    assert_eq!(fixture.reader().forms().unwrap(), ["contact", "waitlist"]);
}

#[test]
fn views_are_saved_under_a_name() {
    let fixture = Fixture::new();
    let mut editor = fixture.editor().on_behalf_of("ada");
    assert_eq!(editor.save_view(" Big ones ", "q=budget").unwrap(), Saved::Saved);
    assert_eq!(editor.save_view("Big ones", "q=huge").unwrap(), Saved::Replaced);
    assert_eq!(editor.save_view("Big ones", "q=huge").unwrap(), Saved::Saved);
    let view = SavedView { name: "Big ones".to_owned(), query: "q=huge".to_owned(), user: "ada".to_owned() };
    assert_eq!(fixture.reader().saved_views().unwrap(), [view]);
    for name in ["", " ", "a\nb", "a\0", &"ä".repeat(MAX_VIEW_NAME + 1)] {
        assert_eq!(editor.save_view(name, "q=x").unwrap(), Saved::Invalid, "{name}");
    }
    assert_eq!(editor.save_view("long", &"x".repeat(2001)).unwrap(), Saved::Invalid);
    for n in 1..MAX_VIEWS {
        assert_eq!(editor.save_view(&n.to_string(), "").unwrap(), Saved::Saved);
    }
    assert_eq!(editor.save_view("one more", "").unwrap(), Saved::TooMany);
    assert_eq!(editor.save_view("1", "state=done").unwrap(), Saved::Replaced);
    assert!(editor.remove_view("Big ones").unwrap() && !editor.remove_view("Big ones").unwrap());
}

#[test]
fn an_undo_leaves_out_what_was_delivered_later_with_all_others() {
    let fixture = Fixture::with_channels(&["box"], &[]);
    let mut editor = fixture.editor();
    let deliver_kept = || {
        fixture.sql("DELETE FROM delivery WHERE state = 'waiting'");
        fixture.editor().deliver_kept(&fixture.options.channels, now()).unwrap()
    };
    let one = fixture.accept_new(&contact("one"));
    assert_eq!(deliver_kept(), 1);
    let undo = editor.remember_undo("{}", now()).unwrap();
    assert!(fixture.reader().changed_since(undo, &[one]).unwrap().is_empty());
    assert_eq!(fixture.claim("box", now()).len(), 1);
    fixture.sql("UPDATE attempt SET began_at = 0");
    let two = fixture.accept_new(&contact("two"));
    assert_eq!(deliver_kept(), 1);
    assert_eq!(fixture.reader().changed_since(undo, &[one, two]).unwrap(), [two]);
    let later = editor.remember_undo("{}", now()).unwrap();
    assert!(fixture.reader().changed_since(later, &[one, two]).unwrap().is_empty());
}

#[test]
fn a_change_can_be_undone_once_by_its_user_for_an_hour() {
    let fixture = Fixture::new();
    let [mut ada, mut bob] = ["ada", "bob"].map(|user| fixture.editor().on_behalf_of(user));
    let id = ada.remember_undo("{}", now()).unwrap();
    let hour = jiff::SignedDuration::from_hours(1);
    assert!(fixture.reader().can_undo(id, "ada", now()).unwrap());
    assert!(!fixture.reader().can_undo(id, "bob", now()).unwrap());
    assert!(!fixture.reader().can_undo(id, "ada", now() + hour).unwrap());
    assert_eq!(bob.take_undo(id, now()).unwrap(), None);
    assert_eq!(ada.take_undo(id, now()).unwrap(), Some("{}".to_owned()));
    assert_eq!(ada.take_undo(id, now()).unwrap(), None);
    // Later changes of other users stay.
    let [one, two] = ["one", "two"].map(|message| fixture.accept_new(&contact(message)));
    ada.set_done(one, true, now()).unwrap();
    let undo = ada.remember_undo("{}", now()).unwrap();
    bob.set_done(two, true, now()).unwrap();
    assert_eq!(fixture.reader().changed_since(undo, &[one, two]).unwrap(), [two]);
    assert!(fixture.reader().changed_since(undo, &[one]).unwrap().is_empty());
    ada.take_undo(undo, now()).unwrap();
    let ids: Vec<Uuid> = (0..30).map(|_| ada.remember_undo("{}", now()).unwrap()).collect();
    assert_eq!(fixture.count("undo"), 20);
    assert!(!fixture.reader().can_undo(ids[9], "ada", now()).unwrap());
    assert!(fixture.reader().can_undo(ids[10], "ada", now()).unwrap());
    bob.remember_undo("{}", now() + hour).unwrap();
    assert_eq!(fixture.count("undo"), 1);
}
