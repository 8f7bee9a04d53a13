//! What the commands have in common: loading the configuration and the site, and telling what is wrong with them.

use std::io::Write as _;
use std::path::Path;

use anyhow::bail;

use super::style;
use crate::config::{Config, Flag};
use crate::fault::{Fault, Severity};
use crate::pages::{Previous, Site};
use crate::resources;

/// The configuration; an error in it is printed and ends the command.
pub(super) fn configuration(folder: &Path, flags: &[Flag]) -> anyhow::Result<Config> {
    let (config, warnings) = examine(folder, flags)?;
    print(&warnings);
    Ok(config)
}

/// The same with the warnings that are still to be told.
pub(super) fn examine(folder: &Path, flags: &[Flag]) -> anyhow::Result<(Config, Vec<Fault>)> {
    let (config, faults) = Config::load(folder, environment(), flags);
    // Elsewhere a warning about the site can wait, but a variable that nobody reads will have been meant to be read.
    let failed = faults.iter().any(|fault| fault.severity == Severity::Error);
    let of_now = |fault: &&Fault| {
        if failed { fault.severity == Severity::Error } else { fault.place != crate::config::FILE_NAME }
    };
    let said: Vec<Fault> = faults.iter().filter(of_now).cloned().collect();
    if failed {
        print(&said);
        bail!("the configuration cannot be used ({})", count(&faults));
    }
    Ok((config, said))
}

/// The environment, as far as it is text: the rest is nobody's setting.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The whole site with its resources, and every fault; no site if one of them is an error.
pub(super) fn load(folder: &Path, config: &Config) -> (Option<Site>, Vec<Fault>) {
    load_again(folder, config, &mut Previous::default())
}

/// The same, made from what earlier loads have found out as far as that is still right.
pub(super) fn load_again(
    folder: &Path,
    config: &Config,
    previous: &mut Previous,
) -> (Option<Site>, Vec<Fault>) {
    let forms = resources::page_forms(&config.pages.base_url);
    let loaded = previous.load(folder, &config.pages, &forms);
    let site = loaded.site.map(|mut site| {
        resources::add(&mut site, &config.resources);
        site
    });
    (site, loaded.faults)
}

/// Prints faults to standard error, one below the other. Who does not listen misses them; nothing else depends on it.
pub(super) fn print(faults: &[Fault]) {
    let mut stderr = anstream::stderr().lock();
    for fault in faults {
        let (word, style) = match fault.severity {
            Severity::Error => ("error", style::ERROR),
            Severity::Warning => ("warning", style::WARNING),
        };
        let _ = writeln!(stderr, "{style}{word}:{} {fault}", style.render_reset());
    }
}

/// `2 errors, 1 warning`
pub(super) fn count(faults: &[Fault]) -> String {
    let of = |severity| faults.iter().filter(|fault| fault.severity == severity).count();
    let words = |number, word| match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    };
    match (of(Severity::Error), of(Severity::Warning)) {
        (0, warnings) => words(warnings, "warning"),
        (errors, 0) => words(errors, "error"),
        (errors, warnings) => format!("{}, {}", words(errors, "error"), words(warnings, "warning")),
    }
}
