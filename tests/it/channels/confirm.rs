//! `accept = "delivered"`: 200 once a channel has delivered the submission, otherwise 500 within a bounded
//! time. A resent form remains one submission.

use std::time::Instant;

use frontdesk_inbox::submission::delivery::DeliveryState;
use jiff::Timestamp;

use crate::support::channel_site::{ChannelSite, maildir, until, webhook};
use crate::support::http_peer::{HttpPeer, Reply};

const DELIVERED: [(&str, &str); 2] =
    [("FRONTDESK_FORMS__CONTACT__ACCEPT", "delivered"), ("FRONTDESK_FORMS__CONFIRM_TIMEOUT", "1s")];

#[test]
fn accept_delivered_answers_200_once_a_channel_has_the_submission() {
    let failing = HttpPeer::start([Reply::status(500)]);
    let mailbox = tempfile::tempdir().expect("a folder");
    let channels =
        [webhook("failing", &failing.url("/"), ""), maildir("box", &mailbox.path().join("box"))].concat();
    // Enough time to store the message, even on a slow disk.
    let patient = ("FRONTDESK_FORMS__CONFIRM_TIMEOUT", "15s");
    let site = ChannelSite::open(&channels, &[DELIVERED[0], patient]);
    for number in 0..5 {
        assert_eq!(site.post(number).status, 200, "one of two is enough");
        let id = site.id(number);
        assert_eq!(site.delivery(id, "box").state, DeliveryState::Delivered, "by the time of its answer");
    }
}

#[test]
fn accept_delivered_answers_500_until_a_channel_has_the_submission() {
    let failing = HttpPeer::start([Reply::status(500), Reply::status(200)]);
    let site = ChannelSite::open(&webhook("failing", &failing.url("/"), ""), &DELIVERED);
    let began = Instant::now();
    let answer = site.post(1);
    eprintln!("answered after {:?}", began.elapsed());
    assert_eq!(answer.status, 500);
    assert_eq!(answer.json().as_object().map(serde_json::Map::len), Some(1), "exactly an error");
    let id = site.id(1);
    let mut sent = 1;
    until(|| {
        sent += 1;
        (site.post(1).status == 200).then_some(())
    })
    .expect("it gets its 200 once it is delivered");
    assert_eq!(site.post(1).status, 200, "and again");
    assert_eq!(site.id(1), id, "it is one submission");
    let inbox = site.server.inbox();
    assert_eq!(inbox.len(), 1);
    assert_eq!(inbox[0]["_repeats"], sent, "each repetition is counted");
    let requests = failing.requests();
    assert_eq!(requests.len(), 2, "one that failed and one that did not");
    assert!(requests.iter().all(|request| request.header("webhook-id") == Some(&*id.to_string())));
    site.assert_discreet();
}

#[test]
fn a_hanging_peer_delays_the_response_by_a_bounded_time() {
    let silent = HttpPeer::start([Reply::Silence]);
    let site = ChannelSite::open(&webhook("silent", &silent.url("/"), ""), &DELIVERED);
    assert_eq!(site.post(1).status, 500);
    // The response did not wait for the end of the attempt.
    let delivery = site.delivery(site.id(1), "silent");
    assert_eq!((delivery.state, delivery.attempts.len()), (DeliveryState::Sending, 1), "{delivery:#?}");
    assert_eq!(site.server.get("/", &[]).status, 200);
}

#[test]
fn a_held_submission_is_never_reported_as_delivered() {
    let mailbox = tempfile::tempdir().expect("a folder");
    let site = ChannelSite::open(&maildir("box", &mailbox.path().join("box")), &DELIVERED);
    let contact = |note: Option<&str>| {
        let mut body = serde_json::json!({ "name": "Ada", "email": "ada@example.com", "message": "Hello" });
        if let Some(note) = note {
            body["desk_note"] = note.into();
        }
        site.server.post("/api/contact", &body).status
    };
    assert_eq!(contact(Some("https://spam.example.com")), 500, "it is held, so no channel has delivered it");
    assert_eq!(contact(Some("https://spam.example.com")), 500, "a repeat is also held");
    assert_eq!(site.server.inbox()[0]["status"], "held");
    assert_eq!(contact(None), 200, "a repeat that is not held releases it");
    assert_eq!((site.server.inbox().len(), &site.server.inbox()[0]["status"]), (1, &"delivered".into()));
}

#[test]
fn a_submission_held_by_hand_stays_held_and_its_repeat_is_delivered() {
    let failing = HttpPeer::start([Reply::status(400)]);
    let site = ChannelSite::open(&webhook("failing", &failing.url("/"), ""), &DELIVERED);
    assert_eq!(site.post(1).status, 500);
    let id = site.id(1);
    assert!(site.editor().hold(id, "to be looked at", Timestamp::now()).expect("it can be written"));
    site.wait_for(id, "failing", |delivery| delivery.state == DeliveryState::Held);
    let before = failing.requests().len();
    failing.follow([Reply::status(200)]);
    assert_eq!(site.post(1).status, 200, "a repeat of a manually held submission is delivered");
    assert_eq!(site.delivery(id, "failing").state, DeliveryState::Held);
    assert_eq!(failing.requests().len(), before + 1);
    assert!(site.editor().release(id, &[], Timestamp::now()).expect("it can be written"));
    site.wait_for(id, "failing", |delivery| delivery.state == DeliveryState::Delivered);
    assert_eq!(failing.requests().len(), before + 2);
    assert_eq!(site.post(1).status, 200);
    assert_eq!(failing.requests().len(), before + 2);
}
