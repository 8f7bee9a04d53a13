//! Classifies SMTP errors by the phase of the session, the kind of failure, and the cause that the retry
//! schedule uses.

use std::time::Duration;

use super::enhanced_code::{cause_of_refusal, concerns_account, enhanced_code, is_temporary, names_sender};
use frontdesk_forms::text::{cut, visible};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome, Recipients};
use frontdesk_inbox::submission::named_enum;

/// Maximum length of a quoted reply, in characters. Leaves room for the command and the server's name within
/// [`frontdesk_inbox::submission::delivery_outcome::MAX_ANSWER_CHARS`].
const MAX_REPLY_CHARS: usize = 200;

/// Maximum length in characters of a server's reply in a text that also lists recipients.
const MAX_RECIPIENT_REPLY_CHARS: usize = 100;

/// The description of a failed STARTTLS if the server does not offer STARTTLS.
pub const NOT_OFFERED: &str = "the server does not offer it";

/// The description of a failed login if the server offers no mechanism that this client supports. If the
/// server offers others, these follow.
pub const NO_LOGIN: &str = "the server offers neither PLAIN nor LOGIN";

named_enum! {
    /// A step of an SMTP session (RFC 5321 §3), in order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SmtpPhase {
        /// The DNS lookup and the TCP connection.
        Connect = "connecting",
        /// The handshake of implicit TLS (RFC 8314).
        Tls = "the TLS handshake",
        Greeting = "the greeting",
        Ehlo = "EHLO",
        /// The STARTTLS command, the handshake, and the second EHLO (RFC 3207).
        StartTls = "STARTTLS",
        /// The login (RFC 4954).
        Auth = "AUTH",
        Mail = "MAIL",
        Rcpt = "RCPT",
        Data = "DATA",
        /// The message without the final dot, so the server cannot have accepted it.
        Content = "the content of the message",
        /// The final dot. Without a reply, the client cannot know whether the server accepted the message.
        Message = "the message",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpError {
    pub phase: SmtpPhase,
    pub kind: SmtpErrorKind,
    /// Whether the connection cannot be used after this reply: the rest of the reply is missing, or the
    /// server closed the connection during the message.
    pub is_cut_off: bool,
    /// The recipients that a server refused, if it refused all of them or ended the session because of them.
    pub recipients: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmtpErrorKind {
    /// A negative reply: its code, and its text, which begins with the enhanced status code (RFC 2034) if the
    /// server sends one.
    Refusal(u16, String),
    /// The server did not reply within this time.
    Silence(Duration),
    /// A failed connection or a violation of the protocol, with a short description.
    Broken(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRecipient {
    pub address: String,
    /// The reply code, from 400 to 599.
    pub code: u16,
    pub text: String,
}

impl RefusedRecipient {
    /// The recipient whose RCPT failed with `error`. A missing reply and a broken connection count as the
    /// code 451 (RFC 5321 §3.8), and 552 as 452, because older servers refuse too many recipients with 552
    /// (RFC 5321 §4.5.3.1.10).
    pub fn new(address: &str, error: &SmtpError) -> RefusedRecipient {
        let (code, text) = match &error.kind {
            SmtpErrorKind::Refusal(552, text) => (452, text.clone()),
            SmtpErrorKind::Refusal(code, text) => (*code, text.clone()),
            SmtpErrorKind::Silence(limit) => (451, format!("no reply within {limit:?}")),
            SmtpErrorKind::Broken(words) => (451, words.clone()),
        };
        RefusedRecipient { address: address.to_owned(), code, text }
    }

    fn is_temporary(&self) -> bool {
        is_temporary(self.code, &self.text)
    }
}

impl SmtpError {
    pub fn new(phase: SmtpPhase, kind: SmtpErrorKind) -> SmtpError {
        SmtpError { phase, kind, is_cut_off: false, recipients: Vec::new() }
    }

    pub fn broken(phase: SmtpPhase, words: impl Into<String>) -> SmtpError {
        SmtpError::new(phase, SmtpErrorKind::Broken(words.into()))
    }

    pub fn silence(phase: SmtpPhase, limit: Duration) -> SmtpError {
        SmtpError::new(phase, SmtpErrorKind::Silence(limit))
    }

    /// The error for a message whose recipients were all refused. Quotes a temporary refusal rather than a
    /// final one, so that the message is retried if any recipient may be accepted later.
    pub fn refused_recipients(refused: Vec<RefusedRecipient>) -> SmtpError {
        let reply = refused.iter().find(|recipient| recipient.is_temporary()).or(refused.first());
        let (code, text) = reply.map_or((550, String::new()), |reply| (reply.code, reply.text.clone()));
        let recipients = refused.into_iter().map(|recipient| recipient.address).collect();
        SmtpError { recipients, ..SmtpError::new(SmtpPhase::Rcpt, SmtpErrorKind::Refusal(code, text)) }
    }

    /// The cause. A 4xx reply is deferred, and so is a temporary refusal of a recipient with a 5xx reply. For
    /// a 5xx reply to the message, the cause follows from the enhanced status code. If the connection breaks
    /// or the server is silent, the cause is uncertain after the final dot, and unclear during the content.
    /// All other errors concern the channel.
    pub fn cause(&self) -> Cause {
        match (self.phase, &self.kind) {
            (SmtpPhase::Message, SmtpErrorKind::Silence(_) | SmtpErrorKind::Broken(_)) => Cause::Uncertain,
            // The server may have failed because of the message's content.
            (SmtpPhase::Content, SmtpErrorKind::Silence(_) | SmtpErrorKind::Broken(_)) => Cause::Unclear,
            // Greylisting, a rate limit, a busy mailbox: the server may accept the next message.
            (_, SmtpErrorKind::Refusal(400..=499, _)) => Cause::Deferred,
            (SmtpPhase::Rcpt, SmtpErrorKind::Refusal(code, text)) if is_temporary(*code, text) => {
                Cause::Deferred
            }
            (SmtpPhase::Message, SmtpErrorKind::Refusal(500..=599, text)) => cause_of_refusal(text),
            _ => Cause::Channel,
        }
    }

    /// Like [`SmtpError::cause`] for a message to a visitor. The visitor chose the recipient, so a refused
    /// recipient does not count against the channel; words that may be about the recipient are unclear.
    fn cause_for_visitor(&self) -> Cause {
        match (self.phase, &self.kind) {
            (SmtpPhase::Rcpt, SmtpErrorKind::Refusal(code, text)) => match enhanced_code(text) {
                _ if is_temporary(*code, text) || concerns_account(text) => Cause::Notification,
                // The cause is not the mailbox, but a limit or a policy, such as a ban on relaying.
                Some((_, 3.., _)) => Cause::Notification,
                _ => Cause::Refused,
            },
            (SmtpPhase::Message, SmtpErrorKind::Refusal(500..=599, text)) if names_sender(text) => {
                Cause::Unclear
            }
            _ => self.cause(),
        }
    }

    /// Whether the failure ended the connection before any of the message was sent, so that the transaction
    /// can be repeated over another one. The server may have closed an idle connection, or ended the session
    /// because of a recipient.
    pub fn is_repeatable(&self) -> bool {
        !matches!(self.phase, SmtpPhase::Content | SmtpPhase::Message) && self.breaks_connection()
    }

    /// Whether the connection is unusable, even for QUIT: after any error except a complete negative reply
    /// other than 421.
    pub fn breaks_connection(&self) -> bool {
        self.is_cut_off || !matches!(self.kind, SmtpErrorKind::Refusal(code, _) if code != 421)
    }

    /// Returns the failure in the form that the inbox records. `server` is the host and port. For a mail to a
    /// visitor, omits the recipients; a refused recipient does not count against the channel.
    pub fn outcome(&self, server: &str, is_to_visitor: bool) -> Outcome {
        let phase = self.phase;
        // Omit the recipient of a mail to a visitor: it is the submission's own address.
        let recipients = if is_to_visitor { String::new() } else { self.recipients.join(", ") };
        let sentence = match &self.kind {
            SmtpErrorKind::Refusal(code, text) if recipients.is_empty() => {
                format!("{code} {} ({phase}, {server})", reply_text(text))
            }
            SmtpErrorKind::Refusal(code, text) => {
                let text = reply_text(text);
                let text = cut(&text, MAX_RECIPIENT_REPLY_CHARS);
                format!("{code} {text} ({phase}, {server}; refused: {recipients})")
            }
            SmtpErrorKind::Silence(limit) if phase == SmtpPhase::Message => format!(
                "no reply from {server} within {limit:?} after the message; it may have been accepted"
            ),
            SmtpErrorKind::Silence(limit) if !recipients.is_empty() => {
                format!("no reply from {server} to {phase} within {limit:?} (recipients: {recipients})")
            }
            SmtpErrorKind::Silence(limit) => format!("no reply from {server} to {phase} within {limit:?}"),
            SmtpErrorKind::Broken(words) if phase == SmtpPhase::Message => {
                format!("{server}: {}, after the message; it may have been accepted", reply_text(words))
            }
            SmtpErrorKind::Broken(words) if !recipients.is_empty() => {
                format!("{server}, {phase}: {} (recipients: {recipients})", reply_text(words))
            }
            SmtpErrorKind::Broken(words) => format!("{server}, {phase}: {}", reply_text(words)),
        };
        Outcome::failed(if is_to_visitor { self.cause_for_visitor() } else { self.cause() }, sentence)
    }
}

/// The outcome of a message that the server has accepted for some recipients and not for others. `reached`
/// are the recipients that have it. A temporary refusal is retried; if all are final, the delivery is parked.
/// Lists all refused addresses, and quotes the reply to the first.
pub fn partial_outcome(answer: &str, refused: &[RefusedRecipient], reached: Vec<String>) -> Outcome {
    let is_temporary = refused.iter().any(RefusedRecipient::is_temporary);
    let cause = if is_temporary { Cause::Notification } else { Cause::Refused };
    let addresses: Vec<&str> = refused.iter().map(|recipient| recipient.address.as_str()).collect();
    let first = refused.first().map(|first| format!("{} {}", first.code, reply_text(&first.text)));
    let sentence = format!(
        "not delivered to {}: {}; delivered to the other recipients: {}",
        addresses.join(", "),
        cut(&first.unwrap_or_default(), MAX_RECIPIENT_REPLY_CHARS),
        reply_text(answer)
    );
    let missing = addresses.into_iter().map(str::to_owned).collect();
    Outcome::failed(cause, sentence).with_recipients(Recipients { reached, missing })
}

/// The beginning of a server's reply, with line breaks and control characters made visible.
pub fn reply_text(text: &str) -> String {
    cut(&visible(text.trim()), MAX_REPLY_CHARS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_address_of_a_visitor_is_final_and_a_policy_is_not() {
        for (text, cause) in [
            ("5.1.1 no such user", Cause::Refused),
            ("5.2.1 disabled", Cause::Refused),
            ("no such user", Cause::Refused),
            ("5.7.1 relaying denied", Cause::Notification),
            ("5.4.5 daily quota exceeded", Cause::Notification),
            ("5.7 odd", Cause::Refused),
            ("4.2.1 try later", Cause::Notification),
            ("5.1.8 bad outbound sender", Cause::Notification),
        ] {
            let error = SmtpError::new(SmtpPhase::Rcpt, SmtpErrorKind::Refusal(550, text.to_owned()));
            assert_eq!(error.cause_for_visitor(), cause, "{text}");
        }
    }

    #[test]
    fn errors_before_the_message_count_against_the_channel_or_defer() {
        for phase in SmtpPhase::ALL.into_iter().filter(|phase| *phase != SmtpPhase::Message) {
            for code in [500, 535, 550, 554] {
                check(phase, code, Cause::Channel);
            }
            for code in [421, 450, 451, 452, 454] {
                check(phase, code, Cause::Deferred);
            }
        }
    }

    #[test]
    fn only_a_server_that_has_received_the_message_refuses_it_for_good() {
        check(SmtpPhase::Message, 421, Cause::Deferred);
        check(SmtpPhase::Message, 452, Cause::Deferred);
        check(SmtpPhase::Message, 552, Cause::Refused);
        check(SmtpPhase::Message, 554, Cause::Refused);
    }

    #[test]
    fn a_visitors_wrong_address_does_not_count_against_the_channel() {
        let cause = |phase, code| {
            SmtpError::new(phase, SmtpErrorKind::Refusal(code, String::new())).cause_for_visitor()
        };
        assert_eq!(cause(SmtpPhase::Rcpt, 550), Cause::Refused);
        let sandbox =
            SmtpErrorKind::Refusal(554, "Message rejected: Email address is not verified.".to_owned());
        assert_eq!(SmtpError::new(SmtpPhase::Message, sandbox).cause_for_visitor(), Cause::Unclear);
        assert_eq!(cause(SmtpPhase::Rcpt, 450), Cause::Notification);
        for phase in SmtpPhase::ALL.into_iter().filter(|phase| *phase != SmtpPhase::Rcpt) {
            for code in [450, 550] {
                let kind = SmtpErrorKind::Refusal(code, String::new());
                assert_eq!(cause(phase, code), SmtpError::new(phase, kind).cause(), "{phase} {code}");
            }
        }
    }

    #[test]
    fn full_mailboxes_quotas_and_accounts_count_against_the_channel() {
        let cause = |text: &str| {
            SmtpError::new(SmtpPhase::Message, SmtpErrorKind::Refusal(550, text.to_owned())).cause()
        };
        for text in [
            "5.4.5 Daily user sending limit exceeded.",
            "4.4.5",
            "5.2.1 disabled",
            "5.1.90 Your message can't be sent",
            "5.7.705",
            "5.7.708 traffic is not accepted",
            "5.7.750",
            "5.7.60 SMTP; Client does not have permissions to send as this sender",
            "5.2.252 SendAsDenied; desk@example.com",
            "5.1.8 Access denied, bad outbound sender",
            "5.7.26 Your email has been blocked because the sender is unauthenticated.",
            "5.7.23 SPF validation failed",
            "5.7.9 This mail has been blocked because the sender is unauthenticated.",
            "5.7.515 Access denied, sending domain doesn't meet the required authentication level.",
            "5.7.606 Access denied, banned sending IP",
            "5.7.29 Your email has been rate limited because it was not sent over TLS",
            "5.7.30 DKIM authentication did not pass",
            "5.7.32 the From: header is not aligned",
            "5.7.40 no DMARC record",
            "5.7.0 From address is not one of your addresses.",
            "5.7.1 Not authorised to send from this header address",
            "The from address does not match a verified Sender Identity.",
            "Sending paused for this account.",
        ] {
            assert_eq!(cause(text), Cause::Channel, "{text}");
        }
        for text in ["5.2.2 mailbox full", "5.3.1 no space", "5.3.2"] {
            assert_eq!(cause(text), Cause::Unclear, "{text}");
        }
        for text in ["4.7.1 try again later", "4.1.1", "4.3.0"] {
            assert_eq!(cause(text), Cause::Deferred, "{text}");
        }
        for text in [
            "",
            "no",
            "quota 5.4.5",
            "5.4",
            "2.4.5 x",
            "5.4.5.1 x",
            "5.7.1 spam",
            "5.7.28 spam",
            "5.2.3 too long for the mailbox",
            "5.3.4 too long",
            "5.6.0 content",
        ] {
            assert_eq!(cause(text), Cause::Refused, "{text}");
        }
    }

    #[test]
    fn a_timeout_is_uncertain_only_after_the_final_dot() {
        for (phase, cause) in [
            (SmtpPhase::Connect, Cause::Channel),
            (SmtpPhase::Rcpt, Cause::Channel),
            (SmtpPhase::Data, Cause::Channel),
            (SmtpPhase::Content, Cause::Unclear),
            (SmtpPhase::Message, Cause::Uncertain),
        ] {
            for kind in
                [SmtpErrorKind::Silence(Duration::from_secs(20)), SmtpErrorKind::Broken("closed".to_owned())]
            {
                assert_eq!(SmtpError::new(phase, kind).cause(), cause);
            }
        }
    }

    #[test]
    fn a_quoted_reply_has_one_line_and_no_control_characters() {
        let error = SmtpError::new(
            SmtpPhase::Rcpt,
            SmtpErrorKind::Refusal(
                550,
                format!("5.1.1 \u{1b}[2Jno\r\nsuch\u{202e} user {}", "x".repeat(1000)),
            ),
        );
        assert_eq!(reply_text(&format!("{}👩\u{200d}💻", "x".repeat(199))), "x".repeat(199));
        let Outcome::Failed(failure) = error.outcome("mail.example.com:25", false) else {
            panic!("no failure")
        };
        assert!(
            failure.answer.starts_with(r"550 5.1.1 \u{1b}[2Jno⏎such\u{202e} user xxx"),
            "{}",
            failure.answer
        );
        assert!(failure.answer.ends_with("x (RCPT, mail.example.com:25)"), "{}", failure.answer);
    }

    #[track_caller]
    fn check(phase: SmtpPhase, code: u16, cause: Cause) {
        let error = SmtpError::new(phase, SmtpErrorKind::Refusal(code, String::new()));
        assert_eq!(error.cause(), cause, "{code} to {phase}");
    }
}
