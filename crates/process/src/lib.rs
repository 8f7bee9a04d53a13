//! The process as a whole: contains panics, counts long work, writes files, configures the allocator, lowers
//! the priority of threads, measures free disk space, keeps large bodies on disk, signals other processes,
//! and shortens the log of lasting failures.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

pub mod allocator;
pub mod cache_files;
pub mod disk_space;
pub mod failure_log;
pub mod file_signal;
pub mod hash_maps;
pub mod memo;
pub mod output_file;
pub mod page_spill;
pub mod panics;
pub mod parallel;
pub mod priority;
pub mod progress;
pub mod progress_bar;
pub mod spill;
