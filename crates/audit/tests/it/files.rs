//! Planted faults of the group files.
