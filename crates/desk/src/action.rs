//! The changes that forms request. Each is followed by a redirect to a page that shows the result, except
//! that a removal first shows what it would remove.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use minijinja::{Value, context};
use uuid::Uuid;

use super::auth::InboxUser;
use super::html::{Reply, see_other};
use super::notice::removal_code;
use super::page::{PageRequest, link_to};
use super::query::ListQuery;
use super::state::{ChannelTest, DeskState};
use super::view;
use super::work::{WorkChange, people};
use frontdesk_deliver::test_message;
use frontdesk_forms::text::visible;
use frontdesk_inbox::change::{Changes, Held, Queued, Released};
use frontdesk_inbox::removal::DiscardPreview;
use frontdesk_inbox::store::{Annotated, Editor, Filter, InboxReader, Retry, Session, StoreError};
use frontdesk_inbox::submission::{Status, Submission};

/// A change of one submission.
pub(super) struct SubmissionForm {
    pub(super) change: Change,
    /// The list on which the form was; `None` if it was on the submission's page.
    pub(super) list: Option<ListQuery>,
}

pub(super) enum Change {
    Hold,
    /// Releases a held submission; one that its visitor has not confirmed only with `even_unconfirmed`.
    Release {
        even_unconfirmed: bool,
    },
    Retry,
    Deliver,
    SetDone(bool),
    Work(WorkChange),
    Remove(Removal),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Removal {
    /// Whether to remove everything from the submission's address, rather than the submission.
    pub(super) is_erasure: bool,
    /// Whether the operator has seen what is removed.
    pub(super) is_confirmed: bool,
    pub(super) is_from_review: bool,
}

/// Which sessions to end.
pub(super) enum Revocation {
    /// The one with this short id, if there is one. Users who are not admins can only name their own.
    One(String),
    /// All sessions with the name of the user who sends the form.
    Own,
    /// All sessions of one user.
    User(String),
    /// All sessions of all users, and unused login links.
    Everyone,
}

/// Makes a change of one submission, and redirects to the form's list or to the submission with a notice of
/// the result. A removal that is not confirmed shows what it would remove instead ([`remove`]).
pub(super) fn change_one(
    request: &PageRequest<'_>,
    id: Uuid,
    form: &SubmissionForm,
) -> Result<Reply, StoreError> {
    let change = match &form.change {
        Change::Remove(removal) => return remove(request, &[id], *removal),
        change => change,
    };
    let inbox = request.inbox;
    let now = request.clock.now;
    let code = inbox.readers.with(|reader| {
        let Some(submission) = reader.get(id)? else { return Ok("gone") };
        let channels = inbox.store.channels.load_full();
        let mut changes = Changes::open(inbox.readers.database(), reader, &request.operator.user)?;
        Ok(match change {
            Change::Hold => match changes.hold(&submission, None, now)? {
                Held::Held { .. } => "held",
                Held::AlreadyHeld => "already-held",
                Held::AlreadyDelivered => "already-delivered",
                Held::Missing => "gone",
            },
            // A second click on the button of a held submission must not deliver it without a confirmation.
            Change::Release { even_unconfirmed: false } if submission.status == Status::Unconfirmed => {
                "asks-visitor"
            }
            Change::Release { .. } => match changes.release(id, &channels, now)? {
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
            Change::Deliver => match changes.deliver(&submission, &channels, now)? {
                Queued::Queued(_) => "queued",
                Queued::Missing => "gone",
                _ => "not-queued",
            },
            Change::SetDone(is_done) => match changes.set_done(id, *is_done, now)? {
                Annotated::Changed if *is_done => "done",
                Annotated::Changed => "reopened",
                Annotated::Unchanged => "unchanged",
                Annotated::Missing => "pending",
            },
            Change::Work(work) => {
                let user = &request.operator.user;
                let people = people(request.options, reader, user)?;
                work.make(&mut changes, id, user, &people, &request.clock)?
            }
            Change::Remove(_) => "unchanged",
        })
    })?;
    let path = match &form.list {
        Some(list) => link_to(list),
        None if code == "gone" => "/".to_owned(),
        None => submission_path(id),
    };
    Ok(see_other(&notice_path(&path, code)))
}

fn submission_path(id: Uuid) -> String {
    format!("/submissions/{id}")
}

fn notice_path(path: &str, code: &str) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}notice={code}")
}

/// Releases or removes the selected submissions. Skips those that are not held (any more), and does not
/// release those that visitors must confirm.
pub(super) fn change_selected(
    request: &PageRequest<'_>,
    ids: &[Uuid],
    removal: Option<Removal>,
) -> Result<Reply, StoreError> {
    if ids.is_empty() {
        return Ok(see_other(&notice_path("/review", "none-selected")));
    }
    if let Some(removal) = removal {
        return remove(request, ids, removal);
    }
    let inbox = request.inbox;
    let channels = inbox.store.channels.load_full();
    let code = inbox.readers.with(|reader| {
        let mut changes = Changes::open(inbox.readers.database(), reader, &request.operator.user)?;
        let mut code = "none-released";
        for found in find_all(reader, ids)?.iter().filter(|found| found.status == Status::Held) {
            let released = changes.release(found.id, &channels, request.clock.now)?;
            if matches!(released, Released::Released(_) | Released::AsksVisitor) {
                code = "released-selected";
            }
        }
        Ok(code)
    })?;
    Ok(see_other(&notice_path("/review", code)))
}

fn editor(request: &PageRequest<'_>) -> Result<Editor, StoreError> {
    Ok(Editor::open(request.inbox.readers.database())?.on_behalf_of(&request.operator.user))
}

/// Shows what would be removed, or removes it if the form confirms that. An erasure removes everything from
/// the address of the first submission; otherwise only held submissions are removed.
fn remove(request: &PageRequest<'_>, ids: &[Uuid], removal: Removal) -> Result<Reply, StoreError> {
    let inbox = request.inbox;
    let found = inbox.readers.with(|reader| find_all(reader, ids))?;
    let is_file = inbox.readers.database().file().is_some();
    let back = if removal.is_from_review { "/review" } else { "/" };
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
        let discarded = preview.discard(&mut editor(request)?)?;
        let erased = discarded.erased;
        let code = removal_code(erased.submissions, discarded.stayed, erased.is_wiped || !is_file);
        return Ok(see_other(&notice_path(back, code)));
    }
    let rows: Vec<Value> = preview.held.iter().map(|found| view::row(found, None, &request.clock)).collect();
    let page = if removal.is_from_review { "/review".to_owned() } else { submission_path(ids[0]) };
    request.confirm(&context! {
        kind => "discard",
        count => rows.len(),
        rows,
        others => preview.others.len(),
        from => removal.is_from_review.then_some("review"),
        target => page.clone(),
        back => page,
    })
}

fn find_all(reader: &InboxReader, ids: &[Uuid]) -> Result<Vec<Submission>, StoreError> {
    ids.iter().filter_map(|id| reader.get(*id).transpose()).collect()
}

/// Ends sessions that the user may end ([`PageRequest::visible_sessions`]). The notice says if there is none.
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
        match (editor(request)?.revoke(Some(&hashes))?, which) {
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

/// Starts to send a test message through a channel, and records that in the operators' log, unless one is
/// being sent. Does not wait for the result. `None` if there is no channel with this name.
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
        tokio::runtime::Handle::current().spawn(async move {
            let (at, began) = (Timestamp::now(), Instant::now());
            let outcome = test_message::send(&channel, "the inbox's web interface", at).await;
            let outcome = test_message::describe(&channel.kind, &outcome, began.elapsed());
            let mut tests = inbox.tests.lock().unwrap_or_else(PoisonError::into_inner);
            tests.insert(channel.name.clone(), ChannelTest { at, outcome });
            inbox.testing.lock().unwrap_or_else(PoisonError::into_inner).remove(&channel.name);
        });
    }
    Ok(Some(see_other("/channels?notice=testing")))
}
