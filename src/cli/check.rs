//! `frontdesk check` and `frontdesk config`: print a site's faults and its effective settings.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::output::{GOOD, count_faults, exit_code, print_faults};
use super::site;
use crate::config::{Config, Flag};
use crate::pages::{LoadCache, Site};

/// Maximum width of the column of `key = value`. A longer setting moves its origin to the right.
const MAX_ALIGNED: usize = 72;

/// Prints every fault in a site as `file:line: message`, or as JSON. Returns failure if there are any.
pub(super) fn run(folder: &Path, json: bool) -> anyhow::Result<ExitCode> {
    // Invalid values are replaced with defaults, so that faults in the site are found as well.
    let (config, mut faults) = Config::load(folder, site::environment(), &[], None);
    let config = config.with_base_url(None);
    faults.append(&mut config.certificate_faults());
    faults.append(&mut config.exposed_secrets());
    let (site, mut found) = site::load_site(folder, &config, &mut LoadCache::default());
    faults.append(&mut found);
    faults.append(&mut config.memory_faults(site.as_ref().map_or(0, Site::size)));
    let pages = site.map_or(0, |site| site.page_count);
    if json {
        let mut stdout = io::stdout().lock();
        for fault in &faults {
            writeln!(stdout, "{}", serde_json::to_string(fault)?)?;
        }
    } else {
        print_faults(&faults);
    }
    let mut stderr = anstream::stderr().lock();
    let _ = match faults[..] {
        [] => writeln!(stderr, "{GOOD}fine:{GOOD:#} {pages} pages, nothing to fix"),
        _ => writeln!(stderr, "{}", count_faults(&faults)),
    };
    Ok(exit_code(faults.is_empty()))
}

/// Prints each effective setting on its own line, with its origin.
pub(super) fn show_settings(folder: &Path, flags: &[Flag], json: bool) -> anyhow::Result<ExitCode> {
    let (config, warnings) = site::read_configuration(folder, flags)?;
    print_faults(&warnings);
    let mut stdout = io::stdout().lock();
    let width =
        config.settings.iter().map(|setting| setting.key.name.len() + setting.value.chars().count()).max();
    let width = width.unwrap_or_default().min(MAX_ALIGNED);
    for setting in &config.settings {
        let (key, value, origin) = (&setting.key.name, &setting.value, setting.origin.to_string());
        if json {
            writeln!(stdout, "{}", json!({ "key": key, "value": value, "origin": origin }))?;
        } else {
            writeln!(stdout, "{:<width$}  # {origin}", format!("{key} = {value}"), width = width + 3)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
