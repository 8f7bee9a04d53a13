//! Parses e-mail addresses with the syntax of a `Mailbox` (RFC 5321 §4.1.2), as JSON Schema requires for
//! `format: email`.
//!
//! Accepts ASCII only, does not trim, and does not check whether the domain exists. Comments, folding and
//! display names belong to message headers (RFC 5322) and are not accepted.

use std::borrow::Cow;

use crate::text::{is_blank, is_invisible};

/// Maximum length of an address in octets: a path of 256 octets without its two angle brackets (RFC 5321
/// §4.5.3.1.3 and RFC 3696 erratum 1690).
pub const MAX_MAILBOX: usize = 254;
/// Maximum length of a local part in octets, including quotes (RFC 5321 §4.5.3.1.1).
pub const MAX_LOCAL: usize = 64;
/// Maximum length of a domain or address literal in octets (RFC 5321 §4.5.3.1.2).
pub const MAX_DOMAIN: usize = 255;
/// Maximum length of a label in octets (RFC 1035 §2.3.4).
const MAX_LABEL: usize = 63;

/// A valid e-mail address of at most [`MAX_MAILBOX`] octets, as it was written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mailbox<'a> {
    local: &'a str,
    domain: &'a str,
}

impl<'a> Mailbox<'a> {
    /// Parses all of `text` as `Local-part "@" ( Domain / address-literal )`. `None` for other texts, and if
    /// the text or one of its parts is longer than [`MAX_MAILBOX`], [`MAX_LOCAL`] or [`MAX_DOMAIN`] permits.
    pub fn parse(text: &'a str) -> Option<Mailbox<'a>> {
        if text.len() > MAX_MAILBOX {
            return None;
        }
        // Neither a domain nor an address literal can contain `@`, but a quoted local part can.
        let (local, domain) = text.rsplit_once('@')?;
        let well_formed = local.len() <= MAX_LOCAL
            && domain.len() <= MAX_DOMAIN
            && (is_dot_string(local) || is_quoted_string(local))
            && (is_domain(domain) || is_address_literal(domain));
        well_formed.then_some(Mailbox { local, domain })
    }

    /// The part before the `@`, including any quotes.
    pub fn local(&self) -> &'a str {
        self.local
    }

    /// The part after the `@`: a domain name, or an address literal with its brackets.
    pub fn domain(&self) -> &'a str {
        self.domain
    }
}

/// The address with its internationalized domain in Punycode (UTS #46), such as `ada@xn--mnchen-3ya.example`.
/// Returns other texts unchanged, including addresses whose domain has a `%` or more than [`MAX_DOMAIN`]
/// characters, or cannot be converted. The result may still be no address.
pub fn with_ascii_domain(text: &str) -> Cow<'_, str> {
    let domain = text.rsplit_once('@').map(|(_, domain)| domain);
    let is_convertible =
        |domain: &&str| !domain.is_ascii() && !domain.contains('%') && domain.chars().count() <= MAX_DOMAIN;
    match domain.filter(is_convertible).map(|domain| (domain, url::Host::parse(domain))) {
        Some((domain, Ok(url::Host::Domain(ascii)))) => {
            format!("{}{ascii}", &text[..text.len() - domain.len()]).into()
        }
        _ => text.into(),
    }
}

/// The spelling in ASCII of an internationalized domain, such as `bücher.example`, or of an address with one.
/// `None` for other words, also for one without a dot.
pub fn ascii_spelling(word: &str) -> Option<String> {
    let address = if word.contains('@') { word.to_owned() } else { format!("@{word}") };
    let is_domain = !word.is_ascii() && word.contains('.');
    let spelling = Some(with_ascii_domain(&address)).filter(|spelling| is_domain && *spelling != address)?;
    spelling.get(address.len() - word.len()..).map(str::to_owned)
}

/// The address as a visitor has typed or copied it, with these changes: blank and invisible characters at
/// both ends, and invisible ones in the local part, are removed; full-width characters become ASCII; an
/// internationalized domain becomes Punycode. The result may still be no address.
pub(crate) fn posted_address(text: &str) -> String {
    let ascii: String = text.trim_matches(is_blank).chars().map(from_full_width).collect();
    let address = match ascii.rsplit_once('@') {
        Some((local, domain)) => format!("{}@{domain}", local.replace(is_invisible, "")),
        None => ascii,
    };
    with_ascii_domain(&address).into_owned()
}

/// Converts a full-width character to its ASCII form. Returns other characters unchanged.
fn from_full_width(c: char) -> char {
    let narrow = ('！'..='～').contains(&c).then(|| char::from_u32(u32::from(c) - 0xfee0)).flatten();
    narrow.unwrap_or(c)
}

/// `Dot-string = Atom *("." Atom)`
fn is_dot_string(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atext))
}

/// `atext` (RFC 5322 §3.2.3)
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
        let escaped = if b == b'\\' { bytes.next() } else { Some(b).filter(|b| *b != b'"') };
        if !matches!(escaped, Some(b' '..=b'~')) {
            return false;
        }
    }
    true
}

/// Whether the text is a `Domain = sub-domain *("." sub-domain)`, where `sub-domain = Let-dig [ *( ALPHA /
/// DIGIT / "-" ) Let-dig ]`. A single label is also a domain, and so is an IPv4 address. The total length is
/// not limited.
pub fn is_domain(text: &str) -> bool {
    text.split('.').all(|label| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}

/// `address-literal = "[" ( IPv4-address-literal / IPv6-address-literal / General-address-literal ) "]"`
///
/// The tag of a General-address-literal must be registered (RFC 5321 §4.1.3), and the only registered tag is
/// `IPv6`, so every General-address-literal is rejected, including `[2001:db8::1]`.
fn is_address_literal(text: &str) -> bool {
    let Some(content) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return false;
    };
    match content.split_once(':') {
        None => is_ipv4(content),
        Some((tag, address)) => tag.eq_ignore_ascii_case("IPv6") && is_ipv6(address),
    }
}

/// `IPv4-address-literal = Snum 3("." Snum)`, where `Snum` has one to three digits and is at most 255.
fn is_ipv4(text: &str) -> bool {
    let is_number = |number: &str| {
        number.len() <= 3 && number.bytes().all(|b| b.is_ascii_digit()) && number.parse::<u8>().is_ok()
    };
    text.split('.').count() == 4 && text.split('.').all(is_number)
}

/// `IPv6-addr = IPv6-full / IPv6-comp / IPv6v4-full / IPv6v4-comp`: eight groups. An IPv4 address
/// at the end replaces two groups, and `::` replaces two or more.
fn is_ipv6(text: &str) -> bool {
    let (groups, ipv4) = match text.rsplit_once(':') {
        Some((_, last)) if last.contains('.') => {
            if !is_ipv4(last) {
                return false;
            }
            // `before` ends with the `:` that precedes the IPv4 address, or with `::`.
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

/// Counts the groups of one to four hexadecimal digits between colons. `None` if any group is malformed.
fn count_groups(text: &str) -> Option<usize> {
    let is_group =
        |group: &str| (1..=4).contains(&group.len()) && group.bytes().all(|b| b.is_ascii_hexdigit());
    text.split(':').all(is_group).then(|| text.split(':').count())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_internationalized_domain_becomes_punycode() {
        for (text, expected) in [
            ("ada@münchen.example", "ada@xn--mnchen-3ya.example"),
            ("ada@BÜCHER。example", "ada@xn--bcher-kva.example"),
            ("ada@例え.example", "ada@xn--r8jz45g.example"),
            ("\"a@b\"@münchen.example", "\"a@b\"@xn--mnchen-3ya.example"),
            ("ada@Example.com", "ada@Example.com"),
            ("ada@ü%40b.example", "ada@ü%40b.example"),
            ("ada@１２７.0.0.1", "ada@１２７.0.0.1"),
            ("ada@ü b.example", "ada@ü b.example"),
            ("münchen.example", "münchen.example"),
            ("jürgen@example.com", "jürgen@example.com"),
        ] {
            assert_eq!(with_ascii_domain(text), expected);
        }
        let long = format!("a@{}", "ü".repeat(60_000));
        assert_eq!(with_ascii_domain(&long), long);
    }

    #[test]
    fn words_with_an_internationalized_domain_have_a_spelling_in_ascii() {
        for (word, expected) in [
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("ada@BÜCHER.example", Some("ada@xn--bcher-kva.example")),
            ("@bücher.example", Some("@xn--bcher-kva.example")),
            ("bücher", None),
            ("ü..ü b", None),
            ("example.com", None),
            ("", None),
        ] {
            assert_eq!(ascii_spelling(word).as_deref(), expected, "{word}");
        }
    }

    #[test]
    fn addresses_are_read_as_visitors_write_them() {
        for (text, expected) in [
            ("\u{feff}\u{a0}ada\u{200b}@example.com\u{200b}", "ada@example.com"),
            ("ada＠example.com", "ada@example.com"),
            ("ａｄａ．Ｌ@example.com", "ada.L@example.com"),
            ("\u{3000}ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ", "ada@example.com"),
            ("ada＠bücher。example", "ada@xn--bcher-kva.example"),
            ("\"a b\"@example.com", "\"a b\"@example.com"),
            ("jürgen@example.com", "jürgen@example.com"),
            ("アダ@example.com", "アダ@example.com"),
            ("ada", "ada"),
            ("", ""),
        ] {
            assert_eq!(posted_address(text), expected, "{text}");
        }
    }

    #[test]
    fn addresses_of_the_json_schema_test_suite_are_accepted() {
        check(
            true,
            &[
                "joe.bloggs@example.com",
                "te~st@example.com",
                "~test@example.com",
                "test~@example.com",
                r#""joe bloggs"@example.com"#,
                r#""joe..bloggs"@example.com"#,
                r#""joe@bloggs"@example.com"#,
                "joe.bloggs@[127.0.0.1]",
                "joe.bloggs@[IPv6:::1]",
                "a@[ipv6:::1]",
                "te.s.t@example.com",
                "test@255.255.255.255",
                r#"""@iana.org"#,
                r#"" "@iana.org"#,
                "test@c--n.com",
                "test@123.com",
                r#""test"@iana.org"#,
                r#""\a"@iana.org"#,
                r#""\""@iana.org"#,
                r#""\\"@iana.org"#,
                "test@io",
            ],
        );
    }

    #[test]
    fn invalid_addresses_of_the_json_schema_test_suite_are_refused() {
        check(
            false,
            &[
                "",
                "2962",
                ".test@example.com",
                "test.@example.com",
                "te..st@example.com",
                "joe.bloggs@invalid=domain.com",
                "joe.bloggs@[127.0.0.300]",
                "user1@oceania.org, user2@oceania.org",
                r#""Winston Smith" <winston.smith@recdep.minitrue> (Records Department)"#,
                "@example.com",
                "joe.bloggs@",
                "joe bloggs@example.com",
                "a\u{e9}@iana.org",
                "a@\u{e9}.org",
                "a\u{ff20}iana.org",
                "\"test\\\u{a9}\"@iana.org",
                "test@iana.org\n",
                "test@iana.org\r",
                "a@iana.org ",
                " a@iana.org",
                "a\tb@iana.org",
                "\u{7f}@iana.org",
                "test\"@iana.org",
                r#""test"test@iana.org"#,
                r#""test@iana.org"#,
                "a@b@c.org",
                r"test\@test@iana.org",
                "[1.2.3.4]@iana.org",
                "test@-iana.org",
                "test@iana-.com",
                "test@.iana.org",
                "test@iana.org.",
                "test@iana..com",
                "test@[1.2.3.4",
                "a@[]",
                "a@[1.2.3]",
                "a@[1.2.3.4.5]",
                "test@[RFC-5322-domain-literal]",
                "test@a[255.255.255.255]",
                "a,b@iana.org",
                "a;b@iana.org",
                "a:b@iana.org",
                "test(comment)@iana.org",
                "a@b(c).org",
            ],
        );
    }

    #[test]
    fn every_atom_character_is_taken_and_no_other() {
        for b in 0..=127u8 {
            let c = char::from(b);
            let is_atom = c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
            let address = format!("a{c}b@example.com");
            assert_eq!(Mailbox::parse(&address).is_some(), is_atom || c == '.', "{address:?}");
        }
    }

    #[test]
    fn quoted_local_parts_hold_printable_ascii() {
        for b in 0..=127u8 {
            let c = char::from(b);
            let is_printable = (' '..='~').contains(&c);
            let plain = format!("\"{c}\"@example.com");
            assert_eq!(Mailbox::parse(&plain).is_some(), is_printable && c != '"' && c != '\\', "{plain:?}");
            let pair = format!("\"\\{c}\"@example.com");
            assert_eq!(Mailbox::parse(&pair).is_some(), is_printable, "{pair:?}");
        }
        check(
            false,
            &[
                r#"""#,
                r#""@example.com"#,
                r#""\"@example.com"#,
                r#""a\"@example.com"#,
                r#"a."b"@example.com"#,
            ],
        );
    }

    #[test]
    fn domains_are_labels_of_letters_digits_and_inner_hyphens() {
        check(true, &["a@b", "a@localhost", "a@xn--bcher-kva.example", "a@1.2", "a@a-b.c-d", "a@A.B"]);
        check(
            false,
            &["a@b_c.d", "a@b c", "a@b.-c", "a@b.c-", "a@-", "a@.", "a@b..c", "a@b/c", "a@b:25", "a@b%c"],
        );
    }

    #[test]
    fn ipv4_literals_are_four_numbers_up_to_255() {
        check(true, &["a@[0.0.0.0]", "a@[255.255.255.255]", "a@[001.02.3.004]"]);
        check(
            false,
            &[
                "a@[256.1.1.1]",
                "a@[1.1.1.1000]",
                "a@[1.1.1.]",
                "a@[.1.1.1]",
                "a@[1..1.1]",
                "a@[+1.1.1.1]",
                "a@[1.1.1.1 ]",
                "a@[1.1.1.1].com",
                "a@ [1.1.1.1]",
                "a@[[1.1.1.1]]",
                "a@[0x1.1.1.1]",
            ],
        );
    }

    #[test]
    fn ipv6_literals_are_eight_groups_or_fewer_around_a_gap() {
        check(
            true,
            &[
                "a@[IPv6:1:2:3:4:5:6:7:8]",
                "a@[IPv6:2001:db8::1]",
                "a@[IPv6:::]",
                "a@[IPv6:1::]",
                "a@[IPv6:1:2:3:4:5:6::]",
                "a@[IPv6:::3:4:5:6:7:8]",
                "a@[IPv6:1:2:3:4:5:6:192.0.2.1]",
                "a@[IPv6:::192.0.2.1]",
                "a@[IPv6:::ffff:192.0.2.1]",
                "a@[IPv6:1::4:192.0.2.1]",
                "a@[IPV6:2001:DB8::A]",
            ],
        );
        check(
            false,
            &[
                "a@[IPv6:]",
                "a@[IPv6]",
                "a@[2001:db8::1]",
                "a@[IPv6:1:2:3:4:5:6:7]",
                "a@[IPv6:1:2:3:4:5:6:7:8:9]",
                // `::` must replace at least two groups (RFC 5321).
                "a@[IPv6:1:2:3:4:5:6:7::]",
                "a@[IPv6:1:2:3::5:6:7:8]",
                "a@[IPv6:1::2::3]",
                "a@[IPv6::::]",
                "a@[IPv6::1]",
                "a@[IPv6:1:]",
                "a@[IPv6:12345::]",
                "a@[IPv6:g::]",
                "a@[IPv6:fe80::1%eth0]",
                "a@[IPv6:1:2:3:4:5:6:7:192.0.2.1]",
                "a@[IPv6:::192.0.2.256]",
                "a@[IPv6:192.0.2.1]",
                "a@[IPv6::192.0.2.1]",
                "a@[IPv6:192.0.2.1::]",
                "a@[IPv6: ::1]",
            ],
        );
    }

    #[test]
    fn no_other_literal_has_a_registered_tag() {
        check(false, &["a@[tag:content]", "a@[IPv4:192.0.2.1]", "a@[IPv7:::1]", "a@[:x]", "a@[IPv6-:::1]"]);
    }

    #[test]
    fn lengths_are_those_of_the_standard() {
        let local = |n: usize| format!("{}@example.com", "l".repeat(n));
        check(true, &[&local(64)]);
        check(false, &[&local(65)]);
        let quoted = |n: usize| format!("\"{}\"@example.com", "l".repeat(n));
        check(true, &[&quoted(62)]);
        check(false, &[&quoted(63)]);
        let label = |n: usize| format!("a@{}.com", "d".repeat(n));
        check(true, &[&label(63)]);
        check(false, &[&label(64)]);
        let domain = ["d".repeat(63), "d".repeat(63), "d".repeat(63), "d".repeat(60)].join(".");
        check(true, &[&format!("a@{domain}")]);
        check(false, &[&format!("ab@{domain}")]);
    }

    #[test]
    fn local_part_and_domain_are_split_at_the_last_at_sign() {
        let mailbox = Mailbox::parse(r#""a@b"@example.com"#).unwrap();
        assert_eq!((mailbox.local(), mailbox.domain()), (r#""a@b""#, "example.com"));
    }

    const DOT_STRING: &str =
        r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,9}(\.[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,9}){0,3}";
    const QUOTED: &str = r#""([ !#-\[\]-~]|\\[ -~]){0,20}""#;
    const DOMAIN: &str =
        r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,9}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,9}[a-zA-Z0-9])?){0,4}";

    proptest! {
        #[test]
        fn every_generated_address_is_accepted(local in prop_oneof![DOT_STRING, QUOTED], domain in DOMAIN) {
            let address = format!("{local}@{domain}");
            let mailbox = Mailbox::parse(&address).unwrap();
            prop_assert_eq!((mailbox.local(), mailbox.domain()), (&*local, &*domain));
        }

        #[test]
        fn every_ipv6_address_in_rusts_notation_is_accepted(bits in any::<u128>(), mask in any::<u128>()) {
            for bits in [bits, bits & mask, bits & mask & (mask << 16)] {
                let mailbox = format!("a@[IPv6:{}]", std::net::Ipv6Addr::from_bits(bits));
                prop_assert!(Mailbox::parse(&mailbox).is_some(), "{}", mailbox);
            }
        }

        #[test]
        fn rust_parses_every_accepted_ipv6_literal(text in "[0-9a-f:.]{2,20}") {
            if Mailbox::parse(&format!("a@[IPv6:{text}]")).is_some() && !text.contains('.') {
                prop_assert!(text.parse::<std::net::Ipv6Addr>().is_ok(), "{}", text);
            }
        }

        #[test]
        fn accepted_addresses_are_printable_ascii_within_the_limits(
            text in r#"["a-c.@\\ \[\]:é\x00-\x1f-]{0,12}@?[a-c.\[\]:1-]{0,8}"#,
        ) {
            if let Some(mailbox) = Mailbox::parse(&text) {
                prop_assert!(text.bytes().all(|b| matches!(b, b' '..=b'~')));
                prop_assert!(text.len() <= MAX_MAILBOX && mailbox.local().len() <= MAX_LOCAL);
                prop_assert!(!mailbox.local().is_empty() && !mailbox.domain().is_empty());
                prop_assert!(!text.contains(' ') || text.starts_with('"'));
                prop_assert_eq!(text.trim(), &text);
            }
        }
    }

    fn check(valid: bool, addresses: &[&str]) {
        for address in addresses {
            assert_eq!(Mailbox::parse(address).is_some(), valid, "{address:?}");
        }
    }
}
