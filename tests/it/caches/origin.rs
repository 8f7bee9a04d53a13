//! A small origin server that negotiates Markdown and HTML: carelessly, or with `Vary`. It records what
//! caches send to it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The body of each page in HTML.
pub const HTML: &str = "<!doctype html><title>A page</title><h1>A page</h1>\n";

/// The body of each page in Markdown.
pub const MARKDOWN: &str = "# A page\n";

/// A running server on a free port. Every path is a page that is fresh for ten minutes.
pub struct Origin {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Vec<String>>>>,
    is_over: Arc<AtomicBool>,
}

impl Origin {
    /// Sends no `Vary`, as careless implementations of content negotiation do.
    pub fn careless() -> Self {
        Self::start("")
    }

    /// Sends `Vary: Accept`.
    pub fn varying() -> Self {
        Self::start("Vary: Accept\r\n")
    }

    fn start(vary: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let origin = Self { address, requests: Arc::default(), is_over: Arc::default() };
        let (requests, is_over) = (origin.requests.clone(), origin.is_over.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !is_over.load(Ordering::Relaxed)).flatten() {
                let requests = requests.clone();
                // Caches open connections that they do not use at once.
                std::thread::spawn(move || serve(&stream, vary, &requests));
            }
        });
        origin
    }

    /// The lines of each request for this path and query, in lower case and without the line end.
    pub fn requests_for(&self, target: &str) -> Vec<Vec<String>> {
        let all = self.requests.lock().expect("no thread panics");
        let is_for_it = |lines: &&Vec<String>| lines[0].split(' ').nth(1) == Some(target);
        all.iter().filter(is_for_it).cloned().collect()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

/// Responds to one request and closes the connection.
fn serve(mut stream: &TcpStream, vary: &str, requests: &Mutex<Vec<Vec<String>>>) -> io::Result<()> {
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    if lines.is_empty() {
        return Ok(());
    }
    // A search for the name, without quality values: `text/markdown;q=0` gets Markdown as well.
    let is_markdown = lines.iter().any(|line| line.starts_with("accept:") && line.contains("text/markdown"));
    let (media_type, body) = if is_markdown { ("text/markdown", MARKDOWN) } else { ("text/html", HTML) };
    let length = body.len();
    let body = if lines[0].starts_with("head ") { "" } else { body };
    requests.lock().expect("no thread panics").push(lines);
    // Squid stores no response without a date.
    let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT");
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: {media_type}\r\nCache-Control: public, max-age=600\r\n{vary}\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
