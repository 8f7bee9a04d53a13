//! Planted faults of the group links.
