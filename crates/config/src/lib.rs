//! Reads `frontdesk.toml`, environment variables and flags into typed options, and reports every fault.
//!
//! Each section is a module that declares its keys where it reads them: name, default, documentation, and the
//! effect of a change. Environment variables, the check for unknown keys, `frontdesk config`, the starter
//! file and reloads are all derived from the declarations. `sections` reads them in the order of the
//! documentation, and combines them into the options of each part.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read clocks and wait"))]

mod agents;
mod brand;
mod canary;
mod channel;
mod channel_conditions;
mod content_signals;
mod form_files;
mod forms;
mod inbox;
mod inbox_domain;
mod key;
mod lexicon_files;
mod limits;
mod log;
mod missing_site;
mod named_file;
mod operator;
mod reader;
mod redirects_and_extra;
mod screening;
mod secret_file_permissions;
mod sections;
mod security;
mod server;
mod setting;
mod site;
mod starter;
mod store;
mod syntax_faults;
#[cfg(test)]
mod tests;
mod tls;
mod toml_folder;
mod value_parsers;
mod visitor_mails;
mod words;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

pub use self::channel_conditions::{MAX_CASES, describe_case_values, routing_cases};
pub use self::form_files::FORMS_FOLDER;
pub use self::lexicon_files::LEXICON_FOLDER;
pub use self::limits::LimitValues;
pub use self::log::LogOptions;
pub use self::reader::{Effect, FILE_NAME, Flag, Setting};
pub use self::sections::Config;
pub use self::value_parsers::toml_string;

use self::missing_site::hint_at_site;
use self::reader::{ReadResult, Reader, ValueOrigin, fault_of, variable_name};
use self::secret_file_permissions::SecretFile;
use frontdesk_app::agent_signature;
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_http::{Address, reachable};
use frontdesk_inbox::store::DatabaseUrl;
use frontdesk_process::disk_space::Space;
use frontdesk_site::fault::{Fault, Severity};
use frontdesk_site::{self as pages};

impl Config {
    /// Reads the configuration of the site in `folder`. Flags override the environment, which overrides the
    /// file. An invalid value is replaced by the default; if one of the faults is an error, the configuration
    /// must not be used to serve. A file that is missing or cannot be read is the only fault, except that the
    /// output of a site generator needs no file.
    ///
    /// Keys that need a restart, and options derived from them, keep their values in `running`.
    pub fn load(
        folder: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
        running: Option<&Self>,
    ) -> (Self, Vec<Fault>) {
        let text = named_file::read_text(&folder.join(FILE_NAME));
        let running = running.map_or(&[][..], |config| &config.settings);
        let reader = Reader::new(text.as_deref().unwrap_or_default(), folder, environment, flags, running);
        let (config, mut faults) = Self::read(reader);
        if let Err(error) = &text {
            let (message, hint) = match error.kind() {
                // The output of a site generator can be served without a configuration file.
                std::io::ErrorKind::NotFound if config.pages.build.is_some() => return (config, faults),
                std::io::ErrorKind::NotFound => ("there is no such file".to_owned(), hint_at_site(folder)),
                _ => (
                    format!("cannot be read: {error}"),
                    "it must be a UTF-8 text file that this user can read".to_owned(),
                ),
            };
            let path = folder.join(FILE_NAME);
            let path = path.strip_prefix(".").unwrap_or(&path).display().to_string();
            // Drop all other faults, because they only follow from this one.
            faults = vec![Fault::error(path, None, message).hint(hint)];
        }
        (config, faults)
    }

    /// The environment variable that sets the key of a fault, if the fault is that a secret is not set. A
    /// server may get secrets in an environment that this process does not have. `None` if the fault is that
    /// the file that a `…_FILE` variable names cannot be read.
    pub fn missing_secret(&self, fault: &Fault) -> Option<String> {
        let is_about_file = fault.severity == Severity::Error && fault.place == FILE_NAME;
        let key = fault.key.as_deref().filter(|_| is_about_file)?;
        let setting = self.settings.iter().find(|setting| setting.key.name == key)?;
        let is_missing = setting.key.is_secret && setting.origin == ValueOrigin::Default;
        is_missing.then(|| variable_name(key))
    }

    /// Parses `text` as [`Config::load`] parses the file, but without the settings of a running server.
    pub fn parse(
        text: &str,
        folder: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> (Self, Vec<Fault>) {
        Self::read(Reader::new(text, folder, environment, flags, &[]))
    }

    /// The `frontdesk.toml` of a new site, with the keys that most sites change.
    pub fn starter_file() -> String {
        starter::render_starter_file(&Self::settings_of(starter::STARTER_CHANNEL))
    }

    /// A `frontdesk.toml` with every key, its default and its documentation.
    pub fn complete_file() -> String {
        starter::render_complete_file(&Self::settings_of(starter::CHANNELS))
    }

    /// The settings of a configuration file with this `text` in the current folder. Ignores faults.
    fn settings_of(text: &str) -> Vec<Setting> {
        Self::parse(text, Path::new(""), [], &[]).0.settings
    }

    /// Reads every section, and fills in the options that need all keys to be read first.
    fn read(mut reader: Reader<'_>) -> (Self, Vec<Fault>) {
        let folder = reader.site_folder();
        let mut config = Self::read_sections(&mut reader);
        let ReadResult { settings, secret_files, named_files, faults } = reader.finish();
        config.pages.publication.private = config.private_files(folder, named_files);
        (Self { settings, secret_files, ..config }.with_effective_values(), faults)
    }

    /// Records the effective values of keys that depend on the machine or on other keys, where they differ
    /// from the configured ones. `store.min_free` has none with PostgreSQL, or if the size of the disk cannot
    /// be read.
    fn with_effective_values(mut self) -> Self {
        let bytes = |bytes: u64| format!("{bytes} bytes");
        let space =
            self.store.url.file().and_then(Path::parent).and_then(|folder| Space::sample(folder).ok());
        let reserve = space.map(|space| bytes(self.maintenance.min_free.bytes(space.size)));
        let per_network =
            self.web.http.max_connections_per_network.max(self.web.http.max_connections_per_source);
        let effective = [
            ("base_url", Some(toml_string(&self.clone().with_base_url(None).pages.base_url))),
            ("operator.security_email", Some(toml_string(&self.resources.security_email))),
            ("server.workers", Some(self.web.http.workers.to_string())),
            ("server.max_connections_per_network", Some(per_network.to_string())),
            ("server.max_memory", self.web.http.max_memory.map(bytes)),
            ("store.data_dir", Some(toml_string(&self.data_dir.display().to_string()))),
            (
                "store.url",
                self.store.url.file().map(|file| toml_string(&format!("sqlite:{}", file.display()))),
            ),
            ("store.min_free", reserve),
        ];
        for (key, value) in effective {
            if let Some(setting) = self.settings.iter_mut().find(|setting| setting.key.name == key) {
                setting.effective = value.filter(|value| *value != setting.value);
            }
        }
        self
    }

    /// Parses a database URL in the format of `store.url`. The error describes the expected value.
    pub fn database_url(&self, url: &str) -> Result<DatabaseUrl, String> {
        store::parse_url(url, &self.data_dir)
    }

    /// The folder of a SQLite inbox; the data folder for other databases.
    pub fn inbox_folder(&self) -> &Path {
        self.store.url.file().and_then(Path::parent).unwrap_or(&self.data_dir)
    }

    fn find_setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key.name == key)
    }

    /// The keys that take effect only after a restart, and that the running server lacks or has with another
    /// value. Ignores keys that only the running server has. Load this configuration with
    /// `running` as `None`: otherwise these keys have the running values.
    pub fn keys_needing_restart(&self, running: &Self) -> Vec<&str> {
        let differs = |setting: &&Setting| {
            setting.key.effect == Effect::Restart
                && running.find_setting(&setting.key.name).map(Setting::identity) != Some(setting.identity())
        };
        self.settings.iter().filter(differs).map(|setting| &*setting.key.name).collect()
    }

    /// Returns one warning if the configuration file or a variable sets `server.max_memory` to less than
    /// [`NEEDED_MEMORY`](frontdesk_http::NEEDED_MEMORY) plus `site`, the size of the site in bytes.
    pub fn memory_faults(&self, site: usize) -> Vec<Fault> {
        // A default that is too low causes no warning: the operator has set no value to correct.
        let is_set =
            |setting: &Setting| matches!(setting.origin, ValueOrigin::File(_) | ValueOrigin::Environment(_));
        let needed = frontdesk_http::NEEDED_MEMORY + site as u64;
        let is_too_small = self.web.http.max_memory.is_some_and(|limit| limit < needed);
        if !is_too_small || !self.find_setting("server.max_memory").is_some_and(is_set) {
            return Vec::new();
        }
        let message = "`server.max_memory` is less than this server needs for its site".to_owned();
        let needed = needed.div_ceil(1_000_000);
        let enough = needed * 3 / 2;
        let hint = format!(
            "set {enough}MB or more: the program and the site need {needed}MB, and connections the rest"
        );
        vec![fault_of(&self.settings, "server.max_memory", Fault::warning, message).hint(hint)]
    }

    /// Returns faults in the certificates of the site and the inbox, their keys and the base URL. Call
    /// [`Config::with_base_url`] first. Separate from loading, so that most commands need no permission to
    /// read the keys.
    pub fn certificate_faults(&self) -> Vec<Fault> {
        let mut faults = tls::certificate_faults(&self.web.http.tls, &self.pages.base_url, &self.settings);
        let (domain, source) = (self.web.inbox_pages.domain.as_ref(), self.inbox_certificate.as_ref());
        faults.extend(inbox_domain::certificate_faults(domain, source, &self.settings));
        faults
    }

    /// Returns a warning for each file that contains a secret and is readable by every user of this machine.
    pub fn exposed_secrets(&self) -> Vec<Fault> {
        self.secret_files.iter().filter_map(SecretFile::exposure).collect()
    }

    /// Whether a change from `other` to this configuration concerns the delivery worker: a key with
    /// [`Effect::Deliveries`], or a text of mails to visitors.
    pub fn changes_deliveries(&self, other: &Self) -> bool {
        let text = |channel: &ChannelOptions| match &channel.kind {
            TransportOptions::Visitor(visitor) => Some(visitor.texts.clone()),
            _ => None,
        };
        // The texts of mails to visitors are in files, which can change although the keys that name them do
        // not.
        self.changes(other, Effect::Deliveries)
            || self.visitor_channels.iter().map(text).ne(other.visitor_channels.iter().map(text))
    }

    /// Whether a key with this effect has another value in `other`, or is in only one of the configurations,
    /// or whether such keys are in another order, for example because a channel was moved in the file.
    pub fn changes(&self, other: &Self, effect: Effect) -> bool {
        let of_effect = |setting: &&Setting| setting.key.effect == effect;
        let ours = self.settings.iter().filter(of_effect).map(Setting::identity);
        ours.ne(other.settings.iter().filter(of_effect).map(Setting::identity))
    }

    /// Fills in the base URL and what depends on it: the target of redirects to HTTPS, the site's origin,
    /// links in mails, and the canary's target. Also gives the canary all forms. Without [`Self::base_url`],
    /// it is that of the address `listening_on`, which defaults to the first configured TCP address.
    /// 127.0.0.1 stands for an address on all interfaces.
    #[must_use]
    pub fn with_base_url(mut self, listening_on: Option<SocketAddr>) -> Self {
        let is_secure = self.web.http.tls.source.is_some();
        let listen = if is_secure { &self.tls_listen } else { &self.listen };
        let address = listening_on.or_else(|| listen.iter().find_map(Address::tcp));
        let address = reachable(address.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 8080).into()));
        let scheme = if is_secure { "https" } else { "http" };
        let base_url = self.base_url.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        tls::complete_redirect(&mut self.web.http.tls, &base_url, address);
        self.agents.origin = agent_signature::SiteOrigin::from_url(&base_url);
        for channel in &mut self.visitor_channels {
            if let TransportOptions::Visitor(visitor) = &mut channel.kind {
                visitor.link = format!("{base_url}{}", pages::CONFIRM_PATH);
            }
        }
        self.canary.base_url.clone_from(&base_url);
        self.canary.forms = self.pages.form_set.iter().collect();
        self.pages.base_url = base_url;
        self
    }

    /// The domain of the inbox, with its port unless that is 443. The port is `own_port`, the actual port of
    /// the inbox's own listener, or else that of `inbox.listen`, or else [`Config::public_tls_port`]. `None`
    /// without a domain.
    pub fn inbox_authority(&self, own_port: Option<u16>) -> Option<String> {
        let domain = self.web.inbox_pages.domain.as_ref()?;
        let configured = self.inbox_listen.as_ref().and_then(Address::tcp).map(|address| address.port());
        let port = own_port.or(configured).unwrap_or_else(|| self.public_tls_port());
        Some(if port == 443 { domain.to_string() } else { format!("{domain}:{port}") })
    }

    /// The port of the base URL if its scheme is https, or else of the first TLS address, or else 443.
    pub fn public_tls_port(&self) -> u16 {
        let of_url = self.pages.base_url.strip_prefix("https://").map(|_| {
            let rest = self.pages.base_url.rsplit_once(':').map(|(_, port)| port.parse().ok());
            rest.flatten().unwrap_or(443)
        });
        let listening = self.tls_listen.iter().find_map(Address::tcp).map(|address| address.port());
        of_url.or(listening).unwrap_or(443)
    }
}
