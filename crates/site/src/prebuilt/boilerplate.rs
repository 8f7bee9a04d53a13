//! Finds blocks of links that the pages of a build share, such as menus.

use std::collections::{HashMap, HashSet};

use super::conversion::Facts;

/// A block of links is boilerplate if at least this percentage of the pages in a language, and at least
/// [`MIN_REPETITIONS`] pages, have it at the same distance from the start or from the end.
const BOILERPLATE_PERCENT: usize = 90;
const MIN_REPETITIONS: usize = 5;

/// The hashes of blocks of links that nearly all pages of a language share, see [`Facts::link_blocks`]. Pages
/// that state no language count as one language. Pages without blocks of links that have no title or are not
/// listed, such as redirects, do not count.
pub(super) fn find_boilerplate<'a>(pages: impl Iterator<Item = &'a Facts>) -> HashSet<u64> {
    let mut languages: HashMap<Option<&str>, (usize, HashMap<u64, usize>)> = HashMap::new();
    let is_bare = |page: &&Facts| {
        page.link_blocks.is_empty() && (page.metadata.is_unlisted || page.declared_title.is_none())
    };
    for page in pages.filter(|page| !is_bare(page)) {
        let (number, counts) = languages.entry(page.metadata.language.as_deref()).or_default();
        *number += 1;
        let distinct: HashSet<u64> = page.link_blocks.iter().flatten().copied().collect();
        for hash in distinct {
            *counts.entry(hash).or_default() += 1;
        }
    }
    let repeated = languages.into_values().flat_map(|(number, counts)| {
        let needed = (number * BOILERPLATE_PERCENT).div_ceil(100).max(MIN_REPETITIONS);
        counts.into_iter().filter(move |(_, count)| *count >= needed)
    });
    repeated.map(|(hash, _)| hash).collect()
}
