//! What the commands have in common: loading the configuration and the site, and telling what is wrong with them.

use std::io::Write as _;
use std::path::Path;

use anyhow::bail;

use super::style;
use crate::config::{Config, Flag};
use crate::fault::{Fault, Severity};
use crate::pages::{self, Site};
use crate::resources;

/// The configuration; faults are printed, and an error among them ends the command.
pub(super) fn configuration(folder: &Path, flags: &[Flag]) -> anyhow::Result<Config> {
    let mut faults = Vec::new();
    let config = Config::load(folder, std::env::vars(), flags, &mut faults);
    let Some(config) = config else {
        print(&faults)?;
        bail!("the configuration cannot be used ({})", count(&faults));
    };
    Ok(config)
}

/// The whole site with its resources, and every fault; no site if one of them is an error.
pub(super) fn load(folder: &Path, config: &Config) -> (Option<Site>, Vec<Fault>) {
    let forms = resources::page_forms(&config.pages.base_url);
    let loaded = pages::load(folder, &config.pages, &forms);
    let mut faults = loaded.faults;
    let site = loaded.site.map(|mut site| {
        resources::add(&mut site, &config.resources);
        faults.extend(loaded.links.check(&site));
        site
    });
    faults.sort_by(|a, b| (&a.place, a.line, &a.message).cmp(&(&b.place, b.line, &b.message)));
    (site, faults)
}

/// Prints faults to standard error, one below the other.
pub(super) fn print(faults: &[Fault]) -> std::io::Result<()> {
    let mut stderr = anstream::stderr().lock();
    for fault in faults {
        let (word, style) = match fault.severity {
            Severity::Error => ("error", style::ERROR),
            Severity::Warning => ("warning", style::WARNING),
        };
        writeln!(stderr, "{style}{word}:{} {fault}", style.render_reset())?;
    }
    Ok(())
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
