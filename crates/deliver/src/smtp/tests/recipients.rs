//! Servers that end the session because of one recipient: the others get the message, once.

use super::*;
use frontdesk_inbox::submission::delivery_outcome::Recipients;

const TEAM: &str = "team@example.com";
const BOSS: &str = "\"the boss\"@[192.0.2.7]";

#[tokio::test]
async fn a_session_that_ends_at_a_recipient_does_not_stop_the_others() {
    for (reply, cause, words) in [
        (
            "421 4.7.0 Too many errors",
            Cause::Notification,
            "421 4.7.0 Too many errors; delivered to the other recipients",
        ),
        ("", Cause::Notification, "451 the connection was closed; delivered to the other recipients"),
        ("550 5.1.1 unknown", Cause::Refused, "550 5.1.1 unknown; delivered to the other recipients"),
        ("450 4.2.1 busy", Cause::Notification, "450 4.2.1 busy; delivered to the other recipients"),
    ] {
        for (refused, other) in [(TEAM, BOSS), (BOSS, TEAM)] {
            let script = Script::usual().answering_recipient(refused, reply).closing_at_refusals();
            let peer = SmtpPeer::start(vec![script]);
            let smtp = channel(&peer);
            let outcome = smtp.send(&notice("x")).await;
            check_outcome(&outcome, cause, &format!("not delivered to {refused}: {words}"));
            let Outcome::Failed(AttemptFailure { recipients, .. }) = outcome else { panic!("{outcome:?}") };
            let expected = Recipients { reached: vec![other.to_owned()], missing: vec![refused.to_owned()] };
            assert_eq!(recipients, Some(expected), "{reply}");
            let record = peer.record();
            assert_eq!(record.received.len(), 1, "{reply}");
            assert_eq!(record.received[0].to, [other], "{reply}");
            assert_eq!(record.connections, 2, "{reply}");
        }
    }
}

#[tokio::test]
async fn a_session_that_ends_at_each_recipient_is_given_up() {
    for (what, cause, words) in [
        (Do::Say("421 4.3.2 shutting down"), Cause::Deferred, "421 4.3.2 shutting down (RCPT, "),
        (Do::Close, Cause::Channel, "RCPT: the connection was closed (recipients: "),
    ] {
        let peer = SmtpPeer::start(vec![Script::with(At::Rcpt, what)]);
        let outcome = channel(&peer).send(&notice("x")).await;
        check_outcome(&outcome, cause, words);
        check_outcome(&outcome, cause, &format!("{TEAM}, {BOSS}"));
        assert_eq!(peer.record().connections, 2);
        assert!(peer.record().received.is_empty());
    }
    // A server that refuses the client afterwards.
    let closing = Script::usual().answering_recipient(TEAM, "421 4.7.0 no").closing_at_refusals();
    let peer = SmtpPeer::start(vec![closing, Script::with(At::Greeting, Do::Say("421 4.7.0 too fast"))]);
    check_outcome(&channel(&peer).send(&notice("x")).await, Cause::Deferred, "421 4.7.0 too fast");
    assert_eq!(peer.record().connections, 2);
}

#[tokio::test]
async fn a_repeated_transaction_without_a_reply_is_uncertain() {
    let closing = Script::usual().answering_recipient(TEAM, "421 4.7.0 no").closing_at_refusals();
    let peer = SmtpPeer::start(vec![closing.clone(), closing.leaving_unanswered(1)]);
    let outcome = channel(&peer).send(&notice("x")).await;
    check_outcome(&outcome, Cause::Uncertain, "it may have been accepted");
    let record = peer.record();
    assert_eq!((record.connections, record.received.len()), (2, 1));
}

#[tokio::test]
async fn of_many_recipients_up_to_two_may_end_the_session() {
    let to = ["a@example.com", "b@example.com", "c@example.com", "d@example.com"];
    for (bad, connections) in [(1, 2), (2, 3), (3, 3)] {
        let ending = |script: Script, to: &&'static str| script.answering_recipient(to, "421 4.7.0 no");
        let script = to[..bad].iter().fold(Script::usual().closing_at_refusals(), ending);
        let peer = SmtpPeer::start(vec![script]);
        let outcome = channel(&peer).send_message("desk@example.com", &to, b"x", false).await;
        assert_eq!(outcome.has_reached_anyone(), bad < 3, "{outcome:?}");
        assert_eq!(peer.record().connections, connections);
        assert_eq!(peer.record().received.len(), usize::from(bad < 3));
        check_outcome(
            &outcome,
            if bad < 3 { Cause::Notification } else { Cause::Deferred },
            &to[..bad].join(", "),
        );
    }
}
