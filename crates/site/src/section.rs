//! Sections: folders of pages with a common navigation, for documentation. A page with `section: true` in its
//! front matter opens a section, which contains the page and all pages below its path, except those in an
//! inner section.

use std::collections::BTreeMap;

use serde::Serialize;

/// Sections with more pages than this show only the branch of the current page.
const MAX_WHOLE_TREE: usize = 200;
/// The number of pages that a section with more than `MAX_WHOLE_TREE` pages shows on each side of the
/// current page.
const MAX_NEIGHBORS: usize = 25;

/// A page that may belong to a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SectionPage {
    /// The page's path, decoded and with a trailing slash.
    pub path: String,
    pub title: String,
    /// The position among the pages of a folder, lowest first. Pages without a weight come last, by title.
    pub weight: Option<i64>,
    /// The heading under which the page is listed among the pages of its folder.
    pub group: Option<String>,
    /// Whether the page opens a section.
    pub opens_section: bool,
}

/// A page, or a folder without a page of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Node {
    title: String,
    /// The decoded path of the page or folder.
    path: String,
    is_page: bool,
    weight: Option<i64>,
    group: Option<String>,
    children: Vec<Node>,
}

/// A section as a tree of pages. The root is the page that opens the section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NavSection {
    root: Node,
    /// The paths and titles of all pages in reading order, beginning with the root.
    order: Vec<(String, String)>,
}

/// An entry of the navigation as shown on one page: a page, a folder or a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SectionEntry {
    pub title: String,
    /// Percent-encoded; `None` for a group. A folder without a page of its own has the path of its first page
    /// if its children are not shown, and otherwise `None`.
    pub path: Option<String>,
    /// Whether the entry is the heading of a group. Its children are the pages of the group.
    pub is_group: bool,
    pub is_current: bool,
    /// Whether the entry is the current page or contains it.
    pub is_open: bool,
    pub children: Vec<SectionEntry>,
}

/// Divides pages into sections. A page belongs to the innermost section that contains it. Sorts the sections
/// by path, and leaves out pages that are in no section.
pub(super) fn sections(pages: &[SectionPage]) -> Vec<NavSection> {
    let mut roots: Vec<&SectionPage> = pages.iter().filter(|page| page.opens_section).collect();
    roots.sort_by(|a, b| a.path.cmp(&b.path));
    let owner = |page: &SectionPage| {
        let above = roots.iter().filter(|root| page.path.starts_with(&root.path));
        above.max_by_key(|root| root.path.len()).map(|root| root.path.as_str())
    };
    let mut members: BTreeMap<&str, Vec<&SectionPage>> = BTreeMap::new();
    for page in pages {
        if let Some(root) = owner(page) {
            members.entry(root).or_default().push(page);
        }
    }
    roots
        .iter()
        .map(|root| NavSection::new(root, members.get(&*root.path).map_or(&[], Vec::as_slice)))
        .collect()
}

impl NavSection {
    /// Builds the section of `root`. `members` are its pages, including `root`.
    fn new(root: &SectionPage, members: &[&SectionPage]) -> Self {
        let mut tree = Node { path: root.path.clone(), ..Node::default() };
        for page in members {
            tree.insert(page);
        }
        tree.sort();
        let mut order = Vec::with_capacity(members.len());
        tree.collect(&mut order);
        Self { root: tree, order }
    }

    /// Whether a page at this decoded path would belong to the section, or to a section nested in it.
    pub fn contains(&self, path: &str) -> bool {
        path.starts_with(&self.root.path)
    }

    /// The length of the path of the page that opens the section, in bytes. Of two sections that contain a
    /// page, the inner one is deeper.
    pub fn depth(&self) -> usize {
        self.root.path.len()
    }

    /// The navigation as shown on the page at a decoded path. Its first entry is the page that opens the
    /// section, without children and never marked as open. A section with more than `MAX_WHOLE_TREE` pages
    /// shows only the branch of the current page, with at most `MAX_NEIGHBORS` pages on each side at each
    /// level.
    pub fn entries(&self, current: &str) -> Vec<SectionEntry> {
        let is_whole = self.order.len() <= MAX_WHOLE_TREE;
        let opening = Node { children: Vec::new(), ..self.root.clone() };
        let mut entries = vec![SectionEntry { is_open: false, ..opening.entry(current, is_whole) }];
        entries.extend(shown_entries(&self.root.children, current, is_whole));
        entries
    }

    /// The decoded paths and the titles of the previous and the next page in reading order; `None` at the
    /// ends, and for a page that is not in the section.
    pub fn neighbors(&self, current: &str) -> [Option<(&str, &str)>; 2] {
        let at = self.order.iter().position(|(path, _)| path == current);
        let page = |at: Option<usize>| self.order.get(at?).map(|(path, title)| (&**path, &**title));
        [page(at.and_then(|at| at.checked_sub(1))), page(at.map(|at| at + 1))]
    }
}

impl Node {
    /// Adds a page below this node, and nodes for the folders in between. The page's path must begin with the
    /// path of this node.
    fn insert(&mut self, page: &SectionPage) {
        let below = page.path[self.path.len()..].trim_end_matches('/');
        if below.is_empty() {
            self.title.clone_from(&page.title);
            self.weight = page.weight;
            self.group.clone_from(&page.group);
            self.is_page = true;
            return;
        }
        let name = below.split('/').next().unwrap_or(below);
        let path = format!("{}{name}/", self.path);
        let at = self.children.iter().position(|child| child.path == path).unwrap_or_else(|| {
            self.children.push(Self { title: folder_title(name), path, ..Self::default() });
            self.children.len() - 1
        });
        self.children[at].insert(page);
    }

    /// Sorts the descendants: by weight, then by title regardless of case; those without a weight come last.
    /// Then moves the other pages of each group behind its first page, and the other pages without a group
    /// behind the first page without one.
    fn sort(&mut self) {
        self.children.sort_by_cached_key(|child| {
            (child.weight.unwrap_or(i64::MAX), child.title.to_lowercase(), child.path.clone())
        });
        let mut ranks = BTreeMap::new();
        for (rank, child) in self.children.iter().enumerate() {
            ranks.entry(child.group.clone()).or_insert(rank);
        }
        self.children.sort_by_key(|child| ranks.get(&child.group).copied());
        self.children.iter_mut().for_each(Self::sort);
    }

    /// Appends the paths and titles of this page and of the pages below it, in reading order.
    fn collect(&self, order: &mut Vec<(String, String)>) {
        if self.is_page {
            order.push((self.path.clone(), self.title.clone()));
        }
        self.children.iter().for_each(|child| child.collect(order));
    }

    /// The node's entry. It has children if the section is shown as a whole, or if the node is or contains
    /// the current page. It has no path if the node is a folder without a page.
    fn entry(&self, current: &str, is_whole: bool) -> SectionEntry {
        let is_open = current.starts_with(&self.path);
        SectionEntry {
            title: self.title.clone(),
            path: self.is_page.then(|| super::path::encode(&self.path).into_owned()),
            is_group: false,
            is_current: current == self.path,
            is_open,
            children: if is_whole || is_open {
                shown_entries(&self.children, current, is_whole)
            } else {
                Vec::new()
            },
        }
    }
}

/// The entries of the pages in a folder. In a large section, only those near the current page, or the first
/// ones if the folder does not contain the current page. Pages of a group are the children of its entry.
fn shown_entries(nodes: &[Node], current: &str, is_whole: bool) -> Vec<SectionEntry> {
    let at = nodes.iter().position(|node| current.starts_with(&node.path)).unwrap_or_default();
    let shown = if is_whole {
        nodes
    } else {
        &nodes[at.saturating_sub(MAX_NEIGHBORS)..nodes.len().min(at + MAX_NEIGHBORS + 1)]
    };
    let mut entries: Vec<SectionEntry> = Vec::new();
    for nodes in shown.chunk_by(|a, b| a.group == b.group) {
        let pages = nodes.iter().map(|node| linked_entry(node, current, is_whole));
        let Some(group) = nodes.first().and_then(|node| node.group.as_ref()) else {
            entries.extend(pages);
            continue;
        };
        let children: Vec<_> = pages.collect();
        entries.push(SectionEntry {
            title: group.clone(),
            path: None,
            is_group: true,
            is_current: false,
            is_open: children.iter().any(|page| page.is_open),
            children,
        });
    }
    entries
}

/// The entry of a node. A closed folder without a page of its own would be neither a link nor a list, so it
/// links to its first page.
fn linked_entry(node: &Node, current: &str, is_whole: bool) -> SectionEntry {
    match node.entry(current, is_whole) {
        entry if entry.path.is_none() && entry.children.is_empty() => SectionEntry {
            path: node.first_page().map(|path| super::path::encode(path).into_owned()),
            ..entry
        },
        entry => entry,
    }
}

impl Node {
    /// The path of this page, or of the first page in this folder.
    fn first_page(&self) -> Option<&str> {
        if self.is_page { Some(&self.path) } else { self.children.iter().find_map(Self::first_page) }
    }
}

/// The title of a folder without a page: `getting-started` becomes "Getting started".
fn folder_title(name: &str) -> String {
    let words = name.replace(['-', '_'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, title: &str, weight: Option<i64>) -> SectionPage {
        SectionPage { path: path.into(), title: title.into(), weight, group: None, opens_section: false }
    }

    fn opening(path: &str, title: &str) -> SectionPage {
        SectionPage { opens_section: true, ..page(path, title, None) }
    }

    /// The entries as an outline: `*` marks the current page, `+` an open folder.
    fn outline(entries: &[SectionEntry], level: usize) -> String {
        let lines = entries.iter().map(|entry| {
            let mark = if entry.is_current {
                "*"
            } else if entry.is_open {
                "+"
            } else {
                ""
            };
            let link = entry.path.as_deref().unwrap_or("-");
            format!(
                "{}{mark}{} {link}\n{}",
                " ".repeat(level),
                entry.title,
                outline(&entry.children, level + 1)
            )
        });
        lines.collect()
    }

    #[test]
    fn pages_are_sorted_by_weight_and_then_by_title() {
        let pages = [
            opening("/docs/", "Docs"),
            page("/docs/zoo/", "Zoo", Some(1)),
            page("/docs/b/", "bees", None),
            page("/docs/a/", "Ants", None),
            page("/docs/big-cats/lions/", "Lions", None),
            page("/docs/b/wild/", "Wild bees", Some(-1)),
            page("/other/", "Other", None),
        ];
        let sections = sections(&pages);
        assert_eq!(sections.len(), 1);
        let expected = "Docs /docs/\nZoo /docs/zoo/\nAnts /docs/a/\n*bees /docs/b/\n Wild bees /docs/b/wild/\n\
                        Big cats -\n Lions /docs/big-cats/lions/\n";
        assert_eq!(outline(&sections[0].entries("/docs/b/"), 0), expected);
        assert!(outline(&sections[0].entries("/docs/big-cats/lions/"), 0).contains("+Big cats -\n *Lions"));
        assert!(outline(&sections[0].entries("/docs/"), 0).starts_with("*Docs /docs/\nZoo"));
        let around = |path| sections[0].neighbors(path);
        assert_eq!(around("/docs/"), [None, Some(("/docs/zoo/", "Zoo"))]);
        assert_eq!(
            around("/docs/b/wild/"),
            [Some(("/docs/b/", "bees")), Some(("/docs/big-cats/lions/", "Lions"))]
        );
        assert_eq!(around("/docs/big-cats/lions/")[1], None);
        assert_eq!(around("/docs/none/"), [None, None]);
    }

    #[test]
    fn pages_of_a_group_are_listed_where_its_first_page_is() {
        let grouped = |path, title, weight, group: &str| SectionPage {
            group: Some(group.into()),
            ..page(path, title, Some(weight))
        };
        let pages = [
            opening("/d/", "D"),
            grouped("/d/late/", "Late", 4, "Start"),
            grouped("/d/first/", "First", 1, "Start"),
            page("/d/free/", "Free", Some(2)),
            grouped("/d/run/", "Run", 3, "Operations"),
        ];
        let section = &sections(&pages)[0];
        let expected =
            "D /d/\n+Start -\n First /d/first/\n *Late /d/late/\nFree /d/free/\nOperations -\n Run /d/run/\n";
        let entries = section.entries("/d/late/");
        assert_eq!(outline(&entries, 0), expected);
        assert_eq!(entries.iter().filter(|entry| entry.is_group).count(), 2);
        assert_eq!(section.neighbors("/d/late/"), [Some(("/d/first/", "First")), Some(("/d/free/", "Free"))]);
    }

    #[test]
    fn a_page_belongs_to_the_innermost_section() {
        let pages = [
            opening("/", "Home"),
            page("/a/", "A", None),
            opening("/docs/", "Docs"),
            page("/docs/x/", "X", None),
        ];
        let sections = sections(&pages);
        assert_eq!(outline(&sections[0].entries("/a/"), 0), "Home /\n*A /a/\n");
        assert_eq!(outline(&sections[1].entries("/docs/x/"), 0), "Docs /docs/\n*X /docs/x/\n");
        assert!(sections[1].contains("/docs/x/") && !sections[1].contains("/a/"));
        assert!(sections[1].depth() > sections[0].depth());
    }

    #[test]
    fn large_sections_show_the_branch_of_the_current_page() {
        let mut pages = vec![opening("/d/", "D")];
        pages.extend(
            (0..300).map(|number| page(&format!("/d/p{number:03}/"), &format!("P{number:03}"), None)),
        );
        pages.extend((0..3).map(|number| page(&format!("/d/p100/{number}/"), &format!("C{number}"), None)));
        pages.push(page("/d/p101/a/b/", "B", None));
        let sections = sections(&pages);
        let entries = sections[0].entries("/d/p100/1/");
        assert_eq!(
            entries.len(),
            1 + 2 * MAX_NEIGHBORS + 1,
            "the opening page, the current one, its neighbors"
        );
        let open: Vec<_> = entries.iter().filter(|entry| !entry.children.is_empty()).collect();
        assert_eq!(open.len(), 1);
        assert_eq!((&*open[0].title, open[0].children.len(), open[0].is_open), ("P100", 3, true));
        assert_eq!(sections[0].entries("/d/")[1].title, "P000");
        let within = sections[0].entries("/d/p101/");
        let folder = &within.iter().find(|entry| entry.is_current).expect("the current page").children[0];
        assert_eq!((&*folder.title, folder.path.as_deref()), ("A", Some("/d/p101/a/b/")));
    }
}
