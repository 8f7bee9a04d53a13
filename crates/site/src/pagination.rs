//! Divides long lists of posts into pages: `/blog/`, `/blog/page/2/` and so on, and the same for tags.

use serde::Serialize;

use super::path::encode;

/// The number of page links on each side of the current one. The first and the last page always have a link.
const NEIGHBORS: usize = 2;

/// The position of a page in a list that is divided into pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListPage {
    /// The decoded path of the list's first page.
    pub base: String,
    /// The number of this page, counted from 1.
    pub number: usize,
    pub count: usize,
}

/// Links to the pages of a list, including the current page. All paths are percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Pagination {
    pub number: usize,
    pub count: usize,
    pub previous: Option<String>,
    pub next: Option<String>,
    pub pages: Vec<PageLink>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PageLink {
    pub number: usize,
    pub path: String,
    pub current: bool,
    /// Whether pages are left out before this one.
    pub after_gap: bool,
}

/// The number of pages for a list of posts. There is always at least one page, even without posts. If
/// `per_page` is 0, all posts are on one page.
pub(super) fn page_count(posts: usize, per_page: usize) -> usize {
    if per_page == 0 { 1 } else { posts.div_ceil(per_page).max(1) }
}

/// The decoded path of a page: `/blog/` for the first one, `/blog/page/2/` for the second.
pub(super) fn page_path(base: &str, number: usize) -> String {
    if number <= 1 { base.to_owned() } else { format!("{base}page/{number}/") }
}

/// The indices, from 0, of the posts on page `number`, from 1. Empty if there are none. If `per_page` is 0,
/// all posts are on every page.
pub(super) fn post_range(number: usize, per_page: usize, posts: usize) -> std::ops::Range<usize> {
    if per_page == 0 {
        return 0..posts;
    }
    let start = number.saturating_sub(1).saturating_mul(per_page).min(posts);
    start..start.saturating_add(per_page).min(posts)
}

impl ListPage {
    /// Links to the first, the last and the nearest pages, and to the previous and the next one. `None` if
    /// the list has a single page.
    pub fn links(&self) -> Option<Pagination> {
        let Self { base, number, count } = self;
        let (number, count) = (*number, *count);
        if count < 2 {
            return None;
        }
        let path = |number| encode(&page_path(base, number)).into_owned();
        let is_shown = |page: &usize| *page == 1 || *page == count || page.abs_diff(number) <= NEIGHBORS;
        let shown: Vec<usize> = (1..=count).filter(is_shown).collect();
        let pages = shown.iter().enumerate().map(|(at, page)| PageLink {
            number: *page,
            path: path(*page),
            current: *page == number,
            after_gap: at > 0 && shown[at - 1] + 1 < *page,
        });
        Some(Pagination {
            number,
            count,
            previous: (number > 1).then(|| path(number - 1)),
            next: (number < count).then(|| path(number + 1)),
            pages: pages.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posts_are_divided_at_the_limit() {
        for (posts, per_page, pages, last) in [
            (0, 20, 1, 0..0),
            (1, 20, 1, 0..1),
            (20, 20, 1, 0..20),
            (21, 20, 2, 20..21),
            (40, 20, 2, 20..40),
            (41, 20, 3, 40..41),
            (1_000, 0, 1, 0..1_000),
            (3, 1, 3, 2..3),
        ] {
            assert_eq!(page_count(posts, per_page), pages, "{posts} by {per_page}");
            assert_eq!(post_range(pages, per_page, posts), last, "{posts} by {per_page}");
        }
        assert_eq!(post_range(9, 20, 21), 21..21, "a page that does not exist");
    }

    #[test]
    fn links_lead_to_the_first_the_last_and_the_nearest_pages() {
        let links = |number, count| ListPage { base: "/blog/".into(), number, count }.links();
        assert_eq!(links(1, 1), None);
        let first = links(1, 2).expect("links");
        assert_eq!((first.previous.as_deref(), first.next.as_deref()), (None, Some("/blog/page/2/")));
        let second = links(2, 2).expect("links");
        assert_eq!((second.previous.as_deref(), second.next.as_deref()), (Some("/blog/"), None));
        let middle = links(10, 20).expect("links");
        let shown: Vec<_> =
            middle.pages.iter().map(|page| (page.number, page.after_gap, page.current)).collect();
        let expected = [
            (1, false, false),
            (8, true, false),
            (9, false, false),
            (10, false, true),
            (11, false, false),
            (12, false, false),
            (20, true, false),
        ];
        assert_eq!(shown, expected);
        let tag = ListPage { base: "/blog/tags/ü/".into(), number: 2, count: 2 };
        assert_eq!(tag.links().expect("links").pages[1].path, "/blog/tags/%C3%BC/page/2/");
    }
}
