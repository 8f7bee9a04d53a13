//! `[forms]`: repeats, forms without JavaScript, other sites, mails to visitors, and when a form answers 200.

use std::time::Duration;

use super::reader::{Reader, requests};
use super::server::timeout_range;
use super::value::{self, ParseResult, Raw};
use super::visitor::VisitorKeys;
use frontdesk_app::{FormOptions, PageOrigin, WebOptions};
use frontdesk_forms::FormSet;

/// Maximum number of origins. Each request from another origin is compared with all of them.
const MAX_ORIGINS: usize = 100;

/// Reads `[forms]` with the tables of each form into the options of the web server. Returns the time within
/// which a contact message with the same content as another one is a repeat, and the keys of mails to
/// visitors, whose texts are read with the channels.
pub(super) fn read(r: &mut Reader<'_>, web: &mut WebOptions) -> (Duration, VisitorKeys) {
    let duplicate_window = r.get(
        requests("forms.duplicate_window"),
        "24h",
        "A contact message with the same content as another one within this time is a repeat, and is not \
         delivered again.",
        value::duration(Duration::from_mins(1)..=Duration::from_hours(30 * 24)),
    );
    web.forms = read_posts(r);
    web.confirm_timeout = r.get(
        requests("forms.confirm_timeout"),
        "15s",
        "How long a form with `accept = \"delivered\"` waits for a channel to confirm a submission.",
        value::duration(timeout_range(1)),
    );
    let mut visitor = VisitorKeys::read(r);
    let mut documentation = "When the form answers 200: \"kept\", once the submission is stored safely; \
         \"delivered\", once a channel has confirmed it as well. Without a confirmation in time, and for a \
         held submission, the form then answers 500; a second attempt is recognized as a repeat. With \
         \"delivered\", the response time reveals whether an address was already on the list.";
    for form in FormSet::built_in().iter() {
        let is_confirmed = r.get(
            requests(format!("forms.{}.accept", form.name)),
            "kept",
            std::mem::take(&mut documentation),
            value::one_of(&[("kept", false), ("delivered", true)]),
        );
        web.confirmed_forms.extend(is_confirmed.then_some(form.name));
        visitor.read_form(r, form.name);
    }
    (duplicate_window, visitor)
}

/// Reads `html_posts`, `allowed_origins` and `lead_source`.
fn read_posts(r: &mut Reader<'_>) -> FormOptions {
    let html_posts = r.get(
        requests("forms.html_posts").set_in_starter_file("true"),
        "false",
        "Whether the forms work without JavaScript: they then also accept what browsers send by themselves \
         from this site's pages, and answer with a thank-you page (`/thanks/`, which you may write yourself) \
         or with the form and its errors. Without it, the default, they accept only JSON.",
        value::parse_bool,
    );
    let allowed_origins = r.get(
        requests("forms.allowed_origins").with_example("[\"https://www.example.com\"]"),
        "[]",
        "Other sites whose pages may send these forms: exact origins, without wildcards \
         (docs/pages/any-site.md).",
        parse_origins,
    );
    let lead_source = r.get(
        requests("forms.lead_source"),
        "true",
        "Whether a submission keeps where it comes from: the form's page, the host of the site that linked to \
         it, and the parameters `utm_*` and `ref` of its URL. Nothing is stored in the visitor's browser.",
        value::parse_bool,
    );
    FormOptions { html_posts, allowed_origins, lead_source }
}

/// Parses at most [`MAX_ORIGINS`] exact origins.
fn parse_origins(raw: &Raw) -> ParseResult<Vec<PageOrigin>> {
    let expected = "a list of origins such as [\"https://www.example.com\"]";
    value::parse_list(raw, expected, MAX_ORIGINS, PageOrigin::parse)
}
