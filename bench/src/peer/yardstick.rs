//! The yardstick for pages: the minimum that a server can do. One thread with epoll writes the same bytes
//! after each empty line.
//!
//! It parses nothing, knows no paths and enforces no deadlines.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::event::epoll;

use super::{Peer, folder};
use crate::Bench;
use crate::http::{self, Response};
use crate::machine::Cores;

/// Event data of the listening socket.
const LISTENER: u64 = u64::MAX;

/// Starts it as a process that sends exactly these bytes.
pub fn start(bench: &Bench, response: &[u8]) -> Result<Peer> {
    let own = folder()?;
    let file = own.path().join("response");
    std::fs::write(&file, response)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("yardstick").arg(&file);
    Peer::start_with_output(bench, "yardstick", Cores::Servers, &command, own, |line| {
        Some((line.parse().ok()?, None))
    })
}

/// A response with the same body and a header of the same length.
pub fn bytes_like(response: &Response) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {} OK\r\nContent-Length: {}\r\nX-Padding: ", response.status, response.body.len());
    while head.len() + 4 < response.head_length {
        head.push('x');
    }
    head += "\r\n\r\n";
    [head.as_bytes(), &response.body].concat()
}

/// Serves the bytes in a file until it is killed. Prints its address on standard output.
pub fn serve(file: &Path) -> Result<()> {
    let response = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    ensure!(http::parse(&response)?.is_some(), "{} is not a response", file.display());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    print_address(listener.local_addr()?)?;
    let mut buffer = vec![0; 16 * 1024];
    serve_connections(
        &listener,
        epoll::EventFlags::ET,
        |stream| stream,
        |stream| handle(stream, &mut buffer, &response),
    )
}

#[expect(clippy::print_stdout, reason = "the parent process reads the address")]
pub fn print_address(address: SocketAddr) -> Result<()> {
    println!("{address}");
    Ok(std::io::stdout().flush()?)
}

/// Accepts connections and calls `handle` for each readable one until an error occurs. Closes connections if
/// `handle` returns false.
pub fn serve_connections<C>(
    listener: &TcpListener,
    flags: epoll::EventFlags,
    connect: impl Fn(TcpStream) -> C,
    mut handle: impl FnMut(&mut C) -> bool,
) -> Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<C>> = Vec::new();
    let mut free = Vec::new();
    let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
    let mut events = [none; 512];
    loop {
        let count = match epoll::wait(&epoll, &mut events, None) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            if event.data.u64() == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let place = free.pop().unwrap_or(connections.len());
                    let data = epoll::EventData::new_u64(place as u64);
                    epoll::add(&epoll, &stream, data, epoll::EventFlags::IN | flags)?;
                    if place == connections.len() {
                        connections.push(None);
                    }
                    connections[place] = Some(connect(stream));
                }
                continue;
            }
            let place = event.data.u64() as usize;
            if connections[place].as_mut().is_some_and(|connection| !handle(connection)) {
                connections[place] = None;
                free.push(place);
            }
        }
    }
}

/// Handles the available bytes. Returns whether the connection stays open.
fn handle(stream: &mut TcpStream, buffer: &mut [u8], response: &[u8]) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        // A response always fits into the socket buffer: the load generator reads each one before its next
        // request.
        Ok(count) if buffer[..count].ends_with(b"\r\n\r\n") => {
            stream.write(response).is_ok_and(|sent| sent == response.len())
        }
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yardstick_response_has_the_same_length() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nVary: Accept, Accept-Encoding\r\nETag: \"abc\"\r\n\r\nabc";
        let (response, length) = http::parse(whole).expect("a response").expect("complete");
        let bytes = bytes_like(&response);
        assert_eq!(bytes.len(), length);
        let (same, _) = http::parse(&bytes).expect("a response").expect("complete");
        assert_eq!((same.status, same.head_length, same.body), (200, response.head_length, response.body));
    }
}
