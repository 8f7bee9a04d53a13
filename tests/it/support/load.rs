//! A bounded load on one address: keep-alive connections that send requests continuously and count every
//! wrong response.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use super::client::{Answer, Connection, compose};

/// A running load, until [`Load::end`].
pub struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

/// A client's `n`-th request: method, path and body.
pub type Ask = fn(client: usize, n: usize) -> (&'static str, &'static str, String);

impl Load {
    /// Starts this many clients. A response that `is_right` rejects is a failure, and so is a connection that
    /// breaks or ends without notice.
    pub fn begin(address: SocketAddr, clients: usize, ask: Ask, is_right: fn(&Answer) -> bool) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..clients)
            .map(|client| {
                let (stop, answered) = (stop.clone(), answered.clone());
                std::thread::spawn(move || run(address, client, ask, is_right, &stop, &answered))
            })
            .collect();
        Self { stop, answered, threads }
    }

    /// The number of correct responses so far.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Stops the load. Returns the number of correct responses and the failures.
    pub fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failures =
            self.threads.into_iter().flat_map(|thread| thread.join().expect("a client ends")).collect();
        (self.answered.load(Ordering::Relaxed), failures)
    }
}

fn run(
    address: SocketAddr,
    client: usize,
    ask: Ask,
    is_right: fn(&Answer) -> bool,
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> Vec<String> {
    let mut failures = Vec::new();
    let mut connection: Option<Connection> = None;
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let (method, path, body) = ask(client, n);
        n += 1;
        let headers: &[(&str, &str)] =
            if method == "POST" { &[("Content-Type", "application/json")] } else { &[] };
        let request = compose(method, path, headers, body.as_bytes());
        let mut exchange = || -> io::Result<(Answer, Connection)> {
            let mut open = match connection.take() {
                Some(open) => open,
                None => Connection::try_open(address)?,
            };
            open.send(&request)?;
            Ok((open.answer(false)?, open))
        };
        match exchange() {
            Ok((answer, open)) if is_right(&answer) => {
                answered.fetch_add(1, Ordering::Relaxed);
                let goes_on = answer.header("connection") != Some("close");
                connection = goes_on.then_some(open);
            }
            Ok((answer, _)) => failures.push(format!("{method} {path}: {}", answer.status)),
            Err(error) => failures.push(format!("{method} {path}: {error}")),
        }
        if failures.len() > 20 {
            break;
        }
    }
    failures
}
