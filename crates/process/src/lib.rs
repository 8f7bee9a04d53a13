//! The process as a whole: contains panics, counts long work, writes files, and configures the allocator.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod allocator;
pub mod output_file;
pub mod panics;
pub mod progress;
pub mod progress_bar;
pub mod spill;
