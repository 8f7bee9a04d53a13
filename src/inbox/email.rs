//! E-mail addresses as RFC 5321 §4.1.2 writes a `Mailbox`, which is what JSON Schema's `format: email` means.
//!
//! ASCII only, nothing trimmed, nothing looked up: whether mail arrives there is for mail to find out.
//! Comments, folding and display names belong to message headers (RFC 5322) and are no part of it.

/// The most octets of a whole address: a path of 256 octets less its two angle brackets
/// (RFC 5321 §4.5.3.1.3 and RFC 3696 erratum 1690).
pub const MAX_MAILBOX: usize = 254;
/// The most octets of a local part, quotes included (RFC 5321 §4.5.3.1.1).
pub const MAX_LOCAL: usize = 64;
/// The most octets of a domain or address literal (RFC 5321 §4.5.3.1.2).
pub const MAX_DOMAIN: usize = 255;
/// The most octets of one label of a domain (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// A well-formed address and its two halves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mailbox<'a> {
    local: &'a str,
    domain: &'a str,
}

impl<'a> Mailbox<'a> {
    /// Reads `Local-part "@" ( Domain / address-literal )`, the whole text or nothing.
    pub fn parse(text: &'a str) -> Option<Mailbox<'a>> {
        if text.len() > MAX_MAILBOX {
            return None;
        }
        // Neither a domain nor an address literal can hold `@`, so the last one divides.
        let (local, domain) = text.rsplit_once('@')?;
        let well_formed = local.len() <= MAX_LOCAL
            && domain.len() <= MAX_DOMAIN
            && (is_dot_string(local) || is_quoted_string(local))
            && (is_domain(domain) || is_address_literal(domain));
        well_formed.then_some(Mailbox { local, domain })
    }

    /// What stands before the `@`, quotes included.
    pub fn local(&self) -> &'a str {
        self.local
    }

    /// What stands after the `@`: a domain name, or an address literal with its brackets.
    pub fn domain(&self) -> &'a str {
        self.domain
    }
}

/// `Dot-string = Atom *("." Atom)`
fn is_dot_string(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atext))
}

/// `atext` of RFC 5322 §3.2.3.
fn is_atext(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b)
}

/// `Quoted-string = DQUOTE *( qtextSMTP / quoted-pairSMTP ) DQUOTE`
fn is_quoted_string(text: &str) -> bool {
    let Some(content) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    let mut bytes = content.bytes();
    while let Some(b) = bytes.next() {
        let fine = match b {
            b'\\' => matches!(bytes.next(), Some(b' '..=b'~')),
            b'"' => false,
            _ => matches!(b, b' '..=b'~'),
        };
        if !fine {
            return false;
        }
    }
    true
}

/// `Domain = sub-domain *("." sub-domain)`; one label alone is a domain too.
fn is_domain(text: &str) -> bool {
    text.split('.')
        .all(|label| label.len() <= MAX_LABEL && is_let_dig_hyphens(label) && !label.starts_with('-'))
}

/// `Ldh-str = *( ALPHA / DIGIT / "-" ) Let-dig`
fn is_let_dig_hyphens(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && !text.ends_with('-')
}

/// `address-literal = "[" ( IPv4-address-literal / IPv6-address-literal / General-address-literal ) "]"`
fn is_address_literal(text: &str) -> bool {
    let Some(content) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return false;
    };
    match content.split_once(':') {
        None => is_ipv4(content),
        Some((tag, address)) if tag.eq_ignore_ascii_case("IPv6") => is_ipv6(address),
        // `General-address-literal = Standardized-tag ":" 1*dcontent`
        Some((tag, rest)) => {
            is_let_dig_hyphens(tag)
                && !rest.is_empty()
                && rest.bytes().all(|b| matches!(b, b'!'..=b'Z' | b'^'..=b'~'))
        }
    }
}

/// `IPv4-address-literal = Snum 3("." Snum)`, where a number of one to three digits is at most 255.
fn is_ipv4(text: &str) -> bool {
    let mut numbers = 0;
    text.split('.').all(|number| {
        numbers += 1;
        (1..=3).contains(&number.len())
            && number.bytes().all(|b| b.is_ascii_digit())
            && number.parse::<u8>().is_ok()
    }) && numbers == 4
}

/// `IPv6-addr = IPv6-full / IPv6-comp / IPv6v4-full / IPv6v4-comp`: eight groups, of which an IPv4 address at
/// the end stands for two, and where `::` stands for two or more.
fn is_ipv6(text: &str) -> bool {
    let (groups, ipv4) = match text.rsplit_once(':') {
        Some((_, last)) if last.contains('.') => {
            if !is_ipv4(last) {
                return false;
            }
            // What is left ends in the `:` that belongs to the IPv4 address, or in a whole `::`.
            let before = &text[..text.len() - last.len()];
            let before = if before.ends_with("::") { before } else { &before[..before.len() - 1] };
            (before, 2)
        }
        _ => (text, 0),
    };
    match groups.split_once("::") {
        None => count_groups(groups) == Some(8 - ipv4),
        Some((head, tail)) => {
            let count = |part: &str| if part.is_empty() { Some(0) } else { count_groups(part) };
            matches!((count(head), count(tail)), (Some(h), Some(t)) if h + t + ipv4 <= 6)
        }
    }
}

/// How many groups of one to four hexadecimal digits, if it is nothing else.
fn count_groups(text: &str) -> Option<usize> {
    let mut count = 0;
    for group in text.split(':') {
        let hex = (1..=4).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_hexdigit());
        if !hex {
            return None;
        }
        count += 1;
    }
    Some(count)
}
