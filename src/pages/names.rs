//! Every path of the site and whose it is, so that nothing displaces anything else in silence, and every link can be checked.

use std::collections::{HashMap, HashSet};

use super::in_parallel;
use super::link::Target;
use crate::fault::{Fault, closest};

/// Who has a path.
#[derive(Debug, Clone)]
struct Owner {
    /// The file, or what it is where there is none.
    place: String,
    /// A generated resource, which a file in `static/` may replace.
    gives_way: bool,
}

/// Decoded paths with their owners.
#[derive(Debug, Default)]
pub(super) struct Names {
    owners: HashMap<String, Owner>,
    /// Paths that lead somewhere, but that nobody would miss.
    aside: HashSet<String>,
}

impl Names {
    /// A path that a generated resource has unless the operator's own file does.
    pub fn reserve(&mut self, path: &str) {
        let owner = Owner { place: "a resource of the site".to_owned(), gives_way: true };
        self.owners.insert(path.to_owned(), owner);
    }

    /// A file that is served as it is. Only these replace generated resources.
    pub fn file(&mut self, path: &str, place: &str, faults: &mut Vec<Fault>) {
        if self.owners.get(path).is_some_and(|owner| owner.gives_way) {
            self.owners.remove(path);
        }
        self.claim(path, place, None, faults);
    }

    /// A path that must be its owner's alone; whether it is.
    pub fn claim(&mut self, path: &str, place: &str, line: Option<usize>, faults: &mut Vec<Fault>) -> bool {
        if let Some(owner) = self.owners.get(path) {
            let message = format!("the path `{path}` is taken by {}", owner.place);
            faults.push(
                Fault::error(place, line, message)
                    .hint("give one of them another name; a page has `slug` for that"),
            );
            return false;
        }
        let owner = Owner { place: place.to_owned(), gives_way: false };
        self.owners.insert(path.to_owned(), owner);
        true
    }

    /// Another name, which gives way to everything.
    pub fn aside(&mut self, path: String) {
        self.aside.insert(path);
    }

    fn has(&self, path: &str) -> bool {
        self.owners.contains_key(path) || self.aside.contains(path)
    }
}

/// A link of a page, of its front matter or of the configuration.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub place: &'a str,
    pub line: Option<usize>,
    pub target: &'a Target,
}

/// Comparing with all paths takes its time, and whoever has more broken links than this has another trouble than typing.
const MOST_SUGGESTIONS: usize = 100;

/// A warning for each link that leads nowhere. `anchors` has those of each page by its path.
pub(super) fn check_links(
    found: &[Found<'_>],
    names: &Names,
    anchors: &HashMap<&str, &HashSet<Box<str>>>,
) -> Vec<Fault> {
    let chunks: Vec<&[Found<'_>]> = found.chunks(1_000).collect();
    let broken = in_parallel(&chunks, |links| {
        let broken = links.iter().filter_map(|link| Some((link, trouble(link.target, names, anchors)?)));
        broken.collect::<Vec<_>>()
    });
    let mut paths: Option<Vec<&str>> = None;
    let mut suggested: HashMap<&str, Option<&str>> = HashMap::new();
    let mut faults = Vec::new();
    for (Found { place, line, target }, trouble) in broken.into_iter().flatten() {
        let path = target.path.as_str();
        match trouble {
            Trouble::Nowhere => {
                let enough = suggested.len() >= MOST_SUGGESTIONS;
                let suggestion = *suggested.entry(path).or_insert_with(|| {
                    // Of two that are as close the first is suggested.
                    let paths = paths.get_or_insert_with(|| {
                        let mut paths: Vec<&str> = names.owners.keys().map(String::as_str).collect();
                        paths.sort_unstable();
                        paths
                    });
                    closest(path, paths.iter().copied().filter(|_| !enough))
                });
                let fault = Fault::warning(*place, *line, format!("the link to `{path}` leads nowhere"));
                faults.push(hinted(fault, suggestion, ""));
            }
            Trouble::NoAnchor(fragment, anchors) => {
                let message = format!("there is no anchor `#{fragment}` on `{path}`");
                let mut anchors: Vec<&str> = anchors.iter().map(AsRef::as_ref).collect();
                anchors.sort_unstable();
                faults.push(hinted(Fault::warning(*place, *line, message), closest(fragment, anchors), "#"));
            }
        }
    }
    faults
}

/// What is wrong with a link.
enum Trouble<'a> {
    Nowhere,
    /// The anchor, and those that there are.
    NoAnchor(&'a str, &'a HashSet<Box<str>>),
}

fn trouble<'a>(
    target: &'a Target,
    names: &Names,
    anchors: &HashMap<&str, &'a HashSet<Box<str>>>,
) -> Option<Trouble<'a>> {
    let path = target.path.as_str();
    let there = anchors.get(path);
    if there.is_none() && !names.has(path) {
        return Some(Trouble::Nowhere);
    }
    // What follows `:~:` names a passage of text, and the top of a page is always there.
    let fragment = target.fragment.as_deref()?;
    let passage = fragment.find(':').and_then(|_| fragment.find(":~:"));
    let fragment = &fragment[..passage.unwrap_or(fragment.len())];
    if fragment.is_empty() || fragment.eq_ignore_ascii_case("top") {
        return None;
    }
    let with_slash = || anchors.get(format!("{}/", path.trim_end_matches('/')).as_str());
    let anchors = there.or_else(with_slash)?;
    (!anchors.contains(fragment)).then_some(Trouble::NoAnchor(fragment, anchors))
}

fn hinted(fault: Fault, suggestion: Option<&str>, sign: &str) -> Fault {
    match suggestion {
        Some(known) => fault.hint(format!("did you mean `{sign}{known}`?")),
        None => fault,
    }
}
