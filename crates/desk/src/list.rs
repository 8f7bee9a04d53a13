//! The list of submissions with its filters, and the review of held ones. Both are read within a time limit.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use minijinja::{Value, context};
use uuid::Uuid;

use super::annotations::people;
use super::html::Reply;
use super::list_query::{ListQuery, ListState};
use super::pages::PageRequest;
use super::template_time::Clock;
use frontdesk_deliver::problem_digest::CanaryProblem;
use frontdesk_forms::definition::DedupKey;
use frontdesk_forms::text::visible;
use frontdesk_forms::{Form, FormSet};
use frontdesk_inbox::store::{Filter, InboxReader, SavedView, SearchPage, StoreError};
use frontdesk_inbox::submission::{Status, Submission};

/// How long a list searches for submissions before it shows those that it has found.
const SEARCH_TIME: Duration = Duration::from_millis(25);
const PAGE_SIZE: usize = 40;

/// One page of a list. If the list has submissions of two kinds, such as leads and sign-ups, each part has a
/// heading.
#[derive(Default)]
struct ListPage {
    parts: Vec<(Option<&'static str>, Vec<Submission>)>,
    /// Where the list continues; `None` at its end.
    next: Option<ListQuery>,
    /// If the search ran out of time, the arrival time of the submission that it has reached.
    reached: Option<Timestamp>,
    is_partial: bool,
    /// How many encrypted submissions could not be searched.
    sealed: usize,
}

impl PageRequest<'_> {
    /// The page of a list with its filters. If a search runs out of time, the page shows where it stopped.
    pub(super) fn list(&self) -> Result<Reply, StoreError> {
        let query = &self.query;
        self.render("list.html", "list", |reader| {
            let stored = reader.definitions()?;
            let groups = groups(query, &reader.forms()?, &self.options.form_set, &stored);
            let page = read_list(reader, query, &self.filter_of(query), groups.as_ref())?;
            let (mut parts, mut count) = (Vec::new(), 0);
            for (heading, submissions) in &page.parts {
                let rows = self.rows(reader, submissions, count)?;
                count += rows.len();
                parts.push(context! { heading, rows });
            }
            let has_rows = page.parts.iter().any(|(_, rows)| !rows.is_empty());
            let views = reader.saved_views()?;
            let own_query = query.first_page().encoded();
            Ok(context! {
                canary => canary_value(reader, &self.clock)?,
                parts,
                has_rows,
                is_empty => !has_rows && page.next.is_none() && query.is_first_page(),
                is_filtered => query.is_filtered(),
                text => query.text.clone(),
                is_wordless => query.words().is_err(),
                everywhere => everywhere(query),
                tabs => tabs(query, self.options.confirms_addresses),
                forms => form_links(query, &self.options.form_set, &stored),
                orders => if query.form.is_none() { order_links(query) } else { Vec::new() },
                kept => query.first_page().to_pairs().into_iter().filter(|(name, _)| *name != "q").collect::<Vec<_>>(),
                export => own_query.clone(),
                people => people(self.options, reader, &self.operator.user)?,
                views => views.iter().map(|it| view_value(it, &own_query)).collect::<Vec<_>>(),
                is_done_list => query.state == Some(ListState::Done),
                is_spam_list => query.state == Some(ListState::Spam),
                is_held_list => matches!(query.status, Some(Status::Held | Status::Unconfirmed)),
                sealed => page.sealed,
                first => query.first_page().path(),
                is_first => query.is_first_page(),
                next => page.next.as_ref().map(ListQuery::path),
                is_partial => page.is_partial,
                reached => page.reached.map(|at| self.clock.time(at)),
            })
        })
    }

    /// The filter for the list that `query` describes, with this operator as the user.
    pub(super) fn filter_of(&self, query: &ListQuery) -> Filter {
        query.filter(&self.operator.user)
    }

    /// The page of held submissions, where operators release or discard them, and of forms with a flood.
    /// Leaves out spam, unconfirmed submissions and those that were set aside.
    pub(super) fn review(&self) -> Result<Reply, StoreError> {
        let before = self.query.before;
        let query = ListQuery { status: Some(Status::Held), before, ..ListQuery::default() };
        self.render("review.html", "review", |reader| {
            let page = read_list(reader, &query, &self.filter_of(&query), None)?;
            let found = page.parts.into_iter().flat_map(|(_, submissions)| submissions).collect::<Vec<_>>();
            let floods = reader.floods()?;
            let floods = floods.iter().map(|flood| context! { form => visible(&flood.form), held => flood.held });
            let next = page.next.and_then(|query| query.before).map(|id| format!("/review?before={id}"));
            Ok(context! { rows => self.rows(reader, &found, 0)?, floods => floods.collect::<Vec<_>>(), is_first => before.is_none(), next })
        })
    }
}

/// The result of the canary's last run: its `problem` if it failed or the next run is overdue, and when it
/// ended. `None` if the canary is off or has not run yet.
fn canary_value(reader: &InboxReader, clock: &Clock) -> Result<Option<Value>, StoreError> {
    let Some(status) = reader.canary_status()? else { return Ok(None) };
    let problem = CanaryProblem::of(&status, clock.now).map(|problem| problem.sentence());
    Ok(Some(context! { problem, at => clock.time(status.ended_at) }))
}

/// Divides the forms `names` into those of leads and of sign-ups. A form is for sign-ups, such as a waitlist,
/// if it keeps one submission of each value of a field. The site's definition decides that, or else the
/// oldest stored one; without a definition, the form is for leads. `None` if all forms are of one kind, if
/// the list shows one form, or if it is in order of time.
fn groups(
    query: &ListQuery,
    names: &[String],
    form_set: &FormSet,
    stored: &[&'static Form],
) -> Option<[Vec<String>; 2]> {
    let is_signup = |name: &String| {
        let form = form_set.iter().chain(stored.iter().copied()).find(|form| form.name == name);
        form.is_some_and(|form| matches!(form.dedup_key, DedupKey::Field(_)))
    };
    let (signups, leads): (Vec<String>, Vec<String>) = names.iter().cloned().partition(is_signup);
    let has_both = !signups.is_empty() && !leads.is_empty();
    (has_both && query.form.is_none() && !query.is_newest_first).then_some([leads, signups])
}

/// Reads one page of a list. With `groups`, the leads come first; sign-ups fill the rest of the page with the
/// last lead, and all later pages. The parts have headings only if the list has, or may have, submissions of
/// both kinds. The page is partial if the search takes longer than [`SEARCH_TIME`], and empty if the search
/// text has no words.
fn read_list(
    reader: &InboxReader,
    query: &ListQuery,
    base: &Filter,
    groups: Option<&[Vec<String>; 2]>,
) -> Result<ListPage, StoreError> {
    let began = Instant::now();
    let Ok(words) = query.words() else { return Ok(ListPage::default()) };
    let read = |forms: Option<&Vec<String>>, before, size| -> Result<SearchPage, StoreError> {
        let filter = Filter { forms: forms.cloned(), before, ..base.clone() };
        reader.page(&filter, words.as_ref(), size, &|| began.elapsed() >= SEARCH_TIME)
    };
    let mut list = ListPage::default();
    let Some([leads, signups]) = groups else {
        let page = read(None, query.before, PAGE_SIZE)?;
        list.add(None, page, &ListQuery { is_in_signups: false, ..query.clone() });
        return Ok(list);
    };
    let signup_query = ListQuery { is_in_signups: true, before: None, ..query.clone() };
    let has_any = |forms| read(Some(forms), None, 1).map(|page| may_have_any(&page));
    let has_both = if query.is_in_signups {
        list.add(Some("Sign-ups"), read(Some(signups), query.before, PAGE_SIZE)?, &signup_query);
        has_any(leads)?
    } else {
        let page = read(Some(leads), query.before, PAGE_SIZE)?;
        let left = PAGE_SIZE - page.submissions.len();
        list.add(Some("Leads"), page, query);
        if left == 0 || list.next.is_some() {
            // This page shows no sign-ups, so only find out whether a later page may have some.
            let has_signups = has_any(signups)?;
            list.next = list.next.or_else(|| has_signups.then_some(signup_query));
            has_signups
        } else {
            list.add(Some("Sign-ups"), read(Some(signups), None, left)?, &signup_query);
            list.parts.len() == 2
        }
    };
    if !has_both {
        // A list with submissions of only one kind needs no heading.
        list.parts.iter_mut().for_each(|(heading, _)| *heading = None);
    }
    Ok(list)
}

/// Whether a page has submissions, or may have some that the search did not reach in time.
fn may_have_any(page: &SearchPage) -> bool {
    !page.submissions.is_empty() || page.next.is_some()
}

impl ListPage {
    /// Adds a part unless `page` has no submissions. In either case, the whole list then continues as this
    /// part does: with `query`, where `page` ends.
    fn add(&mut self, heading: Option<&'static str>, page: SearchPage, query: &ListQuery) {
        self.sealed += page.sealed;
        self.next = page.next.map(|id| ListQuery { before: Some(id), ..query.clone() });
        self.is_partial = page.is_partial;
        self.reached = page.next.filter(|_| page.is_partial).and_then(time_of);
        if !page.submissions.is_empty() {
            self.parts.push((heading, page.submissions));
        }
    }
}

/// A saved view as a template value, with a link to it. It is current if the list shown, whose first page has
/// the encoded query `own_query`, is the same; an empty query never is.
fn view_value(view: &SavedView, own_query: &str) -> Value {
    // Only known parameters are used, so a stored view cannot link to another page.
    let pairs = form_urlencoded::parse(view.query.as_bytes()).collect::<Vec<_>>();
    let query = ListQuery::from_pairs(pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref())));
    let is_current = !own_query.is_empty() && query.first_page().encoded() == own_query;
    context! { name => visible(&view.name), href => query.first_page().path(), is_current, user => visible(&view.user) }
}

/// Links that filter the list by one state or status, and keep the form, the search text and the order. The
/// one for unconfirmed entries is shown only if visitors must confirm their addresses, or if it is selected.
fn tabs(query: &ListQuery, confirms_addresses: bool) -> Vec<Value> {
    let start = ListQuery { status: None, state: None, ..query.first_page() };
    let of = |label: &str, status: Option<Status>, state: Option<ListState>| {
        let target = ListQuery { status, state, ..start.clone() };
        let is_current = (query.status, query.state) == (status, state);
        let name = state.filter(|_| status.is_none()).map(ListState::name);
        context! { label, href => target.path(), is_current, state => name }
    };
    let unconfirmed = Some(Status::Unconfirmed);
    let asks = confirms_addresses || query.status == unconfirmed;
    let unconfirmed = asks.then(|| of("Unconfirmed", unconfirmed, None));
    let tabs = [
        of("Open", None, Some(ListState::Open)),
        of("Unread", None, Some(ListState::Unread)),
        of("Mine", None, Some(ListState::Mine)),
        of("Follow up", None, Some(ListState::Due)),
        of("Done", None, Some(ListState::Done)),
        of("All", None, None),
        of("Waiting", Some(Status::Waiting), None),
        of("Held", Some(Status::Held), None),
        of("Failed", Some(Status::Parked), None),
        of("Spam", None, Some(ListState::Spam)),
    ];
    tabs.into_iter().chain(unconfirmed).collect()
}

/// A link to the same search without filters. `None` without words to search for, or if the query is that
/// search already.
fn everywhere(query: &ListQuery) -> Option<String> {
    let all = ListQuery { text: query.text.clone(), ..ListQuery::default() };
    let has_words = all.words().is_ok_and(|words| words.is_some());
    (has_words && all != query.first_page()).then(|| all.path())
}

/// Links to the first page of the list in each order.
fn order_links(query: &ListQuery) -> Vec<Value> {
    let of = |label: &str, is_newest_first: bool| {
        let target = ListQuery { is_newest_first, ..query.first_page() };
        context! { label, href => target.path(), is_current => query.is_newest_first == is_newest_first }
    };
    vec![of("leads first", false), of("newest first", true)]
}

/// Links that filter the list by form: one for all forms, then the site's forms, then the other forms with
/// stored definitions.
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
        context! { label => form.unwrap_or("all forms"), href => target.path(), is_current }
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

    fn book() -> &'static Form {
        let text = "title = \"Book\"\ndescription = \"D.\"\nsubmit = \"S\"\n\
                    [[field]]\nname = \"work\"\ntype = \"email\"\nlabel = \"E-mail\"\n";
        FormFile::read("book", text, "forms/book.toml").unwrap().form
    }

    #[test]
    fn lists_can_be_filtered_by_forms_of_the_site_and_of_submissions() {
        let query = ListQuery { form: Some("book".to_owned()), ..ListQuery::default() };
        // The waitlist was switched off, and the form `book` was removed.
        let links = form_links(&query, &FormSet::new([*CONTACT]), &[book(), book(), *WAITLIST]);
        let text = |link: &Value, name| link.get_attr(name).unwrap().to_string();
        let labels: Vec<String> = links.iter().map(|link| text(link, "label")).collect();
        assert_eq!(labels, ["all forms", "contact", "book", "waitlist"]);
        assert_eq!(text(&links[2], "href"), "/?form=book");
        assert!(links[2].get_attr("is_current").unwrap().is_true());
    }

    #[test]
    fn a_list_goes_on_if_the_search_for_sign_ups_ran_out_of_time() {
        let unfinished = SearchPage { next: Some(Uuid::max()), is_partial: true, ..SearchPage::default() };
        assert!(may_have_any(&unfinished));
        assert!(!may_have_any(&SearchPage::default()), "the search has ended and found nothing");
    }

    #[test]
    fn sign_ups_follow_all_other_forms() {
        let names = ["book", "contact", "gone", "waitlist"].map(str::to_owned);
        let (set, stored) = (FormSet::new([*CONTACT, *WAITLIST]), [book()]);
        let of = |query: &ListQuery, names: &[String]| groups(query, names, &set, &stored);
        let query = ListQuery::default();
        let [leads, signups] = of(&query, &names).unwrap();
        assert_eq!(
            (leads.join(" "), signups.join(" ")),
            ("book contact gone".to_owned(), "waitlist".to_owned())
        );
        assert_eq!(of(&query, &names[..3]), None);
        assert_eq!(of(&query, &names[3..]), None);
        assert_eq!(of(&ListQuery { is_newest_first: true, ..query.clone() }, &names), None);
        assert_eq!(of(&ListQuery { form: Some("contact".to_owned()), ..query }, &names), None);
    }

    #[test]
    fn a_saved_view_leads_to_a_list_only() {
        let view =
            |query: &str| SavedView { name: "a".to_owned(), query: query.to_owned(), user: "ada".to_owned() };
        let value = view_value(&view("state=open&q=b%26c&x=//evil.example&before=1"), "state=open&q=b%26c");
        assert_eq!(value.get_attr("href").unwrap().to_string(), "/?state=open&q=b%26c");
        assert!(value.get_attr("is_current").unwrap().is_true());
    }
}
