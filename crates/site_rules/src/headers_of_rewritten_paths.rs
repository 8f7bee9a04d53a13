//! The headers of paths that a rule rewrites to another page or file. Header rules apply to the path of the
//! request, so the same page can have different headers at different paths.

use http::{HeaderName, HeaderValue};

use super::{HeaderRule, RuleList, headers_for};
use frontdesk_process::hash_maps::HashMap;

type Headers = Vec<(HeaderName, HeaderValue)>;

/// The entries to which rewrites lead, with variants for the header rules that match rewritten paths. `E` is
/// the type of entries.
#[derive(Debug, Clone)]
pub struct RewriteHeaders<E> {
    pub rules: RuleList<HeaderRule>,
    /// The variants of each rewrite target, by decoded path. Each variant has the headers that rules set.
    targets: HashMap<Box<str>, Vec<(Headers, E)>>,
}

impl<E> Default for RewriteHeaders<E> {
    fn default() -> Self {
        Self::new(RuleList::default())
    }
}

impl<E> RewriteHeaders<E> {
    pub fn new(rules: RuleList<HeaderRule>) -> Self {
        Self { rules, targets: HashMap::default() }
    }

    /// Adds the variant of the entry at `target` with the headers of `path`, unless there is one. The first
    /// call for a `target` also adds the variant with its own headers. `entry` creates the entry with the
    /// headers of a path.
    pub fn add(&mut self, target: &str, path: &str, entry: impl Fn(&str) -> E) {
        let variants = self.targets.entry(target.into()).or_insert_with(|| {
            let own = headers_for(&self.rules, target);
            vec![(own, entry(target))]
        });
        let headers = headers_for(&self.rules, path);
        if !variants.iter().any(|(known, _)| *known == headers) {
            variants.push((headers, entry(path)));
        }
    }

    /// The variant of the entry at `target` for a request for `path`. If none has exactly the headers of that
    /// path, the variant with the most of them that has no others. `None` if each has others, or if `target`
    /// has no variants.
    pub fn find(&self, target: &str, path: &str) -> Option<&E> {
        let variants = self.targets.get(target)?;
        let wanted = headers_for(&self.rules, path);
        let fitting =
            variants.iter().filter(|(headers, _)| headers.iter().all(|header| wanted.contains(header)));
        fitting.max_by_key(|(headers, _)| headers.len()).map(|(_, entry)| entry)
    }

    pub fn entries(&self) -> impl Iterator<Item = &E> {
        self.targets.values().flatten().map(|(_, entry)| entry)
    }

    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.targets.values_mut().flatten().map(|(_, entry)| entry)
    }

    /// Pairs each variant with the one of `earlier` that has the same target and headers. Skips those without
    /// one.
    pub fn pairs_with<'a>(&'a mut self, earlier: &'a Self) -> impl Iterator<Item = (&'a mut E, &'a E)> {
        let all = self
            .targets
            .iter_mut()
            .flat_map(|(target, variants)| variants.iter_mut().map(move |variant| (target, variant)));
        all.filter_map(|(target, (headers, entry))| {
            let (_, old) = earlier.targets.get(target)?.iter().find(|(known, _)| known == headers)?;
            Some((entry, old))
        })
    }
}
