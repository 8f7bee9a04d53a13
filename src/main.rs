//! Runs the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    frontdesk::cli::main()
}
