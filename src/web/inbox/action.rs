//! Changes that forms ask for, each followed by a redirect to a page that shows the result.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use http::StatusCode;
use jiff::Timestamp;
use minijinja::{Value, context};
use uuid::Uuid;

use super::app::{ChannelTest, InboxApp};
use super::auth::InboxUser;
use super::html::{Reply, see_other};
use super::page::{PageRequest, link_to};
use super::request::Pairs;
use super::view;
use frontdesk_deliver::test_message;
use frontdesk_forms::text::visible;
use frontdesk_inbox::change::{Changes, Held, Queued, Released};
use frontdesk_inbox::query::ListQuery;
use frontdesk_inbox::removal::DiscardPreview;
use frontdesk_inbox::store::{Annotated, Editor, Filter, InboxReader, MAX_NOTE, Retry, StoreError};
use frontdesk_inbox::submission::{Status, Submission};

/// Maximum number of submissions that one form may change.
const MAX_IDS: usize = 500;

/// Applies the action of a form to one submission. `None` if the action is not known.
pub(super) fn change_one(
    request: &PageRequest<'_>,
    id: Uuid,
    form: &Pairs,
) -> Result<Option<Reply>, StoreError> {
    let inbox = request.inbox;
    let action = form.get("action").unwrap_or_default();
    if action == "discard" || action == "erase" {
        return remove(request, &[id], action, form).map(Some);
    }
    let code = inbox.readers.with(|reader| {
        let Some(submission) = reader.get(id)? else { return Ok(Some("gone")) };
        let channels = inbox.app.store.channels.load_full();
        let mut changes = Changes::open(inbox.readers.place(), reader, &request.operator.user)?;
        let now = request.clock.now;
        Ok(Some(match action {
            "hold" => match changes.hold(&submission, None, now)? {
                Held::Held { .. } => "held",
                Held::AlreadyHeld => "already-held",
                Held::AlreadyDelivered => "already-delivered",
                Held::Missing => "gone",
            },
            // A second click on the button of a held submission must not deliver it without a confirmation.
            "release" if submission.status == Status::Unconfirmed => "asks-visitor",
            "release" | "deliver-unconfirmed" => match changes.release(id, &channels, now)? {
                Released::Released(0) => "released-only",
                Released::Released(_) => "released",
                Released::AsksVisitor => "asks-visitor",
                Released::NotHeld => "not-held",
                Released::Missing => "gone",
            },
            "retry" => {
                let which = Filter { id: Some(id), ..Filter::default() };
                match changes.retry(&Retry { which, ..Retry::default() }, now)? {
                    0 => "nothing-to-retry",
                    _ => "retried",
                }
            }
            "deliver" => match changes.deliver(&submission, &channels, now)? {
                Queued::Queued(_) => "queued",
                Queued::Missing => "gone",
                _ => "not-queued",
            },
            "done" | "reopen" => match changes.set_done(id, action == "done", now)? {
                Annotated::Changed if action == "done" => "done",
                Annotated::Changed => "reopened",
                Annotated::Unchanged => "unchanged",
                Annotated::Missing => "pending",
            },
            "note" => {
                // Browsers send line breaks as CR LF.
                let note = form.get("note").unwrap_or_default().replace("\r\n", "\n");
                if note.trim().chars().count() > MAX_NOTE {
                    return Ok(Some("note-long"));
                }
                match changes.set_note(id, &note)? {
                    Annotated::Changed => "note",
                    Annotated::Unchanged => "unchanged",
                    Annotated::Missing => "pending",
                }
            }
            _ => return Ok(None),
        }))
    })?;
    Ok(code.map(|code| see_other(&after_change(id, code, form))))
}

/// The path to show after a change: the list on which the form was, or the submission.
fn after_change(id: Uuid, code: &str, form: &Pairs) -> String {
    let Some(view) = form.get("view") else {
        return if code == "gone" {
            notice_path("/", code)
        } else {
            notice_path(&format!("/submissions/{id}"), code)
        };
    };
    // Only known parameters are taken from the form, so it cannot lead to another site.
    let pairs = Pairs::parse(view.split_once('?').map_or("", |(_, query)| query));
    notice_path(&link_to(&ListQuery::from_pairs(pairs.iter())), code)
}

fn notice_path(path: &str, code: &str) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}notice={code}")
}

/// Releases or discards the selected held submissions. Does not release those that visitors must confirm.
pub(super) fn change_selected(request: &PageRequest<'_>, form: &Pairs) -> Result<Option<Reply>, StoreError> {
    let mut ids: Vec<Uuid> = form.all("id").filter_map(|id| Uuid::try_parse(id).ok()).take(MAX_IDS).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(Some(see_other(&notice_path("/review", "none-selected"))));
    }
    match form.get("action") {
        Some("discard") => remove(request, &ids, "discard", form).map(Some),
        Some("release") => {
            let inbox = request.inbox;
            let channels = inbox.app.store.channels.load_full();
            inbox.readers.with(|reader| {
                let mut changes = Changes::open(inbox.readers.place(), reader, &request.operator.user)?;
                let held = find_all(reader, &ids)?.into_iter().filter(|found| found.status == Status::Held);
                held.map(|found| found.id)
                    .try_for_each(|id| changes.release(id, &channels, request.clock.now).map(drop))
            })?;
            Ok(Some(see_other(&notice_path("/review", "released"))))
        }
        _ => Ok(None),
    }
}

/// Shows what would be removed, or removes it if the form confirms that.
fn remove(request: &PageRequest<'_>, ids: &[Uuid], action: &str, form: &Pairs) -> Result<Reply, StoreError> {
    let inbox = request.inbox;
    let found = inbox.readers.with(|reader| find_all(reader, ids))?;
    let is_confirmed = form.get("confirmed") == Some("yes");
    let back = if form.get("from") == Some("review") { "/review" } else { "/" };
    let editor = || -> Result<Editor, StoreError> {
        Ok(Editor::open(inbox.readers.place())?.on_behalf_of(&request.operator.user))
    };
    if action == "erase" {
        let Some(email) = found.first().and_then(|submission| submission.get("email")).map(str::to_owned)
        else {
            return Ok(see_other(&notice_path(back, "gone")));
        };
        if is_confirmed {
            let erased = editor()?.erase(&email)?;
            let code = removal_code(
                erased.submissions,
                0,
                erased.is_wiped || inbox.readers.place().file().is_none(),
            );
            return Ok(see_other(&notice_path(back, code)));
        }
        let count = editor()?.count_from(&email)?;
        return request.confirm(&context! {
            kind => "erase",
            count,
            email => visible(&email),
            target => format!("/submissions/{}", ids[0]),
            back => format!("/submissions/{}", ids[0]),
        });
    }
    let preview = DiscardPreview::new(found);
    if is_confirmed {
        let discarded = preview.discard(&mut editor()?)?;
        let (erased, is_file) = (discarded.erased, inbox.readers.place().file().is_some());
        let code = removal_code(erased.submissions, discarded.stayed, erased.is_wiped || !is_file);
        return Ok(see_other(&notice_path(back, code)));
    }
    let rows: Vec<Value> = preview.held.iter().map(|found| view::row(found, None, &request.clock)).collect();
    let is_single = form.get("from") != Some("review");
    let target = if is_single { format!("/submissions/{}", ids[0]) } else { "/review".to_owned() };
    request.confirm(&context! {
        kind => "discard",
        count => rows.len(),
        rows,
        others => preview.others.len(),
        from => form.get("from").filter(|from| *from == "review"),
        target,
        back => if is_single { format!("/submissions/{}", ids[0]) } else { "/review".to_owned() },
    })
}

fn removal_code(removed: usize, stayed: usize, is_wiped: bool) -> &'static str {
    match (removed, stayed, is_wiped) {
        (0, ..) => "nothing-removed",
        (_, _, false) => "not-wiped",
        (_, 0, _) => "removed",
        _ => "removed-some",
    }
}

fn find_all(reader: &InboxReader, ids: &[Uuid]) -> Result<Vec<Submission>, StoreError> {
    ids.iter().filter_map(|id| reader.get(*id).transpose()).collect()
}

/// Ends one session, or all of them.
pub(super) fn revoke(request: &PageRequest<'_>, form: &Pairs) -> Result<Option<Reply>, StoreError> {
    let inbox = request.inbox;
    let sessions = inbox.readers.with(|reader| reader.sessions(request.clock.now))?;
    let mut editor = Editor::open(inbox.readers.place())?.on_behalf_of(&request.operator.user);
    if form.get("action") == Some("all") {
        editor.revoke(None)?;
        return Ok(Some(see_other("/sessions?notice=all-ended")));
    }
    let Some(id) = form.get("id") else { return Ok(None) };
    let hashes: Vec<_> =
        sessions.iter().filter(|session| session.short_id() == id).map(|session| session.hash).collect();
    editor.revoke(Some(&hashes))?;
    Ok(Some(see_other("/sessions?notice=ended")))
}

/// Ends the operator's own session.
pub(super) fn log_out(inbox: &InboxApp, operator: &InboxUser) -> Result<(), StoreError> {
    let Some(hash) = operator.session else { return Ok(()) };
    Editor::open(inbox.readers.place())?.on_behalf_of(&operator.user).revoke(Some(&[hash])).map(drop)
}

/// Starts to send a test message through a channel, unless one is being sent. `None` if there is no channel
/// with this name.
pub(super) fn test_channel(
    inbox: &Arc<InboxApp>,
    operator: &InboxUser,
    name: &str,
) -> Result<Option<Reply>, StoreError> {
    let options = inbox.app.snapshot.load().options.clone();
    let Some(channel) = options.inbox_pages.channels.iter().find(|channel| channel.name == name).cloned()
    else {
        return Ok(None);
    };
    let testing = || inbox.testing.lock().unwrap_or_else(PoisonError::into_inner);
    if testing().insert(name.to_owned()) {
        let logged = Editor::open(inbox.readers.place())
            .and_then(|editor| editor.on_behalf_of(&operator.user).log_test(name));
        if let Err(error) = logged {
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

/// The page for a form whose token is missing or belongs to another session.
pub(super) fn refuse_form(inbox: &InboxApp) -> Reply {
    inbox.templates.message(
        StatusCode::FORBIDDEN,
        "This form has expired",
        "Go back, reload the page, and send the form again. Nothing was changed.",
    )
}
