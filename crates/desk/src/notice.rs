//! The results of changes as short texts, which pages show after a redirect.

/// The text for a `notice` parameter: a page shows no other text from its URL.
pub(super) fn notice_text(code: &str) -> Option<&'static str> {
    Some(match code {
        "held" => "Held. Deliveries that had not started are stopped until you release it.",
        "already-held" => "It was held already.",
        "already-delivered" => "Every channel has delivered it already, so there is nothing to hold.",
        "released" => "Released. Its deliveries are due now.",
        "asks-visitor" => {
            "It is delivered once the visitor has confirmed the address. You can also deliver it without that."
        }
        "released-only" => "Released. No channel takes this form, so there is nothing to deliver.",
        "released-selected" => {
            "Released. Deliveries are due now, unless a visitor must confirm the address first."
        }
        "none-released" => "Nothing was released: none of the selected submissions is held any more.",
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
        "assigned" => "Assigned.",
        "unassigned" => "It is assigned to no user now.",
        "no-such-user" => "It was not assigned: there is no user with this name.",
        "follow-up" => "The day to come back to it is saved.",
        "no-follow-up" => "The day to come back to it is removed.",
        "bad-day" => "The day was not saved: write it like 2026-11-30.",
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
        "testing" => "The test message is being sent. Reload the page to see the result.",
        "ended" => "The session has ended.",
        "no-session" => "That session had ended already.",
        "user-ended" => "All sessions of this user have ended.",
        "all-ended" => "All sessions have ended, and login links that were not used are not valid any more.",
        _ => return None,
    })
}

/// The notice after a removal. `is_wiped` says whether the database's log no longer contains what was
/// removed.
pub(super) fn removal_code(removed: usize, stayed: usize, is_wiped: bool) -> &'static str {
    match (removed, stayed, is_wiped) {
        (0, ..) => "nothing-removed",
        (_, _, false) => "not-wiped",
        (_, 0, _) => "removed",
        _ => "removed-some",
    }
}
