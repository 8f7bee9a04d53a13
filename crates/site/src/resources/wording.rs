//! Sentences about the site, its operator and its forms. They are correct for any number of forms, and
//! without a title or a name.

use super::options::ResourceOptions;
use crate::PagesOptions;
use frontdesk_forms::FormSet;

/// The site's title, or else the operator's name. Empty if neither is configured.
pub(super) fn site_name(options: &PagesOptions) -> &str {
    [&options.title, &options.operator.name]
        .map(|text| text.trim())
        .into_iter()
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// The operator's name, or else the site's title. Empty if neither is configured.
pub(super) fn operator_name(options: &PagesOptions) -> &str {
    let name = options.operator.name.trim();
    if name.is_empty() { options.title.trim() } else { name }
}

/// A phrase for the website, to be used within a sentence: `the website of OPERATOR`, or else `the website
/// TITLE` or `this website`.
pub(super) fn website(options: &PagesOptions) -> String {
    match (options.title.trim(), options.operator.name.trim()) {
        ("", "") => "this website".to_owned(),
        (title, "") => format!("the website {title}"),
        (_, name) => format!("the website of {name}"),
    }
}

/// A sentence that names the site's title and its operator, if they are configured.
pub(super) fn introduction(options: &PagesOptions) -> String {
    match (options.title.trim(), options.operator.name.trim()) {
        ("", "") => "This is a guide to this website.".to_owned(),
        ("", _) | (_, "") => format!("This is {}.", website(options)),
        (title, name) => format!("{title} is the website of {name}."),
    }
}

/// Whether the site has exactly the two forms that every site has unless its configuration says otherwise,
/// judging by their names and order.
pub(super) fn has_default_forms(set: &FormSet) -> bool {
    set.iter().map(|form| form.name).eq(FormSet::built_in().iter().map(|form| form.name))
}

/// The titles of the forms in quotation marks: `“Book a demo” and “Contact”`.
pub(super) fn titles(set: &FormSet) -> String {
    let titles: Vec<String> = set.iter().map(|form| format!("“{}”", form.title)).collect();
    list(&titles, " and ")
}

/// Joins the items with commas, and the last two with `conjunction`, such as `" and "`.
pub(super) fn list(items: &[String], conjunction: &str) -> String {
    match items {
        [] => String::new(),
        [item] => item.clone(),
        [items @ .., last] => format!("{}{conjunction}{last}", items.join(", ")),
    }
}

/// A sentence that says that the forms need no credentials, and that they are rate limited if quotas are set.
/// `forms` is their number.
pub(super) fn access(forms: usize, resources: &ResourceOptions) -> String {
    let (needs, are) = match forms {
        1 => ("It needs no credentials", "it is"),
        2 => ("Neither needs credentials", "both are"),
        _ => ("None of them needs credentials", "all are"),
    };
    match resources.quotas {
        Some(_) => format!("{needs}; {are} rate limited and monitored for abuse."),
        None => format!("{needs}."),
    }
}
