//! The yardstick for submissions: the minimum that a server must do to store each request before it responds.
//!
//! One thread waits with epoll and receives the bodies. Another appends all waiting bodies to a file with one
//! write and one `fdatasync`, and then sends the responses. The server parses only `Content-Length` and
//! enforces no limits.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, mpsc};

use anyhow::{Context as _, Result};
use memchr::memmem;
use rustix::event::epoll;
use tempfile::TempDir;

use super::yardstick::{bytes_like, serve_connections};
use super::{Peer, Reserved, command};
use crate::http::Response;
use crate::settings::{Bench, Cores};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// The file grows with each write, so that a sync writes data and metadata.
    Appended,
    /// The file is filled with zeros in advance, so that a sync writes only data. When the file is full,
    /// writing continues at its beginning.
    Preallocated,
}

const LOG: &str = "submissions.log";

/// Length of a preallocated file: about the length of SQLite's WAL before a checkpoint.
const PREALLOCATED: u64 = 32 << 20;

/// Starts the server, which stores its log in `own` and imitates the response `like`.
pub fn start(bench: &Bench, name: &str, growth: Growth, like: &Response, own: TempDir) -> Result<Peer> {
    let (response, path) = (own.path().join("response"), own.path().join(LOG));
    std::fs::write(&response, bytes_like(like))?;
    let mut log = File::create(&path)?;
    if growth == Growth::Preallocated {
        std::io::copy(&mut std::io::repeat(0).take(PREALLOCATED), &mut log)?;
        log.sync_all()?;
    }
    let reserved = Reserved::with_folder(own)?;
    let mut command = command(std::env::current_exe()?);
    command.arg("log").arg(reserved.address.to_string()).arg(&response).arg(&path);
    Peer::start(bench, name, Cores::Servers, &mut command, reserved)
}

/// Counts the bodies stored in a [`Growth::Appended`] log, one per line.
pub fn count_stored(folder: &Path) -> Result<u64> {
    let bytes = std::fs::read(folder.join(LOG))?;
    Ok(bytes.split(|byte| *byte == b'\n').count() as u64 - 1)
}

/// Runs the log server until it is killed. A preallocated log keeps its length.
pub fn serve(address: &str, response: &Path, log: &Path) -> Result<()> {
    let response = std::fs::read(response).with_context(|| format!("cannot read {}", response.display()))?;
    let file = File::options().write(true).open(log)?;
    let length = file.metadata()?.len();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        if let Err(error) = write_batches(&receiver, file, length, &response) {
            let _ = writeln!(std::io::stderr(), "failed to write a batch: {error}");
            std::process::exit(1);
        }
    });
    let mut buffer = vec![0; 64 * 1024];
    let connect = |stream| LogConnection { stream: Arc::new(stream), partial: Vec::new() };
    // Level-triggered, because `handle` reads once per event, and a request can be longer than the buffer.
    serve_connections(address, epoll::EventFlags::empty(), connect, |connection| {
        connection.handle(&mut buffer, &sender)
    })
}

/// A body to store, and the stream for the response.
type Submission = (Vec<u8>, Arc<TcpStream>);

/// Writes and syncs all waiting bodies as one batch after another, and sends the responses. If `length` is
/// not 0, starts again at the beginning of the file instead of exceeding `length`.
fn write_batches(
    waiting: &mpsc::Receiver<Submission>,
    mut file: File,
    length: u64,
    response: &[u8],
) -> std::io::Result<()> {
    let (mut bodies, mut streams, mut written) = (Vec::new(), Vec::new(), 0);
    while let Ok(first) = waiting.recv() {
        for (body, stream) in std::iter::once(first).chain(waiting.try_iter()) {
            bodies.extend_from_slice(&body);
            bodies.push(b'\n');
            streams.push(stream);
        }
        if length > 0 && written + bodies.len() as u64 > length {
            file.rewind()?;
            written = 0;
        }
        written += bodies.len() as u64;
        file.write_all(&bodies)?;
        file.sync_data()?;
        bodies.clear();
        for stream in streams.drain(..) {
            // The client may have disconnected. The response fits into the socket buffer, because the client
            // has read the previous one.
            let _ = (&*stream).write(response);
        }
    }
    Ok(())
}

/// A connection, and the beginning of a request that arrives in several pieces.
struct LogConnection {
    stream: Arc<TcpStream>,
    partial: Vec<u8>,
}

impl LogConnection {
    /// Reads the available bytes, and sends the body to the writer once it is complete. Returns whether the
    /// connection stays open.
    fn handle(&mut self, buffer: &mut [u8], queue: &mpsc::Sender<Submission>) -> bool {
        let count = match (&*self.stream).read(buffer) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        self.partial.extend_from_slice(&buffer[..count]);
        if let Some(body) = complete_body(&self.partial) {
            let sent = queue.send((body.to_vec(), self.stream.clone()));
            self.partial.clear();
            return sent.is_ok();
        }
        true
    }
}

/// The body of the request in `bytes`; `None` while it is incomplete.
fn complete_body(bytes: &[u8]) -> Option<&[u8]> {
    const LENGTH: &[u8] = b"\r\nContent-Length: ";
    let end = memmem::find(bytes, b"\r\n\r\n")?;
    let digits = &bytes[memmem::find(&bytes[..end + 2], LENGTH)? + LENGTH.len()..];
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length: usize, digit| length * 10 + usize::from(digit - b'0'));
    bytes.get(end + 4..end + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_once_it_is_complete() {
        let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nabcdefghijkl";
        for length in 0..=request.len() {
            let expected = (length == request.len()).then_some(&b"abcdefghijkl"[..]);
            assert_eq!(complete_body(&request[..length]), expected, "{length}");
        }
    }
}
