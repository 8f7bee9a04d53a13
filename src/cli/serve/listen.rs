//! The server's sockets: those of the service manager, and those of the configured addresses.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, bail};

use crate::cli::diagnostics::with_hint;
use frontdesk_app::Sockets;
use frontdesk_config::Config;
use frontdesk_http::{Address, BindError, Socket};

/// Fails if addresses could not be bound, each given with the option that sets it. The error names all
/// addresses that failed for the same reason as the first one, so that the operator can change all of them at
/// once.
fn report_bind_errors(mut errors: Vec<(BindError, &str)>) -> anyhow::Result<()> {
    let Some(kind) = errors.first().map(|(error, _)| error.cause.kind()) else { return Ok(()) };
    errors.retain(|(error, _)| error.cause.kind() == kind);
    let addresses: Vec<String> = errors.iter().map(|(error, _)| error.address.to_string()).collect();
    let mut flags: Vec<String> = errors.iter().map(|(_, flag)| format!("{flag} ADDR:PORT")).collect();
    flags.dedup();
    let flags = flags.join(" ");
    let is_unix = errors.iter().all(|(error, _)| matches!(error.address, Address::Unix(_)));
    let hint = match kind {
        std::io::ErrorKind::AddrInUse if is_unix => {
            "another program is listening there, or a file that is not a socket has that name: remove the file, or name another path".to_owned()
        }
        std::io::ErrorKind::AddrInUse => {
            let (is_used, ports) = if errors.len() == 1 {
                ("another program is listening there", "another port")
            } else {
                ("these ports are in use", "other ports")
            };
            format!("{is_used}; choose {ports} with `{flags}`")
        }
        std::io::ErrorKind::PermissionDenied if is_unix => {
            "name a path in a folder in which this user may create files".to_owned()
        }
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 usually require root; a service manager can pass the socket, or a proxy can forward to a higher port".to_owned()
        }
        std::io::ErrorKind::AddrNotAvailable => {
            format!("this machine does not have that address; choose another one with `{flags}`")
        }
        _ => format!("choose another address with `{flags}`"),
    };
    let message = format!("cannot listen on {}", addresses.join(" and "));
    Err(with_hint(anyhow::Error::new(errors.swap_remove(0).0.cause).context(message), hint))
}

/// Takes the sockets that a service manager passed, and binds the configured addresses of the other
/// listeners. Binds no address for plain HTTP if the service manager passed a socket for TLS. Fails if an
/// address cannot be bound, if there is a certificate without a socket for TLS or the other way around, or if
/// no socket can serve the inbox's domain over TLS.
pub(super) fn bind_sockets(config: &Config) -> anyhow::Result<Sockets> {
    let mut sockets = Sockets::inherited().context("cannot use the sockets passed by the service manager")?;
    let is_https_passed = !sockets.https.is_empty();
    let mut errors = Vec::new();
    let mut bind_with = |bind: fn(&Address) -> Result<Socket, BindError>, addresses: &[Address], flag| {
        let bind = |address| bind(address).map_err(|error| errors.push((error, flag))).ok();
        addresses.iter().filter_map(bind).collect::<Vec<Socket>>()
    };
    let mut bind = |addresses: &[Address], flag| bind_with(Socket::bind, addresses, flag);
    if !is_https_passed {
        sockets.https = bind(&config.tls_listen, "tls.listen =");
    }
    if sockets.http.is_empty() && !is_https_passed {
        sockets.http = bind(&config.listen, "--listen");
    }
    if sockets.ops.is_none() {
        sockets.ops = bind(config.ops_listen.as_slice(), "--ops-listen").pop();
    }
    if sockets.inbox.is_none() {
        let addresses = config.inbox_listen.as_slice();
        sockets.inbox = bind_with(Socket::bind_private, addresses, "inbox.listen =").pop();
    }
    report_bind_errors(errors)?;
    let has_domain = config.web.inbox_pages.domain.is_some();
    if has_domain && sockets.inbox.as_ref().is_some_and(|socket| !is_tcp(socket)) {
        bail!(
            "the service manager passed a Unix socket for the inbox, but `inbox.domain` needs TLS on a TCP socket"
        )
    }
    if has_domain && sockets.inbox.is_none() && sockets.https.is_empty() {
        bail!("`inbox.domain` is set, but there is no socket for TLS: set `tls.listen` or `inbox.listen`")
    }
    match (&config.web.http.tls.source, sockets.https.is_empty()) {
        (None, false) => {
            bail!(
                "the service manager passed a socket for TLS, but neither `tls.certificate` nor `tls.acme_domains` is set"
            )
        }
        (Some(_), true) => {
            bail!(
                "`tls.certificate` or `tls.acme_domains` is set, but there is no socket for TLS: set `tls.listen`"
            )
        }
        _ => {}
    }
    Ok(sockets)
}

fn is_tcp(socket: &Socket) -> bool {
    socket.address().is_ok_and(|address| address.tcp().is_some())
}

/// The bound addresses as URLs, or as `unix:PATH`.
pub(super) struct ListeningAddresses {
    pub(super) public: Vec<String>,
    /// The address of the listener for health checks and metrics.
    pub(super) private: Option<String>,
    /// The address of the inbox's web interface.
    pub(super) inbox: Option<String>,
    /// The TCP port of the inbox's own socket.
    pub(super) inbox_port: Option<u16>,
    /// The first TCP address, for links: over TLS if TLS is configured. `None` with only Unix sockets.
    pub(super) first: Option<SocketAddr>,
}

impl ListeningAddresses {
    /// Reads the address of each socket, because binding replaces port 0 with a free port.
    pub(super) fn from_sockets(sockets: &Sockets) -> std::io::Result<Self> {
        let addresses =
            |sockets: &[Socket]| sockets.iter().map(Socket::address).collect::<std::io::Result<Vec<_>>>();
        let (http, https) = (addresses(&sockets.http)?, addresses(&sockets.https)?);
        let private = sockets.ops.as_ref().map(Socket::address).transpose()?;
        let inbox = sockets.inbox.as_ref().map(Socket::address).transpose()?;
        let inbox_port = inbox.as_ref().and_then(Address::tcp).map(|address| address.port());
        let url = |scheme: &str, address: &Address| match address {
            Address::Tcp(address) => format!("{scheme}://{address}"),
            Address::Unix(_) => address.to_string(),
        };
        let first = https.iter().chain(&http).find_map(Address::tcp);
        let https = https.iter().map(|address| url("https", address));
        let public = http.iter().map(|address| url("http", address)).chain(https).collect();
        let [private, inbox] = [private, inbox].map(|address| address.map(|address| url("http", &address)));
        Ok(Self { public, private, inbox, inbox_port, first })
    }

    /// Changes the inbox's URL to https if the inbox has a domain: at the address of its own socket, or at
    /// the domain if it has none.
    pub(super) fn name_inbox(&mut self, config: &Config) {
        let Some(authority) = config.inbox_authority(self.inbox_port) else { return };
        self.inbox = Some(match &self.inbox {
            Some(url) => url.replacen("http://", "https://", 1),
            None => format!("https://{authority}"),
        });
    }

    /// One line for each address, such as `listening on http://127.0.0.1:8080`.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let public = self.public.iter().map(|url| format!("listening on {url}"));
        let private = self.private.iter().map(|url| format!("private listener on {url}"));
        public.chain(private).chain(self.inbox.iter().map(|url| format!("inbox on {url}")))
    }

    /// Prints the addresses to standard output, for programs. On a terminal, the banner shows them instead.
    pub(super) fn print(&self) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        if stdout.is_terminal() {
            return Ok(());
        }
        for line in self.lines() {
            writeln!(stdout, "{line}")?;
        }
        stdout.flush()
    }
}
