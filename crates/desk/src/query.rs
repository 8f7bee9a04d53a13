//! A view of the list as a URL query: filters, a search text and a position. Unknown parameters and invalid
//! values are ignored, so that an old bookmark still shows a list.

use uuid::Uuid;

use frontdesk_forms::is_form_name;
use frontdesk_inbox::store::{Filter, SearchText};
use frontdesk_inbox::submission::Status;

/// Maximum length of the search text, in bytes.
const MAX_TEXT: usize = 200;

/// Which submissions a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListQuery {
    /// The form's name, which need not be configured.
    pub(super) form: Option<String>,
    pub(super) status: Option<Status>,
    pub(super) is_done: Option<bool>,
    /// The search text, without surrounding white space; empty for none.
    pub(super) text: String,
    /// The list begins after this submission.
    pub(super) before: Option<Uuid>,
}

impl ListQuery {
    /// Reads the decoded parameters of a URL. Shortens the search text to `MAX_TEXT` bytes.
    pub(super) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> ListQuery {
        let mut query = ListQuery::default();
        for (name, value) in pairs {
            match name {
                "form" => query.form = Some(value.to_owned()).filter(|name| is_form_name(name)),
                "status" => query.status = Status::from_name(value),
                "state" => {
                    query.is_done = match value {
                        "open" => Some(false),
                        "done" => Some(true),
                        _ => None,
                    }
                }
                "q" => shortened(value.trim()).clone_into(&mut query.text),
                "before" => query.before = Uuid::try_parse(value).ok(),
                _ => {}
            }
        }
        query
    }

    /// The parameters in a fixed order, not encoded. [`ListQuery::from_pairs`] reads them again.
    pub(super) fn to_pairs(&self) -> Vec<(&'static str, String)> {
        let state = self.is_done.map(|is_done| if is_done { "done" } else { "open" }.to_owned());
        let text = Some(self.text.clone()).filter(|text| !text.is_empty());
        [
            ("form", self.form.clone()),
            ("status", self.status.map(|status| status.name().to_owned())),
            ("state", state),
            ("q", text),
            ("before", self.before.map(|id| id.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// The same list from its beginning.
    #[must_use]
    pub(super) fn first_page(&self) -> ListQuery {
        ListQuery { before: None, ..self.clone() }
    }

    /// Whether the query has a filter or a search text. Its position does not count.
    pub(super) fn is_filtered(&self) -> bool {
        *self != ListQuery { before: self.before, ..ListQuery::default() }
    }

    /// The filter without the search text. For open submissions of any status, leaves out held ones.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            form: self.form.clone(),
            status: self.status,
            is_done: self.is_done,
            // Held submissions wait for a review, and are not yet work to be done.
            is_held: (self.is_done == Some(false) && self.status.is_none()).then_some(false),
            before: self.before,
            ..Filter::default()
        }
    }

    /// The search text for [`InboxReader`](frontdesk_inbox::store::InboxReader); `None` if it is empty.
    pub(super) fn words(&self) -> Option<SearchText> {
        SearchText::parse(&self.text)
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
        let pairs =
            [("form", "contact"), ("status", "held"), ("state", "open"), ("q", "Ada & Co"), ("before", id)];
        let query = ListQuery::from_pairs(pairs);
        let written = query.to_pairs();
        assert!(written.iter().map(|(name, value)| (*name, value.as_str())).eq(pairs));
        assert!(query.is_filtered() && query.first_page().before.is_none());
        assert_eq!((query.filter().is_done, query.filter().is_held), (Some(false), None));
        let open = ListQuery::from_pairs([("state", "open")]);
        assert_eq!(open.filter().is_held, Some(false));
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
        let long = "ä".repeat(MAX_TEXT);
        assert_eq!(ListQuery::from_pairs([("q", long.as_str())]).text, "ä".repeat(MAX_TEXT / 2));
    }
}
