//! Sends a test message through a channel, and describes the outcome for the operator. The message is not a
//! submission, and no delivery is recorded.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::notification::Topic;
use super::{Channel, ChannelOptions, Notification, TransportOptions};
use frontdesk_inbox::submission::delivery_outcome::{AttemptFailure, Cause, Outcome};

/// Time limit for a test message. Shorter than for a delivery, because an operator waits for the result.
const TIME_LIMIT: Duration = Duration::from_mins(2);

/// Sends the test message. No reply within two minutes counts as a failure. `sender` names the program that
/// sends it, such as `` `frontdesk doctor` ``.
pub async fn send(channel: &ChannelOptions, sender: &str, now: Timestamp) -> Outcome {
    let notice = Notification {
        is_suspicious: false,
        id: Uuid::now_v7(),
        topic: Topic::Test,
        created_at: now,
        dated_at: now,
        form: None,
        definition: None,
        title: "Test message from frontdesk".to_owned(),
        lines: vec![
            format!("This is a test: {sender} sent it through the channel \"{}\".", channel.name),
            "It is not a submission. No action is needed.".to_owned(),
        ],
        fields: Vec::new(),
        may_be_there: false,
        lead: frontdesk_forms::LeadSource::default(),
    };
    let channel = Channel::open(&channel.kind);
    let sent = tokio::time::timeout(TIME_LIMIT, channel.send(&notice)).await;
    if let Channel::Smtp(smtp) = channel {
        smtp.close().await;
    }
    sent.unwrap_or_else(|_| {
        Outcome::failed(
            Cause::Channel,
            "no reply within two minutes, the time limit of the test; a delivery would wait longer",
        )
    })
}

/// Returns a sentence about where to find the test message. The error describes what to check.
pub fn describe(kind: &TransportOptions, outcome: &Outcome, took: Duration) -> Result<String, String> {
    match outcome {
        Outcome::Delivered(answer) => {
            let place = match kind {
                TransportOptions::Smtp(smtp) => {
                    format!("in the mailbox of {}", smtp.addresses.to.join(", "))
                }
                TransportOptions::Webhook(_) => "at the receiver of the webhook".to_owned(),
                TransportOptions::Visitor(_) => "in the visitor's mailbox".to_owned(),
                TransportOptions::Maildir(maildir) => format!("in {}", maildir.path.join("new").display()),
            };
            let ms = took.as_millis();
            Ok(format!("a test message was accepted in {ms} ms ({answer}); look for it {place}"))
        }
        Outcome::Failed(failure) => Err(describe_failure(kind, failure)),
    }
}

/// Returns the error or the receiver's reply, and advice on what to check.
pub(super) fn describe_failure(kind: &TransportOptions, failure: &AttemptFailure) -> String {
    let answer = failure.answer.trim_end_matches('.');
    let specific = failure.advice.filter(|_| failure.cause != Cause::Deferred);
    let advice = specific.unwrap_or_else(|| advice(kind, failure.cause));
    format!("{answer}. {advice}")
}

/// Advice on what to check first after a test message has failed, if the error itself suggests nothing.
fn advice(kind: &TransportOptions, cause: Cause) -> &'static str {
    match (kind, cause) {
        (_, Cause::Deferred) => {
            "The receiver is not accepting messages at the moment: try again in a few minutes."
        }
        (TransportOptions::Webhook(_), Cause::Gone) => {
            "Ask the receiver for a new address, and change `url`."
        }
        (TransportOptions::Webhook(_), Cause::Channel | Cause::Unclear) => {
            "Check `url`, `secret` and `ca_file`, and whether the receiver is up."
        }
        (TransportOptions::Webhook(_), _) => {
            "The receiver rejects this body: compare `body` with the format that it expects."
        }
        (
            TransportOptions::Smtp(_) | TransportOptions::Visitor(_),
            Cause::Channel | Cause::Unclear | Cause::Uncertain,
        ) => "Check `host` and `port`, and whether the mail server works.",
        (TransportOptions::Smtp(_) | TransportOptions::Visitor(_), _) => {
            "The mail server rejected the message: its reply states the reason."
        }
        (TransportOptions::Maildir(_), _) => {
            "Check `path`: this user must be able to write there, and the disk must not be full."
        }
    }
}
