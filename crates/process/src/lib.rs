//! The process as a whole: contains panics, and configures the allocator.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod allocator;
pub mod panics;
