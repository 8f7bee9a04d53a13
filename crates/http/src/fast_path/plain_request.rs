//! Parses the header of a request, and decides whether it is plain: simple enough for the fast path, with or
//! without TLS.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Status};

use crate::ambiguity::is_simple_host;

/// Maximum number of header fields. Requests with more fields go to hyper.
pub(crate) const MAX_FIELDS: usize = 64;

/// An HTTP/1.1 GET or HEAD for a path. It has one `Host` of only letters, digits, `-`, `.` and `_` with an
/// optional port, no `Connection` but `keep-alive`, and no `Content-Length` (not even 0),
/// `Transfer-Encoding`, `Range`, `If-Match`, `Expect` or `Upgrade`.
pub struct PlainRequest<'h, 'b> {
    pub is_head: bool,
    /// The path without the query, still percent-encoded.
    pub path: &'b str,
    /// The query, still percent-encoded.
    pub query: Option<&'b str>,
    /// Length of the header in bytes.
    pub(crate) length: usize,
    pub accept: FieldLines<'b>,
    pub accept_encoding: FieldLines<'b>,
    pub if_none_match: FieldLines<'b>,
    pub host: &'b [u8],
    /// The first value of `User-Agent`.
    pub user_agent: Option<&'b [u8]>,
    /// The first value of `Referer`.
    pub referer: Option<&'b [u8]>,
    /// Whether the request is a prefetch ([`is_prefetch`]).
    pub is_prefetch: bool,
    fields: &'h [Header<'b>],
}

/// The values of all fields with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldLines<'b> {
    None,
    One(&'b [u8]),
    /// Several values, which [`PlainRequest::values_of`] returns.
    Many,
}

impl<'b> FieldLines<'b> {
    fn add_value(&mut self, value: &'b [u8]) {
        *self = if *self == Self::None { Self::One(value) } else { Self::Many };
    }
}

impl<'b> PlainRequest<'_, 'b> {
    /// The values of all fields with this name, ignoring case, in the order of the request.
    pub fn values_of(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}

/// Whether a value of `Sec-Purpose` or `Purpose` is the token `prefetch`, in any case and with any parameters
/// (RFC 9651 §3.3), as in `prefetch;prerender`.
pub fn is_prefetch(purpose: &[u8]) -> bool {
    let token = purpose.split(|byte| *byte == b';').next().unwrap_or_default();
    token.trim_ascii().eq_ignore_ascii_case(b"prefetch")
}

/// Parses the request at the beginning of `bytes`. `None` if it is incomplete, malformed or not plain
/// ([`PlainRequest`]), or has more than [`MAX_FIELDS`] fields.
pub(crate) fn parse<'h, 'b>(
    bytes: &'b [u8],
    fields: &'h mut [MaybeUninit<Header<'b>>; MAX_FIELDS],
) -> Option<PlainRequest<'h, 'b>> {
    let mut request = Request::new(&mut []);
    let Ok(Status::Complete(length)) = request.parse_with_uninit_headers(bytes, fields) else { return None };
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version) else {
        return None;
    };
    let is_head = method == "HEAD";
    let (path, query) = split_target(target)?;
    if !is_head && method != "GET" {
        return None;
    }
    let fields: &'h [Header<'b>] = request.headers;
    let (mut accept, mut accept_encoding, mut if_none_match) =
        (FieldLines::None, FieldLines::None, FieldLines::None);
    let (mut user_agent, mut referer, mut is_prefetched) = (None, None, false);
    let (mut hosts, mut host) = (0, &[][..]);
    for Header { name, value } in fields {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        // Compare lengths and first letters first: most names match none of those below.
        match (name.len(), name.as_bytes().first().map(u8::to_ascii_lowercase)) {
            (4, Some(b'h')) if is("host") => {
                hosts += 1;
                // hyper serves requests with other hosts, such as IPv6 addresses.
                if !is_simple_host(value) {
                    return None;
                }
                host = *value;
            }
            // The fast path sends only whole files, so hyper serves ranges.
            (5, Some(b'r')) if is("range") => return None,
            (6, Some(b'a')) if is("accept") => accept.add_value(value),
            (6, Some(b'e')) if is("expect") => return None,
            (7, Some(b'p')) if is("purpose") => is_prefetched |= is_prefetch(value),
            (7, Some(b'r')) if is("referer") => referer = referer.or(Some(*value)),
            (7, Some(b'u')) if is("upgrade") => return None,
            // `If-Match` is rare with GET and may need a response that is not in memory, so hyper serves it.
            (8, Some(b'i')) if is("if-match") => return None,
            (10, Some(b'c')) if is("connection") && !value.eq_ignore_ascii_case(b"keep-alive") => {
                return None;
            }
            (10, Some(b'u')) if is("user-agent") => user_agent = user_agent.or(Some(*value)),
            (11, Some(b's')) if is("sec-purpose") => is_prefetched |= is_prefetch(value),
            (13, Some(b'i')) if is("if-none-match") => if_none_match.add_value(value),
            (14, Some(b'c')) if is("content-length") => return None,
            (15, Some(b'a')) if is("accept-encoding") => accept_encoding.add_value(value),
            (17, Some(b't')) if is("transfer-encoding") => return None,
            _ => {}
        }
    }
    if hosts != 1 {
        return None;
    }
    Some(PlainRequest {
        is_head,
        path,
        query,
        length,
        accept,
        accept_encoding,
        if_none_match,
        host,
        user_agent,
        referer,
        is_prefetch: is_prefetched,
        fields,
    })
}

/// Splits a target in origin form (RFC 9112 §3.2.1) at the first `?` into the path and the query. `None` if
/// the target has another form, or a byte that RFC 3986 §3.3 does not permit.
fn split_target(target: &str) -> Option<(&str, Option<&str>)> {
    let bytes = target.as_bytes();
    let is_plain = |byte: &u8| TARGET[usize::from(*byte)];
    if bytes.first() != Some(&b'/') || !bytes.iter().all(is_plain) {
        return None;
    }
    match bytes.iter().position(|byte| *byte == b'?') {
        Some(end) => Some((target.get(..end)?, target.get(end + 1..))),
        None => Some((target, None)),
    }
}

/// Whether each byte is permitted in a path or query.
const TARGET: [bool; 256] = {
    let mut table = [false; 256];
    let plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/%?";
    let mut at = 0;
    while at < plain.len() {
        table[plain[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a request with these lines. `expected` is its path, or `other` if the request is not plain.
    fn check(lines: &[&str], expected: &str) {
        let bytes = lines.iter().map(|line| format!("{line}\r\n")).collect::<String>() + "\r\n";
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let found = match parse(bytes.as_bytes(), &mut fields) {
            Some(plain) => {
                assert_eq!(plain.length, bytes.len());
                format!("{}{}", if plain.is_head { "HEAD " } else { "" }, plain.path)
            }
            None => "other".to_owned(),
        };
        assert_eq!(found, expected, "{lines:?}");
    }

    const HOST: &str = "Host: www.example.com";

    #[test]
    fn get_and_head_requests_are_plain() {
        check(&["GET / HTTP/1.1", HOST], "/");
        check(&["HEAD /a/?b=/c HTTP/1.1", HOST], "HEAD /a/");
        check(&["GET /caf%C3%A9/ HTTP/1.1", "host: 192.0.2.1:8080"], "/caf%C3%A9/");
        check(&["GET / HTTP/1.1", HOST, "Connection: Keep-Alive", "Accept: a/b", "Cookie: x"], "/");
    }

    #[test]
    fn other_requests_are_not_plain() {
        for line in [
            "POST / HTTP/1.1",
            "GET / HTTP/1.0",
            "GET * HTTP/1.1",
            "GET http://a/ HTTP/1.1",
            "get / HTTP/1.1",
            "GET /\"/ HTTP/1.1",
            "GET /é/ HTTP/1.1",
            "GET /#a HTTP/1.1",
        ] {
            check(&[line, HOST], "other");
        }
        for field in [
            "Content-Length: 0",
            "transfer-encoding: chunked",
            "Expect: 100-continue",
            "Upgrade: h2c",
            "if-match: *",
            "Range: bytes=0-",
            "Connection: close",
            "Connection: upgrade",
            "Connection:",
            HOST,
            "Host: ",
            "a b: c",
        ] {
            check(&["GET / HTTP/1.1", HOST, field], "other");
        }
        check(&["GET / HTTP/1.1"], "other");
        check(&["GET / HTTP/1.1", "Host: [::1]"], "other");
        check(&["GET / HTTP/1.1", "Host: a@b"], "other");
        check(&["GET / HTTP/1.1", "Host: a:b"], "other");
        let many: Vec<String> = (0..MAX_FIELDS).map(|n| format!("x-{n}: y")).collect();
        let lines: Vec<&str> =
            ["GET / HTTP/1.1", HOST].into_iter().chain(many.iter().map(String::as_str)).collect();
        check(&lines, "other");
    }

    #[test]
    fn fields_with_the_same_name_stay_in_order() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nX: y\r\nACCEPT: c\r\n\r\nGET";
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let Some(plain) = parse(bytes, &mut fields) else { panic!("it is plain") };
        assert_eq!(plain.accept, FieldLines::Many);
        assert!(plain.values_of("accept").eq([b"b", b"c"]));
        assert_eq!(plain.accept_encoding, FieldLines::None);
        assert_eq!(plain.length, bytes.len() - 3);
    }

    #[test]
    fn a_prefetch_is_recognized_by_its_purpose() {
        for (purpose, expected) in [
            (&b"prefetch"[..], true),
            (b"prefetch;prerender", true),
            (b"Prefetch", true),
            (b"prefetch ; prerender", true),
            (b"prefetcher", false),
            (b"prefetch-preview", false),
            (b"preview", false),
            (b"", false),
        ] {
            assert_eq!(is_prefetch(purpose), expected, "{purpose:?}");
        }
    }
}
