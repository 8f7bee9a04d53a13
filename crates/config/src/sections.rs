//! Reads all sections of `frontdesk.toml`, in the order of the documentation, combines their options, and
//! reports what contradicts another section.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::limits::LimitValues;
use super::log::LogOptions;
use super::reader::{FILE_NAME, Reader, Setting};
use super::secret_file_permissions::SecretFile;
use super::{
    agents, brand, canary, channel, channel_conditions, content_signals, form_files, forms, inbox,
    inbox_domain, limits, log, operator, redirects_and_extra, screening, security, server, site, store, tls,
    visitor_mails, words,
};
use frontdesk_app::agent_signature::AgentOptions;
use frontdesk_app::page_views::{AgentClass, names_of};
use frontdesk_app::{WebOptions, content_security_policy};
use frontdesk_canary::CanaryOptions;
use frontdesk_deliver::maintenance::MaintenanceOptions;
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_desk::DeskOptions;
use frontdesk_forms::FormSet;
use frontdesk_http::Address;
use frontdesk_http::tls::{CertificateSource, Hsts, TlsOptions};
use frontdesk_inbox::intake::IntakeOptions;
use frontdesk_inbox::store::{DatabaseUrl, StoreOptions};
use frontdesk_inbox::submission::delivery::Route;
use frontdesk_site::resources::{self, ResourceOptions};
use frontdesk_site::{PagesOptions, PrivatePath, SITE_FOLDERS, find_containing_folder};

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
    /// Where the certificate for the inbox's own domain comes from; `None` if it has no domain of its own.
    pub inbox_certificate: Option<CertificateSource>,
    pub web: WebOptions,
    /// Options for the pages. [`Config::with_base_url`] fills in their base URL.
    pub pages: PagesOptions,
    /// Options for the generated resources, such as `security.txt`.
    pub resources: ResourceOptions,
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
    pub agents: AgentOptions,
    pub canary: CanaryOptions,
    pub log: LogOptions,
    /// The folders whose files are published. They need not exist.
    pub served_folders: Vec<PathBuf>,
    /// The effective settings in the order of the documentation.
    pub settings: Vec<Setting>,
    pub(super) secret_files: Vec<SecretFile>,
}

impl Config {
    /// Reads every key, in the order of the documentation, and reports contradictions between sections. The
    /// settings, the files with secrets and the private files are not filled in: they are known once the
    /// reader has finished.
    pub(super) fn read_sections(r: &mut Reader<'_>) -> Self {
        let base_url = site::read_base_url(r);
        let (mut pages, security_email) = read_pages(r);
        let (listen, ops_listen, mut web) = server::read(r);
        let (data_dir, url, mut maintenance) = store::read(r);
        let (tls_listen, tls, acme) = tls::read(r, &data_dir);
        let inbox = inbox::read(r);
        let inbox_certificate = inbox_domain::read_certificate(r, inbox.options.domain.as_ref(), acme);
        let mut form_set = form_files::read(r);
        let form_values = forms::read(r, &mut web, &mut form_set);
        maintenance.form_retention.clone_from(&form_values.retention);
        maintenance.digest_at = store::read_digest(r);
        let limits = limits::read(r);
        let agents = agents::read(r);
        let screening = screening::read(r);
        let rspamd = screening::read_rspamd(r).map(Arc::new);
        let canary = canary::read(r);
        let (log, logs_requests) = log::read(r);
        pages.signals = content_signals::read(r);
        pages.words = words::read(r);
        let channels = channel::read(r, &pages, &form_set);
        let base_url = set_base_url(&mut pages, base_url, &tls);
        let visitor_channels = visitor_mails::read_channels(r, &form_values.visitor, &channels, &pages);

        pages.confirming = form_values.visitor.confirming().collect();
        set_forms(&mut pages, form_set, web.forms.html_posts);
        let store = store_options(url, &limits, channels.iter().chain(&visitor_channels));
        web.http.tls = tls;
        let login_mail = inbox.login_mail(r, &channels);
        maintenance.reminders = inbox.reminders(r, login_mail.as_ref(), &pages.title);
        let desk = DeskOptions { login_mail, replies: form_values.replies.clone(), ..inbox.options };
        web.inbox_pages = complete_desk_options(desk, &pages, &channels, &web.http);
        web.log_requests = logs_requests;
        web.content_security_policy = content_security_policy(&pages.allowed);
        web.inbox = store.url.clone();
        let confirmed_forms = web.confirmed_forms.clone();
        let intake = IntakeOptions {
            duplicate_window: form_values.duplicate_window,
            form_quota: limits.requests.form_quota(),
            own_quotas: form_values.own_quotas(limits.requests.form),
            ..intake_options(&maintenance)
        };
        let config = Self {
            base_url,
            listen,
            tls_listen,
            ops_listen,
            inbox_listen: inbox.listen,
            inbox_certificate,
            resources: ResourceOptions {
                security_email,
                quotas: shown_quotas(&limits),
                duplicate_window: form_values.duplicate_window,
            },
            served_folders: served_folders(r.site_folder(), &pages),
            web,
            pages,
            data_dir,
            store,
            intake: IntakeOptions { screening, rspamd, confirmed_forms, ..intake },
            channels,
            visitor_channels,
            maintenance,
            limits,
            agents,
            canary,
            log,
            settings: Vec::new(),
            secret_files: Vec::new(),
        };
        config.check(r);
        config
    }

    /// Reports contradictions between sections, and values that are missing.
    fn check(&self, r: &mut Reader<'_>) {
        self.check_texts(r);
        self.check_folders(r);
        self.check_listeners(r);
        self.check_confirmations(r);
    }

    /// Warns if a name, a description, an address or a URL is not set although it is needed. A build needs no
    /// name, description and address in the configuration. Only the canary and mails that ask for a
    /// confirmation need a base URL; the first ACME domain can provide it.
    fn check_texts(&self, r: &mut Reader<'_>) {
        let pages = &self.pages;
        let has_own_pages = pages.build.is_none();
        r.warn_if(
            has_own_pages && pages.title.is_empty(),
            "operator.name",
            "neither `operator.name` nor `site.title` is set",
            "set `operator.name`: pages, feeds and `/llms.txt` need a name",
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
            "set it: forms show this address if they cannot be sent, and security.txt needs a contact",
        );
        r.warn_if(
            self.canary.every.is_some() && self.base_url.is_none(),
            "base_url",
            "`base_url` is not set, so the canary checks the address that the server listens on, and neither DNS nor a proxy",
            "set it to the site's public address, such as \"https://www.example.com\"",
        );
        r.warn_if(
            pages.confirms_addresses() && self.base_url.is_none(),
            "base_url",
            "`base_url` is not set, so the links in mails to visitors point to the address that the server listens on",
            "set it to the site's public address, such as \"https://www.example.com\"",
        );
    }

    /// Refuses a data folder, an inbox or a Maildir in a folder whose files are published.
    fn check_folders(&self, r: &mut Reader<'_>) {
        let is_served = |path: &Path| find_containing_folder(path, &self.served_folders).is_some();
        let message = "must not be inside a folder that is published";
        let is_inbox_served = is_served(&self.data_dir) || self.store.url.file().is_some_and(is_served);
        r.refuse_if(is_inbox_served, "store.data_dir", message);
        for channel in &self.channels {
            if let TransportOptions::Maildir(maildir) = &channel.kind {
                r.refuse_if(is_served(&maildir.path), &format!("channel.{}.path", channel.name), message);
            }
        }
    }

    /// Refuses an address of the inbox's web interface that another listener uses, and an unusable
    /// `inbox.domain` (see [`inbox_domain::check`]).
    fn check_listeners(&self, r: &mut Reader<'_>) {
        let others = self.listen.iter().chain(&self.tls_listen).chain(&self.ops_listen);
        inbox::refuse_shared_address(r, self.inbox_listen.as_ref(), others);
        inbox_domain::check(
            r,
            &self.web.inbox_pages,
            self.inbox_listen.as_ref(),
            self.base_url.as_deref(),
            self.web.http.tls.source.as_ref(),
        );
    }

    /// Refuses forms that answer 200 once a channel has confirmed the submission if that can never happen, or
    /// if the request would time out first.
    fn check_confirmations(&self, r: &mut Reader<'_>) {
        let confirmed = &self.web.confirmed_forms;
        let routes = &self.store.channels;
        let are_routes_known = !channel_conditions::is_channel_left_out(r, routes);
        for form in confirmed {
            r.refuse_if(
                self.pages.confirming.contains(form),
                &format!("forms.{form}.accept"),
                &format!("cannot be \"delivered\" with `forms.{form}.confirm`: nothing is delivered before the visitor confirms the address"),
            );
            r.refuse_if(
                are_routes_known && !routes.iter().any(|route| route.accepts(form)),
                &format!("forms.{form}.accept"),
                "is \"delivered\", but no `[[channel]]` accepts this form",
            );
        }
        let timeouts = &self.web.http.timeouts;
        r.refuse_if(
            !confirmed.is_empty() && timeouts.exchange <= self.web.confirm_timeout + timeouts.body,
            "server.exchange_timeout",
            "must be longer than `forms.confirm_timeout` and `server.body_timeout` together, or a client waiting for a confirmation gets no response",
        );
    }

    /// The operator's private files and folders: the configuration, the site's folder, the cache of
    /// certificates, the files of the inbox, the certificate authority of its database, and those that keys
    /// name, including the data folder.
    pub(super) fn private_files(&self, folder: &Path, named: Vec<PrivatePath>) -> Vec<PrivatePath> {
        let private = |path: PathBuf, reason: &str, has_companions| PrivatePath {
            path,
            reason: reason.to_owned(),
            has_companions,
        };
        let own = [
            private(folder.join(FILE_NAME), "it is the configuration of this site", false),
            // The site's folder may be inside its build, and the site inside its data folder, so the files in
            // the data folder are listed too.
            private(folder.to_owned(), "it is the folder of this site", false),
            private(self.data_dir.join("acme"), "it has keys of certificates", false),
        ];
        let url = &self.store.url;
        let database = url.file().map(|file| private(file.to_owned(), "it belongs to the inbox", true));
        let authorities = url.ca_file().map(|file| private(file.to_owned(), "`store.url` names it", false));
        own.into_iter().chain(database).chain(authorities).chain(named).collect()
    }
}

/// Reads the sections from `[operator]` to `[security]`. Also returns the contact address for security.txt.
/// The title defaults to the operator's name. Drafts and pages with a date after now are not shown.
#[expect(clippy::disallowed_methods, reason = "drafts and dates are compared with the current time")]
fn read_pages(r: &mut Reader<'_>) -> (PagesOptions, String) {
    let (operator, security_email) = operator::read(r);
    let mut site = site::read(r);
    if site.title.is_empty() {
        site.title.clone_from(&operator.name);
    }
    let now = jiff::Timestamp::now();
    let pages = PagesOptions {
        operator,
        brand: brand::read(r),
        redirects: redirects_and_extra::read_redirects(r),
        allowed: security::read(r),
        today: now.to_zoned(jiff::tz::TimeZone::UTC).date(),
        now: Some(now),
        ..site
    };
    (pages, security_email)
}

/// Adds values from other sections to the options of the inbox's web interface.
fn complete_desk_options(
    desk: DeskOptions,
    pages: &PagesOptions,
    channels: &[ChannelOptions],
    http: &frontdesk_http::Options,
) -> DeskOptions {
    DeskOptions {
        hsts: http.tls.hsts.as_ref().map(Hsts::for_host_only),
        forwarded_header: Some(http.forwarded_header),
        channels: channels.to_vec(),
        title: pages.title.clone(),
        confirms_addresses: pages.confirms_addresses(),
        form_set: pages.form_set.clone(),
        ai_agents: names_of(AgentClass::Ai),
        browsers: names_of(AgentClass::Browser),
        ..desk
    }
}

/// The quotas of one source per minute and per hour, for the site's documentation; `None` without limits.
fn shown_quotas(limits: &LimitValues) -> Option<(u32, u32)> {
    let quota = limits.requests.source;
    limits.requests.enabled.then_some((quota.per_minute, quota.per_hour))
}

/// Sets the base URL of `pages`, and returns it: the configured one, or else that of the first ACME domain.
/// `None` if neither is known; then [`Config::with_base_url`] sets it when the server listens.
fn set_base_url(pages: &mut PagesOptions, configured: String, tls: &TlsOptions) -> Option<String> {
    let base_url = Some(configured).filter(|url| !url.is_empty()).or_else(|| tls::acme_base_url(tls));
    pages.base_url = base_url.clone().unwrap_or_default();
    base_url
}

/// Sets the forms, whether HTML pages may send them, and the paths and links that are derived from them.
fn set_forms(pages: &mut PagesOptions, forms: FormSet, html_posts: bool) {
    pages.html_posts = html_posts;
    pages.home_links = resources::home_links(&forms);
    pages.reserved = resources::reserved_paths(&forms);
    pages.form_set = forms;
}

/// The options of the intake: how long submissions are kept, and to which recipient they are encrypted. The
/// other options have their defaults.
fn intake_options(maintenance: &MaintenanceOptions) -> IntakeOptions {
    IntakeOptions {
        retention: maintenance.retention,
        form_retention: maintenance.form_retention.clone(),
        recipient: maintenance.recipient.clone(),
        ..IntakeOptions::default()
    }
}

/// Combines the database with the routes of all channels. If limits are disabled, drops the daily quotas.
fn store_options<'a>(
    url: DatabaseUrl,
    limits: &LimitValues,
    channels: impl Iterator<Item = &'a ChannelOptions>,
) -> StoreOptions {
    let channels = channels.map(|channel| {
        let route = channel.route();
        Route { quota: route.quota.filter(|_| limits.requests.enabled), ..route }
    });
    StoreOptions { url, channels: channels.collect() }
}

/// The folders whose files are published. They need not exist.
fn served_folders(site_folder: &Path, pages: &PagesOptions) -> Vec<PathBuf> {
    let build = pages.build.iter().map(|build| build.folder.clone());
    SITE_FOLDERS.iter().map(|part| site_folder.join(part)).chain(build).collect()
}
