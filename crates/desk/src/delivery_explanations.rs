//! Says in plain sentences what happened to a delivery, and what screening found. The raw replies of mail
//! servers and webhooks, and the points of signals, stand behind the sentences.

use frontdesk_deliver::smtp::error::SmtpPhase;
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};
use frontdesk_screening::verdict::Signal;

/// The kind of receiver to which a channel delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    MailServer,
    Webhook,
    MailFolder,
    /// The channel is no longer configured.
    Unknown,
}

impl Receiver {
    /// The kind of receiver of `channel`. A name that begins with `visitor:` stands for mails to visitors.
    pub(super) fn of(channel: &str, channels: &[ChannelOptions]) -> Self {
        if channel.starts_with("visitor:") {
            return Self::MailServer;
        }
        match channels.iter().find(|found| found.name == channel).map(|found| &found.kind) {
            Some(TransportOptions::Smtp(_) | TransportOptions::Visitor(_)) => Self::MailServer,
            Some(TransportOptions::Webhook(_)) => Self::Webhook,
            Some(TransportOptions::Maildir(_)) => Self::MailFolder,
            None => Self::Unknown,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::MailServer => "mail server",
            Self::Webhook | Self::Unknown => "receiver",
            Self::MailFolder => "mail folder",
        }
    }
}

/// Says how an attempt ended. `delivered` and `answer` are those of the recorded attempt: whether the
/// receiver accepted the message (`None` if that is not known), and its reply or the error. An unknown answer
/// becomes a general sentence.
pub(super) fn describe_attempt(receiver: Receiver, delivered: Option<bool>, answer: &str) -> String {
    match delivered {
        Some(true) => describe_success(receiver, answer),
        Some(false) => describe_failure(receiver, answer),
        None => "The connection ended before the reply came. It may have arrived, so it may arrive twice."
            .to_owned(),
    }
}

/// Says that the receiver accepted the message, or that it had the message already.
fn describe_success(receiver: Receiver, answer: &str) -> String {
    match receiver {
        _ if answer.starts_with("all recipients in `to` already have it") => {
            "All recipients had it already.".to_owned()
        }
        Receiver::MailFolder if answer.ends_with("was already there") => {
            "It was in the mail folder already.".to_owned()
        }
        Receiver::MailFolder => "It is in the mail folder.".to_owned(),
        receiver => format!("The {} accepted it.", receiver.name()),
    }
}

/// Says why an attempt failed. Looks first for a reply of the receiver, then for a known error message of
/// this server. An unknown answer becomes a general sentence.
pub(super) fn describe_failure(receiver: Receiver, answer: &str) -> String {
    let name = receiver.name();
    if answer.starts_with("not delivered to ") {
        return "Some recipients have it. The mail server refused the others.".to_owned();
    }
    if let Some(code) = reply_code(answer) {
        return describe_reply(receiver, code, answer);
    }
    let text = answer.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if has(&["may have been accepted"]) {
        return describe_attempt(receiver, None, answer);
    }
    if has(&["certificate"]) {
        return format!("The {name}'s certificate is not valid, so nothing was sent.");
    }
    if has(&["starttls", "tls handshake"]) && !has(&["no reply", "timed out"]) {
        return format!("No encrypted connection to the {name} was possible, so nothing was sent.");
    }
    if has(&["offers neither plain nor login"]) {
        return "The mail server offers no way to log in.".to_owned();
    }
    if has(&["without tls, only connections"]) {
        return "The mail server may only be used with encryption, so nothing was sent.".to_owned();
    }
    if has(&["disk is full", "disk quota"]) {
        return "The disk is full, so it could not be stored.".to_owned();
    }
    if receiver == Receiver::MailFolder {
        return "It could not be written to the mail folder.".to_owned();
    }
    if has(&["dns lookup failed", "resolving the name", "has no address"]) {
        return format!("The name of the {name} could not be found.");
    }
    if has(&["no reply", "timed out", "took longer than", "did not finish"]) {
        return format!("The {name} did not answer in time.");
    }
    if has(&["connect", "closed", "reset", "refused", "unreachable", "broken pipe", "os error"]) {
        return format!("The {name} could not be reached.");
    }
    if has(&["gets no mail"]) {
        return "This address gets no mail.".to_owned();
    }
    if has(&["needs no confirmation", "no such mail any more"]) {
        return "This mail is not needed any more.".to_owned();
    }
    // Stored errors may contain the second text, which earlier versions used.
    if has(&["submission is encrypted", "submission is sealed"]) {
        return "It is encrypted, so this server cannot send it any more.".to_owned();
    }
    "It could not be sent.".to_owned()
}

/// The status code at the start of a reply: a number from 200 to 599 before a space, `:`, `-` or the end.
fn reply_code(answer: &str) -> Option<u16> {
    let code = answer.get(..3).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()))?;
    let is_code = answer[3..].chars().next().is_none_or(|next| matches!(next, ' ' | ':' | '-'));
    code.parse().ok().filter(|code| is_code && (200..=599).contains(code))
}

/// Says what a negative reply means: one of SMTP (RFC 5321 §4.2.1) or of HTTP (RFC 9110 §15). If the channel
/// is no longer configured, the name of a step in brackets, such as `(RCPT, `, shows that the reply is one of
/// SMTP.
fn describe_reply(receiver: Receiver, code: u16, answer: &str) -> String {
    let name = receiver.name();
    let names_step = || SmtpPhase::ALL.iter().any(|step| answer.contains(&format!(" ({step}, ")));
    if receiver == Receiver::MailServer || receiver == Receiver::Unknown && names_step() {
        let is_for_now = code < 500;
        return match () {
            () if is_for_now => "The mail server cannot take it at the moment.".to_owned(),
            () if answer.contains("(AUTH, ") => {
                "The mail server refused the user name or the password.".to_owned()
            }
            () if answer.contains("(RCPT, ") => "The mail server refused the recipient.".to_owned(),
            () => "The mail server refused it.".to_owned(),
        };
    }
    match code {
        300..=399 => format!("The {name} has moved to another address."),
        401 | 403 | 407 => format!("The {name} denied access."),
        404 => format!("The {name} was not found at its address."),
        410 => format!("The {name} no longer exists."),
        429 => format!("The {name} asks this server to wait, because it gets too many messages."),
        400..=499 => format!("The {name} refused it."),
        _ => format!("The {name} reported an internal error."),
    }
}

/// Describes the result of a test message in a sentence.
pub(super) fn describe_test(channel: &ChannelOptions, outcome: &Outcome) -> String {
    let receiver = Receiver::of(&channel.name, std::slice::from_ref(channel));
    match (outcome, &channel.kind) {
        (Outcome::Delivered(_), TransportOptions::Smtp(smtp)) => {
            format!("The test mail was accepted by {}.", smtp.host)
        }
        (Outcome::Delivered(_), TransportOptions::Webhook(webhook)) => {
            format!("The test message was accepted by {}.", webhook.url.host_and_port())
        }
        (Outcome::Delivered(_), _) => "The test mail was written to the mail folder.".to_owned(),
        (Outcome::Failed(failure), _) => {
            let delivered = (failure.cause != Cause::Uncertain).then_some(false);
            let sentence = describe_attempt(receiver, delivered, &failure.answer);
            format!("The test message did not get through. {sentence}")
        }
    }
}

/// Describes a screening signal in a sentence for the operator.
pub(super) fn describe_signal(signal: Signal) -> &'static str {
    match signal {
        Signal::Rate => "The sender has sent many forms in a short time.",
        Signal::FormRate => "It is part of a flood of submissions to this form.",
        Signal::Repeated => "Others sent nearly the same text, which is typical of mass mailings.",
        Signal::Links => "Has many links, or little text besides links.",
        Signal::Shortener => "Has a shortened link, which hides where it leads.",
        Signal::Markup => "Has links in the markup that spam programs write.",
        Signal::Disposable => "The address is from a service for throw-away addresses.",
        Signal::Listed => "The address or a link is at a domain that you have blocked.",
        Signal::Honeypot => "A hidden field was filled in, which only programs do.",
        Signal::TimeToFill => "The form was filled in faster than a person could.",
        Signal::Origin => "It was sent from a site that is not yours.",
        Signal::Offer => "Offers something that you did not ask for.",
        Signal::Lure => "Promises money or makes an offer, and asks to continue in a messenger app.",
        Signal::Disguise => "Hides words with odd letters, or consists of random letters.",
        Signal::Shouting => "Is written in capitals.",
        Signal::Name => "The name does not look like a person's name.",
        Signal::Learned => "Resembles messages that you marked as spam.",
        Signal::Opinion => "Your rspamd server considers it spam.",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use frontdesk_deliver::smtp::error::{RefusedRecipient, SmtpError, SmtpErrorKind, partial_outcome};
    use frontdesk_inbox::submission::delivery_outcome::AttemptFailure;

    use Receiver::{MailFolder, MailServer, Unknown, Webhook};

    #[test]
    fn a_success_names_the_receiver() {
        for (receiver, answer, expected) in [
            (MailServer, "2.0.0 Ok: queued as 4F1", "The mail server accepted it."),
            (MailServer, "all recipients in `to` already have it", "All recipients had it already."),
            (Webhook, "200 OK", "The receiver accepted it."),
            (MailFolder, "17.a-submission.host is in new/", "It is in the mail folder."),
            (MailFolder, "17.a-submission.host was already there", "It was in the mail folder already."),
            (Unknown, "204 No Content", "The receiver accepted it."),
        ] {
            assert_eq!(describe_attempt(receiver, Some(true), answer), expected, "{answer}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn each_failure_of_a_mail_server_has_a_sentence() {
        let refusal = |code, text: &str| SmtpErrorKind::Refusal(code, text.to_owned());
        let broken = |text: &str| SmtpErrorKind::Broken(text.to_owned());
        let silence = SmtpErrorKind::Silence(Duration::from_secs(30));
        let uncertain =
            "The connection ended before the reply came. It may have arrived, so it may arrive twice.";
        for (phase, kind, expected) in [
            (
                SmtpPhase::Connect,
                broken("DNS lookup failed: no such name"),
                "The name of the mail server could not be found.",
            ),
            (
                SmtpPhase::Connect,
                broken("Connection refused (os error 111)"),
                "The mail server could not be reached.",
            ),
            (SmtpPhase::Connect, silence.clone(), "The mail server did not answer in time."),
            (
                SmtpPhase::Connect,
                broken("without TLS, only connections to this machine are allowed"),
                "The mail server may only be used with encryption, so nothing was sent.",
            ),
            (
                SmtpPhase::Tls,
                broken("invalid peer certificate: Expired"),
                "The mail server's certificate is not valid, so nothing was sent.",
            ),
            (
                SmtpPhase::Tls,
                broken("received corrupt message of type InvalidContentType"),
                "No encrypted connection to the mail server was possible, so nothing was sent.",
            ),
            (
                SmtpPhase::StartTls,
                broken("the server does not offer it"),
                "No encrypted connection to the mail server was possible, so nothing was sent.",
            ),
            (SmtpPhase::StartTls, silence.clone(), "The mail server did not answer in time."),
            (
                SmtpPhase::Greeting,
                refusal(421, "4.3.2 busy"),
                "The mail server cannot take it at the moment.",
            ),
            (SmtpPhase::Ehlo, broken("the connection was closed"), "The mail server could not be reached."),
            (
                SmtpPhase::Auth,
                refusal(535, "5.7.8 no"),
                "The mail server refused the user name or the password.",
            ),
            (
                SmtpPhase::Auth,
                refusal(454, "4.7.0 Temporary authentication failure"),
                "The mail server cannot take it at the moment.",
            ),
            (
                SmtpPhase::Auth,
                broken("the server offers neither PLAIN nor LOGIN, but XOAUTH2"),
                "The mail server offers no way to log in.",
            ),
            (SmtpPhase::Rcpt, refusal(550, "5.1.1 no such user"), "The mail server refused the recipient."),
            (
                SmtpPhase::Rcpt,
                refusal(450, "4.2.0 greylisted"),
                "The mail server cannot take it at the moment.",
            ),
            (SmtpPhase::Message, refusal(554, "5.7.1 spam"), "The mail server refused it."),
            (SmtpPhase::Message, silence, uncertain),
            (SmtpPhase::Message, broken("Connection reset by peer (os error 104)"), uncertain),
        ] {
            let answer = answer_of(SmtpError::new(phase, kind).outcome("mail.example.com:587", false));
            assert_eq!(describe_failure(MailServer, &answer), expected, "{answer}");
        }
        assert_eq!(describe_attempt(MailServer, None, "the server stopped"), uncertain);
    }

    #[test]
    fn a_mail_that_some_recipients_have_is_described_as_such() {
        let refused =
            [RefusedRecipient { address: "b@example.com".to_owned(), code: 550, text: "no".to_owned() }];
        let partial = answer_of(partial_outcome("2.0.0 ok", &refused, vec!["a@example.com".to_owned()]));
        let expected = "Some recipients have it. The mail server refused the others.";
        assert_eq!(describe_attempt(MailServer, Some(false), &partial), expected);
    }

    #[test]
    fn the_step_shows_that_a_reply_is_one_of_smtp() {
        for (answer, expected) in [
            ("554 5.7.1 spam (the message, mail.example.com:25)", "The mail server refused it."),
            ("451 later (MAIL, mail.example.com:25)", "The mail server cannot take it at the moment."),
            (
                "535 5.7.8 no (AUTH, mail.example.com:25)",
                "The mail server refused the user name or the password.",
            ),
        ] {
            assert_eq!(describe_attempt(Unknown, Some(false), answer), expected, "{answer}");
        }
        // A webhook's receiver may write what it likes.
        let answer = "400 Bad Request: invalid field (MAIL, required)";
        assert_eq!(describe_attempt(Webhook, Some(false), answer), "The receiver refused it.");
    }

    #[test]
    fn each_failure_of_another_channel_has_a_sentence() {
        for (receiver, answer, expected) in [
            (
                Webhook,
                "308 Permanent Redirect: the redirect to https://b.example/ was not followed: set the channel's `url` to the final address",
                "The receiver has moved to another address.",
            ),
            (Webhook, "403 Forbidden: certificate required", "The receiver denied access."),
            (Webhook, "404 Not Found", "The receiver was not found at its address."),
            (Webhook, "410 Gone", "The receiver no longer exists."),
            (Webhook, "422 Unprocessable Entity: timed out", "The receiver refused it."),
            (
                Webhook,
                "429 Too Many Requests",
                "The receiver asks this server to wait, because it gets too many messages.",
            ),
            (Webhook, "500 Internal Server Error", "The receiver reported an internal error."),
            (
                Webhook,
                "hooks.example.com:443: resolving the name: no record",
                "The name of the receiver could not be found.",
            ),
            (
                Webhook,
                "hooks.example.com:443: connecting to 192.0.2.1:443: Connection refused (os error 111)",
                "The receiver could not be reached.",
            ),
            (
                Webhook,
                "hooks.example.com:443: TLS handshake: invalid peer certificate: UnknownIssuer",
                "The receiver's certificate is not valid, so nothing was sent.",
            ),
            (
                Webhook,
                "hooks.example.com:443: TLS handshake: timed out after 10 s",
                "The receiver did not answer in time.",
            ),
            (
                Webhook,
                "hooks.example.com:443: waiting for the response: timed out after 30 s",
                "The receiver did not answer in time.",
            ),
            (Webhook, "the attempt took longer than 300 s", "The receiver did not answer in time."),
            (
                MailFolder,
                "the disk is full: cannot write /mail/tmp/1",
                "The disk is full, so it could not be stored.",
            ),
            (
                MailFolder,
                "cannot create the folder /mail/new: Permission denied (os error 13)",
                "It could not be written to the mail folder.",
            ),
            (MailServer, "this address gets no mail", "This address gets no mail."),
            (MailServer, "the address needs no confirmation any more", "This mail is not needed any more."),
            (
                Unknown,
                "the submission is encrypted, so only its recipient can read it",
                "It is encrypted, so this server cannot send it any more.",
            ),
            (Unknown, "", "It could not be sent."),
            (Webhook, "1234 is no code", "It could not be sent."),
            (Webhook, "\u{e4}\u{f6}\u{fc}", "It could not be sent."),
        ] {
            assert_eq!(describe_failure(receiver, answer), expected, "{answer}");
        }
    }

    #[test]
    fn each_signal_has_a_sentence_of_its_own() {
        let sentences: std::collections::BTreeSet<_> = Signal::ALL.into_iter().map(describe_signal).collect();
        assert_eq!(sentences.len(), Signal::ALL.len());
        assert!(sentences.iter().all(|text| text.ends_with('.') && text.len() < 90));
    }

    fn answer_of(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed(AttemptFailure { answer, .. }) | Outcome::Delivered(answer) => answer,
        }
    }
}
