//! Tests of the SMTP channel against a scripted mail server.

use std::time::Instant;

use super::*;
use crate::corpus;
use crate::notification::Topic;
use crate::port::Port;
use crate::smtp_peer::{At, Do, Script, SmtpPeer};
use frontdesk_inbox::submission::delivery_outcome::AttemptFailure;

mod dialects;
mod faults;
mod recipients;
mod tls;

/// Time limit for peers that reply. Long enough for a local peer on a busy machine.
const PATIENT: Duration = Duration::from_secs(30);

/// Time limit for peers that do not reply.
const IMPATIENT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_notification_arrives_with_its_envelope() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let smtp = channel(&peer);
    assert_eq!(smtp.send(&notice("Hello.")).await, Outcome::Delivered("250 2.0.0 taken as 4711".to_owned()));
    let record = peer.record();
    assert_eq!(
        record.commands[..3],
        ["EHLO example.com", "MAIL FROM:<desk@example.com>", "RCPT TO:<team@example.com>"]
    );
    assert_eq!(record.received[0].from, "desk@example.com");
    assert_eq!(record.received[0].to, ["team@example.com", "\"the boss\"@[192.0.2.7]"]);
    assert_eq!(record.received[0].message(), mail::compose(&addresses(), &notice("Hello.")));
}

#[tokio::test]
async fn no_payload_changes_the_session_and_each_arrives_unchanged() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let smtp = channel(&peer);
    let notices: Vec<Notification> = corpus::payloads().iter().map(|payload| notice(payload)).collect();
    assert!(notices.len() >= 500);
    for notice in &notices {
        assert!(matches!(smtp.send(notice).await, Outcome::Delivered(_)), "{:?}", notice.fields);
    }
    let record = peer.record();
    assert_eq!(record.received.len(), notices.len());
    for (received, notice) in record.received.iter().zip(&notices) {
        assert_eq!(received.message(), mail::compose(&addresses(), notice), "{:?}", notice.fields);
        assert_eq!(received.to.len(), 2);
    }
    let expected = ["EHLO example.com", "MAIL FROM:<desk@example.com>", "RCPT TO:<team@example.com>"];
    let others = ["RCPT TO:<\"the boss\"@[192.0.2.7]>", "DATA", "QUIT"];
    assert!(
        record
            .commands
            .iter()
            .all(|line| expected.contains(&line.as_str()) || others.contains(&line.as_str()))
    );
}

#[tokio::test]
async fn dots_arrive_unchanged_at_any_position() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let options = options(&peer);
    let ready = load_roots(&options).expect("TLS can be set up");
    let ends = tokio::time::Instant::now() + PATIENT * 4;
    let mut session = SmtpSession::open(&options, &ready, ends).await.expect("a connection");
    let messages = [
        ".\r\n",
        "..\r\n",
        ".\r\n.\r\n.\r\n",
        "a\r\n.\r\nQUIT\r\n",
        "\r\n.\r\n",
        ".a\r\n..b\r\n...c\r\n",
        "a.\r\n.",
        "\r\n\r\n\r\n..\r\n\r\n",
    ];
    let long = format!("{}\r\n.\r\n", ".\r\n".repeat(20_000));
    for message in messages.into_iter().chain([long.as_str()]) {
        let to = ["team@example.com"];
        let sent = session
            .transmit("desk@example.com", &to, &mut Vec::new(), message.as_bytes(), options.deadlines, ends)
            .await;
        sent.expect("accepted");
        let whole = format!("{}\r\n", message.strip_suffix("\r\n").unwrap_or(message));
        let received = peer.record().received.pop().expect("the message has arrived").message();
        assert!(received == whole.as_bytes(), "{} octets", message.len());
    }
}

#[tokio::test]
async fn a_refusal_before_the_message_counts_against_the_channel() {
    for at in [At::Greeting, At::Ehlo, At::Mail, At::Rcpt, At::Data] {
        let answer = "554 5.7.1 go away";
        check(Script::with(at, Do::Say(answer)).and(At::Helo, Do::Say("554 no")), Cause::Channel, answer)
            .await;
    }
    for at in [At::Greeting, At::Ehlo, At::Mail] {
        let answer = "451 4.3.0 not now";
        check(Script::with(at, Do::Say(answer)), Cause::Deferred, answer).await;
    }
}

#[tokio::test]
async fn a_4xx_to_a_recipient_or_a_message_defers_it() {
    check(Script::with(At::Rcpt, Do::Say("450 4.2.1 busy")), Cause::Deferred, "450 4.2.1 busy (RCPT, ").await;
    check(Script::with(At::Data, Do::Say("451 4.3.0 later")), Cause::Deferred, "451 4.3.0 later (DATA, ")
        .await;
    check(Script::with(At::End, Do::Say("452 4.3.1 full")), Cause::Deferred, "452 4.3.1 full (the message, ")
        .await;
}

#[tokio::test]
async fn a_5xx_to_the_message_refuses_it_for_good() {
    let answer = "554-5.7.1 no\r\n554 5.7.1 spam";
    check(Script::with(At::End, Do::Say(answer)), Cause::Refused, "554 5.7.1 no spam (the message, ").await;
}

#[tokio::test]
async fn a_421_closes_the_connection_and_defers() {
    for at in [At::Greeting, At::Ehlo, At::Mail, At::Data, At::End] {
        check(
            Script::with(at, Do::Say("421 4.3.2 shutting down")),
            Cause::Deferred,
            "421 4.3.2 shutting down",
        )
        .await;
    }
}

#[tokio::test]
async fn a_closed_connection_is_retried_later() {
    for at in [At::Greeting, At::Ehlo, At::Mail, At::Data] {
        check(Script::with(at, Do::Close), Cause::Channel, "the connection was closed").await;
    }
    check(Script::with(At::End, Do::Close), Cause::Uncertain, "it may have been accepted").await;
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let phases = [
        (At::Greeting, "to the greeting within 5s"),
        (At::Ehlo, "to EHLO within 5s"),
        (At::Mail, "to MAIL within 5s"),
        (At::Rcpt, "to RCPT within 5s"),
        (At::Data, "to DATA within 5s"),
    ];
    // Run concurrently, because each check takes five seconds.
    let mut checks = tokio::task::JoinSet::new();
    for (at, words) in phases {
        checks.spawn(check_with_short_deadlines(Script::with(at, Do::Nothing), words));
    }
    checks.spawn(check_with_short_deadlines(Script::with(At::End, Do::Nothing), "it may have been accepted"));
    checks.spawn(check_with_short_deadlines(
        Script::with(At::Mail, Do::Raw(b"250 2.1.0 hal")),
        "to MAIL within 5s",
    ));
    checks.join_all().await;
}

#[tokio::test]
async fn a_reply_that_is_not_smtp_counts_against_the_channel() {
    // Run concurrently, because each check waits for more lines.
    let mut checks = tokio::task::JoinSet::new();
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n"[..],
        b"\xff\xfe\r\n",
        b"250-one\r\n550 two\r\n",
        b"999 x\r\n",
        b"\r\n",
    ] {
        checks.spawn(check(Script::with(At::Mail, Do::Raw(bytes)), Cause::Channel, "MAIL"));
        checks.spawn(check(
            Script::with(At::End, Do::Raw(bytes)),
            Cause::Uncertain,
            "it may have been accepted",
        ));
    }
    checks.join_all().await;
}

#[tokio::test]
async fn a_positive_reply_with_the_wrong_code_is_an_error() {
    check(Script::with(At::Data, Do::Say("250 2.0.0 taken")), Cause::Channel, "unexpected reply 250").await;
    check(Script::with(At::Mail, Do::Say("354 go ahead")), Cause::Channel, "unexpected reply 354").await;
    check(Script::with(At::End, Do::Say("354 go ahead")), Cause::Uncertain, "unexpected reply 354").await;
}

#[tokio::test]
async fn a_reply_of_unlimited_length_is_refused() {
    for what in [Do::EndlessLine, Do::EndlessLines] {
        check(Script::with(At::Ehlo, what.clone()), Cause::Channel, "the reply is longer than 32 KiB").await;
        // After the final dot, the code of the first line decides.
        let peer = SmtpPeer::start(vec![Script::with(At::End, what)]);
        assert!(matches!(channel(&peer).send(&notice("x")).await, Outcome::Delivered(_)));
    }
}

#[tokio::test]
async fn a_slow_reply_is_accepted() {
    let peer = SmtpPeer::start(vec![Script::with(At::End, Do::Late(Duration::from_millis(300)))]);
    assert!(matches!(channel(&peer).send(&notice("x")).await, Outcome::Delivered(_)));
}

#[tokio::test]
async fn an_accepted_message_is_delivered_even_if_quit_fails() {
    for what in [Do::Close, Do::Nothing, Do::Say("500 5.0.0 no")] {
        let peer = SmtpPeer::start(vec![Script::with(At::Quit, what)]);
        let mut smtp = channel(&peer);
        smtp.options.deadlines.quit = IMPATIENT;
        for _ in 0..MAX_MESSAGES {
            assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
        }
        let has_quit = || peer.record().commands.last().map(String::as_str) == Some("QUIT");
        let began = Instant::now();
        while !has_quit() {
            assert!(began.elapsed() < PATIENT, "{:?}", peer.record().commands);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(peer.record().connections, 1);
    }
}

#[tokio::test]
async fn a_greylisted_notification_is_accepted_later() {
    let peer = SmtpPeer::start(vec![Script::usual().greylisting()]);
    let smtp = channel(&peer);
    check_outcome(&smtp.send(&notice("x")).await, Cause::Deferred, "refused: team@example.com, \"the boss\"");
    assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    assert_eq!(peer.record().received.len(), 1);
}

#[tokio::test]
async fn connections_are_reused_up_to_a_limit() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let smtp = channel(&peer);
    for _ in 0..=MAX_MESSAGES {
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    }
    assert_eq!(peer.record().connections, 2);
    assert_eq!(peer.record().received.len(), MAX_MESSAGES as usize + 1);
}

#[tokio::test]
async fn a_connection_that_was_idle_for_too_long_is_not_reused() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let mut smtp = channel(&peer);
    smtp.options.deadlines.idle = Duration::ZERO;
    for _ in 0..3 {
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    }
    assert_eq!(peer.record().connections, 3);
}

#[tokio::test]
async fn a_connection_that_closed_while_idle_is_replaced_at_once() {
    let peer = SmtpPeer::start(vec![Script::usual().closing_after(1)]);
    let smtp = channel(&peer);
    for _ in 0..5 {
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    }
    assert_eq!(peer.record().connections, 5);
    assert_eq!(peer.record().received.len(), 5);
}

#[tokio::test]
async fn a_connection_is_replaced_once_and_never_after_the_message() {
    let closing = Script::with(At::Mail, Do::Close);
    let peer = SmtpPeer::start(vec![Script::usual().closing_after(1), closing]);
    let smtp = channel(&peer);
    assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    assert!(matches!(smtp.send(&notice("x")).await, Outcome::Failed(_)));
    assert_eq!(peer.record().connections, 2);

    let peer = SmtpPeer::start(vec![Script::usual().leaving_unanswered(2)]);
    let smtp = channel(&peer);
    assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    check_outcome(&smtp.send(&notice("x")).await, Cause::Uncertain, "it may have been accepted");
    assert_eq!(peer.record().connections, 1);
    assert_eq!(peer.record().received.len(), 2);
}

#[tokio::test]
async fn a_refused_recipient_does_not_stop_the_others() {
    let boss = "\"the boss\"@[192.0.2.7]";
    for (reply, cause) in [
        ("550 5.1.1 no such mailbox", Cause::Refused),
        ("452 4.2.2 full", Cause::Notification),
        ("550 4.7.1 Greylisted", Cause::Notification),
        // Too many recipients (RFC 5321 §4.5.3.1.10).
        ("552 too many recipients", Cause::Notification),
        ("550 5.5.3 Too many recipients", Cause::Notification),
    ] {
        let peer = SmtpPeer::start(vec![Script::usual().answering_recipient("team@example.com", reply)]);
        let smtp = channel(&peer);
        let outcome = smtp.send(&notice("x")).await;
        check_outcome(&outcome, cause, "not delivered to team@example.com: ");
        assert!(outcome.has_reached_anyone());
        let Outcome::Failed(AttemptFailure { recipients: Some(recipients), answer, .. }) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(answer.contains(&reply[3..]) && answer.contains("250 2.0.0 taken"), "{answer}");
        assert_eq!(
            (recipients.reached.clone(), recipients.missing),
            (vec![boss.to_owned()], vec!["team@example.com".to_owned()])
        );
        assert_eq!(peer.record().received[0].to, [boss]);
        // A retry goes only to the recipient that does not have the message.
        peer.follow(vec![Script::usual()]);
        smtp.idle.lock().expect("no thread panicked").clear();
        assert!(matches!(smtp.send_except(&notice("x"), &recipients.reached).await, Outcome::Delivered(_)));
        assert_eq!(peer.record().received[1].to, ["team@example.com"]);
        let all = ["team@example.com".to_owned(), boss.to_owned()];
        assert!(matches!(smtp.send_except(&notice("x"), &all).await, Outcome::Delivered(_)));
        assert_eq!(peer.record().received.len(), 2, "no recipient is left");
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_name_of_this_machine_gets_its_address() {
    let script = Script::usual().refusing_name("example.com").offering("AUTH PLAIN");
    for with_login_or_not in [|options| options, with_login] {
        let peer = SmtpPeer::start(vec![script.clone()]);
        let smtp = Smtp::new(with_login_or_not(options(&peer)));
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
        assert_eq!(peer.record().commands[..2], ["EHLO example.com", "EHLO [127.0.0.1]"]);
    }
    let peer = SmtpPeer::start(vec![script.clone()]);
    let helo = Some("web.example.com".to_owned());
    let smtp = Smtp::new(SmtpOptions { helo, ..options(&peer) });
    assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    assert_eq!(peer.record().commands[..2], ["EHLO web.example.com", "MAIL FROM:<desk@example.com>"]);
    let refuses_both = Script::with(At::Ehlo, Do::Say("550 Bad HELO")).and(At::Helo, Do::Close);
    check(refuses_both, Cause::Channel, "550 Bad HELO (EHLO, ").await;
}

#[tokio::test]
async fn a_message_without_any_accepted_recipient_names_all_of_them() {
    let script = Script::with(At::Rcpt, Do::Say("550 5.1.1 unknown"));
    check(script, Cause::Channel, "; refused: team@example.com, \"the boss\"@[192.0.2.7])").await;
    let one_later = Script::usual()
        .refusing("team@example.com")
        .answering_recipient("\"the boss\"@[192.0.2.7]", "451 4.3.0 later");
    check(one_later, Cause::Deferred, "451 4.3.0 later (RCPT, ").await;
}

#[tokio::test]
async fn helo_follows_a_refused_ehlo() {
    for reply in ["500 5.5.1 unknown", "502 not implemented", "554 no"] {
        let peer = SmtpPeer::start(vec![Script::with(At::Ehlo, Do::Say(reply))]);
        assert!(matches!(channel(&peer).send(&notice("x")).await, Outcome::Delivered(_)));
        let mut expected = vec!["EHLO example.com", "HELO example.com"];
        if reply.starts_with("554") {
            expected.insert(1, "EHLO [127.0.0.1]");
        }
        assert_eq!(peer.record().commands[..expected.len()], expected);
        // A login and STARTTLS need EHLO.
        let smtp = Smtp::new(with_login(options(&peer)));
        check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "(EHLO, ");
    }
    let refuses_both = Script::with(At::Ehlo, Do::Say("500 what?")).and(At::Helo, Do::Say("550 go away"));
    check(refuses_both, Cause::Channel, "500 what? (EHLO, ").await;
}

#[tokio::test]
async fn any_prompts_of_auth_login_are_accepted() {
    for prompts in [["VXNlciBuYW1lOg==", "RW50ZXIgcGFzc3dvcmQ6"], ["", ""], ["not base64", "\u{e9}"]] {
        let peer = SmtpPeer::start(vec![Script::usual().offering("auth login").prompting(prompts)]);
        let smtp = Smtp::new(with_login(options(&peer)));
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)), "{prompts:?}");
        assert_eq!(peer.record().commands[1..4], ["AUTH LOGIN", "dXNlcg==", "cGFzc3dvcmQ="]);
    }
}

#[tokio::test]
async fn auth_login_follows_a_refused_auth_plain() {
    for refusal in ["502 Invalid input", "504 5.7.4 unknown", "535 Login fail", "553 5.3.0 Auth failure"] {
        let script = Script::with(At::AuthPlain, Do::Say(refusal)).offering("AUTH LOGIN PLAIN");
        let peer = SmtpPeer::start(vec![script]);
        let smtp = Smtp::new(with_login(options(&peer)));
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)), "{refusal}");
        assert_eq!(peer.record().commands[2..5], ["AUTH LOGIN", "dXNlcg==", "cGFzc3dvcmQ="]);
    }
    for (script, words) in [
        (Script::with(At::Auth, Do::Say("535 5.7.8 wrong")).offering("AUTH PLAIN LOGIN"), "535 5.7.8 wrong"),
        (Script::with(At::AuthPlain, Do::Say("454 4.7.0 later")).offering("AUTH PLAIN LOGIN"), "454 4.7.0"),
        (Script::with(At::AuthPlain, Do::Say("535 no")).offering("AUTH PLAIN"), "535 no (AUTH, "),
        (
            Script::with(At::AuthPlain, Do::Say("535 no"))
                .and(At::Auth, Do::Close)
                .offering("AUTH PLAIN LOGIN"),
            "535 no (AUTH, ",
        ),
    ] {
        let peer = SmtpPeer::start(vec![script]);
        let Outcome::Failed(failure) = Smtp::new(with_login(options(&peer))).send(&notice("x")).await else {
            panic!("{words}")
        };
        assert!(failure.answer.contains(words), "{words}: {}", failure.answer);
    }
}

#[tokio::test]
async fn a_greeting_with_two_codes_is_quoted() {
    let greeting = b"220-mx.example.org ESMTP\r\n521 5.7.1 Client host blocked\r\n";
    check(Script::with(At::Greeting, Do::Raw(greeting)), Cause::Channel, "521 5.7.1 Client host blocked")
        .await;
}

#[tokio::test]
async fn two_replies_to_a_message_do_not_confuse_the_next_one() {
    let peer = SmtpPeer::start(vec![Script::with(At::End, Do::Raw(b"250\r\n250 Ok 4711\r\n"))]);
    let smtp = channel(&peer);
    for _ in 0..3 {
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    }
    let record = peer.record();
    assert_eq!((record.connections, record.received.len()), (1, 3));
}

#[tokio::test]
async fn a_server_that_ignores_the_token_of_auth_plain_gets_it_again() {
    let peer = SmtpPeer::start(vec![Script::usual().offering("AUTH=PLAIN").prompting(["", ""])]);
    let smtp = Smtp::new(with_login(options(&peer)));
    assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
    assert_eq!(peer.record().commands[1..3], ["AUTH PLAIN AHVzZXIAcGFzc3dvcmQ=", "AHVzZXIAcGFzc3dvcmQ="]);
}

#[tokio::test]
async fn a_token_that_is_longer_than_a_command_follows_in_its_own_line() {
    let peer = SmtpPeer::start(vec![Script::usual().offering("AUTH PLAIN")]);
    for (length, is_one_line) in [(366, true), (367, false)] {
        let login = SmtpLogin { username: "user".to_owned(), password: "x".repeat(length).into() };
        let smtp = Smtp::new(SmtpOptions { login: Some(login), ..options(&peer) });
        assert!(matches!(smtp.send(&notice("x")).await, Outcome::Delivered(_)));
        let commands = std::mem::take(&mut peer.record().commands);
        assert!(commands.iter().all(|line| line.len() <= 510 || line.starts_with("AHVzZXI")));
        assert_eq!((commands[1] != "AUTH PLAIN", commands[1].len() <= 510), (is_one_line, true));
        assert_eq!(commands[2].starts_with("AHVzZXI"), !is_one_line);
    }
}

#[tokio::test]
async fn notifications_may_be_sent_concurrently() {
    let peer = SmtpPeer::start(vec![Script::usual()]);
    let smtp = Arc::new(channel(&peer));
    let mut sending = tokio::task::JoinSet::new();
    for number in 0..20 {
        let smtp = Arc::clone(&smtp);
        sending.spawn(async move { smtp.send(&notice(&format!("number {number}"))).await });
    }
    assert!(sending.join_all().await.iter().all(|outcome| matches!(outcome, Outcome::Delivered(_))));
    assert_eq!(peer.record().received.len(), 20);
    assert!(smtp.idle.lock().expect("no thread panicked").len() <= MAX_IDLE);
}

#[tokio::test]
async fn a_whole_attempt_times_out() {
    let peer = SmtpPeer::start(vec![Script::with(At::Mail, Do::Nothing)]);
    let mut smtp = channel(&peer);
    smtp.options.deadlines.attempt = IMPATIENT;
    let started = Instant::now();
    check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "to MAIL within ");
    assert!(started.elapsed() < PATIENT);
    let deadlines = SmtpDeadlines::default();
    assert!(
        deadlines.attempt + deadlines.message + deadlines.quit
            < frontdesk_inbox::submission::delivery_outcome::LONGEST_ATTEMPT
    );
}

#[tokio::test]
async fn a_closed_port_counts_against_the_channel() {
    let port = Port::reserve();
    let smtp = Smtp::new(SmtpOptions { port: port.number(), ..bare_options() });
    check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, "connecting: Connection refused");
}

#[tokio::test]
async fn without_tls_only_this_machine_is_connected_to() {
    let smtp = Smtp::new(SmtpOptions { host: "192.0.2.1".to_owned(), ..bare_options() });
    check_outcome(
        &smtp.send(&notice("x")).await,
        Cause::Channel,
        "only connections to this machine are allowed",
    );
}

#[tokio::test]
async fn the_login_uses_a_mechanism_that_the_server_offers() {
    // As specified in RFC 4616: a NUL, the name, a NUL and the password.
    let peer = SmtpPeer::start(vec![Script::usual().offering("AUTH PLAIN LOGIN")]);
    assert!(matches!(Smtp::new(with_login(options(&peer))).send(&notice("x")).await, Outcome::Delivered(_)));
    assert_eq!(peer.record().commands[1], "AUTH PLAIN AHVzZXIAcGFzc3dvcmQ=");

    let peer = SmtpPeer::start(vec![Script::usual().offering("AUTH LOGIN")]);
    assert!(matches!(Smtp::new(with_login(options(&peer))).send(&notice("x")).await, Outcome::Delivered(_)));
    assert_eq!(peer.record().commands[1..4], ["AUTH LOGIN", "dXNlcg==", "cGFzc3dvcmQ="]);
}

#[tokio::test]
async fn a_failed_login_counts_against_the_channel_and_shows_no_secret() {
    for (script, words) in [
        (
            Script::with(At::Auth, Do::Say("535 5.7.8 wrong")).offering("AUTH PLAIN"),
            "535 5.7.8 wrong (AUTH, ",
        ),
        (
            Script::with(At::Auth, Do::Say("535 5.7.8 wrong")).offering("AUTH LOGIN"),
            "535 5.7.8 wrong (AUTH, ",
        ),
        (
            Script::with(At::Auth, Do::Say("500 unknown: \"AUTH PLAIN AHVzZXIAcGFzc3dvcmQ=\""))
                .offering("AUTH PLAIN"),
            "500 unknown: \"AUTH PLAIN …\" (AUTH, ",
        ),
        (
            Script::with(At::Auth, Do::Say("500 unknown: AHVzZXIAcGFz...AcGFzc3dvcmQ= AHVzZXIAcGFzc3dvcm"))
                .offering("AUTH PLAIN"),
            "500 unknown: …...A… … (AUTH, ",
        ),
        (
            Script::with(At::Auth, Do::Say("535-no\r\n434 AHVzZXIAcGFzc3dvcmQ=")).offering("AUTH PLAIN"),
            "differs is: 434 …",
        ),
        (
            Script::with(At::Auth, Do::Say("500 unknown: cGFzc3dvcmQ=")).offering("AUTH LOGIN"),
            "500 unknown: … (AUTH, ",
        ),
        (Script::usual(), "AUTH"),
    ] {
        let peer = SmtpPeer::start(vec![script]);
        let smtp = Smtp::new(with_login(options(&peer)));
        check_outcome(&smtp.send(&notice("x")).await, Cause::Channel, words);
        assert!(!format!("{:?}", smtp.options).contains("password\""), "{:?}", smtp.options);
        assert!(peer.record().received.is_empty());
    }
}

fn with_login(options: SmtpOptions) -> SmtpOptions {
    let login = SmtpLogin { username: "user".to_owned(), password: "password".to_owned().into() };
    SmtpOptions { login: Some(login), ..options }
}

pub(super) fn bare_options() -> SmtpOptions {
    SmtpOptions {
        host: "127.0.0.1".to_owned(),
        port: 25,
        tls: SmtpTls::None,
        login: None,
        helo: None,
        addresses: addresses(),
        extra_roots: None,
        deadlines: SmtpDeadlines {
            connect: PATIENT,
            tls: PATIENT,
            command: PATIENT,
            reused: PATIENT,
            message: PATIENT,
            quit: PATIENT,
            attempt: PATIENT * 2,
            idle: PATIENT * 4,
        },
    }
}

fn options(peer: &SmtpPeer) -> SmtpOptions {
    SmtpOptions { port: peer.address.port(), ..bare_options() }
}

fn channel(peer: &SmtpPeer) -> Smtp {
    Smtp::new(options(peer))
}

fn addresses() -> MailAddresses {
    let to = ["team@example.com", "\"the boss\"@[192.0.2.7]"].map(str::to_owned);
    MailAddresses::new("desk@example.com", "", &to).expect("valid addresses")
}

fn notice(message: &str) -> Notification {
    Notification {
        is_suspicious: false,
        may_be_there: true,
        id: "01940000-0000-7000-8000-000000000001".parse().expect("an id"),
        topic: Topic::Submission,
        created_at: "2026-11-20T14:03:05.120Z".parse().expect("a time"),
        dated_at: "2026-11-20T14:03:05.120Z".parse().expect("a time"),
        form: Some("contact".to_owned()),
        definition: None,
        title: format!("Contact: {message}"),
        lines: Vec::new(),
        fields: ["name", "email", "message"].map(|name| (name.to_owned(), message.into())).into(),
        lead: frontdesk_forms::LeadSource::default(),
    }
}

/// Checks how an attempt on a new connection fails, and that the client does not open a second connection.
async fn check(script: Script, cause: Cause, words: &str) {
    let peer = SmtpPeer::start(vec![script.clone()]);
    let outcome = channel(&peer).send(&notice("x")).await;
    check_outcome(&outcome, cause, words);
    assert_eq!(peer.record().connections, 1, "{script:?}");
}

async fn check_with_short_deadlines(script: Script, words: &'static str) {
    let peer = SmtpPeer::start(vec![script]);
    let mut smtp = channel(&peer);
    smtp.options.deadlines.command = IMPATIENT;
    smtp.options.deadlines.message = IMPATIENT;
    let cause = if words.contains("accepted") { Cause::Uncertain } else { Cause::Channel };
    check_outcome(&smtp.send(&notice("x")).await, cause, words);
}

#[track_caller]
fn check_outcome(outcome: &Outcome, cause: Cause, words: &str) {
    let Outcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.cause, cause, "{}", failure.answer);
    assert!(failure.answer.contains(words), "{:?} lacks {words:?}", failure.answer);
    assert!(!failure.answer.contains(|c: char| c.is_control()), "{}", failure.answer);
}
