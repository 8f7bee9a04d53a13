//! Opinions of rspamd: deliveries wait for them for a limited time, and they mark.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::submission::delivery::SUSPICIOUS_RANK;
use crate::submission::visitor_mail::{ConfirmationRule, HourlyLimits, VisitorMail, VisitorRule};
use frontdesk_rspamd::{Content, Opinion, OpinionRequest, RspamdOptions};

const TIMEOUT: Duration = Duration::from_secs(2);
const DETAIL: &str = "rspamd: 9 of 15 points, RULE";
const PATIENCE: Duration = Duration::from_mins(2);

#[test]
fn a_delivery_waits_for_an_opinion_until_the_timeout() {
    let fixture = fixture(silent(), &[], |_| {});
    let (arrival, id) = accepted(&fixture, "Hello");
    let [delivery] = &fixture.deliveries(id)[..] else { panic!() };
    assert_eq!((delivery.state, delivery.due_at), (DeliveryState::Waiting, Some(due(&arrival) + TIMEOUT)));
    assert_eq!(fixture.opine(id, None), OpinionEffect { has_deliveries: true, ..OpinionEffect::default() });
    assert_eq!(fixture.deliveries(id)[0].due_at, Some(due(&arrival)));
    assert_eq!(fixture.opine(id, Some(&Opinion::Clean)), OpinionEffect::default(), "it is due already");
    let submission = fixture.get_one(id);
    assert_eq!((submission.status, submission.screening.unwrap().score), (Status::Waiting, 0));
}

#[test]
fn an_opinion_marks_before_the_delivery_is_due() {
    let fixture = fixture(silent(), &[VisitorMail::Acknowledgement], |_| {});
    let (arrival, id) = accepted(&fixture, "Hello");
    assert_eq!(fixture.deliveries(id).len(), 2);
    let effect = fixture.opine(id, Some(&spam()));
    assert_eq!((effect.is_marked, effect.has_deliveries), (true, true));
    let [delivery] = &fixture.deliveries(id)[..] else { panic!("the acknowledgement is removed") };
    assert_eq!((&*delivery.channel, delivery.due_at), ("box", Some(due(&arrival))));
    assert_eq!(fixture.count_rank(SUSPICIOUS_RANK), 1);
    let submission = fixture.get_one(id);
    let screening = submission.screening.unwrap();
    assert_eq!((submission.status, screening.suspicious, screening.score), (Status::Waiting, true, 50));
    assert_eq!((screening.signals().as_str(), &*screening.reasons[0].detail), ("opinion", DETAIL));
    // A second opinion changes nothing.
    assert!(!fixture.opine(id, Some(&spam())).is_marked);
    assert_eq!((fixture.get_one(id).screening.unwrap().score, fixture.count_rank(SUSPICIOUS_RANK)), (50, 1));
}

#[test]
fn a_repeat_of_a_submission_that_an_opinion_marked_is_a_repeat() {
    let fixture = fixture(silent(), &[], |_| {});
    let (arrival, id) = accepted(&fixture, "Hello");
    fixture.opine(id, Some(&spam()));
    fixture.accept_repeat(&Arrival { source: source(2), ..arrival }, id);
    assert!(fixture.get_one(id).screening.unwrap().suspicious);
}

#[test]
fn an_opinion_changes_no_decision_of_the_operator() {
    let fixture = fixture(silent(), &[], |_| {});
    let (_, spam_id) = accepted(&fixture, "called spam");
    fixture.editor().set_spam(spam_id, true, noon()).unwrap();
    let (_, released) = accepted(&fixture, "released");
    assert!(fixture.editor().hold(released, "by hand", noon()).unwrap());
    assert!(fixture.editor().release(released, &fixture.options.channels, noon()).unwrap());
    let (_, held) = accepted(&fixture, "held");
    assert!(fixture.editor().hold(held, "by hand", noon()).unwrap());
    for id in [spam_id, released, held, Uuid::nil()] {
        assert!(!fixture.opine(id, Some(&spam())).is_marked);
    }
    for id in [spam_id, released, held] {
        let screening = fixture.get_one(id).screening.unwrap();
        assert_eq!((screening.suspicious, screening.score), (false, 0));
    }
    assert_eq!(fixture.deliveries(released)[0].due_at, Some(noon()), "the release has set the time");
}

#[test]
fn below_the_threshold_an_opinion_only_adds_points() {
    let fixture = fixture(silent(), &[], |options| options.intake.screening.suspicious_threshold = 70);
    let (_, id) = accepted(&fixture, "Hello");
    assert!(!fixture.opine_with(id, Some(&spam()), 70).is_marked);
    let screening = fixture.get_one(id).screening.unwrap();
    assert_eq!((screening.suspicious, screening.score), (false, 50));
}

#[test]
fn a_visitor_of_a_marked_entry_is_not_asked_for_a_confirmation() {
    let fixture = fixture(silent(), &[VisitorMail::Confirmation], |_| {});
    let entry = waitlist("ada@example.com");
    let id = fixture.accept_new(&entry);
    assert_eq!(fixture.status(id), Status::Unconfirmed);
    assert_eq!(fixture.ask_at(due(&entry) + TIMEOUT - MILLISECOND), 0, "the mail waits for the opinion");
    assert!(fixture.opine(id, Some(&spam())).is_marked);
    assert_eq!((fixture.status(id), fixture.ask_at(noon() + DAY)), (Status::Held, 0));
    assert!(fixture.get_one(id).screening.unwrap().suspicious);
    // A repeat asks for an opinion of its own, and releases nothing.
    let again = fixture.accept_new(&later(&entry, MILLISECOND));
    assert_eq!((fixture.status(id), fixture.status(again)), (Status::Held, Status::Unconfirmed));
    // Only the operator's release asks the visitor.
    assert!(fixture.editor().release(id, &fixture.options.channels, noon()).unwrap());
    assert_eq!(fixture.status(id), Status::Unconfirmed);
}

#[test]
fn a_clean_entry_is_confirmed_as_usual() {
    let fixture = fixture(silent(), &[VisitorMail::Confirmation], |_| {});
    let entry = waitlist("ada@example.com");
    let id = fixture.accept_new(&entry);
    assert!(fixture.opine(id, Some(&Opinion::Clean)).has_confirmation);
    assert_eq!((fixture.ask_at(due(&entry)), fixture.status(id)), (1, Status::Unconfirmed));
    // The mail is queued: an opinion that comes too late withdraws it only if no attempt was made.
    fixture.sql("UPDATE delivery SET attempts = 1 WHERE channel LIKE 'visitor:%'");
    fixture.opine(id, Some(&spam()));
    assert_eq!(fixture.status(id), Status::Unconfirmed);
    assert!(fixture.get_one(id).screening.unwrap().suspicious);
}

#[test]
fn details_are_not_added_to_an_encrypted_submission() {
    let fixture = fixture(silent(), &[], |_| {});
    let (_, id) = accepted(&fixture, "Hello");
    fixture.sql("UPDATE submission SET sealed = source, fields = '{}'");
    fixture.opine(id, Some(&spam()));
    let screening = fixture.get_one(id).screening.unwrap();
    assert_eq!((screening.suspicious, &*screening.reasons[0].detail), (true, ""));
}

#[test]
fn nothing_waits_that_rspamd_is_not_asked_about() {
    let fixture = fixture(silent(), &[], |options| options.intake.confirmed_forms = vec!["contact"]);
    let (arrival, id) = accepted(&fixture, "A visitor waits for the delivery");
    assert_eq!(fixture.deliveries(id)[0].due_at, Some(due(&arrival)));
    let verdict = ScreeningVerdict { suspicious: true, ..ScreeningVerdict::default() };
    for (arrival, change) in [
        (Arrival { evidence: Evidence::Verdict(verdict), ..contact("suspicious") }, None),
        (contact("screening is off"), Some((false, vec![]))),
        (contact("opinions are ignored"), Some((true, vec![Signal::Opinion]))),
    ] {
        let mut options = fixture.options.clone();
        options.intake.confirmed_forms.clear();
        if let Some((enabled, ignored)) = change {
            (options.intake.screening.enabled, options.intake.screening.ignored) = (enabled, ignored);
        }
        fixture.store.reconfigure(&options);
        let id = fixture.accept_new(&arrival);
        assert_eq!(fixture.deliveries(id)[0].due_at, Some(due(&arrival)));
    }
}

#[test]
fn rspamd_is_asked_about_new_submissions_and_its_opinion_is_stored() {
    let reply =
        r#"{"action": "add header", "score": 9, "required_score": 15, "symbols": {"RULE": {"score": 9}}}"#;
    let (address, requests) = answering("200 OK", reply.to_owned());
    let fixture = fixture(address, &[], |_| {});
    let (arrival, id) = accepted(&fixture, "Grüße");
    let request = requests.recv_timeout(PATIENCE).unwrap();
    for part in
        ["POST /checkv2 ", &format!("queue-id: {id}\r\n"), "From: <ada@example.com>\r\n", "\r\nGrüße\r\n"]
    {
        assert!(request.contains(part), "{request}");
    }
    until(|| fixture.get_one(id).screening.unwrap().suspicious);
    assert_eq!(fixture.deliveries(id)[0].due_at, Some(due(&arrival)));
    assert_eq!(fixture.get_one(id).screening.unwrap().reasons[0].detail, DETAIL);
    // A repeat is no new submission.
    fixture.accept_repeat(&arrival, id);
    let counts = &fixture.store.intake.counts().opinions;
    assert_eq!([&counts.clean, &counts.spam, &counts.failed].map(|count| count.load(Relaxed)), [0, 1, 0]);
}

#[test]
fn a_bad_reply_is_no_opinion_and_soon_nothing_waits_any_more() {
    let huge = format!(r#"{{"action": "reject", "score": 9, "x": "{}"}}"#, "x".repeat(70_000));
    for (status, reply) in
        [("200 OK", "garbage".to_owned()), ("200 OK", huge), ("403 Forbidden", String::new())]
    {
        let fixture = fixture(answering(status, reply).0, &[], |_| {});
        let failed = || fixture.store.intake.counts().opinions.failed.load(Relaxed);
        for number in 1..=5 {
            let (arrival, id) = accepted(&fixture, &number.to_string());
            until(|| failed() == number);
            until(|| fixture.deliveries(id)[0].due_at == Some(due(&arrival)));
            assert!(!fixture.get_one(id).screening.unwrap().suspicious);
        }
        let (arrival, id) = accepted(&fixture, "in the pause");
        assert_eq!(fixture.deliveries(id)[0].due_at, Some(due(&arrival)));
        assert_eq!(failed(), 5, "nothing is asked");
    }
}

#[test]
fn what_does_not_fit_into_the_queue_does_not_wait() {
    let fixture = fixture(silent(), &[], |options| set_timeout(options, Duration::from_secs(10)));
    let arrivals: Vec<Arrival> = (0..400).map(|n| contact(&n.to_string())).collect();
    for accepted in fixture.accept_all(&arrivals) {
        accepted.unwrap();
    }
    let usual = contact("Hello").received_at.as_millisecond();
    let delayed = fixture.count(&format!("delivery WHERE due_at > {usual}"));
    // 256 wait in the queue, and eight and one are under way.
    assert!((256..=265).contains(&delayed), "{delayed}");
}

/// Options of an rspamd at this address.
fn rspamd(address: SocketAddr) -> RspamdOptions {
    let url = RspamdOptions::parse_url(&format!("http://{address}")).unwrap();
    RspamdOptions { url, password: None, timeout: TIMEOUT }
}

fn set_timeout(options: &mut Options, timeout: Duration) {
    let rspamd = options.intake.rspamd.as_deref().cloned().unwrap();
    options.intake.rspamd = Some(RspamdOptions { timeout, ..rspamd }.into());
}

/// An inbox with the channel `box`, these mails to visitors, and a clock that stands still before anything is
/// due.
fn fixture(address: SocketAddr, mails: &[VisitorMail], change: impl FnOnce(&mut Options)) -> Fixture {
    let route = |mail: &VisitorMail| {
        let is_asking = *mail == VisitorMail::Confirmation;
        let form = if is_asking { "waitlist" } else { "contact" };
        let confirm = ConfirmationRule { within: 7 * DAY, remind_after: None };
        let confirmations = is_asking.then(|| (form.to_owned(), confirm)).into_iter().collect();
        let limits = HourlyLimits { all: 100, network: None, domain: None };
        let rule = VisitorRule { mail: *mail, own_addresses: Vec::new().into(), limits, confirmations };
        Route { forms: vec![form.to_owned()], visitor: Some(rule), ..Route::new(mail.name()) }
    };
    Fixture::with_options(|options| {
        options.channels = std::iter::once(Route::new("box")).chain(mails.iter().map(route)).collect();
        options.intake.rspamd = Some(rspamd(address).into());
        options.intake.clock = || Timestamp::UNIX_EPOCH;
        change(options);
    })
}

fn accepted(fixture: &Fixture, message: &str) -> (Arrival, Uuid) {
    let arrival = contact(message);
    let id = fixture.accept_new(&arrival);
    (arrival, id)
}

/// When deliveries of a submission are usually due.
fn due(arrival: &Arrival) -> Timestamp {
    Timestamp::from_millisecond(arrival.received_at.as_millisecond()).unwrap()
}

fn spam() -> Opinion {
    Opinion::Spam(DETAIL.to_owned())
}

fn noon() -> Timestamp {
    "2026-11-20T15:00:00Z".parse().unwrap()
}

/// The address of a server that accepts connections and never answers.
fn silent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().map_while(Result::ok).collect::<Vec<_>>());
    address
}

/// The address of a server that answers each request like this, and its requests.
fn answering(status: &'static str, reply: String) -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = Vec::new();
            let mut part = [0; 4096];
            // The last field of the test's form is its message.
            while !request.ends_with(b"\r\n\r\n")
                || request.windows(4).filter(|w| w == b"\r\n\r\n").count() < 3
            {
                let length = stream.read(&mut part).unwrap_or_default();
                if length == 0 {
                    break;
                }
                request.extend_from_slice(&part[..length]);
            }
            let _ = sender.send(String::from_utf8_lossy(&request).into_owned());
            let length = reply.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{reply}"
            );
        }
    });
    (address, receiver)
}

impl Fixture {
    fn opine(&self, id: Uuid, opinion: Option<&Opinion>) -> OpinionEffect {
        self.opine_with(id, opinion, 50)
    }

    fn opine_with(&self, id: Uuid, opinion: Option<&Opinion>, marked_from: u32) -> OpinionEffect {
        let usual_due_at = contact("Hello").received_at.as_millisecond();
        let due_at = usual_due_at + i64::try_from(TIMEOUT.as_millis()).unwrap();
        let request = OpinionRequest { id, content: Content::default(), usual_due_at, due_at };
        let opinion = opinion.cloned();
        self.store
            .change_blocking(move |tx| tx.record_opinion(&request, opinion.as_ref(), marked_from))
            .unwrap()
    }

    fn get_one(&self, id: Uuid) -> Submission {
        self.reader().get(id).unwrap().unwrap()
    }

    fn count_rank(&self, rank: i64) -> i64 {
        self.count(&format!("delivery WHERE rank = {rank}"))
    }

    /// Queues the mails that are due at this time.
    fn ask_at(&self, now: Timestamp) -> usize {
        let channels = self.options.channels.clone();
        self.store.change_blocking(move |tx| tx.queue_confirmations(now, 16, &channels)).unwrap().queued
    }
}

fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(MILLISECOND);
    }
}
