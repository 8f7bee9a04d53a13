//! Reports builds for another base path, and redirects without effect.

use std::collections::HashSet;

use frontdesk_convert::{attributes, decode_html};
use http::StatusCode;

use crate::fault::Fault;
use crate::rules::RedirectRule;
use crate::site::{Role, Site, SiteEntry};
use crate::site_files::{BuildFile, HOME_PAGES};

/// Warns if the build is served at the root, but was made for another base path, judging by the links on its
/// home page.
pub(super) fn report_base_path(files: &[BuildFile], mount: &str, faults: &mut Vec<Fault>) {
    let mut homes = HOME_PAGES.iter().filter(|_| mount == "/");
    let Some(home) = homes.find_map(|name| files.iter().find(|file| file.name == *name)) else { return };
    let (text, _) = decode_html(&home.blob.bytes);
    let names = files.iter().map(|file| &*file.name).collect();
    if let Some(base) = find_missing_base(&text, &names) {
        let message = format!("most of its links begin with `/{base}/`, but the build is served at `/`");
        let hint = format!(
            "set `prebuilt_path = \"/{base}/\"` below `[site]`, or let the generator build for the base path `/`"
        );
        faults.push(Fault::warning(&home.name, None, message).hint(hint));
    }
}

/// The base path for which the build was made, if that is not the root: the first segment of more than half
/// of the root-relative links on the home page, if no file of the build is in a folder of this name, but the
/// files to which these links lead are in the build without it.
fn find_missing_base<'a>(home: &'a str, names: &HashSet<&str>) -> Option<&'a str> {
    let is_link = |name: &str| ["href", "src"].iter().any(|link| link.eq_ignore_ascii_case(name));
    let links = attributes(home).filter(|(name, _)| is_link(name)).filter_map(|(_, value)| {
        let path = home[value].split(['?', '#']).next()?.strip_prefix('/')?;
        Some(path.split_once('/').unwrap_or((path, "")))
            .filter(|(base, _)| !path.is_empty() && !base.is_empty())
    });
    let links: Vec<(&str, &str)> = links.collect();
    let exists = |path: &str| {
        let stem = path.trim_end_matches('/');
        let pages = [format!("{stem}/index.html"), format!("{stem}.html")];
        path.is_empty() || names.contains(path) || pages.iter().any(|name| names.contains(&**name))
    };
    let (base, _) = *links.iter().find(|(_, rest)| !rest.is_empty() && exists(rest))?;
    let count = links.iter().filter(|(first, rest)| *first == base && exists(rest)).count();
    let has_folder =
        || names.iter().any(|name| name.strip_prefix(base).is_some_and(|rest| rest.starts_with('/')));
    (2 * count > links.len() && !has_folder()).then_some(base)
}

/// Warns about redirects without placeholders that have no effect, because a page or a file of the site has
/// their path; resources and the Markdown of pages do not count. Skips forced rules, rewrites, which are
/// often written for all paths, and redirects to the same path with or without a slash, which are followed.
pub(super) fn report_shadowed(redirects: &[RedirectRule], site: &Site, faults: &mut Vec<Fault>) {
    let is_in_use = |path: &str| {
        matches!(site.entries.get(path), Some(SiteEntry::Page(_) | SiteEntry::File(_, Role::Asset)))
    };
    let leads_back = |rule: &RedirectRule, path: &str| {
        rule.target(path, None).is_some_and(|to| to.trim_end_matches('/') == path.trim_end_matches('/'))
    };
    for rule in redirects.iter().filter(|rule| !rule.is_forced && rule.status != StatusCode::OK) {
        let paths = rule.literal_paths();
        if let Some(path) = paths.iter().find(|path| is_in_use(path) && !leads_back(rule, path)) {
            let message =
                format!("the rule has no effect: `{path}` is a page or a file, which takes precedence");
            let hint =
                format!("write `{}!` so that the rule takes precedence, or remove it", rule.status.as_u16());
            faults.push(Fault::warning("_redirects", rule.line, message).hint(hint));
        }
    }
}
