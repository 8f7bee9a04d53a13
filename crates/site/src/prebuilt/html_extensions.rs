//! Decides which pages of a build keep the extension `.html` in their paths, by the build's own links.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU8, Ordering};

use frontdesk_convert::attributes;

use crate::path;

/// How the links of a build write the addresses of its HTML files: for the name of each file, whether links
/// end with `.html` ([`WITH`]), whether they do not ([`WITHOUT`]), and whether one is on another page
/// ([`OUTSIDE`]). Index files have no links.
pub(super) struct LinkSpellings<'n>(HashMap<&'n str, AtomicU8>);

const WITH: u8 = 1;
const WITHOUT: u8 = 2;
const OUTSIDE: u8 = 4;

impl<'n> LinkSpellings<'n> {
    /// Creates an empty record of the links to the HTML files `names`.
    pub fn new(names: &HashSet<&'n str>) -> Self {
        Self(names.iter().map(|name| (*name, AtomicU8::default())).collect())
    }

    /// Records the links on a page, among them its canonical URL. `/x` and `/x/` lead to `x.html`, but `/x/`
    /// to `x/index.html` if there is one. Absolute URLs count only with the host of `base_url`. The order of
    /// pages has no effect.
    pub fn record_links(&self, html: &str, page: &str, mount: &str, base_url: &str) {
        let base = format!("{mount}{page}");
        let host = base_url.split_once("://").map_or("", |(_, host)| host);
        let links = attributes(html).filter(|(attribute, _)| attribute.eq_ignore_ascii_case("href"));
        let links = links.filter_map(|(_, value)| html[value].split(['?', '#']).next());
        let links: HashSet<&str> = links.filter_map(|link| without_host(link, host)).collect();
        for link in links {
            let target = path::resolve_relative(&base, link);
            let Ok(target) = path::decode(&target) else { continue };
            let Some(target) = target.strip_prefix(mount) else { continue };
            let is_folder = target.ends_with('/') && self.0.contains_key(&*format!("{target}index.html"));
            let stem = target.strip_suffix(".html");
            let file = format!("{}.html", stem.unwrap_or_else(|| target.trim_end_matches('/')));
            if !is_folder
                && file.rsplit('/').next() != Some("index.html")
                && let Some(spelling) = self.0.get(&*file)
            {
                let outside = if file == page { 0 } else { OUTSIDE };
                let written = if stem.is_some() { WITH } else { WITHOUT };
                spelling.fetch_or(written | outside, Ordering::Relaxed);
            }
        }
    }

    /// Whether a recorded link on another page leads to the file. `false` for index files.
    pub fn is_linked(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|spelling| spelling.load(Ordering::Relaxed) & OUTSIDE != 0)
    }

    /// The names of the files whose paths keep `.html`. A file keeps it if links name it so, and none
    /// without. A file to which no links lead follows the majority of those in its folder to which links do,
    /// or else of those in the build. A file also keeps it if its path without it is that of a file in
    /// `others`.
    pub fn into_keeping(self, others: &HashSet<&str>) -> HashSet<&'n str> {
        let spellings: HashMap<&str, u8> =
            self.0.into_iter().map(|(name, spelling)| (name, spelling.into_inner() & !OUTSIDE)).collect();
        // For each folder, the number of files linked only with `.html`, minus the other linked files.
        let mut balances: HashMap<&str, isize> = HashMap::new();
        for (name, spelling) in spellings.iter().filter(|(_, spelling)| **spelling != 0) {
            *balances.entry(folder(name)).or_default() += if *spelling == WITH { 1 } else { -1 };
        }
        let total: isize = balances.values().sum();
        let is_taken = |name: &str| name.strip_suffix(".html").is_some_and(|stem| others.contains(stem));
        let keeps = |(name, spelling): &(&str, u8)| match (spelling, balances.get(folder(name)).unwrap_or(&0))
        {
            (0, 0) => total > 0 || is_taken(name),
            (0, balance) => *balance > 0 || is_taken(name),
            _ => *spelling == WITH || is_taken(name),
        };
        spellings.into_iter().filter(keeps).map(|(name, _)| name).collect()
    }
}

/// A link without scheme and `host`. `None` if it is empty, if it leads to another host or has no path after
/// the host, or if it has no host but a colon, as `mailto:` links do.
fn without_host<'l>(link: &'l str, host: &str) -> Option<&'l str> {
    let address = link.strip_prefix("https:").or_else(|| link.strip_prefix("http:")).unwrap_or(link);
    match address.strip_prefix("//") {
        Some(address) => address.strip_prefix(host).filter(|path| path.starts_with('/')),
        None => Some(link).filter(|link| !link.is_empty() && !link.contains(':')),
    }
}

/// The folder of a file, with a final slash. Empty for a file that is not in a folder.
fn folder(name: &str) -> &str {
    name.rfind('/').map_or("", |at| &name[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_html_files_are_recognized() {
        let names = HashSet::from([
            "a.html",
            "b.html",
            "b/c.html",
            "b/index.html",
            "d e.html",
            "index.html",
            "myindex.html",
        ]);
        for (link, expected) in [
            ("a.html", Some(("a.html", WITH))),
            ("/docs/a.html#x", Some(("a.html", WITH))),
            ("/a.html", None),
            ("b/c.html?x", Some(("b/c.html", WITH))),
            ("d%20e.html", Some(("d e.html", WITH))),
            ("index.html", None),
            ("b/index.html", None),
            ("index", None),
            ("myindex.html", Some(("myindex.html", WITH))),
            ("gone.html", None),
            ("https://example.org/a.html", None),
            ("//example.org/a.html", None),
            ("https://www.example.com/docs/a.html", Some(("a.html", WITH))),
            ("http://www.example.com/docs/a", Some(("a.html", WITHOUT))),
            ("//www.example.com/docs/a.html", Some(("a.html", WITH))),
            ("https://www.example.com.example.org/docs/a.html", None),
            ("https://www.example.com", None),
            ("mailto:a.html", None),
            ("a", Some(("a.html", WITHOUT))),
            ("./b/c?x#y", Some(("b/c.html", WITHOUT))),
            ("/docs/a/", Some(("a.html", WITHOUT))),
            ("/docs/b", Some(("b.html", WITHOUT))),
            ("/docs/b/", None),
            ("/docs/", None),
            ("#a", None),
            ("a.css", None),
        ] {
            let html = format!("<a href=\"{link}\">x</a>");
            let spellings = LinkSpellings::new(&names);
            spellings.record_links(&html, "index.html", "/docs/", "https://www.example.com");
            let is_linked = names.iter().any(|name| spellings.is_linked(name));
            assert_eq!(is_linked, expected.is_some(), "{link}");
            let found =
                spellings.0.into_iter().map(|(name, spelling)| (name, spelling.into_inner() & !OUTSIDE));
            let found: Vec<_> = found.filter(|(_, spelling)| *spelling != 0).collect();
            assert_eq!(found, Vec::from_iter(expected), "{link}");
        }
    }

    #[test]
    fn undecided_files_follow_their_folder_or_the_build() {
        let names =
            ["a.html", "b.html", "api/C.html", "api/D.html", "api/E.html", "x/y.html", "LICENSE.html"];
        let others = HashSet::from(["LICENSE"]);
        let keeping = |links: &str| {
            let spellings = LinkSpellings::new(&HashSet::from(names));
            for link in links.split(' ') {
                spellings.record_links(
                    &format!("<a href={link}>"),
                    "index.html",
                    "/",
                    "https://www.example.com",
                );
            }
            let kept = spellings.into_keeping(&others);
            let kept: Vec<&str> = names.into_iter().filter(|name| kept.contains(name)).collect();
            kept.join(" ")
        };
        for (links, expected) in [
            ("", "LICENSE.html"),
            ("a.html", "a.html b.html api/C.html api/D.html api/E.html x/y.html LICENSE.html"),
            ("a", "LICENSE.html"),
            ("a.html a", "LICENSE.html"),
            ("a a.html", "LICENSE.html"),
            ("LICENSE", "LICENSE.html"),
            ("a b api/C.html", "api/C.html api/D.html api/E.html LICENSE.html"),
            ("a api/C.html", "api/C.html api/D.html api/E.html LICENSE.html"),
            ("a api/C.html api/D", "api/C.html LICENSE.html"),
            ("a api/C.html api/D.html", "api/C.html api/D.html api/E.html x/y.html LICENSE.html"),
        ] {
            assert_eq!(keeping(links), expected, "{links}");
        }
    }
}
