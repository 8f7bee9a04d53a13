//! Seals text to the operator's age key, so that this machine keeps what only another one can read.
//!
//! The format is age's own, version 1, binary (<https://age-encryption.org/v1>), to one X25519 recipient: the `age` tool
//! opens what is sealed here, and what it sealed is opened here. Nothing here is ASCII armour, a passphrase, a plugin or an SSH key.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use age::secrecy::{ExposeSecret as _, ExposeSecretMut as _, SecretBox};
use age::{DecryptError, Decryptor, x25519};

/// The most that is sealed or opened in one piece, in bytes.
pub const MAX_PLAIN_BYTES: usize = 1 << 20;
/// An identity file is a handful of lines; who names another file by mistake should not wait for it to be read.
const MAX_IDENTITY_FILE_BYTES: usize = 64 << 10;

/// What [`Recipient::parse`] expects.
const EXPECTED: &str = "the public key that `age-keygen` prints: \"age1\" and 58 more characters";

/// The points of low order on Curve25519 (RFC 7748, section 6.1), each with and without its ignored highest bit. They are well-formed
/// keys, but nothing can be sealed to them, and the age library ends the program that tries.
const LOW_ORDER: [&str; 14] = [
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

/// Why something could not be sealed or opened. No variant carries any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It has, or would have, more than [`MAX_PLAIN_BYTES`].
    #[error("a sealed text may have 1 MiB at most")]
    TooLarge,
    /// None of the identities fits. What was damaged in the very line that carries the key looks the same.
    #[error("it was sealed to another key")]
    WrongKey,
    /// It was changed or cut short, or is no age file in the binary format.
    #[error("the sealed text is damaged")]
    Damaged,
    /// The age library would not seal; there is no case of this that is known.
    #[error("the text could not be sealed")]
    Failed,
}

/// The public half of a key: who holds the other half can open what was sealed to it.
#[derive(Clone)]
pub struct Recipient(x25519::Recipient);

impl Recipient {
    /// Reads an X25519 recipient, `age1…`. The error says what it must be instead, and quotes nothing of what was given: that
    /// might be a secret.
    pub fn parse(text: &str) -> Result<Recipient, String> {
        let upper = text.trim().to_ascii_uppercase();
        if upper.contains("AGE-SECRET-KEY-") || upper.contains("AGE-PLUGIN-") {
            return Err(format!(
                "{EXPECTED} (this is the secret half, which must not be on the server; `age-keygen -y FILE` prints the public one)"
            ));
        }
        if upper.starts_with("SSH-") {
            return Err(format!("{EXPECTED} (SSH keys are not supported)"));
        }
        // Recipients of plugins and of later kinds are Bech32 as well, and their prefixes have a `1` of their own.
        if upper.strip_prefix("AGE1").is_some_and(|rest| rest.contains('1')) {
            return Err(format!(
                "{EXPECTED} (other kinds of recipients, such as those of plugins, are not supported)"
            ));
        }
        match text.parse::<x25519::Recipient>() {
            Ok(recipient) if LOW_ORDER.contains(&recipient.to_string().as_str()) => {
                Err(format!("{EXPECTED} (nothing can be sealed to this one)"))
            }
            Ok(recipient) => Ok(Recipient(recipient)),
            Err(_) if upper.starts_with("AGE1") => {
                Err(format!("{EXPECTED} (a character is wrong or missing)"))
            }
            Err(_) => Err(EXPECTED.to_owned()),
        }
    }

    /// Seals at most [`MAX_PLAIN_BYTES`]. The result is 200 to 400 bytes longer than `plain` (age adds something of random length), and
    /// 16 more for each 64 KiB beyond the first.
    pub fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, SealError> {
        if plain.len() > MAX_PLAIN_BYTES {
            return Err(SealError::TooLarge);
        }
        age::encrypt(&self.0, plain).map_err(|_| SealError::Failed)
    }
}

/// Without the key, so that no log tells who can read.
impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipient").finish_non_exhaustive()
    }
}

/// Why an identity file cannot be used. No variant carries anything of the file.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    /// It could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: Arc<io::Error>,
    },
    /// It is itself sealed, with a passphrase.
    #[error("{} is protected by a passphrase; open it first: `age -d`", .0.display())]
    Encrypted(PathBuf),
    /// It is a private key of SSH.
    #[error("{} is an SSH key; only the keys that `age-keygen` makes are supported", .0.display())]
    Ssh(PathBuf),
    /// It leads to a plugin, a hardware key for instance.
    #[error("{}:{line}: the identity needs a plugin of age; only the keys that `age-keygen` makes are supported", path.display())]
    Plugin {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// It holds the half that seals.
    #[error("{}:{line}: this is a public key; opening needs the secret half, AGE-SECRET-KEY-1…", path.display())]
    Public {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// A line is neither an identity nor a comment.
    #[error("{}:{line}: this is no identity; one is AGE-SECRET-KEY-1… as `age-keygen` writes it", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// There are only comments in it, or nothing.
    #[error("{} holds no identity; `age-keygen -o FILE` makes one", .0.display())]
    None(PathBuf),
    /// It has more than 64 KiB.
    #[error("{} is too large to be an identity file", .0.display())]
    TooLarge(PathBuf),
}

/// The secret halves of one or more keys.
pub struct Identity(Vec<x25519::Identity>);

impl Identity {
    /// Reads an identity file as `age-keygen` writes it: comments, and one or more lines `AGE-SECRET-KEY-1…`.
    pub fn read(path: &Path) -> Result<Identity, IdentityError> {
        let io = |error| IdentityError::Io { path: path.to_owned(), error: Arc::new(error) };
        // Never grows, so that no copy of the secret is left behind, and is wiped in the end.
        let mut text = SecretBox::new(Box::new(Vec::with_capacity(MAX_IDENTITY_FILE_BYTES + 2)));
        let most = MAX_IDENTITY_FILE_BYTES as u64 + 1;
        File::open(path)
            .and_then(|file| file.take(most).read_to_end(text.expose_secret_mut()))
            .map_err(io)?;
        parse(path, text.expose_secret())
    }

    /// Opens what was sealed to any of these keys.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let decryptor = Decryptor::new_buffered(sealed).map_err(|error| refusal(&error))?;
        let identities = self.0.iter().map(|identity| identity as &dyn age::Identity);
        let reader = decryptor.decrypt(identities).map_err(|error| refusal(&error))?;
        let mut plain = Vec::with_capacity(sealed.len().min(MAX_PLAIN_BYTES));
        let most = MAX_PLAIN_BYTES as u64 + 1;
        reader.take(most).read_to_end(&mut plain).map_err(|_| SealError::Damaged)?;
        if plain.len() > MAX_PLAIN_BYTES {
            return Err(SealError::TooLarge);
        }
        Ok(plain)
    }
}

/// Without the keys.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

fn refusal(error: &DecryptError) -> SealError {
    match error {
        DecryptError::NoMatchingKeys => SealError::WrongKey,
        _ => SealError::Damaged,
    }
}

fn parse(path: &Path, text: &[u8]) -> Result<Identity, IdentityError> {
    if text.len() > MAX_IDENTITY_FILE_BYTES {
        return Err(IdentityError::TooLarge(path.to_owned()));
    }
    if text.starts_with(b"age-encryption.org/") || text.starts_with(b"-----BEGIN AGE ENCRYPTED FILE-----") {
        return Err(IdentityError::Encrypted(path.to_owned()));
    }
    if text.starts_with(b"-----BEGIN ") {
        return Err(IdentityError::Ssh(path.to_owned()));
    }
    let mut identities = Vec::new();
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        let identity = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        identities.push(identity.ok_or_else(|| unsupported(path, line, text))?);
    }
    if identities.is_empty() {
        return Err(IdentityError::None(path.to_owned()));
    }
    Ok(Identity(identities))
}

/// What a line is that is no identity.
fn unsupported(path: &Path, line: usize, text: &[u8]) -> IdentityError {
    let path = path.to_owned();
    if text.starts_with(b"AGE-PLUGIN-") {
        IdentityError::Plugin { path, line }
    } else if text.starts_with(b"age1") {
        IdentityError::Public { path, line }
    } else {
        IdentityError::Unknown { path, line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_opened_again() {
        let (recipient, identity) = pair();
        for plain in
            [String::new(), "x".to_owned(), "Grüße 😀\n".repeat(20), "y".repeat(65_536), "z".repeat(200_000)]
        {
            let plain = plain.as_bytes();
            let sealed = recipient.seal(plain).unwrap();
            if let Some(first) = plain.get(..8) {
                assert!(!sealed.windows(8).any(|eight| eight == first));
            }
            assert_eq!(identity.open(&sealed).unwrap(), plain);
        }
    }

    #[test]
    fn the_same_text_never_looks_the_same_twice() {
        let (recipient, _) = pair();
        assert_ne!(recipient.seal(b"the same").unwrap(), recipient.seal(b"the same").unwrap());
    }

    #[test]
    fn a_sealed_text_is_a_few_hundred_bytes_longer_and_a_little_more_in_each_chunk() {
        let (recipient, _) = pair();
        for (plain, chunks) in [(0, 1), (1, 1), (300, 1), (65_536, 1), (65_537, 2), (1 << 20, 16)] {
            let more = recipient.seal(&vec![1; plain]).unwrap().len() - plain;
            assert!((200..=400).contains(&(more - 16 * (chunks - 1))), "{plain}: {more}");
        }
    }

    #[test]
    fn nothing_larger_than_a_mebibyte_is_sealed_or_opened() {
        let (recipient, identity) = pair();
        let most = vec![1; MAX_PLAIN_BYTES];
        assert_eq!(identity.open(&recipient.seal(&most).unwrap()).unwrap(), most);
        let more = vec![1; MAX_PLAIN_BYTES + 1];
        assert_eq!(recipient.seal(&more), Err(SealError::TooLarge));
        // Another program sealed it.
        let sealed = age::encrypt(&recipient.0, &more).unwrap();
        assert_eq!(identity.open(&sealed), Err(SealError::TooLarge));
    }

    #[test]
    fn a_change_of_any_byte_is_refused() {
        let (recipient, identity) = pair();
        let sealed = recipient.seal(b"Hello").unwrap();
        let share = sealed.iter().position(|byte| *byte == b'\n').unwrap();
        let mac = sealed.windows(4).position(|four| four == b"\n---").unwrap();
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            let error = identity.open(&changed).expect_err(&format!("byte {at} was changed"));
            // Only the line that carries the key can make it look like another's.
            let is_key_line = (share..mac).contains(&at);
            assert!(
                error == SealError::Damaged || (is_key_line && error == SealError::WrongKey),
                "{at}: {error}"
            );
        }
        for length in 0..sealed.len() {
            assert_eq!(identity.open(&sealed[..length]), Err(SealError::Damaged), "{length} bytes are left");
        }
        let mut longer = sealed.clone();
        longer.push(0);
        assert_eq!(identity.open(&longer), Err(SealError::Damaged));
    }

    #[test]
    fn a_text_that_lost_a_whole_chunk_is_refused() {
        let (recipient, identity) = pair();
        let sealed = recipient.seal(&vec![1; 3 * 65_536]).unwrap();
        let chunk = 65_536 + 16;
        let header = sealed.len() - 3 * chunk;
        assert_eq!(identity.open(&sealed[..sealed.len() - chunk]), Err(SealError::Damaged));
        let swapped = [
            &sealed[..header],
            &sealed[header + chunk..header + 2 * chunk],
            &sealed[header..header + chunk],
            &sealed[header + 2 * chunk..],
        ]
        .concat();
        assert_eq!(identity.open(&swapped), Err(SealError::Damaged));
    }

    #[test]
    fn another_key_is_told_from_damage() {
        let (recipient, _) = pair();
        let (_, other) = pair();
        let sealed = recipient.seal(b"Hello").unwrap();
        assert_eq!(other.open(&sealed), Err(SealError::WrongKey));
        assert_eq!(other.open(b"no age file"), Err(SealError::Damaged));
        assert_eq!(other.open(b""), Err(SealError::Damaged));
    }

    #[test]
    fn any_of_several_identities_opens() {
        let keys: Vec<_> = (0..3).map(|_| x25519::Identity::generate()).collect();
        let text: String =
            keys.iter().map(|key| format!("# one of them\n{}\n", key.to_string().expose_secret())).collect();
        let identity = parse(Path::new("keys.txt"), text.as_bytes()).unwrap();
        for key in &keys {
            assert_eq!(identity.open(&Recipient(key.to_public()).seal(b"Hello").unwrap()).unwrap(), b"Hello");
        }
    }

    #[test]
    fn what_is_no_recipient_is_refused_with_what_would_be_right() {
        let check = |text: &str, words: &str| {
            let error = Recipient::parse(text).expect_err(text);
            assert!(error.starts_with(EXPECTED) && error.contains(words), "{text}: {error}");
            assert!(text.len() < 8 || !error.contains(text), "{error}");
        };
        let key = x25519::Identity::generate();
        let public = key.to_public().to_string();
        assert_eq!(public.len(), "age1".len() + 58);
        assert!(Recipient::parse(&public).is_ok());
        check("", "");
        check("me@example.com", "");
        check(key.to_string().expose_secret(), "the secret half, which must not be on the server");
        check(&key.to_string().expose_secret().to_lowercase(), "the secret half");
        check(&format!(" {}", key.to_string().expose_secret()), "the secret half");
        check("AGE-PLUGIN-YUBIKEY-1QQQQQQQ", "the secret half");
        check("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFh1", "SSH keys are not supported");
        check("age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t", "plugins");
        check(&public[..40], "a character is wrong or missing");
        let (rest, last) = public.split_at(public.len() - 1);
        let other = if last == "q" { "p" } else { "q" };
        check(&format!("{rest}{other}"), "a character is wrong or missing");
    }

    #[test]
    fn keys_to_which_nothing_can_be_sealed_are_refused() {
        for text in LOW_ORDER {
            let error = Recipient::parse(text).expect_err(text);
            assert!(error.contains("nothing can be sealed to this one"), "{error}");
            // Should the library come to refuse these by itself, this list can go.
            let key: x25519::Recipient = text.parse().unwrap();
            assert!(std::panic::catch_unwind(|| age::encrypt(&key, b"")).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_identity_file_is_refused_with_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.txt");
        let check = |text: &str, words: &str| {
            std::fs::write(&path, text).unwrap();
            let error = Identity::read(&path).expect_err(text).to_string();
            assert!(error.contains("key.txt") && error.contains(words), "{text}: {error}");
        };
        let key = x25519::Identity::generate();
        let secret = key.to_string().expose_secret().to_owned();
        check("", "holds no identity");
        check("# created by hand\n\n", "holds no identity");
        check(&format!("# public\n{}\n", key.to_public()), "key.txt:2: this is a public key");
        check("AGE-PLUGIN-YUBIKEY-1QQQQQQQ\n", "key.txt:1: the identity needs a plugin");
        check("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n", "is an SSH key");
        check("-----BEGIN AGE ENCRYPTED FILE-----\nYWdlLWVuY3J5cHRpb24\n", "protected by a passphrase");
        check("age-encryption.org/v1\n-> scrypt 4SXWcOsxdOZ3p2Io0Iq9BA 18\n", "protected by a passphrase");
        check(&format!("{secret}\n{}\n", &secret[..60]), "key.txt:2: this is no identity");
        check(&"#".repeat(MAX_IDENTITY_FILE_BYTES + 1), "is too large");
        let error = Identity::read(&folder.path().join("nowhere")).unwrap_err();
        assert!(matches!(error, IdentityError::Io { .. }), "{error}");
    }

    #[test]
    fn an_identity_file_may_have_the_line_ends_of_any_system() {
        let key = x25519::Identity::generate();
        let text = format!("# comment\r\n{}\r\n", key.to_string().expose_secret());
        let identity = parse(Path::new("key.txt"), text.as_bytes()).unwrap();
        assert_eq!(identity.open(&Recipient(key.to_public()).seal(b"x").unwrap()).unwrap(), b"x");
    }

    #[test]
    fn no_key_is_shown() {
        let (recipient, identity) = pair();
        assert_eq!(format!("{recipient:?} {identity:?}"), "Recipient { .. } Identity { .. }");
    }

    fn pair() -> (Recipient, Identity) {
        let key = x25519::Identity::generate();
        (Recipient::parse(&key.to_public().to_string()).unwrap(), Identity(vec![key]))
    }
}
