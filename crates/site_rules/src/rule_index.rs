//! A trie of path patterns: finds the patterns that may match a path, without trying all of them.
//!
//! Each edge is a segment, and patterns with the same first segments share nodes. A lookup visits only the
//! nodes whose segments match those of the path, so its work does not grow with the number of other patterns.

use frontdesk_process::hash_maps::HashMap;

/// A trie of path patterns. A pattern is identified by its position in the list given to [`Self::new`].
#[derive(Debug, Clone, Default)]
pub(super) struct RuleIndex {
    /// The nodes, with the root first. Empty in a default index, which finds nothing.
    nodes: Vec<PatternNode>,
}

#[derive(Debug, Clone, Default)]
struct PatternNode {
    /// The child node for each literal segment that may come next.
    literals: HashMap<String, usize>,
    /// The child node for a segment with placeholders.
    placeholder: Option<usize>,
    /// The patterns that end at this node.
    complete: Vec<usize>,
    /// The patterns with a `*` in the segment that follows this node.
    prefixes: Vec<usize>,
}

impl RuleIndex {
    /// Creates the index of patterns, given as their segments up to the one with a `*`, and whether there is
    /// a `*`. A segment with placeholders is `None`.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = (Vec<Option<&'a str>>, bool)>) -> Self {
        let mut index = Self { nodes: vec![PatternNode::default()] };
        for (position, (segments, has_wildcard)) in patterns.enumerate() {
            let node = segments.into_iter().fold(0, |node, segment| index.child(node, segment));
            let node = &mut index.nodes[node];
            let list = if has_wildcard { &mut node.prefixes } else { &mut node.complete };
            list.push(position);
        }
        index
    }

    /// The child of a node for a segment of a pattern; `None` is one with placeholders. Creates the child if
    /// it does not exist.
    fn child(&mut self, node: usize, segment: Option<&str>) -> usize {
        let new = self.nodes.len();
        let node = &mut self.nodes[node];
        let child = match segment {
            None => *node.placeholder.get_or_insert(new),
            Some(text) => *node.literals.entry(text.to_owned()).or_insert(new),
        };
        if child == new {
            self.nodes.push(PatternNode::default());
        }
        child
    }

    /// The positions of all patterns that match `path`, and of some that do not, in ascending order. Ignores
    /// final slashes.
    pub(super) fn candidates(&self, path: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut open = vec![(0, segments(path))];
        while let Some((node, mut rest)) = open.pop() {
            let Some(node) = self.nodes.get(node) else { continue };
            found.extend(&node.prefixes);
            let Some(segment) = rest.next() else {
                found.extend(&node.complete);
                continue;
            };
            let literal = node.literals.get(segment).copied();
            open.extend(literal.into_iter().chain(node.placeholder).map(|child| (child, rest.clone())));
        }
        found.sort_unstable();
        found
    }
}

/// The segments of a path. `/` has none.
fn segments(path: &str) -> impl Iterator<Item = &str> + Clone {
    let path = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
    path.split('/').filter(|_| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The segments of a pattern up to the one with a `*`.
    fn split(pattern: &str) -> (Vec<Option<&str>>, bool) {
        let start = pattern.split_once('*').map(|(start, _)| start);
        let whole = start.map_or(pattern, |start| start.rsplit_once('/').map_or("", |(whole, _)| whole));
        let literal = |segment| Some(segment).filter(|segment: &&str| !segment.starts_with(':'));
        (segments(whole).map(literal).collect(), start.is_some())
    }

    #[test]
    fn patterns_are_found_by_their_segments() {
        let patterns = ["/a", "/a/", "/a/*", "/:x", "/a/:y/b", "/*", "/a*", "/b/:x/*", "/", "/:x/*c"];
        let index = RuleIndex::new(patterns.into_iter().map(split));
        for (path, expected) in [
            ("/", &["/*", "/a*", "/"][..]),
            ("/a", &["/a", "/a/", "/a/*", "/:x", "/*", "/a*", "/:x/*c"]),
            ("/a/", &["/a", "/a/", "/a/*", "/:x", "/*", "/a*", "/:x/*c"]),
            ("/a/z/b", &["/a/*", "/a/:y/b", "/*", "/a*", "/:x/*c"]),
            ("/b/z", &["/*", "/a*", "/b/:x/*", "/:x/*c"]),
            ("/c/d", &["/*", "/a*", "/:x/*c"]),
        ] {
            let found: Vec<&str> = index.candidates(path).into_iter().map(|at| patterns[at]).collect();
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(RuleIndex::default().candidates("/a"), [0; 0]);
    }

    #[test]
    fn a_path_meets_few_of_many_patterns() {
        let patterns: Vec<String> = (0..2000)
            .flat_map(|i| [format!("/:a/x{i}"), format!("/y{i}/:b/"), format!("/z/:c/:d/w{i}/")])
            .collect();
        let index = RuleIndex::new(patterns.iter().map(|pattern| (split(pattern).0, pattern.ends_with('/'))));
        for path in
            ["/z/x", "/y7/q", "/z/1/2/w1999", &format!("/{}", "v/".repeat(7_500)), &"/v".repeat(15_000)]
        {
            assert!(index.candidates(path).len() < 10, "{path}");
        }
    }
}
