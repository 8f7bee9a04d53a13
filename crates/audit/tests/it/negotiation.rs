//! Planted faults of the group negotiation.
