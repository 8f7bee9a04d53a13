//! Listening sockets: TCP and Unix sockets that the server opens, or that a service manager has opened.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use listenfd::ListenFd;
use rustix::net::{AddressFamily, SocketFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The length of the accept queue; the kernel may limit it further.
const BACKLOG: i32 = 4096;

/// The maximum number of unsent bytes in a connection's kernel buffer (`TCP_NOTSENT_LOWAT`). By default, the
/// kernel buffers megabytes, so the server would take minutes to notice that a client does not read.
const UNSENT: u32 = 128 * 1024;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port; port 0 selects a free port.
    Tcp(SocketAddr),
    /// A socket in the file system. A stale socket, on which no server is listening, is replaced.
    Unix(PathBuf),
}

impl Address {
    /// The IP address and the port; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// The address at which this machine reaches a listener: 127.0.0.1 for one on all interfaces, also for
/// `[::]`.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    address
}

impl FromStr for Address {
    type Err = String;

    /// Parses `unix:PATH`, or an IP address and a port. `localhost:PORT` and a port alone are 127.0.0.1, and
    /// `:PORT` is every interface, IPv6 and IPv4.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(format!("`{text}` has no path; a valid address is `unix:/run/frontdesk/http.sock`"))
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
        let has_digits_only = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let host: Option<IpAddr> = match host {
            "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
            "" => Some(Ipv6Addr::UNSPECIFIED.into()),
            _ => None,
        };
        let short = host.zip(port.parse().ok()).filter(|_| has_digits_only).map(SocketAddr::from);
        short.or_else(|| text.parse().ok()).map(Self::Tcp).ok_or_else(|| {
            format!(
                "`{text}` is neither a port such as `8080`, an address and port such as `127.0.0.1:8080`, `localhost:8080`, `:80` or `[::]:80`, nor `unix:/PATH`"
            )
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Socket(socket2::Socket);

impl Socket {
    /// Opens a socket and starts to listen. Connections queue until a worker accepts them. A Unix socket
    /// replaces a stale one, and its permissions follow from the umask.
    pub fn bind(address: &Address) -> Result<Self, BindError> {
        Self::bind_with(address, false)
    }

    /// Like [`Socket::bind`], but only the user and the group of this process may connect to a Unix socket,
    /// with any umask.
    pub fn bind_private(address: &Address) -> Result<Self, BindError> {
        Self::bind_with(address, true)
    }

    /// Binds like [`Socket::bind_private`] if `is_private` is set, otherwise like [`Socket::bind`].
    fn bind_with(address: &Address, is_private: bool) -> Result<Self, BindError> {
        let bind = || {
            let socket: socket2::Socket = match address {
                Address::Tcp(address) => TcpListener::bind(address)?.into(),
                Address::Unix(path) => {
                    remove_stale_socket(path)?;
                    bind_unix(path, is_private)?
                }
            };
            // A burst fills the default queue of 128 within milliseconds; dropped clients retry after 1 s.
            socket.listen(BACKLOG)?;
            Ok(Self::configured(socket))
        };
        bind().map_err(|cause| BindError { address: address.clone(), cause })
    }

    /// Sets options that accepted connections inherit. They inherit them when their handshake completes, so
    /// set them as early as possible. Failures are ignored: Unix sockets do not support these options, so
    /// the server notices slow readers later on them.
    fn configured(socket: socket2::Socket) -> Self {
        let _ = socket.set_tcp_notsent_lowat(UNSENT);
        // Responses are written in one piece, so Nagle's algorithm would only delay them.
        let _ = socket.set_tcp_nodelay(true);
        Self(socket)
    }

    /// The address on which the socket listens, with the actual port.
    pub fn address(&self) -> io::Result<Address> {
        local_address(&self.0)
    }

    /// Another handle to the same socket, for another thread.
    pub(super) fn duplicate(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Makes the socket non-blocking, and registers it with the current Tokio runtime.
    #[expect(
        deprecated,
        reason = "unsound only for types that change their descriptor; the successor is `unsafe`"
    )]
    pub(super) fn into_listener(self) -> io::Result<Listener> {
        self.0.set_nonblocking(true)?;
        AsyncFd::with_interest(self.0, Interest::READABLE).map(Listener)
    }
}

/// The permissions of private Unix sockets.
const PRIVATE_MODE: u32 = 0o660;

/// Binds a Unix socket. If `is_private`, its mode is [`PRIVATE_MODE`]; otherwise the umask determines it.
fn bind_unix(path: &Path, is_private: bool) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    if is_private {
        // Before `bind`, so that the socket is never open to others. Linux derives the permissions of the
        // file from those of the descriptor and the umask; other systems return an error.
        let _ = rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(PRIVATE_MODE));
    }
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    if is_private {
        // Set the mode explicitly, because the umask may have removed the group's permissions.
        std::fs::set_permissions(path, Permissions::from_mode(PRIVATE_MODE))?;
    }
    Ok(socket)
}

/// Removes the socket of a server that has ended: one that refuses connections. Returns an error if another
/// server is listening on it, or if that cannot be determined, for example because this user may not connect.
/// Does nothing if there is no file. Leaves files of other types, so that binding fails.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()) {
        return Ok(());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    pub address: Address,
    #[source]
    pub cause: io::Error,
}

/// The service manager's sockets (`sd_listen_fds(3)`) with their names, which may be empty. There are none
/// without a service manager. Must be called once, before the process opens other file descriptors. Fails if
/// one is neither a TCP nor a Unix socket.
pub fn inherited_sockets() -> io::Result<Vec<(String, Socket)>> {
    let mut given = ListenFd::from_env();
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut sockets = Vec::new();
    for number in 0..given.len() {
        let socket = Socket::configured(match given.take_tcp_listener(number) {
            Ok(Some(listener)) => listener.into(),
            _ => match given.take_unix_listener(number)? {
                Some(listener) => listener.into(),
                None => continue,
            },
        });
        sockets.push((names.next().unwrap_or_default().to_owned(), socket));
    }
    Ok(sockets)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// A socket that is registered with a Tokio runtime.
pub(super) struct Listener(AsyncFd<socket2::Socket>);

/// The address to which a socket is bound. A Unix socket without a path has the path `(unnamed)`.
fn local_address(socket: &socket2::Socket) -> io::Result<Address> {
    let address = socket.local_addr()?;
    let path = || address.as_pathname().unwrap_or(Path::new("(unnamed)"));
    Ok(address.as_socket().map_or_else(|| Address::Unix(path().into()), Address::Tcp))
}

impl Listener {
    /// The address on which the socket listens, with the actual port.
    pub(super) fn address(&self) -> io::Result<Address> {
        local_address(self.0.get_ref())
    }

    /// Accepts the next connection, which any thread can serve: it is not registered with a runtime yet. Unix
    /// sockets also yield a [`TcpStream`]: the server uses only system calls that are the same for both.
    pub(super) async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        self.0.async_io(Interest::READABLE, accept_nonblocking).await
    }

    /// Accepts a connection from the queue. `None` if there is none, or after an error.
    pub(super) fn accept_waiting(&self) -> Option<(TcpStream, Peer)> {
        accept_nonblocking(self.0.get_ref()).ok()
    }
}

/// Accepts a connection, and makes its descriptor non-blocking. The peer on a Unix socket is [`Peer::LOCAL`].
/// Fails at once if none is waiting, because `socket` is non-blocking.
fn accept_nonblocking(socket: &socket2::Socket) -> io::Result<(TcpStream, Peer)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, address) = rustix::net::acceptfrom_with(socket, flags)?;
    let address = address.ok_or(io::ErrorKind::ConnectionAborted)?;
    let stream = TcpStream::from(socket);
    if address.address_family() == AddressFamily::UNIX {
        return Ok((stream, Peer::LOCAL));
    }
    Ok((stream, Peer::at(SocketAddr::try_from(address)?.ip())))
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The address of the peer, or of the client if a PROXY header names it.
    pub(super) address: IpAddr,
    /// Whether forwarding headers on this connection are trusted.
    pub(super) trust: Trust,
}

/// When forwarding headers (`X-Forwarded-For` and others) on a connection are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Trusted if the peer's address belongs to a trusted proxy. Applies to TCP connections.
    ByAddress,
    /// Always trusted. Applies to Unix sockets, because only programs on this machine can connect to one.
    Always,
    /// Never trusted. Applies if the PROXY header does not name a client (`UNKNOWN`, `LOCAL`): a proxy that
    /// speaks the PROXY protocol forwards bytes unchanged, so the client itself may have written the headers.
    /// Also applies to connections that a public socket passes to the private handler.
    Never,
}

impl Peer {
    /// A peer on a Unix socket, which has no address.
    pub(super) const LOCAL: Self = Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), trust: Trust::Always };

    /// The address of the connection's other end, or of the client that a PROXY header names.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// A peer at an address, which is trusted if it is that of a trusted proxy. An IPv4-mapped address
    /// becomes an IPv4 address.
    pub fn at(address: IpAddr) -> Self {
        Self { address: address.to_canonical(), trust: Trust::ByAddress }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_loopback_and_a_colon_means_every_interface() {
        let check = |text: &str, expected: &str| {
            let found =
                text.parse::<Address>().map_or_else(|_| "error".to_owned(), |found| found.to_string());
            assert_eq!(found, expected, "{text}");
        };
        check("9190", "127.0.0.1:9190");
        check("localhost:9190", "127.0.0.1:9190");
        check(":9190", "[::]:9190");
        check("0.0.0.0:80", "0.0.0.0:80");
        check("[::1]:80", "[::1]:80");
        check("unix:/run/a.sock", "unix:/run/a.sock");
        for text in
            ["", ":", "localhost", "localhost:", "65536", "+80", ":+80", "-1", "::1:80", "a:80", "unix:"]
        {
            check(text, "error");
        }
    }

    #[test]
    fn only_a_socket_that_refuses_connections_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("http.sock");
        let bind = || Socket::bind(&Address::Unix(path.clone()));
        let first = bind().expect("the path is free");
        assert_eq!(bind().expect_err("it is in use").cause.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        drop(bind().expect("the socket is stale"));
        std::fs::remove_file(&path).expect("it can be removed");
        // A stream cannot connect to a datagram socket, which another program may be using.
        let _other = std::os::unix::net::UnixDatagram::bind(&path).expect("the path is free");
        bind().expect_err("it is not stale");
        assert!(path.exists());
    }
}
