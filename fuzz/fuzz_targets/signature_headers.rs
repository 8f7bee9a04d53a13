//! Fuzzes the signature headers that agents send: the parser never panics, and no forged signature is valid.

#![no_main]

use frontdesk_app::agent_signature::signature::{TAG, claims, is_signed};
use frontdesk_app::agent_signature::{AgentKey, SiteOrigin};
use libfuzzer_sys::fuzz_target;

/// The public keys from RFC 9421, appendices B.1.3 and B.1.4.
const KEYS: &str = r#"{"keys":[
    {"kty":"EC","crv":"P-256","x":"qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA","y":"Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0"},
    {"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}
]}"#;

/// Headers of the request. The lines of the input are the request path, the values of these headers, and the
/// content of a key directory.
const NAMES: [&str; 4] = ["signature-input", "signature", "signature-agent", "content-digest"];

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut request = http::Request::post(lines.next().unwrap_or_default());
    for (name, line) in NAMES.iter().zip(lines.by_ref()) {
        if !line.is_empty() {
            request = request.header(*name, line);
        }
    }
    // Skip inputs that are not valid requests.
    let Ok(request) = request.body(()) else { return };
    let (head, ()) = request.into_parts();
    let origin = SiteOrigin::from_url("https://www.example.com");

    let found = claims(&head, &origin);
    assert!(found.len() <= 3, "at most three claims are checked");
    assert!(is_signed(&head.headers) || found.is_empty());
    let names_the_tag = input.windows(TAG.len()).any(|part| part == TAG.as_bytes());
    assert!(names_the_tag || found.iter().all(Result::is_err), "a signature with another tag is not a claim");
    for claim in found.iter().flatten() {
        assert!(head.headers.contains_key("signature"));
        assert_eq!(claim.directory.is_some(), head.headers.contains_key("signature-agent"));
    }

    // The signatures of all seeds have expired by this time.
    let now = "2199-01-01T00:00:00Z".parse().expect("a time");
    let keys = AgentKey::read_set(KEYS.as_bytes()).expect("keys");
    let mut valid = found.iter().flatten().filter(|claim| claim.check_time(now).is_ok());
    assert!(valid.all(|claim| claim.check_key(&keys, now).is_err()), "the signature is forged");

    // The response from a key directory is also untrusted.
    for key in AgentKey::read_set(lines.next().unwrap_or_default()).unwrap_or_default() {
        assert_eq!(key.id().len(), 43, "a thumbprint");
        assert!(key.verify(None, b"text", b"no signature").is_err());
    }
});
