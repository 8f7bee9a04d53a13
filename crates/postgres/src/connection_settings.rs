//! The address of a PostgreSQL database, and the TLS configuration for connecting to it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::pooler::PoolerState;

/// A PostgreSQL database, as described by a URL.
///
/// TLS always verifies the server's certificate and name. The URL's `sslmode` turns TLS on or off. Without
/// it, TLS is off if all hosts are this machine, and on otherwise.
#[derive(Clone)]
pub struct Server(Arc<ConnectionSettings>, Arc<PoolerState>);

impl PartialEq for Server {
    /// Compares only the settings in the URLs. Ignores whether a pooler was detected.
    fn eq(&self, other: &Server) -> bool {
        self.0 == other.0
    }
}

impl Eq for Server {}

#[derive(PartialEq, Eq)]
struct ConnectionSettings {
    config: Config,
    /// The URL's `options`, which are not in `config` because some poolers refuse them.
    options: Option<String>,
    tls: Option<Roots>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Roots {
    /// The certificate authorities that browsers trust.
    Public,
    /// The certificates in this PEM file.
    File(PathBuf),
}

/// The default timeout for connecting to one host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The default parameters of idle connections: the first probe after 5 seconds, then one each 2 seconds;
/// after three without a response, the connection ends.
const KEEPALIVES: &str = "keepalives_idle=5&keepalives_interval=2&keepalives_retries=3";
/// How long sent data may stay unacknowledged before the connection counts as lost.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(5);

impl Server {
    /// The file with the certificates of the authorities that `sslrootcert` names.
    pub fn root_file(&self) -> Option<&Path> {
        match self.0.tls.as_ref()? {
            Roots::File(path) => Some(path),
            Roots::Public => None,
        }
    }

    /// Parses a `postgres://` or `postgresql://` URL (libpq's connection URI), with one or more hosts and a
    /// database. Parameters that are missing, and times that are 0, get defaults by which a dead server is
    /// noticed within seconds. The last of repeated parameters counts. If `sslmode` is given, it must
    /// enforce TLS or be `disable`. Refuses names that seem to contain a part of the password. Errors do not
    /// contain the password.
    pub fn parse(url: &str) -> Result<Server, String> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err("is not a postgres:// URL".to_owned());
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let decode = |value| percent_decode_str(value).decode_utf8_lossy().into_owned();
        let (mut mode, mut roots, mut options, mut rest) = (None, Roots::Public, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", "system")) => roots = Roots::Public,
                Some(("sslrootcert", value)) => {
                    roots = Roots::File(decode(value).into());
                }
                Some(("options", value)) => options = Some(decode(value)),
                _ => rest.push(parameter),
            }
        }
        // Put the defaults first: if a parameter is repeated, the last one wins.
        let mut config: Config = format!("{base}?{KEEPALIVES}&{}", rest.join("&")).parse().map_err(
            |error: tokio_postgres::Error| {
                let reason =
                    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
                format!("cannot be parsed: {reason}")
            },
        )?;
        if config.get_hosts().is_empty() {
            return Err("names no host".to_owned());
        }
        if config.get_dbname().is_none() {
            return Err("names no database, as in postgres://frontdesk@db.example.com/frontdesk".to_owned());
        }
        // The rest of a password would otherwise be shown in the log as the name of the host or the database.
        // In other names, `@` is percent-encoded.
        let has_at = base.split_once('@').is_some_and(|(_, names)| names.contains('@'));
        if has_at || !config.get_hosts().iter().all(is_host_name) {
            return Err("has a host or a database with characters that no name has. If the password has such characters, percent-encode them: `@` as `%40`, `#` as `%23`, `/` as `%2F`, `?` as `%3F`, `%` as `%25`".to_owned());
        }
        let is_secured = match mode {
            None => !config.get_hosts().iter().all(is_this_machine),
            Some("disable") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            Some(other) => {
                return Err(format!(
                    "has sslmode={other}: use \"verify-full\" (certificate and name are verified) or \"disable\""
                ));
            }
        };
        config.ssl_mode(if is_secured { SslMode::Require } else { SslMode::Disable });
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(ACKNOWLEDGED_WITHIN);
        }
        if config.get_application_name().is_none() {
            config.application_name("frontdesk");
        }
        let settings = ConnectionSettings { config, options, tls: is_secured.then_some(roots) };
        Ok(Server(Arc::new(settings), Arc::default()))
    }

    /// The value of the URL's parameter `options`.
    pub fn options(&self) -> Option<&str> {
        self.0.options.as_deref()
    }

    /// The connection settings without the TLS configuration and the options.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The detected properties of a pooler in front of the database, shared by all clones of this server.
    pub fn pooler(&self) -> &Arc<PoolerState> {
        &self.1
    }

    /// Builds the TLS configuration; `None` if TLS is off. Reads the file that `sslrootcert` names, and fails
    /// if that is not possible, or if the file contains no certificate or an invalid one.
    pub fn tls(&self) -> io::Result<Option<Arc<ClientConfig>>> {
        let Some(roots) = &self.0.tls else { return Ok(None) };
        let mut store = RootCertStore::empty();
        match roots {
            Roots::Public => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Roots::File(path) => {
                let unreadable = |error: String| {
                    io::Error::other(format!("cannot use `sslrootcert` ({}): {error}", path.display()))
                };
                let pem = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
                // Remove byte order marks, which editors on Windows write.
                let pem = String::from_utf8_lossy(&pem).replace('\u{feff}', "");
                for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                    // The library's error quotes the file, which may also contain a private key.
                    let certificate =
                        certificate.map_err(|_| unreadable("it is not valid PEM".to_owned()))?;
                    store.add(certificate).map_err(|error| unreadable(error.to_string()))?;
                }
                if store.is_empty() {
                    return Err(unreadable("the file contains no certificate".to_owned()));
                }
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(
            tokio_rustls::rustls::crypto::aws_lc_rs::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(store)
        .with_no_client_auth();
        Ok(Some(Arc::new(config)))
    }
}

/// Whether a host is a socket's folder, an IP address, or a name with only the characters of domain names.
fn is_host_name(host: &Host) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '%');
    match host {
        Host::Tcp(name) => name.chars().all(is_part),
        Host::Unix(_) => true,
    }
}

/// Whether the host is the folder of a Unix socket, `localhost`, or a loopback address.
fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name
                    .trim_matches(['[', ']'])
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// Shows the hosts, the ports and the database, without the user and the password.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        let ports = self.0.config.get_ports();
        for (at, host) in self.0.config.get_hosts().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}:{port}")?,
                Host::Unix(folder) => write!(f, "{comma}{}:{port}", Path::display(folder))?,
            }
        }
        write!(f, "/{}", self.0.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shown_without_what_is_secret() {
        for (url, shown) in [
            ("postgres://frontdesk:hunter2@db.example.com/inbox", "postgres://db.example.com:5432/inbox"),
            (
                "postgresql://f:hunter2@a.example.com:1,b.example.com:2/inbox?target_session_attrs=any",
                "postgres://a.example.com:1,b.example.com:2/inbox",
            ),
            (
                "postgres:///inbox?host=/run/postgresql&user=f&password=hunter2",
                "postgres:///run/postgresql:5432/inbox",
            ),
        ] {
            let server = Server::parse(url).unwrap();
            assert_eq!(server.to_string(), shown);
            assert!(!format!("{server:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_password_that_is_not_encoded_is_refused() {
        for url in
            ["postgres://f:p@ss#w/rd@db:1/inbox", "postgres://f:p@ss/rd@db/inbox", "postgres://f:p@s@db/x"]
        {
            let error = Server::parse(url).err().unwrap_or_default();
            assert!(error.contains("percent-encode") && !error.contains("p@s"), "{url}: {error}");
        }
        for url in ["postgres://f:p%40ss@db-1.example.com/my%40inbox", "postgres://f@[::1]:5432/x"] {
            assert!(Server::parse(url).is_ok(), "{url}");
        }
        let system = Server::parse("postgres://db.example.com/x?sslrootcert=system").unwrap();
        assert_eq!((system.root_file(), system.tls().unwrap().is_some()), (None, true));
    }

    #[test]
    fn keepalives_of_the_url_win() {
        let server =
            Server::parse("postgres://db.example.com/a?keepalives_idle=60&keepalives_retries=9").unwrap();
        let config = server.config();
        assert_eq!(config.get_keepalives_idle(), Duration::from_mins(1));
        assert_eq!(config.get_keepalives_interval(), Some(Duration::from_secs(2)));
        assert_eq!(config.get_keepalives_retries(), Some(9));
    }

    #[test]
    fn tls_is_on_unless_nothing_leaves_this_machine() {
        for (url, expected) in [
            ("postgres://db.example.com/inbox", true),
            ("postgres://192.0.2.1/inbox", true),
            ("postgres://127.0.0.1/inbox", false),
            ("postgres://localhost,db.example.com/inbox", true),
            ("postgres://[::1]/inbox", false),
            ("postgres:///inbox?host=/run/postgresql", false),
            ("postgres://db.example.com/inbox?sslmode=disable", false),
            ("postgres://127.0.0.1/inbox?sslmode=verify-full", true),
        ] {
            assert_eq!(Server::parse(url).unwrap().0.tls.is_some(), expected, "{url}");
        }
    }

    #[test]
    fn invalid_urls_are_refused_without_showing_the_password() {
        for (url, reason) in [
            ("mysql://db.example.com/inbox", "not a postgres:// URL"),
            ("postgres://f:hunter2@db.example.com", "names no database"),
            ("postgres:///inbox", "names no host"),
            ("postgres://f:hunter2@db.example.com/inbox?sslmode=prefer", "verify-full"),
            ("postgres://f:hunter2@db.example.com/inbox?color=red", "color"),
            ("postgres://f:hunter2@db.example.com:port/inbox", "port"),
        ] {
            let error = Server::parse(url).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_root_certificate_may_have_any_name() {
        let server =
            Server::parse("postgres://db.example.com/inbox?sslrootcert=%2Fetc%2Fmy%20ca.pem").unwrap();
        assert_eq!(server.0.tls, Some(Roots::File("/etc/my ca.pem".into())));
        assert!(server.tls().unwrap_err().to_string().contains("/etc/my ca.pem"));
    }

    #[test]
    fn a_root_certificate_may_begin_with_a_byte_order_mark() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let url = format!("postgres://db.example.com/inbox?sslrootcert={}", file.path().display());
        let server = Server::parse(&url).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let names = vec!["db.example.com".to_owned()];
        let pem = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap().pem();
        std::fs::write(file.path(), format!("\u{feff}{pem}")).unwrap();
        assert!(server.tls().unwrap().is_some());
    }
}
