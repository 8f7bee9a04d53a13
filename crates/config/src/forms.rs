//! `[forms]`: repeats, forms without JavaScript, other sites, mails to visitors, and when a form answers 200.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::{Reader, deliveries, requests};
use super::server::timeout_range;
use super::value_parsers::{self, ParseResult, Raw};
use super::visitor_mails::VisitorKeys;
use super::{limits, store};
use frontdesk_app::{FormOptions, PageOrigin, WebOptions};
use frontdesk_desk::ReplyTemplate;
use frontdesk_forms::{Form, FormSet, WAITLIST};
use frontdesk_limits::Quota;

/// Maximum number of origins. Each request from another origin is compared with all of them.
const MAX_ORIGINS: usize = 100;

/// The values of `[forms]` that other parts of the server need.
pub(super) struct FormValues {
    /// The time window in which a second message with the same content counts as a duplicate.
    pub duplicate_window: Duration,
    /// The keys for mails to visitors. The mails' texts are read together with the channels.
    pub visitor: VisitorKeys,
    /// The retention periods of forms that set one; `None` keeps submissions forever.
    pub retention: BTreeMap<String, Option<Duration>>,
    /// The reply texts of forms that set one.
    pub replies: BTreeMap<String, ReplyTemplate>,
    /// The quotas per minute and per hour of forms that set at least one of them.
    quotas: BTreeMap<String, [Option<u32>; 2]>,
}

impl FormValues {
    /// The quotas of forms with one of their own. If a form sets only one of the two numbers, the other comes
    /// from `others`, the quota of all other forms.
    pub(super) fn own_quotas(&self, others: Quota) -> BTreeMap<String, Quota> {
        let complete = |[per_minute, per_hour]: [Option<u32>; 2]| Quota {
            per_minute: per_minute.unwrap_or(others.per_minute),
            per_hour: per_hour.unwrap_or(others.per_hour),
        };
        self.quotas.iter().map(|(form, quotas)| (form.clone(), complete(*quotas))).collect()
    }
}

/// Reads `[forms]` with the tables of the forms in `set`. Adds the options of the web server to `web`, and
/// removes forms that are switched off from `set`.
pub(super) fn read(r: &mut Reader<'_>, web: &mut WebOptions, set: &mut FormSet) -> FormValues {
    let duplicate_window = r.get(
        requests("forms.duplicate_window"),
        "24h",
        "A submission with the same content as an earlier one to the same form within this time is a repeat, \
         and is not delivered again. Does not apply to forms with `unique = \"FIELD\"`, such as the waitlist.",
        value_parsers::duration(Duration::from_mins(1)..=Duration::from_hours(30 * 24)),
    );
    web.forms = read_posts(r);
    web.confirm_timeout = r.get(
        requests("forms.confirm_timeout"),
        "15s",
        "How long a form with `accept = \"delivered\"` waits for a channel to confirm a submission.",
        value_parsers::duration(timeout_range(1)),
    );
    let visitor = VisitorKeys::read(r);
    let mut values = FormValues {
        duplicate_window,
        visitor,
        retention: BTreeMap::new(),
        replies: BTreeMap::new(),
        quotas: BTreeMap::new(),
    };
    set.retain(|form| read_form(r, form, web, &mut values));
    values
}

/// Reads the table of a form into `web` and `values`. Returns whether the form is enabled. If it is not,
/// still reads its retention, replies and quotas, because its submissions may be in the inbox. Only the keys
/// of the waitlist form have documentation.
fn read_form(r: &mut Reader<'_>, form: &'static Form, web: &mut WebOptions, values: &mut FormValues) -> bool {
    let is_first = form.name == WAITLIST.name;
    let documented = |text: &'static str| if is_first { text } else { "" };
    let key = |name: &str| format!("forms.{}.{name}", form.name);
    let is_enabled = r.get(
        deliveries(key("enabled")),
        "true",
        documented(
            "Whether the form exists. Without it, its endpoint is a 404, and nothing mentions it. Further \
             forms are files in `forms/` (docs/pages/forms.md); their tables have the same keys.",
        ),
        value_parsers::parse_bool,
    );
    let is_confirmed = r.get(
        requests(key("accept")),
        "kept",
        documented(
            "When the form answers 200: \"kept\", once the submission is stored safely; \
             \"delivered\", once a channel has confirmed it as well. Without a confirmation in time, and for a \
             held submission, the form then answers 500; a second attempt is recognized as a repeat. With \
             \"delivered\", the response time reveals whether an address was already on the list.",
        ),
        value_parsers::one_of(&[("kept", false), ("delivered", true)]),
    );
    web.confirmed_forms.extend((is_confirmed && is_enabled).then_some(form.name));
    let retention = r.get(
        deliveries(key("retention")),
        "auto",
        documented(
            "How long submissions to this form are kept, such as \"90d\", or \"off\" for ever; \"auto\" stands \
             for `store.retention`.",
        ),
        value_parsers::auto_or(store::retention()),
    );
    values.retention.extend(retention.map(|age| (form.name.to_owned(), age)));
    values.visitor.read_form(r, form, is_first, is_enabled);
    let reply = r.get(
        requests(key("reply")),
        "",
        documented(
            "The text of replies from the inbox, such as \"Dear {name},\\n\\n{quote}\": {quote} is the quoted message, {site} \
             the title of the site, and each field has a placeholder. If empty, replies have only the quoted message.",
        ),
        |raw| parse_reply(raw, form),
    );
    values.replies.extend(reply.map(|reply| (form.name.to_owned(), reply)));
    // Read `limits` last: `config --all` prints it as a table of its own, below the form's other keys.
    let per_minute = r.get(
        requests(key("limits.per_minute")),
        "auto",
        documented(
            "Submissions that this form accepts for delivery from all sources together; \"auto\" stands for \
             `limits.form_per_minute` and `limits.form_per_hour`.",
        ),
        value_parsers::auto_or(limits::quota()),
    );
    let per_hour =
        r.get(requests(key("limits.per_hour")), "auto", "", value_parsers::auto_or(limits::quota()));
    if per_minute.is_some() || per_hour.is_some() {
        values.quotas.insert(form.name.to_owned(), [per_minute, per_hour]);
    }
    is_enabled
}

/// Parses the template of replies to a form's submissions; `None` if it is blank.
fn parse_reply(raw: &Raw, form: &Form) -> ParseResult<Option<ReplyTemplate>> {
    let text = raw.as_text().ok_or("a text with placeholders such as {name} and {quote}")?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let parsed = ReplyTemplate::parse(text, |name| form.field(name).is_some());
    parsed
        .map(Some)
        .map_err(|error| format!("a text with placeholders such as {{name}} and {{quote}}, but {error}"))
}

/// Reads `html_posts`, `allowed_origins` and `lead_source`.
fn read_posts(r: &mut Reader<'_>) -> FormOptions {
    let html_posts = r.get(
        requests("forms.html_posts").set_in_starter_file("true"),
        "false",
        "Whether the forms work without JavaScript: they then also accept what browsers send by themselves \
         from this site's pages, and answer with a thank-you page (`/thanks/`, which you may write yourself) \
         or with the form and its errors. Without it, the default, they accept only JSON.",
        value_parsers::parse_bool,
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
        value_parsers::parse_bool,
    );
    FormOptions { html_posts, allowed_origins, lead_source }
}

/// Parses a list of at most [`MAX_ORIGINS`] origins, without wildcards.
fn parse_origins(raw: &Raw) -> ParseResult<Vec<PageOrigin>> {
    let expected = "a list of origins such as [\"https://www.example.com\"]";
    value_parsers::parse_list(raw, expected, MAX_ORIGINS, PageOrigin::parse)
}
