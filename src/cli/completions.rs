//! `frontdesk completions SHELL`, and the manual pages for a release.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Command;
use clap_complete::{Shell, generate};

/// Prints the script to standard output.
pub(super) fn run(command: &mut Command, shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    generate(shell, command, "frontdesk", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `frontdesk.1`, `frontdesk-serve.1` and so on.
pub(super) fn manual(command: Command, folder: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
