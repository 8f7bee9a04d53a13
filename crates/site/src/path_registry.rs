//! Records the owner of each path on the site, and reports paths with two owners.

use super::link_resolution::{LinkTarget, percent_decoded};
use super::path;
use crate::fault::Fault;
use frontdesk_process::hash_maps::{HashMap, HashSet};
use frontdesk_publish::Exclusion;

/// The owners of paths, and the other valid targets of links.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PathRegistry {
    /// Maps each decoded path to its owner: the name of a source file, or a description of an owner without a
    /// file. `None` means a generated resource or an endpoint: a file in `static/` or of a build may take its
    /// path.
    pub owners: HashMap<String, Option<String>>,
    /// Valid link targets without an owner. Any owner may claim them.
    secondary: HashSet<String>,
    /// Paths whose pages were removed for good. Links to them are broken.
    pub gone: HashSet<String>,
    /// The files that are not published. Links to them are broken.
    pub exclusions: Vec<Exclusion>,
}

impl PathRegistry {
    /// Registers the path of a generated resource or an endpoint. Replaces an owner, so call this before
    /// owners claim their paths.
    pub fn reserve(&mut self, path: &str) {
        self.owners.insert(path.to_owned(), None);
    }

    /// Registers the path of a file from `static/`, or of a file or page of a build. Unlike [`Self::claim`],
    /// it may take the path of a generated resource or an endpoint.
    pub fn claim_static(&mut self, path: &str, place: &str, faults: &mut Vec<Fault>) {
        if self.owners.get(path) == Some(&None) {
            self.owners.remove(path);
        }
        self.claim(path, place, None, faults);
    }

    /// Registers a path for an owner. If the path already has an owner, keeps it, reports a fault and returns
    /// `false`.
    pub fn claim(&mut self, path: &str, place: &str, line: Option<usize>, faults: &mut Vec<Fault>) -> bool {
        self.claim_or_hint(path, place, line, "rename the file or its folder", faults)
    }

    /// Like [`Self::claim`], for a path that depends on the front matter. `hint` says how to change the path.
    pub fn claim_or_hint(
        &mut self,
        path: &str,
        place: &str,
        line: Option<usize>,
        hint: &str,
        faults: &mut Vec<Fault>,
    ) -> bool {
        if let Some(owner) = self.owners.get(path) {
            let owner = owner.as_deref().unwrap_or("a built-in resource");
            let fault = Fault::error(place, line, format!("the path `{path}` is taken by {owner}"));
            faults.push(fault.hint(hint));
            return false;
        }
        self.owners.insert(path.to_owned(), Some(place.to_owned()));
        true
    }

    /// Registers a path without an owner, so that links to it are valid.
    pub fn add_secondary(&mut self, path: String) {
        self.secondary.insert(path);
    }

    pub fn mark_as_gone(&mut self, path: &str) {
        self.gone.insert(path.to_owned());
    }

    /// The owner of a decoded path, which must match exactly: the name of the file that claimed it for a
    /// file, a page or a redirect, or a description. `None` for generated resources, endpoints, secondary
    /// paths and paths that are not in use.
    pub fn owner(&self, path: &str) -> Option<&str> {
        self.owners.get(path)?.as_deref()
    }

    /// The exclusion of the file to which a link leads: found by the path, or, if the link is relative, by
    /// the file's position relative to the source file `place`, which contains the link.
    pub fn find_exclusion(&self, place: &str, target: &LinkTarget) -> Option<&Exclusion> {
        let written = target.written.as_deref().filter(|written| !written.starts_with(['/', '@']));
        let beside = written.map(|written| {
            let raw = percent_decoded(&written[..written.find(['?', '#']).unwrap_or(written.len())]);
            path::resolve_relative(&format!("/{place}"), &raw)
        });
        let name = beside.as_deref().map(|name| name.trim_start_matches('/'));
        self.exclusions.iter().find(|known| known.covers(&target.path, name))
    }

    /// Whether a path, as it is written or in the other normalization form of Unicode, is registered: by an
    /// owner, for a generated resource or an endpoint, or as a secondary path.
    pub fn has_path(&self, path: &str) -> bool {
        let is_known = |path: &str| self.owners.contains_key(path) || self.secondary.contains(path);
        is_known(path) || path::other_form(path).is_some_and(|form| is_known(&form))
    }
}
