//! From `frontdesk.toml`, the environment and flags to typed options, each fault with its place.
//!
//! A key is declared once, where it is read in `Config::read`: its name, its default and how it is parsed. Everything else
//! (unknown keys, environment variables, the `config` command, the check of the commented example) follows from that.

mod channel;
mod exposure;
mod reader;
mod tls;
mod value;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use exposure::SecretFile;
pub use reader::{Flag, Origin, Setting};

use crate::deliver::chores::Housekeeping;
use crate::deliver::{Kind, Options as Channel};
use crate::fault::Fault;
use crate::forms::email::Mailbox;
use crate::forms::{FORMS, MAX_BODY_BYTES};
use crate::limits::gate::{self, HashSecret};
use crate::limits::{self, Quota};
use crate::pages::{self, FooterGroup, FooterLink, Operator};
use crate::screening::{self, Signal};
use crate::store::{self, Place};
use crate::web::{Address, agent};
use crate::{resources, web};
use reader::Reader;
use value::Raw;

/// The least that `server.max_memory` may be, in bytes.
const LEAST_MEMORY: u64 = 64 << 20;

/// The configuration file's name in the site's folder.
pub const FILE_NAME: &str = "frontdesk.toml";

/// Everything that can be configured, as the parts want it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The address under which the public reaches the site, as configured or, once it is asked where, as a certificate is asked for;
    /// none if it is to follow from the address that is listened on.
    pub base_url: Option<String>,
    /// Where the public address listens.
    pub listen: Vec<Address>,
    /// Where it listens over TLS.
    pub tls_listen: Vec<Address>,
    /// Where the private address listens, if at all.
    pub ops_listen: Option<Address>,
    /// How requests are served.
    pub web: web::Options,
    /// What the operator says of the site; its `base_url` is filled in once it is known.
    pub pages: pages::Options,
    /// What goes into the resources; likewise.
    pub resources: resources::Options,
    /// The folder for what the server keeps beside the inbox, and for the inbox where that is a file.
    pub data_dir: PathBuf,
    /// Where submissions are kept.
    pub store: store::Options,
    /// Where submissions are delivered.
    pub channels: Vec<Channel>,
    /// What is to be done in the inbox from time to time.
    pub housekeeping: Housekeeping,
    /// How often one may submit.
    pub limits: limits::Options,
    /// How many bytes one may submit in a day.
    pub byte_limits: limits::ByteOptions,
    /// Where that is counted together with other servers; none if this one counts alone.
    pub shared_limits: Option<gate::Options>,
    /// Whose agents are recognised; where the site is, is filled in once it is known.
    pub agents: agent::Options,
    /// What is said of it all while it runs.
    pub log: Log,
    /// The effective settings in the order in which they are documented.
    pub settings: Vec<Setting>,
    /// The files that hold the secrets among them.
    pub secret_files: Vec<SecretFile>,
}

impl Config {
    /// The database that a text such as `store.url` names. Says what would be right where it names none.
    pub fn place(&self, url: &str) -> Result<Place, String> {
        value::place(&value::Raw::Text(url.to_owned())).map(|place| in_folder(&self.data_dir, place))
    }
}

/// A file is named relative to the data folder.
fn in_folder(data_dir: &Path, place: Place) -> Place {
    match place {
        Place::Sqlite(path) => Place::Sqlite(data_dir.join(path)),
        place @ Place::Postgres(_) => place,
    }
}

/// What a running server says on standard error.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// In which form.
    pub format: LogFormat,
    /// Nothing that matters less than this.
    pub level: tracing::Level,
}

/// The form of what is said on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people where standard error is a terminal, for programs elsewhere.
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// Reads the configuration of the site in `folder`: a flag wins over the environment, that over the file, that over the
    /// default. Where a value is at fault its default stands in; with an error among the faults, it must not be used to serve.
    pub fn load(
        folder: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> (Self, Vec<Fault>) {
        match std::fs::read_to_string(folder.join(FILE_NAME)) {
            Ok(text) => Self::parse(&text, folder, environment, flags),
            Err(error) => {
                let (config, mut faults) = Self::parse("", folder, environment, flags);
                let fault = Fault::error(FILE_NAME, None, format!("cannot be read: {error}"));
                let folder = folder.display();
                let hint = match error.kind() {
                    std::io::ErrorKind::NotFound => {
                        format!(
                            "is {folder} a site's folder? `frontdesk init DIR` writes a small site to begin with"
                        )
                    }
                    _ => "it must be a text file in UTF-8 that this user may read".to_owned(),
                };
                faults.insert(0, fault.hint(hint));
                (config, faults)
            }
        }
    }

    /// The same for a text that was read already; `folder` is what relative paths are relative to.
    pub fn parse(
        text: &str,
        folder: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[Flag],
    ) -> (Self, Vec<Fault>) {
        let mut reader = Reader::new(FILE_NAME, text, environment, flags);
        let config = Self::read(&mut reader, folder);
        let secret_files = reader.secrets().map(|(path, keys)| SecretFile {
            is_configuration: path.is_none(),
            path: path.unwrap_or_else(|| folder.join(FILE_NAME)),
            keys,
        });
        let secret_files = secret_files.collect();
        let (settings, faults) = reader.finish();
        (Self { settings, secret_files, ..config }, faults)
    }

    /// Every key there is, in the order of the documentation.
    #[expect(
        clippy::too_many_lines,
        reason = "one list of all keys is easier to find one's way in than several"
    )]
    fn read(r: &mut Reader<'_>, folder: &Path) -> Self {
        let base_url = r.get("base_url", "", value::base_url);
        let operator = Operator {
            name: r.get("operator.name", "", value::text),
            email: r.get("operator.email", "", email),
            console_url: r.get("operator.console_url", "", value::web_address),
        };
        let security_email = r.get("operator.security_email", "", email);
        let title = r.get("site.title", "", value::text);
        let tagline = r.get("site.tagline", "", value::text);
        let description = r.get("site.description", "", value::text);
        let language = r.get("site.language", "en", value::language);
        let footer = r.get("site.footer", "[]", footer);

        let mut listen = r.get("server.listen", "127.0.0.1:8080", value::addresses);
        let mut ops_listen = r.get("server.ops_listen", "127.0.0.1:8081", value::optional_address);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let seconds = |seconds| Duration::from_secs(seconds)..=Duration::from_hours(1);
        let mut web = web::Options {
            workers: match r.get("server.workers", "0", value::count(0..=1024)) {
                0 => cores,
                workers => workers,
            },
            max_connections: r.get("server.max_connections", "10000", value::count(1..=10_000_000)),
            max_connections_per_source: r.get(
                "server.max_connections_per_source",
                "256",
                value::count(1..=10_000_000),
            ),
            max_connections_per_network: r.get(
                "server.max_connections_per_network",
                "2048",
                value::count(1..=10_000_000),
            ),
            max_memory: r.get("server.max_memory", "auto", value::memory_limit(LEAST_MEMORY..=1 << 50)),
            trusted_proxies: r.get("server.trusted_proxies", "[]", value::networks),
            proxy_protocol: r.get("server.proxy_protocol", "false", value::flag),
            forwarded_header: r.get("server.forwarded_header", "x-forwarded-for", value::forwarded_header),
            first_byte_timeout: r.get("server.first_byte_timeout", "5s", value::duration(seconds(1))),
            header_timeout: r.get("server.header_timeout", "5s", value::duration(seconds(1))),
            body_timeout: r.get("server.body_timeout", "10s", value::duration(seconds(1))),
            idle_timeout: r.get("server.idle_timeout", "10s", value::duration(seconds(1))),
            exchange_timeout: r.get("server.exchange_timeout", "30s", value::duration(seconds(1))),
            drain: r.get("server.drain", "0s", value::duration(seconds(0))),
            shutdown_grace: r.get("server.shutdown_grace", "10s", value::duration(seconds(0))),
            fast_lane: r.get("server.fast_lane", "true", value::flag),
            confirmed_forms: Vec::new(),
            confirm_timeout: r.get("forms.confirm_timeout", "15s", value::duration(seconds(1))),
            log_requests: r.get("log.requests", "false", value::flag),
            inbox: Place::Sqlite(PathBuf::new()),
            channels: Vec::new(),
            tls: web::tls::Options::default(),
        };
        let log = Log {
            format: r.get("log.format", "auto", value::log_format),
            level: r.get("log.level", "info", value::log_level),
        };

        let mut tls_listen = r.get("tls.listen", "[]", value::addresses_or_none);
        for address in listen.iter_mut().chain(&mut tls_listen).chain(&mut ops_listen) {
            if let Address::Unix(path) = address {
                *path = folder.join(&*path);
            }
        }
        r.refuse_if(
            web.exchange_timeout <= web.body_timeout,
            "server.exchange_timeout",
            "must be longer than `server.body_timeout`, or a slow body would get no answer",
        );
        let data_dir: PathBuf = r.get("store.data_dir", "data", value::path);
        let data_dir = folder.join(data_dir);
        let place = in_folder(&data_dir, r.get("store.url", "sqlite:inbox.sqlite", value::place));
        web.tls = tls::read(r, folder, &data_dir, !tls_listen.is_empty());
        let published = ["pages", "posts", "assets", "static", "theme"].map(|part| real(&folder.join(part)));
        r.refuse_if(
            published.iter().any(|part| real(place.file().unwrap_or(&data_dir)).starts_with(part)),
            "store.data_dir",
            "must not be inside a folder that is published",
        );
        let window = Duration::from_mins(1)..=Duration::from_hours(30 * 24);
        let retention =
            || value::optional_duration(Duration::from_hours(24)..=Duration::from_hours(24 * 36_500));
        let mut store = store::Options {
            place,
            duplicate_window: r.get("forms.duplicate_window", "24h", value::duration(window)),
            channels: Vec::new(),
            recipient: r.get("store.recipient", "", value::recipient),
            screening: screening::Options::default(),
            form_quota: None,
            flood_ends_after: store::FLOOD_ENDS_AFTER,
        };
        let housekeeping = Housekeeping {
            retention: r.get("store.retention", "off", retention()),
            retention_held: r.get("store.retention_held", "off", retention()),
            min_free: r.get("store.min_free", "auto", value::min_free),
            digest_at: r.get("digest.at", "07:00", value::optional_time),
            recipient: store.recipient.clone(),
        };
        let quota = || value::count(1..=i64::from(limits::MAX_QUOTA));
        // The longest body fits into the smallest budget.
        let budget = || value::bytes(MAX_BODY_BYTES as u64..=limits::MAX_BYTES);
        let limits = limits::Options {
            enabled: r.get("limits.enabled", "true", value::flag),
            source: Quota {
                per_minute: r.get("limits.per_minute", "30", quota()),
                per_hour: r.get("limits.per_hour", "300", quota()),
            },
            network: Quota {
                per_minute: r.get("limits.network_per_minute", "300", quota()),
                per_hour: r.get("limits.network_per_hour", "3000", quota()),
            },
            form: Quota {
                per_minute: r.get("limits.form_per_minute", "600", quota()),
                per_hour: r.get("limits.form_per_hour", "6000", quota()),
            },
        };
        let byte_limits = limits::ByteOptions {
            enabled: limits.enabled,
            source: r.get("limits.bytes_per_day", "8MiB", budget()),
            network: r.get("limits.network_bytes_per_day", "80MiB", budget()),
        };
        let shared_limits = shared_limits(r, folder);
        store.screening = screening(r, folder);
        store.form_quota = limits.form_quota();
        let signals = resources::Signals {
            search: r.get("content_signals.search", "", value::maybe),
            ai_input: r.get("content_signals.ai_input", "", value::maybe),
            ai_train: r.get("content_signals.ai_train", "", value::maybe),
        };

        let agents = agent::Options {
            directories: r.get("agents.directories", "[]", channel::directories),
            allow_private: r.get("agents.allow_private", "false", value::flag),
            extra_roots: channel::certificates(r, "agents.ca_file", folder),
            origin: agent::Origin::of(""),
            deadlines: agent::DEADLINES,
            patience: agent::PATIENCE,
        };
        for url in &agents.directories {
            channel::refuse_unreachable(r, "agents.directories", url, agents.allow_private);
        }

        let title = if title.is_empty() { operator.name.clone() } else { title };
        let description = if description.is_empty() { tagline.clone() } else { description };
        r.warn_if(
            title.is_empty(),
            "operator.name",
            "neither `operator.name` nor `site.title` is set",
            "pages, guides and feeds need a name",
        );
        r.warn_if(
            description.is_empty(),
            "site.description",
            "`site.description` is not set",
            "llms.txt and the feed begin with it: one or two sentences",
        );
        r.warn_if(
            operator.email.is_empty(),
            "operator.email",
            "`operator.email` is not set",
            "without script the forms show it, and security.txt needs a contact",
        );
        let defaults = channel::Defaults { folder, email: &operator.email, title: &title };
        let channels = channel::read(r, &defaults);
        store.channels = channels.iter().map(Channel::route).collect();
        web.inbox.clone_from(&store.place);
        web.channels = store.channels.iter().map(|channel| channel.name.clone()).collect();
        for channel in &channels {
            if let Kind::Maildir(maildir) = &channel.kind {
                r.refuse_if(
                    published.iter().any(|part| real(&maildir.path).starts_with(part)),
                    &format!("channel.{}.path", channel.name),
                    "must not be inside a folder that is published",
                );
            }
        }
        for form in FORMS {
            let key = format!("forms.{}.accept", form.name);
            if r.get(&key, "kept", value::accept) {
                r.refuse_if(
                    !store.channels.iter().any(|channel| channel.takes(form.name)),
                    &key,
                    "is \"delivered\", and no `[[channel]]` takes this form",
                );
                web.confirmed_forms.push(form.name);
            }
        }
        r.refuse_if(
            !web.confirmed_forms.is_empty() && web.exchange_timeout <= web.confirm_timeout + web.body_timeout,
            "server.exchange_timeout",
            "must be longer than `forms.confirm_timeout` and `server.body_timeout` together, or who waits for a confirmation gets no answer",
        );
        let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
        let pages = pages::Options {
            title: title.clone(),
            tagline,
            description: description.clone(),
            language: language.clone(),
            base_url: String::new(),
            operator: operator.clone(),
            footer,
            home_links: resources::home_links(),
            today,
            reserved: resources::paths(),
        };
        let resources = resources::Options {
            title,
            description,
            language,
            base_url: String::new(),
            security_email: if security_email.is_empty() { operator.email.clone() } else { security_email },
            operator,
            signals,
            quotas: limits.enabled.then_some((limits.source.per_minute, limits.source.per_hour)),
            duplicate_window: store.duplicate_window,
            today,
        };
        Self {
            data_dir,
            base_url: Some(base_url).filter(|url| !url.is_empty()),
            listen,
            tls_listen,
            ops_listen,
            web,
            pages,
            resources,
            store,
            channels,
            housekeeping,
            limits,
            byte_limits,
            shared_limits,
            agents,
            log,
            settings: Vec::new(),
            secret_files: Vec::new(),
        }
    }

    /// Warns where a configured `server.max_memory` is less than the server needs for a site with bodies of so many bytes.
    pub fn memory_faults(&self, site: usize) -> Vec<Fault> {
        let key = "server.max_memory";
        let origin = self.settings.iter().find(|setting| setting.key == key).map(|setting| &setting.origin);
        let (place, line) = match origin {
            Some(Origin::File(line)) => (FILE_NAME, Some(*line)),
            Some(Origin::Environment(name)) => (name.as_str(), None),
            // No warning about the default: the operator has set nothing to correct.
            _ => return Vec::new(),
        };
        let needed = web::NEEDED_MEMORY + site as u64;
        let is_too_little = self.web.max_memory.is_some_and(|limit| limit < needed);
        let fault = || {
            let message = "`server.max_memory` is less than this server needs for its site";
            let megabytes = needed.div_ceil(1_000_000);
            Fault::warning(place, line, message)
                .hint(format!("{megabytes}MB, plus the memory that connections may take"))
        };
        is_too_little.then(fault).into_iter().collect()
    }

    /// Whether deliveries go where they did and as they did.
    pub fn delivers_like(&self, other: &Self) -> bool {
        // What these say concerns requests alone; anything else may stand in a message.
        const OF_REQUESTS: [&str; 8] = [
            "server.",
            "limits.",
            "content_signals.",
            "screening.",
            "agents.",
            "tls.",
            "log.",
            "site.footer",
        ];
        self.agrees(other, |key| !OF_REQUESTS.iter().any(|part| key.starts_with(part)))
    }

    /// Whether all keys that begin like this say the same.
    pub fn has_the_same(&self, part: &str, other: &Self) -> bool {
        self.agrees(other, |key| key.starts_with(part))
    }

    fn agrees(&self, other: &Self, concerns: impl Fn(&str) -> bool) -> bool {
        let ours = self.settings.iter().filter(|setting| concerns(&setting.key));
        let mut theirs = other.settings.iter().filter(|setting| concerns(&setting.key));
        ours.map(Some).chain([None]).all(|ours| match (ours, theirs.next()) {
            (Some(ours), Some(theirs)) => ours.says_the_same_as(theirs),
            (None, None) => true,
            _ => false,
        })
    }

    /// The options with the base URL filled in. Where it is not configured it begins with the first name that a certificate is asked
    /// for; where there is none that is `http://ADDRESS`, or `https://ADDRESS` over TLS: the
    /// first address that is listened on, or else the first that is to be.
    #[must_use]
    pub fn at(mut self, listening_on: Option<SocketAddr>) -> Self {
        let is_secure = self.web.tls.source.is_some();
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
        self.base_url = self.base_url.or_else(|| tls::named(&self.web.tls));
        let base_url = self.base_url.clone().unwrap_or_else(|| tls::base_url(&self.web.tls, address));
        tls::redirect(&mut self.web.tls, &base_url, address);
        self.pages.base_url.clone_from(&base_url);
        self.agents.origin = agent::Origin::of(&base_url);
        self.resources.base_url = base_url;
        self
    }
}

/// Where limits are counted that several servers share.
fn shared_limits(r: &mut Reader<'_>, folder: &Path) -> Option<gate::Options> {
    let shared = r.get("limits.shared_url", "", value::redis);
    let secret = r.get("limits.shared_secret", "", value::shared_secret);
    let ca = channel::pem(r, "limits.shared_ca_file", folder).map(|(pem, _)| pem);
    r.refuse_if(
        ca.is_some() && !shared.as_ref().is_some_and(gate::Options::is_tls),
        "limits.shared_ca_file",
        "is set, and `limits.shared_url` is no `rediss://` address",
    );
    r.warn_if(
        shared.as_ref().is_some_and(|shared| shared.password().is_empty()),
        "limits.shared_url",
        "`limits.shared_url` has no password",
        "whoever reaches that server can change the limits: redis://:PASSWORD@…",
    );
    let range = Duration::from_millis(1)..=Duration::from_mins(1);
    let patience = r.get("limits.shared_timeout", "15ms", value::duration(range));
    let shared = shared.map(|shared| shared.trusting(ca).waiting(patience).hashing_with(secret));
    r.warn_if(
        shared.as_ref().is_some_and(|shared| shared.hash_secret() == HashSecret::Missing),
        "limits.shared_secret",
        "`limits.shared_secret` is not set, and `limits.shared_url` has no password",
        "anyone who reads that server can find out which addresses have sent: set the same secret on all servers, for instance of `openssl rand -base64 24`",
    );
    shared
}

/// `[screening]`, with a weight for each signal that has one.
fn screening(r: &mut Reader<'_>, folder: &Path) -> screening::Options {
    let mut options = screening::Options {
        enabled: r.get("screening.enabled", "true", value::flag),
        suspicious_threshold: r.get("screening.suspicious_threshold", "50", value::count(1..=1000)),
        threshold: r.get("screening.threshold", "100", value::count(1..=1000)),
        points: screening::Points::default(),
        disposable: domains(r, folder, "screening.disposable_domains"),
        blocked: domains(r, folder, "screening.blocked_domains"),
    };
    for signal in Signal::ALL {
        if let Some(points) = signal.default_points() {
            let key = format!("screening.points.{}", signal.name().replace('-', "_"));
            options.points.set(signal, r.get(&key, &points.to_string(), value::count(0..=1000)));
        }
    }
    options
}

/// A file of domains, one a line.
fn domains(r: &mut Reader<'_>, folder: &Path, key: &str) -> screening::Domains {
    let path = r.get(key, "", value::text);
    if path.is_empty() {
        return screening::Domains::default();
    }
    let text = std::fs::read_to_string(folder.join(path)).map_err(|error| format!("cannot be read: {error}"));
    let domains = text.and_then(|text| screening::Domains::parse(&text).map_err(|fault| fault.to_string()));
    r.refuse_if(domains.is_err(), key, domains.as_ref().err().map_or("", String::as_str));
    domains.unwrap_or_default()
}

/// An absolute path without `..` or symbolic links, as far as it exists already.
fn real(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    let known = plain
        .ancestors()
        .find_map(|ancestor| Some((ancestor.canonicalize().ok()?, plain.strip_prefix(ancestor).ok()?)));
    known.map_or_else(|| plain.clone(), |(known, rest)| known.join(rest))
}

fn email(raw: &Raw) -> Result<String, String> {
    let text = value::text(raw)?;
    if text.is_empty() || Mailbox::parse(&text).is_some() {
        Ok(text)
    } else {
        Err("an e-mail address such as \"hello@example.com\"".to_owned())
    }
}

/// `[[site.footer]]` with `title` and `links`, each a path or `{ title, href }`, and nothing else.
fn footer(raw: &Raw) -> Result<Vec<FooterGroup>, String> {
    let expected = || {
        "groups `[[site.footer]]` with a `title` and `links`, each a path such as \"/privacy/\" or { title = \"…\", href = \"…\" }"
            .to_owned()
    };
    let Raw::List(groups) = raw else { return Err(expected()) };
    let read = |group: &Raw| {
        let [title, links] = group.members(["title", "links"])?;
        let Raw::List(links) = links else { return None };
        let links: Option<Vec<FooterLink>> = links
            .iter()
            .map(|link| {
                if let Raw::Text(href) = link {
                    return Some(FooterLink { title: None, href: href.clone() });
                }
                let [title, href] = link.members(["title", "href"])?;
                Some(FooterLink {
                    title: Some(title.as_text()?.to_owned()),
                    href: href.as_text()?.to_owned(),
                })
            })
            .collect();
        Some(FooterGroup { title: title.as_text()?.to_owned(), links: links? })
    };
    let groups: Vec<FooterGroup> =
        groups.iter().map(|group| read(group).ok_or_else(expected)).collect::<Result<_, _>>()?;
    // Anything else would be relative to whatever page the footer stands on, or has no words to show.
    let whole =
        |link: &FooterLink| link.href.starts_with('/') || (link.title.is_some() && link.href.contains(':'));
    if groups.iter().flat_map(|group| &group.links).all(whole) { Ok(groups) } else { Err(expected()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Severity;

    const EXAMPLE: &str = include_str!("../starter/frontdesk.toml");

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
                let sets = bare
                    .split_once(" = ")
                    .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
                format!("{}\n", if sets || bare.starts_with("[[") { bare } else { line })
            })
            .collect();
        let config = accept(&uncommented, &[], &[]);
        let missing: Vec<&str> = config
            .settings
            .iter()
            .filter(|setting| !matches!(setting.origin, Origin::File(_)))
            .map(|setting| setting.key.as_str())
            .collect();
        assert_eq!(missing, [""; 0], "keys that the example does not list");
        let defaults = accept("", &[], &[]);
        for (setting, default) in config.settings.iter().zip(&defaults.settings) {
            let own = ["operator.", "site.", "content_signals.", "base_url"]
                .iter()
                .any(|own| setting.key.starts_with(own));
            assert!(
                own || setting.value == default.value,
                "{}: {} is not the default {}",
                setting.key,
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
        let common = ["forms", "concurrency", "from", "from_name", "to"];
        for setting in config.settings.iter().filter(|setting| setting.key.starts_with("channel.")) {
            let is_common = common.iter().any(|key| setting.key.ends_with(&format!(".{key}")));
            assert!(is_common || matches!(setting.origin, Origin::File(_)), "{} is not listed", setting.key);
        }
    }

    #[test]
    fn a_channels_keys_may_come_from_the_environment_by_its_name_and_secrets_are_not_shown() {
        let file = "[[channel]]\nname = \"my-crm\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\n";
        let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let config = accept(file, &[("FRONTDESK_CHANNEL__MY_CRM__SECRET", key)], &[]);
        let secret = config.settings.iter().find(|setting| setting.key == "channel.my-crm.secret").unwrap();
        assert_eq!(secret.value, "\"…\"");
        assert_eq!(secret.origin.to_string(), "environment FRONTDESK_CHANNEL__MY_CRM__SECRET");
        assert!(!format!("{config:?}").contains("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        // Whoever has the address of a chat service's webhook can write there.
        let url = config.settings.iter().find(|setting| setting.key == "channel.my-crm.url").unwrap();
        assert_eq!(url.value, "\"…\"");
    }

    #[test]
    fn every_fault_of_a_channel_is_told_with_its_line() {
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
            &["frontdesk.toml:6: a `[[channel]]` has a `name` that another one has"],
        );
        check(
            "name = \"a\"\nkind = \"webhook\"\nurl = \"https://169.254.169.254/\"\nallow_private = true",
            &["frontdesk.toml:4: `channel.a.url` leads nowhere: 169.254.169.254 hands out"],
        );
        check("name = \"a\"\nkind = \"pigeon\"", &["frontdesk.toml:3: `channel.a.kind` must be \"smtp\""]);
        check(
            "name = \"a\"\nkind = \"maildir\"\npaht = \"m\"",
            &[
                "frontdesk.toml: `channel.a.path` is missing",
                "frontdesk.toml:4: unknown key `channel.a.paht`",
            ],
        );
        check(
            "name = \"a\"\nkind = \"webhook\"\nurl = \"http://hooks.example.com/\"",
            &[
                "frontdesk.toml:4: `channel.a.url` must be an address to post to: nothing travels in the clear",
            ],
        );
        check(
            "name = \"a\"\nkind = \"webhook\"\nurl = \"https://hooks.example.com/\"\nsecret = \"abc\"",
            &["frontdesk.toml:5: `channel.a.secret` must be `whsec_` and 24 to 64 random bytes"],
        );
        check(
            "name = \"a\"\nkind = \"maildir\"\npath = \"m\"\nforms = [\"contcat\"]",
            &[
                "frontdesk.toml:5: `channel.a.forms` must be a list of forms, of which there are \"waitlist\", \"contact\"",
            ],
        );
        check(
            "name = \"a\"\nkind = \"smtp\"\nhost = \"smtp.example.com\"\ntls = \"none\"\nfrom = \"a@example.com\"",
            &["frontdesk.toml:5: `channel.a.tls` may be \"none\" only"],
        );
        check(
            "name = \"a\"\nkind = \"maildir\"\npath = \"m\"\n[[channel]]\nname = \"a\"",
            &["frontdesk.toml:6: a `[[channel]]` has a `name` that another one has"],
        );
        refuse("[channel]\nname = \"a\"", &[], &["frontdesk.toml:1: `channel` must be a list of tables"]);
        refuse(
            "[forms.contact]\naccept = \"delivered\"",
            &[],
            &["frontdesk.toml:2: `forms.contact.accept` is \"delivered\", and no `[[channel]]`"],
        );
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let file = "[server]\nworkers = 1\n";
        let environment = [("FRONTDESK_SERVER__WORKERS", "2")];
        let flag = [Flag { key: "server.workers", name: "--workers", value: "3".into() }];
        assert_eq!(accept(file, &[], &[]).web.workers, 1);
        assert_eq!(accept(file, &environment, &[]).web.workers, 2);
        let config = accept(file, &environment, &flag);
        assert_eq!(config.web.workers, 3);
        let setting =
            config.settings.iter().find(|setting| setting.key == "server.workers").expect("it is there");
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
    fn every_fault_is_told_at_once_with_its_line_and_a_remedy() {
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
            &["FRONTDESK_SERVER__LISTEN: `server.listen` must be an address"],
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

    #[test]
    fn a_memory_limit_below_what_the_site_needs_is_a_warning() {
        let check = |text: &str, site: usize, expected: &[&str]| {
            let faults = accept(text, &[], &[]).memory_faults(site);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{text}");
        };
        let warning = "frontdesk.toml:2: `server.max_memory` is less than this server needs for its site\n    hint: 88MB, plus the memory that connections may take";
        check("[server]\nmax_memory = \"64MiB\"\n", 4_000_000, &[warning]);
        check("[server]\nmax_memory = \"128MB\"\n", 4_000_000, &[]);
        check("[server]\nmax_memory = \"off\"\n", usize::MAX / 2, &[]);
        check("", usize::MAX / 2, &[]);
        assert_eq!(accept("[server]\nmax_memory = \"1GiB\"\n", &[], &[]).web.max_memory, Some(1 << 30));
        refuse(
            "[server]\nmax_memory = \"63MB\"\n",
            &[],
            &[
                "frontdesk.toml:2: `server.max_memory` must be \"auto\", \"off\", or a size from 64MiB to 1024TiB",
            ],
        );
    }

    #[test]
    fn lists_of_domains_are_read_from_files_and_their_faults_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("domains.txt");
        let path = list.to_str().expect("a name");
        let environment = [("FRONTDESK_SCREENING__BLOCKED_DOMAINS", path)];
        std::fs::write(&list, "# ours\nbad.example.com\n").expect("it can be written");
        let config = accept("[screening.points]\nhoneypot = 7\n", &environment, &[]);
        assert!(config.store.screening.blocked.lists("bad.example.com"));
        assert_eq!(config.store.screening.points.get(Signal::Honeypot), 7);
        std::fs::write(&list, "# ours\nbad\n").expect("it can be written");
        refuse(
            "",
            &environment,
            &[
                "FRONTDESK_SCREENING__BLOCKED_DOMAINS: `screening.blocked_domains` has no domain such as \"example.com\" in line 2",
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
            let setting = config.settings.iter().find(|setting| setting.key == "limits.shared_url");
            assert_eq!(setting.expect("it is there").value, format!("{expected:?}"));
            assert!(!format!("{config:?}").contains("sesame"));
        };
        check("redis://user:sesame@example.com", "redis://user:***@example.com");
        check("unix:///run/redis.sock?pass=sesame&db=1", "unix:///run/redis.sock?pass=***&db=1");
        let text = "[store]\nurl = \"postgres:///inbox?host=/run/postgresql&password=sesame&user=x\"\n";
        let settings = accept(text, &[], &[]).settings;
        let setting = settings.iter().find(|setting| setting.key == "store.url").expect("it is there");
        assert_eq!(setting.value, "\"postgres:///inbox?host=/run/postgresql&password=***&user=x\"");
    }

    #[test]
    fn limits_are_shared_where_an_address_says_so() {
        assert_eq!(accept("", &[], &[]).shared_limits, None);
        let read =
            |text: &str| accept(&format!("[limits]\n{text}"), &[], &[]).shared_limits.expect("it is there");
        let shared = read("shared_url = \"rediss://:secret@redis.example.com/2\"");
        assert_eq!((shared.to_string().as_str(), shared.password()), ("redis.example.com:6379", "secret"));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("url");
        std::fs::write(&file, "redis://:secret@192.0.2.7\n").expect("it can be written");
        let environment = [("FRONTDESK_LIMITS__SHARED_URL_FILE", file.to_str().expect("a name"))];
        let shared = accept("", &environment, &[]).shared_limits.expect("it is there");
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
                "frontdesk.toml:3: `limits.shared_ca_file` is set, and `limits.shared_url` is no `rediss://` address",
            ],
        );
    }

    #[test]
    fn a_shared_secret_takes_the_place_of_the_password_and_is_not_shown() {
        let secret = "correct horse battery";
        let text =
            format!("[limits]\nshared_url = \"redis://redis.example.com\"\nshared_secret = {secret:?}\n");
        let (config, faults) = load(&text, &[], &[]);
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert!(!said.iter().any(|said| said.contains("shared_secret")), "{said:?}");
        let shared = config.shared_limits.as_ref().expect("they are shared");
        assert_eq!(shared.hash_secret(), HashSecret::Configured);
        let setting = config.settings.iter().find(|setting| setting.key == "limits.shared_secret");
        assert_eq!(setting.expect("it is there").value, "\"…\"");
        assert!(!format!("{config:?} {said:?}").contains(secret));
        assert_eq!(config.secret_files[0].keys, ["limits.shared_secret"]);
        // Another secret makes other limits, which a reload must notice.
        let other = accept(&text.replace("horse", "house"), &[], &[]);
        assert_ne!(other.shared_limits, config.shared_limits);
        refuse(
            "[limits]\nshared_secret = \"too short\"\n",
            &[],
            &["frontdesk.toml:2: `limits.shared_secret` must be empty, or a secret of 16 characters or more"],
        );
    }

    #[test]
    fn without_a_base_url_the_address_stands_in() {
        let config = accept("", &[], &[]);
        let at = |address: &str| config.clone().at(address.parse().ok()).pages.base_url;
        assert_eq!(at("127.0.0.1:4321"), "http://127.0.0.1:4321");
        assert_eq!(at("0.0.0.0:80"), "http://127.0.0.1:80");
        let config = accept("base_url = \"https://www.example.com\"", &[], &[]);
        assert_eq!(config.at("127.0.0.1:1".parse().ok()).pages.base_url, "https://www.example.com");
    }

    #[test]
    fn agents_directories_are_hosts_or_urls_without_a_path() {
        let text = "[agents]\ndirectories = [\"agent.example.com\", \"https://Other.example.com:8443/\"]";
        let config = accept(text, &[], &[]);
        let places: Vec<String> = config.agents.directories.iter().map(crate::fetch::Url::place).collect();
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
            "frontdesk.toml:2: `agents.directories` leads nowhere: 192.168.1.2",
        );
        check("ca_file = \"none.pem\"", "frontdesk.toml:2: `agents.ca_file` cannot be read");
        accept("[agents]\ndirectories = [\"192.168.1.2\"]\nallow_private = true", &[], &[]);
    }

    #[test]
    fn signatures_are_made_for_the_address_under_which_the_site_is_reached() {
        use crate::web::agent::Origin;
        let address = "127.0.0.1:4321".parse().ok();
        assert_eq!(accept("", &[], &[]).at(address).agents.origin, Origin::of("http://127.0.0.1:4321"));
        let config = accept("base_url = \"https://www.example.com\"", &[], &[]);
        assert_eq!(config.at(address).agents.origin, Origin::of("https://www.example.com"));
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
