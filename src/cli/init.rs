//! `frontdesk init`: writes a small, complete site.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::output::GOOD;
use crate::config::{Config, FILE_NAME};

/// The files of the starter site except the configuration, by their names in the site's folder.
const FILES: &[(&str, &str)] = &[
    ("pages/index.md", include_str!("../../starter/pages/index.md")),
    ("pages/developers.md", include_str!("../../starter/pages/developers.md")),
    ("pages/blog.md", include_str!("../../starter/pages/blog.md")),
    ("pages/contact.md", include_str!("../../starter/pages/contact.md")),
    ("pages/waitlist.md", include_str!("../../starter/pages/waitlist.md")),
    ("posts/2026-01-15-hello.md", include_str!("../../starter/posts/2026-01-15-hello.md")),
    ("assets/mark.svg", include_str!("../../starter/assets/mark.svg")),
    (".gitignore", "# Submissions are personal data: back them up, but not here.\n/data/\n"),
];

/// Writes the starter site into a new or empty folder.
pub(super) fn run(folder: &Path) -> anyhow::Result<ExitCode> {
    if let Some(name) = find_obstacle(folder) {
        bail!("{} is not empty (it has `{name}`); name an empty folder, or a new one", folder.display());
    }
    let configuration = Config::starter_file();
    let files = [(FILE_NAME, configuration.as_str())].into_iter().chain(FILES.iter().copied());
    for (name, text) in files {
        let file = folder.join(name);
        let parent = file.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let mut stderr = anstream::stderr().lock();
    writeln!(stderr, "{GOOD}written:{GOOD:#} a site of {} files in {}", FILES.len() + 1, folder.display())?;
    writeln!(
        stderr,
        "\nNext:\n  frontdesk serve {0}    serves it\n  frontdesk check {0}    checks it",
        folder.display()
    )?;
    writeln!(stderr, "\nBegin with frontdesk.toml (name, e-mail) and pages/index.md.")?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of a file that prevents writing a site to `folder`, if there is one. The `.git`, README
/// and license of a new repository do not prevent it.
fn find_obstacle(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let harmless = |name: &str| name == ".git" || name.starts_with("README") || name.starts_with("LICENSE");
    names.into_iter().find(|name| !harmless(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::site;
    use crate::pages::LoadCache;

    #[test]
    fn the_new_site_has_no_faults() {
        let folder = tempfile::tempdir().expect("a folder");
        run(folder.path()).expect("it can be written");
        let (config, mut faults) = Config::load(folder.path(), [], &[], None);
        let (site, mut found) =
            site::load_site(folder.path(), &config.with_base_url(None), &mut LoadCache::default());
        faults.append(&mut found);
        assert_eq!(faults, []);
        assert!(site.is_some_and(|site| site.page_count >= 6));
        assert!(run(folder.path()).is_err(), "nothing is overwritten");
    }
}
