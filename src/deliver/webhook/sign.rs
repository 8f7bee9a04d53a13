//! Signatures as Standard Webhooks describe them (HMAC-SHA-256), so that a receiver knows who calls and that nothing was changed.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use jiff::Timestamp;
use standardwebhooks::{
    HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook as Signer,
};
use uuid::Uuid;

/// A secret that signs.
#[derive(Clone)]
pub struct Key(Arc<Signer>);

impl Key {
    /// Reads `whsec_` and 24 to 64 bytes in Base64, or says what would be right. The fault holds nothing of the secret.
    pub fn parse(text: &str) -> Result<Key, String> {
        let expected = || {
            Err("expected `whsec_` and 24 to 64 random bytes in Base64, such as \
                 `echo \"whsec_$(openssl rand -base64 32)\"` prints"
                .to_owned())
        };
        let Some(encoded) = text.strip_prefix("whsec_") else { return expected() };
        let bytes = encoded.trim_end_matches('=').len() * 3 / 4;
        match Signer::new(encoded) {
            Ok(signer) if (24..=64).contains(&bytes) => Ok(Key(Arc::new(signer))),
            _ => expected(),
        }
    }
}

/// Without the secret.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The headers by which a receiver recognises and verifies a notice: its id, the time of this attempt and a signature for each key.
/// Without a key there is no signature; id and time are there all the same.
pub fn headers(keys: &[Key], id: Uuid, now: Timestamp, body: &str) -> Vec<(&'static str, HeaderValue)> {
    let (id, seconds) = (id.to_string(), now.as_second());
    // The signer refuses nothing but what is not UTF-8.
    let signatures: Vec<String> =
        keys.iter().filter_map(|key| key.0.sign(&id, seconds, body.as_bytes()).ok()).collect();
    let signature = (!signatures.is_empty()).then(|| (HEADER_WEBHOOK_SIGNATURE, signatures.join(" ")));
    [(HEADER_WEBHOOK_ID, id), (HEADER_WEBHOOK_TIMESTAMP, seconds.to_string())]
        .into_iter()
        .chain(signature)
        .filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value).ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x0193_4a5b_6c7d_7e8f_9a0b_1c2d_3e4f_5a6b);

    #[test]
    fn a_key_is_long_enough_and_its_fault_says_how_to_make_one() {
        for text in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &format!("whsec_{}", "A".repeat(84) + "AA==")]
        {
            assert!(Key::parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "whsec_",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!",
            &format!("whsec_{}", "A".repeat(88)),
        ] {
            let fault = Key::parse(text).unwrap_err();
            assert!(fault.contains("openssl rand") && !fault.contains("MfKQ"), "{text}: {fault}");
        }
    }

    #[test]
    fn a_signature_is_the_one_that_openssl_makes() {
        // printf '%s' '01934a5b-6c7d-7e8f-9a0b-1c2d3e4f5a6b.1700000000.{"a":"ü"}' |
        //   openssl dgst -sha256 -mac hmac -macopt hexkey:$(echo MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw | base64 -d | xxd -p) -binary | base64
        check(
            &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
            Some("v1,/AyhO+rx6k2//RlNaeuTgzEFuogUEbQlsr25GY5Rn1E="),
        );
        check(
            &["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
            Some(
                "v1,FhMvvDyfOcbDZv5zWhmGXIeYGCQ3QYfRVP2ZLD3My8s= v1,/AyhO+rx6k2//RlNaeuTgzEFuogUEbQlsr25GY5Rn1E=",
            ),
        );
    }

    #[test]
    fn without_a_key_nothing_is_signed() {
        check(&[], None);
    }

    fn check(keys: &[&str], signature: Option<&str>) {
        let keys: Vec<Key> = keys.iter().map(|text| Key::parse(text).unwrap()).collect();
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let found = headers(&keys, ID, now, r#"{"a":"ü"}"#);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (*name, value.to_str().unwrap())).collect();
        let id = ("webhook-id", "01934a5b-6c7d-7e8f-9a0b-1c2d3e4f5a6b");
        let mut expected = vec![id, ("webhook-timestamp", "1700000000")];
        expected.extend(signature.map(|signature| ("webhook-signature", signature)));
        assert_eq!(found, expected);
    }
}
