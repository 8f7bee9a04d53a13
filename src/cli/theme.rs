//! `frontdesk theme`: lists the files of the built-in theme, and copies them into a site.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};

use super::diagnostics::{GOOD, with_hint};
use frontdesk_config::FILE_NAME;
use frontdesk_site::BUILT_IN_THEME;
use frontdesk_site::fault::closest;

/// Copies the named files of the built-in theme to `theme` in the site; lists all names if `names` is empty.
/// Fails if `site` has no configuration file, and at the first name that the theme does not have or that the
/// site already has; files before it stay copied.
pub(super) fn run(site: &Path, names: &[String]) -> anyhow::Result<ExitCode> {
    if !site.join(FILE_NAME).exists() {
        return Err(with_hint(
            anyhow!("there is no {FILE_NAME} in {}", site.display()),
            "name the folder of a site, as in `frontdesk theme DIR`; `frontdesk init DIR` creates one",
        ));
    }
    let mut stdout = io::stdout().lock();
    if names.is_empty() {
        for (name, _) in BUILT_IN_THEME {
            let own = if site.join("theme").join(name).exists() { "  (the site has its own)" } else { "" };
            writeln!(stdout, "{name}{own}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut stderr = anstream::stderr().lock();
    for wanted in names {
        let Some((name, text)) = BUILT_IN_THEME.iter().find(|(name, _)| name == wanted) else {
            match closest(wanted, BUILT_IN_THEME.iter().map(|(name, _)| *name)) {
                Some(known) => bail!("the built-in theme has no file `{wanted}`; did you mean `{known}`?"),
                None => bail!("the built-in theme has no file `{wanted}`; omit the name to list all files"),
            }
        };
        let file = site.join("theme").join(name);
        if file.exists() {
            bail!("{} already exists: remove it to copy the theme's file again", file.display());
        }
        let folder = file.parent().unwrap_or(site);
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        writeln!(stderr, "{GOOD}written:{GOOD:#} {}", file.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
