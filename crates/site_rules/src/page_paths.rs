//! Assigns paths to the files of a build, following the conventions of site generators.

use std::collections::HashSet;
use std::hash::BuildHasher;

use crate::path;

/// The decoded path of the page in an HTML file. `x/index.html` is at `/x/`, as is `x/index.htm` unless
/// `names` has the former. `x.html` is at `/x`, or at `/x.html` if it keeps its extension. Other extensions,
/// such as `.htm` and `.HTML`, always stay.
pub fn page_path(
    mount: &str,
    name: &str,
    names: &HashSet<&str, impl BuildHasher>,
    keeps_extension: bool,
) -> String {
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
pub fn twin_names(page: &str) -> Vec<String> {
    if page.ends_with('/') {
        return path::markdown_paths(page).to_vec();
    }
    let stem = page.strip_suffix(".html").unwrap_or(page);
    vec![format!("{stem}.md"), format!("{stem}.html.md")]
}

/// Other paths at which visitors may expect the page in the HTML file `name`, which redirect to it, such as
/// `/x.html` and `/x/` for `/x`, or `/x` and `/x/` for `/x.html`.
pub fn redirect_names(page: &str, name: &str) -> Vec<String> {
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
pub fn not_found_folder(name: &str) -> Option<&str> {
    match name {
        "404.html" | "404/index.html" => Some(""),
        _ => name.strip_suffix("/404.html").or_else(|| {
            let folder = name.strip_suffix("/404/index.html")?;
            let primary = folder.split(['-', '_']).next()?;
            (primary.len() == 2 && folder.len() <= MAX_LANGUAGE && !folder.contains('/')).then_some(folder)
        }),
    }
}

/// Whether frameworks give a file with this name to servers, not to readers: the shell of an app, a page for
/// an error status, or a pattern for pages with parameters (`[slug].html`). At the root, also a file whose
/// name begins with `_` or `+`. Pages with content may have some of these names, too, but then links lead to
/// them.
pub fn is_shell(name: &str) -> bool {
    const FOLDERS: [&str; 4] = ["500", "_not-found", "dev-404-page", "offline-plugin-app-shell-fallback"];
    let Some(stem) = name.strip_suffix(".html") else { return false };
    let is_status = |stem: &str| {
        let (first, rest) = stem.split_at_checked(1).unwrap_or_default();
        matches!(first, "4" | "5") && rest.len() == 2 && rest.chars().all(|c| c.is_ascii_digit() || c == 'x')
    };
    let is_pattern = |segment: &str| segment.starts_with('[') && segment.ends_with(']');
    match stem.strip_suffix("/index") {
        Some(folder) if FOLDERS.contains(&folder) => true,
        None if !stem.contains('/') && (stem == "200" || is_status(stem)) => true,
        None if !stem.contains('/') && stem.starts_with(['_', '+']) => true,
        _ => stem.rsplit('/').next() == Some("index.csr") || stem.split('/').any(is_pattern),
    }
}

/// Maximum length of the name of a folder that counts as a language, such as `zh-Hant-TW`, in bytes.
const MAX_LANGUAGE: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_and_error_pages_are_recognized_by_their_names() {
        for (names, expected) in [
            ("200.html 401.html 50x.html 500.html 500/index.html index.csr.html de/index.csr.html", true),
            ("__spa-fallback.html _shell.html _not-found.html _not-found/index.html +not-found.html", true),
            ("offline-plugin-app-shell-fallback/index.html dev-404-page/index.html", true),
            ("[slug].html blog/[...all]/index.html [id]/a.html", true),
            (
                "index.html 201.html 4000.html 401/index.html docs/401.html _a/b.html _modules/index.html",
                false,
            ),
            ("a[1].html (tabs)/a.html 401.htm 4é.html", false),
        ] {
            for name in names.split(' ') {
                assert_eq!(is_shell(name), expected, "{name}");
            }
        }
    }

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
