//! Finds the pages of a build that name another page as their canonical one (RFC 6596), such as older
//! versions, print views and republished texts, and pages that are links to another page's file.

use std::collections::HashMap;

use http::Uri;

use super::conversion::Conversion;
use super::html_pages::HtmlPage;
use crate::path;
use crate::rules::page_paths::not_found_folder;

/// For each page, the URL of the page that it names as canonical; `None` if it names itself or none, or if
/// the URL is ignored. A page that names none, or a URL that leads to no page, and whose file is a symbolic
/// link or below one (`latest` to `v2`), has the page of the real file as its canonical one, unless it is the
/// home page. A page that names none, in a folder in parentheses, is a copy of the page with the same title
/// and the path without this folder: apps group pages in such folders.
///
/// The path decides which page of the build is meant, without regard to the host, because a build is also
/// served elsewhere for tests; `/a`, `/a/`, `/a.html` and `/a/index.html` are the same. If the home page has
/// a canonical URL, a host that is neither in that one nor the configured one is another site. Ignores a URL
/// that leads to no page, to an unlisted one, to a 404 page, or to one that names a third page. Also ignores
/// a page that at least half of the pages name, which is a mistake in a template; all pages of other sites
/// count as one. A page that `is_withheld` is not the canonical one of a link or a copy, so that one of both
/// is listed.
pub(super) fn find_originals(
    pages: &[HtmlPage<'_>],
    converted: &[Conversion],
    mount: &str,
    is_withheld: impl Fn(&HtmlPage<'_>) -> bool,
) -> Vec<Option<String>> {
    let declared = |at: usize| converted[at].facts.metadata.canonical.as_deref();
    let home = pages.iter().position(|page| page.path == mount);
    let own_host = home.and_then(|home| host(&declared(home)?.parse().ok()?));
    let positions: HashMap<&str, usize> =
        pages.iter().enumerate().map(|(at, page)| (key(&page.path), at)).collect();
    // The position of the page that page `at` declares as canonical, or `pages.len()` if that page is on
    // another site.
    let named = |at: usize| {
        let url: Uri = declared(at)?.parse().ok()?;
        let is_own_host =
            || host(&url) == own_host || pages[at].url.parse().is_ok_and(|own| host(&own) == host(&url));
        if own_host.is_some() && !is_own_host() {
            return Some(pages.len());
        }
        let path = path::decode(url.path()).ok()?;
        let is_own = key(&path) == key(&pages[at].path);
        if is_own { Some(at) } else { positions.get(key(&path)).copied() }
    };
    let by_name: HashMap<&str, usize> =
        pages.iter().enumerate().map(|(at, page)| (page.name(), at)).collect();
    let linked = |at: usize| {
        let name = pages[at].file.linked.as_deref().filter(|_| pages[at].path != mount)?;
        by_name.get(name).copied()
    };
    let ungrouped = |at: usize| {
        let to = *positions.get(key(&without_groups(&pages[at].path)?))?;
        let title = |at: usize| &converted[at].facts.metadata.title;
        (declared(at).is_none() && title(at) == title(to)).then_some(to)
    };
    let mut targets: Vec<Option<usize>> = (0..pages.len()).map(named).collect();
    let mut counts = vec![0; pages.len() + 1];
    for (at, to) in targets.iter().enumerate() {
        to.filter(|to| *to != at).into_iter().for_each(|to| counts[to] += 1);
    }
    for (at, target) in targets.iter_mut().enumerate() {
        let real = || linked(at).or_else(|| ungrouped(at)).filter(|to| !is_withheld(&pages[*to]));
        *target = target.or_else(real);
    }
    let original = |(at, to): (usize, &Option<usize>)| {
        let to = to.filter(|to| *to != at && 2 * counts[*to] < pages.len())?;
        let Some(page) = pages.get(to) else { return declared(at).map(str::to_owned) };
        let is_original = targets[to].is_none_or(|third| third == to)
            && !converted[to].facts.metadata.is_unlisted
            && not_found_folder(page.name()).is_none();
        is_original.then(|| page.url.clone())
    };
    targets.iter().enumerate().map(original).collect()
}

/// The host without `www.`, in lower case.
fn host(url: &Uri) -> Option<String> {
    let host = url.host()?.to_ascii_lowercase();
    Some(host.strip_prefix("www.").unwrap_or(&host).to_owned())
}

/// The path without folders in parentheses; `None` if no folder is in parentheses.
fn without_groups(path: &str) -> Option<String> {
    let (folders, last) = path.rsplit_once('/')?;
    let is_group = |name: &str| name.starts_with('(') && name.ends_with(')');
    let kept: Vec<&str> = folders.split('/').filter(|name| !is_group(name)).chain([last]).collect();
    Some(kept.join("/")).filter(|plain| plain.len() < path.len())
}

/// A path without `/index.html` or `.html` at its end, and without trailing slashes: the same for all ways to
/// write the address of a page.
fn key(path: &str) -> &str {
    let stem = path.strip_suffix("/index.html").or_else(|| path.strip_suffix(".html"));
    stem.unwrap_or(path).trim_end_matches('/')
}
