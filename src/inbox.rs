//! Where submissions are kept and worked on.
