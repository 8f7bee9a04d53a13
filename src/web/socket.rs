//! Listening sockets: TCP and Unix sockets that the server opens, or that a service manager has opened.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};

use listenfd::ListenFd;
use rustix::net::SocketFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The length of the accept queue; the kernel may limit it further.
const BACKLOG: i32 = 4096;

/// The maximum number of unsent bytes in the kernel's buffer of a connection (`TCP_NOTSENT_LOWAT`). By
/// default the kernel buffers megabytes, and the server would notice a client that does not read only after
/// minutes.
const UNSENT: u32 = 128 * 1024;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An address and a port; port 0 picks a free one.
    Tcp(SocketAddr),
    /// A socket in the file system. A stale one, without a listening server, is replaced.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err(format!("`{text}` names no path, as `unix:/run/frontdesk/http.sock` does"))
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "`{text}` is no address and port such as `127.0.0.1:8080` or `[::]:80`, and no `unix:/PATH`"
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
pub enum Socket {
    /// For connections over TCP.
    Tcp(TcpListener),
    /// For connections of this machine.
    Unix(UnixListener),
}

impl Socket {
    /// Binds and listens; the error names the address.
    pub fn bind(address: &Address) -> Result<Self, BindError> {
        let bind = || match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                // A burst fills the standard library's queue of 128 within milliseconds, and a client that is
                // dropped retries only after a second.
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Self::Tcp(listener))
            }
            Address::Unix(path) => {
                // Remove a stale socket; fail if another server is listening on it.
                let is_socket =
                    std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
                if is_socket {
                    if std::os::unix::net::UnixStream::connect(path).is_ok() {
                        return Err(io::ErrorKind::AddrInUse.into());
                    }
                    std::fs::remove_file(path)?;
                }
                let listener = UnixListener::bind(path)?;
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Self::Unix(listener))
            }
        };
        bind().map_err(|cause| BindError { address: address.clone(), cause })
    }

    /// The address, with the actual port.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                Ok(Address::Unix(
                    address.as_pathname().map_or_else(|| PathBuf::from("(unnamed)"), Into::into),
                ))
            }
        }
    }

    /// Duplicates the handle of the socket.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }

    /// Registers the socket with the current Tokio runtime.
    pub(super) fn into_listener(self) -> io::Result<Listener> {
        match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                // Accepted connections inherit the option. Without it, slow readers are noticed later.
                let _ = socket2::SockRef::from(&listener).set_tcp_notsent_lowat(UNSENT);
                tokio::net::TcpListener::from_std(listener).map(Listener::Tcp)
            }
            Self::Unix(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::UnixListener::from_std(listener).map(Listener::Unix)
            }
        }
    }
}

impl BindError {
    /// The kind of the system error.
    pub fn kind(&self) -> io::ErrorKind {
        self.cause.kind()
    }
}

/// The server cannot listen on an address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    address: Address,
    #[source]
    cause: io::Error,
}

/// All listening sockets of one server.
#[derive(Debug, Default)]
pub struct Sockets {
    /// For HTTP.
    pub http: Vec<Socket>,
    /// For HTTP over TLS.
    pub https: Vec<Socket>,
    /// For the private address: metrics and health checks.
    pub ops: Option<Socket>,
}

impl Sockets {
    /// The sockets that the service manager has passed (`sd_listen_fds(3)`), by their names `http`, `https`
    /// and `ops`; any other name means HTTP.
    ///
    /// Must be called once, before the process opens other file descriptors.
    pub fn inherited() -> io::Result<Self> {
        let mut given = ListenFd::from_env();
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut sockets = Self::default();
        for number in 0..given.len() {
            let socket = match given.take_tcp_listener(number) {
                Ok(Some(listener)) => Socket::Tcp(listener),
                _ => match given.take_unix_listener(number)? {
                    Some(listener) => Socket::Unix(listener),
                    None => continue,
                },
            };
            match names.next().unwrap_or_default() {
                "https" => sockets.https.push(socket),
                "ops" => sockets.ops = Some(socket),
                _ => sockets.http.push(socket),
            }
        }
        Ok(sockets)
    }

    /// Duplicates the handles of the public sockets.
    pub(super) fn public(&self) -> io::Result<Vec<(Scheme, Socket)>> {
        let http = self.http.iter().map(|socket| Ok((Scheme::Http, socket.try_clone()?)));
        let https = self.https.iter().map(|socket| Ok((Scheme::Https, socket.try_clone()?)));
        http.chain(https).collect()
    }
}

/// The URL scheme that a socket serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Plain text.
    Http,
    /// Over TLS.
    Https,
}

/// A listening socket on one thread's runtime.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl Listener {
    /// Accepts the next connection.
    pub(super) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Responses are written in one piece, so Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::at(peer.ip())))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), Peer::LOCAL))
            }
        }
    }

    /// Accepts a connection from the queue, if there is one.
    pub(super) fn accept_waiting(&self) -> Option<(Stream, Peer)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match self {
            Self::Tcp(listener) => {
                let socket = rustix::net::accept_with(listener, flags).ok()?;
                let stream = tokio::net::TcpStream::from_std(socket.into()).ok()?;
                let peer = stream.peer_addr().ok()?;
                let _ = stream.set_nodelay(true);
                Some((Stream::Tcp(stream), Peer::at(peer.ip())))
            }
            Self::Unix(listener) => {
                let socket = rustix::net::accept_with(listener, flags).ok()?;
                let stream = tokio::net::UnixStream::from_std(socket.into()).ok()?;
                Some((Stream::Unix(stream), Peer::LOCAL))
            }
        }
    }

    /// Accepts a connection from the queue, if there is one, and closes it at once.
    pub(super) fn reject_waiting(&self) {
        let socket = match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        };
        let _ = rustix::net::accept(socket);
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// The address of the peer, or of the client if a PROXY header names it.
    pub(super) address: IpAddr,
    /// Whether forwarding headers on this connection are trusted.
    pub(super) trust: Trust,
}

/// When forwarding headers (`X-Forwarded-For` and others) on a connection are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// If the peer's address is that of a trusted proxy: TCP.
    ByAddress,
    /// Always: a Unix socket. Only proxies on this machine can open one.
    Always,
    /// Never: the PROXY header names no client (`UNKNOWN`, `LOCAL`). A proxy that speaks the PROXY protocol
    /// passes bytes on, so the client itself may have written the headers.
    Never,
}

impl Peer {
    /// A peer on a Unix socket, which has no address.
    pub(super) const LOCAL: Self = Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), trust: Trust::Always };

    /// A peer on a TCP connection.
    pub(super) fn at(address: IpAddr) -> Self {
        Self { address: address.to_canonical(), trust: Trust::ByAddress }
    }
}

/// One accepted connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

/// A connection without a runtime, for the transfer to another thread.
#[derive(Debug)]
pub(super) enum IdleStream {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl IdleStream {
    /// Registers the connection with the current Tokio runtime.
    pub(super) fn into_stream(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(stream) => tokio::net::TcpStream::from_std(stream).map(Stream::Tcp),
            Self::Unix(stream) => tokio::net::UnixStream::from_std(stream).map(Stream::Unix),
        }
    }
}

impl Stream {
    /// Removes the connection from its runtime.
    pub(super) fn into_idle(self) -> io::Result<IdleStream> {
        match self {
            Self::Tcp(stream) => stream.into_std().map(IdleStream::Tcp),
            Self::Unix(stream) => stream.into_std().map(IdleStream::Unix),
        }
    }

    /// Waits for the first byte and peeks at it. None at the end of the stream, and on Unix sockets, which
    /// cannot be peeked.
    pub(super) async fn first_byte(&self) -> io::Result<Option<u8>> {
        match self {
            Self::Tcp(stream) => {
                let mut byte = [0];
                let count = stream.peek(&mut byte).await?;
                Ok((count > 0).then_some(byte[0]))
            }
            Self::Unix(stream) => stream.readable().await.map(|()| None),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
