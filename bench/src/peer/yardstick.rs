//! The yardstick for pages: the minimum that a server must do. A single thread waits with epoll, and sends
//! the same response whenever the received bytes end with an empty line. Sends a long body with sendfile(2),
//! which copies nothing, after the header, which has the current date on other servers and so is in no file.
//! Sends a short response from memory, which takes less time for it.
//!
//! The server parses nothing, has no paths and enforces no deadlines.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use memchr::memmem;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::sendfile;
use rustix::io::retry_on_intr;
use rustix::net::{self, SendFlags};

use super::{Peer, Reserved, command};
use crate::http::Response;
use crate::settings::{Bench, Cores};

pub const NAME: &str = "yardstick";

/// Bodies of at least this many bytes are long.
pub const LONG: usize = 24 * 1024;

const LISTENER: u64 = u64::MAX;

/// Starts the server as a process. Its response has the same body as `like`, and a header of the same length.
pub fn start(bench: &Bench, like: &Response) -> Result<Peer> {
    let reserved = Reserved::new()?;
    let file = reserved.folder.path().join("response");
    std::fs::write(&file, bytes_like(like))?;
    let mut command = command(std::env::current_exe()?);
    command.arg("yardstick").arg(reserved.address.to_string()).arg(&file);
    Peer::start(bench, NAME, Cores::Servers, &mut command, reserved)
}

/// Composes a response with the body of `response` and a header of the same length.
pub fn bytes_like(response: &Response) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {} OK\r\nContent-Length: {}\r\nX-Padding: ", response.status, response.body.len());
    while head.len() + 4 < response.head_length {
        head.push('x');
    }
    head += "\r\n\r\n";
    [head.as_bytes(), &response.body].concat()
}

/// Runs the yardstick server, which responds with the bytes in `file`, until it is killed.
pub fn serve(address: &str, file: &Path) -> Result<()> {
    let cannot_read = || format!("cannot read {}", file.display());
    let response = std::fs::read(file).with_context(cannot_read)?;
    let opened = File::open(file).with_context(cannot_read)?;
    let mut buffer = vec![0; 16 * 1024];
    let head = memmem::find(&response, b"\r\n\r\n").map_or(0, |end| end + 4);
    let send = |stream: &mut TcpStream| {
        if response.len() < LONG {
            return stream.write(&response);
        }
        let sent = net::send(&*stream, &response[..head], SendFlags::MORE | SendFlags::NOSIGNAL)?;
        let body = response.len() - head;
        Ok(sent + sendfile(stream, &opened, Some(&mut (head as u64)), body)?)
    };
    let handle =
        |stream: &mut TcpStream| respond(stream, &mut buffer, |s| send(s).is_ok_and(|n| n == response.len()));
    serve_connections(address, epoll::EventFlags::ET, |stream| stream, handle)
}

/// Accepts connections, and calls `handle` whenever one is readable. Closes a connection if `handle` returns
/// false. Returns only if accepting or waiting fails.
pub fn serve_connections<C>(
    address: &str,
    flags: epoll::EventFlags,
    connect: impl Fn(TcpStream) -> C,
    mut handle: impl FnMut(&mut C) -> bool,
) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    // Indexed by descriptor.
    let mut connections: Vec<Option<C>> = Vec::new();
    let mut events = Vec::with_capacity(512);
    loop {
        retry_on_intr(|| epoll::wait(&epoll, spare_capacity(&mut events), None))?;
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let number = stream.as_raw_fd() as usize;
                    let data = epoll::EventData::new_u64(number as u64);
                    epoll::add(&epoll, &stream, data, epoll::EventFlags::IN | flags)?;
                    connections.resize_with(connections.len().max(number + 1), || None);
                    connections[number] = Some(connect(stream));
                }
                continue;
            }
            let number = event.data.u64() as usize;
            if connections[number].as_mut().is_some_and(|connection| !handle(connection)) {
                connections[number] = None;
            }
        }
    }
}

/// Calls `send` if the available bytes complete a request. Returns whether the connection stays open: it is
/// closed if `send` returns false.
fn respond(stream: &mut TcpStream, buffer: &mut [u8], send: impl Fn(&mut TcpStream) -> bool) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        // The response fits into the socket's buffer: the client reads each before its next request.
        Ok(count) if buffer[..count].ends_with(b"\r\n\r\n") => send(stream),
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    #[test]
    fn the_yardstick_response_has_the_same_length() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nVary: Accept, Accept-Encoding\r\nETag: \"abc\"\r\n\r\nabc";
        let (response, length) = http::parse_response(whole).expect("a response").expect("complete");
        let bytes = bytes_like(&response);
        assert_eq!(bytes.len(), length);
        let (same, _) = http::parse_response(&bytes).expect("a response").expect("complete");
        assert_eq!((same.status, same.head_length, same.body), (200, response.head_length, response.body));
    }
}
