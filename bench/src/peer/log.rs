//! The yardstick for submissions: the least that a server can do which answers only for what is on the disk.
//!
//! One thread with epoll finds where a body begins and how long it is; another one takes all bodies that wait, appends them to a file
//! with one write and one `fdatasync`, and then answers each. It parses nothing, limits nobody, and could not be put on the Internet.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rustix::event::epoll;
use tempfile::TempDir;

use super::Peer;
use super::yardstick::say;
use crate::Bench;
use crate::cores::Cores;
use crate::http;

/// What the listening socket's events say.
const LISTENER: u64 = u64::MAX;

/// How the file grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// With each write: what is synced is the data and the file's new length.
    Appended,
    /// Not at all: it was written with zeros before, so that only data is synced. When it is full it begins again at its start.
    Prepared,
}

impl Growth {
    /// As it is told to the process.
    const fn name(self) -> &'static str {
        match self {
            Self::Appended => "appended",
            Self::Prepared => "prepared",
        }
    }
}

/// How long a prepared file is: about as long as SQLite's log becomes before it begins again.
const PREPARED: u64 = 32 << 20;

/// Starts it as a process of its own, with `answer`, byte for byte, and its file in `own`.
pub fn start(bench: &Bench, name: &str, growth: Growth, answer: &[u8], own: TempDir) -> Result<Peer> {
    let file = own.path().join("answer");
    std::fs::write(&file, answer)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("log").arg(growth.name()).arg(&file).arg(path(own.path()));
    Peer::start_and_listen(bench, name, Cores::Servers, &command, own, |line| {
        Some((line.parse().ok()?, None))
    })
}

/// Where bodies are kept.
fn path(folder: &Path) -> PathBuf {
    folder.join("submissions.log")
}

/// How many bodies, each of one line, are in the file of a log that is [`Growth::Appended`].
pub fn kept(folder: &Path) -> Result<u64> {
    let bytes = std::fs::read(path(folder))?;
    Ok(bytes.split(|byte| *byte == b'\n').count() as u64 - 1)
}

/// Answers until it is killed, with the bytes in the file `answer`, and says where on standard output.
pub fn serve(growth: &str, answer: &Path, log: &Path) -> Result<()> {
    let answer = std::fs::read(answer).with_context(|| format!("{} cannot be read", answer.display()))?;
    ensure!(http::parse(&answer)?.is_some(), "what is to be said is no answer");
    let is_prepared = growth == Growth::Prepared.name();
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).open(log)?;
    if is_prepared {
        for _ in 0..PREPARED >> 20 {
            file.write_all(&vec![0; 1 << 20])?;
        }
        file.sync_all()?;
        file.rewind()?;
    }
    let queue = Arc::new(Queue::default());
    let writer = queue.clone();
    std::thread::spawn(move || {
        if let Err(error) = writer.write(file, is_prepared, &answer) {
            let _ = writeln!(std::io::stderr(), "a batch cannot be written: {error}");
            std::process::exit(1);
        }
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(listener.local_addr()?)?;
    listener.set_nonblocking(true)?;
    run(&listener, &queue)
}

/// What waits to be written.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    bodies: Vec<u8>,
    streams: Vec<Arc<TcpStream>>,
}

impl Queue {
    fn push(&self, body: &[u8], stream: &Arc<TcpStream>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.bodies.extend_from_slice(body);
        waiting.bodies.push(b'\n');
        waiting.streams.push(stream.clone());
        let is_first = waiting.streams.len() == 1;
        drop(waiting);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Writes, syncs and answers, batch after batch.
    fn write(&self, mut file: File, begins_again: bool, answer: &[u8]) -> std::io::Result<()> {
        let (mut batch, mut written) = (Waiting::default(), 0);
        loop {
            batch.bodies.clear();
            batch.streams.clear();
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            while waiting.streams.is_empty() {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut *waiting, &mut batch);
            drop(waiting);
            if begins_again && written + batch.bodies.len() as u64 > PREPARED {
                file.rewind()?;
                written = 0;
            }
            written += batch.bodies.len() as u64;
            file.write_all(&batch.bodies)?;
            file.sync_data()?;
            for stream in &batch.streams {
                // Whoever has gone away has no use for the answer. It fits: the one before has been read.
                let _ = (&**stream).write(answer);
            }
        }
    }
}

/// One connection, and what has arrived of a request that comes in several pieces.
struct Connection {
    stream: Arc<TcpStream>,
    pieces: Vec<u8>,
}

fn run(listener: &TcpListener, queue: &Queue) -> Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
    let mut events = [none; 512];
    let mut buffer = vec![0; 64 * 1024];
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
                    let data = epoll::EventData::new_u64(connections.len() as u64);
                    epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
                    connections.push(Some(Connection { stream: Arc::new(stream), pieces: Vec::new() }));
                }
                continue;
            }
            let place = &mut connections[event.data.u64() as usize];
            if place.as_mut().is_some_and(|connection| !connection.attend(&mut buffer, queue)) {
                *place = None;
            }
        }
    }
}

impl Connection {
    /// Takes what has arrived; whether the connection lives on.
    fn attend(&mut self, buffer: &mut [u8], queue: &Queue) -> bool {
        let count = match (&*self.stream).read(buffer) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        if self.pieces.is_empty()
            && let Some(body) = body(&buffer[..count])
        {
            queue.push(body, &self.stream);
            return true;
        }
        self.pieces.extend_from_slice(&buffer[..count]);
        if let Some(body) = body(&self.pieces) {
            queue.push(body, &self.stream);
            self.pieces.clear();
        }
        true
    }
}

/// The body of the one request in `bytes`, once it is complete.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    const LENGTH: &[u8] = b"\r\nContent-Length: ";
    let end = find(bytes, b"\r\n\r\n")?;
    let digits = &bytes[find(&bytes[..end + 2], LENGTH)? + LENGTH.len()..];
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length: usize, digit| length * 10 + usize::from(digit - b'0'));
    bytes.get(end + 4..end + 4 + length)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let (first, rest) = what.split_first()?;
    let mut from = 0;
    loop {
        from += bytes.get(from..)?.iter().position(|byte| byte == first)?;
        if bytes[from + 1..].starts_with(rest) {
            return Some(from);
        }
        from += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_found_once_it_is_complete() {
        let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nabcdefghijkl";
        for length in 0..=request.len() {
            let expected = (length == request.len()).then_some(&b"abcdefghijkl"[..]);
            assert_eq!(body(&request[..length]), expected, "{length}");
        }
    }
}
