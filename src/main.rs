//! The `frontdesk` binary: runs the command-line interface.

use std::process::ExitCode;

fn main() -> ExitCode {
    frontdesk::cli::main()
}
