//! Sessions that end at each octet: what counts as delivered, as uncertain and as failed.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::*;
use crate::smtp_peer::{Shared, converse, lock, serve};

/// The connection of a mail server that ends after a number of octets in each direction.
struct CutStream {
    inner: TcpStream,
    reads: usize,
    writes: usize,
}

impl Read for CutStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.reads);
        let count = self.inner.read(&mut buffer[..count])?;
        self.reads -= count;
        Ok(count)
    }
}

impl Write for CutStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.writes);
        if count == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = self.inner.write(&bytes[..count])?;
        self.writes -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The octets of the server's replies up to the final one.
const BEFORE_FINAL: usize = "220 peer.example.com ready\r\n250 peer.example.com\r\n250 2.1.0 fine\r\n\
     250 2.1.5 fine\r\n250 2.1.5 fine\r\n354 go ahead\r\n"
    .len();
const FINAL: usize = "250 2.0.0 taken as 4711\r\n".len();

#[tokio::test]
async fn a_reply_that_ends_at_any_octet_is_delivered_uncertain_or_failed() {
    let all = BEFORE_FINAL + FINAL;
    // The first session ends within the reply to the second recipient, and the one without it at the dot.
    let repeated = BEFORE_FINAL - "250 2.1.5 fine\r\n".len()..BEFORE_FINAL - "354 go ahead\r\n".len();
    for writes in 0..=all {
        let (outcome, copies) = send_over_cut(usize::MAX, writes).await;
        let expected = if writes >= BEFORE_FINAL + "250".len() {
            None
        } else if writes >= BEFORE_FINAL || repeated.contains(&writes) {
            Some(Cause::Uncertain)
        } else {
            Some(Cause::Channel)
        };
        assert_eq!(cause(&outcome), expected, "{writes} of {all}: {outcome:?}");
        // The normal retry schedule applies only if the server has no copy of the message.
        let has_copy = writes >= BEFORE_FINAL || repeated.contains(&writes);
        assert_eq!(copies, usize::from(has_copy), "{writes} of {all}");
    }
}

#[tokio::test]
async fn a_session_that_ends_within_a_command_or_the_message_makes_no_copy() {
    let whole = session_octets();
    let content = mail::compose(&addresses(), &notice("x")).len();
    // Each octet of the commands and of the end of the message, and some of those between.
    let (from, to) = (whole - content, whole - 16);
    let cuts = (0..whole).filter(|cut| !(from + 16..to).contains(cut) || cut % 97 == 0);
    for reads in cuts {
        let (outcome, copies) = send_over_cut(reads, usize::MAX).await;
        assert!(cause(&outcome).is_some(), "{reads} of {whole}: {outcome:?}");
        assert_eq!(copies, 0, "{reads} of {whole}");
    }
    let (outcome, copies) = send_over_cut(whole, usize::MAX).await;
    assert_eq!((cause(&outcome), copies), (None, 1), "{outcome:?}");
}

/// The octets that the client sends up to the final dot.
fn session_octets() -> usize {
    let message = mail::compose(&addresses(), &notice("x"));
    assert!(!message.windows(3).any(|octets| octets == b"\r\n."), "no dot is doubled");
    let commands: usize = [
        "EHLO example.com",
        "MAIL FROM:<desk@example.com>",
        "RCPT TO:<team@example.com>",
        "RCPT TO:<\"the boss\"@[192.0.2.7]>",
        "DATA",
        ".",
    ]
    .iter()
    .map(|line| line.len() + 2)
    .sum();
    commands + message.len()
}

/// Sends a message to a server whose connection ends after these octets. Returns the outcome and the number
/// of messages whose final dot arrived.
async fn send_over_cut(reads: usize, writes: usize) -> (Outcome, usize) {
    let record = Shared::default();
    let shared = Arc::clone(&record);
    let address = serve(move |inner, _| {
        let _ = converse(CutStream { inner, reads, writes }, &Script::usual(), &shared, true);
    });
    let smtp = Smtp::new(SmtpOptions { port: address.port(), ..bare_options() });
    let outcome = smtp.send(&notice("x")).await;
    let copies = lock(&record).received.len();
    (outcome, copies)
}

fn cause(outcome: &Outcome) -> Option<Cause> {
    match outcome {
        Outcome::Delivered(_) => None,
        Outcome::Failed(failure) => Some(failure.cause),
    }
}
