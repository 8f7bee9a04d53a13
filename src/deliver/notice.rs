//! What goes down a channel: something to tell the operator's team, before it is a message or a request.

use jiff::Timestamp;
use uuid::Uuid;

use crate::screening::{Reason, Signal};
use crate::submission::Submission;

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A submission.
    Submission,
    /// What waits for the operator's attention.
    Digest,
    /// Submissions that are held because of a flood.
    Flood,
    /// Whether the channel works.
    Canary,
}

impl About {
    /// The type that webhook receivers tell notices apart by.
    pub const fn event(self) -> &'static str {
        match self {
            About::Submission => "submission.created",
            About::Digest => "digest.created",
            About::Flood => "flood.created",
            About::Canary => "canary.created",
        }
    }
}

/// Something to tell the operator's team.
#[derive(Clone, PartialEq, Eq)]
pub struct Notice {
    /// The submission's, or one of its own. The same in each attempt and each channel, so that a receiver recognises what he has already.
    pub id: Uuid,
    /// What it is about.
    pub about: About,
    /// When the submission was received, or the notice written.
    pub created_at: Timestamp,
    /// The form's name, of a submission.
    pub form: Option<String>,
    /// Whether it is a submission that screening marks as suspicious.
    pub is_suspicious: bool,
    /// One line that says it all: a subject. It may hold what a visitor sent.
    pub title: String,
    /// Sentences of ours, each on a line. Frontdesk's own webhook has them of digests only.
    pub words: Vec<String>,
    /// What the visitor sent: names and values, in the form's order. Values may have any number of lines.
    pub fields: Vec<(String, String)>,
    /// An earlier attempt may have got through without our hearing of it: a channel that can see that should look.
    pub may_be_there: bool,
}

impl Notice {
    /// The notice about a submission.
    pub fn of(submission: &Submission) -> Notice {
        let form = &submission.form;
        let get = |name| submission.get(name).map(str::trim).filter(|value| !value.is_empty());
        let name = match (get("name"), get("firstname"), get("lastname")) {
            (Some(name), _, _) => Some(name.to_owned()),
            (None, Some(first), Some(last)) => Some(format!("{first} {last}")),
            (None, first, last) => first.or(last).map(str::to_owned),
        };
        let sender = name.or_else(|| get("email").map(str::to_owned)).unwrap_or_default();
        let is_suspicious = submission.screening.as_ref().is_some_and(|screening| screening.suspicious);
        let mark = if is_suspicious { "[suspicious] " } else { "" };
        Notice {
            id: submission.id,
            about: About::Submission,
            created_at: submission.received_at,
            form: Some(form.clone()),
            is_suspicious,
            title: format!("{mark}{}: {sender}", capitalised(form)),
            words: words(submission),
            fields: submission.fields.clone(),
            may_be_there: false,
        }
    }

    /// The value of a field, if it was filled in.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|(field, value)| (field == name).then_some(value.as_str()))
    }
}

/// What the team should know beside what was sent: which agent sent it, why it is suspicious, and that it is late because it was held.
fn words(submission: &Submission) -> Vec<String> {
    let agent = submission.agent.as_ref().map(|agent| format!("Sent by an agent, signed by {agent}."));
    let withheld = submission.screening.as_ref().filter(|screening| screening.withheld);
    let is_flood = |reason: &Reason| reason.signal == Signal::FormRate;
    let withheld = withheld.map(|screening| match screening.signals() {
        _ if screening.reasons.iter().any(is_flood) => {
            "It was held while its form was being flooded.".to_owned()
        }
        signals if signals.is_empty() => "Screening had held it until it was released.".to_owned(),
        signals => format!("Screening had held it ({signals}) until it was released."),
    });
    let suspicious = submission.screening.as_ref().filter(|screening| screening.suspicious);
    let suspicious =
        suspicious.map(|screening| format!("Screening finds it suspicious ({}).", screening.signals()));
    agent.into_iter().chain(suspicious).chain(withheld).collect()
}

/// Without the values: they are the visitor's, and no log may hold them.
impl std::fmt::Debug for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notice").field("id", &self.id).field("about", &self.about).finish_non_exhaustive()
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::{Screening, Status};

    #[test]
    fn the_team_is_told_of_the_agent_and_of_what_was_held() {
        let reason = Reason { signal: Signal::Links, points: 60, detail: "4 links".to_owned() };
        let screening = |withheld| {
            Some(Screening { score: 60, reasons: vec![reason.clone()], withheld, suspicious: false })
        };
        check(None, None, &[]);
        check(screening(false), None, &[]);
        check(screening(true), None, &["Screening had held it (links) until it was released."]);
        check(
            screening(false),
            Some("agent.example.com"),
            &["Sent by an agent, signed by agent.example.com."],
        );
    }

    fn check(screening: Option<Screening>, agent: Option<&str>, expected: &[&str]) {
        let submission = Submission {
            id: Uuid::nil(),
            form: "contact".to_owned(),
            received_at: Timestamp::UNIX_EPOCH,
            status: Status::Waiting,
            held: None,
            screening,
            released_at: None,
            error: None,
            agent: agent.map(str::to_owned),
            fields: Vec::new(),
            sealed: None,
            source: String::new(),
            repeats: 0,
        };
        assert_eq!(Notice::of(&submission).words, expected);
    }
}
