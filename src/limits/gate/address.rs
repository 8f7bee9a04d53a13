//! Where the limits are that several servers share: a URL, whose certificate is believed, and what sources are hashed with.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisResult,
    TlsCertificates,
};

/// How long a request waits for Redis by default.
pub const PATIENCE: Duration = Duration::from_millis(15);

/// What is right for a URL.
const EXPECTED: &str = "empty, or an address such as \"redis://:PASSWORD@redis.example.com:6379/0\", \"rediss://…\" for TLS, or \"unix:///run/redis.sock\"";

/// What keys the hashes of sources and networks in Redis. Only servers with the same one share limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashSecret {
    /// `limits.shared_secret`, which Redis never sees.
    Configured,
    /// The password in `limits.shared_url`.
    Password,
    /// Nothing that is secret: anyone who reads Redis can hash all IPv4 addresses and compare.
    Missing,
}

/// The end of a sentence about the limits: what sources are hashed with, and what to do where that is no secret.
impl fmt::Display for HashSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HashSecret::Configured => "sources are hashed with `limits.shared_secret`",
            HashSecret::Password => "sources are hashed with the password in `limits.shared_url`",
            HashSecret::Missing => {
                "sources are hashed without a secret, so anyone who reads Redis can find out which addresses have sent: \
                 set `limits.shared_secret` to the same value on all servers"
            }
        })
    }
}

/// How Redis is reached, and what it is told.
#[derive(Clone)]
pub struct Options {
    url: String,
    info: ConnectionInfo,
    /// In PEM. None for the public authorities.
    ca: Option<Vec<u8>>,
    /// `limits.shared_secret`.
    secret: Option<String>,
    /// How long a request waits for an answer. More than 20 ms is more than a visitor should notice.
    pub patience: Duration,
}

impl Options {
    /// Reads `redis://[USER][:PASSWORD]@HOST[:PORT][/DATABASE]`, the same with `rediss` for TLS, or
    /// `unix:///PATH[?db=DATABASE&user=USER&pass=PASSWORD]`. The error is what would be right.
    pub fn parse(url: &str) -> Result<Options, String> {
        let info = url.into_connection_info().map_err(|_| EXPECTED)?;
        match info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                Err("an address without `#insecure`: `limits.shared_ca_file` names an authority of your own"
                    .to_owned())
            }
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } if host.is_empty() => {
                Err(EXPECTED.to_owned())
            }
            _ => Ok(Options { url: url.to_owned(), info, ca: None, secret: None, patience: PATIENCE }),
        }
    }

    /// The same, where the other side's certificate is to come from one of these authorities (PEM), and from no other.
    #[must_use]
    pub fn trusting(self, ca: Option<Vec<u8>>) -> Options {
        Options { ca, ..self }
    }

    /// The same, where a request waits for an answer for so long.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Options {
        Options { patience, ..self }
    }

    /// The same, where sources are hashed with this secret, or with the password if it is none.
    #[must_use]
    pub fn hashing_with(self, secret: Option<String>) -> Options {
        Options { secret, ..self }
    }

    /// What sources are hashed with.
    pub fn hash_secret(&self) -> HashSecret {
        match &self.secret {
            Some(_) => HashSecret::Configured,
            None if self.password().is_empty() => HashSecret::Missing,
            None => HashSecret::Password,
        }
    }

    /// The text of that secret; empty where it is missing.
    pub(super) fn hash_secret_text(&self) -> &str {
        self.secret.as_deref().unwrap_or_else(|| self.password())
    }

    /// Whether it is spoken over TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// What Redis wants to hear before it does anything; empty for nothing.
    pub fn password(&self) -> &str {
        self.info.redis_settings().password().unwrap_or_default()
    }

    /// A new connection, logged in. How long that may take is for the caller to say, and so it is with every answer.
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        self.client()?.get_multiplexed_async_connection_with_config(&config).await
    }

    fn client(&self) -> RedisResult<Client> {
        if self.is_tls() {
            let certificates = TlsCertificates { client_tls: None, root_cert: self.ca.clone() };
            Client::build_with_tls(self.info.clone(), certificates)
        } else {
            Client::open(self.info.clone())
        }
    }
}

impl PartialEq for Options {
    fn eq(&self, other: &Options) -> bool {
        let Options { url, info: _, ca, secret, patience } = self;
        (url, ca, secret, patience) == (&other.url, &other.ca, &other.secret, &other.patience)
    }
}

impl Eq for Options {}

/// Where it is, without user and password.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.addr().fmt(f)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Options({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_how_and_with_which_password() {
        let check = |url: &str, place: &str, is_tls: bool, password: &str| {
            let options = Options::parse(url).unwrap();
            assert_eq!(
                (options.to_string().as_str(), options.is_tls(), options.password()),
                (place, is_tls, password)
            );
        };
        check("redis://redis.example.com", "redis.example.com:6379", false, "");
        check("redis://:s%2Fcret@192.0.2.7:7000/3", "192.0.2.7:7000", false, "s/cret");
        check("rediss://frontdesk:secret@redis.example.com", "redis.example.com:6379", true, "secret");
        check("valkey://:secret@valkey.example.com", "valkey.example.com:6379", false, "secret");
        check("unix:///run/redis.sock?pass=secret", "/run/redis.sock", false, "secret");
    }

    #[test]
    fn what_is_no_address_is_told_what_would_be_one() {
        for wrong in [
            "redis.example.com",
            "http://redis.example.com",
            "redis://",
            "redis://h/zero",
            "redis://h:port",
            "rediss://h#x",
        ] {
            assert_eq!(Options::parse(wrong), Err(EXPECTED.to_owned()), "{wrong}");
        }
        assert!(
            Options::parse("rediss://redis.example.com#insecure").unwrap_err().contains("shared_ca_file")
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let options = Options::parse("redis://user:secret@redis.example.com").unwrap();
        assert_eq!(
            format!("{options} {options:?}"),
            "redis.example.com:6379 Options(redis.example.com:6379)"
        );
    }

    #[test]
    fn a_changed_password_is_a_change() {
        let parse = |url| Options::parse(url).unwrap();
        assert_eq!(parse("redis://:a@h"), parse("redis://:a@h"));
        assert_ne!(parse("redis://:a@h"), parse("redis://:b@h"));
        assert_ne!(parse("rediss://h"), parse("rediss://h").trusting(Some(b"PEM".to_vec())));
    }

    #[test]
    fn a_configured_secret_comes_before_the_password() {
        let check = |url: &str, secret: Option<&str>, expected: HashSecret, text: &str| {
            let options = Options::parse(url).unwrap().hashing_with(secret.map(str::to_owned));
            assert_eq!((options.hash_secret(), options.hash_secret_text()), (expected, text), "{url}");
            assert!(!format!("{options:?} {options} {}", options.hash_secret()).contains("sesame"), "{url}");
        };
        check("redis://:sesame@redis.example.com", None, HashSecret::Password, "sesame");
        check(
            "redis://:sesame@redis.example.com",
            Some("other sesame"),
            HashSecret::Configured,
            "other sesame",
        );
        check("redis://redis.example.com", Some("other sesame"), HashSecret::Configured, "other sesame");
        check("redis://redis.example.com", None, HashSecret::Missing, "");
        let base = Options::parse("redis://redis.example.com").unwrap();
        assert_ne!(base.clone().hashing_with(Some("sesame".to_owned())), base);
    }
}
