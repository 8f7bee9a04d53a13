//! The pages: each reads what it shows, within a time limit where the inbox may be large.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use http::StatusCode;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use minijinja::{Value, context};
use uuid::Uuid;

use super::auth::InboxUser;
use super::clock::Clock;
use super::html::Reply;
use super::mailto::reply_link;
use super::notice::notice_text;
use super::options::DeskOptions;
use super::query::ListQuery;
use super::request::{Pairs, encode_pairs};
use super::role::Role;
use super::state::DeskState;
use super::view;
use super::work::{people, work_values};
use super::{chart, person};
use frontdesk_forms::text::visible;
use frontdesk_forms::{Form, FormSet};
use frontdesk_inbox::store::{InboxReader, LeadCounts, SearchPage, Session, StoreError};
use frontdesk_inbox::submission::delivery::choose;
use frontdesk_inbox::submission::{Status, Submission};

/// How long a list searches for submissions before it shows those that it has found.
const SEARCH_TIME: Duration = Duration::from_millis(25);
const PAGE_SIZE: usize = 50;
const LOG_SIZE: usize = 100;
/// Held and failed submissions are counted up to this number.
const MAX_COUNTED: usize = 1000;
const CHART_DAYS: usize = 30;

/// Maximum number of pages, referring hosts and campaigns in the statistics.
const MAX_LEADS: usize = 10;

/// An authenticated request.
pub(super) struct PageRequest<'a> {
    pub(super) inbox: &'a DeskState,
    pub(super) options: &'a DeskOptions,
    pub(super) operator: &'a InboxUser,
    /// The list and the position that the URL names.
    pub(super) query: ListQuery,
    /// The result of the change before this page.
    pub(super) notice: Option<&'static str>,
    pub(super) clock: Clock,
}

impl<'a> PageRequest<'a> {
    /// Reads the clock, and takes the list, the position and the notice from the URL's parameters.
    pub(super) fn new(
        inbox: &'a DeskState,
        options: &'a DeskOptions,
        operator: &'a InboxUser,
        query: &Pairs,
    ) -> Self {
        let clock = Clock { now: Timestamp::now(), zone: TimeZone::system() };
        let notice = query.get("notice").and_then(notice_text);
        Self { inbox, options, operator, query: ListQuery::from_pairs(query.iter()), notice, clock }
    }

    /// Values that every page needs.
    pub(super) fn shared(&self, reader: &InboxReader, section: &str) -> Result<Value, StoreError> {
        let count = |status| -> Result<String, StoreError> {
            Ok(match reader.count_up_to(status, MAX_COUNTED)? {
                0 => String::new(),
                MAX_COUNTED => format!("{}+", MAX_COUNTED - 1),
                count => count.to_string(),
            })
        };
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
            notice => self.notice,
        })
    }

    /// Renders a template with `values` and those that every page needs, read over one connection.
    fn render(
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

    /// The list with its filters. If a search runs out of time, the page says how far it has got.
    pub(super) fn list(&self) -> Result<Reply, StoreError> {
        let query = &self.query;
        self.render("list.html", "list", |reader| {
            let page = read_page(reader, query, PAGE_SIZE)?;
            let rows = self.rows(reader, &page.submissions)?;
            let is_empty = rows.is_empty() && page.next.is_none() && query.before.is_none();
            Ok(context! {
                rows,
                is_empty,
                is_filtered => query.is_filtered(),
                text => query.text.clone(),
                tabs => tabs(query, self.options.confirms_addresses),
                forms => form_links(query, &self.options.form_set, &reader.definitions()?),
                kept => query.first_page().to_pairs().into_iter().filter(|(name, _)| *name != "q").collect::<Vec<_>>(),
                view => link_to(query),
                export => encode(&query.first_page()),
                sealed => page.sealed,
                first => link_to(&query.first_page()),
                is_first => query.before.is_none(),
                ..self.position(&page, query)
            })
        })
    }

    /// The link to older submissions and, if the search ran out of time, how far back it has got.
    fn position(&self, page: &SearchPage, query: &ListQuery) -> Value {
        let next = page.next.map(|id| link_to(&ListQuery { before: Some(id), ..query.clone() }));
        let reached = page.next.filter(|_| page.is_partial).and_then(time_of).map(|at| self.clock.time(at));
        context! { next, is_partial => page.is_partial, reached }
    }

    fn rows(&self, reader: &InboxReader, submissions: &[Submission]) -> Result<Vec<Value>, StoreError> {
        let ids: Vec<Uuid> = submissions.iter().map(|submission| submission.id).collect();
        let annotations = reader.annotations(&ids)?;
        let row =
            |submission: &Submission| view::row(submission, annotations.get(&submission.id), &self.clock);
        Ok(submissions.iter().map(row).collect())
    }

    /// Held submissions, to be released or discarded.
    pub(super) fn review(&self) -> Result<Reply, StoreError> {
        let before = self.query.before;
        let query = ListQuery { status: Some(Status::Held), before, ..ListQuery::default() };
        self.render("review.html", "review", |reader| {
            let page = read_page(reader, &query, PAGE_SIZE)?;
            let rows = self.rows(reader, &page.submissions)?;
            let floods: Vec<Value> = reader
                .floods()?
                .iter()
                .map(|flood| context! { form => visible(&flood.form), held => flood.held })
                .collect();
            let next = page.next.map(|id| format!("/review?before={id}"));
            Ok(context! { rows, floods, is_first => before.is_none(), ..context! { next, ..self.position(&page, &query) } })
        })
    }

    /// One submission; `None` if it does not exist.
    pub(super) fn submission(&self, id: Uuid) -> Result<Option<Reply>, StoreError> {
        let found = self.inbox.readers.with(|reader| {
            let Some(submission) = reader.get(id)? else { return Ok(None) };
            let annotation = reader.annotations(&[id])?.remove(&id).unwrap_or_default();
            let notes = reader.notes(&[id])?.remove(&id).unwrap_or_default();
            let user = &self.operator.user;
            let people = people(self.options, reader, user)?;
            let work = work_values(&annotation, &notes, &people, user, &self.clock);
            let person = person::link_values(reader, id)?;
            let deliveries = reader.deliveries(id)?;
            let reply =
                reply_link(&submission, &self.options.title, self.options.replies.get(&submission.form));
            let channels = self.inbox.store.channels.load();
            let missing = choose(&channels, &submission.form, &submission.fields)
                .iter()
                .any(|route| !deliveries.iter().any(|delivery| delivery.channel == route.name));
            let can_deliver = missing && submission.held.is_none() && submission.sealed.is_none();
            let details = view::details(&submission, &annotation, &deliveries, reply, &self.clock);
            let shared = self.shared(reader, "list")?;
            Ok(Some(
                context! { can_deliver, person, ..context! { ..work, ..context! { ..details, ..shared } } },
            ))
        })?;
        Ok(found.map(|values| self.inbox.templates.page(StatusCode::OK, "submission.html", values)))
    }

    /// The configured channels, and others with a backlog.
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
                    context! { at => self.clock.time(test.at), is_good => test.outcome.is_ok(), text => visible(text) }
                });
                context! {
                    name => visible(name),
                    kind,
                    forms => forms.join(", "),
                    waiting => backlog.map_or(0, |channel| channel.waiting),
                    parked => backlog.map_or(0, |channel| channel.parked),
                    oldest => backlog.and_then(|channel| channel.oldest).map(|at| self.clock.time(at)),
                    obstacle => obstacles.get(name).map(|obstacle| view::obstacle_value(obstacle, &self.clock)),
                    test,
                    is_testing => testing.contains(name),
                }
            };
            let configured = &self.options.channels;
            let mut channels: Vec<Value> = configured
                .iter()
                .map(|channel| value(&channel.name, Some(channel.kind.name()), &channel.forms))
                .collect();
            let is_known = |name: &str| configured.iter().any(|channel| channel.name == name);
            let others = queue.channels.iter().filter(|channel| !is_known(&channel.name));
            channels.extend(others.map(|channel| value(&channel.name, None, &[])));
            Ok(context! { channels, pending => queue.pending, set_aside => queue.set_aside })
        })
    }

    /// The submissions of the last [`CHART_DAYS`] days, and the numbers that are waiting, held and failed.
    pub(super) fn statistics(&self) -> Result<Reply, StoreError> {
        self.render("statistics.html", "statistics", |reader| {
            let zone = &self.clock.zone;
            let today = self.clock.now.to_zoned(zone.clone()).date();
            let mut days: Vec<Date> = today.series(-1.day()).take(CHART_DAYS).collect();
            days.reverse();
            let first = days.first().and_then(|day| day.to_zoned(zone.clone()).ok());
            let first = first.map_or(Timestamp::MIN, |first| first.timestamp());
            let leads = lead_tables(&reader.lead_counts(first, MAX_LEADS)?);
            let days = reader.counts_by_day(&days, zone)?;
            let total: usize = days.iter().map(|(_, count)| count).sum();
            let busiest = days.iter().max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0);
            let busiest = busiest.map(|(day, count)| context! { day => day.to_string(), count });
            let week: usize = days.iter().rev().take(7).map(|(_, count)| count).sum();
            let today = days.last().map_or(0, |(_, count)| *count);
            let table: Vec<Value> =
                days.iter().rev().map(|(day, count)| context! { day => day.to_string(), count }).collect();
            Ok(context! {
                chart => Value::from_safe_string(chart::draw(&days)),
                total, week, today, busiest, table, leads, days => CHART_DAYS,
                waiting => reader.count_up_to(Status::Waiting, MAX_COUNTED)?,
                held => reader.count_up_to(Status::Held, MAX_COUNTED)?,
                failed => reader.count_up_to(Status::Parked, MAX_COUNTED)?,
                most => MAX_COUNTED,
            })
        })
    }

    /// The changes by operators, newest first.
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

    /// The sessions that have not ended.
    pub(super) fn sessions(&self) -> Result<Reply, StoreError> {
        self.render("sessions.html", "sessions", |reader| {
            let sessions: Vec<Value> = self
                .visible_sessions(reader)?
                .iter()
                .map(|session| {
                    context! {
                        id => session.short_id(),
                        user => visible(&session.user),
                        created => self.clock.time(session.created_at),
                        used => self.clock.time(session.used_at),
                        is_own => self.operator.session == Some(session.hash),
                    }
                })
                .collect();
            Ok(context! { sessions })
        })
    }

    /// A page that asks before submissions are removed. Its form repeats the action and the ids in `values`.
    pub(super) fn confirm(&self, values: &Value) -> Result<Reply, StoreError> {
        self.render("confirm.html", "list", |_| Ok(values.clone()))
    }
}

/// A table for each list that is not empty.
fn lead_tables(counts: &LeadCounts) -> Vec<Value> {
    let titles = ["Page", "Came from", "Campaign"];
    let tables = titles.into_iter().zip(counts.lists()).filter(|(_, (_, counts))| !counts.is_empty());
    tables
        .map(|(title, (_, counts))| {
            let row = |(name, count): &(String, usize)| context! { name => visible(name), count };
            context! { title, rows => counts.iter().map(row).collect::<Vec<_>>() }
        })
        .collect()
}

/// Reads one page of a list. The page is partial if the search takes longer than [`SEARCH_TIME`].
fn read_page(reader: &InboxReader, query: &ListQuery, size: usize) -> Result<SearchPage, StoreError> {
    let began = Instant::now();
    reader.page(&query.filter(), query.words().as_ref(), size, &|| began.elapsed() >= SEARCH_TIME)
}

fn encode(query: &ListQuery) -> String {
    let pairs = query.to_pairs();
    encode_pairs(pairs.iter().map(|(name, value)| (*name, value.as_str())))
}

/// The path of a list.
pub(super) fn link_to(query: &ListQuery) -> String {
    match encode(query) {
        parameters if parameters.is_empty() => "/".to_owned(),
        parameters => format!("/?{parameters}"),
    }
}

/// The filters by state. The one for unconfirmed entries is shown only if visitors must confirm their
/// addresses, or if it is selected.
fn tabs(query: &ListQuery, confirms_addresses: bool) -> Vec<Value> {
    let start = ListQuery { status: None, is_done: None, ..query.first_page() };
    let of = |label: &str, status: Option<Status>, is_done: Option<bool>| {
        let target = ListQuery { status, is_done, ..start.clone() };
        let is_current = (query.status, query.is_done) == (status, is_done);
        context! { label, href => link_to(&target), is_current }
    };
    let unconfirmed = Some(Status::Unconfirmed);
    let asks = confirms_addresses || query.status == unconfirmed;
    let unconfirmed = asks.then(|| of("Unconfirmed", unconfirmed, None));
    let tabs = [
        of("Open", None, Some(false)),
        of("Done", None, Some(true)),
        of("All", None, None),
        of("Waiting", Some(Status::Waiting), None),
        of("Held", Some(Status::Held), None),
        of("Failed", Some(Status::Parked), None),
    ];
    tabs.into_iter().chain(unconfirmed).collect()
}

/// The filters by form, with one for all forms: those of the site, then those of stored definitions.
fn form_links(query: &ListQuery, form_set: &FormSet, stored: &[&'static Form]) -> Vec<Value> {
    let mut names: Vec<&str> = Vec::new();
    for form in form_set.iter().chain(stored.iter().copied()) {
        if !names.contains(&form.name) {
            names.push(form.name);
        }
    }
    let link = |form: Option<&str>| {
        let target = ListQuery { form: form.map(str::to_owned), ..query.first_page() };
        let is_current = query.form.as_deref() == form;
        context! { label => form.unwrap_or("all forms"), href => link_to(&target), is_current }
    };
    [None].into_iter().chain(names.into_iter().map(Some)).map(link).collect()
}

/// The time of arrival, which a submission's id contains (UUID version 7).
fn time_of(id: Uuid) -> Option<Timestamp> {
    Timestamp::from_millisecond((id.as_u64_pair().0 >> 16).cast_signed()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_forms::definition::FormFile;
    use frontdesk_forms::{CONTACT, WAITLIST};

    #[test]
    fn lists_can_be_filtered_by_forms_of_the_site_and_of_submissions() {
        let text = "title = \"Book\"\ndescription = \"D.\"\nsubmit = \"S\"\n\
                    [[field]]\nname = \"work\"\ntype = \"email\"\nlabel = \"E-mail\"\n";
        let book = FormFile::read("book", text, "forms/book.toml").unwrap().form;
        let query = ListQuery { form: Some("book".to_owned()), ..ListQuery::default() };
        // The waitlist was switched off, and the form `book` was removed.
        let links = form_links(&query, &FormSet::new([*CONTACT]), &[book, book, *WAITLIST]);
        let text = |link: &Value, name| link.get_attr(name).unwrap().to_string();
        let labels: Vec<String> = links.iter().map(|link| text(link, "label")).collect();
        assert_eq!(labels, ["all forms", "contact", "book", "waitlist"]);
        assert_eq!(text(&links[2], "href"), "/?form=book");
        assert!(links[2].get_attr("is_current").unwrap().is_true());
    }
}
