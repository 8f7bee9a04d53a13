//! The age v1 file format (<https://c2sp.org/age>): binary files with X25519 recipients.
//!
//! The parser is as strict as the specification: it accepts only one encoding of each value. It ignores other
//! types of stanzas.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD as BASE64;
use secrecy::{ExposeSecret as _, ExposeSecretMut as _};

use super::x25519::{FileKey, PrivateKey, PublicKey, Stanza, chacha20_poly1305_key, derive_key};

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    /// The text is longer than [`MAX_PLAIN_BYTES`](super::MAX_PLAIN_BYTES).
    #[error("the text is longer than 1 MiB, so frontdesk neither encrypts nor decrypts it")]
    TooLarge,
    /// No private key decrypts the file key: it is encrypted to other keys, or is damaged.
    #[error("the data is encrypted to a key that is not in the identity file")]
    WrongKey,
    /// The file was changed or truncated, or is not a binary age v1 file.
    #[error("the encrypted data is damaged")]
    Damaged,
    /// The cryptographic library failed, for instance because it got no random bytes.
    #[error("could not encrypt the data: the cryptographic library failed")]
    Failed,
}

const VERSION_LINE: &str = "age-encryption.org/v1";
const STANZA_MARK: &str = "-> ";
const MAC_MARK: &str = "---";
const X25519_TYPE: &[u8] = b"X25519";
const SCRYPT_TYPE: &[u8] = b"scrypt";
/// The length of a full line of a stanza's body. A shorter line ends the body.
const FULL_LINE: usize = 64;
const MAC_BYTES: usize = 32;
/// The length of the payload's nonce: the random salt for deriving the payload key from the file key.
const NONCE_BYTES: usize = 16;
const CHUNK_BYTES: usize = 64 << 10;
const TAG_BYTES: usize = 16;
/// The total length of a header with one X25519 stanza (168 bytes), the nonce and one tag.
pub(super) const OVERHEAD_BYTES: usize = 168 + NONCE_BYTES + TAG_BYTES;

/// Encrypts `plain` to one recipient. The result is [`OVERHEAD_BYTES`] longer than `plain`, plus 16 bytes for
/// each further chunk of up to 64 KiB.
pub(super) fn encrypt(recipient: &PublicKey, plain: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let mut file_key = FileKey::default();
    rand::fill(file_key.expose_secret_mut())?;
    let mut nonce = [0; NONCE_BYTES];
    rand::fill(&mut nonce)?;

    let header = format_header(&file_key, &format_stanza(&recipient.wrap(&file_key)?))?;
    let tags = TAG_BYTES * (plain.len() / CHUNK_BYTES);
    let mut file = Vec::with_capacity(OVERHEAD_BYTES + plain.len() + tags);
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&nonce);
    let key = derive_payload_key(&file_key, &nonce)?;
    // An empty plaintext has one chunk, which is empty.
    let count = plain.len().div_ceil(CHUNK_BYTES).max(1);
    for index in 0..count {
        let chunk = &plain[index * CHUNK_BYTES..plain.len().min((index + 1) * CHUNK_BYTES)];
        append_encrypted_chunk(&mut file, &key, index, index + 1 == count, chunk)?;
    }
    Ok(file)
}

/// Decrypts a file with the first identity that fits. Refuses a plaintext of more than `limit` bytes before
/// decrypting any of it. Files with a passphrase give [`EncryptionError::WrongKey`].
pub(super) fn decrypt(
    identities: &[PrivateKey],
    file: &[u8],
    limit: usize,
) -> Result<Vec<u8>, EncryptionError> {
    let damaged = |_: Unspecified| EncryptionError::Damaged;
    let (header, payload) = Header::parse(file).ok_or(EncryptionError::Damaged)?;
    let (nonce, ciphertext) = payload.split_first_chunk().ok_or(EncryptionError::Damaged)?;
    let file_key = header.unwrap_file_key(identities).map_err(damaged)?.ok_or(EncryptionError::WrongKey)?;
    hmac::verify(&derive_mac_key(&file_key).map_err(damaged)?, header.authenticated, &header.mac)
        .map_err(damaged)?;
    let tags = TAG_BYTES * ciphertext.len().div_ceil(CHUNK_BYTES + TAG_BYTES);
    if ciphertext.len() > limit + tags {
        return Err(EncryptionError::TooLarge);
    }
    decrypt_payload(&file_key, nonce, ciphertext).map_err(damaged)
}

struct Header<'a> {
    stanzas: Vec<Stanza>,
    /// The bytes that the MAC covers: the header from its first byte through the `---` before the MAC.
    authenticated: &'a [u8],
    mac: [u8; MAC_BYTES],
}

impl Header<'_> {
    /// Parses the header, and also returns the payload. Skips stanzas of other types than X25519. `None` if
    /// the header is malformed, has no stanza, or has a passphrase (scrypt) and another stanza.
    fn parse(file: &[u8]) -> Option<(Header<'_>, &[u8])> {
        let mut rest = file;
        if take_line(&mut rest)? != VERSION_LINE.as_bytes() {
            return None;
        }
        let mut stanzas = Vec::new();
        let (mut count, mut has_passphrase) = (0, false);
        loop {
            let start = file.len() - rest.len();
            let line = take_line(&mut rest)?;
            if let Some(mac) = line.strip_prefix(MAC_MARK.as_bytes()) {
                // The age specification allows a passphrase stanza only if there is no other stanza.
                if count == 0 || (has_passphrase && count > 1) {
                    return None;
                }
                let mac = decode_base64(mac.strip_prefix(b" ")?)?;
                let authenticated = &file[..start + MAC_MARK.len()];
                return Some((Header { stanzas, authenticated, mac }, rest));
            }
            let arguments = parse_stanza_line(line)?;
            let body = take_stanza_body(&mut rest)?;
            count += 1;
            match arguments[..] {
                [X25519_TYPE, share] => {
                    stanzas.push(Stanza { share: decode_base64(share)?, wrapped_key: body.try_into().ok()? });
                }
                [X25519_TYPE, ..] | [] => return None,
                [kind, ..] => has_passphrase |= kind == SCRYPT_TYPE,
            }
        }
    }

    /// Returns the file key of a stanza that matches an identity, and does not check further stanzas.
    /// `Ok(None)` means that none matches; an error means that a stanza is invalid.
    fn unwrap_file_key(&self, identities: &[PrivateKey]) -> Result<Option<FileKey>, Unspecified> {
        for identity in identities {
            for stanza in &self.stanzas {
                if let Some(file_key) = identity.unwrap(stanza)? {
                    return Ok(Some(file_key));
                }
            }
        }
        Ok(None)
    }
}

/// Removes the first line, which must end in a line feed, and returns it without the line feed.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = &rest[..end];
    *rest = &rest[end + 1..];
    Some(line)
}

/// Splits the first line of a stanza into its type and arguments. `None` unless they are words of visible
/// ASCII characters, separated by single spaces.
fn parse_stanza_line(line: &[u8]) -> Option<Vec<&[u8]>> {
    let words: Vec<_> = line.strip_prefix(STANZA_MARK.as_bytes())?.split(|byte| *byte == b' ').collect();
    words.iter().all(|word| !word.is_empty() && word.iter().all(u8::is_ascii_graphic)).then_some(words)
}

/// Removes the body of a stanza, up to and including its first line that is not full, and decodes it. `None`
/// if a line is too long or missing, or if the body is not Base64.
fn take_stanza_body(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let line = take_line(rest)?;
        if line.len() > FULL_LINE {
            return None;
        }
        text.extend_from_slice(line);
        if line.len() < FULL_LINE {
            return BASE64.decode(text).ok();
        }
    }
}

/// Decodes Base64 without padding; `None` unless the result has `N` bytes.
fn decode_base64<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    BASE64.decode(text).ok()?.try_into().ok()
}

/// Formats a stanza. Its body is shorter than a full line, so it needs no wrapping.
fn format_stanza(stanza: &Stanza) -> String {
    format!("{STANZA_MARK}X25519 {}\n{}\n", BASE64.encode(stanza.share), BASE64.encode(stanza.wrapped_key))
}

/// The header: the version, the stanzas, and a MAC over everything before it.
fn format_header(file_key: &FileKey, stanzas: &str) -> Result<String, Unspecified> {
    let authenticated = format!("{VERSION_LINE}\n{stanzas}{MAC_MARK}");
    let mac = hmac::sign(&derive_mac_key(file_key)?, authenticated.as_bytes());
    Ok(format!("{authenticated} {}\n", BASE64.encode(mac)))
}

fn derive_mac_key(file_key: &FileKey) -> Result<hmac::Key, Unspecified> {
    let key = derive_key(file_key.expose_secret(), &[], b"header")?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, key.expose_secret()))
}

fn derive_payload_key(file_key: &FileKey, nonce: &[u8; NONCE_BYTES]) -> Result<LessSafeKey, Unspecified> {
    chacha20_poly1305_key(&derive_key(file_key.expose_secret(), nonce, b"payload")?)
}

/// The nonce of a chunk: an eleven-byte big-endian counter, and one byte that marks the last chunk.
fn chunk_nonce(index: usize, is_last: bool) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3..11].copy_from_slice(&(index as u64).to_be_bytes());
    nonce[11] = u8::from(is_last);
    Nonce::assume_unique_for_key(nonce)
}

/// Encrypts a chunk of the plaintext, and appends it with its tag to `file`.
fn append_encrypted_chunk(
    file: &mut Vec<u8>,
    key: &LessSafeKey,
    index: usize,
    is_last: bool,
    chunk: &[u8],
) -> Result<(), Unspecified> {
    let start = file.len();
    file.extend_from_slice(chunk);
    let nonce = chunk_nonce(index, is_last);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut file[start..])?;
    file.extend_from_slice(tag.as_ref());
    Ok(())
}

/// Decrypts the chunks of a payload. Fails if a chunk was changed, moved or removed.
fn decrypt_payload(
    file_key: &FileKey,
    nonce: &[u8; NONCE_BYTES],
    ciphertext: &[u8],
) -> Result<Vec<u8>, Unspecified> {
    let key = derive_payload_key(file_key, nonce)?;
    let mut plain = Vec::with_capacity(ciphertext.len());
    let mut chunks = ciphertext.chunks(CHUNK_BYTES + TAG_BYTES).enumerate().peekable();
    if chunks.peek().is_none() {
        return Err(Unspecified);
    }
    while let Some((index, chunk)) = chunks.next() {
        let start = plain.len();
        plain.extend_from_slice(chunk);
        let nonce = chunk_nonce(index, chunks.peek().is_none());
        let length = key.open_in_place(nonce, Aad::empty(), &mut plain[start..])?.len();
        // Reject an empty chunk after the first one: only an empty plaintext has an empty chunk.
        if length == 0 && index > 0 {
            return Err(Unspecified);
        }
        plain.truncate(start + length);
    }
    Ok(plain)
}

#[cfg(test)]
mod tests;
