//! Agents' public keys: parses a directory (a JWK set, RFC 7517), computes thumbprints, verifies signatures.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA512,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;

use super::error::SignatureError;

/// The maximum number of keys to read from one directory, including unsupported ones. The rest are ignored.
pub const MAX_KEYS: usize = 32;

/// A public-key signature algorithm that is registered in RFC 9421 §6.2 and used by agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Ed25519,
    EcdsaP256Sha256,
    RsaPssSha512,
    RsaV15Sha256,
}

/// The thumbprints of the example keys of RFC 9421 appendix B.1. Their private keys are published, so anyone
/// can sign with them.
const EXAMPLE_KEYS: [&str; 4] = [
    "BHj8s0GPnMEQtkaULIM-PLgEhLBbuGUQ1vMxmBWZzEo",
    "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA",
    "ydQXMtvbsOsZyFir-Y7A8t7fKEM1gbKPvyFkdpu4fvI",
    "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",
];

/// The registered name of each algorithm (RFC 9421 §6.2), and its names in JOSE (RFC 7518, RFC 8037, RFC
/// 9864). The `alg` of a signature has the former, that of a JWK either.
const ALGORITHMS: [(Algorithm, &str, &[&str]); 4] = [
    (Algorithm::Ed25519, "ed25519", &["EdDSA", "Ed25519"]),
    (Algorithm::EcdsaP256Sha256, "ecdsa-p256-sha256", &["ES256"]),
    (Algorithm::RsaPssSha512, "rsa-pss-sha512", &["PS512"]),
    (Algorithm::RsaV15Sha256, "rsa-v1_5-sha256", &["RS256"]),
];

impl Algorithm {
    /// The algorithm with this name in a signature's `alg` parameter; `None` if it is unknown.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        ALGORITHMS.iter().find(|(_, known, _)| *known == name).map(|(algorithm, ..)| *algorithm)
    }

    /// The algorithm that the `alg` of a JWK names, in JOSE or RFC 9421; `None` if it is unknown.
    fn from_jwk(name: &str) -> Option<Algorithm> {
        let in_jose = ALGORITHMS.iter().find(|(_, _, known)| known.contains(&name));
        in_jose.map(|(algorithm, ..)| *algorithm).or_else(|| Algorithm::from_name(name))
    }
}

/// A public key. The key determines which algorithms are permitted; a signature cannot choose another one.
#[derive(Clone, Debug)]
pub struct AgentKey {
    id: String,
    public: KeyMaterial,
    not_before: Option<i64>,
    expires: Option<i64>,
}

#[derive(Clone, Debug)]
enum KeyMaterial {
    Ed25519(Vec<u8>),
    /// The uncompressed point (SEC 1 §2.3.3).
    P256(Vec<u8>),
    /// The modulus and exponent, and the algorithm if the directory names one.
    Rsa(RsaPublicKeyComponents<Vec<u8>>, Option<Algorithm>),
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<serde_json::Value>,
}

/// A key in a JWK set. Its `kid` is ignored: the thumbprint, which an agent cannot choose, is the key ID.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    nbf: Option<i64>,
    exp: Option<i64>,
}

impl AgentKey {
    /// Parses a directory, skipping unsupported keys and all after `MAX_KEYS`. `None` if it is not a JWK
    /// set.
    pub fn read_set(json: &[u8]) -> Option<Vec<AgentKey>> {
        let set: JwkSet = serde_json::from_slice(json).ok()?;
        Some(set.keys.into_iter().take(MAX_KEYS).filter_map(AgentKey::from_jwk).collect())
    }

    /// Parses a JWK. `None` if it is invalid, not for signatures, of an unsupported type or algorithm, an RSA
    /// key with a modulus of fewer than 256 or more than 1024 bytes or an exponent of more than 4, or has
    /// members that are not canonical base64url. Accepts expired keys.
    fn from_jwk(value: serde_json::Value) -> Option<AgentKey> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let text = |member: &Option<String>| member.clone().filter(|text| is_canonical(text));
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let (public, thumbprint_input) = match (&*jwk.kty, jwk.crv.as_deref()) {
            ("OKP", Some("Ed25519")) => {
                let x = text(&jwk.x)?;
                let point = bytes(&x).filter(|point| point.len() == 32)?;
                (KeyMaterial::Ed25519(point), format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#))
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (text(&jwk.x)?, text(&jwk.y)?);
                // Each coordinate has the length of the curve's field (RFC 7518 §6.2.1.2).
                let coordinate = |text: &str| bytes(text).filter(|bytes| bytes.len() == 32);
                let point = [vec![4], coordinate(&x)?, coordinate(&y)?].concat();
                let thumbprint_input = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
                (KeyMaterial::P256(point), thumbprint_input)
            }
            ("RSA", _) => {
                let (n, e) = (text(&jwk.n)?, text(&jwk.e)?);
                let components = RsaPublicKeyComponents { n: bytes(&n)?, e: bytes(&e)? };
                // Moduli have 2048 to 8192 bits. Exponents above 32 bits would only slow down verification.
                if components.e.len() > 4 || !(256..=1024).contains(&components.n.len()) {
                    return None;
                }
                let algorithm = jwk.alg.as_deref().and_then(Algorithm::from_jwk);
                (KeyMaterial::Rsa(components, algorithm), format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#))
            }
            _ => return None,
        };
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, thumbprint_input.as_bytes()));
        let key =
            AgentKey { id, public, not_before: jwk.nbf.map(to_seconds), expires: jwk.exp.map(to_seconds) };
        // Skip keys for unsupported algorithms.
        let named = jwk.alg.as_deref().map(Algorithm::from_jwk);
        named.is_none_or(|named| named.is_some_and(|named| key.algorithm(Some(named)).is_ok())).then_some(key)
    }

    /// The thumbprint (RFC 7638, SHA-256, base64url), which signatures use as their `keyid`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether this is an example key of RFC 9421, whose private key is public.
    pub fn is_example(&self) -> bool {
        EXAMPLE_KEYS.contains(&self.id())
    }

    /// Whether `now` is between `nbf` (inclusive) and `exp` (exclusive). A missing bound sets no limit.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        self.not_before.is_none_or(|from| from <= now) && self.expires.is_none_or(|until| now < until)
    }

    /// The algorithm for a signature with this `alg`; an error if it does not fit the key (RFC 9421 §3.2).
    /// The default of an RSA key without `alg` is `rsa-pss-sha512`.
    fn algorithm(&self, claimed: Option<Algorithm>) -> Result<Algorithm, SignatureError> {
        let own = match &self.public {
            KeyMaterial::Ed25519(_) => Algorithm::Ed25519,
            KeyMaterial::P256(_) => Algorithm::EcdsaP256Sha256,
            KeyMaterial::Rsa(_, Some(named)) => *named,
            KeyMaterial::Rsa(_, None) if claimed == Some(Algorithm::RsaV15Sha256) => Algorithm::RsaV15Sha256,
            KeyMaterial::Rsa(_, None) => Algorithm::RsaPssSha512,
        };
        if claimed.is_none_or(|claimed| claimed == own) { Ok(own) } else { Err(SignatureError::Algorithm) }
    }

    /// Verifies a signature over `message`. `claimed` is the signature's `alg`, if it has one. Does not check
    /// whether the key is valid now ([`Self::is_valid_at`]).
    pub fn verify(
        &self,
        claimed: Option<Algorithm>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), SignatureError> {
        let algorithm = self.algorithm(claimed)?;
        let verified = match &self.public {
            KeyMaterial::Ed25519(point) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature),
            KeyMaterial::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            KeyMaterial::Rsa(components, _) if algorithm == Algorithm::RsaV15Sha256 => {
                components.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            // aws-lc requires a PSS salt as long as the hash, which is also the length in RFC 9421 §3.3.1.
            KeyMaterial::Rsa(components, _) => {
                components.verify(&RSA_PSS_2048_8192_SHA512, message, signature)
            }
        };
        verified.map_err(|_| SignatureError::Signature)
    }
}

/// Whether the text is canonical base64url. A key must have only one encoding, because thumbprints hash the
/// text.
fn is_canonical(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| URL_SAFE_NO_PAD.encode(bytes) == text)
}

/// Converts a time to seconds since 1970. Times after the year 5138 are taken as milliseconds, which some
/// directories use.
fn to_seconds(time: i64) -> i64 {
    const YEAR_5138: i64 = 100_000_000_000;
    if time > YEAR_5138 { time / 1000 } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED25519_X: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";

    #[test]
    fn a_key_is_identified_by_its_thumbprint() {
        // The keys from RFC 9421 appendix B.1, and their thumbprints.
        check(
            &format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"mine","x":"{ED25519_X}"}}"#),
            Some("poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"),
        );
        check(
            &format!(r#"{{"kty":"OKP","crv":"Ed25519","alg":"ed25519","x":"{ED25519_X}"}}"#),
            Some("poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"),
        );
        check(&rsa(""), Some("oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA"));
        check(&rsa(r#","alg":"PS512","use":"sig""#), Some("oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA"));
    }

    #[test]
    fn unsupported_keys_are_skipped() {
        check(&format!(r#"{{"kty":"OKP","crv":"Ed25519","use":"enc","x":"{ED25519_X}"}}"#), None);
        check(&format!(r#"{{"kty":"OKP","crv":"Ed25519","alg":"ES256","x":"{ED25519_X}"}}"#), None);
        check(&format!(r#"{{"kty":"OKP","crv":"Ed25519","alg":"none","x":"{ED25519_X}"}}"#), None);
        check(&format!(r#"{{"kty":"OKP","crv":"X25519","x":"{ED25519_X}"}}"#), None);
        check(&format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{ED25519_X}="}}"#), None);
        // The last character's unused bits are set.
        check(&format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{}t"}}"#, &ED25519_X[..42]), None);
        check(r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#, None);
        check(r#"{"kty":"OKP","crv":"Ed25519"}"#, None);
        check(&format!(r#"{{"kty":"EC","crv":"P-256","x":"{ED25519_X}"}}"#), None);
        check(&format!(r#"{{"kty":"EC","crv":"P-384","x":"{ED25519_X}","y":"{ED25519_X}"}}"#), None);
        let p256 = |x: usize, y: usize| {
            let [x, y] = [x, y].map(|length| URL_SAFE_NO_PAD.encode(vec![1; length]));
            AgentKey::from_jwk(serde_json::json!({"kty": "EC", "crv": "P-256", "x": x, "y": y})).is_some()
        };
        assert_eq!(
            [p256(32, 32), p256(31, 33), p256(33, 31), p256(0, 64), p256(31, 32)],
            [true, false, false, false, false]
        );
        check(r#"{"kty":"oct","k":"AAAA"}"#, None);
        check(r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, None);
        check(&rsa(r#","alg":"RSA-OAEP""#), None);
        check("7", None);
    }

    #[test]
    fn an_invalid_key_does_not_affect_others() {
        let good = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{ED25519_X}"}}"#);
        let set = format!(r#"{{"keys":[null,{{"kty":7}},{good}],"more":1}}"#);
        assert_eq!(AgentKey::read_set(set.as_bytes()).unwrap().len(), 1);
        let many = format!(r#"{{"keys":[{}]}}"#, vec![&*good; MAX_KEYS + 1].join(","));
        assert_eq!(AgentKey::read_set(many.as_bytes()).unwrap().len(), MAX_KEYS);
        for text in ["", "[]", "{}", r#"{"keys":{}}"#, "<html>"] {
            assert!(AgentKey::read_set(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn a_key_is_valid_between_nbf_and_exp() {
        for (times, expected) in [
            ("", true),
            (r#","nbf":1000,"exp":1001"#, true),
            (r#","nbf":1001"#, false),
            (r#","exp":1000"#, false),
            (r#","exp":1900000000000"#, true),
            (r#","nbf":1900000000000"#, false),
        ] {
            let key = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{ED25519_X}"{times}}}"#);
            let key = AgentKey::from_jwk(serde_json::from_str(&key).unwrap()).unwrap();
            assert_eq!(key.is_valid_at(Timestamp::from_second(1000).unwrap()), expected, "{times}");
        }
    }

    #[test]
    fn a_signature_cannot_choose_the_keys_algorithm() {
        use Algorithm::{EcdsaP256Sha256, Ed25519, RsaPssSha512, RsaV15Sha256};
        let ed25519 = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{ED25519_X}"}}"#);
        for (key, claimed, expected) in [
            (&ed25519, None, Ok(Ed25519)),
            (&ed25519, Some(Ed25519), Ok(Ed25519)),
            (&ed25519, Some(EcdsaP256Sha256), Err(SignatureError::Algorithm)),
            (&rsa(""), None, Ok(RsaPssSha512)),
            (&rsa(""), Some(RsaV15Sha256), Ok(RsaV15Sha256)),
            (&rsa(""), Some(Ed25519), Err(SignatureError::Algorithm)),
            (&rsa(r#","alg":"PS512""#), None, Ok(RsaPssSha512)),
            (&rsa(r#","alg":"PS512""#), Some(RsaV15Sha256), Err(SignatureError::Algorithm)),
            (&rsa(r#","alg":"rsa-pss-sha512""#), None, Ok(RsaPssSha512)),
            (&rsa(r#","alg":"RS256""#), None, Ok(RsaV15Sha256)),
            (&rsa(r#","alg":"RS256""#), Some(RsaPssSha512), Err(SignatureError::Algorithm)),
        ] {
            let key = AgentKey::from_jwk(serde_json::from_str(key).unwrap()).unwrap();
            assert_eq!(key.algorithm(claimed), expected, "{key:?} {claimed:?}");
        }
        assert_eq!(Algorithm::from_name("hmac-sha256"), None);
    }

    fn rsa(more: &str) -> String {
        let n = "r4tmm3r20Wd_PbqvP1s2-QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct-Lh1GH45x28Rw3Ry53mm\
        -oAXjyQ86OnDkZ5N8\
                 lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgchwuYLPL-Wok\
                 qltd11nqqzi-bJ9cv\
                 SKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4aOT9v6d\
                 -nb4bnNkQVklLQ3fV\
                 AvJm-xdDOp9LCNCN48V2pnDOkFV6-U9nV5oyc6XI2w";
        format!(r#"{{"kty":"RSA","n":"{n}","e":"AQAB"{more}}}"#)
    }

    fn check(jwk: &str, expected: Option<&str>) {
        let key = AgentKey::from_jwk(serde_json::from_str(jwk).unwrap());
        assert_eq!(key.as_ref().map(AgentKey::id), expected, "{jwk}");
    }
}
