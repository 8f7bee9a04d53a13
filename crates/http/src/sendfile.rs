//! The streams on which responses are sent, and sending from a file without copying.

use std::io;
use std::task::{Context, Poll, ready};

use rustix::fs::sendfile;
use rustix::net::{SendFlags, send};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, Interest};
use tokio::net::TcpStream;

use super::response_body::FileBody;
use super::tls::TlsConn;

/// Maximum number of bytes that one system call sends from a file, so that a client that reads quickly does
/// not make others wait.
const MAX_SENT: u64 = 512 * 1024;

/// The stream of a connection, on which responses are sent.
pub trait ResponseStream: AsyncRead + AsyncWrite + Unpin {
    /// The plain socket, to which the kernel can send files directly; `None` if the stream is encrypted.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }
}

impl ResponseStream for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl ResponseStream for TlsConn {}

/// An in-memory stream for tests, which has no socket.
impl ResponseStream for DuplexStream {}

/// Sends bytes that a file will follow: the kernel waits for the file, and sends both in one segment. Returns
/// how many bytes were sent.
pub(super) fn poll_send_before_file(
    cx: &mut Context<'_>,
    socket: &TcpStream,
    bytes: &[u8],
) -> Poll<io::Result<usize>> {
    poll_io(cx, socket, || Ok(send(socket, bytes, SendFlags::MORE | SendFlags::NOSIGNAL)?))
}

/// Sends bytes from the beginning of `body`, which is not empty, and returns how many: at most [`MAX_SENT`].
/// The caller removes them from `body`. Fails if the file has become too short or was modified.
pub(super) fn poll_send_file(
    cx: &mut Context<'_>,
    socket: &TcpStream,
    body: &FileBody,
) -> Poll<io::Result<usize>> {
    let count = usize::try_from(body.len().min(MAX_SENT)).unwrap_or(usize::MAX);
    body.check_unchanged()?;
    poll_io(cx, socket, || match sendfile(socket, body.file(), Some(&mut body.offset()), count)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        sent => Ok(sent),
    })
}

/// Calls `send` once the socket is writable. Repeats this if `send` would block or was interrupted.
fn poll_io(
    cx: &mut Context<'_>,
    socket: &TcpStream,
    mut send: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(cx))?;
        match socket.try_io(Interest::WRITABLE, &mut send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return Poll::Ready(result),
        }
    }
}
