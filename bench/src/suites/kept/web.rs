//! The inbox in a browser: logs in, and reads pages.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::figures::Spread;
use crate::http::{self, Response};

/// A session of an operator.
#[derive(Debug)]
pub struct Session {
    address: SocketAddr,
    cookie: String,
}

impl Session {
    /// Uses up a login link, as `frontdesk inbox open` prints it.
    pub fn log_in(address: SocketAddr, link: &str) -> Result<Self> {
        let (_, token) = link.trim().split_once("token=").context("the link has no token")?;
        let body = format!("token={token}");
        let head = format!(
            "POST /login HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let response = http::send(address, format!("{head}{body}").as_bytes())?;
        let cookie = response.header("set-cookie").and_then(|value| value.split(';').next());
        let cookie = cookie.with_context(|| format!("the login returned status {}", response.status))?;
        Ok(Self { address, cookie: cookie.to_owned() })
    }

    /// Reads a page this many times, and returns the time in milliseconds and the body.
    pub fn read(&self, path: &str, limit: Duration, rounds: usize) -> Result<(Spread, String)> {
        let (mut took, mut body) = (Vec::new(), String::new());
        for _ in 0..rounds {
            let began = Instant::now();
            let response = self.request(path, limit);
            let millis = began.elapsed().as_secs_f64() * 1e3;
            // Instead of a page that takes too long, the server sends an error.
            if began.elapsed() >= limit || response.as_ref().is_ok_and(|response| response.status == 503) {
                return Ok((Spread::above(millis), body));
            }
            let response = response?;
            ensure!(response.status == 200, "{path} returned status {}", response.status);
            body = String::from_utf8(response.body)?;
            took.push(millis);
        }
        Ok((Spread::of(took), body))
    }

    fn request(&self, path: &str, limit: Duration) -> Result<Response> {
        let Self { address, cookie } = self;
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(limit))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n")?;
        http::read_response(&mut stream)
    }
}
