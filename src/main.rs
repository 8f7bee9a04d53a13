//! Parse, run, print the error, exit.

use std::process::ExitCode;

fn main() -> ExitCode {
    frontdesk::cli::main()
}
