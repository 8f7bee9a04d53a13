//! A host name of its own for a private handler: which TLS connections and requests belong to it, and the
//! connections that the public TLS sockets accept for it.

use std::sync::{Arc, Mutex, PoisonError};

use http::header::{HOST, HeaderValue};
use http::request::Parts;
use tokio::sync::{mpsc, oneshot};

use super::refusal::Refusal;
use super::socket::{Peer, Scheme, Trust};
use super::tls::{ServerName, Tls, TlsConn, is_acme_challenge, is_plain_http, path_and_query};
use super::trusted_proxies::Network;

/// Maximum number of connections that wait for the private listener's thread; further ones are closed.
const MAX_WAITING: usize = 64;

/// The host name of a private handler. Its TLS configuration offers HTTP/1.1 only, so that no browser sends
/// requests for another name on one of its connections (RFC 9113 §9.1.1).
pub struct PrivateName {
    /// The host name, in lower case.
    domain: String,
    /// The domain, with the port of its listener unless that is 443.
    authority: String,
    pub tls: Arc<Tls>,
    /// Passes connections to the private listener; `None` if the name has a socket of its own.
    conns: Option<mpsc::Sender<SharedConn>>,
    /// The receiving end of `conns`; `None` once the private listener has taken it.
    receiver: Mutex<Option<mpsc::Receiver<SharedConn>>>,
}

/// A connection for the private name that a public socket has accepted.
pub(super) struct SharedConn {
    pub(super) stream: Box<TlsConn>,
    pub(super) peer: Peer,
    /// The connection counts towards the limits of the public sockets until this is dropped. The other end
    /// closes when those limits or a shutdown end the connection.
    pub(super) admitted: oneshot::Sender<()>,
    /// Completes when the connection must close as soon as it is idle.
    pub(super) evicted: oneshot::Receiver<()>,
}

/// The public socket's handle on a connection that it has passed to the private listener.
pub(super) struct SharedConnHandle {
    /// Completes when the connection has ended.
    pub(super) ended: oneshot::Receiver<()>,
    /// Closes the connection as soon as it is idle.
    pub(super) evict: oneshot::Sender<()>,
}

impl PrivateName {
    /// A name on a socket of its own. `authority` is the domain, with a port unless that is 443. On the
    /// public sockets, only its ACME validations are answered.
    pub fn on_own_socket(domain: String, authority: String, tls: Arc<Tls>) -> Self {
        Self { domain, authority, tls, conns: None, receiver: Mutex::default() }
    }

    /// A name whose connections the public TLS sockets accept. [`serve_private`](super::serve_private) serves
    /// them.
    pub fn on_public_sockets(domain: String, authority: String, tls: Arc<Tls>) -> Self {
        let (conns, receiver) = mpsc::channel(MAX_WAITING);
        Self { domain, authority, tls, conns: Some(conns), receiver: Mutex::new(Some(receiver)) }
    }

    /// The domain and the expiry time of its certificate; `None` without a certificate.
    pub fn certificate_expiry(&self) -> Option<(&str, jiff::Timestamp)> {
        self.tls.not_after().map(|not_after| (&*self.domain, not_after))
    }

    /// Takes the receiver of the public sockets' connections. `None` if none exists or it was already taken.
    pub(super) fn take_conns(&self) -> Option<mpsc::Receiver<SharedConn>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where the public sockets route a TLS connection; `None` unless the client requested this name. If the
    /// name has a socket of its own, only its ACME validations are answered here.
    pub(super) fn route_on_public_sockets(&self, requested: Option<&str>) -> Option<ServerName<'_>> {
        let is_own = requested.is_some_and(|name| self.is_named_by(name.as_bytes()));
        is_own.then(|| match self.conns {
            Some(_) => ServerName::Private(&self.tls),
            None => ServerName::ValidationsOnly(&self.tls),
        })
    }

    /// Where the name's own socket routes a TLS connection: [`ServerName::Refused`] unless the client
    /// requested this name.
    pub(super) fn route_on_own_socket(&self, requested: Option<&str>) -> ServerName<'_> {
        let is_own = requested.is_some_and(|name| self.is_named_by(name.as_bytes()));
        if is_own { ServerName::Private(&self.tls) } else { ServerName::Refused }
    }

    /// Passes a connection on, and returns the handle that keeps it open. `None` if too many connections
    /// wait, if the private listener has stopped, or if the name has a socket of its own. The peer is never
    /// trusted, because it did not come through a proxy of the private address.
    pub(super) fn pass_on(&self, stream: Box<TlsConn>, peer: Peer) -> Option<SharedConnHandle> {
        let ((admitted, ended), (evict, evicted)) = (oneshot::channel(), oneshot::channel());
        let peer = Peer { trust: Trust::Never, ..peer };
        self.conns.as_ref()?.try_send(SharedConn { stream, peer, admitted, evicted }).ok()?;
        Some(SharedConnHandle { ended, evict })
    }

    /// Whether a host with an optional port, or a server name, is this name, in any case. One trailing dot is
    /// ignored.
    pub(super) fn is_named_by(&self, host: &[u8]) -> bool {
        let end = host.iter().position(|byte| *byte == b':').unwrap_or(host.len());
        let name = &host[..end];
        let name = name.strip_suffix(b".").unwrap_or(name);
        name.eq_ignore_ascii_case(self.domain.as_bytes())
    }

    /// The refusal of a request on a public socket that names this host, in `Host` or in its target: a
    /// redirect to TLS if the client used plain HTTP, otherwise 421. `None` for other hosts, and for ACME
    /// challenges over plain HTTP, for which the site may have files.
    pub(super) fn refusal(
        &self,
        proxies: &[Network],
        scheme: Scheme,
        peer: Peer,
        head: &Parts,
    ) -> Option<Refusal> {
        let host = head.headers.get(HOST).map(HeaderValue::as_bytes);
        let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        if ![host, target].into_iter().flatten().any(|host| self.is_named_by(host)) {
            None
        } else if !is_plain_http(proxies, scheme, peer, head) {
            Some(Refusal::Misdirected)
        } else {
            (!is_acme_challenge(head)).then(|| self.redirect(head))
        }
    }

    /// The redirect of a plain HTTP request for this name to its [`path_and_query`] over TLS. 421 if the URL
    /// is no valid header value.
    fn redirect(&self, head: &Parts) -> Refusal {
        let path = path_and_query(&head.uri);
        match HeaderValue::try_from(format!("https://{}{path}", self.authority)) {
            Ok(location) => Refusal::Redirect(location),
            Err(_) => Refusal::Misdirected,
        }
    }
}
