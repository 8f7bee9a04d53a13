//! What went wrong in an SMTP dialogue, where, and whose fault that is: a decision without I/O.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use lettre::transport::smtp;

use crate::forms::text::visible;
use crate::submission::outcome::{Cause, Outcome};

/// The most characters of a server's own words that are kept, so that what we say beside them is not cut off.
const MAX_REPLY_CHARS: usize = 200;

/// A step of the dialogue (RFC 5321 §3), in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The name is looked up and a connection opened.
    Connect,
    /// The handshake of a connection that is under TLS from the start (RFC 8314).
    Tls,
    /// The server speaks first.
    Greeting,
    /// We say who we are, and the server what it can do.
    Ehlo,
    /// Command, handshake, and EHLO once more (RFC 3207).
    StartTls,
    /// The login (RFC 4954).
    Auth,
    /// The envelope's sender.
    Mail,
    /// The envelope's recipients.
    Rcpt,
    /// The server is asked to take the message.
    Data,
    /// The message itself and the final dot. Without an answer nobody knows whether it was taken.
    Message,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Connect => "connecting",
            Phase::Tls => "the TLS handshake",
            Phase::Greeting => "the greeting",
            Phase::Ehlo => "EHLO",
            Phase::StartTls => "STARTTLS",
            Phase::Auth => "AUTH",
            Phase::Mail => "MAIL",
            Phase::Rcpt => "RCPT",
            Phase::Data => "DATA",
            Phase::Message => "the message",
        })
    }
}

/// Why a dialogue did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Where.
    pub phase: Phase,
    /// What.
    pub what: What,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The server refused: the reply's code, and its text with the enhanced code (RFC 2034) if it has one.
    Refusal(u16, String),
    /// Nothing came within this time.
    Silence(Duration),
    /// The connection, or what was said on it, was not what it must be; in a few words.
    Broken(String),
}

impl Trouble {
    /// What the library says, read for what matters here.
    pub fn of(phase: Phase, error: &smtp::Error) -> Trouble {
        let words = error.source().map(ToString::to_string).unwrap_or_default();
        let what = match error.status() {
            Some(code) => What::Refusal(code.into(), words),
            // The library's words for the end of the stream.
            None if words == "incomplete response" => What::Broken("the connection was closed".to_owned()),
            None if error.is_response() => What::Broken("the answer is not SMTP".to_owned()),
            None if words.is_empty() => What::Broken(error.to_string()),
            None => What::Broken(words),
        };
        Trouble { phase, what }
    }

    /// In a few words of ours.
    pub fn broken(phase: Phase, words: impl Into<String>) -> Trouble {
        Trouble { phase, what: What::Broken(words.into()) }
    }

    /// Whose fault it is. The code decides, and whether the server has seen the message.
    pub fn cause(&self) -> Cause {
        match (self.phase, &self.what) {
            // What it has read may be the reason.
            (Phase::Message, What::Silence(_) | What::Broken(_)) => Cause::Unclear,
            // Greylisting, a rate limiter, a busy mailbox: the next message may pass.
            (_, What::Refusal(400..=499, _)) => Cause::Deferred,
            (Phase::Message, What::Refusal(500..=599, text)) if is_about_the_system(text) => Cause::Channel,
            (Phase::Message, What::Refusal(500..=599, _)) => Cause::Refused,
            _ => Cause::Channel,
        }
    }

    /// Whether a connection that was idle before may simply have died: then the message has not been handed over, and a fresh
    /// connection can tell.
    pub fn may_be_age(&self) -> bool {
        self.phase != Phase::Message && self.is_of_connection()
    }

    /// Whether nothing more can be said on this connection, not even QUIT.
    pub fn is_of_connection(&self) -> bool {
        !matches!(self.what, What::Refusal(code, _) if code != 421)
    }

    /// What the operator is told about it; `server` is the host and port.
    pub fn outcome(&self, server: &str) -> Outcome {
        let phase = self.phase;
        let sentence = match &self.what {
            What::Refusal(code, text) => format!("{code} {} ({phase}, {server})", reply_text(text)),
            What::Silence(limit) if phase == Phase::Message => format!(
                "no answer from {server} within {limit:?} after the message: nobody knows whether it was taken"
            ),
            What::Silence(limit) => format!("no answer from {server} to {phase} within {limit:?}"),
            What::Broken(words) if phase == Phase::Message => {
                format!(
                    "{server}: {}, after the message: nobody knows whether it was taken",
                    reply_text(words)
                )
            }
            What::Broken(words) => format!("{server}, {phase}: {}", reply_text(words)),
        };
        Outcome::failed(self.cause(), sentence)
    }
}

/// Whether a reply's enhanced status code (RFC 3463, RFC 5248), the first word of its text, is about the state of a mailbox or a mail
/// system and not about the message. Servers send such codes with a 5xx as well, though the same message would pass later: 5.4.5 when a
/// day's quota is used up (Gmail), 5.2.2 when the mailbox is full.
fn is_about_the_system(text: &str) -> bool {
    let code = text.split_whitespace().next().unwrap_or_default();
    let mut numbers = code.split('.').map(|number| number.parse::<u16>().ok());
    let (class, subject, detail) =
        (numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten());
    let is_code = matches!(class, Some(4 | 5)) && numbers.next().is_none();
    is_code
        && matches!(
            (subject, detail),
            // The mailbox is disabled or full; the system is full, accepts nothing or is not set up.
            (Some(2), Some(1 | 2)) | (Some(3), Some(1 | 2 | 5))
            // Anything about the network, routing, congestion and quotas.
            | (Some(4), Some(_))
            // Exchange Online: the day's recipients are used up; the tenant has exceeded its threshold.
            | (Some(1), Some(90)) | (Some(7), Some(705))
        )
}

/// A server's words on one line, with nothing in them that could steer a terminal, and not too many.
pub fn reply_text(text: &str) -> String {
    visible(text.trim()).chars().take(MAX_REPLY_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_before_the_message_are_the_channels_fault_or_deferrals() {
        for phase in [
            Phase::Connect,
            Phase::Tls,
            Phase::Greeting,
            Phase::Ehlo,
            Phase::StartTls,
            Phase::Auth,
            Phase::Mail,
            Phase::Rcpt,
            Phase::Data,
        ] {
            for code in [500, 535, 550, 554] {
                check(phase, code, Cause::Channel);
            }
            for code in [421, 450, 451, 452, 454] {
                check(phase, code, Cause::Deferred);
            }
        }
    }

    #[test]
    fn only_a_server_that_has_seen_the_message_refuses_it_for_good() {
        check(Phase::Message, 421, Cause::Deferred);
        check(Phase::Message, 452, Cause::Deferred);
        check(Phase::Message, 552, Cause::Refused);
        check(Phase::Message, 554, Cause::Refused);
    }

    #[test]
    fn a_full_mailbox_or_a_used_up_quota_is_not_the_messages_fault() {
        let cause =
            |text: &str| Trouble { phase: Phase::Message, what: What::Refusal(550, text.to_owned()) }.cause();
        for text in [
            "5.4.5 Daily user sending limit exceeded.",
            "4.4.5",
            "5.2.2 mailbox full",
            "5.3.1 no space",
            "5.1.90 Your message can't be sent",
            "5.7.705",
        ] {
            assert_eq!(cause(text), Cause::Channel, "{text}");
        }
        for text in [
            "",
            "no",
            "quota 5.4.5",
            "5.4",
            "2.4.5 x",
            "5.4.5.1 x",
            "5.7.1 spam",
            "5.2.3 too long for the mailbox",
            "5.3.4 too long",
            "5.6.0 content",
        ] {
            assert_eq!(cause(text), Cause::Refused, "{text}");
        }
    }

    #[test]
    fn silence_is_the_channels_fault_unless_it_follows_the_message() {
        for (phase, cause) in [
            (Phase::Connect, Cause::Channel),
            (Phase::Rcpt, Cause::Channel),
            (Phase::Data, Cause::Channel),
            (Phase::Message, Cause::Unclear),
        ] {
            for what in [What::Silence(Duration::from_secs(20)), What::Broken("closed".to_owned())] {
                assert_eq!(Trouble { phase, what }.cause(), cause);
            }
        }
    }

    #[test]
    fn a_servers_words_are_on_one_line_and_steer_nothing() {
        let trouble = Trouble {
            phase: Phase::Rcpt,
            what: What::Refusal(550, format!("5.1.1 \u{1b}[2Jno\r\nsuch\u{202e} user {}", "x".repeat(1000))),
        };
        let Outcome::Failed(failure) = trouble.outcome("mail.example.com:25") else { panic!("it failed") };
        assert!(
            failure.answer.starts_with(r"550 5.1.1 \u{1b}[2Jno⏎such\u{202e} user xxx"),
            "{}",
            failure.answer
        );
        assert!(failure.answer.ends_with("x (RCPT, mail.example.com:25)"), "{}", failure.answer);
    }

    #[track_caller]
    fn check(phase: Phase, code: u16, cause: Cause) {
        let trouble = Trouble { phase, what: What::Refusal(code, String::new()) };
        assert_eq!(trouble.cause(), cause, "{code} to {phase}");
    }
}
