//! Finds the other paths of a page by the page's own entry: those of its Markdown, and those that redirect to
//! it. Entries for each of them cost a reload of 2,000 pages about 5 of 25 ms.

use std::borrow::Cow;

use super::{Page, Site, SiteEntry};

impl Site {
    /// The entry at exactly this decoded path: the site's own, or else that of the page with this other path,
    /// see [`OtherPaths`](super::entry::OtherPaths). Of several such pages, the one whose twin has this path
    /// comes first.
    pub(crate) fn entry_at(&self, path: &str) -> Option<&SiteEntry> {
        if let Some(entry) = self.entries.get(path) {
            return Some(entry);
        }
        // No page has another path that ends with a slash.
        if path.ends_with('/') {
            return None;
        }
        let others = |page: &str| match self.entries.get(page)? {
            SiteEntry::Page(page) => page.others.as_deref(),
            _ => None,
        };
        // Of the page whose path is `stem` and a slash.
        let others_of = |stem: &str| {
            let mut page = String::with_capacity(path.len() + 1);
            page.push_str(stem);
            page.push('/');
            others(&page)
        };
        if let Some(others) = path.strip_suffix(".md").and_then(others_of) {
            return Some(&others.markdown);
        }
        let (folder, name) = path.split_at(path.rfind('/')? + 1);
        let of_folder = match name {
            "index.md" | "index.html.md" => others(folder).map(|others| &others.markdown),
            "index.html" => others(folder).map(|others| &others.redirect),
            _ => None,
        };
        of_folder.or_else(|| Some(&others_of(path)?.redirect))
    }

    /// Inserts an entry at a decoded path, unless the site has one there.
    pub(crate) fn insert_if_free(&mut self, path: &str, entry: impl FnOnce() -> SiteEntry) {
        if self.entry_at(path).is_none() {
            self.entries.insert(path.into(), entry());
        }
    }

    /// Gives the other paths of the page at a decoded path entries of their own, so that they stay as they
    /// are without the page. Does nothing if there is no page.
    pub(super) fn keep_other_paths(&mut self, path: &str) {
        let Some(SiteEntry::Page(Page { others: Some(others), .. })) = self.entries.get(path) else { return };
        for (name, entry) in others.clone().list(path) {
            self.entries.entry(name.into()).or_insert_with(|| entry.clone());
        }
    }

    /// All entries by their decoded paths, in arbitrary order.
    pub fn entries(&self) -> impl Iterator<Item = (Cow<'_, str>, &SiteEntry)> {
        let own = self.entries.iter().map(|(path, entry)| (Cow::Borrowed(&**path), entry));
        own.chain(self.entries.iter().flat_map(|(path, entry)| self.entries_at_other_paths(path, entry)))
    }

    /// The entries at those other paths of the page at a decoded path which lead to this page. None if
    /// `entry` is no page.
    fn entries_at_other_paths<'a>(
        &'a self,
        path: &str,
        entry: &'a SiteEntry,
    ) -> Vec<(Cow<'a, str>, &'a SiteEntry)> {
        let SiteEntry::Page(Page { others: Some(others), .. }) = entry else { return Vec::new() };
        let mut found: Vec<(Cow<'a, str>, &'a SiteEntry)> = Vec::new();
        for (name, entry) in others.list(path) {
            let leads_here = self.entry_at(&name).is_some_and(|found| std::ptr::eq(found, entry));
            // The home page has one of its other paths twice.
            if leads_here && found.last().is_none_or(|(last, _)| *last != name) {
                found.push((name.into(), entry));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::file::{Cache, File};
    use crate::path::{self, encode};
    use crate::rules::RedirectRule;
    use crate::{PagesOptions, Role};

    fn page(path: &str) -> Page {
        let file = |kind| Arc::new(File::new(kind, Cache::Revalidate, format!("{kind} of {path}")));
        let twin = encode(&path::twin_path(path)).into();
        Page::new(file("text/html"), file("text/markdown"), encode(path).into(), twin)
    }

    fn site(paths: &[&str]) -> Site {
        let mut site = Site::new(&PagesOptions::default(), page("/404/"));
        for path in paths {
            site.insert_page(path, page(path));
        }
        site
    }

    /// The kind of an entry, with the page to which it belongs or leads.
    fn describe(entry: Option<&SiteEntry>) -> String {
        match entry {
            Some(SiteEntry::Page(page)) => format!("page {}", page.path),
            Some(SiteEntry::File(_, Role::Twin(page))) => format!("Markdown {page}"),
            Some(SiteEntry::File(..)) => "file".to_owned(),
            Some(SiteEntry::Redirect(redirect)) => format!("to {}", redirect.to),
            Some(SiteEntry::Gone) => "gone".to_owned(),
            None => "nothing".to_owned(),
        }
    }

    /// Checks what is at these paths, and that the list of all entries has exactly these paths.
    fn check(site: &Site, expected: &[(&str, &str)]) {
        for (path, entry) in expected {
            assert_eq!(describe(site.get(path)), *entry, "{path}");
        }
        let listed: Vec<String> = site.entries().map(|(path, _)| path.into_owned()).collect();
        let all: BTreeMap<String, String> =
            site.entries().map(|(path, entry)| (path.into_owned(), describe(Some(entry)))).collect();
        assert_eq!(listed.len(), all.len(), "no path is listed twice: {listed:?}");
        let expected = expected.iter().filter(|(_, entry)| *entry != "nothing");
        let expected = expected.map(|(path, entry)| ((*path).to_owned(), (*entry).to_owned()));
        assert_eq!(all, expected.collect());
    }

    #[test]
    fn a_page_has_other_paths() {
        check(
            &site(&["/", "/über/"]),
            &[
                ("/", "page /"),
                ("/index.md", "Markdown /"),
                ("/index.html.md", "Markdown /"),
                ("/index.html", "to /"),
                ("/.md", "nothing"),
                ("/über/", "page /%C3%BCber/"),
                ("/über", "to /%C3%BCber/"),
                ("/über.md", "Markdown /%C3%BCber/"),
                ("/über/index.md", "Markdown /%C3%BCber/"),
                ("/über/index.html", "to /%C3%BCber/"),
                ("/über/index.html.md", "Markdown /%C3%BCber/"),
                ("/über.html", "nothing"),
                ("/über/index", "nothing"),
                ("/u", "nothing"),
            ],
        );
        assert_eq!(describe(site(&["/über/"]).get("/u\u{308}ber.md")), "Markdown /%C3%BCber/");
    }

    #[test]
    fn the_twin_of_a_page_precedes_other_paths_of_its_folder() {
        check(
            &site(&["/docs/", "/docs/index/"]),
            &[
                ("/docs/", "page /docs/"),
                ("/docs", "to /docs/"),
                ("/docs.md", "Markdown /docs/"),
                ("/docs/index.html", "to /docs/"),
                ("/docs/index.html.md", "Markdown /docs/"),
                ("/docs/index/", "page /docs/index/"),
                ("/docs/index", "to /docs/index/"),
                ("/docs/index.md", "Markdown /docs/index/"),
                ("/docs/index/index.md", "Markdown /docs/index/"),
                ("/docs/index/index.html", "to /docs/index/"),
                ("/docs/index/index.html.md", "Markdown /docs/index/"),
            ],
        );
    }

    #[test]
    fn an_entry_of_its_own_precedes_other_paths() {
        let mut site = site(&["/a/"]);
        site.insert_if_free("/a", || SiteEntry::Gone);
        site.entries.insert("/a/index.html".into(), SiteEntry::Gone);
        site.insert_resource("/a.md", File::new("text/plain", Cache::Revalidate, "x"));
        check(
            &site,
            &[
                ("/a/", "page /a/"),
                ("/a", "to /a/"),
                ("/a.md", "Markdown /a/"),
                ("/a/index.md", "Markdown /a/"),
                ("/a/index.html", "gone"),
                ("/a/index.html.md", "Markdown /a/"),
            ],
        );
    }

    #[test]
    fn rules_replace_entries_at_other_paths_only_if_they_are_forced() {
        let rule = |from: &str, is_forced| {
            let mut rule = RedirectRule::new(from, "/b/", 301).expect("a rule");
            rule.is_forced = is_forced;
            rule
        };
        let ruled = |rules: Vec<RedirectRule>, expected: [&str; 6]| {
            let mut site = site(&["/a/", "/b/"]);
            site.add_rules(rules);
            let paths = ["/a/", "/a", "/a.md", "/a/index.md", "/a/index.html", "/a/index.html.md"];
            assert_eq!(paths.map(|path| describe(site.get(path))), expected);
        };
        let [page, to, md] = ["page /a/", "to /a/", "Markdown /a/"];
        ruled(vec![rule("/a.md", false), rule("/a", false)], [page, to, md, md, to, md]);
        ruled(vec![rule("/a.md", true)], [page, to, "to /b/", md, to, md]);
        // Without the page, its Markdown and the redirects to its path stay.
        ruled(vec![rule("/a/", true)], ["to /b/", "to /b/", md, md, to, md]);
        ruled(vec![rule("/a/*", true)], ["to /b/", "to /b/", md, "to /b/", "to /b/", "to /b/"]);
    }

    #[test]
    fn other_paths_serve_the_encodings_of_the_page() {
        let served = |site: &Site, path: &str| match site.get(path) {
            Some(SiteEntry::File(file, _)) => file.clone(),
            Some(SiteEntry::Page(page)) => page.markdown.clone(),
            other => panic!("{other:?}"),
        };
        let earlier = site(&["/a/"]);
        let mut site = site(&["/a/"]);
        site.adopt(&earlier);
        assert!(Arc::ptr_eq(&served(&site, "/a.md"), &served(&earlier, "/a/")));
        assert!(Arc::ptr_eq(&served(&site, "/a/index.md"), &served(&site, "/a/")));
    }
}
