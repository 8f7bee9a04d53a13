//! Planted faults of the group parity.
