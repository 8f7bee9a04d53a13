//! `/agents.md`: a guide to the site and its forms, for agents.

use std::fmt::Write as _;

use super::forms::{CONFIRMATION, form_section};
use super::options::ResourceOptions;
use super::text::{format_duration, heading, list_item, rate_limit_clause};
use crate::{PageSummary, PagesOptions};
use frontdesk_forms::FORMS;

pub(super) fn build(pages: &[PageSummary], options: &PagesOptions, resources: &ResourceOptions) -> String {
    let (base, operator) = (&options.base_url, &options.operator);
    let mut text = format!(
        "{heading}\n{title} is the website of {name}. There are exactly two HTTP endpoints, a waitlist request and \
         a contact message. Neither needs credentials{limited}.\n\n\
         **{CONFIRMATION}**\n\n\
         ## Getting started: read pages\n\n\
         - Any page answers `Accept: text/markdown` with Markdown. The same text is at the page's address \
         with `.md`: `/developers/` is at `/developers.md`, `/` at `/index.md`.\n\
         - An `Accept` header that allows neither HTML nor Markdown gets `406`, with both addresses.\n\
         - [llms.txt]({base}/llms.txt) lists the pages, [sitemap.md]({base}/sitemap.md) the dates of their \
         last change, [llms-full.txt]({base}/llms-full.txt) has all of the text.\n\
         - The forms are described for programs in [openapi.json]({base}/openapi.json).\n",
        title = options.title,
        heading = heading(&format!("{}: guide for agents", options.title), &options.description),
        name = operator.name,
        limited = rate_limit_clause(resources),
    );
    for form in FORMS {
        let _ = write!(text, "\n{}", form_section(form, base));
    }
    text.push_str(
        "\n## API reference: answers\n\n\
         | Status | Meaning | Body |\n| --- | --- | --- |\n\
         | 200 | Stored safely | `{\"ok\": true}` |\n\
         | 400 | A field, or the body, is not as it must be; the sentence names everything at fault | `{\"error\": \"…\"}` |\n\
         | 405 | Only `POST` is accepted | `{\"error\": \"…\"}` |\n\
         | 408 | The body did not arrive in time | `{\"error\": \"…\"}` |\n\
         | 413 | The body is too long | `{\"error\": \"…\"}` |\n\
         | 429 | Too many requests or bytes; `Retry-After` says after how many seconds to try again | `{\"error\": \"…\"}` |\n\
         | 500 | Nothing was kept; try again | `{\"error\": \"…\"}` |\n\n",
    );
    if options.confirms_waitlist {
        text.push_str(
            "A waitlist request counts once its address is confirmed: its owner gets a mail with a link, and only \
             a person should follow it.\n\n",
        );
    }
    if let Some((minute, hour)) = resources.quotas {
        let _ = write!(
            text,
            "One source may send {minute} requests a minute and {hour} an hour; `RateLimit` and \
             `RateLimit-Policy` say what is left. "
        );
    }
    let _ = write!(
        text,
        "A request can be repeated safely: the same content counts as one submission for {}, and an address \
         joins the waitlist once. An `Idempotency-Key` header is accepted; a key that comes again with other \
         content makes a new submission.\n\n\
         ## What there is not\n\n\
         There is no API for the platform itself, no self-service access and no tool server on this address. \
         Access is requested by the contact form",
        format_duration(resources.duplicate_window)
    );
    if !operator.email.is_empty() {
        let _ = write!(text, " or by mail to <{}>", operator.email);
    }
    text.push_str(", after which the operator provisions the organization.");
    if !operator.console_url.is_empty() {
        let _ = write!(text, " Provisioned organizations sign in at <{}>.", operator.console_url);
    }
    text.push_str("\n\n## Pages\n\n");
    for page in pages.iter().filter(|page| !page.is_post && !page.is_generated) {
        text.push_str(&list_item(base, &page.twin, page));
    }
    text
}
