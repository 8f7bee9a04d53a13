//! Every path of the site and whose it is, so that nothing displaces anything else in silence, and every link can be checked.

use std::collections::{BTreeMap, HashMap, HashSet};

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
    owners: BTreeMap<String, Owner>,
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
pub(super) struct Found {
    pub place: String,
    pub line: Option<usize>,
    pub target: Target,
}

/// Comparing with all paths takes its time, and whoever has more broken links than this has another trouble than typing.
const MOST_SUGGESTIONS: usize = 100;

/// A warning for each link that leads nowhere. `anchors` has those of each page by its path.
pub(super) fn check_links(
    found: &[Found],
    names: &Names,
    anchors: &HashMap<String, HashSet<String>>,
) -> Vec<Fault> {
    let mut suggested: HashMap<&str, Option<&str>> = HashMap::new();
    let mut faults = Vec::new();
    for Found { place, line, target } in found {
        let path = target.path.as_str();
        if !names.has(path) {
            let enough = suggested.len() >= MOST_SUGGESTIONS;
            let suggestion = *suggested.entry(path).or_insert_with(|| {
                closest(path, names.owners.keys().map(String::as_str).filter(|_| !enough))
            });
            faults.push(hinted(
                Fault::warning(place, *line, format!("the link to `{path}` leads nowhere")),
                suggestion,
                "",
            ));
            continue;
        }
        let Some(fragment) = &target.fragment else { continue };
        // What follows `:~:` names a passage of text, and the top of a page is always there.
        let fragment = fragment.split(":~:").next().unwrap_or_default();
        if fragment.is_empty() || fragment.eq_ignore_ascii_case("top") {
            continue;
        }
        let with_slash = format!("{}/", path.trim_end_matches('/'));
        let Some(anchors) = anchors.get(path).or_else(|| anchors.get(&with_slash)) else { continue };
        if !anchors.contains(fragment) {
            let fault = Fault::warning(place, *line, format!("there is no anchor `#{fragment}` on `{path}`"));
            faults.push(hinted(fault, closest(fragment, anchors.iter().map(String::as_str)), "#"));
        }
    }
    faults
}

fn hinted(fault: Fault, suggestion: Option<&str>, sign: &str) -> Fault {
    match suggestion {
        Some(known) => fault.hint(format!("did you mean `{sign}{known}`?")),
        None => fault,
    }
}
