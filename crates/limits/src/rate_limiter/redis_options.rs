//! Options for shared limits: the Redis URL, certificate authorities, the timeout and the hash secret.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisResult,
    TlsCertificates,
};

/// The time limit for connecting, logging in and loading the script together.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

const EXPECTED: &str = "empty, or an address such as \"redis://:PASSWORD@redis.example.com:6379/0\", \"rediss://…\" for TLS, or \"unix:///run/redis.sock\"";

#[derive(Clone)]
pub struct RedisOptions {
    url: String,
    info: ConnectionInfo,
    /// The trusted certificate authorities in PEM; `None` for the public authorities.
    pub ca: Option<Vec<u8>>,
    /// The secret for hashing sources before they are stored in Redis. This secret is never sent to Redis.
    /// Only servers with the same secret share limits. If `None`, the password in the URL is used.
    pub secret: Option<String>,
    /// How long a request waits for Redis to reply.
    pub timeout: Duration,
}

impl RedisOptions {
    /// Parses `redis://[USER][:PASSWORD]@HOST[:PORT][/DATABASE]` (`rediss://` for TLS) or
    /// `unix:///PATH[?db=DATABASE&user=USER&pass=PASSWORD]`. Refuses `#insecure`. The timeout is 15 ms until
    /// the caller changes it. The error describes the expected form.
    pub fn parse(url: &str) -> Result<RedisOptions, String> {
        let info = url.into_connection_info().map_err(|_| EXPECTED)?;
        match info.addr() {
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                Err("an address without `#insecure`; `limits.shared_ca_file` can name your own certificate authority"
                    .to_owned())
            }
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } if host.is_empty() => {
                Err(EXPECTED.to_owned())
            }
            _ => {
                let timeout = Duration::from_millis(15);
                Ok(RedisOptions { url: url.to_owned(), info, ca: None, secret: None, timeout })
            }
        }
    }

    /// Describes the secret for hashing sources as a clause. The error also states the consequence and the
    /// remedy.
    pub fn describe_hash_secret(&self) -> Result<&'static str, &'static str> {
        match &self.secret {
            Some(_) => Ok("sources are hashed with `limits.shared_secret`"),
            // Without a secret, hashing all IPv4 addresses reveals the sources to anyone who can read Redis.
            None if self.password().is_empty() => Err(
                "sources are hashed without a secret, so anyone who reads Redis can find out which addresses have sent requests: \
                 set `limits.shared_secret` to the same value on all servers",
            ),
            None => Ok("sources are hashed with the password in `limits.shared_url`"),
        }
    }

    /// The configured secret, or else the password in the URL; empty if both are missing.
    pub(super) fn hash_secret(&self) -> &str {
        self.secret.as_deref().unwrap_or_else(|| self.password())
    }

    pub fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// The password in the URL; empty if there is none.
    pub fn password(&self) -> &str {
        self.info.redis_settings().password().unwrap_or_default()
    }

    /// Opens a connection and logs in. Sets no time limits: the caller must limit this and each later call.
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = if self.is_tls() {
            let certificates = TlsCertificates { client_tls: None, root_cert: self.ca.clone() };
            Client::build_with_tls(self.info.clone(), certificates)
        } else {
            Client::open(self.info.clone())
        };
        client?.get_multiplexed_async_connection_with_config(&config).await
    }
}

impl PartialEq for RedisOptions {
    fn eq(&self, other: &RedisOptions) -> bool {
        let RedisOptions { url, info: _, ca, secret, timeout } = self;
        (url, ca, secret, timeout) == (&other.url, &other.ca, &other.secret, &other.timeout)
    }
}

impl Eq for RedisOptions {}

/// Shows the address without the user and the password.
impl fmt::Display for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info.addr().fmt(f)
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisOptions({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_address_tls_and_password() {
        let check = |url: &str, place: &str, is_tls: bool, password: &str| {
            let options = RedisOptions::parse(url).unwrap();
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
    fn an_invalid_url_is_refused_with_the_expected_form() {
        for wrong in [
            "redis.example.com",
            "http://redis.example.com",
            "redis://",
            "redis://h/zero",
            "redis://h:port",
            "rediss://h#x",
        ] {
            assert_eq!(RedisOptions::parse(wrong), Err(EXPECTED.to_owned()), "{wrong}");
        }
        assert!(
            RedisOptions::parse("rediss://redis.example.com#insecure")
                .unwrap_err()
                .contains("shared_ca_file")
        );
    }

    #[test]
    fn a_password_is_not_shown() {
        let options = RedisOptions::parse("redis://user:secret@redis.example.com").unwrap();
        assert_eq!(
            format!("{options} {options:?}"),
            "redis.example.com:6379 RedisOptions(redis.example.com:6379)"
        );
    }

    #[test]
    fn a_changed_password_is_a_change() {
        let parse = |url| RedisOptions::parse(url).unwrap();
        assert_eq!(parse("redis://:a@h"), parse("redis://:a@h"));
        assert_ne!(parse("redis://:a@h"), parse("redis://:b@h"));
        assert_ne!(parse("rediss://h"), RedisOptions { ca: Some(b"PEM".to_vec()), ..parse("rediss://h") });
    }

    #[test]
    fn a_configured_secret_comes_before_the_password() {
        let check = |url: &str, secret: Option<&str>, expected: Result<&str, &str>, text: &str| {
            let secret = secret.map(str::to_owned);
            let options = RedisOptions { secret, ..RedisOptions::parse(url).unwrap() };
            let described = options.describe_hash_secret();
            let found = described.map_or_else(
                |problem| problem.split(',').next().map_or(Err(""), Err),
                |secret| Ok(secret.rsplit(' ').next().unwrap_or_default()),
            );
            assert_eq!((found, options.hash_secret()), (expected, text), "{url}");
            assert!(!format!("{options:?} {options} {described:?}").contains("sesame"), "{url}");
        };
        let (configured, password) = (Ok("`limits.shared_secret`"), Ok("`limits.shared_url`"));
        check("redis://:sesame@redis.example.com", None, password, "sesame");
        check("redis://:sesame@redis.example.com", Some("other sesame"), configured, "other sesame");
        check("redis://redis.example.com", Some("other sesame"), configured, "other sesame");
        check("redis://redis.example.com", None, Err("sources are hashed without a secret"), "");
        let base = RedisOptions::parse("redis://redis.example.com").unwrap();
        assert_ne!(RedisOptions { secret: Some("sesame".to_owned()), ..base.clone() }, base);
    }
}
