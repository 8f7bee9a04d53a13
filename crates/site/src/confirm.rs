//! The pages that the confirmation links in e-mails open. They are rendered when the site is loaded.

use std::sync::Arc;

use jiff::civil::Date;
use serde_json::Value;

use super::document::{Document, PageKind};
use super::language::Language;

/// The path prefix of confirmation links.
pub const CONFIRM_PATH: &str = "/_frontdesk/confirm/";

/// A page that a confirmation link opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmPage {
    /// Asks the visitor to press the button that confirms the address.
    Ask,
    /// The address is confirmed.
    Done,
    /// The link has expired, or was not issued by this server.
    Invalid,
    /// The confirmation could not be stored. The page shows the button again.
    Failed,
}

/// Builds a page without a theme from its title and the HTML of its text.
macro_rules! plain_page {
    ($title:literal, $text:literal) => {
        concat!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">",
            "<title>",
            $title,
            "</title><h1>",
            $title,
            "</h1>",
            $text,
            "</html>\n"
        )
    };
}

impl ConfirmPage {
    pub const ALL: [ConfirmPage; 4] =
        [ConfirmPage::Ask, ConfirmPage::Done, ConfirmPage::Invalid, ConfirmPage::Failed];

    /// The prefix of the page's keys in the word list, such as `confirm_ask` in `confirm_ask_title`.
    const fn word_prefix(self) -> &'static str {
        match self {
            ConfirmPage::Ask => "confirm_ask",
            ConfirmPage::Done => "confirm_done",
            ConfirmPage::Invalid => "confirm_invalid",
            ConfirmPage::Failed => "confirm_failed",
        }
    }

    const fn has_button(self) -> bool {
        matches!(self, ConfirmPage::Ask | ConfirmPage::Failed)
    }

    /// The page in English, for sites without a theme.
    pub const fn plain_html(self) -> &'static str {
        match self {
            ConfirmPage::Ask => plain_page!(
                "Please confirm your address",
                "<form method=\"post\"><button>Confirm</button></form>"
            ),
            ConfirmPage::Done => {
                plain_page!("Address confirmed", "<p>Thank you. You can close this page.</p>")
            }
            ConfirmPage::Invalid => plain_page!(
                "This link is not valid",
                "<p>It may have expired. Send the form again to get a new one.</p>"
            ),
            ConfirmPage::Failed => plain_page!(
                "Not confirmed yet",
                "<p>Something went wrong on our side. Please try again.</p>\
                 <form method=\"post\"><button>Confirm</button></form>"
            ),
        }
    }
}

/// The documents of the confirmation pages, in the order of [`ConfirmPage::ALL`] and in the site's default
/// language. Like the 404 page, they have no URL: their paths only identify them.
pub(super) fn confirm_documents(languages: &[Language]) -> Vec<Document> {
    let Some(language) = languages.first() else { return Vec::new() };
    let document = |page: ConfirmPage| {
        let name = page.word_prefix();
        let [title, description] =
            ["title", "description"].map(|end| language.words.get(&format!("{name}_{end}")));
        let path = format!("{CONFIRM_PATH}{name}/");
        let mut document =
            Document::new_generated(0, &path, PageKind::NotFound, title, description, Date::default());
        let matter = Arc::make_mut(&mut document.front_matter);
        matter.template = Some("confirm".to_owned());
        matter.extra.insert("has_button".to_owned(), Value::Bool(page.has_button()));
        document
    };
    ConfirmPage::ALL.map(document).into()
}
