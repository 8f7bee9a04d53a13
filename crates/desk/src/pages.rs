//! The pages: each reads what it shows, within a time limit where the inbox may be large.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use http::StatusCode;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::{Value, context};
use uuid::Uuid;

use super::annotations::{people, work_values};
use super::auth::InboxUser;
use super::delivery_explanations::Receiver;
use super::html::Reply;
use super::list_query::ListQuery;
use super::mailto::reply_link;
use super::notice::Notice;
use super::options::DeskOptions;
use super::request::Pairs;
use super::role::Role;
use super::state::DeskState;
use super::submission_view;
use super::submitter;
use super::template_time::Clock;
use frontdesk_forms::text::visible;
use frontdesk_inbox::store::{Editor, InboxReader, Session, StoreError, TRUSTED_LIFETIME};
use frontdesk_inbox::submission::delivery::choose;
use frontdesk_inbox::submission::{Status, Submission};

const LOG_SIZE: usize = 100;
/// Open, unread, held and failed submissions are counted up to this number.
const MAX_COUNTED: usize = 1000;

/// An authenticated request.
pub(super) struct PageRequest<'a> {
    pub(super) inbox: &'a DeskState,
    pub(super) options: &'a DeskOptions,
    pub(super) operator: &'a InboxUser,
    /// The list and the position in it that the URL specifies.
    pub(super) query: ListQuery,
    /// The notice with the result of the change after which the browser was redirected to this page.
    notice: Option<Notice>,
    /// The channel for which a test message has just been requested.
    pub(super) tested: Option<String>,
    /// The number of days that statistics cover, as the URL specifies it.
    pub(super) days: Option<u16>,
    pub(super) clock: Clock,
}

impl<'a> PageRequest<'a> {
    /// A request at the current time, with the values that the parameters of the URL (`query`) specify.
    pub(super) fn new(
        inbox: &'a DeskState,
        options: &'a DeskOptions,
        operator: &'a InboxUser,
        query: &Pairs,
    ) -> Self {
        let clock = Clock { now: Timestamp::now(), zone: TimeZone::system() };
        let notice = Notice::from_pairs(query);
        let tested = query.get("tested").map(str::to_owned);
        let days = query.get("days").and_then(|days| days.parse().ok());
        Self {
            inbox,
            options,
            operator,
            query: ListQuery::from_pairs(query.iter()),
            notice,
            tested,
            days,
            clock,
        }
    }

    /// Returns the template values that every page needs. Counts submissions up to [`MAX_COUNTED`]. Offers to
    /// undo a change only if that is known to be possible.
    pub(super) fn shared(&self, reader: &InboxReader, section: &str) -> Result<Value, StoreError> {
        let count = |status| reader.count_up_to(status, MAX_COUNTED).map(count_text);
        let [open, unread] = reader.count_open(MAX_COUNTED)?.map(count_text);
        let undo = self.notice.as_ref().and_then(|notice| notice.undo);
        let can_undo =
            |id: &Uuid| reader.can_undo(*id, &self.operator.user, self.clock.now).unwrap_or_default();
        Ok(context! {
            site => self.options.title.clone(),
            section,
            user => self.operator.user.clone(),
            form_token => self.operator.form_token(),
            has_session => self.operator.session.is_some(),
            can_edit => self.operator.role >= Role::Edit,
            is_admin => self.operator.role == Role::Admin,
            held_count => count(Status::Held)?,
            failed_count => count(Status::Parked)?,
            open_count => open,
            unread_count => unread,
            notice => self.notice.as_ref().map(Notice::text),
            undo => undo.filter(can_undo).map(|id| id.to_string()),
            view => self.query.path(),
        })
    }

    /// Renders a template with `values` and the values that every page shares, read over one connection. The
    /// navigation marks `section` as the current page.
    pub(super) fn render(
        &self,
        template: &str,
        section: &str,
        values: impl FnOnce(&InboxReader) -> Result<Value, StoreError>,
    ) -> Result<Reply, StoreError> {
        let values = self.inbox.readers.with(|reader| {
            let shared = self.shared(reader, section)?;
            Ok(context! { ..values(reader)?, ..shared })
        })?;
        Ok(self.inbox.templates.page(StatusCode::OK, template, values))
    }

    /// Returns the template values of a list's rows, numbered from `first`.
    pub(super) fn rows(
        &self,
        reader: &InboxReader,
        submissions: &[Submission],
        first: usize,
    ) -> Result<Vec<Value>, StoreError> {
        let ids: Vec<Uuid> = submissions.iter().map(|submission| submission.id).collect();
        let annotations = reader.annotations(&ids)?;
        let row = |(number, submission): (usize, &Submission)| {
            let row = submission_view::row(submission, annotations.get(&submission.id), &self.clock);
            context! { number => first + number, ..row }
        };
        Ok(submissions.iter().enumerate().map(row).collect())
    }

    /// The page of one submission; `None` if it does not exist. Marks the submission as read if the user may
    /// edit it, but not on the page that follows a change. A failure to mark it is only logged.
    pub(super) fn submission(&self, id: Uuid) -> Result<Option<Reply>, StoreError> {
        let found = self.inbox.readers.with(|reader| {
            let Some(submission) = reader.get(id)? else { return Ok(None) };
            let annotation = reader.annotations(&[id])?.remove(&id).unwrap_or_default();
            // A page that follows a change, such as "mark as unread", must not mark the submission as read.
            if annotation.seen_at.is_none() && self.notice.is_none() && self.operator.role >= Role::Edit {
                let marked = Editor::open(self.inbox.readers.database())
                    .and_then(|mut editor| editor.set_seen(id, true, self.clock.now));
                if let Err(error) = marked {
                    tracing::warn!(%id, %error, "could not mark an opened submission as read; it stays unread");
                }
            }
            let notes = reader.notes(&[id])?.remove(&id).unwrap_or_default();
            let user = &self.operator.user;
            let people = people(self.options, reader, user)?;
            let work = work_values(&annotation, &notes, &people, user, &self.clock);
            let person = submitter::link_values(reader, id)?;
            let deliveries = reader.deliveries(id)?;
            let reply =
                reply_link(&submission, &self.options.title, self.options.replies.get(&submission.form));
            // Whether a channel takes the submission and has no delivery of it, such as a channel that was
            // added later.
            let channels = self.inbox.store.channels.load();
            let missing = choose(&channels, &submission.form, &submission.fields)
                .iter()
                .any(|route| !deliveries.iter().any(|delivery| delivery.channel == route.name));
            let can_deliver = missing && submission.held.is_none() && submission.sealed.is_none();
            let details = submission_view::details(
                &submission,
                &annotation,
                &deliveries,
                &self.options.channels,
                reply,
                &self.clock,
            );
            let shared = self.shared(reader, "list")?;
            Ok(Some(
                context! { can_deliver, person, ..context! { ..work, ..context! { ..details, ..shared } } },
            ))
        })?;
        Ok(found.map(|values| self.inbox.templates.page(StatusCode::OK, "submission.html", values)))
    }

    /// Lists the configured channels, and other channels that have a backlog or are paused or off.
    pub(super) fn channels(&self) -> Result<Reply, StoreError> {
        self.render("channels.html", "channels", |reader| {
            let queue = reader.queue()?;
            let obstacles: BTreeMap<_, _> = reader.obstacles()?.into_iter().collect();
            let tests = self.inbox.tests.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let testing = self.inbox.testing.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let value = |name: &str, kind: Option<&str>, forms: &[String]| {
                let backlog = queue.channels.iter().find(|channel| channel.name == name);
                let test = tests.get(name).map(|test| {
                    let text = test.outcome.as_ref().unwrap_or_else(|text| text);
                    let sentence = visible(&test.sentence);
                    context! { at => self.clock.time(test.at), is_good => test.outcome.is_ok(), sentence, text => visible(text) }
                });
                context! {
                    name => visible(name),
                    kind,
                    label => kind.map(|kind| match kind {
                        "smtp" => "Mail",
                        "webhook" => "Webhook",
                        "maildir" => "Mail folder",
                        other => other,
                    }),
                    forms => forms.join(", "),
                    waiting => backlog.map_or(0, |channel| channel.waiting),
                    parked => backlog.map_or(0, |channel| channel.parked),
                    oldest => backlog.and_then(|channel| channel.oldest).map(|at| self.clock.time(at)),
                    obstacle => obstacles.get(name).map(|obstacle| submission_view::obstacle_value(obstacle, Receiver::of(name, &self.options.channels), &self.clock)),
                    test,
                    is_testing => testing.contains(name),
                }
            };
            let configured = &self.options.channels;
            let tested = self.tested.as_ref().filter(|name| configured.iter().any(|channel| channel.name == **name));
            let result = tested.map(|name| match tests.get(name) {
                _ if testing.contains(name) => "The test message is being sent. This page shows the result when it is known; without JavaScript, reload it.".to_owned(),
                Some(test) => format!("{}: {}", visible(name), visible(&test.sentence)),
                None => "The test was interrupted. Start it again.".to_owned(),
            });
            let is_awaited = tested.is_some_and(|name| testing.contains(name));
            let mut channels: Vec<Value> = configured
                .iter()
                .map(|channel| value(&channel.name, Some(channel.kind.name()), &channel.forms))
                .collect();
            let is_known = |name: &str| configured.iter().any(|channel| channel.name == name);
            let others = queue.channels.iter().filter(|channel| !is_known(&channel.name));
            channels.extend(others.map(|channel| value(&channel.name, None, &[])));
            Ok(context! { notice => result, is_awaited, channels, pending => queue.pending, set_aside => queue.set_aside })
        })
    }

    /// A page of at most [`LOG_SIZE`] changes by operators, newest first.
    pub(super) fn log(&self) -> Result<Reply, StoreError> {
        let before = self.query.before;
        self.render("log.html", "log", |reader| {
            let mut entries = reader.operator_log(before, LOG_SIZE + 1)?;
            let has_more = entries.len() > LOG_SIZE;
            entries.truncate(LOG_SIZE);
            let next = entries.last().filter(|_| has_more).map(|entry| format!("/log?before={}", entry.id));
            let entries: Vec<Value> = entries
                .iter()
                .map(|entry| {
                    context! {
                        at => self.clock.time(entry.at),
                        user => visible(&entry.user),
                        action => visible(&entry.action),
                        submission => entry.submission.map(|id| id.to_string()),
                        channel => entry.channel.as_deref().map(visible),
                        count => entry.count,
                    }
                })
                .collect();
            Ok(context! { entries, next, is_first => before.is_none() })
        })
    }

    /// The sessions that the user sees and may end: all for an admin, otherwise the user's own.
    pub(super) fn visible_sessions(&self, reader: &InboxReader) -> Result<Vec<Session>, StoreError> {
        let is_visible =
            |session: &Session| self.operator.role == Role::Admin || session.user == self.operator.user;
        Ok(reader.sessions(self.clock.now)?.into_iter().filter(is_visible).collect())
    }

    /// The page of the sessions that have not ended: of all users for an admin, otherwise the user's own.
    pub(super) fn sessions(&self) -> Result<Reply, StoreError> {
        self.render("sessions.html", "sessions", |reader| {
            let found = self.visible_sessions(reader)?;
            let mut others: Vec<String> = found.iter().map(|session| session.user.clone()).collect();
            others.retain(|user| *user != self.operator.user);
            others.sort_unstable();
            others.dedup();
            let sessions: Vec<Value> = found
                .iter()
                .map(|session| {
                    context! {
                        id => session.short_id(),
                        user => visible(&session.user),
                        created => self.clock.time(session.created_at),
                        used => self.clock.time(session.used_at),
                        client => session.client.clone(),
                        is_mailed => session.is_mailed,
                        is_trusted => session.is_trusted,
                        until => session.is_trusted.then(|| self.clock.day(session.created_at + TRUSTED_LIFETIME)),
                        is_own => self.operator.session == Some(session.hash),
                    }
                })
                .collect();
            Ok(context! { sessions, others })
        })
    }

    /// A page on which the operator confirms a removal. Its form repeats the action and the ids in `values`.
    pub(super) fn confirm(&self, values: &Value) -> Result<Reply, StoreError> {
        self.render("confirm.html", "list", |_| Ok(values.clone()))
    }
}

/// A count for a badge: empty for none, and `999+` for [`MAX_COUNTED`].
fn count_text(count: usize) -> String {
    match count {
        0 => String::new(),
        MAX_COUNTED => format!("{}+", MAX_COUNTED - 1),
        count => count.to_string(),
    }
}
