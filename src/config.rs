//! Reads `frontdesk.toml`, environment variables and flags into typed options, and reports every fault.
//!
//! Each key is declared once, where it is read: its name, default, documentation, and whether a change needs
//! a restart. Environment variables, the check for unknown keys, `frontdesk config`, the starter file and
//! reloads are all derived from the declarations.

#![expect(clippy::disallowed_methods, reason = "drafts and dates are compared with the current time")]

mod brand;
mod channel;
mod form_posts;
mod inbox;
mod limits;
mod named_file;
mod own_tables;
mod reader;
mod secret_file;
mod security;
mod server;
mod starter;
mod syntax;
mod tls;
mod value;
mod visitor;
mod words;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::Level;

pub use self::limits::LimitValues;
pub use self::reader::{FILE_NAME, Flag, Setting};

use self::reader::{ReadResult, Reader, ValueOrigin, fault_of, key};
use self::secret_file::SecretFile;
use self::value::Raw;
use crate::app::{self, agent};
use frontdesk_deliver::maintenance::MaintenanceOptions;
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_forms::{FORMS, WAITLIST};
use frontdesk_http::Address;
use frontdesk_inbox::intake::IntakeOptions;
use frontdesk_inbox::screening;
use frontdesk_inbox::store::disk::Space;
use frontdesk_inbox::store::{DatabaseUrl, StoreOptions};
use frontdesk_inbox::submission::delivery::Route;
use frontdesk_inbox::submission::verdict::Signal;
use frontdesk_site::fault::Fault;
use frontdesk_site::resources;
use frontdesk_site::{self as pages, FooterGroup, FooterLink, Operator, PrivatePath, PublicationOptions};

/// Maximum retention period of submissions: about a century.
const MAX_RETENTION: Duration = Duration::from_hours(24 * 36_500);

/// Maximum value of a threshold or of a signal's points; the default thresholds are 50 and 100.
const MAX_POINTS: i64 = 1000;

/// Maximum number of files in a folder among which [`hint_at_site`] looks for a site.
const MAX_SIBLINGS: usize = 1000;

/// The options of all modules, read from one configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The public address of the site, if configured or derived from the first ACME domain.
    pub base_url: Option<String>,
    pub listen: Vec<Address>,
    pub tls_listen: Vec<Address>,
    /// The address of the private listener, if it is enabled.
    pub ops_listen: Option<Address>,
    /// The address of the inbox's web interface, if it is enabled.
    pub inbox_listen: Option<Address>,
    pub web: app::WebOptions,
    /// Options for the pages. [`Config::with_base_url`] fills in their base URL.
    pub pages: pages::PagesOptions,
    /// Options for the resources. [`Config::with_base_url`] fills in their base URL.
    pub resources: resources::ResourceOptions,
    /// The folder for a SQLite inbox and for the server's caches.
    pub data_dir: PathBuf,
    pub store: StoreOptions,
    pub intake: IntakeOptions,
    pub channels: Vec<ChannelOptions>,
    /// The channels that send mails to visitors, not to the team.
    pub visitor_channels: Vec<ChannelOptions>,
    pub maintenance: MaintenanceOptions,
    pub limits: LimitValues,
    /// Agents whose signatures are verified. [`Config::with_base_url`] fills in the site's origin.
    pub agents: agent::AgentOptions,
    pub log: LogOptions,
    /// The folders whose files are published. They need not exist.
    pub served_folders: Vec<PathBuf>,
    /// The effective settings in the order of the documentation.
    pub settings: Vec<Setting>,
    secret_files: Vec<SecretFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    pub format: LogFormat,
    pub level: Level,
}

impl Config {
    /// Reads the configuration of the site in `folder`. Flags override the environment, which overrides the
    /// file. An invalid value is replaced by the default; if one of the faults is an error, the configuration
    /// must not be used to serve.
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
        let (config, mut faults) = Self::read(reader, folder);
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
            // Other faults would only follow from this one.
            faults = vec![Fault::error(path, None, message).hint(hint)];
        }
        (config, faults)
    }

    /// Like [`Config::load`], but reads from `text`.
    pub fn parse(
        text: &str,
        folder: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> (Self, Vec<Fault>) {
        Self::read(Reader::new(text, folder, environment, flags, &[]), folder)
    }

    /// The `frontdesk.toml` of a new site, with the documentation of every key.
    pub fn starter_file() -> String {
        starter::render(&Self::parse(starter::CHANNELS, Path::new(""), [], &[]).0.settings)
    }

    /// Reads every key from `reader`, in the order of the documentation.
    #[expect(
        clippy::too_many_lines,
        reason = "the declarations of many keys, in the order of the starter file"
    )]
    fn read(mut reader: Reader<'_>, folder: &Path) -> (Self, Vec<Fault>) {
        let r = &mut reader;
        let base_url = r.get(
            key("base_url").with_example("\"https://www.example.com\""),
            "",
            "The public address of the site. Links in Markdown, sitemaps and feeds begin with it. If unset, \
             the first name in `tls.acme_domains` is used, or the address that the server listens on, which \
             is wrong behind a proxy.",
            value::base_url,
        );
        let (mut pages, security_email) = read_site(r, folder);
        pages.allowed = security::read(r);
        let (listen, ops_listen, mut web) = server::read(r, folder);
        web.content_security_policy = app::content_security_policy(&pages.allowed);
        let data_dir = r.folder(
            key("store.data_dir").needs_restart(),
            &default_data_dir(folder),
            "The folder for submissions, relative to this folder. Back it up; keep it out of version control.",
        );
        let url = r.get(
            key("store.url").needs_restart(),
            "sqlite:inbox.sqlite",
            "The database: a file, relative to the data folder, or a PostgreSQL server that several machines \
             share, such as \"postgres://frontdesk@db.example.com/frontdesk\" (docs/pages/scale.md). \
             FRONTDESK_STORE__URL_FILE names a file with the URL, including its password.",
            value::database_url,
        );
        let url = resolve_database_path(&data_dir, url);
        // Neither an inbox nor a Maildir may be inside a folder whose files are served.
        let build = pages.build.iter().map(|build| build.folder.clone());
        let served_folders: Vec<PathBuf> =
            pages::SITE_FOLDERS.iter().map(|part| folder.join(part)).chain(build).collect();
        let is_served = |path: &Path| pages::find_containing_folder(path, &served_folders).is_some();
        r.refuse_if(
            is_served(&data_dir) || url.file().is_some_and(is_served),
            "store.data_dir",
            "must not be inside a folder that is published",
        );
        let mut maintenance = read_maintenance(r);
        let (tls_listen, tls) = tls::read(r, folder, &data_dir);
        web.http.tls = tls;
        let inbox_listen;
        (inbox_listen, web.inbox_pages) = inbox::read(r, folder);
        let others = listen.iter().chain(&tls_listen).chain(&ops_listen);
        inbox::refuse_shared_address(r, inbox_listen.as_ref(), others);
        let duplicate_window = r.get(
            "forms.duplicate_window",
            "24h",
            "A contact message with the same content as another one within this time is a repeat, and is not \
             delivered again.",
            value::duration(Duration::from_mins(1)..=Duration::from_hours(30 * 24)),
        );
        web.forms = form_posts::read(r);
        pages.html_posts = web.forms.html_posts;
        web.confirm_timeout = r.get(
            "forms.confirm_timeout",
            "15s",
            "How long a form with `accept = \"delivered\"` waits for a channel to confirm a submission.",
            value::duration(server::timeout_range(1)),
        );
        let mut documentation = "When the form answers 200: \"kept\", once the submission is stored safely; \
             \"delivered\", once a channel has confirmed it as well. Without a confirmation in time, and for a \
             held submission, the form then answers 500; a second attempt is recognized as a repeat. With \
             \"delivered\", the response time reveals whether an address was already on the list.";
        let mut visitor_keys = visitor::VisitorKeys::read(r);
        for form in FORMS {
            let is_confirmed = r.get(
                format!("forms.{}.accept", form.name),
                "kept",
                std::mem::take(&mut documentation),
                value::one_of(&[("kept", false), ("delivered", true)]),
            );
            web.confirmed_forms.extend(is_confirmed.then_some(form.name));
            visitor_keys.read_form(r, form.name);
        }
        maintenance.digest_at = r.get(
            "digest.at",
            "07:00",
            "The time of day, in UTC, at which the team gets a digest if submissions are held or parked, a \
             channel fails, or disk space is low; \"off\" disables it.",
            value::optional_time,
        );
        let limits = limits::read_limits(r);
        let agents = read_agent_options(r);
        let screening = read_screening(r);
        let log = read_log_options(r, &mut web);
        let signals = read_content_signals(r);
        pages.words = words::read(r);
        // A build needs no name or description in the configuration: its home page has both.
        let has_own_pages = pages.build.is_none();
        r.warn_if(
            has_own_pages && pages.title.is_empty(),
            "operator.name",
            "neither `operator.name` nor `site.title` is set",
            "pages, guides and feeds need a name",
        );
        r.warn_if(
            has_own_pages && pages.description.is_empty(),
            "site.description",
            "`site.description` is not set",
            "set it to one or two sentences: llms.txt and the feed begin with them",
        );
        r.warn_if(
            has_own_pages && pages.operator.email.is_empty(),
            "operator.email",
            "`operator.email` is not set",
            "forms show this address if they cannot be sent, and security.txt needs a contact",
        );
        let defaults = channel::ChannelDefaults { email: &pages.operator.email, title: &pages.title };
        let channels = channel::read(r, &defaults);
        for channel in &channels {
            if let TransportOptions::Maildir(maildir) = &channel.kind {
                r.refuse_if(
                    is_served(&maildir.path),
                    &format!("channel.{}.path", channel.name),
                    "must not be inside a folder that is published",
                );
            }
        }
        pages.confirms_waitlist = visitor_keys.confirm.is_some();
        r.warn_if(
            pages.confirms_waitlist && base_url.is_empty() && tls::acme_base_url(&web.http.tls).is_none(),
            "base_url",
            "`base_url` is not set, so the links in mails to visitors point to the address that the server listens on",
            "set it to the site's public address, such as \"https://www.example.com\"",
        );
        let visitor_channels = visitor::read_channels(r, folder, &visitor_keys, &channels, &pages);
        let route = |channel: &ChannelOptions| {
            let route = channel.route();
            Route { quota: route.quota.filter(|_| limits.requests.enabled), ..route }
        };
        let store =
            StoreOptions { url, channels: channels.iter().chain(&visitor_channels).map(route).collect() };
        let intake = IntakeOptions {
            duplicate_window,
            retention: maintenance.retention,
            recipient: maintenance.recipient.clone(),
            screening,
            form_quota: limits.requests.form_quota(),
            ..IntakeOptions::default()
        };
        web.inbox.clone_from(&store.url);
        web.inbox_pages.channels.clone_from(&channels);
        web.inbox_pages.title.clone_from(&pages.title);
        web.channels = store.channels.iter().map(|channel| channel.name.clone()).collect();
        r.refuse_if(
            visitor_keys.confirm.is_some() && web.confirmed_forms.contains(&WAITLIST.name),
            "forms.waitlist.accept",
            "cannot be \"delivered\" with `forms.waitlist.confirm`: nothing is delivered before the visitor confirms the address",
        );
        for form in &web.confirmed_forms {
            r.refuse_if(
                !store.channels.iter().any(|channel| channel.accepts(form)),
                &format!("forms.{form}.accept"),
                "is \"delivered\", but no `[[channel]]` accepts this form",
            );
        }
        r.refuse_if(
            !web.confirmed_forms.is_empty() && web.http.timeouts.exchange <= web.confirm_timeout + web.http.timeouts.body,
            "server.exchange_timeout",
            "must be longer than `forms.confirm_timeout` and `server.body_timeout` together, or a client waiting for a confirmation gets no response",
        );
        let source = limits.requests.source;
        let resources = resources::ResourceOptions {
            security_email,
            signals,
            quotas: limits.requests.enabled.then_some((source.per_minute, source.per_hour)),
            html_posts: web.forms.html_posts,
            duplicate_window: intake.duplicate_window,
        };
        let ReadResult { settings, secret_files, named_files, faults } = reader.finish();
        pages.publication.private = private_files(folder, &data_dir, &store.url, named_files);
        let config = Self {
            data_dir,
            base_url: Some(base_url).filter(|url| !url.is_empty()),
            listen,
            tls_listen,
            ops_listen,
            inbox_listen,
            web,
            pages,
            resources,
            store,
            intake,
            channels,
            visitor_channels,
            maintenance,
            limits,
            agents,
            log,
            served_folders,
            settings,
            secret_files,
        };
        (config.with_effective_values(), faults)
    }

    /// Records the effective values of keys that depend on the machine or on other keys.
    fn with_effective_values(mut self) -> Self {
        let bytes = |bytes: u64| format!("{bytes} bytes");
        let space =
            self.store.url.file().and_then(Path::parent).and_then(|folder| Space::sample(folder).ok());
        let reserve = space.map(|space| bytes(self.maintenance.min_free.bytes(space.size)));
        let per_network =
            self.web.http.max_connections_per_network.max(self.web.http.max_connections_per_source);
        let effective = [
            ("base_url", Some(format!("{:?}", self.clone().with_base_url(None).pages.base_url))),
            ("operator.security_email", Some(format!("{:?}", self.resources.security_email))),
            ("server.workers", Some(self.web.http.workers.to_string())),
            ("server.max_connections_per_network", Some(per_network.to_string())),
            ("server.max_memory", self.web.http.max_memory.map(bytes)),
            ("store.data_dir", Some(format!("{:?}", self.data_dir.display().to_string()))),
            ("store.url", self.store.url.file().map(|file| format!("\"sqlite:{}\"", file.display()))),
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
        value::database_url(&Raw::Text(url.to_owned()))
            .map(|place| resolve_database_path(&self.data_dir, place))
    }

    /// The folder that contains a SQLite inbox, otherwise the data folder.
    pub fn inbox_folder(&self) -> &Path {
        self.store.url.file().and_then(Path::parent).unwrap_or(&self.data_dir)
    }

    fn find_setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key.name == key)
    }

    /// The keys whose values differ from those of the running server and take effect only after a restart.
    pub fn keys_needing_restart(&self, running: &Self) -> Vec<&str> {
        let differs = |setting: &&Setting| {
            setting.key.needs_restart
                && !running.find_setting(&setting.key.name).is_some_and(|its| its.equals(setting))
        };
        self.settings.iter().filter(differs).map(|setting| &*setting.key.name).collect()
    }

    /// Returns a warning if the operator has set `server.max_memory` too low for bodies of `site` bytes.
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
        let hint = format!("set at least {}MB, plus memory for connections", needed.div_ceil(1_000_000));
        vec![fault_of(&self.settings, "server.max_memory", Fault::warning, message).hint(hint)]
    }

    /// Returns faults in the certificate, its key and the base URL. Call [`Config::with_base_url`] first.
    /// Separate from loading, so that most commands need no permission to read the key.
    pub fn certificate_faults(&self) -> Vec<Fault> {
        tls::certificate_faults(&self.web.http.tls, &self.pages.base_url, &self.settings)
    }

    /// Returns a warning for each file that contains a secret and is readable by every user of this machine.
    pub fn exposed_secrets(&self) -> Vec<Fault> {
        self.secret_files.iter().filter_map(SecretFile::exposure).collect()
    }

    /// Whether both configurations deliver the same messages to the same destinations.
    pub fn delivers_like(&self, other: &Self) -> bool {
        // These keys affect only requests. A message may contain the value of any other key.
        let of_requests = |key: &str| {
            let table = key.split('.').next().unwrap_or_default();
            ["site.footer", "site.publish", "site.search", "site.posts_per_page", "site.extra"].contains(&key)
                || ["forms.html_posts", "forms.allowed_origins"].contains(&key)
                || [
                    "server",
                    "limits",
                    "content_signals",
                    "screening",
                    "agents",
                    "tls",
                    "log",
                    "security",
                    "words",
                    "redirects",
                    "inbox",
                ]
                .contains(&table)
        };
        let text = |channel: &ChannelOptions| match &channel.kind {
            TransportOptions::Visitor(visitor) => Some(visitor.text.clone()),
            _ => None,
        };
        self.has_same_values(other, |key| !of_requests(key))
            && self.visitor_channels.iter().map(text).eq(other.visitor_channels.iter().map(text))
    }

    /// Whether both configurations have the same values for all keys that `concerns` selects.
    pub fn has_same_values(&self, other: &Self, concerns: impl Fn(&str) -> bool) -> bool {
        let ours = self.settings.iter().filter(|setting| concerns(&setting.key.name));
        let theirs = other.settings.iter().filter(|setting| concerns(&setting.key.name));
        ours.clone().count() == theirs.clone().count()
            && ours.zip(theirs).all(|(our, their)| our.equals(their))
    }

    /// Fills in the base URL: `base_url`, or else the first ACME domain, or else the address `listening_on`,
    /// which defaults to the first configured TCP address.
    #[must_use]
    pub fn with_base_url(mut self, listening_on: Option<SocketAddr>) -> Self {
        let is_secure = self.web.http.tls.source.is_some();
        let listen = if is_secure { &self.tls_listen } else { &self.listen };
        let configured = listen.iter().find_map(|address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        });
        let mut address =
            listening_on.or(configured).unwrap_or_else(|| (std::net::Ipv4Addr::LOCALHOST, 8080).into());
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        self.base_url = self.base_url.or_else(|| tls::acme_base_url(&self.web.http.tls));
        let scheme = if is_secure { "https" } else { "http" };
        let base_url = self.base_url.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        tls::complete_redirect(&mut self.web.http.tls, &base_url, address);
        self.agents.origin = agent::SiteOrigin::from_url(&base_url);
        for channel in &mut self.visitor_channels {
            if let TransportOptions::Visitor(visitor) = &mut channel.kind {
                visitor.link = format!("{base_url}{}", pages::CONFIRM_PATH);
            }
        }
        self.pages.base_url = base_url;
        self
    }
}

/// Advice for a command on `folder`, which is not a site: names the site above it, or the only one in it.
fn hint_at_site(folder: &Path) -> String {
    let is_site = |folder: &PathBuf| folder.join(FILE_NAME).is_file();
    let above = match folder.components().next_back() {
        Some(std::path::Component::Normal(_)) => folder.parent().map(Path::to_owned),
        _ => Some(folder.join("..")),
    };
    let inside = std::fs::read_dir(folder).into_iter().flatten().take(MAX_SIBLINGS).flatten();
    let inside: Vec<PathBuf> = inside.map(|entry| entry.path()).filter(is_site).collect();
    let only = if inside.len() == 1 { inside.into_iter().next() } else { None };
    let shown = |site: PathBuf| match site.strip_prefix(".").unwrap_or(&site) {
        here if here.as_os_str().is_empty() => ".".to_owned(),
        site => site.display().to_string(),
    };
    let source = Some(folder).filter(|folder| pages::has_home_page(folder)).and_then(pages::find_source);
    match above.filter(is_site).or(only).map(shown) {
        Some(site) => format!("there is a site in {site}: name this folder in the command"),
        None if let Some(source) = source => {
            format!(
                "the folder has an index.html, but {} is a source without its HTML; to serve the folder as the output of a \
                 site generator all the same, `frontdesk init desk --prebuilt {}` writes a configuration beside it",
                source.display(),
                folder.display()
            )
        }
        None => {
            format!(
                "is {} a site folder? `frontdesk init DIR` writes a small site to start from",
                folder.display()
            )
        }
    }
}

/// Resolves the path of a SQLite file against the data folder.
fn resolve_database_path(data_dir: &Path, place: DatabaseUrl) -> DatabaseUrl {
    match place {
        DatabaseUrl::Sqlite(path) => DatabaseUrl::Sqlite(data_dir.join(path)),
        place @ DatabaseUrl::Postgres(_) => place,
    }
}

/// Reads `[operator]` and `[site]`. Also returns the contact address for security.txt.
#[expect(clippy::too_many_lines, reason = "the declarations of many keys, in the order of the starter file")]
fn read_site(r: &mut Reader<'_>, folder: &Path) -> (pages::PagesOptions, String) {
    let operator = Operator {
        name: r.get(
            key("operator.name").set_in_starter_file("\"Example\""),
            "",
            "The company that runs this website, and the e-mail address of its team. The forms show the \
             address, also where they cannot be sent.",
            value::parse_line,
        ),
        email: r.get(
            key("operator.email").set_in_starter_file("\"hello@example.com\""),
            "",
            "",
            value::email,
        ),
        console_url: r.get(
            "operator.console_url",
            "",
            "The URL where customers sign in; if set, pages and agents.md link to it.",
            value::web_address,
        ),
    };
    let security_email = r.get(
        "operator.security_email",
        "",
        "The address for vulnerability reports (security.txt); `email` if empty.",
        value::email,
    );
    let security_email = if security_email.is_empty() { operator.email.clone() } else { security_email };
    let title = r.get(key("site.title").set_in_starter_file("\"Example\""), "", "", value::parse_line);
    let tagline = r.get(
        key("site.tagline").set_in_starter_file("\"A small site to begin with\""),
        "",
        "",
        value::parse_line,
    );
    let description = r.get(key("site.description").set_in_starter_file(
            "\"Example is a small website with a page, a post and two forms, served to people and to agents.\"",
        ), "", "", value::parse_line);
    let language =
        r.get("site.language", "en", "A language tag, such as \"en\" or \"de-CH\".", value::language);
    let languages = r.get(
        key("site.languages").with_example("[\"en\", \"de\"]"),
        "[]",
        "All languages, if there are several. Pages in pages/de/ and posts in posts/de/ are in German, at /de/; \
         `language` needs no folder.",
        value::languages,
    );
    r.refuse_if(
        !languages.is_empty() && !languages.contains(&language),
        "site.languages",
        "must contain `site.language`, the language of pages outside the other languages' folders",
    );
    let mut build = read_build_options(r, folder);
    let publish = r.get(
        key("site.publish").with_example("[\"static/sample.sqlite\", \".nojekyll\"]"),
        "[]",
        "Files to publish although their names, modes or contents suggest that they are private, such as backups, \
         databases and hidden files: paths relative to the build or to this folder, in which `*` stands for any \
         characters of a name and `**` for any folders. `frontdesk check` lists what is not published \
         (docs/pages/security.md#what-is-published).",
        parse_publish,
    );
    let publish = (!publish.is_empty()).then(|| r.place("site.publish", publish));
    let search = r.get(
        "site.search",
        "auto",
        "Whether visitors can search the pages: true, false, or \"auto\", which means that the site has ten pages or \
         more (docs/pages/search.md).",
        |raw| match raw.as_text() {
            Some("auto") => Ok(None),
            _ => value::parse_bool(raw).map(Some).map_err(|_| "\"auto\", true or false".to_owned()),
        },
    );
    let posts_per_page = r.get(
        "site.posts_per_page",
        "20",
        "The number of posts on each page of the blog and of a tag; 0 puts all posts on one page.",
        value::count(0..=1000),
    );
    let footer = r.get(
        key("site.footer").set_in_starter_file(STARTER_FOOTER),
        "[]",
        "Groups of links in the footer. A link is the path of a page, or { title, href } for any other \
         address.",
        parse_footer,
    );
    let extra = own_tables::read_extra(r);
    let brand = brand::read(r);
    let main = r.get(
        key("convert.main").with_example("\"main, .content\""),
        "",
        "CSS selectors for pages in `site.prebuilt`: the main content, which is detected if this is empty, and \
         elements to leave out of the Markdown. Try them with `frontdesk convert`.",
        value::css_selector,
    );
    let exclude = r.get(key("convert.exclude").with_example("\".advert\""), "", "", value::css_selector);
    if let Some(build) = &mut build {
        (build.main, build.exclude) = (main, exclude);
    }
    let now = jiff::Timestamp::now();
    let redirects = own_tables::read_redirects(r);
    let pages = pages::PagesOptions {
        title: if title.is_empty() { operator.name.clone() } else { title },
        description: if description.is_empty() { tagline.clone() } else { description },
        tagline,
        language,
        languages,
        words: Vec::new(),
        base_url: String::new(),
        operator,
        brand,
        footer,
        home_links: resources::home_links(),
        today: now.to_zoned(jiff::tz::TimeZone::UTC).date(),
        now: Some(now),
        shows_unpublished: false,
        has_reload_script: false,
        allowed: pages::AllowedHosts::default(),
        reserved: resources::reserved_paths(),
        build,
        publication: PublicationOptions { private: Vec::new(), publish },
        redirects,
        search,
        posts_per_page,
        html_posts: false,
        confirms_waitlist: false,
        extra,
    };
    (pages, security_email)
}

/// Reads the options of `site.prebuilt`, or of a site folder that is itself a build; `None` for other sites.
fn read_build_options(r: &mut Reader<'_>, folder: &Path) -> Option<pages::BuildOptions> {
    let prebuilt = r.served_folder(
        key("site.prebuilt").with_example("\"dist\""),
        "The folder with the output of a site generator, relative to this folder. Its pages are served \
         unchanged, and as Markdown to agents (docs/pages/any-site.md).",
    );
    let mount = r.get(
        key("site.prebuilt_path").with_example("\"/docs/\""),
        "/",
        "The path at which the generator's output is published: the base path that it was built for.",
        value::parse_mount,
    );
    let rules = r.get(
        "site.rules",
        "netlify",
        "The dialect of `_redirects` and `_headers` in that folder: \"netlify\" or \"cloudflare\".",
        value::one_of(&[
            ("netlify", pages::RulesDialect::Netlify),
            ("cloudflare", pages::RulesDialect::Cloudflare),
        ]),
    );
    let adds_link_element = r.get(
        "site.link_element",
        "false",
        "Whether the HTML of each page in that folder gets a link to its Markdown. The `Link` header always \
         has one.",
        value::parse_bool,
    );
    let folder = prebuilt.or_else(|| pages::is_build(folder).then(|| folder.to_owned()))?;
    let (main, exclude) = (String::new(), String::new());
    Some(pages::BuildOptions { folder, mount, rules, main, exclude, adds_link_element })
}

const STARTER_FOOTER: &str = r#"[[site.footer]]
title = "Company"
links = ["/contact/", "/waitlist/"]

[[site.footer]]
title = "For machines"
links = [{ title = "llms.txt", href = "/llms.txt" }, { title = "OpenAPI", href = "/openapi.json" }, { title = "RSS feed", href = "/blog/rss.xml" }]"#;

/// The default data folder: `data` in the site's folder. For a build, a folder beside it, because a rebuild
/// removes everything in the build's folder.
fn default_data_dir(folder: &Path) -> String {
    let beside = || {
        let folder = std::path::absolute(folder).ok()?;
        let name = folder.file_name()?.to_str()?;
        Some(folder.with_file_name(format!("{name}-data")).to_str()?.to_owned())
    };
    Some(folder).filter(|folder| pages::is_build(folder)).and_then(|_| beside()).unwrap_or("data".to_owned())
}

/// The operator's files and folders: the configuration, the files of the inbox `url`, the data folder, and
/// those that keys name.
fn private_files(
    folder: &Path,
    data_dir: &Path,
    url: &DatabaseUrl,
    named: Vec<PrivatePath>,
) -> Vec<PrivatePath> {
    let private = |path: PathBuf, reason: &str, has_companions| PrivatePath {
        path,
        reason: reason.to_owned(),
        has_companions,
    };
    let own = [
        private(folder.join(FILE_NAME), "it is the configuration of this site", false),
        // The site's folder may be inside its build, and the site inside its data folder, so the files in the
        // data folder are listed too.
        private(folder.to_owned(), "it is the folder of this site", false),
        private(data_dir.join("acme"), "it has keys of certificates", false),
    ];
    let database = url.file().map(|file| private(file.to_owned(), "it belongs to the inbox", true));
    let authorities = url.ca_file().map(|file| private(file.to_owned(), "`store.url` names it", false));
    own.into_iter().chain(database).chain(authorities).chain(named).collect()
}

/// Reads the keys of `[store]` that control disk space, retention and encryption.
fn read_maintenance(r: &mut Reader<'_>) -> MaintenanceOptions {
    let retention = || value::off_or(value::duration(Duration::from_hours(24)..=MAX_RETENTION));
    MaintenanceOptions {
        min_free: r.get(
            "store.min_free",
            "auto",
            "Disk space to keep free on the database's file system: \"auto\" (5 %, at most 1 GiB), a size \
             such as \"2GiB\", or \"off\". While less is free, submissions of more than 4 KiB are refused \
             with 500; smaller ones are accepted until the disk is full. It has no effect with PostgreSQL.",
            value::min_free,
        ),
        retention: r.get(
            "store.retention",
            "off",
            "How long submissions are kept, such as \"365d\"; \"off\" keeps them forever. Pending, held and \
             parked submissions are kept longer. If the same content arrives after half of this time, \
             it is a new submission.",
            retention(),
        ),
        retention_held: r.get(
            "store.retention_held",
            "off",
            "How long held submissions are kept, such as \"30d\", counted from when they were held; \"off\" \
             keeps them until you release or discard them.",
            retention(),
        ),
        retention_unconfirmed: r.get(
            "store.retention_unconfirmed",
            "off",
            "How long waitlist entries are kept after the link that confirms their address has expired, such as \
             \"30d\"; \"off\" keeps them like held submissions.",
            retention(),
        ),
        recipient: r.get(
            "store.recipient",
            "",
            "Your public key from `age-keygen`. Names, addresses and messages are encrypted to it after \
             delivery, so this server can no longer read them. A held submission that a channel would \
             deliver after its release stays readable until then. With `--identity FILE`, `frontdesk inbox` \
             decrypts them with your secret key.",
            value::optional(value::recipient),
        ),
        digest_at: None,
    }
}

fn read_agent_options(r: &mut Reader<'_>) -> agent::AgentOptions {
    let agents = agent::AgentOptions {
        directories: r.get(
            "agents.directories",
            "[]",
            "Hosts of key directories. Agents that sign their requests (Web Bot Auth) are recognized by a \
             key in one of them, and their submissions are labelled with the directory. Signing is optional \
             (docs/pages/agents.md).",
            channel::parse_directories,
        ),
        allow_private: r.get(
            "agents.allow_private",
            "false",
            "Whether a directory may be in a private network, and a PEM file with your own certificate authority.",
            value::parse_bool,
        ),
        extra_roots: channel::read_pem(r, "agents.ca_file", "").map(|(_, roots)| roots),
        origin: agent::SiteOrigin::from_url(""),
        key_timeout: agent::KEY_TIMEOUT,
    };
    for url in &agents.directories {
        channel::refuse_unreachable(r, "agents.directories", url, agents.allow_private);
    }
    agents
}

/// Reads `[screening]`, including the points for each signal that has default points.
fn read_screening(r: &mut Reader<'_>) -> screening::ScreeningOptions {
    let mut options = screening::ScreeningOptions {
        enabled: r.get(
            "screening.enabled",
            "true",
            "Submissions that look like spam are marked as suspicious in their delivery, or held until you \
             release them: docs/pages/screening.md. None are dropped.",
            value::parse_bool,
        ),
        suspicious_threshold: r.get(
            "screening.suspicious_threshold",
            "50",
            "The scores at which a submission is marked as suspicious, and at which it is held.",
            value::count(1..=MAX_POINTS),
        ),
        threshold: r.get("screening.threshold", "100", "", value::count(1..=MAX_POINTS)),
        points: screening::Points::default(),
        disposable: read_domains(
            r,
            "screening.disposable_domains",
            "Files with one domain per line, relative to this folder: providers of disposable addresses in \
             addition to the built-in list (`-example.com` removes a domain from it), and domains to block: a \
             submission with an address at one, or a link to one, is always held.",
        ),
        blocked: read_domains(r, "screening.blocked_domains", ""),
    };
    let mut documentation = "The most points that each signal adds; 0 switches it off.";
    for signal in Signal::ALL {
        if let Some(points) = signal.default_points() {
            let name = format!("screening.points.{}", signal.name().replace('-', "_"));
            let (default, documentation) = (points.to_string(), std::mem::take(&mut documentation));
            let points = r.get(name, &default, documentation, value::count(0..=MAX_POINTS));
            options.points.set(signal, points);
        }
    }
    options
}

/// Reads the domains from the file that the key `name` specifies. Returns no domains if the key is not set,
/// or, after recording an error, if the file is unusable.
fn read_domains(r: &mut Reader<'_>, name: &'static str, documentation: &'static str) -> screening::Domains {
    let path = r.file(name, documentation);
    let Some(path) = path else { return screening::Domains::default() };
    let text = named_file::read_text(&path).map_err(|error| format!("cannot be read: {error}"));
    let domains = text.and_then(|text| screening::Domains::parse(&text).map_err(|fault| fault.to_string()));
    domains.map_err(|fault| r.refuse_if(true, name, &fault)).unwrap_or_default()
}

/// Reads `[log]`. Also sets whether the web server logs requests.
fn read_log_options(r: &mut Reader<'_>, web: &mut app::WebOptions) -> LogOptions {
    let formats = [("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)];
    let levels = [
        ("error", Level::ERROR),
        ("warn", Level::WARN),
        ("info", Level::INFO),
        ("debug", Level::DEBUG),
        ("trace", Level::TRACE),
    ];
    let log = LogOptions {
        format: r.get(
            key("log.format").needs_restart(),
            "auto",
            "The format of the log on standard error: \"text\" for people, \"json\" for programs, one object \
             per line; \"auto\" is text on a terminal and JSON elsewhere.",
            value::one_of(&formats),
        ),
        level: r.get(
            key("log.level").needs_restart(),
            "info",
            "The minimum level: \"error\", \"warn\", \"info\", \"debug\" or \"trace\". No level logs a \
             submission's content or a visitor's identity.",
            value::one_of(&levels),
        ),
    };
    web.log_requests = r.get(
        "log.requests",
        "false",
        "Whether each request is logged, with its response and duration but without the client.",
        value::parse_bool,
    );
    log
}

/// Reads `[content_signals]`: whether crawlers may use the content for search, for answers and for training.
fn read_content_signals(r: &mut Reader<'_>) -> resources::ContentSignals {
    let mut signal = |name, example, documentation| {
        r.get(key(name).with_example(example), "", documentation, value::optional(value::parse_bool))
    };
    resources::ContentSignals {
        search: signal(
            "content_signals.search",
            "true",
            "Your preferences for automated use of the content, which robots.txt states (Content-Signal): \
             building a search index, using pages as input for an answer, and training models. An unset key \
             states none. `ai_train = false` also asks crawlers that collect training data to stay away.",
        ),
        ai_input: signal("content_signals.ai_input", "true", ""),
        ai_train: signal("content_signals.ai_train", "false", ""),
    }
}

/// Parses paths of files, with wildcards.
fn parse_publish(raw: &Raw) -> Result<Vec<String>, String> {
    let expected =
        "a list of paths relative to the build or to this folder, such as [\"static/sample.sqlite\"]";
    value::parse_items(raw, expected, |item| {
        let is_path = |part: &str| part != ".." && !part.contains('\0');
        (!item.is_empty() && item.split('/').all(is_path)).then(|| item.to_owned())
    })
}

/// Parses groups, each with a title and links. A link is a path, or a table with `title` and `href`.
fn parse_footer(raw: &Raw) -> Result<Vec<FooterGroup>, String> {
    let expected = || {
        "groups `[[site.footer]]`, each with a `title`, `links` and optionally a `lang`; a link is a path such as \"/privacy/\" or { title = \"…\", href = \"…\" }"
            .to_owned()
    };
    let read_link = |link: &Raw| {
        let link = match link {
            Raw::Text(href) => FooterLink { title: None, href: href.clone() },
            link => {
                let [title, href] = link.members(["title", "href"])?;
                FooterLink { title: Some(title.as_text()?.to_owned()), href: href.as_text()?.to_owned() }
            }
        };
        // Other links would be relative to the page that shows the footer, or would have no title.
        (link.href.starts_with('/') || (link.title.is_some() && link.href.contains(':'))).then_some(link)
    };
    let read_group = |group: &Raw| {
        let (title, links, language) = if let Some([title, links]) = group.members(["title", "links"]) {
            (title, links, None)
        } else {
            let [title, links, language] = group.members(["title", "links", "lang"])?;
            (title, links, Some(language.as_text()?.to_owned()))
        };
        let Raw::List(links) = links else { return None };
        let links = links.iter().map(read_link).collect::<Option<_>>()?;
        Some(FooterGroup { title: title.as_text()?.to_owned(), language, links })
    };
    let Raw::List(groups) = raw else { return Err(expected()) };
    groups.iter().map(read_group).collect::<Option<_>>().ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_site::fault::Severity;

    const EXAMPLE: &str = include_str!("../starter/frontdesk.toml");

    #[test]
    fn the_committed_starter_file_is_the_generated_one() {
        assert!(
            Config::starter_file() == EXAMPLE,
            "`cargo run -- init DIR` writes DIR/frontdesk.toml: copy it to starter/frontdesk.toml"
        );
    }

    #[test]
    fn the_commented_example_is_accepted_as_it_is() {
        let config = accept(EXAMPLE, &[], &[]);
        assert_eq!(config.pages.operator.email, "hello@example.com");
    }

    #[test]
    fn the_commented_example_lists_every_key_with_its_default() {
        // Uncomment every line that sets something.
        let uncommented: String = EXAMPLE
            .lines()
            .map(|line| {
                let bare = line.strip_prefix("# ").unwrap_or(line);
                let sets = bare.split_once(" = ").is_some_and(|(key, _)| {
                    key.chars().all(|c| c.is_ascii_lowercase() || "_\"/*".contains(c))
                });
                format!("{}\n", if sets || bare.starts_with('[') { bare } else { line })
            })
            .collect();
        let config = accept(&uncommented, &[], &[]);
        let missing: Vec<&str> = config
            .settings
            .iter()
            .filter(|setting| !matches!(setting.origin, ValueOrigin::File(_)))
            .map(|setting| &*setting.key.name)
            .collect();
        assert_eq!(missing, [""; 0], "keys that the example does not list");
        let defaults = accept("", &[], &[]);
        for (setting, default) in config.settings.iter().zip(&defaults.settings) {
            let own = [
                "operator.",
                "site.",
                "brand.",
                "inbox.",
                "convert.",
                "redirects",
                "content_signals.",
                "security.",
                "base_url",
                "forms.html_posts",
                "forms.allowed_origins",
            ]
            .iter()
            .any(|own| setting.key.name.starts_with(own));
            assert!(
                own || setting.value == default.value,
                "{}: {} is not the default {}",
                setting.key.name,
                setting.value,
                default.value
            );
        }
    }

    #[test]
    fn the_commented_channels_are_accepted_and_list_every_key() {
        let channels: String = EXAMPLE
            .lines()
            .filter_map(|line| line.strip_prefix("#   "))
            .map(|line| format!("{line}\n"))
            .collect();
        let channels = channels.replace("whsec_…", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let config = accept(&channels, &[], &[]);
        assert_eq!(
            config.store.channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>(),
            ["mail", "crm", "box"]
        );
        let common = ["forms", "concurrency", "daily_quota", "from", "from_name", "to"];
        for setting in config.settings.iter().filter(|setting| setting.key.name.starts_with("channel.")) {
            let is_common = common.iter().any(|key| setting.key.name.ends_with(&format!(".{key}")));
            assert!(
                is_common || matches!(setting.origin, ValueOrigin::File(_)),
                "{} is not listed",
                setting.key.name
            );
        }
    }

    #[test]
    fn the_environment_sets_a_channels_keys_and_secrets_are_hidden() {
        let file = "[[channel]]\nname = \"my-crm\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\n";
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let config = accept(file, &[("FRONTDESK_CHANNEL__MY_CRM__SECRET", key)], &[]);
        let secret =
            config.settings.iter().find(|setting| setting.key.name == "channel.my-crm.secret").unwrap();
        assert_eq!(secret.value, "\"…\"");
        assert_eq!(secret.origin.to_string(), "environment FRONTDESK_CHANNEL__MY_CRM__SECRET");
        assert!(!format!("{config:?}").contains("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        // Anyone who knows the URL of a chat service's webhook can post to it.
        let url = config.settings.iter().find(|setting| setting.key.name == "channel.my-crm.url").unwrap();
        assert_eq!(url.value, "\"…\"");
    }

    #[test]
    fn services_post_to_their_own_urls_and_show_no_token() {
        let file = |keys: &str| format!("[[channel]]\nname = \"a\"\nkind = \"webhook\"\n{keys}");
        let token = "123:sesamesesamesesamesesame";
        for (keys, expected) in [
            (
                format!("body = \"telegram\"\ntoken = \"{token}\"\nchat = -1001"),
                format!("api.telegram.org:443 /bot{token}/sendMessage"),
            ),
            (
                format!(
                    "body = \"telegram\"\nurl = \"http://localhost:81/api/\"\ntoken = \"{token}\"\nchat = \"@desk\""
                ),
                format!("localhost:81 /api/bot{token}/sendMessage"),
            ),
            (
                "body = \"ntfy\"\nurl = \"https://ntfy.sh/desk\"\ntoken = \"tk_sesame\"".to_owned(),
                "ntfy.sh:443 /".to_owned(),
            ),
            (
                "body = \"ntfy\"\nurl = \"https://example.com/push/desk\"".to_owned(),
                "example.com:443 /push/".to_owned(),
            ),
        ] {
            let config = accept(&file(&keys), &[], &[]);
            let TransportOptions::Webhook(webhook) = &config.channels[0].kind else { panic!("{keys}") };
            assert_eq!(format!("{} {}", webhook.url.host_and_port(), webhook.url.target()), expected);
            assert!(!format!("{config:?}").contains("sesame"), "{config:?}");
            let shown = config.settings.iter().any(|setting| setting.value.contains("sesame"));
            assert!(!shown, "{:?}", config.settings);
        }
    }

    #[test]
    fn every_fault_of_a_channel_has_its_line() {
        let channel = |rest: &str| format!("[[channel]]\n{rest}");
        let check = |rest: &str, expected: &[&str]| refuse(&channel(rest), &[], expected);
        check("kind = \"maildir\"\npath = \"m\"", &["frontdesk.toml:2: a `[[channel]]` needs a `name`"]);
        check("name = \"A B\"", &["frontdesk.toml:2: a `[[channel]]` needs a `name` of up to 32"]);
        check("name = \"a\"", &["frontdesk.toml: `channel.a.kind` is missing"]);
        check(
            "name = \"a\"\nkind = \"maildir\"\npath = \"static/mail\"",
            &["frontdesk.toml:4: `channel.a.path` must not be inside a folder that is published"],
        );
        check(
            "name = \"a-b\"\nkind = \"maildir\"\npath = \"m\"\n[[channel]]\nname = \"a_b\"",
            &["frontdesk.toml:6: a `[[channel]]` has the same `name` as another one"],
        );
        check(
            "name = \"a\"\nkind = \"webhook\"\nurl = \"https://169.254.169.254/\"\nallow_private = true",
            &["frontdesk.toml:4: `channel.a.url` points to a forbidden address: 169.254.169.254 belongs to"],
        );
        check("name = \"a\"\nkind = \"pigeon\"", &["frontdesk.toml:3: `channel.a.kind` must be \"smtp\""]);
        check(
            "name = \"a\"\nkind = \"maildir\"\npaht = \"m\"",
            &["frontdesk.toml:4: unknown key `channel.a.paht`"],
        );
        check(
            "name = \"a\"\nkind = \"webhook\"\nurl = \"http://hooks.example.com/\"",
            &["frontdesk.toml:4: `channel.a.url` must be a URL to post to: expected `https://`"],
        );
        check(
            "name = \"a\"\nkind = \"webhook\"\nurl = \"https://hooks.example.com/\"\nsecret = \"abc\"",
            &["frontdesk.toml:5: `channel.a.secret` must be `whsec_` and 24 to 64 random bytes"],
        );
        for (keys, expected) in [
            (
                "body = \"telegram\"",
                &["`channel.a.token` is missing: the token", "`channel.a.chat` is missing: the id"][..],
            ),
            (
                "body = \"telegram\"\ntoken = \"abc\"\nchat = 1",
                &["5: `channel.a.token` must be a bot's token"],
            ),
            (
                "body = \"telegram\"\ntoken = \"1:aaaaaaaaaaaaaaaaaaaa\"\nchat = \"ada\"",
                &["6: `channel.a.chat` must be the id of a chat"],
            ),
            ("body = \"ntfy\"", &["`channel.a.url` must be the URL of your topic"]),
            (
                "body = \"ntfy\"\nurl = \"https://ntfy.sh/\"",
                &["5: `channel.a.url` must be the URL of your topic"],
            ),
            (
                "body = \"ntfy\"\nurl = \"https://ntfy.sh/a?b\"",
                &["5: `channel.a.url` must be the URL of your"],
            ),
            (
                "body = \"ntfy\"\nurl = \"https://ntfy.sh/a\"\ntoken = \"a b\"\nchat = 1",
                &[
                    "6: `channel.a.token` must be a token",
                    "7: `channel.a.chat` is only for `body` \"telegram\"",
                ],
            ),
            (
                "body = \"slack\"\nurl = \"https://hooks.example.com/\"\ntoken = \"abc\"",
                &["6: `channel.a.token` is only for `body` \"telegram\" or \"ntfy\""],
            ),
            (
                "body = \"msn\"\nurl = \"https://hooks.example.com/\"",
                &["4: `channel.a.body` must be a body format"],
            ),
        ] {
            let expected: Vec<String> = expected
                .iter()
                .map(|text| {
                    let gap = if text.starts_with('`') { ": " } else { ":" };
                    format!("frontdesk.toml{gap}{text}")
                })
                .collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(&format!("name = \"a\"\nkind = \"webhook\"\n{keys}"), &expected);
        }
        check(
            "name = \"a\"\nkind = \"maildir\"\npath = \"m\"\nforms = [\"contcat\"]",
            &["frontdesk.toml:5: `channel.a.forms` must be a list of forms: \"waitlist\", \"contact\""],
        );
        check(
            "name = \"a\"\nkind = \"smtp\"\nhost = \"smtp.example.com\"\ntls = \"none\"\nfrom = \"a@example.com\"",
            &["frontdesk.toml:5: `channel.a.tls` may be \"none\" only"],
        );
        check(
            "name = \"a\"\nkind = \"maildir\"\npath = \"m\"\n[[channel]]\nname = \"a\"",
            &["frontdesk.toml:6: a `[[channel]]` has the same `name` as another one"],
        );
        refuse("[channel]\nname = \"a\"", &[], &["frontdesk.toml:1: `channel` must be a list of tables"]);
        refuse(
            "[forms.contact]\naccept = \"delivered\"",
            &[],
            &["frontdesk.toml:2: `forms.contact.accept` is \"delivered\", but no `[[channel]]`"],
        );
    }

    #[test]
    fn origins_of_other_sites_are_normalised_or_refused_with_their_line() {
        let config = accept("[forms]\nallowed_origins = [\"HTTPS://A.example:443\"]", &[], &[]);
        assert_eq!(config.web.forms.allowed_origins[0].as_str(), "https://a.example");
        let variable = ("FRONTDESK_FORMS__ALLOWED_ORIGINS", "https://a.example,http://localhost:4321");
        assert_eq!(accept("", &[variable], &[]).web.forms.allowed_origins.len(), 2);
        refuse(
            "[forms]\n\nallowed_origins = [\"https://a.example\", \"*\"]",
            &[],
            &[
                "frontdesk.toml:3: `forms.allowed_origins` must be a list of origins such as [\"https://www.example.com\"]; `*` is none: each origin must be named exactly",
            ],
        );
    }

    #[test]
    fn hosts_in_the_content_security_policy_are_parsed_strictly() {
        let config = accept(
            "[security]\nallow = { script = [\"https://a.example.com\"], frame = [\"https://*.example.org\"] }",
            &[("FRONTDESK_SECURITY__ALLOW__CONNECT", "https://a.example.com,https://b.example.com")],
            &[],
        );
        let policy = config.web.content_security_policy.to_str().expect("ASCII");
        for expected in [
            "script-src 'self' https://a.example.com;",
            "connect-src 'self' https://a.example.com https://b.example.com;",
            "; frame-src https://*.example.org",
        ] {
            assert!(policy.contains(expected), "{policy}");
        }
        let check = |value: &str, why: &str| {
            let text = format!("[security.allow]\nimage = {value}");
            let expected = format!(
                "frontdesk.toml:2: `security.allow.image` must be a list of HTTPS origins such as [\"https://plausible.example.com\"]{why}"
            );
            refuse(&text, &[], &[&expected]);
        };
        check("true", "");
        check("[\"data:\"]", "; `data:` is none: `data:` is a scheme, not a host");
        check("[\"*\"]", "; `*` is none: it would permit every host");
        check("[\"https://a.example.com/x\"]", "; `https://a.example.com/x` is none: it has a path");
        check(&format!("{:?}", ["https://a.example.com"; 21]), ", at most 20");
        let list = "[security]\nallow = [\"https://a.example.com\"]";
        refuse(list, &[], &["frontdesk.toml:2: `security.allow` must be a table, `[security.allow]`"]);
        refuse(
            "[security.allow]\nimgae = []",
            &[],
            &["frontdesk.toml:2: unknown key `security.allow.imgae`"],
        );
    }

    #[test]
    fn a_flag_overrides_the_environment_and_that_the_file() {
        let file = "[server]\nworkers = 1\n";
        let environment = [("FRONTDESK_SERVER__WORKERS", "2")];
        let flag = [Flag { key: "server.workers", name: "--workers", value: "3".into() }];
        assert_eq!(accept(file, &[], &[]).web.http.workers, 1);
        assert_eq!(accept(file, &environment, &[]).web.http.workers, 2);
        let config = accept(file, &environment, &flag);
        assert_eq!(config.web.http.workers, 3);
        let setting =
            config.settings.iter().find(|setting| setting.key.name == "server.workers").expect("it is there");
        assert_eq!(setting.origin.to_string(), "flag --workers");
    }

    #[test]
    fn the_environment_may_name_a_file_that_holds_the_value() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("email");
        std::fs::write(&file, "secret@example.com\n").expect("it can be written");
        let config = accept("", &[("FRONTDESK_OPERATOR__EMAIL_FILE", file.to_str().expect("a name"))], &[]);
        assert_eq!(config.pages.operator.email, "secret@example.com");
        refuse(
            "",
            &[("FRONTDESK_OPERATOR__EMAIL_FILE", "/no/such/file")],
            &["FRONTDESK_OPERATOR__EMAIL_FILE: cannot read"],
        );
    }

    #[test]
    fn all_faults_are_reported_at_once_with_line_and_hint() {
        refuse(
            "base_url = \"www.example.com\"\n\n[server]\nlisen = \"x\"\nworkers = \"many\"\nidle_timeout = 5\n\n[sever]\nx = 1\n[limits]\nenabled = 1\nper_minute = 0\n",
            &[],
            &[
                "frontdesk.toml:1: `base_url` must be",
                "frontdesk.toml:4: unknown key `server.lisen`\n    hint: did you mean `server.listen`?",
                "frontdesk.toml:5: `server.workers` must be a whole number from 0 to 1024",
                "frontdesk.toml:6: `server.idle_timeout` must be a duration",
                "frontdesk.toml:8: unknown table `[sever]`\n    hint: did you mean `[server]`?",
                "frontdesk.toml:11: `limits.enabled` must be true or false",
                "frontdesk.toml:12: `limits.per_minute` must be a whole number from 1",
            ],
        );
        refuse("[server\n", &[], &["frontdesk.toml:1: "]);
        refuse("server = 3\n", &[], &["frontdesk.toml:1: `server` must be a table"]);
        refuse(
            "[operator]\nemail = \"joe@invalid=domain.com\"\n",
            &[],
            &["frontdesk.toml:2: `operator.email` must be an e-mail address"],
        );
        refuse(
            "",
            &[("FRONTDESK_SERVER__LISTEN", "nowhere")],
            &["FRONTDESK_SERVER__LISTEN: `server.listen` must be a port"],
        );
        refuse(
            "[store]\nurl = \"postgres://example.com\"\n",
            &[],
            &[
                "frontdesk.toml:2: `store.url` must be a URL such as \"postgres://frontdesk@db.example.com/frontdesk\"; this one names no database",
            ],
        );
        refuse(
            "[limits]\nshared_url = \"redis.example.com:6379\"\n",
            &[],
            &["frontdesk.toml:2: `limits.shared_url` must be empty, or an address such as \"redis://"],
        );
        refuse(
            "[server]\ntrusted_proxies = [\"10.0.0.0/40\"]\n",
            &[],
            &["frontdesk.toml:2: `server.trusted_proxies` must be a list of addresses"],
        );
        refuse(
            "[[site.footer]]\ntitle = \"x\"\nlinks = []\ncolour = 1\n",
            &[],
            &["frontdesk.toml:1: `site.footer` must be groups"],
        );
        refuse(
            "[store]\ndata_dir = \"static/data\"\n",
            &[],
            &["frontdesk.toml:2: `store.data_dir` must not be inside a folder that is published"],
        );
        refuse(
            "[store]\nurl = \"sqlite:../static/inbox.sqlite\"\n",
            &[],
            &["frontdesk.toml: `store.data_dir` must not be inside a folder that is published"],
        );
        refuse("[[site.footer]]\ntitle = \"x\"\n", &[], &["frontdesk.toml:1: `site.footer` must be groups"]);
    }

    /// The operator's files, as `path: reason`, without the part of the path that is the site's folder.
    fn private_files_of(text: &str, environment: &[(&str, &str)], running: Option<&Config>) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(FILE_NAME), text).expect("it is written");
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (config, _) = Config::load(folder.path(), environment, &[], running);
        let shown = |own: &PrivatePath| {
            let path = own.path.strip_prefix(folder.path()).unwrap_or(&own.path).display().to_string();
            format!("{path}: {}", own.reason)
        };
        config.pages.publication.private.iter().map(shown).collect()
    }

    #[test]
    fn every_file_that_the_configuration_names_is_private() {
        let check = |text: &str, environment: &[(&str, &str)], expected: &[&str]| {
            let private = private_files_of(text, environment, None);
            for expected in expected {
                assert!(private.iter().any(|found| found == expected), "{expected} is not in {private:#?}");
            }
        };
        let own = ["frontdesk.toml: it is the configuration of this site", ": it is the folder of this site"];
        check("", &[], &own);
        check("", &[], &["data: `store.data_dir` names it", "data/inbox.sqlite: it belongs to the inbox"]);
        check("[store]\nurl = \"sqlite:/srv/inbox\"", &[], &["/srv/inbox: it belongs to the inbox"]);
        check(
            "[store]\nurl = \"postgres://u@db.example.com/x?sslrootcert=%2Fetc%2Fca.pem\"",
            &[],
            &["/etc/ca.pem: `store.url` names it"],
        );
        check(
            "[tls]\ncertificate = \"a.pem\"\nkey = \"/etc/b.pem\"\nacme_ca_file = \"c.pem\"\n\
             [agents]\nca_file = \"d.pem\"\n[limits]\nshared_ca_file = \"e.pem\"\n\
             [screening]\ndisposable_domains = \"f.txt\"\nblocked_domains = \"g.txt\"\n\
             [forms.contact]\nacknowledge = \"h.md\"\n[forms.waitlist]\nconfirm = \"i.md\"\n\
             [[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"j\"\n\
             [[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"mail.example.com\"\nca_file = \"k.pem\"\n",
            &[],
            &[
                "a.pem: `tls.certificate` names it",
                "/etc/b.pem: `tls.key` names it",
                "c.pem: `tls.acme_ca_file` names it",
                "d.pem: `agents.ca_file` names it",
                "e.pem: `limits.shared_ca_file` names it",
                "f.txt: `screening.disposable_domains` names it",
                "g.txt: `screening.blocked_domains` names it",
                "h.md: `forms.contact.acknowledge` names it",
                "i.md: `forms.waitlist.confirm` names it",
                "j: `channel.box.path` names it",
                "k.pem: `channel.mail.ca_file` names it",
            ],
        );
        // Values that another one overrides count too.
        check(
            "[tls]\nkey = \"a.pem\"\n",
            &[("FRONTDESK_TLS__KEY", "b.pem"), ("FRONTDESK_OPERATOR__EMAIL_FILE", "/run/email")],
            &[
                "a.pem: `tls.key` names it",
                "b.pem: `tls.key` names it",
                "/run/email: `FRONTDESK_OPERATOR__EMAIL_FILE` names it",
            ],
        );
        // The build is published.
        let private = private_files_of("[site]\nprebuilt = \"dist\"\n", &[], None);
        assert!(!private.iter().any(|found| found.contains("dist")), "{private:#?}");
    }

    #[test]
    fn a_file_is_private_before_the_restart_that_uses_it() {
        let running =
            accept("", &[("FRONTDESK_TLS__KEY", "a.pem"), ("FRONTDESK_TLS__CERTIFICATE", "c.pem")], &[]);
        let private = private_files_of("[tls]\nkey = \"b.pem\"\n", &[], Some(&running));
        for expected in ["a.pem: `tls.key` names it", "b.pem: `tls.key` names it"] {
            assert!(private.iter().any(|found| found == expected), "{expected} is not in {private:#?}");
        }
    }

    /// Sets each key to a path, one after the other. If the options then contain a path in the site's folder,
    /// the key names a file, which must be known.
    #[test]
    fn no_key_with_a_path_is_forgotten() {
        let channels = "[[channel]]\nname = \"box\"\nkind = \"maildir\"\npath = \"x\"\n\
            [[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"a.example\"\nfrom = \"a@example.com\"\n";
        let keys = load(channels, &[], &[]).0.settings;
        assert!(keys.len() > 100);
        let mut found = 0;
        for Setting { key, .. } in keys {
            let variable = format!("FRONTDESK_{}", key.name.replace('.', "__").to_ascii_uppercase());
            let (config, _) = load(channels, &[(&variable, "named-by-key")], &[]);
            let path = Path::new("/site/named-by-key");
            let is_served = config.served_folders.iter().any(|folder| folder == path);
            let is_private = config.pages.publication.private.iter().any(|own| own.path == path);
            let pages =
                pages::PagesOptions { publication: PublicationOptions::default(), ..config.pages.clone() };
            let others = format!("{:?}", Config { pages, ..config });
            let is_path = others.contains("\"/site/named-by-key");
            assert!(!is_path || is_served || is_private, "{} names a file", key.name);
            found += usize::from(is_path);
        }
        assert!(found >= 3, "{found} keys");
    }

    #[test]
    fn a_memory_limit_below_what_the_site_needs_is_a_warning() {
        let check = |text: &str, site: usize, expected: &[&str]| {
            let faults = accept(text, &[], &[]).memory_faults(site);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{text}");
        };
        let warning = "frontdesk.toml:2: `server.max_memory` is less than this server needs for its site\n    hint: set at least 88MB, plus memory for connections";
        check("[server]\nmax_memory = \"64MiB\"\n", 4_000_000, &[warning]);
        check("[server]\nmax_memory = \"128MB\"\n", 4_000_000, &[]);
        check("[server]\nmax_memory = \"off\"\n", usize::MAX / 2, &[]);
        check("", usize::MAX / 2, &[]);
        assert_eq!(accept("[server]\nmax_memory = \"1GiB\"\n", &[], &[]).web.http.max_memory, Some(1 << 30));
        refuse(
            "[server]\nmax_memory = \"63MB\"\n",
            &[],
            &[
                "frontdesk.toml:2: `server.max_memory` must be \"auto\", \"off\", or a size from 64MiB to 1024TiB",
            ],
        );
    }

    #[test]
    fn domain_lists_are_files_and_their_faults_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("domains.txt");
        let path = list.to_str().expect("a name");
        let environment = [("FRONTDESK_SCREENING__BLOCKED_DOMAINS", path)];
        std::fs::write(&list, "# ours\nbad.example.com\n").expect("it can be written");
        let config = accept("[screening.points]\nhoneypot = 7\n", &environment, &[]);
        assert!(config.intake.screening.blocked.lists("bad.example.com"));
        assert_eq!(config.intake.screening.points.get(Signal::Honeypot), 7);
        std::fs::write(&list, "# ours\nbad\n").expect("it can be written");
        refuse(
            "",
            &environment,
            &[
                "FRONTDESK_SCREENING__BLOCKED_DOMAINS: `screening.blocked_domains` is invalid: line 2 is not a domain such as \"example.com\"",
            ],
        );
        refuse(
            "[screening]\ndisposable_domains = \"none.txt\"",
            &[],
            &["frontdesk.toml:2: `screening.disposable_domains` cannot be read"],
        );
    }

    #[test]
    fn an_unknown_variable_is_only_a_warning() {
        let site = "[operator]\nname = \"A\"\nemail = \"a@example.com\"\n[site]\ndescription = \"d\"\n";
        let (_, faults) =
            load(site, &[("FRONTDESK_SERVER__LISEN", "x"), ("FRONTDESK_BINARY", "/x"), ("HOME", "/")], &[]);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            ["FRONTDESK_SERVER__LISEN: unknown variable\n    hint: did you mean `FRONTDESK_SERVER__LISTEN`?"]
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let check = |url: &str, expected: &str| {
            let (config, _) = load(&format!("[limits]\nshared_url = {url:?}\n"), &[], &[]);
            let setting = config.settings.iter().find(|setting| setting.key.name == "limits.shared_url");
            assert_eq!(setting.expect("it is there").value, format!("{expected:?}"));
            assert!(!format!("{config:?}").contains("sesame"));
        };
        check("redis://user:sesame@example.com", "redis://user:***@example.com");
        check("unix:///run/redis.sock?pass=sesame&db=1", "unix:///run/redis.sock?pass=***&db=1");
        let text = "[store]\nurl = \"postgres:///inbox?host=/run/postgresql&password=sesame&user=x\"\n";
        let settings = accept(text, &[], &[]).settings;
        let setting = settings.iter().find(|setting| setting.key.name == "store.url").expect("it is there");
        assert_eq!(setting.value, "\"postgres:///inbox?host=/run/postgresql&password=***&user=x\"");
    }

    #[test]
    fn limits_are_shared_if_a_redis_url_is_set() {
        assert_eq!(accept("", &[], &[]).limits.shared, None);
        let read =
            |text: &str| accept(&format!("[limits]\n{text}"), &[], &[]).limits.shared.expect("it is there");
        let shared = read("shared_url = \"rediss://:secret@redis.example.com/2\"");
        assert_eq!((shared.to_string().as_str(), shared.password()), ("redis.example.com:6379", "secret"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("url");
        std::fs::write(&file, "redis://:secret@192.0.2.7\n").expect("it can be written");
        let environment = [("FRONTDESK_LIMITS__SHARED_URL_FILE", file.to_str().expect("a name"))];
        let shared = accept("", &environment, &[]).limits.shared.expect("it is there");
        assert_eq!((shared.to_string().as_str(), shared.password()), ("192.0.2.7:6379", "secret"));

        let (_, faults) = load("[limits]\nshared_url = \"redis://redis.example.com\"\n", &[], &[]);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|said| said.contains(": `limits.shared_url` has no password")), "{said:?}");
        assert!(said.iter().any(|said| said.contains(": `limits.shared_secret` is not set")), "{said:?}");
        refuse(
            "[limits]\nshared_url = \"redis://:x@redis.example.com\"\nshared_ca_file = \"none.pem\"\n",
            &[],
            &["frontdesk.toml:3: `limits.shared_ca_file` cannot be read"],
        );
        let pem = folder.path().join("ca.pem");
        let issued =
            rcgen::generate_simple_self_signed(["redis.example.com".to_owned()]).expect("a certificate");
        std::fs::write(&pem, issued.cert.pem()).expect("it can be written");
        refuse(
            &format!("[limits]\nshared_url = \"redis://:x@redis.example.com\"\nshared_ca_file = {pem:?}\n"),
            &[],
            &[
                "frontdesk.toml:3: `limits.shared_ca_file` is set, but `limits.shared_url` is not a `rediss://` URL",
            ],
        );
    }

    #[test]
    fn sources_are_hashed_with_the_shared_secret_which_is_hidden() {
        let secret = "correct horse battery";
        let text =
            format!("[limits]\nshared_url = \"redis://redis.example.com\"\nshared_secret = {secret:?}\n");
        let (config, faults) = load(&text, &[], &[]);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(!said.iter().any(|said| said.contains("shared_secret")), "{said:?}");
        let shared = config.limits.shared.as_ref().expect("they are shared");
        assert_eq!(shared.describe_hash_secret(), Ok("sources are hashed with `limits.shared_secret`"));
        let setting = config.settings.iter().find(|setting| setting.key.name == "limits.shared_secret");
        assert_eq!(setting.expect("it is there").value, "\"…\"");
        assert!(!format!("{config:?} {said:?}").contains(secret));
        assert_eq!(config.secret_files[0].keys, ["limits.shared_secret"]);
        // A reload must notice that the secret has changed.
        let other = accept(&text.replace("horse", "house"), &[], &[]);
        assert_ne!(other.limits.shared, config.limits.shared);
        refuse(
            "[limits]\nshared_secret = \"too short\"\n",
            &[],
            &["frontdesk.toml:2: `limits.shared_secret` must be empty, or a secret of 16 characters or more"],
        );
    }

    #[test]
    fn without_a_base_url_the_address_is_used() {
        let config = accept("", &[], &[]);
        let at = |address: &str| config.clone().with_base_url(address.parse().ok()).pages.base_url;
        assert_eq!(at("127.0.0.1:4321"), "http://127.0.0.1:4321");
        assert_eq!(at("0.0.0.0:80"), "http://127.0.0.1:80");
        let config = accept("base_url = \"https://www.example.com\"", &[], &[]);
        assert_eq!(
            config.with_base_url("127.0.0.1:1".parse().ok()).pages.base_url,
            "https://www.example.com"
        );
    }

    #[test]
    fn agents_directories_are_hosts_or_urls_without_a_path() {
        let text = "[agents]\ndirectories = [\"agent.example.com\", \"https://Other.example.com:8443/\"]";
        let config = accept(text, &[], &[]);
        let places: Vec<String> =
            config.agents.directories.iter().map(frontdesk_fetch::Url::host_and_port).collect();
        assert_eq!(places, ["agent.example.com:443", "other.example.com:8443"]);
        let environment = [("FRONTDESK_AGENTS__DIRECTORIES", "one.example.com, two.example.com")];
        assert_eq!(accept("", &environment, &[]).agents.directories.len(), 2);
        let check = |line: &str, expected: &str| refuse(&format!("[agents]\n{line}"), &[], &[expected]);
        let fault =
            "frontdesk.toml:2: `agents.directories` must be a list of hosts such as [\"agent.example.com\"]";
        check("directories = [\"https://agent.example.com/keys\"]", fault);
        check("directories = [\"http://agent.example.com\"]", fault);
        check("directories = [\"agent example\"]", fault);
        check("directories = [7]", fault);
        check(
            "directories = [\"192.168.1.2\"]",
            "frontdesk.toml:2: `agents.directories` points to a forbidden address: 192.168.1.2",
        );
        check("ca_file = \"none.pem\"", "frontdesk.toml:2: `agents.ca_file` cannot be read");
        accept("[agents]\ndirectories = [\"192.168.1.2\"]\nallow_private = true", &[], &[]);
    }

    #[test]
    fn signatures_must_name_the_public_address_of_the_site() {
        use crate::app::agent::SiteOrigin;
        let address = "127.0.0.1:4321".parse().ok();
        assert_eq!(
            accept("", &[], &[]).with_base_url(address).agents.origin,
            SiteOrigin::from_url("http://127.0.0.1:4321")
        );
        let config = accept("base_url = \"https://www.example.com\"", &[], &[]);
        assert_eq!(
            config.with_base_url(address).agents.origin,
            SiteOrigin::from_url("https://www.example.com")
        );
    }

    fn load(text: &str, environment: &[(&str, &str)], flags: &[Flag]) -> (Config, Vec<Fault>) {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::parse(text, Path::new("/site"), environment, flags)
    }

    fn errors(faults: &[Fault]) -> Vec<String> {
        faults.iter().filter(|fault| fault.severity == Severity::Error).map(ToString::to_string).collect()
    }

    fn accept(text: &str, environment: &[(&str, &str)], flags: &[Flag]) -> Config {
        let (config, faults) = load(text, environment, flags);
        assert_eq!(errors(&faults), [""; 0]);
        config
    }

    fn refuse(text: &str, environment: &[(&str, &str)], expected: &[&str]) {
        let errors = errors(&load(text, environment, &[]).1);
        assert_eq!(errors.len(), expected.len(), "{errors:#?}");
        for (error, expected) in errors.iter().zip(expected) {
            assert!(error.starts_with(expected), "{error:?} does not begin with {expected:?}");
        }
    }
}
