//! All sections of `frontdesk.toml`, in the order of the documentation, and what they require of each other.

use std::path::{Path, PathBuf};

use super::channel::SiteIdentity;
use super::forms::FormsSection;
use super::inbox::InboxSection;
use super::limits::LimitValues;
use super::log::LogOptions;
use super::reader::Reader;
use super::server::ServerSection;
use super::site::SiteSection;
use super::store::StoreSection;
use super::tls::TlsSection;
use super::{
    agents, brand, channel, content_signals, forms, inbox, limits, log, operator, own_tables, screening,
    security, server, site, store, tls, visitor, words,
};
use frontdesk_app::agent::AgentOptions;
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_forms::WAITLIST;
use frontdesk_inbox::screening::ScreeningOptions;
use frontdesk_site::resources::ContentSignals;
use frontdesk_site::{
    AllowedHosts, BrandOptions, Operator, RedirectOption, SITE_FOLDERS, WordOverride, find_containing_folder,
};

/// The options of each section, before those of several sections are combined.
pub(super) struct Sections {
    /// The public address of the site; empty if it is not configured.
    pub(super) base_url: String,
    pub(super) operator: Operator,
    /// The contact address for security.txt.
    pub(super) security_email: String,
    pub(super) site: SiteSection,
    pub(super) brand: BrandOptions,
    pub(super) redirects: Vec<RedirectOption>,
    /// Other hosts from which pages may load content.
    pub(super) allowed: AllowedHosts,
    pub(super) server: ServerSection,
    pub(super) store: StoreSection,
    pub(super) tls: TlsSection,
    pub(super) inbox: InboxSection,
    pub(super) forms: FormsSection,
    pub(super) limits: LimitValues,
    pub(super) agents: AgentOptions,
    pub(super) screening: ScreeningOptions,
    pub(super) log: LogOptions,
    /// Whether each request is logged.
    pub(super) logs_requests: bool,
    /// The purposes for which crawlers may use the content.
    pub(super) signals: ContentSignals,
    pub(super) words: Vec<WordOverride>,
    pub(super) channels: Vec<ChannelOptions>,
    /// The channels that send mails to visitors, not to the team.
    pub(super) visitor_channels: Vec<ChannelOptions>,
}

impl Sections {
    /// Reads every key, in the order of the documentation, and reports contradictions between sections.
    pub(super) fn read(r: &mut Reader<'_>) -> Self {
        let base_url = site::read_base_url(r);
        let (operator, security_email) = operator::read(r);
        let mut site = site::read(r);
        if site.title.is_empty() {
            site.title.clone_from(&operator.name);
        }
        let brand = brand::read(r);
        let redirects = own_tables::read_redirects(r);
        let allowed = security::read(r);
        let server = server::read(r);
        let mut store = store::read(r);
        let tls = tls::read(r, &store.data_dir);
        let inbox = inbox::read(r);
        let forms = forms::read(r);
        store.maintenance.digest_at = store::read_digest(r);
        let limits = limits::read(r);
        let agents = agents::read(r);
        let screening = screening::read(r);
        let (log, logs_requests) = log::read(r);
        let signals = content_signals::read(r);
        let words = words::read(r);
        let identity = SiteIdentity { operator: &operator, title: &site.title, language: &site.language };
        let channels = channel::read(r, identity);
        let visitor_channels = visitor::read_channels(r, &forms.visitor, &channels, identity);
        let sections = Self {
            base_url,
            operator,
            security_email,
            site,
            brand,
            redirects,
            allowed,
            server,
            store,
            tls,
            inbox,
            forms,
            limits,
            agents,
            screening,
            log,
            logs_requests,
            signals,
            words,
            channels,
            visitor_channels,
        };
        sections.check_texts(r);
        sections.check_folders(r);
        sections.check_listeners(r);
        sections.check_confirmations(r);
        sections
    }

    /// The folders whose files are published. They need not exist.
    pub(super) fn served_folders(&self, site_folder: &Path) -> Vec<PathBuf> {
        let build = self.site.build.iter().map(|build| build.folder.clone());
        SITE_FOLDERS.iter().map(|part| site_folder.join(part)).chain(build).collect()
    }

    /// Warns if a name, a description, an address or a URL is not set although it is needed. A build needs no
    /// name, description and address in the configuration.
    fn check_texts(&self, r: &mut Reader<'_>) {
        let has_own_pages = self.site.build.is_none();
        r.warn_if(
            has_own_pages && self.site.title.is_empty(),
            "operator.name",
            "neither `operator.name` nor `site.title` is set",
            "set `operator.name`: pages, guides and feeds need a name",
        );
        r.warn_if(
            has_own_pages && self.site.description.is_empty(),
            "site.description",
            "`site.description` is not set",
            "set it to one or two sentences: llms.txt and the feed begin with them",
        );
        r.warn_if(
            has_own_pages && self.operator.email.is_empty(),
            "operator.email",
            "`operator.email` is not set",
            "set it: forms show this address if they cannot be sent, and security.txt needs a contact",
        );
        r.warn_if(
            self.forms.visitor.confirm.is_some()
                && self.base_url.is_empty()
                && tls::acme_base_url(&self.tls.options).is_none(),
            "base_url",
            "`base_url` is not set, so the links in mails to visitors point to the address that the server listens on",
            "set it to the site's public address, such as \"https://www.example.com\"",
        );
    }

    /// Refuses an inbox or a Maildir in a folder whose files are published.
    fn check_folders(&self, r: &mut Reader<'_>) {
        let served = self.served_folders(r.site_folder());
        let is_served = |path: &Path| find_containing_folder(path, &served).is_some();
        let message = "must not be inside a folder that is published";
        let is_inbox_served = is_served(&self.store.data_dir) || self.store.url.file().is_some_and(is_served);
        r.refuse_if(is_inbox_served, "store.data_dir", message);
        for channel in &self.channels {
            if let TransportOptions::Maildir(maildir) = &channel.kind {
                r.refuse_if(is_served(&maildir.path), &format!("channel.{}.path", channel.name), message);
            }
        }
    }

    /// Refuses an address of the inbox's web interface that another listener uses.
    fn check_listeners(&self, r: &mut Reader<'_>) {
        let server = &self.server;
        let others = server.listen.iter().chain(&self.tls.listen).chain(&server.ops_listen);
        inbox::refuse_shared_address(r, self.inbox.listen.as_ref(), others);
    }

    /// Refuses forms that answer 200 once a channel has confirmed the submission if that can never happen, or
    /// if the request would time out first.
    fn check_confirmations(&self, r: &mut Reader<'_>) {
        let confirmed = &self.forms.confirmed;
        r.refuse_if(
            self.forms.visitor.confirm.is_some() && confirmed.contains(&WAITLIST.name),
            "forms.waitlist.accept",
            "cannot be \"delivered\" with `forms.waitlist.confirm`: nothing is delivered before the visitor confirms the address",
        );
        let routes: Vec<_> =
            self.channels.iter().chain(&self.visitor_channels).map(ChannelOptions::route).collect();
        for form in confirmed {
            r.refuse_if(
                !routes.iter().any(|route| route.accepts(form)),
                &format!("forms.{form}.accept"),
                "is \"delivered\", but no `[[channel]]` accepts this form",
            );
        }
        let timeouts = &self.server.web.http.timeouts;
        r.refuse_if(
            !confirmed.is_empty() && timeouts.exchange <= self.forms.confirm_timeout + timeouts.body,
            "server.exchange_timeout",
            "must be longer than `forms.confirm_timeout` and `server.body_timeout` together, or a client waiting for a confirmation gets no response",
        );
    }
}
