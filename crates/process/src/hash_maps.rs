//! Hash maps and sets for the names, paths and links of the operator's files.
//!
//! Their hash function is several times as fast as that of the standard library, but does not resist keys
//! that an attacker chooses. Visitors choose only which paths are looked up, not which are stored.

use foldhash::fast::RandomState;

/// A map without protection against keys that an attacker chooses.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;
/// A set without protection against keys that an attacker chooses.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;
