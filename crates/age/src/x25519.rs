//! X25519 keys in the age format: their Bech32 encoding, and the encryption of a file key to a recipient.
//!
//! All cryptography comes from AWS-LC, which also wipes the private keys that it holds when it frees them.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, UnparsedPublicKey, X25519};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use secrecy::{ExposeSecret as _, ExposeSecretMut as _, SecretBox};

/// The length of public, private and derived keys.
pub(super) const KEY_BYTES: usize = 32;
const FILE_KEY_BYTES: usize = 16;
/// The length of an encrypted file key with its tag.
const WRAPPED_KEY_BYTES: usize = FILE_KEY_BYTES + 16;

const PUBLIC_PREFIX: Hrp = Hrp::parse_unchecked("age");
const PRIVATE_PREFIX: Hrp = Hrp::parse_unchecked("age-secret-key-");
const WRAP_KEY_LABEL: &[u8] = b"age-encryption.org/v1/X25519";

/// A 256-bit key that is wiped when dropped.
pub(super) type SecretKey = SecretBox<[u8; KEY_BYTES]>;
/// The key that encrypts one file. The header contains it, encrypted to each recipient. Wiped when dropped.
pub(super) type FileKey = SecretBox<[u8; FILE_KEY_BYTES]>;

#[derive(Clone)]
pub(super) struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// Parses a public key in Bech32 (`age1…`).
    pub(super) fn parse(text: &str) -> Option<PublicKey> {
        Some(PublicKey(*decode_bech32(text, PUBLIC_PREFIX)?.expose_secret()))
    }

    fn from_private(private: &agreement::PrivateKey) -> Result<PublicKey, Unspecified> {
        let public = private.compute_public_key()?;
        Ok(PublicKey(public.as_ref().try_into().map_err(|_| Unspecified)?))
    }

    /// Whether a key agreement with this key succeeds. The agreement fails for points of low order (RFC 7748,
    /// section 6.1), because the shared secret is zero for every private key.
    pub(super) fn is_usable(&self) -> bool {
        agreement::PrivateKey::generate(&X25519)
            .and_then(|ephemeral| derive_wrap_key(&ephemeral, &self.0, &self.0, self))
            .is_ok()
    }

    /// Encrypts a file key to this public key, with a new ephemeral key. Fails for a point of low order, or
    /// if there are no random bytes.
    pub(super) fn wrap(&self, file_key: &FileKey) -> Result<Stanza, Unspecified> {
        let ephemeral = agreement::PrivateKey::generate(&X25519)?;
        let share = PublicKey::from_private(&ephemeral)?.0;
        let key = derive_wrap_key(&ephemeral, &self.0, &share, self)?;
        let mut wrapped_key = [0; WRAPPED_KEY_BYTES];
        let (body, tag) = wrapped_key.split_at_mut(FILE_KEY_BYTES);
        body.copy_from_slice(file_key.expose_secret());
        tag.copy_from_slice(key.seal_in_place_separate_tag(zero_nonce(), Aad::empty(), body)?.as_ref());
        Ok(Stanza { share, wrapped_key })
    }
}

pub(super) struct PrivateKey {
    private: agreement::PrivateKey,
    public: PublicKey,
}

impl PrivateKey {
    /// Parses a private key in Bech32 (`AGE-SECRET-KEY-1…`).
    pub(super) fn parse(text: &str) -> Option<PrivateKey> {
        let bytes = decode_bech32(text, PRIVATE_PREFIX)?;
        let private = agreement::PrivateKey::from_private_key(&X25519, bytes.expose_secret()).ok()?;
        Some(PrivateKey { public: PublicKey::from_private(&private).ok()?, private })
    }

    /// Decrypts the file key in a stanza. `Ok(None)` means that the stanza is for another key or its
    /// encrypted file key is damaged; an error means that its share is invalid.
    pub(super) fn unwrap(&self, stanza: &Stanza) -> Result<Option<FileKey>, Unspecified> {
        let key = derive_wrap_key(&self.private, &stanza.share, &stanza.share, &self.public)?;
        let (body, tag) = stanza.wrapped_key.split_at(FILE_KEY_BYTES);
        let mut file_key = FileKey::default();
        let opened =
            key.open_separate_gather(zero_nonce(), Aad::empty(), body, tag, file_key.expose_secret_mut());
        Ok(opened.is_ok().then_some(file_key))
    }
}

/// The X25519 stanza of a header (age v1).
pub(super) struct Stanza {
    /// The sender's ephemeral public key.
    pub(super) share: [u8; KEY_BYTES],
    /// The encrypted file key and its tag.
    pub(super) wrapped_key: [u8; WRAPPED_KEY_BYTES],
}

/// Derives a key with HKDF-SHA-256 (RFC 5869).
pub(super) fn derive_key(secret: &[u8], salt: &[u8], label: &[u8]) -> Result<SecretKey, Unspecified> {
    let mut key = SecretKey::default();
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    extracted.expand(&[label], HKDF_SHA256)?.fill(key.expose_secret_mut())?;
    Ok(key)
}

pub(super) fn chacha20_poly1305_key(key: &SecretKey) -> Result<LessSafeKey, Unspecified> {
    Ok(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.expose_secret())?))
}

/// Derives the key that encrypts the file key, from one side's private key and the other's public key `peer`.
/// `share` is the ephemeral public key, and `recipient` the long-term one. Fails if `peer` is a point of low
/// order.
fn derive_wrap_key(
    private: &agreement::PrivateKey,
    peer: &[u8; KEY_BYTES],
    share: &[u8; KEY_BYTES],
    recipient: &PublicKey,
) -> Result<LessSafeKey, Unspecified> {
    let salt = [share.as_slice(), &recipient.0].concat();
    agreement::agree(private, UnparsedPublicKey::new(&X25519, peer), Unspecified, |secret| {
        chacha20_poly1305_key(&derive_key(secret, &salt, WRAP_KEY_LABEL)?)
    })
}

/// The nonce for encrypting a file key: zero, because each wrap key is used only once.
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// Decodes a key from Bech32 (BIP 173) in lower or upper case. `None` if it is not a key with this prefix.
fn decode_bech32(text: &str, prefix: Hrp) -> Option<SecretKey> {
    let decoded = CheckedHrpstring::new::<Bech32>(text).ok()?;
    let bytes = decoded.byte_iter();
    // `validate_segwit_padding` checks that the last character's unused bits are zero; that rule is not
    // specific to SegWit.
    if decoded.hrp() != prefix || bytes.len() != KEY_BYTES || decoded.validate_segwit_padding().is_err() {
        return None;
    }
    Some(SecretKey::init_with_mut(|key| key.iter_mut().zip(bytes).for_each(|(to, from)| *to = from)))
}

#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a failure here fails a test")]
fn encode<C: bech32::Checksum>(prefix: Hrp, bytes: &[u8]) -> String {
    let mut text = String::new();
    bech32::encode_to_fmt::<C, _>(&mut text, prefix, bytes).unwrap();
    text
}

/// A new identity and its recipient, as `age-keygen` prints them: `AGE-SECRET-KEY-1…` and `age1…`.
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a failure here fails a test")]
pub fn generate_key_texts() -> (String, String) {
    let mut secret = SecretKey::default();
    aws_lc_rs::rand::fill(secret.expose_secret_mut()).unwrap();
    let private = agreement::PrivateKey::from_private_key(&X25519, secret.expose_secret()).unwrap();
    let public = PublicKey::from_private(&private).unwrap();
    (
        encode::<Bech32>(PRIVATE_PREFIX, secret.expose_secret()).to_uppercase(),
        encode::<Bech32>(PUBLIC_PREFIX, &public.0),
    )
}

#[cfg(test)]
mod tests {
    use bech32::Bech32m;

    use super::*;

    /// The key pair from the age specification.
    const IDENTITY: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    const RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";

    #[test]
    fn identity_yields_its_recipient() {
        let private = PrivateKey::parse(IDENTITY).unwrap();
        assert_eq!(encode::<Bech32>(PUBLIC_PREFIX, &private.public.0), RECIPIENT);
        assert_eq!(PublicKey::parse(RECIPIENT).unwrap().0, private.public.0);
    }

    #[test]
    fn either_case_is_accepted_but_not_mixed() {
        assert!(PublicKey::parse(&RECIPIENT.to_uppercase()).is_some());
        assert!(PrivateKey::parse(&IDENTITY.to_lowercase()).is_some());
        assert!(PublicKey::parse(&RECIPIENT.replace("age", "AGE")).is_none());
        assert!(PrivateKey::parse(&IDENTITY.replace('X', "x")).is_none());
    }

    #[test]
    fn bech32_is_decoded_strictly() {
        let key = [7; KEY_BYTES];
        assert!(PublicKey::parse(&encode::<Bech32>(PUBLIC_PREFIX, &key)).is_some());
        assert!(PublicKey::parse(&encode::<Bech32m>(PUBLIC_PREFIX, &key)).is_none(), "other checksum");
        assert!(PublicKey::parse(&encode::<Bech32>(PRIVATE_PREFIX, &key)).is_none(), "other prefix");
        for length in [0, 1, 31, 33, 64] {
            let text = encode::<Bech32>(PUBLIC_PREFIX, &vec![7; length]);
            assert!(PublicKey::parse(&text).is_none(), "{length} bytes");
        }
        for text in ["", "age", "age1", "1", RECIPIENT.trim_end_matches('j'), &format!("{RECIPIENT} ")] {
            assert!(PublicKey::parse(text).is_none(), "{text}");
        }
        for at in 0..RECIPIENT.len() {
            let (head, tail) = RECIPIENT.split_at(at);
            let other = if tail.starts_with('q') { 'p' } else { 'q' };
            assert!(PublicKey::parse(&format!("{head}{other}{}", &tail[1..])).is_none(), "character {at}");
        }
    }

    #[test]
    fn padding_bits_must_be_zero() {
        use bech32::Fe32;
        use bech32::primitives::iter::{ByteIterExt as _, Fe32IterExt as _};
        let text = |last: Fe32| -> String {
            let fields: Vec<Fe32> =
                [7; KEY_BYTES].into_iter().bytes_to_fes().take(51).chain([last]).collect();
            fields.into_iter().with_checksum::<Bech32>(&PUBLIC_PREFIX).chars().collect()
        };
        assert!(PublicKey::parse(&text(Fe32::S)).is_some(), "10000: one bit of the key, four of padding");
        assert!(PublicKey::parse(&text(Fe32::_3)).is_none(), "10001");
    }

    #[test]
    fn wrapped_file_key_is_unwrapped_by_its_recipient_only() {
        let file_key = FileKey::init_with_mut(|key| *key = *b"sixteen byte key");
        let (identity, recipient) = generate_key_texts();
        let stanza = PublicKey::parse(&recipient).unwrap().wrap(&file_key).unwrap();
        let unwrapped = PrivateKey::parse(&identity).unwrap().unwrap(&stanza).unwrap().unwrap();
        assert_eq!(unwrapped.expose_secret(), file_key.expose_secret());
        assert!(PrivateKey::parse(IDENTITY).unwrap().unwrap(&stanza).unwrap().is_none());
    }

    #[test]
    fn low_order_points_are_refused() {
        let private = PrivateKey::parse(IDENTITY).unwrap();
        for text in super::super::tests::LOW_ORDER {
            let public = PublicKey::parse(text).expect(text);
            assert!(!public.is_usable(), "{text}");
            assert!(public.wrap(&FileKey::default()).is_err(), "{text}");
            let stanza = Stanza { share: public.0, wrapped_key: [0; WRAPPED_KEY_BYTES] };
            assert!(private.unwrap(&stanza).is_err(), "{text}");
        }
        assert!(PublicKey::parse(RECIPIENT).unwrap().is_usable());
    }
}
