//! The yardstick: the least that a server can do. One thread with epoll writes the same bytes to whatever ends in an empty line.
//!
//! It parses nothing, knows no paths, enforces no deadlines and could not be put on the Internet: what others are slower by, they do
//! for that.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::event::epoll;

use super::{Peer, folder};
use crate::Bench;
use crate::cores::Cores;
use crate::http::{self, Answer};

/// What the listening socket's events say.
const LISTENER: u64 = u64::MAX;

/// Starts it as a process of its own, with `answer`, byte for byte.
pub fn start(bench: &Bench, answer: &[u8]) -> Result<Peer> {
    let own = folder()?;
    let file = own.path().join("answer");
    std::fs::write(&file, answer)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("yardstick").arg(&file);
    Peer::start_and_listen(bench, "yardstick", Cores::Servers, &command, own, |line| {
        Some((line.parse().ok()?, None))
    })
}

/// The bytes of an answer whose head is as long as that of `answer`, and whose body is the same.
pub fn bytes_like(answer: &Answer) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {} OK\r\nContent-Length: {}\r\nX-Padding: ", answer.status, answer.body.len());
    while head.len() + 4 < answer.head_length {
        head.push('x');
    }
    head += "\r\n\r\n";
    [head.as_bytes(), &answer.body].concat()
}

/// Serves the bytes in a file until it is killed, and says where on standard output.
pub fn serve(file: &Path) -> Result<()> {
    let answer = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    ensure!(http::parse(&answer)?.is_some(), "{} holds no answer", file.display());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(listener.local_addr()?)?;
    listener.set_nonblocking(true)?;
    run(&listener, &answer)
}

/// Says where it listens.
#[expect(clippy::print_stdout, reason = "the address is read from there")]
pub fn say(address: SocketAddr) -> Result<()> {
    println!("{address}");
    Ok(std::io::stdout().flush()?)
}

fn run(listener: &TcpListener, answer: &[u8]) -> Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let mut free = Vec::new();
    let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
    let mut events = [none; 512];
    let mut buffer = vec![0; 16 * 1024];
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
                    epoll::add(&epoll, &stream, data, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
                    if place == connections.len() {
                        connections.push(Some(stream));
                    } else {
                        connections[place] = Some(stream);
                    }
                }
                continue;
            }
            let place = event.data.u64() as usize;
            let Some(stream) = connections[place].as_mut() else { continue };
            if !attend(stream, &mut buffer, answer) {
                connections[place] = None;
                free.push(place);
            }
        }
    }
}

/// Answers what has arrived; whether the connection lives on.
fn attend(stream: &mut TcpStream, buffer: &mut [u8], answer: &[u8]) -> bool {
    match stream.read(buffer) {
        Ok(0) => false,
        // An answer that does not fit into the socket would have to be kept: the load generator reads each one before it asks again.
        Ok(count) if buffer[..count].ends_with(b"\r\n\r\n") => {
            stream.write(answer).is_ok_and(|sent| sent == answer.len())
        }
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_answer_is_as_long_as_the_one_it_stands_for() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nVary: Accept, Accept-Encoding\r\nETag: \"abc\"\r\n\r\nabc";
        let (answer, length) = http::parse(whole).expect("an answer").expect("a whole one");
        let bytes = bytes_like(&answer);
        assert_eq!(bytes.len(), length);
        let (same, _) = http::parse(&bytes).expect("an answer").expect("a whole one");
        assert_eq!((same.status, same.head_length, same.body), (200, answer.head_length, answer.body));
    }
}
