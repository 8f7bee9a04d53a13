//! Takes the host from a `Referer` (RFC 9110 §10.1.3); path and query are ignored.

/// Maximum length of a host name in bytes (RFC 1035 §2.3.4).
pub(super) const MAX_HOST: usize = 253;

/// The referring host in lower case, written to `buffer`. Empty if it is an IP address, because addresses are
/// not stored. `None` if the page was opened directly or from this site, or if the header is no `http` or
/// `https` URL, names a user, or has an invalid host, such as one that is not ASCII or is longer than
/// [`MAX_HOST`]. A dot at the end of the host is ignored.
///
/// `own` are the hosts of this site, with or without a port. A leading `www.` makes no difference for them.
pub(super) fn referring_host<'b>(
    referer: &[u8],
    own: [&[u8]; 2],
    buffer: &'b mut [u8; MAX_HOST],
) -> Option<&'b str> {
    let rest = strip_prefix(referer, b"https://").or_else(|| strip_prefix(referer, b"http://"))?;
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let authority = &rest[..end];
    // Ignore URLs with user info: the part before `@` may be a person's name.
    if authority.contains(&b'@') {
        return None;
    }
    let host = without_dot(without_port(authority));
    let is_own =
        |own: &[u8]| without_www(without_dot(without_port(own))).eq_ignore_ascii_case(without_www(host));
    if own.into_iter().any(is_own) {
        return None;
    }
    if host.first() == Some(&b'[') {
        return Some("");
    }
    let is_valid = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if host.is_empty() || !host.iter().all(is_valid) {
        return None;
    }
    // A host that ends in a number is an IPv4 address (WHATWG URL). It is counted without a name.
    if host.rsplit(|byte| *byte == b'.').next().is_some_and(|last| last.iter().all(u8::is_ascii_digit)) {
        return Some("");
    }
    let lower = buffer.get_mut(..host.len())?;
    lower.copy_from_slice(host);
    lower.make_ascii_lowercase();
    std::str::from_utf8(lower).ok()
}

/// Removes `prefix` from the start of `text`, ignoring case. `None` if `text` does not start with it.
fn strip_prefix<'a>(text: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (beginning, rest) = text.split_at_checked(prefix.len())?;
    beginning.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The authority without its port. An IPv6 address has its colons in brackets.
fn without_port(authority: &[u8]) -> &[u8] {
    match authority.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(colon) if authority[colon] == b':' => &authority[..colon],
        _ => authority,
    }
}

/// The host without a dot at its end, which stands for the root of DNS.
fn without_dot(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

/// The host without a leading `www.`, regardless of case.
fn without_www(host: &[u8]) -> &[u8] {
    strip_prefix(host, b"www.").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_of_another_site_is_taken() {
        let long = format!("https://{}/", "a".repeat(MAX_HOST + 1));
        for (referer, expected) in [
            ("https://news.example.net/item?id=ada#x", Some("news.example.net")),
            ("HTTP://News.Example.NET:8080", Some("news.example.net")),
            ("https://news.example.net.?q", Some("news.example.net")),
            ("https://under_score.example/", Some("under_score.example")),
            ("https://1password.com/", Some("1password.com")),
            // This site, with and without `www.`, and at the address that the request names.
            ("https://www.example.com/page/", None),
            ("https://EXAMPLE.com/", None),
            ("https://www.example.com./", None),
            ("http://localhost:8080/page/", None),
            ("http://[::1]:8080/", Some("")),
            ("http://192.0.2.1/", Some("")),
            ("http://192.0.2.1:8080/x", Some("")),
            ("https://ada@news.example.net/", None),
            ("https://ada:secret@news.example.net/", None),
            ("https://münchen.example/", None),
            ("https:///x", None),
            ("https://", None),
            ("android-app://com.example.reader/", None),
            ("about:blank", None),
            ("news.example.net", None),
            ("", None),
            (&long, None),
        ] {
            let mut buffer = [0; MAX_HOST];
            let own: [&[u8]; 2] = [b"localhost:8080", b"www.example.com"];
            assert_eq!(referring_host(referer.as_bytes(), own, &mut buffer), expected, "{referer}");
        }
        let longest = format!("https://{}/", "a".repeat(MAX_HOST));
        let found = referring_host(longest.as_bytes(), [b"", b""], &mut [0; MAX_HOST]).map(str::len);
        assert_eq!(found, Some(MAX_HOST));
    }
}
