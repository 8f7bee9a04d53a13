//! `frontdesk config`: the effective settings and where each comes from.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::site;
use crate::config::Flag;

/// Prints one setting a line.
pub(super) fn run(folder: &Path, flags: &[Flag], json: bool) -> anyhow::Result<ExitCode> {
    let config = site::configuration(folder, flags)?;
    let mut stdout = io::stdout().lock();
    let width = config.settings.iter().map(|setting| setting.key.len() + setting.value.chars().count()).max();
    let width = width.unwrap_or_default().min(72);
    for setting in &config.settings {
        let (key, value, origin) = (&setting.key, &setting.value, setting.origin.to_string());
        if json {
            writeln!(stdout, "{}", json!({ "key": key, "value": value, "origin": origin }))?;
        } else {
            writeln!(stdout, "{:<width$}  # {origin}", format!("{key} = {value}"), width = width + 3)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
