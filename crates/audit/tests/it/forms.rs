//! Planted faults of the group forms.
