//! `frontdesk check` and `frontdesk config`: print a site's faults and its effective settings.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::config_and_site_loading::SiteCache;
use super::diagnostics::{GOOD, count_faults, counted, exit_code, print_faults, print_notes};
use super::{config_and_site_loading, doctor, init};
use frontdesk_config::{Config, FILE_NAME, FORMS_FOLDER, Flag, Setting};
use frontdesk_forms::FormSet;
use frontdesk_inbox::store::InboxReader;
use frontdesk_process::progress_bar::Progress;
use frontdesk_site::fault::{Fault, Severity};
use frontdesk_site::{Encodings, STACK_BYTES, Site};

/// Maximum width of the `key = value` column. A wider setting pushes its origin to the right.
const MAX_ALIGNED: usize = 72;

/// The result of checking a site.
pub(super) struct CheckReport {
    pub(super) faults: Vec<Fault>,
    /// Facts about the site that are not faults.
    pub(super) notes: Vec<String>,
    pub(super) pages: usize,
}

/// Prints every fault in a site: as `file:line: message` to standard error, or as JSON lines to standard
/// output. Then prints the notes and a count. Returns failure if there is a fault, even if all are warnings.
pub(super) fn run(folder: &Path, flags: &[Flag], json: bool, drafts: bool) -> anyhow::Result<ExitCode> {
    let progress = Progress::start_if(!json, "Checking");
    let CheckReport { faults, notes, pages } = examine(folder, flags, drafts);
    drop(progress);
    if json {
        let mut stdout = io::stdout().lock();
        for fault in &faults {
            writeln!(stdout, "{}", serde_json::to_string(fault)?)?;
        }
    } else {
        print_faults(&faults);
    }
    print_notes(&notes);
    let mut stderr = anstream::stderr().lock();
    let _ = match faults[..] {
        [] => writeln!(stderr, "{GOOD}fine:{GOOD:#} {}, nothing to fix", counted(pages, "page")),
        _ => writeln!(stderr, "{}", count_faults(&faults)),
    };
    Ok(exit_code(faults.is_empty()))
}

/// Loads the site in `folder` without printing its faults. Returns success even if the site has errors or
/// the load panics, which [`site::load_site`] catches: a server that tries a changed theme only needs to know
/// whether the load ends this process.
pub(super) fn only_load(folder: &Path) -> anyhow::Result<ExitCode> {
    let (config, _) = Config::load(folder, config_and_site_loading::environment(), &[], None);
    let config = config.with_base_url(None);
    let load = || config_and_site_loading::load_site(folder, &config, &mut SiteCache::default());
    // Use the server's stack size, so that a template that overflows the server's stack also fails here.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, load)?;
        Ok(exit_code(thread.join().is_ok()))
    })
}

/// Collects the faults and notes of the site in `folder`; with `drafts`, also of unpublished pages. Reports
/// only faults of the configuration, and loads no pages, if `folder` has no configuration file and there is
/// no build. A secret that is not set is a note, not a fault. Also reads the inbox, for a note about
/// submissions that were never delivered.
pub(super) fn examine(folder: &Path, flags: &[Flag], drafts: bool) -> CheckReport {
    // Invalid values are replaced with defaults, so that faults in the site are found as well.
    let (config, mut faults) = Config::load(folder, config_and_site_loading::environment(), flags, None);
    let mut config = config.with_base_url(None);
    let awaited = note_missing_secrets(&config, &mut faults);
    config.pages.shows_unpublished = drafts;
    let mut site = None;
    let mut cache = SiteCache::of_server(&config);
    if folder.join(FILE_NAME).exists() || config.pages.build.is_some() {
        if faults.iter().any(|fault| fault.severity == Severity::Error)
            && config.pages.operator.email.is_empty()
        {
            // The address may be in a part of the file that could not be parsed. A placeholder prevents each
            // page with a form from reporting it as missing.
            "unknown@example.invalid".clone_into(&mut config.pages.operator.email);
        }
        faults.append(&mut config.certificate_faults());
        faults.append(&mut config.exposed_secrets());
        let (loaded, mut found) = config_and_site_loading::load_site(folder, &config, &mut cache);
        faults.append(&mut found);
        faults.append(&mut config.memory_faults(loaded.as_ref().map_or(0, Site::size)));
        let encodings = Encodings::new(config_and_site_loading::encodings_folder(&config));
        faults.extend(loaded.iter().flat_map(|site| site.variant_faults(&encodings)));
        faults.extend(loaded.iter().flat_map(|site| hidden_forms(site, config.pages.build.is_some())));
        site = loaded;
    }
    let mut notes = site.as_ref().map(config_and_site_loading::describe_unpublished).unwrap_or_default();
    if config.pages.build.is_none() {
        notes.extend(site.iter().flat_map(hidden_built_in_forms));
    }
    notes.extend(config_and_site_loading::describe_exclusions(&cache.publication));
    // Mention unchanged starter texts only if there are no faults: operators replace these texts last.
    notes.extend(init::describe_starter_texts(folder).filter(|_| faults.is_empty()));
    let pages = site.map_or(0, |site| site.page_count);
    // An inbox that cannot be read is not a fault of the site: `frontdesk doctor` reports it.
    let undelivered = InboxReader::open(&config.store.url)
        .and_then(|inbox| doctor::describe_undelivered(&inbox, !config.channels.is_empty()));
    notes.splice(0..0, undelivered.ok().flatten().into_iter().chain(awaited));
    CheckReport { faults, notes, pages }
}

/// Removes the faults about secrets that are not set, and returns a note about each: the server often gets
/// them in its own environment, as a systemd unit does, and operators run `check` in another one.
fn note_missing_secrets(config: &Config, faults: &mut Vec<Fault>) -> Vec<String> {
    let mut notes = Vec::new();
    faults.retain(|fault| {
        let Some(variable) = config.missing_secret(fault) else { return true };
        notes.push(format!(
            "{}; the server does not start without it, unless its environment has {variable} or {variable}_FILE",
            fault.message
        ));
        false
    });
    notes
}

/// A warning for each of the operator's forms that no page shows. `has_build` is whether the site serves the
/// output of a site generator, whose pages have no front matter.
fn hidden_forms(site: &Site, has_build: bool) -> impl Iterator<Item = Fault> {
    let is_own = |name: &&str| FormSet::built_in().named(name).is_none();
    hidden_names(site).filter(is_own).map(move |name| {
        let message = format!("no page shows the form `{name}`");
        let hint = if has_build {
            format!("add `<form data-frontdesk=\"{name}\">` to a page of the build (docs/pages/any-site.md)")
        } else {
            format!("write `form: {name}` in the front matter of a page (docs/pages/forms.md)")
        };
        Fault::warning(format!("{FORMS_FOLDER}/{name}.toml"), None, message).hint(hint)
    })
}

/// A note for each built-in form that no page shows.
fn hidden_built_in_forms(site: &Site) -> impl Iterator<Item = String> {
    let is_built_in = |name: &&str| FormSet::built_in().named(name).is_some();
    hidden_names(site).filter(is_built_in).map(|name| {
        format!("no page shows the form `{name}`; `enabled = false` in [forms.{name}] removes it")
    })
}

/// The names of the site's forms that no page shows.
fn hidden_names(site: &Site) -> impl Iterator<Item = &'static str> {
    site.form_set.iter().map(|form| form.name).filter(|name| !site.shown_forms.contains(name))
}

/// Prints a configuration file with every key, its default and its documentation.
pub(super) fn print_complete_file() -> anyhow::Result<ExitCode> {
    io::stdout().lock().write_all(Config::complete_file().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each effective setting with its origin on one line, as text or as a JSON object. Text shows the
/// configured value only if it differs, as `auto` does. Invalid values are shown as they are set. Errors,
/// and warnings that are not about `frontdesk.toml`, go to standard error; returns failure if there are
/// errors.
pub(super) fn show_settings(folder: &Path, flags: &[Flag], json: bool) -> anyhow::Result<ExitCode> {
    let (config, errors, warnings) = config_and_site_loading::read_with_errors(folder, flags)?;
    print_faults(&errors);
    print_faults(&warnings);
    let mut stdout = io::stdout().lock();
    let line = |setting: &Setting| {
        format!("{} = {}", setting.key.name, setting.effective.as_ref().unwrap_or(&setting.value))
    };
    let width = config.settings.iter().map(|setting| line(setting).chars().count()).max();
    let width = width.unwrap_or_default().min(MAX_ALIGNED);
    for setting in &config.settings {
        let Setting { key, value, effective, origin, .. } = setting;
        if json {
            let object = json!({
                "key": key.name, "value": value, "effective": effective.as_ref().unwrap_or(value),
                "origin": origin.to_string(),
            });
            writeln!(stdout, "{object}")?;
        } else {
            let typed = effective.as_ref().map(|_| format!(": {value}")).unwrap_or_default();
            writeln!(stdout, "{:<width$}  # {origin}{typed}", line(setting))?;
        }
    }
    Ok(exit_code(errors.is_empty()))
}
