//! The meaning of each reply. Each row has one channel, and all channels receive the same submission.

use std::time::Duration;

use frontdesk_inbox::submission::delivery::{Delivery, DeliveryState};
use uuid::Uuid;

use crate::support::channel_site::{ChannelSite, is_patient, smtp, webhook};
use crate::support::http_peer::{HttpPeer, Reply};
use crate::support::port::Port;
use crate::support::smtp_peer::At::{Auth, Data, Ehlo, End, Greeting, Helo, Mail, Quit, Rcpt, StartTls};
use crate::support::smtp_peer::Do::{Close, EndlessLine, EndlessLines, Raw, Say};
use crate::support::smtp_peer::{At, Do, Script, SmtpPeer};

/// The state of a delivery after its first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    Delivered,
    /// Retried; the channel is at fault.
    Channel,
    /// Retried; the channel works but rejected this notification.
    Notification,
    /// Retried once after an hour: the receiver may have accepted this notification.
    Uncertain,
    /// Retried after at least this many seconds, as the receiver asked.
    Asked(i64),
    /// Parked because of this notification.
    Refused,
    /// Parked, and the channel is disabled.
    Gone,
}

use Becomes::{Asked, Channel, Delivered, Gone, Notification, Refused, Uncertain};

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_answer_of_a_mail_server_has_its_meaning() {
    let usual = || (Script::usual(), "");
    let at = |at: At, what: Do| (Script::with(at, what), "");
    let rows = vec![
        ("usual", usual(), Delivered),
        ("quit-421", at(Quit, Say("421 no time")), Delivered),
        ("quit-500", at(Quit, Say("500 what?")), Delivered),
        ("quit-close", at(Quit, Close), Delivered),
        ("greeting-421", at(Greeting, Say("421 too busy")), Channel),
        ("greeting-554", at(Greeting, Say("554 not you")), Channel),
        ("greeting-close", at(Greeting, Close), Channel),
        ("greeting-http", at(Greeting, Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")), Channel),
        ("greeting-endless", at(Greeting, EndlessLine), Channel),
        ("ehlo-502", at(Ehlo, Say("502 never heard of it")), Delivered),
        ("helo-502", (Script::with(Ehlo, Say("502 what?")).and(Helo, Say("502 what?")), ""), Channel),
        ("ehlo-close", at(Ehlo, Close), Channel),
        ("ehlo-endless", at(Ehlo, EndlessLines), Channel),
        ("starttls-not-offered", (Script::usual(), "tls = \"starttls\""), Channel),
        (
            "starttls-454",
            (Script::with(StartTls, Say("454 not now")).offering("STARTTLS"), "tls = \"starttls\""),
            Channel,
        ),
        (
            "auth-535",
            (Script::with(Auth, Say("535 5.7.8 wrong")).offering("AUTH PLAIN LOGIN"), LOGIN),
            Channel,
        ),
        ("auth-454", (Script::with(Auth, Say("454 later")).offering("AUTH PLAIN LOGIN"), LOGIN), Channel),
        ("auth-not-offered", (Script::usual(), LOGIN), Channel),
        ("auth", (Script::usual().offering("AUTH PLAIN LOGIN"), LOGIN), Delivered),
        ("mail-421", at(Mail, Say("421 bye")), Channel),
        ("mail-451", at(Mail, Say("451 later")), Channel),
        ("mail-550", at(Mail, Say("550 not from you")), Channel),
        ("mail-close", at(Mail, Close), Channel),
        ("rcpt-421", at(Rcpt, Say("421 bye")), Channel),
        ("rcpt-450", at(Rcpt, Say("450 4.2.1 busy")), Channel),
        ("rcpt-451", at(Rcpt, Say("451 4.7.1 greylisted")), Channel),
        ("rcpt-452", at(Rcpt, Say("452 4.2.2 full")), Channel),
        ("rcpt-550", at(Rcpt, Say("550 5.1.1 nobody")), Channel),
        ("rcpt-close", at(Rcpt, Close), Channel),
        ("data-421", at(Data, Say("421 bye")), Channel),
        ("data-451", at(Data, Say("451 later")), Channel),
        ("data-554", at(Data, Say("554 no")), Channel),
        ("data-250", at(Data, Say("250 fine")), Channel),
        ("data-close", at(Data, Close), Channel),
        ("end-421", at(End, Say("421 bye")), Channel),
        ("end-452", at(End, Say("452 no room for Grace Hopper <grace@example.org>")), Channel),
        ("end-552", at(End, Say("552 too long, Grace Hopper")), Refused),
        ("end-550-quota", at(End, Say("550 5.4.5 daily quota exceeded")), Channel),
        ("end-554", at(End, Say("554 5.7.1 spam")), Refused),
        ("end-354", at(End, Say("354 more")), Uncertain),
        ("end-close", at(End, Close), Uncertain),
        ("end-garbled", at(End, Raw(b"\xff\xfe\0\r\n")), Uncertain),
        // The code of these replies can be read.
        ("end-endless", at(End, EndlessLines), Delivered),
        ("end-gbk", at(End, Raw(b"250 \xd3\xca\xbc\xfe\r\n")), Delivered),
        ("end-bare", at(End, Raw(b"250\r\n")), Delivered),
        ("end-half", at(End, Raw(b"250 2.0.0 ta")), Delivered),
    ];
    // Silence takes minutes; the unit tests of the channel have shorter limits.
    let peers: Vec<_> =
        rows.iter().map(|(_, (script, _), _)| SmtpPeer::start(vec![script.clone()])).collect();
    let mut channels: Vec<_> = rows
        .iter()
        .zip(&peers)
        .map(|((name, (_, more), becomes), peer)| (*name, smtp(name, peer.address.port(), more), *becomes))
        .collect();
    let nobody = Port::reserve();
    channels.push(("nobody", smtp("nobody", nobody.number(), ""), Channel));
    let (site, id) = check(&channels);
    // Only a 2xx reply to the final dot counts: until then, the receiver is not responsible for the message.
    for ((name, ..), peer) in rows.iter().zip(&peers) {
        let has_message = !peer.record().received.is_empty();
        assert_eq!(
            has_message,
            name.starts_with("end-") || site.delivery(id, name).state == DeliveryState::Delivered
        );
    }
}

const LOGIN: &str = "username = \"desk\"\npassword = \"secret\"";

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_answer_of_a_webhook_has_its_meaning() {
    let elsewhere = HttpPeer::start([Reply::status(200)]);
    let redirect = |status| Reply::with(status, "Location", &elsewhere.url("/"));
    let huge = |status| Reply::LongBody { status, bytes: 10 << 30 };
    let raw = |text: &str| Reply::Raw(text.as_bytes().to_vec());
    let mut rows: Vec<(&str, Reply, &str, Becomes)> = vec![
        ("w200", Reply::status(200), "", Delivered),
        ("w204", Reply::status(204), "", Delivered),
        ("w299-huge", huge(299), "", Delivered),
        ("w301", redirect(301), "", Channel),
        ("w302", redirect(302), "", Channel),
        ("w303", redirect(303), "", Channel),
        ("w304", Reply::status(304), "", Channel),
        ("w307", redirect(307), "", Channel),
        ("w308", redirect(308), "", Channel),
        ("w400", Reply::saying(400, "no, Grace Hopper <grace@example.org>!"), "", Notification),
        ("w401", Reply::status(401), "", Channel),
        ("w403", Reply::status(403), "", Channel),
        ("w404", Reply::status(404), "", Channel),
        ("w407", Reply::status(407), "", Channel),
        ("w410", Reply::status(410), "", Gone),
        ("w413", Reply::status(413), "", Notification),
        ("w421", Reply::status(421), "", Channel),
        ("w422", Reply::status(422), "", Notification),
        ("w426", Reply::status(426), "", Channel),
        ("w429", Reply::status(429), "", Channel),
        ("w429-hour", Reply::with(429, "Retry-After", "3600"), "", Asked(3600)),
        // The schedule's own delay is longer.
        ("w429-second", Reply::with(429, "Retry-After", "1"), "", Channel),
        ("w429-year", Reply::with(429, "Retry-After", "31536000"), "", Asked(24 * 3600)),
        ("w499", Reply::status(499), "", Notification),
        ("w500", Reply::saying(500, "Grace Hopper"), "", Channel),
        ("w500-huge", huge(500), "", Channel),
        ("w503-minute", Reply::with(503, "Retry-After", "60"), "", Asked(60)),
        (
            "w101",
            raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            "",
            Channel,
        ),
        ("w600", raw("HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n"), "", Channel),
        ("no-http", raw("w220 mail.example.com ESMTP\r\n"), "", Channel),
        ("close-before", Reply::CloseBeforeRequest, "", Channel),
        ("close-after", Reply::CloseAfterRequest, "", Channel),
        ("half-header", Reply::HalfHeader, "", Delivered),
        ("endless-header", Reply::EndlessHeaders, "", Delivered),
        ("folded", raw("HTTP/1.1 200 OK\r\nX: a\r\n  b\r\nContent-Length: 0\r\n\r\n"), "", Delivered),
        ("template", Reply::status(200), FAILS_ON_HOPPER, Notification),
    ];
    if is_patient() {
        rows.extend([
            ("w200-stalled", Reply::StalledBody { status: 200 }, "", Delivered),
            ("w500-stalled", Reply::StalledBody { status: 500 }, "", Channel),
            ("w200-slow", Reply::late(200, Duration::from_secs(8)), "", Delivered),
            ("silence", Reply::Silence, "", Channel),
            ("drip", Reply::HeaderDrip { every: Duration::from_millis(100) }, "", Delivered),
            ("interim", Reply::EndlessInterim, "", Channel),
        ]);
    }
    let peers: Vec<_> = rows.iter().map(|(_, reply, ..)| HttpPeer::start([reply.clone()])).collect();
    let mut channels: Vec<_> = rows
        .iter()
        .zip(&peers)
        .map(|((name, _, more, becomes), peer)| (*name, webhook(name, &peer.url("/in"), more), *becomes))
        .collect();
    let plain = HttpPeer::start([Reply::CloseBeforeRequest]);
    let tls = plain.url("/").replace("http:", "https:");
    channels.push(("no-tls", webhook("no-tls", &tls, ""), Channel));
    let nobody = Port::reserve();
    let url = format!("http://{}/", nobody.address());
    channels.push(("nobody", webhook("nobody", &url, ""), Channel));
    let (site, _) = check(&channels);
    assert_eq!(elsewhere.connections(), 0, "no redirect is followed");
    assert!(plain.connections() > 0 && plain.requests().is_empty(), "nothing is sent without TLS");
    let sent: u64 = peers.iter().map(HttpPeer::sent).sum();
    let most = peak_memory(site.server.pid());
    eprintln!("{} MiB of endless answers were sent, the server never had more than {most} MiB", sent >> 20);
    assert!(most < 200, "{most} MiB");
}

/// A template that divides by zero if the visitor's name has twelve characters, such as Grace Hopper.
const FAILS_ON_HOPPER: &str = r#"body = '{ "x": {{ 1 // ((fields.name or "Ada") | length - 12) }} }'"#;

/// Peak memory of a process, in MiB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it says so");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// Sends one submission to all channels and checks the result of the first attempt in each.
fn check(channels: &[(&str, String, Becomes)]) -> (ChannelSite, Uuid) {
    let text: String = channels.iter().map(|(_, text, _)| text.as_str()).collect();
    let site = ChannelSite::open(&text, &[]);
    let id = site.submit(1);
    for (name, _, becomes) in channels {
        // State and attempts are read one after the other, so the state may be older than the end of the
        // attempt.
        let has_ended = |delivery: &Delivery| {
            let is_recorded = delivery.state != DeliveryState::Sending || delivery.attempts.len() > 1;
            is_recorded && delivery.attempts.first().is_some_and(|first| first.end.is_some())
        };
        let delivery = site.wait_for(id, name, has_ended);
        let first = delivery.attempts[0].end.as_ref().expect("it has ended");
        let took = first.at.duration_since(delivery.attempts[0].began_at).as_millis();
        if took > 5000 {
            eprintln!("{name}: the attempt took {took} ms");
        }
        let what = format!("{name}: {delivery:#?}");
        let is_delivered = (*becomes != Uncertain).then_some(*becomes == Delivered);
        assert_eq!(first.delivered, is_delivered, "{what}");
        let blame = site.blame(id, name);
        match becomes {
            Delivered => assert_eq!((delivery.state, blame), (DeliveryState::Delivered, None), "{what}"),
            Refused => {
                assert_eq!(
                    (delivery.state, blame.as_deref()),
                    (DeliveryState::Parked, Some("notice")),
                    "{what}"
                );
            }
            Gone => {
                assert_eq!(
                    (delivery.state, blame.as_deref()),
                    (DeliveryState::Parked, Some("channel")),
                    "{what}"
                );
                let off = site.wait_for(id, name, |delivery| delivery.obstacle.is_some());
                assert!(off.obstacle.is_some_and(|obstacle| obstacle.off), "{what}");
            }
            Channel | Notification | Uncertain | Asked(_) => {
                let (expected, seconds): (&[&str], i64) = match becomes {
                    Asked(seconds) => (&["asked"], *seconds),
                    Notification => (&["notice"], 4),
                    Uncertain => (&["uncertain"], 3600),
                    _ => (&["channel", "unclear"], 4),
                };
                assert!(blame.is_some_and(|blame| expected.contains(&&*blame)), "{what}");
                // The time of the next attempt, or of the second one if it has already begun.
                let next = match delivery.attempts.get(1) {
                    Some(second) => second.began_at,
                    None => delivery.due_at.expect("it waits"),
                };
                let wait = next.duration_since(first.at).as_secs();
                assert!(wait >= seconds, "{wait} s, {what}");
                if delivery.attempts.len() == 1 {
                    assert!(wait <= seconds + 2, "{wait} s, {what}");
                }
                assert!(matches!(delivery.state, DeliveryState::Waiting | DeliveryState::Sending), "{what}");
            }
        }
    }
    site.assert_discreet();
    eprintln!("{} rows hold", channels.len());
    (site, id)
}
