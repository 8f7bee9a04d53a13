//! What a request is called in the log and, where something went wrong here, in its answer.

use std::fmt;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

use super::socket::Peer;
use super::source::is_trusted;
use super::{Options, proxy_headers};

/// By which a request is told, to us by a trusted proxy, and by us in an answer that says that we have failed.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static(proxy_headers::X_REQUEST_ID);

/// The longest name that is taken over from a proxy.
const LONGEST: usize = 64;

/// A request's name: 1 to 64 letters, digits, `.`, `_` and `-` of ASCII. One is made only where it is told somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// What a trusted proxy calls the request in the lines of [`X_REQUEST_ID`], or else a name of our own. What anybody else calls it counts for nothing: it could
    /// be anything of his.
    pub(super) fn of<'a>(peer: Peer, names: impl IntoIterator<Item = &'a [u8]>, options: &Options) -> Self {
        let told = if is_trusted(options, peer) { told(names) } else { None };
        Self(told.unwrap_or_else(|| {
            let own = Uuid::now_v7().hyphenated().to_string();
            HeaderValue::try_from(own).unwrap_or(HeaderValue::from_static("-"))
        }))
    }

    /// As the value of [`X_REQUEST_ID`].
    pub(super) fn into_value(self) -> HeaderValue {
        self.0
    }

    /// The name that an answer tells.
    pub(super) fn told_in(answer: &HeaderMap) -> Option<Self> {
        answer.get(X_REQUEST_ID).cloned().map(Self)
    }
}

/// As it is written.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or("-"))
    }
}

/// The one name that is given, if it is one that may stand in a log.
fn told<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Option<HeaderValue> {
    let mut lines = names.into_iter();
    let name = lines.next()?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let may_be_told = (1..=LONGEST).contains(&name.len()) && name.iter().all(is_plain);
    if lines.next().is_none() && may_be_told { HeaderValue::from_bytes(name).ok() } else { None }
}

/// The lines in which a request may have been given a name.
pub(super) fn names(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers.get_all(X_REQUEST_ID).iter().map(HeaderValue::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::socket::Trust;

    fn id(peer: &str, names: &[&str]) -> String {
        id_on(Peer::at(peer.parse().unwrap()), names)
    }

    fn id_on(peer: Peer, names: &[&str]) -> String {
        let options = Options { trusted_proxies: vec!["192.0.2.1".parse().unwrap()], ..Options::default() };
        RequestId::of(peer, names.iter().map(|name| name.as_bytes()), &options).to_string()
    }

    #[test]
    fn a_trusted_proxy_names_a_request_and_nobody_else_does() {
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
    fn a_connection_whose_proxy_names_no_client_names_no_request() {
        let peer = Peer { trust: Trust::Never, ..Peer::at("192.0.2.1".parse().unwrap()) };
        assert_ne!(id_on(peer, &["a"]), "a");
        assert_eq!(id_on(Peer::LOCAL, &["a"]), "a");
    }

    #[test]
    fn two_requests_have_two_names() {
        assert_ne!(id("192.0.2.2", &[]), id("192.0.2.2", &[]));
    }
}
