//! Hash maps and sets for the names, paths and links of the operator's files.
//!
//! Their hash function is several times as fast as that of the standard library, but does not resist keys
//! that an attacker chooses. Visitors choose only which paths are looked up, not which are stored.

use foldhash::fast::RandomState;

pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;
