//! Planted faults of the group basics.
