//! Request ids, which correlate requests with log entries.

use std::fmt;

use http::header::{HeaderName, HeaderValue};
use uuid::Uuid;

use super::socket::Peer;
use super::trusted_proxies::{self, Network, is_trusted};

/// The header that carries the id in requests from trusted proxies and in responses with status 500.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static(trusted_proxies::X_REQUEST_ID);

const MAX_LENGTH: usize = 64;

/// An id of 1 to 64 ASCII letters, digits, `.`, `_` and `-`. Only requests that are logged or fail have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub HeaderValue);

impl RequestId {
    /// The id in `lines` if a trusted proxy sent exactly one, and it is valid; otherwise a new UUID.
    pub fn from_proxy_or_new<'a>(
        peer: Peer,
        lines: impl IntoIterator<Item = &'a [u8]>,
        proxies: &[Network],
    ) -> Self {
        let sent = if is_trusted(proxies, peer) { valid_id(lines) } else { None };
        Self(sent.unwrap_or_else(|| {
            let own = Uuid::now_v7().hyphenated().to_string();
            HeaderValue::try_from(own).unwrap_or(HeaderValue::from_static("-"))
        }))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or("-"))
    }
}

/// The id in the lines of the header, if there is exactly one line and it is safe to log.
fn valid_id<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<HeaderValue> {
    let mut lines = lines.into_iter();
    let id = lines.next()?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let is_valid = (1..=MAX_LENGTH).contains(&id.len()) && id.iter().all(is_plain);
    if lines.next().is_none() && is_valid { HeaderValue::from_bytes(id).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Trust;

    fn id(peer: &str, names: &[&str]) -> String {
        id_on(Peer::at(peer.parse().unwrap()), names)
    }

    fn id_on(peer: Peer, names: &[&str]) -> String {
        let proxies = ["192.0.2.1".parse().unwrap()];
        RequestId::from_proxy_or_new(peer, names.iter().map(|name| name.as_bytes()), &proxies).to_string()
    }

    #[test]
    fn only_trusted_proxies_choose_request_ids() {
        let check = |peer: &str, names: &[&str], is_taken: bool| {
            let id = id(peer, names);
            if is_taken {
                assert_eq!(id, names[0]);
            } else {
                assert_eq!(Uuid::parse_str(&id).unwrap().get_version_num(), 7, "{names:?}");
            }
        };
        let long = "x".repeat(64);
        check("192.0.2.1", &["a.B-9_z"], true);
        check("192.0.2.1", &[&long], true);
        check("192.0.2.1", &[&format!("{long}x")], false);
        check("192.0.2.1", &[""], false);
        check("192.0.2.1", &["ada@example.com"], false);
        check("192.0.2.1", &["a b"], false);
        check("192.0.2.1", &["a", "b"], false);
        check("192.0.2.1", &[], false);
        check("192.0.2.2", &["a"], false);
    }

    #[test]
    fn an_untrusted_connection_of_a_proxy_chooses_no_id() {
        let peer = Peer { trust: Trust::Never, ..Peer::at("192.0.2.1".parse().unwrap()) };
        assert_ne!(id_on(peer, &["a"]), "a");
        assert_eq!(id_on(Peer::LOCAL, &["a"]), "a");
    }

    #[test]
    fn generated_ids_are_unique() {
        assert_ne!(id("192.0.2.2", &[]), id("192.0.2.2", &[]));
    }
}
