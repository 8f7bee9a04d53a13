//! `frontdesk check`: every fault of a site at once, without serving it.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use super::{site, style};
use crate::config::Config;
use crate::pages::Site;

/// Prints each fault as `file:line: what`; 1 if there is any.
pub(super) fn run(folder: &Path, json: bool) -> anyhow::Result<ExitCode> {
    // Where the configuration is at fault the defaults stand in, so that the site's faults are told as well.
    let (config, mut faults) = Config::load(folder, site::environment(), &[]);
    let config = config.at(None);
    faults.append(&mut config.certificate_faults());
    faults.append(&mut config.exposed_secrets());
    let (site, mut found) = site::load(folder, &config);
    faults.append(&mut found);
    faults.append(&mut config.memory_faults(site.as_ref().map_or(0, Site::size)));
    let pages = site.map_or(0, |site| site.page_count());
    if json {
        let mut stdout = io::stdout().lock();
        for fault in &faults {
            writeln!(stdout, "{}", serde_json::to_string(fault)?)?;
        }
    } else {
        site::print(&faults);
    }
    let mut stderr = anstream::stderr().lock();
    if faults.is_empty() {
        let (good, reset) = (style::GOOD, style::GOOD.render_reset());
        let _ = writeln!(stderr, "{good}fine:{reset} {pages} pages, nothing to mend");
        Ok(ExitCode::SUCCESS)
    } else {
        let _ = writeln!(stderr, "{}", site::count(&faults));
        Ok(ExitCode::FAILURE)
    }
}
