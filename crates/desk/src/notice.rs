//! The results of changes as short texts, which pages show after a redirect.

use uuid::Uuid;

use super::request::Pairs;

/// The result of a change, as parameters of the URL of the next page.
pub(super) struct Notice {
    text: &'static str,
    /// How many submissions changed, if several were selected.
    count: Option<u16>,
    /// The id for undoing the change.
    pub(super) undo: Option<Uuid>,
}

impl Notice {
    /// `None` if the parameters name no known notice. Pages show no text from the URL itself, so that a link
    /// cannot forge a notice.
    pub(super) fn from_pairs(pairs: &Pairs) -> Option<Self> {
        let text = notice_text(pairs.get("notice")?)?;
        let count = pairs.get("count").and_then(|count| count.parse().ok());
        Some(Self { text, count, undo: pairs.get("undo").and_then(|id| Uuid::try_parse(id).ok()) })
    }

    /// The text of the notice. Begins with the number of changed submissions if several were selected.
    pub(super) fn text(&self) -> String {
        match self.count {
            Some(1) => format!("1 submission: {}", self.text),
            Some(count) => format!("{count} submissions: {}", self.text),
            None => self.text.to_owned(),
        }
    }
}

/// The sentence for the result of a change; `None` for an unknown code.
fn notice_text(code: &str) -> Option<&'static str> {
    Some(match code {
        "held" => "Held: nothing more is delivered until you release it.",
        "already-held" => "It was held already.",
        "already-delivered" => "Every channel has delivered it already, so there is nothing to hold.",
        "released" => "Released: it is being delivered.",
        "asks-visitor" => {
            "It is delivered once the visitor has confirmed the address. You can also deliver it without that."
        }
        "released-only" => "Released. No channel takes this form, so there is nothing to deliver.",
        "spam" => "Marked as spam. Nothing more of it is delivered.",
        "not-spam" => "Not spam. If the mark had held it, it is delivered now.",
        "taught" => "Not spam: screening learns from it.",
        "unread" => "Marked as unread.",
        "undone" => "Undone.",
        "undone-some" => "Undone, except where that is no longer possible.",
        "not-undone" => "It can no longer be undone.",
        "view-saved" => "The view is saved. All users of the inbox see it.",
        "view-replaced" => "The view is saved. It replaces the one that had this name, for all users.",
        "view-removed" => "The view is removed.",
        "view-invalid" => "The view was not saved: its name must have 1 to 60 characters.",
        "view-many" => "The view was not saved: there are 50 already. Remove one first.",
        "not-held" => "It is not held any more.",
        "retried" => "Its deliveries are due now.",
        "nothing-to-retry" => "There was nothing to retry.",
        "queued" => "Queued for the channels that had not received it.",
        "not-queued" => "It was not queued: the channels have it already, or cannot take it.",
        "done" => "Marked as done.",
        "reopened" => "Marked as open.",
        "note" => "The note is saved.",
        "note-removed" => "The note is removed.",
        "notes-full" => "The note was not saved: the submission has 100 notes, which is the maximum.",
        "assigned" => "Assigned to the user that you chose.",
        "unassigned" => "It is assigned to no user now.",
        "no-such-user" => "It was not assigned: there is no user with this name.",
        "follow-up" => "The day to follow up is saved.",
        "no-follow-up" => "The day to follow up is removed.",
        "bad-day" => "The day was not saved: write it like 2026-11-30, with a year from 2000 to 2099.",
        "replied" => "Noted that you replied.",
        "not-replied" => "Noted that you have not replied.",
        "note-long" => "The note was not saved: it has more than 4,000 characters.",
        "unchanged" => "Nothing has changed.",
        "gone" => "The submission is no longer in the inbox.",
        "pending" => "The submission has not been processed yet. Try again in a moment.",
        "removed" => "Removed permanently. Earlier backups still contain what was removed.",
        "removed-some" => "Removed permanently, except those that were released or removed meanwhile.",
        "not-wiped" => {
            "Removed permanently. The database's log may contain it until the programs that read the inbox have ended."
        }
        "nothing-removed" => "Nothing was removed.",
        "none-selected" => "Select at least one submission.",
        "ended" => "The session has ended.",
        "no-session" => "That session had ended already.",
        "user-ended" => "All sessions of this user have ended.",
        "all-ended" => "All sessions have ended, and login links that were not used are not valid any more.",
        _ => return None,
    })
}

/// The code of the notice after a removal, in which `stayed` submissions were not removed although the form
/// confirmed that. `is_wiped` says whether the database's log no longer contains what was removed. The notice
/// has only one message: that nothing was removed, or else that the log is not wiped, or else that some
/// stayed.
pub(super) fn removal_code(removed: usize, stayed: usize, is_wiped: bool) -> &'static str {
    match (removed, stayed, is_wiped) {
        (0, ..) => "nothing-removed",
        (_, _, false) => "not-wiped",
        (_, 0, _) => "removed",
        _ => "removed-some",
    }
}
