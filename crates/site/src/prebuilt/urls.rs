//! Assigns paths to the files of a build, following the conventions of site generators.

use std::collections::HashSet;

use http::StatusCode;

use crate::fault::Fault;
use crate::html::attributes;
use crate::path;
use crate::rules::RedirectRule;
use crate::site::{Role, Site, SiteEntry};

/// The decoded path of the page in an HTML file. `x/index.html` is at `/x/`, as is `x/index.htm` unless
/// `names` has the former. `x.html` is at `/x`, or at `/x.html` if it keeps its extension. Other extensions,
/// such as `.htm` and `.HTML`, always stay.
pub(super) fn page_path(mount: &str, name: &str, names: &HashSet<&str>, keeps_extension: bool) -> String {
    let is_only = || !names.contains(&*format!("{name}l"));
    let folder =
        name.strip_suffix("index.html").or_else(|| name.strip_suffix("index.htm").filter(|_| is_only()));
    let folder = folder.filter(|folder| folder.is_empty() || folder.ends_with('/'));
    if let Some(folder) = folder {
        return format!("{mount}{folder}");
    }
    let stem = name.strip_suffix(".html").filter(|_| !keeps_extension).unwrap_or(name);
    format!("{mount}{stem}")
}

/// The possible paths of a page's Markdown, in order of preference, such as `/x.md` and `/x.html.md` for
/// `/x`.
pub(super) fn twin_names(page: &str) -> Vec<String> {
    if page.ends_with('/') {
        return path::markdown_paths(page).to_vec();
    }
    let stem = page.strip_suffix(".html").unwrap_or(page);
    vec![format!("{stem}.md"), format!("{stem}.html.md")]
}

/// Other paths at which visitors may expect the page in the HTML file `name`, which redirect to it, such as
/// `/x.html` and `/x/` for `/x`, or `/x` and `/x/` for `/x.html`.
pub(super) fn redirect_names(page: &str, name: &str) -> Vec<String> {
    if page.ends_with('/') {
        let own = name.ends_with("index.htm").then(|| format!("{page}index.htm"));
        return path::redirect_paths(page).into_iter().chain(own).collect();
    }
    match page.strip_suffix(".html") {
        Some(stem) => vec![stem.to_owned(), format!("{stem}/")],
        None => vec![format!("{page}.html"), format!("{page}/")],
    }
}

/// The folder for whose missing paths this file is the 404 page: `404.html` in any folder, or
/// `404/index.html` at the root, whose folder is empty, or in a folder of the root whose name may be a
/// language tag: two characters, alone or before `-` or `_`, and at most ten in all. `None` for other files,
/// such as the page about the status in a reference, `errors/404/index.html`.
pub(super) fn not_found_folder(name: &str) -> Option<&str> {
    match name {
        "404.html" | "404/index.html" => Some(""),
        _ => name.strip_suffix("/404.html").or_else(|| {
            let folder = name.strip_suffix("/404/index.html")?;
            let primary = folder.split(['-', '_']).next()?;
            (primary.len() == 2 && folder.len() <= MAX_LANGUAGE && !folder.contains('/')).then_some(folder)
        }),
    }
}

/// Maximum length of the name of a folder that counts as a language, such as `zh-Hant-TW`, in bytes.
const MAX_LANGUAGE: usize = 10;

/// The base path for which the build was made, if that is not the root: the first segment of more than half
/// of the root-relative links on the home page, if no file of the build is in a folder of this name, but the
/// files to which these links lead are in the build without it.
pub(super) fn find_missing_base<'a>(home: &'a str, names: &HashSet<&str>) -> Option<&'a str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_paths_of_static_hosts() {
        for (name, keeps_extension, path, twin) in [
            ("index.html", false, "/", "/index.md"),
            ("about/index.html", true, "/about/", "/about.md"),
            ("about.html", false, "/about", "/about.md"),
            ("about.html", true, "/about.html", "/about.md"),
            ("myindex.html", true, "/myindex.html", "/myindex.md"),
            ("de/x y.html", false, "/de/x y", "/de/x y.md"),
            ("old.htm", false, "/old.htm", "/old.htm.md"),
            ("OLD.HTML", false, "/OLD.HTML", "/OLD.HTML.md"),
            ("docs/index.htm", true, "/docs/", "/docs.md"),
            ("both/index.htm", false, "/both/index.htm", "/both/index.htm.md"),
        ] {
            assert_eq!(
                page_path("/", name, &HashSet::from(["both/index.html"]), keeps_extension),
                path,
                "{name}"
            );
            assert_eq!(twin_names(path)[0], twin, "{name}");
        }
        assert_eq!(page_path("/docs/", "a/index.html", &HashSet::new(), false), "/docs/a/");
    }
}
