//! Visitors that record the response to each submission, and clients that check whether pages are served.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::Connection;

/// Timeout for the response to a submission.
const PATIENCE: Duration = Duration::from_secs(40);
/// Timeout for a page.
const PAGE: Duration = Duration::from_secs(40);
/// The number of concurrent visitors of each replica.
const SENDERS: usize = 2;
/// Each client's pause before the next submission or page.
const PAUSE: Duration = Duration::from_millis(25);

/// The response that a visitor got for a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Status 200.
    Kept,
    /// Status 500.
    NotKept,
    /// No response: the connection failed or broke, or the response was too late. The submission may or may
    /// not be stored.
    Nothing,
}

/// A submission that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The replica that it was sent to.
    pub replica: usize,
    pub told: Answered,
    /// The time of the response, or of the request while there is no response.
    pub at: Instant,
}

/// The responses that visitors got, by the submission's unique number.
#[derive(Debug, Default)]
pub struct Ledger {
    sent: Mutex<BTreeMap<usize, Sent>>,
}

impl Ledger {
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Sent>> {
        self.sent.lock().expect("no thread panicked")
    }

    /// Sends a new, unique submission on a separate connection. Returns its number and the response.
    pub fn submit(&self, replica: usize, address: SocketAddr) -> (usize, Answered) {
        let number = {
            let mut sent = self.lock();
            let number = sent.len();
            sent.insert(number, Sent { replica, told: Answered::Nothing, at: Instant::now() });
            number
        };
        let body = json!({
            "name": "Ada",
            "email": format!("n{number}@example.com"),
            "message": format!("Hello from number {number}. Could we meet next week?"),
        });
        let headers = [("Content-Type", "application/json")];
        let answer = connect(address, PATIENCE).and_then(|mut connection| {
            connection.request("POST", "/api/contact", &headers, body.to_string().as_bytes())
        });
        let told = match answer {
            Ok(answer) if answer.status == 200 => Answered::Kept,
            Ok(answer) if answer.status == 500 => Answered::NotKept,
            Ok(answer) => panic!("{}: {}", answer.status, answer.text()),
            Err(_) => Answered::Nothing,
        };
        self.lock().insert(number, Sent { replica, told, at: Instant::now() });
        (number, told)
    }
}

fn connect(address: SocketAddr, patience: Duration) -> io::Result<Connection> {
    let stream = TcpStream::connect_timeout(&address, patience.min(Duration::from_secs(20)))?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    Ok(Connection::over(stream))
}

/// The status of a GET request for this path.
pub fn get(address: SocketAddr, path: &str, patience: Duration) -> io::Result<u16> {
    let answer = connect(address, patience)?.request("GET", path, &[], b"")?;
    Ok(answer.status)
}

/// Whether a replica should be serving pages. An even number means yes. A changed number means that the
/// replica was disturbed meanwhile.
#[derive(Debug, Default)]
pub struct Presence(AtomicU64);

impl Presence {
    /// Marks the replica as killed, stopped or disconnected.
    pub fn ends(&self) {
        self.0.fetch_or(1, Ordering::SeqCst);
    }

    /// Marks the replica as serving pages again.
    pub fn begins(&self) {
        let now = self.0.load(Ordering::SeqCst);
        self.0.store((now | 1) + 1, Ordering::SeqCst);
    }

    fn is_there(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|now| now % 2 == 0)
    }
}

/// The results of page requests.
#[derive(Debug, Default)]
pub struct Pages {
    pub served: AtomicUsize,
    /// Pages that were not served although the replica was available all the time.
    pub missed: Mutex<Vec<String>>,
}

/// Visitors of all replicas. They run until they are stopped.
pub struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    pub fn begin(
        ledger: &Arc<Ledger>,
        pages: &Arc<Pages>,
        replicas: &[(SocketAddr, Arc<Presence>)],
    ) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (replica, (address, presence)) in replicas.iter().enumerate() {
            let address = *address;
            for _ in 0..SENDERS {
                let (ledger, stop) = (ledger.clone(), stop.clone());
                threads.push(std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        ledger.submit(replica, address);
                        std::thread::sleep(PAUSE);
                    }
                }));
            }
            let (pages, presence, stop) = (pages.clone(), presence.clone(), stop.clone());
            threads.push(std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    look(address, &presence, &pages);
                    std::thread::sleep(PAUSE);
                }
            }));
        }
        Clients { stop, threads }
    }

    pub fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a client ends");
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn look(address: SocketAddr, presence: &Presence, pages: &Pages) {
    let before = presence.is_there();
    let found = get(address, "/", PAGE);
    if before.is_none() || before != presence.is_there() {
        return;
    }
    match found {
        Ok(200) => {
            pages.served.fetch_add(1, Ordering::Relaxed);
        }
        other => pages.missed.lock().expect("no thread panicked").push(format!("{address}: {other:?}")),
    }
}
