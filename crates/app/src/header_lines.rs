//! Serializes the headers of representations for the fast path of HTTP/1.1 (`crates/http/src/fast_path.rs`
//! states its gain). Bodies keep the result, so that most of a header is copied in one piece.

use http::header::CONTENT_SECURITY_POLICY;
use http::{HeaderName, HeaderValue};

use super::selected_representation::Selection;
use super::state::Snapshot;
use frontdesk_http::{CROSS_ORIGIN_RESOURCE_POLICY, SECURITY_HEADERS};

/// Header lines that the responses of one worker share.
#[derive(Default)]
pub(super) struct HeaderLines {
    /// The generation of the snapshot that `security` and `hsts` come from; 0 before the first response.
    pub(super) generation: u64,
    /// The security headers for responses whose file has no headers of its own.
    pub(super) security: Vec<u8>,
    /// The `Strict-Transport-Security` line; empty without HSTS.
    pub(super) hsts: Vec<u8>,
}

impl HeaderLines {
    /// Replaces the cached header lines with those for the options of this snapshot.
    #[cold]
    pub(super) fn prepare(&mut self, snapshot: &Snapshot) {
        self.generation = snapshot.generation;
        self.security.clear();
        write_security_headers(&mut self.security, &snapshot.options.content_security_policy, |_| true);
        self.hsts.clear();
        if let Some(hsts) = &snapshot.options.http.tls.hsts {
            write_field(&mut self.hsts, "strict-transport-security", hsts.value().as_bytes());
        }
    }
}

/// Writes the security headers that `is_needed` selects. Leaves out `Cross-Origin-Resource-Policy`, which
/// [`Selection::head`] sets.
fn write_security_headers(
    buffer: &mut Vec<u8>,
    policy: &HeaderValue,
    is_needed: impl Fn(&HeaderName) -> bool,
) {
    if is_needed(&CONTENT_SECURITY_POLICY) {
        write_field(buffer, CONTENT_SECURITY_POLICY.as_str(), policy.as_bytes());
    }
    let needed = |name: &HeaderName| *name != CROSS_ORIGIN_RESOURCE_POLICY && is_needed(name);
    for (name, value) in SECURITY_HEADERS.iter().filter(|(name, _)| needed(name)) {
        write_field(buffer, name.as_str(), value.as_bytes());
    }
}

/// The status line and representation headers (RFC 9112 §4, §5). If the file has headers of its own, also the
/// security headers that they do not replace. Bodies cache the result, so a reload that changes `policy`
/// creates new files.
pub(super) fn serialize(selection: &Selection<'_>, policy: &HeaderValue) -> Box<[u8]> {
    // `StatusCode` formats as the number and the reason phrase, for example `200 OK`.
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
