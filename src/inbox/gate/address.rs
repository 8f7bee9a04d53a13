//! Where the limits are that several servers share: a URL, and whose certificate is believed.

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

/// How Redis is reached.
#[derive(Clone)]
pub struct Options {
    url: String,
    info: ConnectionInfo,
    /// In PEM. None for the public authorities.
    ca: Option<Vec<u8>>,
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
            _ => Ok(Options { url: url.to_owned(), info, ca: None, patience: PATIENCE }),
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
        (&self.url, &self.ca, self.patience) == (&other.url, &other.ca, other.patience)
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
}
