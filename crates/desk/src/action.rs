//! The changes that forms request. Each is followed by a redirect to a page that shows the result, except
//! that a removal first shows what it would remove.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use minijinja::{Value, context};
use uuid::Uuid;

use super::annotations::{WorkChange, people};
use super::auth::InboxUser;
use super::delivery_explanations;
use super::html::{Reply, see_other};
use super::list_query::ListQuery;
use super::notice::removal_code;
use super::pages::PageRequest;
use super::request::encode_pairs;
use super::state::{ChannelTest, DeskState};
use super::submission_view;
use frontdesk_deliver::test_message;
use frontdesk_forms::text::visible;
use frontdesk_inbox::change::{Changes, Held, Queued, Released};
use frontdesk_inbox::discard_preview::DiscardPreview;
use frontdesk_inbox::store::{
    Annotated, Annotation, Editor, Filter, InboxReader, Retry, Saved, Session, StoreError,
};
use frontdesk_inbox::submission::{Status, Submission};

/// How long the response to a request for a test message waits for the result.
const TEST_PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of responses that wait for a test message at the same time: each occupies a thread.
const MAX_WAITING_TESTS: usize = 3;

/// A form that changes one submission.
pub(super) struct SubmissionForm {
    pub(super) change: Change,
    /// The list that contained the form; `None` if the form was on the submission's own page.
    pub(super) list: Option<ListQuery>,
}

pub(super) enum Change {
    Hold,
    /// Releases a held submission. Releases an unconfirmed one only if `even_unconfirmed` is set.
    Release {
        even_unconfirmed: bool,
    },
    Retry,
    Deliver,
    SetDone(bool),
    /// Marks the submission as spam, or removes the mark.
    SetSpam(bool),
    /// Removes a spam mark that was a mistake, and what screening learned from it.
    UndoSpam,
    MarkUnread,
    Work(WorkChange),
    Remove(Removal),
}

impl Change {
    /// Returns the change with the name `action`. `None` if that is unknown or needs further values.
    pub(super) fn parse(action: &str) -> Option<Self> {
        Some(match action {
            "hold" => Self::Hold,
            "release" => Self::Release { even_unconfirmed: false },
            "deliver-unconfirmed" => Self::Release { even_unconfirmed: true },
            "retry" => Self::Retry,
            "deliver" => Self::Deliver,
            "done" => Self::SetDone(true),
            "reopen" => Self::SetDone(false),
            "spam" => Self::SetSpam(true),
            "not-spam" => Self::SetSpam(false),
            "undo-spam" => Self::UndoSpam,
            "unread" => Self::MarkUnread,
            _ => return None,
        })
    }
}

/// The codes of changes that a notice counts, besides those that [`undoing`] knows. Notes, follow-ups and
/// replies are not counted.
const OTHER_CHANGES: [&str; 7] =
    ["asks-visitor", "taught", "unread", "queued", "retried", "assigned", "unassigned"];

/// Returns the name of the change that undoes the change with the result `code`. `None` if none does, and for
/// `assigned` and `unassigned`, which [`undo_text`] handles.
fn undoing(code: &str) -> Option<&'static str> {
    Some(match code {
        "done" => "reopen",
        "reopened" => "done",
        "held" => "release",
        "released" | "released-only" => "hold",
        "spam" => "undo-spam",
        "not-spam" => "spam",
        _ => return None,
    })
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Removal {
    /// Whether to remove all data from the submission's address, instead of only this submission.
    pub(super) is_erasure: bool,
    /// Whether the operator has confirmed the removal. If not, a page shows what it would remove.
    pub(super) is_confirmed: bool,
}

/// Which sessions to end.
pub(super) enum Revocation {
    /// The session with this short id, if there is one. Users who are not admins can only name their own.
    One(String),
    /// All sessions with the name of the user who sends the form.
    Own,
    /// All sessions of one user.
    User(String),
    /// All sessions of all users, and unused login links.
    Everyone,
}

/// Makes a change of one submission, and redirects to the form's list or, without one, to the submission (`/`
/// if that is gone), with a notice of the result. A removal instead shows what it would remove or, once
/// confirmed, redirects to `/` ([`remove`]).
pub(super) fn change_one(
    request: &PageRequest<'_>,
    id: Uuid,
    form: &SubmissionForm,
) -> Result<Reply, StoreError> {
    let change = match &form.change {
        Change::Remove(removal) => return remove(request, &[id], *removal, None),
        change => change,
    };
    let (code, _, undo) = apply_all(request, &[id], change)?;
    let path = match &form.list {
        Some(list) => list.path(),
        None if code == "gone" => "/".to_owned(),
        None => submission_path(id),
    };
    Ok(see_other(&(notice_path(&path, code) + &undo)))
}

/// Makes a change of the submissions that were selected in a list, and redirects to the list (`back`). Skips
/// those that it does not apply to. If none is selected, only shows a notice. A removal that is not confirmed
/// shows what it would remove instead ([`remove`]).
pub(super) fn change_selected(
    request: &PageRequest<'_>,
    ids: &[Uuid],
    change: &Change,
    back: &str,
) -> Result<Reply, StoreError> {
    if ids.is_empty() {
        return Ok(see_other(&notice_path(back, "none-selected")));
    }
    if let Change::Remove(removal) = change {
        return remove(request, ids, *removal, Some(back));
    }
    let (code, count, undo) = apply_all(request, ids, change)?;
    let count = if count == 0 { String::new() } else { format!("&count={count}") };
    Ok(see_other(&(notice_path(back, code) + &count + &undo)))
}

/// The results of applying one change to several submissions.
struct Applied {
    /// The code of the first result that is in `done`, or of the last result if none is; `gone` if no
    /// submission exists any more.
    code: &'static str,
    /// The changes that the notice counts: the code of each, and the submission. Results such as `unchanged`
    /// are left out, and so are changes of notes, follow-ups and replies.
    done: Vec<(&'static str, Uuid)>,
    /// The annotations that the submissions had before the change, by submission id. Used to undo the change.
    before: HashMap<Uuid, Annotation>,
}

/// Makes a change of several submissions, and stores how to undo it. Returns [`Applied::code`] for the
/// notice, the number of changes that the notice counts, and the parameter of the URL that offers to undo
/// them; it is empty if they cannot be undone.
fn apply_all(
    request: &PageRequest<'_>,
    ids: &[Uuid],
    change: &Change,
) -> Result<(&'static str, usize, String), StoreError> {
    let Applied { code, done, before } = apply_each(request, ids, change)?;
    let Some(undo) = undo_text(&done, &before) else { return Ok((code, done.len(), String::new())) };
    let undo = editor(request)?.remember_undo(&undo, request.clock.now)?;
    Ok((code, done.len(), format!("&undo={undo}")))
}

/// Applies `change` to each submission that still exists; [`Change::Remove`] changes nothing here. An error
/// ends the loop; earlier changes stay.
fn apply_each(request: &PageRequest<'_>, ids: &[Uuid], change: &Change) -> Result<Applied, StoreError> {
    let inbox = request.inbox;
    inbox.readers.with(|reader| {
        let mut changes = Changes::open(inbox.readers.database(), reader, &request.operator.user)?
            .teaching_with(&request.options.lexicon());
        let mut applied = Applied { code: "gone", done: Vec::new(), before: reader.annotations(ids)? };
        // Only an assignment to a named user needs the list of permitted assignees.
        let people = match change {
            Change::Work(WorkChange::Assign(Some(_))) => {
                people(request.options, reader, &request.operator.user)?
            }
            _ => Vec::new(),
        };
        for submission in find_all(reader, ids)? {
            let result = apply(request, &mut changes, &submission, change, &people)?;
            if applied.done.is_empty() {
                applied.code = result;
            }
            if undoing(result).is_some() || OTHER_CHANGES.contains(&result) {
                applied.done.push((result, submission.id));
            }
        }
        Ok(applied)
    })
}

/// Makes a change of one submission, which must have been read just before. Returns the code of the notice.
/// [`WorkChange::Assign`] permits only names in `people`. Does nothing for [`Change::Remove`].
fn apply(
    request: &PageRequest<'_>,
    changes: &mut Changes<'_>,
    submission: &Submission,
    change: &Change,
    people: &[String],
) -> Result<&'static str, StoreError> {
    let (id, now) = (submission.id, request.clock.now);
    let channels = &*request.inbox.store.channels.load_full();
    // The submission existed a moment ago, so take `Missing` to mean that it has not been processed yet.
    let annotated = |code: &'static str, annotated: Annotated| match annotated {
        Annotated::Changed => code,
        Annotated::Unchanged => "unchanged",
        Annotated::Missing => "pending",
    };
    Ok(match change {
        Change::Hold => match changes.hold(submission, None, now)? {
            Held::Held { .. } => "held",
            Held::AlreadyHeld => "already-held",
            Held::NothingToHold => "already-delivered",
            Held::Missing => "gone",
        },
        // A second click on the button of a held submission must not deliver it without a confirmation.
        Change::Release { even_unconfirmed: false } if submission.status == Status::Unconfirmed => {
            "asks-visitor"
        }
        Change::Release { .. } => match changes.release(id, channels, now)? {
            Released::Released(0) => "released-only",
            Released::Released(_) => "released",
            Released::AsksVisitor => "asks-visitor",
            Released::NotHeld => "not-held",
            Released::Missing => "gone",
        },
        Change::Retry => {
            let which = Filter { id: Some(id), ..Filter::default() };
            match changes.retry(&Retry { which, ..Retry::default() }, now)? {
                0 => "nothing-to-retry",
                _ => "retried",
            }
        }
        Change::Deliver => match changes.deliver(submission, channels, now)? {
            Queued::Queued(_) => "queued",
            Queued::Missing => "gone",
            _ => "not-queued",
        },
        Change::SetDone(true) => annotated("done", changes.set_done(id, true, now)?),
        Change::SetDone(false) => annotated("reopened", changes.set_done(id, false, now)?),
        Change::SetSpam(true) => annotated("spam", changes.editor.mark_spam(id, now)?),
        // Screening learns that the submission is legitimate, even if it was not marked as spam.
        Change::SetSpam(false) => match changes.editor.unmark_spam(id, channels, now)? {
            Annotated::Unchanged => "taught",
            unmarked => annotated("not-spam", unmarked),
        },
        Change::UndoSpam => annotated("not-spam", changes.editor.undo_spam(id, channels, now)?),
        Change::MarkUnread => annotated("unread", changes.editor.set_seen(id, false, now)?),
        Change::Work(work) => work.make(changes, id, &request.operator.user, people, &request.clock)?,
        Change::Remove(_) => "unchanged",
    })
}

/// The changes that undo those in `done`, as JSON: the names of changes with the ids of submissions. An
/// undone assignment restores the assignee that each submission had `before`; an empty name stands for none.
/// `None` if nothing can be undone.
fn undo_text(done: &[(&'static str, Uuid)], before: &HashMap<Uuid, Annotation>) -> Option<String> {
    let mut steps: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (result, id) in done {
        let assignee = || before.get(id).and_then(|it| it.assignee.as_deref()).unwrap_or_default();
        let step = match *result {
            "assigned" | "unassigned" => Some(("assign", assignee())),
            result => undoing(result).map(|action| (action, "")),
        };
        if let Some(step) = step {
            steps.entry(step).or_default().push(id.to_string());
        }
    }
    let step =
        |((action, assignee), ids)| serde_json::json!({ "action": action, "assignee": assignee, "ids": ids });
    let steps: Vec<serde_json::Value> = steps.into_iter().map(step).collect();
    (!steps.is_empty()).then(|| serde_json::json!(steps).to_string())
}

/// Undoes a change that the operator made, which works once, and redirects to `back`. Leaves out submissions
/// that are gone, and those with a later change that undoing could revert ([`InboxReader::changed_since`]).
/// Undoes nothing if `id` has expired or is not a change of this operator. After an error, the rest can no
/// longer be undone. The result cannot itself be undone.
pub(super) fn undo(request: &PageRequest<'_>, id: Uuid, back: &str) -> Result<Reply, StoreError> {
    let taken = editor(request)?.take_undo(id, request.clock.now)?;
    let steps: Vec<serde_json::Value> =
        taken.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let (mut undone, mut all) = (0, 0);
    for step in &steps {
        let assignee = step["assignee"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        let change = match step["action"].as_str().unwrap_or_default() {
            "assign" => Some(Change::Work(WorkChange::Reassign(assignee))),
            action => Change::parse(action),
        };
        let ids = step["ids"].as_array().into_iter().flatten();
        let mut ids: Vec<Uuid> = ids.filter_map(|id| Uuid::try_parse(id.as_str()?).ok()).collect();
        all += ids.len();
        // Undoing must not revert a later change, which a colleague may have made.
        let changed = request.inbox.readers.with(|reader| reader.changed_since(id, &ids))?;
        ids.retain(|id| !changed.contains(id));
        if let Some(change) = change {
            undone += apply_each(request, &ids, &change)?.done.len();
        }
    }
    let code = match undone {
        0 => "not-undone",
        undone if undone == all => "undone",
        _ => "undone-some",
    };
    Ok(see_other(&notice_path(back, code)))
}

/// Saves a list as a view with this name, in place of an existing one, or removes that view. Redirects to the
/// list. For an invalid name, or one view too many, saves nothing; the notice says so.
pub(super) fn change_view(
    request: &PageRequest<'_>,
    name: &str,
    list: &ListQuery,
    is_removal: bool,
) -> Result<Reply, StoreError> {
    let mut editor = editor(request)?;
    let path = list.path();
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let code = if is_removal {
        editor.remove_view(name)?;
        "view-removed"
    } else {
        match editor.save_view(name, query)? {
            Saved::Saved => "view-saved",
            Saved::Replaced => "view-replaced",
            Saved::Invalid => "view-invalid",
            Saved::TooMany => "view-many",
        }
    };
    Ok(see_other(&notice_path(&path, code)))
}

pub(super) fn submission_path(id: Uuid) -> String {
    format!("/submissions/{id}")
}

fn notice_path(path: &str, code: &str) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}notice={code}")
}

fn editor(request: &PageRequest<'_>) -> Result<Editor, StoreError> {
    let editor = Editor::open(request.inbox.readers.database())?.on_behalf_of(&request.operator.user);
    Ok(editor.teaching_with(&request.options.lexicon()))
}

/// Shows what would be removed, or removes it if the form confirms that. An erasure removes everything from
/// the address of the first submission. If that has no readable address, removes nothing, and the notice says
/// that the submission is gone. Otherwise only held submissions are removed. `list` is the path of the list
/// in which the submissions were selected; `None` on the page of the only one. A removal redirects to the
/// list, or else to `/`. `ids` must not be empty.
fn remove(
    request: &PageRequest<'_>,
    ids: &[Uuid],
    removal: Removal,
    list: Option<&str>,
) -> Result<Reply, StoreError> {
    let inbox = request.inbox;
    let found = inbox.readers.with(|reader| find_all(reader, ids))?;
    let is_file = inbox.readers.database().file().is_some();
    let back = list.unwrap_or("/");
    if removal.is_erasure {
        let Some(email) = found.first().and_then(|submission| submission.email()).map(str::to_owned) else {
            return Ok(see_other(&notice_path(back, "gone")));
        };
        if removal.is_confirmed {
            let erased = editor(request)?.erase(&email)?;
            let code = removal_code(erased.submissions, 0, erased.is_wiped || !is_file);
            return Ok(see_other(&notice_path(back, code)));
        }
        return request.confirm(&context! {
            kind => "erase",
            count => editor(request)?.count_from(&email)?,
            email => visible(&email),
            target => submission_path(ids[0]),
            back => submission_path(ids[0]),
        });
    }
    let preview = DiscardPreview::new(found);
    if removal.is_confirmed {
        let discarded = preview.discard(&mut editor(request)?, request.clock.now)?;
        let erased = discarded.erased;
        let code = removal_code(erased.submissions, discarded.stayed, erased.is_wiped || !is_file);
        return Ok(see_other(&notice_path(back, code)));
    }
    let rows: Vec<Value> =
        preview.held.iter().map(|found| submission_view::row(found, None, &request.clock)).collect();
    let page = submission_path(ids[0]);
    request.confirm(&context! {
        kind => "discard",
        count => rows.len(),
        rows,
        others => preview.others.len(),
        list,
        target => if list.is_some() { "/selected" } else { &page },
        back => list.unwrap_or(&page),
    })
}

/// The submissions that still exist, in the order of `ids`.
fn find_all(reader: &InboxReader, ids: &[Uuid]) -> Result<Vec<Submission>, StoreError> {
    ids.iter().filter_map(|id| reader.get(*id).transpose()).collect()
}

/// Ends sessions, and redirects to the page of sessions with a notice of the result, even if there was none
/// to end. Ends only sessions that the user may see ([`PageRequest::visible_sessions`]). The exception is
/// [`Revocation::Everyone`], which ends all and makes unused login links invalid: `needed_role` in `route.rs`
/// permits it only to admins. [`Revocation::User`] also removes the login links that were mailed to that
/// user.
pub(super) fn revoke(request: &PageRequest<'_>, which: &Revocation) -> Result<Reply, StoreError> {
    let is_named = |session: &Session| match which {
        Revocation::One(id) => session.short_id() == *id,
        Revocation::Own => session.user == request.operator.user,
        Revocation::User(user) => session.user == *user,
        Revocation::Everyone => true,
    };
    let code = if matches!(which, Revocation::Everyone) {
        editor(request)?.revoke(None)?;
        "all-ended"
    } else {
        let sessions = request.inbox.readers.with(|reader| request.visible_sessions(reader))?;
        let hashes: Vec<_> = sessions.iter().filter(|it| is_named(it)).map(|it| it.hash).collect();
        let mut editor = editor(request)?;
        if let Revocation::User(user) = which {
            editor.remove_mailed_logins(&|name| name == user)?;
        }
        match (editor.revoke(Some(&hashes))?, which) {
            (0, _) => "no-session",
            (_, Revocation::One(_)) => "ended",
            _ => "user-ended",
        }
    };
    Ok(see_other(&notice_path("/sessions", code)))
}

/// Ends the operator's own session. Does nothing if a proxy names the user.
pub(super) fn log_out(inbox: &DeskState, operator: &InboxUser) -> Result<(), StoreError> {
    let Some(hash) = operator.session else { return Ok(()) };
    Editor::open(inbox.readers.database())?.on_behalf_of(&operator.user).revoke(Some(&[hash])).map(drop)
}

/// Starts to send a test message through a channel, unless one is already being sent. Records that in the
/// operators' log first, and fails without sending if it cannot. Waits up to [`TEST_PATIENCE`] for the
/// result, but not if more than [`MAX_WAITING_TESTS`] tests are in progress, including this one. Then
/// redirects to the page of channels, which shows the result. `None` if no channel has this name.
pub(super) fn test_channel(
    inbox: &Arc<DeskState>,
    request: &PageRequest<'_>,
    name: &str,
) -> Result<Option<Reply>, StoreError> {
    let Some(channel) = request.options.channels.iter().find(|channel| channel.name == name).cloned() else {
        return Ok(None);
    };
    let testing = || inbox.testing.lock().unwrap_or_else(PoisonError::into_inner);
    if testing().insert(name.to_owned()) {
        if let Err(error) = editor(request).and_then(|mut editor| editor.log_test(name)) {
            testing().remove(name);
            return Err(error);
        }
        let inbox = inbox.clone();
        let can_wait = testing().len() <= MAX_WAITING_TESTS;
        let (done, result) = mpsc::channel();
        tokio::runtime::Handle::current().spawn(async move {
            let (at, began) = (Timestamp::now(), Instant::now());
            let outcome = test_message::send(&channel, "the inbox's web interface", at).await;
            let sentence = delivery_explanations::describe_test(&channel, &outcome);
            let outcome = test_message::describe(&channel.kind, &outcome, began.elapsed());
            let mut tests = inbox.tests.lock().unwrap_or_else(PoisonError::into_inner);
            tests.insert(channel.name.clone(), ChannelTest { at, sentence, outcome });
            inbox.testing.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel.name);
            // Ignore the error: the response may have stopped waiting for the result.
            let _ = done.send(());
        });
        if can_wait {
            // After `TEST_PATIENCE` without a result, the page says that the message is being sent.
            let _ = result.recv_timeout(TEST_PATIENCE);
        }
    }
    Ok(Some(see_other(&format!("/channels?{}", encode_pairs([("tested", name)])))))
}
