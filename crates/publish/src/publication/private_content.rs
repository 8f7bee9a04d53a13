//! Recognizes private keys, databases and exports by their content.
//!
//! Most marks must be at the beginning of the file or of a line, where programs and pages that only mention
//! them do not have them. A key in quotes, or as a member of JSON, counts anywhere if enough Base64 follows.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memchr::memmem;

use frontdesk_forms::EXPORT_COLUMNS;

/// A kind of private file that is recognized by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContentMark {
    /// A private key in PEM, OpenPGP armor, JSON, or the formats of SSH programs, age, WireGuard, DNSSEC or
    /// minisign.
    #[error("it contains a private key")]
    PrivateKey,
    /// A file named `*.key` that is not a ZIP archive, a configuration or a public key.
    #[error("its name is that of a private key, and its content is no known kind of public key")]
    KeyName,
    #[error("it is a SQLite database")]
    Database,
    /// The log or journal of a SQLite database, or the index of its log.
    #[error("it is the log of a SQLite database")]
    Log,
    #[error("it is a dump of a database")]
    Dump,
    #[error("it is an inbox or a backup of one")]
    Inbox,
    /// Submissions, as `frontdesk inbox export` writes them.
    #[error("it is an export of submissions")]
    Export,
    #[error("it is a configuration of frontdesk")]
    Configuration,
}

impl ContentMark {
    /// Whether the file has, or may have, the data of visitors, so that `site.publish` has no effect on it.
    /// The log of an inbox looks like the log of any other database.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Inbox | Self::Export | Self::Log)
    }
}

/// The value of `application_id` in the database file of an inbox.
const INBOX_ID: &[u8] = b"FDSK";

/// Extensions or whole names of text formats that show examples of other files, such as documentation and
/// feeds.
#[rustfmt::skip]
const DOCUMENTS: [&str; 14] = [
    ".adoc", ".atom", ".htm", ".html", ".markdown", ".md", ".md.txt", ".mdx", ".rss", ".rst", ".rst.txt",
    ".xhtml", ".xml", "llms-full.txt",
];

/// Whether a file is a document, judged by its name in lower case. Documents may show keys as examples.
pub(super) fn is_document(name: &str) -> bool {
    DOCUMENTS.iter().any(|ending| name.ends_with(ending))
}

/// Extensions of programs and styles, whose strings may look like keys or configurations.
const PROGRAMS: [&str; 10] =
    [".cjs", ".css", ".js", ".js.map", ".jsx", ".map", ".mjs", ".scss", ".ts", ".tsx"];

/// Determines from the content of the file `name` whether it is private; `None` if no mark is found. The
/// extension decides which marks count: documents may show keys, dumps and configurations as examples, and
/// programs may contain configurations and the keys that `contains_quoted_key` and `is_key_record` find.
pub fn examine(name: &str, bytes: &[u8]) -> Option<ContentMark> {
    const DATABASE: &[u8] = b"SQLite format 3\0";
    const JOURNAL: &[u8] = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
    if bytes.starts_with(DATABASE) {
        let is_inbox = bytes.get(68..72) == Some(INBOX_ID);
        return Some(if is_inbox { ContentMark::Inbox } else { ContentMark::Database });
    }
    // The second pattern is the beginning of a write-ahead log.
    if bytes.starts_with(JOURNAL) || matches!(bytes, [0x37, 0x7f, 0x06, 0x82 | 0x83, ..]) {
        return Some(ContentMark::Log);
    }
    // The index of a log begins with its version number, in the byte order of the machine.
    let is_version = [3_007_000_u32.to_le_bytes(), 3_007_000_u32.to_be_bytes()];
    if is_version.iter().any(|version| bytes.starts_with(version)) && bytes.get(48..52) == bytes.get(..4) {
        return Some(ContentMark::Log);
    }
    let text = as_single_bytes(bytes);
    if is_export(&text) {
        return Some(ContentMark::Export);
    }
    let name = name.to_ascii_lowercase();
    match () {
        () if is_document(&name) => None,
        () if is_dump(&text) => Some(ContentMark::Dump),
        () if contains_private_key(&text) => Some(ContentMark::PrivateKey),
        () if PROGRAMS.iter().any(|ending| name.ends_with(ending)) => None,
        () if contains_quoted_key(&text) || is_key_record(&text) => Some(ContentMark::PrivateKey),
        () if is_configuration(&text) => Some(ContentMark::Configuration),
        // Recognize binary keys by the file's name. Names of Keynote presentations, which are ZIP archives,
        // end in `.key`, too.
        () if name.ends_with(".key") && !text.starts_with(b"PK") && !is_public_key(&text) => {
            Some(ContentMark::KeyName)
        }
        () => None,
    }
}

/// Whether a file without a private key in a text format is a public key: in PEM, OpenPGP armor or packets, a
/// line of OpenSSH, or the format of minisign.
fn is_public_key(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    let first = line_around(start, 0);
    let is_pem =
        [&b"PUBLIC KEY"[..], b"CERTIFICATE"].iter().any(|label| memmem::find(first, label).is_some());
    let is_ssh = [&b"ssh-"[..], b"ecdsa-sha2-", b"sk-"].iter().any(|kind| start.starts_with(kind));
    start.starts_with(b"-----BEGIN ") && is_pem
        || is_ssh && memmem::find(first, b" AAAA").is_some()
        || start.starts_with(b"untrusted comment:") && memmem::find(first, b"public key").is_some()
        || is_public_keyring(text)
}

/// Whether the file consists of OpenPGP packets (RFC 9580 §4.2), the first one a public key and none a
/// private key.
fn is_public_keyring(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let [header, after @ ..] = rest {
        let (tag, length, body) = match (header, after) {
            (0x80..=0xbf, after) if header & 3 < 3 => {
                let Some((length, body)) = after.split_at_checked(1 << (header & 3)) else { return false };
                let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (header >> 2 & 15, length, body)
            }
            (0xc0.., [length @ ..=191, body @ ..]) => (header & 63, usize::from(*length), body),
            (0xc0.., [high @ 192..=223, low, body @ ..]) => {
                (header & 63, (usize::from(high - 192) << 8) + usize::from(*low) + 192, body)
            }
            _ => return false,
        };
        // In OpenPGP, tag 6 is a public key; 5 and 7 are a private key and a private subkey.
        let is_first = rest.len() == bytes.len();
        let Some(next) = body.get(length..).filter(|_| tag == 6 || !is_first && tag != 5 && tag != 7) else {
            return false;
        };
        rest = next;
    }
    !bytes.is_empty()
}

/// Whether the text is a certificate in PEM, without a private key.
pub(super) fn is_certificate(text: &[u8]) -> bool {
    memmem::find(text, b"-----BEGIN CERTIFICATE-----").is_some() && !contains_private_key(text)
}

/// Whether the file begins like the database of an inbox. `false` if it cannot be read or is not a regular
/// file.
pub(crate) fn is_inbox(file: &Path) -> bool {
    // Do not open pipes: opening one blocks until another process opens it for writing.
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let mut start = [0; 72];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && examine("", &start) == Some(ContentMark::Inbox)
}

/// Removes the byte order mark of UTF-8. From text that is or looks like UTF-16, which some programs write
/// with or without a byte order mark, removes all zero bytes, so that ASCII characters take one byte.
fn as_single_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    let without_zeros =
        |text: &[u8]| text.iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>().into();
    let has_pairs = |zero: usize| {
        let start = &bytes[..bytes.len().min(16)];
        start.len() >= 8 && start.iter().enumerate().all(|(at, byte)| (*byte == 0) == (at % 2 == zero))
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => rest.into(),
        [0xff, 0xfe, rest @ ..] | [0xfe, 0xff, rest @ ..] => without_zeros(rest),
        _ if has_pairs(0) || has_pairs(1) => without_zeros(bytes),
        _ => bytes.into(),
    }
}

/// Whether a line of the text begins a private key or is an age identity, or the text is a PuTTY key.
fn contains_private_key(text: &[u8]) -> bool {
    // Search for `PRIVATE KEY` first: each line that begins a key contains it, and few files do.
    let marks = memmem::find_iter(text, b"PRIVATE KEY").filter(|at| is_key_header(line_around(text, *at)));
    let identities = memmem::find_iter(text, b"AGE-SECRET-KEY-")
        .filter(|at| line_around(text, *at).starts_with(b"AGE-SECRET-KEY-"));
    text.trim_ascii_start().starts_with(b"PuTTY-User-Key-File-") || marks.chain(identities).next().is_some()
}

/// Whether a line begins a private key, such as `-----BEGIN RSA PRIVATE KEY-----`.
fn is_key_header(line: &[u8]) -> bool {
    let dashes = line.iter().take_while(|byte| **byte == b'-').count();
    let rest = line[dashes..].trim_ascii_start();
    let label = rest.strip_prefix(b"BEGIN ").and_then(|rest| rest.split(|byte| *byte == b'-').next());
    dashes >= 4 && label.is_some_and(|label| memmem::find(label, b"PRIVATE KEY").is_some())
}

/// Minimum length of a key in Base64. Examples in texts are shorter.
const MIN_KEY: usize = 20;

/// Whether the text begins with at least [`MIN_KEY`] characters of Base64, in the standard or the URL-safe
/// alphabet, after white space and escaped line ends.
fn starts_with_base64(mut text: &[u8]) -> bool {
    loop {
        text = text.trim_ascii_start();
        match text {
            [b'\\', b'n' | b'r', rest @ ..] => text = rest,
            _ => break,
        }
    }
    text.iter().take_while(|byte| is_base64(**byte)).count() >= MIN_KEY
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Whether the text has a private key as a value: in PEM after a quote, `=` or `:`, followed by Base64, or
/// PEM in Base64.
fn contains_quoted_key(text: &[u8]) -> bool {
    let is_value = |at: usize| {
        let before = text[..at].trim_ascii_end();
        let before = &before[..before.len() - before.iter().rev().take_while(|byte| **byte == b'-').count()];
        let starts = before.trim_ascii_end().last().is_some_and(|last| b"\"'`=:".contains(last));
        let label = &text[at + 5..text.len().min(at + 80)];
        let Some(end) = memmem::find(label, b"-----") else { return false };
        let is_key = memmem::find(&label[..end], b"PRIVATE KEY").is_some();
        starts && is_key && starts_with_base64(&text[at + 5 + end..][5..])
    };
    let is_encoded = |at: usize| {
        let length = text[at..].iter().take(96).take_while(|byte| is_base64(**byte)).count();
        let decoded = STANDARD_NO_PAD.decode(&text[at..at + length / 4 * 4]);
        decoded.is_ok_and(|decoded| memmem::find(&decoded, b"PRIVATE KEY").is_some())
    };
    memmem::find_iter(text, b"BEGIN").any(is_value)
        // The Base64 of `-----BEGIN `.
        || memmem::find_iter(text, b"LS0tLS1CRUdJTi").any(is_encoded)
}

/// Whether the text has a private key in another format than PEM: of WireGuard, DNSSEC, minisign, an ACME
/// account or a JSON Web Key (RFC 7517).
fn is_key_record(text: &[u8]) -> bool {
    let after = |at: usize, mark: &[u8], separator: u8| {
        let rest = text[at + mark.len()..].trim_ascii_start().strip_prefix(&[separator])?;
        Some(rest.trim_ascii_start())
    };
    let has_member = |name: &[u8]| {
        memmem::find_iter(text, name).any(|at| {
            let value = after(at, name, b':').and_then(|value| value.strip_prefix(b"\""));
            value.is_some_and(starts_with_base64)
        })
    };
    let is_wireguard_key = |at: usize| {
        let is_line = line_around(text, at).starts_with(b"PrivateKey");
        let key = after(at, b"PrivateKey", b'=').unwrap_or_default();
        is_line && key.iter().take_while(|byte| is_base64(**byte)).count() == 43 && key.get(43) == Some(&b'=')
    };
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.starts_with(b"Private-key-format:")
        || (first.starts_with(b"untrusted comment:") && memmem::find(first, b"secret key").is_some())
        || has_member(b"\"key_pkcs8\"")
        || (memmem::find(text, b"\"kty\"").is_some() && has_member(b"\"d\""))
        || memmem::find_iter(text, b"PrivateKey").any(is_wireguard_key)
}

/// Whether the text has at least two of the `TABLES`, which a `frontdesk.toml` may have.
fn is_configuration(text: &[u8]) -> bool {
    #[rustfmt::skip]
    const TABLES: [&[u8]; 8] = [
        b"[[channel]]", b"[content_signals]", b"[digest]", b"[inbox]", b"[limits]", b"[operator]", b"[screening]", b"[store]",
    ];
    let is_table =
        |table: &&&[u8]| memmem::find_iter(text, **table).any(|at| line_around(text, at).starts_with(table));
    text.contains(&b'[') && TABLES.iter().filter(is_table).count() >= 2
}

/// The line that contains the byte at `at`, without leading and trailing white space.
fn line_around(text: &[u8], at: usize) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let start = text[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
    let end = text[at..].iter().position(is_end).map_or(text.len(), |end| at + end);
    text[start..end].trim_ascii()
}

/// Whether the text is a dump by PostgreSQL, MySQL, MariaDB, phpMyAdmin, Adminer or the shell of SQLite.
/// Looks only at the first 200 bytes.
fn is_dump(text: &[u8]) -> bool {
    const MARKS: [&[u8]; 6] = [
        b"-- Adminer ",
        b"-- phpMyAdmin SQL Dump",
        b"-- PostgreSQL database",
        b"-- MySQL dump",
        b"-- MariaDB dump",
        b"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;",
    ];
    let start = &text[..text.len().min(200)];
    text.starts_with(b"PGDMP") || MARKS.iter().any(|mark| memmem::find(start, mark).is_some())
}

/// Whether the text begins as an export of submissions does: with its first four columns as CSV, or with the
/// first four members of a submission as JSON. Ignores what spreadsheets and other programs change when they
/// save such a file: separators, quotes and white space. Other tables do not have these columns in this
/// order. Looks only at the first 400 bytes.
fn is_export(text: &[u8]) -> bool {
    let start = text[..text.len().min(400)].trim_ascii_start();
    let line = start.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    let columns = line.split(|byte| matches!(byte, b',' | b';' | b'\t'));
    let columns = columns.map(|column| without_quotes(column.trim_ascii()));
    if columns.take(EXPORT_COLUMNS.len()).eq(EXPORT_COLUMNS.iter().map(|column| column.as_bytes())) {
        return true;
    }
    let compact: Vec<u8> = start.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let mut rest = compact.strip_prefix(b"[").unwrap_or(&compact);
    EXPORT_COLUMNS.iter().zip(["{", ",", ",", ","]).all(|(name, before)| {
        let member = format!("{before}\"{name}\":\"");
        // Skip the value, which ends at the next quote: values of `EXPORT_COLUMNS` contain no quotes.
        let after = rest.strip_prefix(member.as_bytes());
        let value =
            after.and_then(|after| after.iter().position(|byte| *byte == b'"').map(|at| &after[at + 1..]));
        rest = value.unwrap_or_default();
        value.is_some()
    })
}

fn without_quotes(column: &[u8]) -> &[u8] {
    column.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_named_like_an_inbox_is_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("inbox.sqlite");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        assert!(!is_inbox(&pipe));
    }

    #[test]
    fn private_keys_are_recognized_at_the_beginning_of_a_line() {
        let key = Some(ContentMark::PrivateKey);
        let name = Some(ContentMark::KeyName);
        for (name, text, expected) in [
            ("a.pem", "-----BEGIN PRIVATE KEY-----\nMIIE\n", key),
            ("a.pem", "-----BEGIN RSA PRIVATE KEY-----\r\nMIIE\r\n", key),
            ("a.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n", key),
            ("a.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", None),
            (
                "a.pem",
                "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n",
                key,
            ),
            ("a.pem", "-----BEGIN PUBLIC KEY-----\nMIIB\n", None),
            ("a.txt", "\u{feff}-----BEGIN PRIVATE KEY-----\n", key),
            ("a.txt", "\n\n \t-----BEGIN OPENSSH PRIVATE KEY-----\n", key),
            ("a.txt", "Bag Attributes\r  -----BEGIN PRIVATE KEY-----\r", key),
            ("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n", key),
            ("a.asc", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ\n", key),
            ("a.asc", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n", None),
            ("a", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n", key),
            ("a", "PuTTY-User-Key-File-3: ssh-ed25519\n", key),
            ("a", "# created: 2026-01-15\n# public key: age1x\nAGE-SECRET-KEY-1QQ\n", key),
            ("a", "The identity AGE-SECRET-KEY-1QQ is an example.\n", None),
            ("a.js", "const begin = \"-----BEGIN PRIVATE KEY-----\";\n", None),
            ("a.json", "{\"content\":\"-----BEGIN PRIVATE KEY-----\\nMIIE\"}\n", None),
            ("a.txt", "A key has the line -----BEGIN PRIVATE KEY-----.\n", None),
            ("a.txt", "-----BEGIN\nPRIVATE KEY-----\n", None),
            // Documentation shows examples.
            ("a.html", "<pre>\n-----BEGIN PRIVATE KEY-----\n", None),
            ("a.HTML", "<pre>\n-----BEGIN PRIVATE KEY-----\n", None),
            ("a.md", "-----BEGIN PRIVATE KEY-----\n", None),
            ("ssl.rst.txt", "-----BEGIN PRIVATE KEY-----\n", None),
            ("llms-full.txt", "-----BEGIN PRIVATE KEY-----\n", None),
            ("feed.xml", "-----BEGIN PRIVATE KEY-----\n", None),
            // A binary key, and a presentation.
            ("a.key", "\u{1}\u{2}", name),
            ("a.KEY", "", name),
            ("a.key", "any text", name),
            ("repo.key", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ\n", None),
            ("jwt.key", "-----BEGIN PUBLIC KEY-----\nMII\n", None),
            ("jwt.key", "-----BEGIN PUBLIC KEY-----\nMII\n-----BEGIN PRIVATE KEY-----\nMII\n", key),
            ("host.key", "ssh-ed25519 AAAAC3Nz a@b\n", None),
            ("minisign.key", "untrusted comment: minisign public key 3A\nRWQ\n", None),
            ("a.key", "AAAA ssh-ed25519", name),
            ("a.key", "PK\u{3}\u{4}", None),
            ("a.txt", "", None),
        ] {
            assert_eq!(examine(name, text.as_bytes()), expected, "{name}: {text:?}");
        }
        let utf_16 = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        assert_eq!(examine("a.txt", &utf_16("\u{feff}-----BEGIN PRIVATE KEY-----\r\n")), key);
        let large = [&b"x\n".repeat(1 << 20)[..], b"-----BEGIN PRIVATE KEY-----\n"].concat();
        assert_eq!(examine("a.txt", &large), key, "the key may be anywhere");
    }

    #[test]
    fn keyrings_are_public_without_private_keys() {
        for (packets, is_public) in [
            (&[0x98, 2, 4, 0, 0xb4, 1, b'a'][..], true),
            (&[0x99, 0, 2, 4, 0, 0xcd, 1, b'a', 0xb9, 0, 1, 4], true),
            (&[0xc6, 192, 0].into_iter().chain([4; 192]).collect::<Vec<u8>>(), true),
            // A private key, alone, after the public one, and as a subkey.
            (&[0x94, 2, 4, 0], false),
            (&[0x98, 2, 4, 0, 0x95, 0, 1, 4], false),
            (&[0x98, 2, 4, 0, 0xc7, 1, 4], false),
            // The packets end early, or their lengths are not known.
            (&[0x98, 3, 4, 0], false),
            (&[0x99, 0], false),
            (&[0x9b, 4], false),
            (&[0xc6, 255, 0, 0, 0, 1, 4], false),
            (&[0xb4, 1, b'a'], false),
        ] {
            let expected = if is_public { None } else { Some(ContentMark::KeyName) };
            assert_eq!(examine("a.key", packets), expected, "{packets:?}");
        }
    }

    #[test]
    fn private_keys_are_recognized_as_values() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj";
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        let escaped = pem.replace('\n', "\\n");
        let encoded = base64::engine::general_purpose::STANDARD.encode(&pem);
        let certificate =
            base64::engine::general_purpose::STANDARD.encode(pem.replace("PRIVATE KEY", "CERTIFICATE"));
        let peer = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";
        let key = Some(ContentMark::PrivateKey);
        for (name, text, expected) in [
            ("account.json", format!("{{\n  \"private_key\": \"{escaped}\"\n}}"), key),
            ("settings.txt", format!("KEY=\"{pem}\""), key),
            ("settings.txt", format!("KEY='{escaped}'"), key),
            ("settings.txt", format!("KEY={escaped}"), key),
            ("inline.yml", format!("foo: {pem}"), key),
            ("secret.yaml", format!("data:\n  tls.key: {encoded}\n"), key),
            ("secret.yaml", format!("data:\n  tls.crt: {certificate}\n"), None),
            ("account.json", format!("{{\"id\":\"x\",\"key_pkcs8\":\"{body}\"}}"), key),
            ("jwk.json", format!("{{\"kty\":\"EC\",\"x\":\"{body}\",\"d\": \"{body}\"}}"), key),
            ("jwk.json", format!("{{\"kty\":\"EC\",\"x\":\"{body}\"}}"), None),
            ("data.json", format!("{{\"d\":\"{body}\"}}"), None),
            ("wg0.conf", format!("[Interface]\nPrivateKey = {peer}\n"), key),
            ("wg0.conf", format!("[Peer]\nPublicKey = {peer}\n"), None),
            ("wg0.conf", "[Interface]\nPrivateKey = ...\n".to_owned(), None),
            ("Kexample.private", "Private-key-format: v1.3\nAlgorithm: 13\n".to_owned(), key),
            ("minisign.txt", format!("untrusted comment: minisign encrypted secret key\n{body}"), key),
            ("minisign.txt", format!("untrusted comment: minisign public key\n{body}"), None),
            // An example in a search index, a text about keys, and programs.
            ("index.json", format!("{{\"text\":\"Write {escaped}\"}}"), None),
            ("index.json", "{\"text\":\"-----BEGIN PRIVATE KEY-----\\nMIIE...\"}".to_owned(), None),
            ("a.txt", format!("The line {escaped} begins a key."), None),
            ("jose.js", format!("const example = \"{escaped}\";"), None),
            ("jose.js.map", format!("{{\"sourcesContent\":[\"{escaped}\"]}}"), None),
            ("keys.md", format!("KEY=\"{escaped}\""), None),
        ] {
            assert_eq!(examine(name, text.as_bytes()), expected, "{name}: {text}");
        }
        let utf_16 =
            |encode: fn(u16) -> [u8; 2]| -> Vec<u8> { pem.encode_utf16().flat_map(encode).collect() };
        assert_eq!(examine("a.txt", &utf_16(u16::to_le_bytes)), key);
        assert_eq!(examine("a.txt", &utf_16(u16::to_be_bytes)), key);
    }

    #[test]
    fn configurations_are_recognized_by_their_tables() {
        let text = "[operator]\nname = \"Acme\"\n\n[[channel]]\nkind = \"smtp\"\npassword = \"x\"\n";
        for (name, text, expected) in [
            ("old.toml", text, true),
            ("config", text, true),
            ("setup.md", text, false),
            ("other.toml", "[operator]\nname = \"Acme\"\n", false),
            ("other.toml", "# [operator] and [store]\n", false),
        ] {
            let expected = expected.then_some(ContentMark::Configuration);
            assert_eq!(examine(name, text.as_bytes()), expected, "{name}: {text}");
        }
    }

    #[test]
    fn databases_and_dumps_are_recognized_by_their_first_bytes() {
        let mut inbox = b"SQLite format 3\0".to_vec();
        inbox.resize(100, 0);
        let other = inbox.clone();
        inbox[68..72].copy_from_slice(INBOX_ID);
        let index = [&3_007_000_u32.to_le_bytes()[..], &[1; 44]].concat().repeat(2);
        for (bytes, expected) in [
            (&inbox[..], Some(ContentMark::Inbox)),
            (&other, Some(ContentMark::Database)),
            (b"SQLite format 3\0", Some(ContentMark::Database)),
            (b"SQLite format 3 is described here", None),
            (b"\x37\x7f\x06\x82\0\x2d\xe2\x18", Some(ContentMark::Log)),
            (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7\0", Some(ContentMark::Log)),
            (&index, Some(ContentMark::Log)),
            (&index[..50], None),
            (b"-- phpMyAdmin SQL Dump\n-- version 5.2\n", Some(ContentMark::Dump)),
            (b"-- Adminer 4.8.1 MySQL 8.0 dump\n", Some(ContentMark::Dump)),
            (b"PGDMP\x01\x0e", Some(ContentMark::Dump)),
            (b"--\n-- PostgreSQL database dump\n--\n", Some(ContentMark::Dump)),
            (b"-- MySQL dump 10.13", Some(ContentMark::Dump)),
            (b"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n", Some(ContentMark::Dump)),
            (b"CREATE TABLE kiln (id INTEGER);\n", None),
        ] {
            assert_eq!(examine("a.html.bin", bytes), expected, "{bytes:?}");
        }
        assert_eq!(examine("a.html", &inbox), Some(ContentMark::Inbox), "a database is no document");
    }

    #[test]
    fn exports_are_recognized_and_other_tables_are_not() {
        let id = "019a0000-0000-7000-8000-000000000000";
        let json = format!(
            "{{\"id\":\"{id}\",\"form\":\"contact\",\"received_at\":\"2026-01-15T08:00:00Z\",\"status\":\"stored\",\"name\":\"Ada\"}}\n"
        );
        let spaced = json.replace("\":\"", "\": \"").replace(",\"", ",\n  \"");
        for (text, expected) in [
            ("id,form,received_at,status,email,name\r\n", true),
            ("\u{feff}\"id\";\"form\";\"received_at\";\"status\";\"email\"\n", true),
            ("id\tform\treceived_at\tstatus\temail\n", true),
            (&json, true),
            (&spaced, true),
            (&format!("[\n{spaced},\n{spaced}]"), true),
            ("id,form,received_at\r\n", false),
            ("id,form,date,status,email\r\n", false),
            ("name,email\r\nid,form,received_at,status\r\n", false),
            ("{\"id\":\"1\",\"form\":\"contact\"}\n", false),
            ("{\"id\":1,\"form\":\"a\",\"received_at\":\"b\",\"status\":\"c\"}\n", false),
            ("{\"form\":\"contact\",\"id\":\"1\",\"received_at\":\"b\",\"status\":\"c\"}\n", false),
            ("", false),
        ] {
            let expected = expected.then_some(ContentMark::Export);
            assert_eq!(examine("a.csv", text.as_bytes()), expected, "{text}");
        }
    }
}
