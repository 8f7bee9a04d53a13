//! Encrypts data to the operator's age key, so that the server cannot decrypt the data that it stores.
//!
//! The format is age v1, binary, with one X25519 recipient (<https://age-encryption.org/v1>). The `age` tool
//! decrypts what [`Recipient::encrypt`] encrypts, and [`AgeIdentity::decrypt`] decrypts what the tool
//! encrypts. ASCII armor, passphrases, plugins and SSH keys are not supported.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret as _, ExposeSecretMut as _, SecretBox};

pub use format::EncryptionError;
use x25519::{PrivateKey, PublicKey};

mod format;
mod x25519;

/// Maximum length in bytes of a plaintext that can be encrypted or decrypted.
pub const MAX_PLAIN_BYTES: usize = 1 << 20;
/// Prevents reading a large file that was named by mistake. A real identity file has only a few lines.
const MAX_IDENTITY_FILE_BYTES: usize = 64 << 10;

const EXPECTED: &str = "the public key that `age-keygen` prints: \"age1\" and 58 more characters";

/// A public key. The matching [`AgeIdentity`] decrypts data that is encrypted to it.
#[derive(Clone)]
pub struct Recipient(PublicKey);

impl Recipient {
    /// Parses an X25519 recipient, `age1…`. Refuses surrounding white space, and keys to which nothing can be
    /// encrypted. Errors do not quote the input, which may be a secret.
    pub fn parse(text: &str) -> Result<Recipient, String> {
        let upper = text.trim().to_ascii_uppercase();
        let problem = if upper.contains("AGE-SECRET-KEY-") {
            "this is the secret half, which must not be on the server; `age-keygen -y FILE` prints the public one"
        } else if upper.contains("AGE-PLUGIN-") {
            "this is the secret half of a plugin's key; it must not be on the server, and plugins are not supported"
        } else if upper.starts_with("SSH-") {
            "SSH keys are not supported"
        } else if upper.strip_prefix("AGE1").is_some_and(|rest| rest.contains('1')) {
            // The prefixes of other recipient types contain a `1`; the data after `age1` never does.
            "other kinds of recipients, such as those of plugins, are not supported"
        } else {
            match PublicKey::parse(text) {
                Some(key) if key.is_usable() => return Ok(Recipient(key)),
                Some(_) => "this one is invalid: nothing can be encrypted to it",
                None if upper.starts_with("AGE1") => "a character is wrong, missing or added",
                None => return Err(EXPECTED.to_owned()),
            }
        };
        Err(format!("{EXPECTED} ({problem})"))
    }

    /// Encrypts up to [`MAX_PLAIN_BYTES`]; fails if `plain` is longer. The result is 200 bytes longer than
    /// `plain`, plus 16 bytes for each further chunk of up to 64 KiB.
    pub fn encrypt(&self, plain: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        if plain.len() > MAX_PLAIN_BYTES {
            return Err(EncryptionError::TooLarge);
        }
        format::encrypt(&self.0, plain).map_err(|_| EncryptionError::Failed)
    }
}

/// Omits the key, so that no log names the recipient.
impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipient").finish_non_exhaustive()
    }
}

/// Why an identity file cannot be used. No variant contains any of the file's content.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot read {}: {error}", path.display())]
    Io { path: PathBuf, error: Arc<io::Error> },
    #[error("{} {problem}", path.display())]
    File { path: PathBuf, problem: &'static str },
    /// The line number starts at 1.
    #[error("{}:{line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: &'static str },
}

/// The private keys of an identity file; at least one.
pub struct AgeIdentity(Vec<PrivateKey>);

impl AgeIdentity {
    /// Reads an identity file from `age-keygen`: comments, and one or more `AGE-SECRET-KEY-1…` lines. Fails
    /// if any other line is not blank, or if the file is longer than 64 KiB.
    pub fn read(path: &Path) -> Result<AgeIdentity, IdentityError> {
        let io = |error| IdentityError::Io { path: path.to_owned(), error: Arc::new(error) };
        // With this capacity, no reallocation leaves a copy of the secret behind.
        let mut text = SecretBox::new(Box::new(Vec::with_capacity(MAX_IDENTITY_FILE_BYTES + 2)));
        let most = MAX_IDENTITY_FILE_BYTES as u64 + 1;
        File::open(path)
            .and_then(|file| file.take(most).read_to_end(text.expose_secret_mut()))
            .map_err(io)?;
        parse_identities(path, text.expose_secret())
    }

    /// Decrypts with the first key that matches. Fails with [`EncryptionError::TooLarge`] if the text is
    /// longer than [`MAX_PLAIN_BYTES`], which only another program can have encrypted.
    pub fn decrypt(&self, sealed: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        format::decrypt(&self.0, sealed, MAX_PLAIN_BYTES)
    }
}

impl fmt::Debug for AgeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgeIdentity").finish_non_exhaustive()
    }
}

/// Parses the content of an identity file; see [`AgeIdentity::read`]. `path` appears only in errors, which do
/// not quote the content.
fn parse_identities(path: &Path, text: &[u8]) -> Result<AgeIdentity, IdentityError> {
    let unusable = |problem| Err(IdentityError::File { path: path.to_owned(), problem });
    if text.len() > MAX_IDENTITY_FILE_BYTES {
        return unusable("is too large to be an identity file (more than 64 KiB)");
    }
    // Skip the byte order mark that editors on Windows write.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.starts_with(b"age-encryption.org/") || text.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----") {
        return unusable(
            "is itself encrypted, for example with a passphrase; decrypt it first with `age -d`",
        );
    }
    if text.starts_with(b"-----BEGIN ") {
        return unusable("is an SSH key or another PEM file; only keys from `age-keygen` are supported");
    }
    let mut identities = Vec::new();
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let identity = std::str::from_utf8(text).ok().and_then(PrivateKey::parse);
        identities.push(identity.ok_or_else(|| IdentityError::Line {
            path: path.to_owned(),
            line,
            problem: explain_invalid_line(text),
        })?);
    }
    if identities.is_empty() {
        return unusable("contains no identity; name the file that `age-keygen -o FILE` has written");
    }
    Ok(AgeIdentity(identities))
}

/// Explains what is wrong with a line that is not an X25519 identity. Does not quote the line, which may be a
/// secret.
fn explain_invalid_line(line: &[u8]) -> &'static str {
    if line.starts_with(b"AGE-PLUGIN-") {
        "the identity needs an age plugin; only keys from `age-keygen` are supported"
    } else if line.starts_with(b"age1") {
        "this is a public key; decryption needs the secret half, AGE-SECRET-KEY-1…"
    } else {
        "this is not an identity, or not a complete one: AGE-SECRET-KEY-1 and 58 more characters"
    }
}

#[cfg(any(test, feature = "testing"))]
pub use x25519::generate_key_texts;

#[cfg(test)]
mod tests {
    use super::*;

    /// The points of low order on Curve25519 (RFC 7748, section 6.1), each with and without its highest bit,
    /// which is ignored.
    pub(super) const LOW_ORDER: [&str; 14] = [
        "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq5cu47z",
        "age1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqzqqsuwj9m",
        "age1qyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqj7vrya",
        "age1qyqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqzqqk67yly",
        "age1anlllllllllllllllllllllllllllllllllllllllllllllllals4n2t7m",
        "age1anllllllllllllllllllllllllllllllllllllllllllllllllls3hcv9z",
        "age1ahlllllllllllllllllllllllllllllllllllllllllllllllalsn46ayy",
        "age1ahlllllllllllllllllllllllllllllllllllllllllllllllllsh3g6la",
        "age1amlllllllllllllllllllllllllllllllllllllllllllllllalselrwrv",
        "age1amlllllllllllllllllllllllllllllllllllllllllllllllllsam3fc4",
        "age1ur4h5lpmgxu2u9jku0a0r87ydtdqnr0tnsetrlvxvgz3vh6fhqqqzyt4v9",
        "age1ur4h5lpmgxu2u9jku0a0r87ydtdqnr0tnsetrlvxvgz3vh6fhzqqxqejhu",
        "age1t7wft09r2zxzfvwsk92eeql0tvzyghxytqwgapkcyf8dm5ylz9ts6wm9s8",
        "age1t7wft09r2zxzfvwsk92eeql0tvzyghxytqwgapkcyf8dm5ylz8ts72fzt7",
    ];

    #[test]
    fn decryption_reverses_encryption() {
        let (recipient, identity) = pair();
        for plain in
            [String::new(), "x".to_owned(), "Grüße 😀\n".repeat(20), "y".repeat(65_536), "z".repeat(200_000)]
        {
            let plain = plain.as_bytes();
            let sealed = recipient.encrypt(plain).unwrap();
            if let Some(first) = plain.get(..8) {
                assert!(!sealed.windows(8).any(|eight| eight == first));
            }
            assert_eq!(identity.decrypt(&sealed).unwrap(), plain);
        }
    }

    #[test]
    fn encrypting_a_text_twice_gives_different_results() {
        let (recipient, _) = pair();
        assert_ne!(recipient.encrypt(b"the same").unwrap(), recipient.encrypt(b"the same").unwrap());
    }

    #[test]
    fn overhead_is_200_bytes_and_16_more_per_further_chunk() {
        let (recipient, _) = pair();
        for (plain, chunks) in [(0, 1), (1, 1), (300, 1), (65_536, 1), (65_537, 2), (1 << 20, 16)] {
            let overhead = recipient.encrypt(&vec![1; plain]).unwrap().len() - plain;
            assert_eq!(overhead, 200 + 16 * (chunks - 1), "{plain}");
        }
    }

    #[test]
    fn texts_above_one_mebibyte_are_refused() {
        let (recipient, identity) = pair();
        let most = vec![1; MAX_PLAIN_BYTES];
        assert_eq!(identity.decrypt(&recipient.encrypt(&most).unwrap()).unwrap(), most);
        let more = vec![1; MAX_PLAIN_BYTES + 1];
        assert_eq!(recipient.encrypt(&more), Err(EncryptionError::TooLarge));
        // Another program may encrypt a longer text, as `format::encrypt` does.
        let sealed = format::encrypt(&recipient.0, &more).unwrap();
        assert_eq!(identity.decrypt(&sealed), Err(EncryptionError::TooLarge));
    }

    #[test]
    fn a_change_of_any_byte_is_refused() {
        let (recipient, identity) = pair();
        let sealed = recipient.encrypt(b"Hello").unwrap();
        let share = sealed.iter().position(|byte| *byte == b'\n').unwrap();
        let mac = sealed.windows(4).position(|four| four == b"\n---").unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            let error = identity.decrypt(&changed).expect_err(&format!("byte {at} was changed"));
            // Only a change to the line with the encrypted file key looks like a wrong key.
            let is_key_line = (share..mac).contains(&at);
            assert!(
                error == EncryptionError::Damaged || (is_key_line && error == EncryptionError::WrongKey),
                "{at}: {error}"
            );
        }
        for length in 0..sealed.len() {
            assert_eq!(
                identity.decrypt(&sealed[..length]),
                Err(EncryptionError::Damaged),
                "{length} bytes are left"
            );
        }
        let mut longer = sealed.clone();
        longer.push(0);
        assert_eq!(identity.decrypt(&longer), Err(EncryptionError::Damaged));
    }

    #[test]
    fn a_text_that_lost_a_whole_chunk_is_refused() {
        let (recipient, identity) = pair();
        let sealed = recipient.encrypt(&vec![1; 3 * 65_536]).unwrap();
        let chunk = 65_536 + 16;
        let header = sealed.len() - 3 * chunk;
        assert_eq!(identity.decrypt(&sealed[..sealed.len() - chunk]), Err(EncryptionError::Damaged));
        let swapped = [
            &sealed[..header],
            &sealed[header + chunk..header + 2 * chunk],
            &sealed[header..header + chunk],
            &sealed[header + 2 * chunk..],
        ]
        .concat();
        assert_eq!(identity.decrypt(&swapped), Err(EncryptionError::Damaged));
    }

    #[test]
    fn a_wrong_key_and_damage_are_different_errors() {
        let (recipient, _) = pair();
        let (_, other) = pair();
        let sealed = recipient.encrypt(b"Hello").unwrap();
        assert_eq!(other.decrypt(&sealed), Err(EncryptionError::WrongKey));
        assert_eq!(other.decrypt(b"no age file"), Err(EncryptionError::Damaged));
        assert_eq!(other.decrypt(b""), Err(EncryptionError::Damaged));
    }

    #[test]
    fn any_of_several_identities_decrypts() {
        let keys: Vec<_> = (0..3).map(|_| generate_key_texts()).collect();
        let text: String = keys.iter().map(|(secret, _)| format!("# one of them\n{secret}\n")).collect();
        let identity = parse_identities(Path::new("keys.txt"), text.as_bytes()).unwrap();
        for (_, public) in &keys {
            let sealed = Recipient::parse(public).unwrap().encrypt(b"Hello").unwrap();
            assert_eq!(identity.decrypt(&sealed).unwrap(), b"Hello");
        }
    }

    #[test]
    fn an_invalid_recipient_is_refused_with_what_is_expected() {
        let check = |text: &str, words: &str| {
            let error = Recipient::parse(text).expect_err(text);
            assert!(error.starts_with(EXPECTED) && error.contains(words), "{text}: {error}");
            assert!(text.len() < 8 || !error.contains(text), "{error}");
        };
        let (secret, public) = generate_key_texts();
        assert_eq!(public.len(), "age1".len() + 58);
        assert!(Recipient::parse(&public).is_ok());
        check("", "");
        check("me@example.com", "");
        check(&secret, "the secret half, which must not be on the server");
        check(&secret.to_lowercase(), "the secret half");
        check(&format!(" {secret}"), "the secret half");
        check("AGE-PLUGIN-YUBIKEY-1QQQQQQQ", "the secret half");
        check("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFh1", "SSH keys are not supported");
        check("age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t", "plugins");
        check(&public[..40], "a character is wrong, missing or added");
        let (rest, last) = public.split_at(public.len() - 1);
        let other = if last == "q" { "p" } else { "q" };
        check(&format!("{rest}{other}"), "a character is wrong, missing or added");
    }

    #[test]
    fn keys_of_low_order_are_refused() {
        for text in LOW_ORDER {
            let error = Recipient::parse(text).expect_err(text);
            assert!(error.contains("nothing can be encrypted to it"), "{error}");
        }
    }

    #[test]
    fn an_invalid_identity_file_is_refused_with_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.txt");
        let check = |text: &str, words: &str| {
            std::fs::write(&path, text).unwrap();
            let error = AgeIdentity::read(&path).expect_err(text).to_string();
            assert!(error.contains("key.txt") && error.contains(words), "{text}: {error}");
        };
        let (secret, public) = generate_key_texts();
        check("", "contains no identity");
        check("# created by hand\n\n", "contains no identity");
        check(&format!("# public\n{public}\n"), "key.txt:2: this is a public key");
        check("AGE-PLUGIN-YUBIKEY-1QQQQQQQ\n", "key.txt:1: the identity needs an age plugin");
        check("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n", "is an SSH key");
        check("-----BEGIN AGE ENCRYPTED FILE-----\nYWdlLWVuY3J5cHRpb24\n", "is itself encrypted");
        check("age-encryption.org/v1\n-> scrypt 4SXWcOsxdOZ3p2Io0Iq9BA 18\n", "is itself encrypted");
        check(&format!("{secret}\n{}\n", &secret[..60]), "key.txt:2: this is not an identity");
        for mark in ["", "\u{feff}"] {
            check(&format!("{mark}{}", "#".repeat(MAX_IDENTITY_FILE_BYTES + 1)), "is too large");
        }
        let error = AgeIdentity::read(&folder.path().join("nowhere")).unwrap_err();
        assert!(matches!(error, IdentityError::Io { .. }), "{error}");
    }

    #[test]
    fn an_identity_file_may_come_from_any_system() {
        let (secret, public) = generate_key_texts();
        let text = format!("\u{feff}# comment\r\n{secret}\r\n");
        let identity = parse_identities(Path::new("key.txt"), text.as_bytes()).unwrap();
        assert_eq!(
            identity.decrypt(&Recipient::parse(&public).unwrap().encrypt(b"x").unwrap()).unwrap(),
            b"x"
        );
    }

    #[test]
    fn no_key_is_shown() {
        let (recipient, identity) = pair();
        assert_eq!(format!("{recipient:?} {identity:?}"), "Recipient { .. } AgeIdentity { .. }");
    }

    fn pair() -> (Recipient, AgeIdentity) {
        let (secret, public) = generate_key_texts();
        (Recipient::parse(&public).unwrap(), AgeIdentity(vec![PrivateKey::parse(&secret).unwrap()]))
    }
}
