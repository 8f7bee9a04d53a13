//! Parse, run, print the error, exit.

use std::process::ExitCode;

/// Gives memory back that is free, which loading a site leaves a lot of; `.cargo/config.toml` says how soon. (The system's
/// allocator keeps most of it: after twenty reloads of the example site it held ten times what was in use.)
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    frontdesk::cli::main()
}
