//! A view of the list as a URL query: filters, a search text and a position. Unknown parameters and invalid
//! values are ignored, so that an old bookmark still shows a list.

use jiff::civil::Date;
use uuid::Uuid;

use super::request::encode_pairs;
use frontdesk_forms::is_form_name;
use frontdesk_inbox::store::{Filter, SearchText};
use frontdesk_inbox::submission::Status;

/// Maximum length of the search text, in bytes.
const MAX_TEXT: usize = 200;

/// Selects submissions by the state of the work on them, such as open, unread or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListState {
    /// Submissions that are neither done nor spam. Excludes held ones unless the list selects a status.
    Open,
    /// Open submissions that no operator has read since they arrived or were last marked as unread.
    Unread,
    /// Open submissions that are assigned to the user who reads the list.
    Mine,
    /// Submissions with a day to follow up, past or future, that are neither done nor spam.
    Due,
    Done,
    Spam,
}

impl ListState {
    const ALL: [ListState; 6] = [Self::Open, Self::Unread, Self::Mine, Self::Due, Self::Done, Self::Spam];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Unread => "unread",
            Self::Mine => "mine",
            Self::Due => "due",
            Self::Done => "done",
            Self::Spam => "spam",
        }
    }
}

/// Which submissions a list shows, and in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListQuery {
    /// The name of a form. The form may no longer be configured.
    pub(super) form: Option<String>,
    pub(super) status: Option<Status>,
    pub(super) state: Option<ListState>,
    /// Whether the list is sorted only by time. Otherwise, sign-ups follow all other submissions.
    pub(super) is_newest_first: bool,
    /// The search text, without surrounding white space; empty for none.
    pub(super) text: String,
    /// Whether the list leaves out the leads, and begins with the sign-ups.
    pub(super) is_in_signups: bool,
    /// The list begins after this submission.
    pub(super) before: Option<Uuid>,
}

impl ListQuery {
    /// Reads the decoded parameters of a URL. If a name is repeated, the last value counts, even if it is
    /// invalid. Trims the search text, and shortens it to `MAX_TEXT` bytes.
    pub(super) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> ListQuery {
        let mut query = ListQuery::default();
        for (name, value) in pairs {
            match name {
                "form" => query.form = Some(value.to_owned()).filter(|name| is_form_name(name)),
                "status" => query.status = Status::from_name(value),
                "state" => query.state = ListState::ALL.into_iter().find(|state| state.name() == value),
                "order" => query.is_newest_first = value == "newest",
                "part" => query.is_in_signups = value == "signups",
                "q" => shortened(value.trim()).clone_into(&mut query.text),
                "before" => query.before = Uuid::try_parse(value).ok(),
                _ => {}
            }
        }
        query
    }

    /// The query as parameters in a fixed order, not encoded. [`ListQuery::from_pairs`] parses them.
    pub(super) fn to_pairs(&self) -> Vec<(&'static str, String)> {
        let fixed = |value: &str, is_set: bool| is_set.then(|| value.to_owned());
        let text = Some(self.text.clone()).filter(|text| !text.is_empty());
        [
            ("form", self.form.clone()),
            ("status", self.status.map(|status| status.name().to_owned())),
            ("state", self.state.map(|state| state.name().to_owned())),
            ("order", fixed("newest", self.is_newest_first)),
            ("q", text),
            ("part", fixed("signups", self.is_in_signups)),
            ("before", self.before.map(|id| id.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// The parameters of the list's URL; empty for the list without filters.
    pub(super) fn encoded(&self) -> String {
        let pairs = self.to_pairs();
        encode_pairs(pairs.iter().map(|(name, value)| (*name, value.as_str())))
    }

    /// The path of the list with its parameters, such as `/?state=open`.
    pub(super) fn path(&self) -> String {
        match self.encoded() {
            parameters if parameters.is_empty() => "/".to_owned(),
            parameters => format!("/?{parameters}"),
        }
    }

    /// The first page of this list: the query without its position.
    #[must_use]
    pub(super) fn first_page(&self) -> ListQuery {
        ListQuery { before: None, is_in_signups: false, ..self.clone() }
    }

    /// Whether the list begins at its start: not after a submission, and not with the sign-ups, which follow
    /// the leads.
    pub(super) fn is_first_page(&self) -> bool {
        self.before.is_none() && !self.is_in_signups
    }

    /// Whether the query has a filter or a search text. Its order and position do not count.
    pub(super) fn is_filtered(&self) -> bool {
        let order = ListQuery { is_newest_first: self.is_newest_first, ..ListQuery::default() };
        self.first_page() != order
    }

    /// The filter for a user, without the search text and the division into leads and sign-ups. The states
    /// `Open`, `Unread` and `Mine` exclude spam, done submissions and, unless the query names a status, held
    /// ones. `Due` selects any day to follow up, also a future one, and excludes spam and done submissions.
    /// Without a state, a list of held submissions excludes spam.
    pub(super) fn filter(&self, user: &str) -> Filter {
        let filter =
            Filter { form: self.form.clone(), status: self.status, before: self.before, ..Filter::default() };
        match self.state {
            Some(ListState::Open | ListState::Unread | ListState::Mine) => Filter {
                is_done: Some(false),
                // Held submissions wait for a review, so a list of open work leaves them out.
                is_held: self.status.is_none().then_some(false),
                is_spam: Some(false),
                is_unread: self.state == Some(ListState::Unread),
                assignee: (self.state == Some(ListState::Mine)).then(|| user.to_owned()),
                ..filter
            },
            Some(ListState::Due) => {
                let follow_up_until = Some(Date::MAX);
                Filter { is_done: Some(false), is_spam: Some(false), follow_up_until, ..filter }
            }
            Some(ListState::Done) => Filter { is_done: Some(true), ..filter },
            Some(ListState::Spam) => Filter { is_spam: Some(true), ..filter },
            // A list of held submissions leaves out spam, which needs no review.
            None => Filter { is_spam: (self.status == Some(Status::Held)).then_some(false), ..filter },
        }
    }

    /// The search text for [`InboxReader`](frontdesk_inbox::store::InboxReader); `None` if it is empty. After
    /// an error, such as for `?`, the list is empty.
    pub(super) fn words(&self) -> Result<Option<SearchText>, &'static str> {
        (!self.text.is_empty()).then(|| SearchText::parse(&self.text)).transpose()
    }
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_written_as_it_was_read() {
        let id = "019a0000-0000-7000-8000-000000000001";
        let pairs = [
            ("form", "contact"),
            ("status", "waiting"),
            ("state", "unread"),
            ("order", "newest"),
            ("q", "Ada & Co"),
            ("part", "signups"),
            ("before", id),
        ];
        let query = ListQuery::from_pairs(pairs);
        let written = query.to_pairs();
        assert!(written.iter().map(|(name, value)| (*name, value.as_str())).eq(pairs));
        assert!(query.is_filtered() && !query.is_first_page() && query.first_page().is_first_page());
        let filter = query.filter("ada");
        assert_eq!((filter.is_done, filter.is_held, filter.is_unread), (Some(false), None, true));
        let filter = |state: &str| ListQuery::from_pairs([("state", state)]).filter("ada");
        assert_eq!((filter("mine").assignee.as_deref(), filter("mine").is_held), (Some("ada"), Some(false)));
        assert_eq!((filter("due").follow_up_until, filter("due").is_done), (Some(Date::MAX), Some(false)));
        assert_eq!((filter("open").is_held, filter("open").is_spam), (Some(false), Some(false)));
        assert_eq!((filter("done").is_done, filter("done").is_spam), (Some(true), None));
        assert_eq!(filter("spam").is_spam, Some(true));
        assert_eq!(ListQuery::from_pairs([("status", "held")]).filter("ada").is_spam, Some(false));
        assert!(!ListQuery::from_pairs([("order", "newest"), ("part", "signups")]).is_filtered());
    }

    #[test]
    fn invalid_values_are_ignored() {
        let pairs = [
            ("form", "No such"),
            ("status", "odd"),
            ("state", ""),
            ("q", " \t"),
            ("before", "1"),
            ("x", "y"),
        ];
        assert_eq!(ListQuery::from_pairs(pairs), ListQuery::default());
        assert!(!ListQuery { before: Some(Uuid::nil()), ..ListQuery::default() }.is_filtered());
        let words = |text: &str| ListQuery::from_pairs([("q", text)]).words();
        assert!(words(" ") == Ok(None) && words("?").is_err());
        assert_eq!(words("a?"), SearchText::parse("a").map(Some));
        let long = "ä".repeat(MAX_TEXT);
        assert_eq!(ListQuery::from_pairs([("q", long.as_str())]).text, "ä".repeat(MAX_TEXT / 2));
    }
}
