//! Notifications: the messages that channels send to the operator's team, independent of the transport.

use jiff::Timestamp;
use uuid::Uuid;

use frontdesk_forms::text::visible;
use frontdesk_forms::{FieldValue, Form, LeadSource};
use frontdesk_inbox::submission::delivery::Claimed;
use frontdesk_inbox::submission::{Submission, named_enum};
use frontdesk_screening::verdict::Signal;

named_enum! {
    /// The topic of a notification. The names must never change, because they are part of the Message-IDs and
    /// file names that receivers use to recognize duplicates.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Topic {
        Submission = "submission",
        /// The daily summary of problems that need attention.
        Digest = "digest",
        Flood = "flood",
        /// The hourly limit on mails to visitors is reached.
        MailLimit = "mail-limit",
        /// A test of the channel that an operator requested.
        Test = "test",
        /// The message that the canary sends automatically to check a channel.
        Canary = "canary",
        /// The canary has found that submissions are lost or not delivered.
        CanaryFault = "canary-fault",
    }
}

impl Topic {
    /// The value of `type` in a webhook's JSON, such as `submission.created`.
    pub fn event_type(self) -> String {
        format!("{}.created", self.name())
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct Notification {
    /// The submission's id, or an id derived from the content. All attempts and channels use the same id, so
    /// that receivers can recognize duplicates.
    pub id: Uuid,
    pub topic: Topic,
    /// When the submission was received or, for other topics, when the notification was created.
    pub created_at: Timestamp,
    /// The date of the mail: when this attempt began, or the earliest one of the last four days that may have
    /// sent the same mail.
    pub dated_at: Timestamp,
    /// The form's name, if the topic is a submission.
    pub form: Option<String>,
    /// The definition that the submission was sent with; see [`Submission::definition`].
    pub definition: Option<&'static Form>,
    pub is_suspicious: bool,
    /// The subject line. It may contain text that a visitor wrote.
    pub title: String,
    /// Lines that the team reads beside the fields: where the submission comes from, which agent sent it, why
    /// it is suspicious or was held. May contain values from the request. For other topics, the whole text.
    /// The standard webhook body has them only for other topics.
    pub lines: Vec<String>,
    /// The submission's field names and values, in the form's order. A value may have several lines.
    pub fields: Vec<(String, FieldValue)>,
    /// The source of the lead, such as a campaign; empty if the topic is not a submission.
    pub lead: LeadSource,
    /// Whether an earlier attempt may have succeeded. If so, the Maildir channel looks for an existing copy
    /// before it writes one.
    pub may_be_there: bool,
}

impl Notification {
    /// The notification for a new submission. Its title is the form's subject (without a definition, its
    /// name) and, if there is one, the heading that the form defines, or else the sender's name or e-mail
    /// address. It begins with `[suspicious]` if screening marked the submission.
    pub fn from_submission(submission: &Submission) -> Notification {
        let form = &submission.form;
        let get = |name| submission.get(name).map(str::trim).filter(|value| !value.is_empty());
        let name = match (get("name"), get("firstname"), get("lastname")) {
            (Some(name), _, _) => Some(name.to_owned()),
            (None, Some(first), Some(last)) => Some(format!("{first} {last}")),
            (None, first, last) => first.or(last).map(str::to_owned),
        };
        let heading = submission.heading().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let sender = heading.or(name).or_else(|| submission.email().map(str::to_owned)).unwrap_or_default();
        let subject = submission.definition.map_or_else(|| capitalize_first_letter(form), Form::subject);
        let is_suspicious = submission.screening.as_ref().is_some_and(|screening| screening.suspicious);
        let mark = if is_suspicious { "[suspicious] " } else { "" };
        Notification {
            id: submission.id,
            topic: Topic::Submission,
            created_at: submission.received_at,
            dated_at: submission.received_at,
            form: Some(form.clone()),
            definition: submission.definition,
            is_suspicious,
            title: format!("{mark}{subject}{}{sender}", if sender.is_empty() { "" } else { ": " }),
            lines: context_sentences(submission),
            fields: submission.fields.clone(),
            lead: submission.lead.clone(),
            may_be_there: false,
        }
    }

    /// The notification that an attempt sends. After the first attempt, the receiver may already have it.
    pub fn from_claimed(claimed: &Claimed) -> Notification {
        Notification {
            dated_at: claimed.dated_at,
            may_be_there: claimed.lease.number > 1,
            ..Notification::from_submission(&claimed.submission)
        }
    }

    /// Whether chat services should show the notification without a sound.
    pub fn is_quiet(&self) -> bool {
        self.is_suspicious || self.topic == Topic::Canary
    }

    /// [`Notification::created_at`] in UTC, in RFC 3339 format with milliseconds.
    pub fn created_at_text(&self) -> String {
        format!("{:.3}", self.created_at)
    }

    /// The label that a field had when the submission was sent; the field's name if that is unknown. Control
    /// characters are made visible.
    pub fn label(&self, name: &str) -> String {
        visible(self.definition.and_then(|form| form.field(name)).map_or(name, |field| field.label))
    }

    /// The label of a field and a colon, for a line with its value. A label that is a question or ends in
    /// punctuation gets none.
    pub fn label_with_colon(&self, name: &str) -> String {
        let label = self.label(name);
        let label = label.trim_end_matches([':', ' ']);
        let has_end = label.ends_with(['?', '!', '.', '？', '！', '。', '：', ';', '…']);
        format!("{label}{}", if has_end { "" } else { ":" })
    }

    /// The value of a text field. `None` if the submission does not have the field, or if the value is not
    /// text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name)?.1.as_str()
    }
}

/// Sentences for the team: where the submission comes from, which agent sent it, why it is suspicious, and
/// why it was held.
fn context_sentences(submission: &Submission) -> Vec<String> {
    let agent = submission.agent.as_ref().map(|agent| format!("Sent by an agent, signed by {agent}."));
    let from = Some(submission.lead.summary()).filter(|summary| !summary.is_empty());
    let from = from.map(|summary| format!("From: {summary}"));
    let mut sentences: Vec<String> = from.into_iter().chain(agent).collect();
    let Some(screening) = &submission.screening else { return sentences };
    let signals = screening.signals();
    if screening.suspicious {
        sentences.push(format!("Screening marked it as suspicious ({signals})."));
    }
    if screening.withheld {
        sentences.push(if screening.reasons.iter().any(|reason| reason.signal == Signal::FormRate) {
            "It was held while its form was being flooded.".to_owned()
        } else if signals.is_empty() {
            "Screening held it until it was released.".to_owned()
        } else {
            format!("Screening held it ({signals}) until it was released.")
        });
    }
    sentences
}

/// Omits the values: logs must not contain text that visitors wrote.
impl std::fmt::Debug for Notification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notification")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

fn capitalize_first_letter(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_inbox::submission::{Screening, Status};
    use frontdesk_screening::verdict::ScreeningReason;

    #[test]
    fn the_text_names_the_agent_and_the_reasons_of_a_hold() {
        let reason = ScreeningReason { signal: Signal::Links, points: 60, detail: "4 links".to_owned() };
        let screening = |withheld| {
            Some(Screening { score: 60, reasons: vec![reason.clone()], withheld, suspicious: false })
        };
        check(None, None, &[]);
        check(screening(false), None, &[]);
        check(screening(true), None, &["Screening held it (links) until it was released."]);
        check(
            screening(false),
            Some("agent.example.com"),
            &["Sent by an agent, signed by agent.example.com."],
        );
    }

    #[test]
    fn the_text_begins_with_the_source_of_the_lead() {
        let mut submission = submission();
        submission.agent = Some("agent.example.com".to_owned());
        submission.lead.complete_from("/pricing/?utm_campaign=spring&utm_source=letter");
        submission.lead.set("referrer", "search.example.com");
        let notice = Notification::from_submission(&submission);
        assert_eq!(notice.lines[0], "From: /pricing/, via search.example.com, campaign spring");
        assert_eq!((notice.lines.len(), notice.lead), (2, submission.lead));
    }

    fn check(screening: Option<Screening>, agent: Option<&str>, expected: &[&str]) {
        let submission = Submission { screening, agent: agent.map(str::to_owned), ..submission() };
        assert_eq!(Notification::from_submission(&submission).lines, expected);
    }

    fn submission() -> Submission {
        Submission {
            id: Uuid::nil(),
            form: "contact".to_owned(),
            definition: None,
            received_at: Timestamp::UNIX_EPOCH,
            status: Status::Waiting,
            held: None,
            screening: None,
            released_at: None,
            error: None,
            agent: None,
            fields: Vec::new(),
            sealed: None,
            source: String::new(),
            repeats: 0,
            confirmation: None,
            lead: frontdesk_forms::LeadSource::default(),
        }
    }
}
