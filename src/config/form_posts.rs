//! `[forms]`: whether forms work without JavaScript, and from other sites.

use super::reader::{Reader, key};
use super::value::{self, ParseResult, Raw};
use crate::app::{FormOptions, PageOrigin};

/// Maximum number of origins. Each request from another origin is compared with all of them.
const MAX_ORIGINS: usize = 100;

/// Reads `html_posts` and `allowed_origins`.
pub(super) fn read(r: &mut Reader<'_>) -> FormOptions {
    let html_posts = r.get(
        key("forms.html_posts").set_in_starter_file("true"),
        "false",
        "Whether the forms work without JavaScript: they then also accept what browsers send by themselves \
         from this site's pages, and answer with a thank-you page (`/thanks/`, which you may write yourself) \
         or with the form and its errors. Without it, the default, they accept only JSON.",
        value::parse_bool,
    );
    let allowed_origins = r.get(
        key("forms.allowed_origins").with_example("[\"https://www.example.com\"]"),
        "[]",
        "Other sites whose pages may send these forms: exact origins, without wildcards \
         (docs/pages/any-site.md).",
        parse_origins,
    );
    FormOptions { html_posts, allowed_origins }
}

fn parse_origins(raw: &Raw) -> ParseResult<Vec<PageOrigin>> {
    let expected = "a list of origins such as [\"https://www.example.com\"]";
    let items = raw.items().ok_or(expected)?;
    if items.len() > MAX_ORIGINS {
        return Err(format!("{expected}, at most {MAX_ORIGINS}"));
    }
    let parse = |text: &str| {
        PageOrigin::parse(text).map_err(|error| format!("{expected}; `{text}` is none: {error}"))
    };
    items.into_iter().map(parse).collect()
}
