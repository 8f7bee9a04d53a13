//! Records the owner of each path on the site. Reports paths with two owners, and broken links.

use std::collections::{HashMap, HashSet};

use super::link::LinkTarget;
use super::parallel::in_parallel;
use crate::fault::{Fault, closest};

#[derive(Debug, Default)]
pub(super) struct PathRegistry {
    /// Maps each decoded path to its owner: the name of a source file, or a description of an owner without a
    /// file. `None` means a generated resource, which a file in `static/` may replace.
    owners: HashMap<String, Option<String>>,
    /// Valid link targets without an owner. Any owner may claim them.
    secondary: HashSet<String>,
    /// Paths whose pages were removed for good. Links to them are broken.
    gone: HashSet<String>,
}

impl PathRegistry {
    /// Registers the path of a generated resource or an endpoint.
    pub fn reserve(&mut self, path: &str) {
        self.owners.insert(path.to_owned(), None);
    }

    /// Registers a file from `static/`, or a file or page of a build. It may replace a generated resource.
    pub fn claim_static(&mut self, path: &str, place: &str, faults: &mut Vec<Fault>) {
        if self.owners.get(path) == Some(&None) {
            self.owners.remove(path);
        }
        self.claim(path, place, None, faults);
    }

    /// Registers a path for an owner. If the path already has an owner, reports a fault and returns `false`.
    pub fn claim(&mut self, path: &str, place: &str, line: Option<usize>, faults: &mut Vec<Fault>) -> bool {
        if let Some(owner) = self.owners.get(path) {
            let owner = owner.as_deref().unwrap_or("a built-in resource");
            let fault = Fault::error(place, line, format!("the path `{path}` is taken by {owner}"));
            faults.push(fault.hint("give one of them another name; for a page, set `slug`"));
            return false;
        }
        self.owners.insert(path.to_owned(), Some(place.to_owned()));
        true
    }

    pub fn add_secondary(&mut self, path: String) {
        self.secondary.insert(path);
    }

    pub fn mark_as_gone(&mut self, path: &str) {
        self.gone.insert(path.to_owned());
    }

    /// The owner of a path. `None` for generated resources, secondary paths and paths that are not in use.
    pub fn owner(&self, path: &str) -> Option<&str> {
        self.owners.get(path)?.as_deref()
    }

    /// Whether a path has an owner or is a secondary path.
    pub fn has_path(&self, path: &str) -> bool {
        self.owners.contains_key(path) || self.secondary.contains(path)
    }
}

/// A link in a page, its front matter or the configuration.
#[derive(Debug)]
pub(super) struct LinkUse<'a> {
    pub place: &'a str,
    pub line: Option<usize>,
    pub target: &'a LinkTarget,
}

/// Maximum number of missing paths for which similar paths are suggested. Each suggestion requires a
/// comparison with every path, and if more links than this are broken, typos are unlikely to be the cause.
const MOST_SUGGESTIONS: usize = 100;

/// Returns a warning for each link to a missing path or anchor. `anchors` maps the path of each page to the
/// ids on the page.
pub(super) fn check_links(
    found: &[LinkUse<'_>],
    names: &PathRegistry,
    anchors: &HashMap<&str, &HashSet<Box<str>>>,
) -> Vec<Fault> {
    let chunks: Vec<&[LinkUse<'_>]> = found.chunks(1_000).collect();
    let broken = in_parallel(&chunks, |links| {
        let broken = links.iter().filter_map(|link| Some((link, check_link(link.target, names, anchors)?)));
        broken.collect::<Vec<_>>()
    });
    let mut paths: Option<Vec<&str>> = None;
    let mut suggested: HashMap<&str, Option<&str>> = HashMap::new();
    let mut faults = Vec::new();
    for (LinkUse { place, line, target }, problem) in broken.into_iter().flatten() {
        let path = target.path.as_str();
        match problem {
            BrokenLink::MissingPath => {
                let enough = suggested.len() >= MOST_SUGGESTIONS;
                let suggestion = *suggested.entry(path).or_insert_with(|| {
                    // `closest` returns the first of several equally similar paths, so sort them to make the
                    // suggestion deterministic.
                    let paths = paths.get_or_insert_with(|| {
                        let owned = names.owners.keys().filter(|path| !names.gone.contains(*path));
                        let mut paths: Vec<&str> = owned.map(String::as_str).collect();
                        paths.sort_unstable();
                        paths
                    });
                    closest(path, paths.iter().copied().filter(|_| !enough))
                });
                let fault = Fault::warning(*place, *line, format!("the link to `{path}` is broken"));
                faults.push(with_suggestion(fault, suggestion, ""));
            }
            BrokenLink::MissingAnchor(fragment, anchors) => {
                let message = format!("there is no anchor `#{fragment}` on `{path}`");
                let mut anchors: Vec<&str> = anchors.iter().map(AsRef::as_ref).collect();
                anchors.sort_unstable();
                let fault = Fault::warning(*place, *line, message);
                faults.push(with_suggestion(fault, closest(fragment, anchors), "#"));
            }
        }
    }
    faults
}

enum BrokenLink<'a> {
    MissingPath,
    /// The missing anchor, and the page's anchors.
    MissingAnchor(&'a str, &'a HashSet<Box<str>>),
}

/// The reason a link is broken; `None` if its path and anchor exist.
fn check_link<'a>(
    target: &'a LinkTarget,
    names: &PathRegistry,
    anchors: &HashMap<&str, &'a HashSet<Box<str>>>,
) -> Option<BrokenLink<'a>> {
    let path = target.path.as_str();
    let there = anchors.get(path);
    if there.is_none() && (!names.has_path(path) || names.gone.contains(path)) {
        return Some(BrokenLink::MissingPath);
    }
    // Ignore a text directive, which begins with `:~:` (URL Fragment Text Directives). `#top` is valid
    // without a matching id (HTML).
    let fragment = target.fragment.as_deref()?;
    let passage = fragment.find(':').and_then(|_| fragment.find(":~:"));
    let fragment = &fragment[..passage.unwrap_or(fragment.len())];
    if fragment.is_empty() || fragment.eq_ignore_ascii_case("top") {
        return None;
    }
    let with_slash = || anchors.get(format!("{}/", path.trim_end_matches('/')).as_str());
    let anchors = there.or_else(with_slash)?;
    (!anchors.contains(fragment)).then_some(BrokenLink::MissingAnchor(fragment, anchors))
}

fn with_suggestion(fault: Fault, suggestion: Option<&str>, prefix: &str) -> Fault {
    match suggestion {
        Some(known) => fault.hint(format!("did you mean `{prefix}{known}`?")),
        None => fault,
    }
}
