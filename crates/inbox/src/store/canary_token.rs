//! The tokens that mark test submissions of the canary.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::keyed_hash::{Hash, Secret};

/// The size of a token in bytes: a nonce, the expiry time and a signature.
const BYTES: usize = 16 + 4 + 16;
const CHARS: usize = BYTES * 4 / 3;
/// How long a token is valid.
const LIFETIME: SignedDuration = SignedDuration::from_mins(5);

/// Signs and verifies the canary's tokens. Without the key, a visitor can neither make a token nor change the
/// form or the time of one. The database accepts each token once.
#[derive(Clone)]
pub struct CanaryKey(Secret);

impl CanaryKey {
    /// The header that carries the token in requests, and the proof in responses.
    pub const HEADER: &str = "frontdesk-canary";
    /// The member of a JSON body that carries the token.
    pub const MEMBER: &str = "desk_canary";

    pub(super) fn derive(secret: &Secret) -> CanaryKey {
        CanaryKey(secret.canary_key())
    }

    /// A new nonce for one submission: a UUID version 7, which begins with the current time.
    pub fn nonce() -> Hash {
        Uuid::now_v7().into_bytes()
    }

    /// A token for one submission to a form, valid for five minutes.
    pub fn issue(&self, form: &str, nonce: &Hash, now: Timestamp) -> String {
        let expires_at = now.saturating_add(LIFETIME).unwrap_or(now).as_second();
        let expires_at = u32::try_from(expires_at).unwrap_or_default();
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(nonce);
        bytes.extend_from_slice(&expires_at.to_be_bytes());
        bytes.extend_from_slice(&self.0.canary_token(form, nonce, expires_at));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Whether a text has the length of a token. Checks nothing else; see [`CanaryKey::verify`].
    pub fn is_token(text: &str) -> bool {
        text.len() == CHARS
    }

    /// The nonce of a token, if this key issued it for this form and it has not expired. The time that the
    /// comparison takes does not depend on how much of the signature is right.
    pub fn verify(&self, token: &str, form: &str, now: Timestamp) -> Option<Hash> {
        let bytes = CanaryKey::is_token(token).then(|| URL_SAFE_NO_PAD.decode(token).ok())??;
        let (nonce, rest) = bytes.split_first_chunk::<16>()?;
        let (expires_at, signature) = rest.split_first_chunk::<4>()?;
        let expires_at = u32::from_be_bytes(*expires_at);
        let expected = self.0.canary_token(form, nonce, expires_at);
        let is_genuine = is_equal(&expected, signature);
        (is_genuine && now.as_second() < i64::from(expires_at)).then_some(*nonce)
    }

    /// The value of the response header `Frontdesk-Canary`: it proves that a server with this key has
    /// received the token with this nonce.
    pub fn proof(&self, nonce: &Hash) -> String {
        URL_SAFE_NO_PAD.encode(self.0.canary_proof(nonce))
    }
}

/// Compares a hash with received bytes, in constant time.
fn is_equal(expected: &Hash, found: &[u8]) -> bool {
    let difference = expected.iter().zip(found).fold(0, |all, (a, b)| all | (a ^ b));
    found.len() == expected.len() && std::hint::black_box(difference) == 0
}

/// Omits the key, so that logs do not contain it.
impl fmt::Debug for CanaryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CanaryKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_its_form_and_five_minutes_only() {
        let (key, now) = (key(7), Timestamp::from_second(1_800_000_000).unwrap());
        let token = key.issue("contact", &[5; 16], now);
        let verify = |form, after| key.verify(&token, form, now + SignedDuration::from_secs(after));
        assert_eq!(verify("contact", 0), Some([5; 16]));
        assert_eq!(verify("contact", 299), Some([5; 16]));
        assert_eq!(verify("contact", 300), None);
        assert_eq!(verify("waitlist", 0), None);
        assert_eq!(super::tests::key(8).verify(&token, "contact", now), None);
    }

    #[test]
    fn a_changed_token_is_refused() {
        let (key, now) = (key(7), Timestamp::from_second(1_800_000_000).unwrap());
        let token = key.issue("contact", &CanaryKey::nonce(), now);
        assert!(key.verify(&token, "contact", now).is_some());
        for at in 0..token.len() {
            for other in ['A', 'B', '_', '-', '9', '=', '.', 'é'] {
                let mut forged: Vec<char> = token.chars().collect();
                forged[at] = other;
                let forged: String = forged.into_iter().collect();
                assert_eq!(key.verify(&forged, "contact", now).is_some(), forged == token, "{forged}");
            }
        }
        for other in ["", "x", &token[1..], &format!("{token}A")] {
            assert_eq!(key.verify(other, "contact", now), None, "{other}");
        }
    }

    #[test]
    fn neither_proof_nor_debug_output_is_a_token() {
        let key = key(7);
        let (nonce, now) = ([5; 16], Timestamp::from_second(1_800_000_000).unwrap());
        let (token, proof) = (key.issue("contact", &nonce, now), key.proof(&nonce));
        assert!(!token.contains(&proof) && key.verify(&proof, "contact", now).is_none());
        assert_ne!(proof, key.proof(&[6; 16]));
        assert_eq!(format!("{key:?}"), "CanaryKey { .. }");
    }

    fn key(byte: u8) -> CanaryKey {
        CanaryKey::derive(&Secret([byte; 32]))
    }
}
