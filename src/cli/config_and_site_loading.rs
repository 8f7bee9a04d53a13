//! Loads the configuration and the site for commands, and declares options that several of them share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap::Args;

use super::config_needs::{ConfigNeeds, NOTHING, as_warnings};
use super::diagnostics::{count_faults, counted, plural, print_faults, with_hint};
use frontdesk_config::{Config, FILE_NAME, Flag};
use frontdesk_convert::parse_url;
use frontdesk_forms::text::visible;
use frontdesk_http::Address;
use frontdesk_process::panics::{self, Part};
use frontdesk_screening::{Lexicon, SiteProfile};
use frontdesk_site::fault::{Fault, REPORT_DEFECT, Severity};
use frontdesk_site::resources::{self, ResourceCache};
use frontdesk_site::{
    ConversionCache, ExclusionReason, LoadCache, PageSummary, PublicationResult, SITE_FILES, ScheduledPage,
    Site, find_containing_folder, format_time,
};

/// Options that override the configuration.
#[derive(Debug, Default, Args)]
pub(super) struct ConfigOverrides {
    /// Public address, or several: `8080` is on loopback, `:80` on every interface, `unix:PATH` a Unix
    /// socket; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',')]
    listen: Vec<Address>,
    /// Private address for health checks and metrics, or `off`
    #[arg(long, value_name = "ADDR:PORT")]
    ops_listen: Option<String>,
    /// Folder for submissions
    #[arg(long, value_name = "DIR", value_parser = parse_data_dir)]
    data_dir: Option<PathBuf>,
}

impl ConfigOverrides {
    /// Converts the given options to flags for [`Config::load`]. Makes the paths of Unix sockets and of the
    /// data folder absolute.
    pub(super) fn flags(&self) -> Vec<Flag> {
        let absolute_address = |address: &Address| match address {
            Address::Unix(path) => Address::Unix(absolute(path).into()).to_string(),
            address @ Address::Tcp(_) => address.to_string(),
        };
        let listen = self.listen.iter().map(absolute_address).collect::<Vec<_>>().join(",");
        // Pass on `off` and invalid addresses unchanged: the configuration interprets or rejects them.
        let ops_listen = self.ops_listen.as_deref().map(|text| match text.parse() {
            Ok(address @ Address::Unix(_)) => absolute_address(&address),
            _ => text.to_owned(),
        });
        [
            ("server.listen", "--listen", Some(listen).filter(|listen| !listen.is_empty())),
            ("server.ops_listen", "--ops-listen", ops_listen),
            ("store.data_dir", "--data-dir", self.data_dir.as_deref().map(absolute)),
        ]
        .into_iter()
        .filter_map(|(key, name, value)| Some(Flag { key, name, value: value? }))
        .collect()
    }
}

/// Makes a path from the command line absolute. Paths on the command line are relative to the working
/// directory, while those in the configuration are relative to the site's folder. Returns a path that cannot
/// be made absolute unchanged, and replaces bytes that are not UTF-8.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Makes the path of a data folder on the command line absolute. Fails if the path is not UTF-8, because
/// values of configuration keys are text. clap does not call this for an argument that is not UTF-8, and
/// fails itself.
pub(super) fn parse_data_dir(path: &str) -> Result<PathBuf, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    if path.to_str().is_none() {
        return Err("the path of the current folder is not valid UTF-8".to_owned());
    }
    Ok(path)
}

/// The site's folder, as a positional argument.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct SiteFolder {
    /// The site's folder; default: the current folder
    #[arg(value_name = "SITE")]
    pub(super) site: Option<PathBuf>,
}

/// The site's folder, as a positional argument or as an option.
#[derive(Debug, Default, Args)]
pub(super) struct SiteArgument {
    #[command(flatten)]
    folder: SiteFolder,
    /// The site's folder, instead of the argument SITE
    #[arg(long = "site", value_name = "DIR", conflicts_with = "site")]
    site_option: Option<PathBuf>,
}

impl SiteArgument {
    /// The site's folder; by default the current folder.
    pub(super) fn path(&self) -> &Path {
        self.folder.site.as_deref().or(self.site_option.as_deref()).unwrap_or(Path::new("."))
    }
}

/// Options that locate the inbox.
#[derive(Debug, Args)]
pub(super) struct InboxLocation {
    /// The site's folder, instead of the argument SITE
    #[arg(long = "site", global = true, value_name = "DIR")]
    site_option: Option<PathBuf>,
    /// Folder for submissions
    #[arg(long, global = true, value_name = "DIR", value_parser = parse_data_dir)]
    data_dir: Option<PathBuf>,
}

/// The flag for a data folder from the command line. Empty if the command line does not name one.
pub(super) fn data_folder_flags(data_dir: Option<PathBuf>) -> Vec<Flag> {
    ConfigOverrides { data_dir, ..ConfigOverrides::default() }.flags()
}

impl InboxLocation {
    /// The site's folder that `--site` names.
    pub(super) fn site(&self) -> Option<&PathBuf> {
        self.site_option.as_ref()
    }

    /// Reads the configuration of the site in `folder`, in the folder that `--site` names, or in the current
    /// folder, with the data folder from the command line. Fails like [`load_configuration`], and if
    /// `folder` and `--site` differ.
    pub(super) fn load_configuration(
        self,
        folder: Option<PathBuf>,
        needs: ConfigNeeds,
    ) -> anyhow::Result<Config> {
        if let (Some(folder), Some(option)) = (&folder, &self.site_option)
            && folder != option
        {
            bail!(
                "two site folders are given, {} and `--site {}`: give one of them",
                folder.display(),
                option.display()
            );
        }
        let folder = folder.or(self.site_option).unwrap_or_else(|| ".".into());
        load_configuration(&folder, self.data_dir, needs)
    }
}

/// Reads the configuration of the site in `folder`, with `data_dir` as its data folder if one is given.
/// Prints the warnings of [`read_configuration`], and fails like it.
pub(super) fn load_configuration(
    folder: &Path,
    data_dir: Option<PathBuf>,
    needs: ConfigNeeds,
) -> anyhow::Result<Config> {
    let (config, warnings) = read_configuration(folder, &data_folder_flags(data_dir), needs)?;
    print_faults(&warnings);
    Ok(config)
}

/// Reads the configuration. Returns the warnings, such as those about unknown variables, for the caller to
/// print; leaves out those about `frontdesk.toml`. Errors in keys that the command does not need become
/// warnings: the first ones, and the number of the others ([`as_warnings`]). Fails if there are other errors:
/// with the error if it is the only one, and otherwise with the number of all errors, after printing them. If
/// `needs` has a refusal, that is the error, and the faults are its cause.
pub(super) fn read_configuration(
    folder: &Path,
    flags: &[Flag],
    needs: ConfigNeeds,
) -> anyhow::Result<(Config, Vec<Fault>)> {
    let (config, mut faults) = Config::load(folder, environment(), flags, None);
    let errors: Vec<Fault> = faults.extract_if(.., |fault| fault.severity == Severity::Error).collect();
    if errors.iter().any(|fault| needs.is_prevented_by(fault)) {
        let error = unusable_configuration(errors);
        return Err(match needs.refusal() {
            Some(refusal) => error.context(refusal),
            None => error,
        });
    }
    // Only `frontdesk check` reports warnings about the file. Every command reports an unknown variable,
    // because the operator expects it to have an effect.
    faults.retain(|fault| fault.place != FILE_NAME);
    Ok((config, [as_warnings(&errors), faults].concat()))
}

/// Reads the configuration for a command that reports the errors in it. Returns all errors, and the warnings
/// that are not about `frontdesk.toml`, which every command prints. Fails if a part of the file cannot be
/// read, so that any key may be missing.
pub(super) fn read_with_errors(
    folder: &Path,
    flags: &[Flag],
) -> anyhow::Result<(Config, Vec<Fault>, Vec<Fault>)> {
    let (config, mut faults) = Config::load(folder, environment(), flags, None);
    let errors: Vec<Fault> = faults.extract_if(.., |fault| fault.severity == Severity::Error).collect();
    if errors.iter().any(|fault| NOTHING.is_prevented_by(fault)) {
        return Err(unusable_configuration(errors));
    }
    faults.retain(|fault| fault.place != FILE_NAME);
    Ok((config, errors, faults))
}

/// The error for a configuration with these errors: a single one as it is, with its hint, or the number of
/// several, which are printed.
fn unusable_configuration(mut errors: Vec<Fault>) -> anyhow::Error {
    if let [Fault { hint, .. }] = &mut errors[..] {
        let hint = hint.take();
        let error = anyhow::anyhow!("{}", errors[0]);
        return match hint {
            Some(hint) => with_hint(error, hint),
            None => error,
        };
    }
    print_faults(&errors);
    anyhow::anyhow!("the configuration cannot be used ({})", count_faults(&errors))
}

/// The environment variables. Skips those that are not UTF-8, because no key accepts them.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The results of the last load of a site, which the next load reuses.
#[derive(Debug, Default)]
pub(super) struct SiteCache {
    /// The files that the last load did not publish, and its notes on the modes of files.
    pub(super) publication: PublicationResult,
    pages: LoadCache,
    resources: ResourceCache,
}

impl SiteCache {
    /// An empty cache. Reads conversions of the pages of a build from `conversions`, and keeps the pages of a
    /// large site on disk: beside the inbox, or in the system's folder for large temporary files.
    pub(super) fn new(config: &Config, conversions: Arc<ConversionCache>) -> Self {
        let data = config.inbox_folder();
        // Also try the parent folder: at the first start, the data folder is created after the load.
        let folders = [Some(data), data.parent(), Some(Path::new("/var/tmp"))];
        let folders: Vec<PathBuf> = folders.into_iter().flatten().map(Path::to_owned).collect();
        Self { pages: LoadCache::new(conversions, &folders), ..Self::default() }
    }

    /// Like [`Self::new`], with the conversions that the server has cached.
    pub(super) fn of_server(config: &Config) -> Self {
        Self::new(config, Arc::new(ConversionCache::new(conversions_folder(config))))
    }

    /// Forgets the results, because parts of them may not match each other after a panic.
    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.resources = ResourceCache::default();
        self.publication = PublicationResult::default();
    }
}

/// Loads the site with its resources, and returns the site and every fault. Returns no site if one of the
/// faults is an error. For unchanged files, reuses the results of earlier loads in `previous`, and updates
/// them.
///
/// A panic that no single file explains is an error. After a panic while generating resources, the site is
/// returned without some of them, with a warning.
pub(super) fn load_site(
    folder: &Path,
    config: &Config,
    previous: &mut SiteCache,
) -> (Option<Site>, Vec<Fault>) {
    let forms = resources::page_forms(&config.pages);
    let load = || previous.pages.load(folder, &config.pages, &forms);
    let mut loaded = match panics::catch(Part::Content, load) {
        Ok(loaded) => loaded,
        Err(panic) => {
            previous.clear();
            let message = format!("{}: the site cannot be loaded", panic.with_message());
            return (None, vec![Fault::error(SITE_FILES, None, message).hint(REPORT_DEFECT)]);
        }
    };
    previous.publication = std::mem::take(&mut loaded.publication);
    let site = loaded.site.map(|mut site| {
        let options = &loaded.options;
        let added = panics::catch(Part::Content, || {
            previous.resources.add_resources(&mut site, options, &config.resources);
        });
        if let Err(panic) = added {
            previous.resources = ResourceCache::default();
            let consequence = "generated resources, such as llms.txt and the sitemap, are missing";
            loaded.faults.push(Fault::defect(SITE_FILES, &panic, consequence));
        }
        site
    });
    (site, loaded.faults)
}

/// Maximum number of unpublished pages that are listed one by one.
const MAX_UNPUBLISHED: usize = 20;

/// One line for each page that will be published or taken down, each draft and each expired page, in this
/// order: up to [`MAX_UNPUBLISHED`] lines, and one with the number of further pages.
pub(super) fn describe_unpublished(site: &Site) -> Vec<String> {
    let scheduled = site.scheduled.iter();
    let scheduled = scheduled.map(|ScheduledPage { file, at, expires }| {
        let change = if *expires { "taken down" } else { "published" };
        format!("{file} will be {change} on {}", format_time(*at))
    });
    let drafts = site.drafts.iter().map(|file| format!("{file} is a draft"));
    let expired = site.expired.iter().map(|file| format!("{file} has expired"));
    let mut lines: Vec<String> = scheduled.chain(drafts).chain(expired).collect();
    let others = lines.len().saturating_sub(MAX_UNPUBLISHED);
    if others > 0 {
        lines.truncate(MAX_UNPUBLISHED);
        lines.push(format!("… and {others} more"));
    }
    lines
}

/// Maximum number of files that are listed as not published.
const MAX_EXCLUSIONS: usize = 100;

/// Lines about what is not published: one for each file or folder that is not hidden, up to
/// [`MAX_EXCLUSIONS`]; one with the number of further ones; one for all hidden ones; and the notes of the
/// publication.
pub(super) fn describe_exclusions(publication: &PublicationResult) -> Vec<String> {
    let (hidden, others): (Vec<_>, Vec<_>) =
        publication.exclusions.iter().partition(|exclusion| exclusion.reason == ExclusionReason::Hidden);
    let mut lines: Vec<String> = others.iter().take(MAX_EXCLUSIONS).map(ToString::to_string).collect();
    let more = others.len().saturating_sub(MAX_EXCLUSIONS);
    if more > 0 {
        lines.push(format!(
            "{} more that {} not published",
            counted(more, "file"),
            plural(more, "is", "are")
        ));
    }
    if let Some(first) = hidden.first() {
        let (count, are) = (hidden.len(), plural(hidden.len(), "file or folder is", "files or folders are"));
        let example = visible(&first.path_in_site);
        lines.push(format!(
            "{count} hidden {are} not published, such as {example}; `publish` in [site] lists exceptions"
        ));
    }
    lines.extend(publication.notes.iter().cloned());
    lines
}

/// One line with the number of files and folders that are not published, except hidden ones, if there are
/// any, and the notes of the publication. `folder` is that of the site.
pub(super) fn summarize_exclusions(publication: &PublicationResult, folder: &Path) -> Vec<String> {
    let reasons = publication.exclusions.iter().map(|exclusion| &exclusion.reason);
    let count = reasons.filter(|reason| **reason != ExclusionReason::Hidden).count();
    let summary = (count > 0).then(|| {
        let files = plural(count, "file or folder is", "files or folders are");
        format!("{count} {files} not published: `frontdesk check {}` lists them", folder.display())
    });
    summary.into_iter().chain(publication.notes.iter().cloned()).collect()
}

/// Fails if a command would write the file or folder `target` into a folder whose files are published. `what`
/// is what it would write, such as "a backup".
pub(super) fn refuse_served_folder(config: &Config, target: &Path, what: &str) -> anyhow::Result<()> {
    let Some(folder) = find_containing_folder(target, &config.served_folders) else { return Ok(()) };
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let (shown, folder) = (target.display(), folder.display());
    let error = anyhow::anyhow!("{shown} is inside {folder}, whose files are published");
    Err(with_hint(error, format!("write {what} to a place outside of that folder")))
}

/// The folder beside the inbox that caches the strongest compressed form of each file.
pub(super) const ENCODINGS: &str = "encodings";

pub(super) fn encodings_folder(config: &Config) -> PathBuf {
    config.inbox_folder().join(ENCODINGS)
}

/// The folder beside the inbox that caches the conversions of a build's pages to Markdown.
pub(super) const CONVERSIONS: &str = "conversions";

pub(super) fn conversions_folder(config: &Config) -> PathBuf {
    config.inbox_folder().join(CONVERSIONS)
}

/// The site's trade and vocabulary, for screening, from the Markdown of its listed pages, posts last, because
/// [`SiteProfile::read`] skips texts beyond a maximum number; and its domain. Leaves out pages without
/// Markdown in UTF-8.
pub(super) fn read_profile(lexicon: &Lexicon, site: &Site) -> SiteProfile {
    let (posts, pages): (Vec<&PageSummary>, Vec<&PageSummary>) =
        site.pages.iter().partition(|page| page.is_post);
    let text = |page: &&PageSummary| {
        let file = site.markdown(&page.path)?;
        // The previous page's text has been read, so its memory may be released now.
        site.note_read(file);
        std::str::from_utf8(&file.unencoded().bytes).ok()
    };
    let profile = SiteProfile::read(lexicon, pages.iter().chain(&posts).filter_map(text));
    let host = parse_url(&site.base_url).ok().and_then(|url| url.host_str().map(str::to_owned));
    profile.at_host(&host.unwrap_or_default())
}
