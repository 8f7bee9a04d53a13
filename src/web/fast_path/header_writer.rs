//! Writes the header of a response by concatenating prepared lines.

use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

use crate::web::date::CurrentDate;
use crate::web::response::{CONTENT_SECURITY_POLICY, CROSS_ORIGIN_RESOURCE_POLICY, SECURITY};
use crate::web::selection::Selection;
use crate::web::socket::Scheme;
use crate::web::state::Snapshot;

/// Header lines that the responses of one worker share.
pub(super) struct HeaderWriter {
    /// The generation of the snapshot that the next two fields come from.
    generation: u64,
    /// The security headers for responses whose file has no headers of its own.
    security: Vec<u8>,
    /// The `Strict-Transport-Security` line.
    hsts: Vec<u8>,
    date: CurrentDate,
}

impl HeaderWriter {
    pub(super) fn new() -> Self {
        Self { generation: 0, security: Vec::new(), hsts: Vec::new(), date: CurrentDate::new() }
    }

    pub(super) fn write(
        &mut self,
        buffer: &mut Vec<u8>,
        selection: &Selection<'_>,
        scheme: Scheme,
        snapshot: &Snapshot,
        now: Instant,
    ) {
        if self.generation != snapshot.generation {
            self.prepare(snapshot);
        }
        let policy = &snapshot.options.content_security_policy;
        buffer.extend_from_slice(
            selection.body.cached(selection.cache_slot(), || serialise(selection, policy)),
        );
        if !selection.has_own_headers() {
            buffer.extend_from_slice(&self.security);
        }
        if scheme == Scheme::Https {
            buffer.extend_from_slice(&self.hsts);
        }
        buffer.extend_from_slice(self.date.line_at(now).as_bytes());
        buffer.extend_from_slice(b"\r\n");
    }

    /// Prepares the lines that depend on the options.
    #[cold]
    fn prepare(&mut self, snapshot: &Snapshot) {
        self.generation = snapshot.generation;
        self.security.clear();
        write_security_headers(&mut self.security, &snapshot.options.content_security_policy, |_| true);
        self.hsts.clear();
        if let Some(hsts) = &snapshot.options.tls.hsts {
            write_field(&mut self.hsts, "strict-transport-security", hsts.value().as_bytes());
        }
    }
}

/// Writes the security headers that `is_needed` selects, except for the one that [`Selection::head`] sets.
fn write_security_headers(
    buffer: &mut Vec<u8>,
    policy: &HeaderValue,
    is_needed: impl Fn(&HeaderName) -> bool,
) {
    if is_needed(&CONTENT_SECURITY_POLICY) {
        write_field(buffer, CONTENT_SECURITY_POLICY.as_str(), policy.as_bytes());
    }
    let needed = |name: &HeaderName| *name != CROSS_ORIGIN_RESOURCE_POLICY && is_needed(name);
    for (name, value) in SECURITY.iter().filter(|(name, _)| needed(name)) {
        write_field(buffer, name.as_str(), value.as_bytes());
    }
}

/// The status line and representation headers (RFC 9112 §4, §5). If the file has headers of its own, also the
/// security headers that they do not replace. Bodies cache the result, so a reload that changes `policy`
/// creates new files.
fn serialise(selection: &Selection<'_>, policy: &HeaderValue) -> Box<[u8]> {
    // A status is formatted as its number and reason phrase.
    let mut lines = format!("HTTP/1.1 {}\r\n", selection.status()).into_bytes();
    selection.head(|name, value| write_field(&mut lines, name.as_str(), value.as_bytes()));
    if let Some(length) = selection.content_length() {
        write_field(&mut lines, "content-length", length.to_string().as_bytes());
    }
    if selection.has_own_headers() {
        write_security_headers(&mut lines, policy, |name| !selection.has_own_header(name));
    }
    lines.into()
}

fn write_field(buffer: &mut Vec<u8>, name: &str, value: &[u8]) {
    for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
        buffer.extend_from_slice(piece);
    }
}
