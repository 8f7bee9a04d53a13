//! `/agents.md`: a guide to the site and its forms, for agents.

use minijinja::context;
use minijinja::value::{Serde, Value};

use super::forms::{CONFIRMATION, form_section};
use super::options::ResourceOptions;
use super::text::{format_duration, heading, list_item, rate_limit_clause, render};
use crate::{PageSummary, PagesOptions};

/// Builds the guide: how to use the forms, their limits, and the pages except posts and lists.
pub(super) fn build(pages: &[PageSummary], options: &PagesOptions, resources: &ResourceOptions) -> String {
    let base = &options.base_url;
    let pages = pages.iter().filter(|page| !page.is_post && !page.is_generated);
    let values = context! {
        heading => heading(&format!("{}: guide for agents", options.title), &options.description),
        title => options.title.as_str(),
        base => base.as_str(),
        operator => Value::from(Serde(&options.operator)),
        limited => rate_limit_clause(resources),
        confirmation => CONFIRMATION,
        forms => options.form_set.iter().map(|form| form_section(form, base)).collect::<Vec<_>>(),
        confirms_waitlist => options.confirms_waitlist,
        quotas => resources.quotas.map(|(minute, hour)| [minute, hour]),
        duplicate_window => format_duration(resources.duplicate_window),
        pages => pages.map(|page| list_item(base, &page.twin, page)).collect::<String>(),
    };
    render(include_str!("agents.md"), values)
}
