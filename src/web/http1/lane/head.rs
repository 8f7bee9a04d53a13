//! Writes the header of an answer: a few pieces that exist already, one after the other.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use tokio::time::Instant;

use crate::web::Live;
use crate::web::answer::{CROSS_ORIGIN_RESOURCE_POLICY, SECURITY};
use crate::web::get_page::{Form, Sent};
use crate::web::socket::Scheme;

/// What the answers of one worker have in common.
#[derive(Debug)]
pub(super) struct Heads {
    /// What browsers are told of a page, and of what other sites may show.
    security: [Vec<u8>; 2],
    /// `Strict-Transport-Security`, and the state whose options have it.
    hsts: (u64, Vec<u8>),
    date: Vec<u8>,
    /// When the next second begins, and with it another date.
    date_until: Option<Instant>,
}

impl Heads {
    pub(super) fn new() -> Self {
        let security = |resource_policy: Option<&str>| {
            let mut lines = Vec::new();
            for (name, value) in SECURITY {
                let own = resource_policy.filter(|_| name == CROSS_ORIGIN_RESOURCE_POLICY);
                write_field(&mut lines, name.as_str(), own.unwrap_or(value).as_bytes());
            }
            lines
        };
        Self {
            security: [security(None), security(Some("cross-origin"))],
            hsts: (0, Vec::new()),
            date: Vec::new(),
            date_until: None,
        }
    }

    /// Appends the whole header of an answer with `sent`.
    pub(super) fn write(
        &mut self,
        into: &mut Vec<u8>,
        sent: &Sent<'_>,
        scheme: Scheme,
        live: &Live,
        now: Instant,
    ) {
        let (status, fields): (&[u8], _) = match sent.form {
            Form::Whole => (b"HTTP/1.1 200 OK\r\n", sent.body.fields()),
            Form::Unmodified => (b"HTTP/1.1 304 Not Modified\r\n", sent.body.fields_unmodified()),
            Form::Missing => (b"HTTP/1.1 404 Not Found\r\n", sent.body.fields_unvalidated()),
        };
        into.extend_from_slice(status);
        into.extend_from_slice(fields);
        if let Some(vary) = sent.vary() {
            write_field(into, "vary", vary.as_bytes());
        }
        into.extend_from_slice(&self.security[usize::from(sent.is_embeddable())]);
        if scheme == Scheme::Https {
            self.write_hsts(into, live);
        }
        self.write_date(into, now);
        into.extend_from_slice(b"\r\n");
    }

    fn write_hsts(&mut self, into: &mut Vec<u8>, live: &Live) {
        let (generation, written) = &mut self.hsts;
        if *generation != live.generation {
            *generation = live.generation;
            written.clear();
            if let Some(hsts) = &live.options.tls.hsts {
                write_field(written, "strict-transport-security", hsts.value().as_bytes());
            }
        }
        into.extend_from_slice(written);
    }

    /// `Date` (RFC 9110 §6.6.1), which stays the same for a second.
    fn write_date(&mut self, into: &mut Vec<u8>, now: Instant) {
        if self.date_until.is_none_or(|until| until <= now) {
            let time = Timestamp::now();
            self.date.clear();
            if let Ok(date) = DateTimePrinter::new().timestamp_to_rfc9110_string(&time) {
                write_field(&mut self.date, "date", date.as_bytes());
            }
            let past = time.subsec_nanosecond().unsigned_abs();
            let left = 1_000_000_000_u32.saturating_sub(past);
            self.date_until = Some(now + std::time::Duration::from_nanos(left.into()));
        }
        into.extend_from_slice(&self.date);
    }
}

fn write_field(into: &mut Vec<u8>, name: &str, value: &[u8]) {
    for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
        into.extend_from_slice(piece);
    }
}
