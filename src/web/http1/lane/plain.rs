//! Reads a request's header, and tells whether the request is plain. In doubt it is not.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Status};

/// A plain request may have this many fields; hyper takes those that have more.
pub(super) const MOST_FIELDS: usize = 64;

/// GET or HEAD over HTTP/1.1 for a path, with one host, no body and nothing that concerns the connection.
#[derive(Debug)]
pub(super) struct Plain<'h, 'b> {
    pub(super) is_head: bool,
    /// As it was sent, without the query.
    pub(super) path: &'b str,
    /// Of the header, in bytes.
    pub(super) length: usize,
    pub(super) accept: Lines<'b>,
    pub(super) accept_encoding: Lines<'b>,
    pub(super) if_none_match: Lines<'b>,
    fields: &'h [Header<'b>],
}

/// The fields of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines<'b> {
    None,
    One(&'b [u8]),
    /// So many that they are looked for again.
    Many,
}

impl<'b> Lines<'b> {
    fn note(&mut self, value: &'b [u8]) {
        *self = if *self == Self::None { Self::One(value) } else { Self::Many };
    }
}

impl<'b> Plain<'_, 'b> {
    /// The values of all fields of this name, in the order in which they came.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }
}

/// Reads the request that `bytes` begins with; none if it is not plain, or not all there.
pub(super) fn read<'h, 'b>(
    bytes: &'b [u8],
    fields: &'h mut [MaybeUninit<Header<'b>>; MOST_FIELDS],
) -> Option<Plain<'h, 'b>> {
    let mut request = Request::new(&mut []);
    let Ok(Status::Complete(length)) = request.parse_with_uninit_headers(bytes, fields) else { return None };
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version) else {
        return None;
    };
    let is_head = method == "HEAD";
    let path = path_of(target)?;
    if !is_head && method != "GET" {
        return None;
    }
    let fields: &'h [Header<'b>] = request.headers;
    let (mut accept, mut accept_encoding, mut if_none_match) = (Lines::None, Lines::None, Lines::None);
    let mut hosts = 0;
    for Header { name, value } in fields {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        // By length and first letter: most names are none of these.
        match (name.len(), name.as_bytes().first().map(u8::to_ascii_lowercase)) {
            (4, Some(b'h')) if is("host") => {
                hosts += 1;
                if !is_simple_host(value) {
                    return None;
                }
            }
            (6, Some(b'a')) if is("accept") => accept.note(value),
            (6, Some(b'e')) if is("expect") => return None,
            (7, Some(b'u')) if is("upgrade") => return None,
            // Rare with GET, and may lead to an answer that is not in memory.
            (8, Some(b'i')) if is("if-match") => return None,
            (10, Some(b'c')) if is("connection") && !value.eq_ignore_ascii_case(b"keep-alive") => {
                return None;
            }
            (13, Some(b'i')) if is("if-none-match") => if_none_match.note(value),
            (14, Some(b'c')) if is("content-length") => return None,
            (15, Some(b'a')) if is("accept-encoding") => accept_encoding.note(value),
            (17, Some(b't')) if is("transfer-encoding") => return None,
            _ => {}
        }
    }
    if hosts != 1 {
        return None;
    }
    Some(Plain { is_head, path, length, accept, accept_encoding, if_none_match, fields })
}

/// The path of a target in origin form, if it has no character but those of RFC 3986 §3.3; the query is cut off.
fn path_of(target: &str) -> Option<&str> {
    let bytes = target.as_bytes();
    let is_plain = |byte: &u8| TARGET[usize::from(*byte)];
    if bytes.first() != Some(&b'/') || !bytes.iter().all(is_plain) {
        return None;
    }
    match bytes.iter().position(|byte| *byte == b'?') {
        Some(end) => target.get(..end),
        None => Some(target),
    }
}

/// Whether a byte may stand in a path or query.
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

/// Whether it is a name or an IPv4 address, perhaps with a port. IPv6 is left to those who look closely.
fn is_simple_host(value: &[u8]) -> bool {
    let end = value.iter().position(|byte| *byte == b':').unwrap_or(value.len());
    let (name, port) = value.split_at(end);
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(byte))
        && port.iter().skip(1).all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What becomes of a request with these lines, each of which ends here.
    fn check(lines: &[&str], expected: &str) {
        let bytes = lines.iter().map(|line| format!("{line}\r\n")).collect::<String>() + "\r\n";
        let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let found = match read(bytes.as_bytes(), &mut fields) {
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
    fn what_only_wants_to_read_is_plain() {
        check(&["GET / HTTP/1.1", HOST], "/");
        check(&["HEAD /a/?b=/c HTTP/1.1", HOST], "HEAD /a/");
        check(&["GET /caf%C3%A9/ HTTP/1.1", "host: 192.0.2.1:8080"], "/caf%C3%A9/");
        check(&["GET / HTTP/1.1", HOST, "Connection: Keep-Alive", "Accept: a/b", "Cookie: x"], "/");
    }

    #[test]
    fn anything_else_is_not() {
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
        let many: Vec<String> = (0..MOST_FIELDS).map(|n| format!("x-{n}: y")).collect();
        let lines: Vec<&str> =
            ["GET / HTTP/1.1", HOST].into_iter().chain(many.iter().map(String::as_str)).collect();
        check(&lines, "other");
    }

    #[test]
    fn lines_of_a_name_stay_in_order() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nX: y\r\nACCEPT: c\r\n\r\nGET";
        let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
        let Some(plain) = read(bytes, &mut fields) else { panic!("it is plain") };
        assert_eq!(plain.accept, Lines::Many);
        assert!(plain.all("accept").eq([b"b", b"c"]));
        assert_eq!(plain.accept_encoding, Lines::None);
        assert_eq!(plain.length, bytes.len() - 3);
    }

    proptest! {
        #[test]
        fn a_simple_host_is_one_that_is_not_refused(value in "[a-z0-9._:-]{0,12}") {
            if is_simple_host(value.as_bytes()) {
                prop_assert!(crate::web::ambiguity::names_host(value.as_bytes()));
            }
        }
    }
}
