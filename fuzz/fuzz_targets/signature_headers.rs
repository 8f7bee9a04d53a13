//! The headers by which an agent says who it is, one line of the input each: whatever they hold, they are read or refused; and no
//! signature counts that nobody has made.

#![no_main]

use frontdesk::web::agent::signature::{TAG, claims, is_signed, verify};
use frontdesk::web::agent::{Key, Origin};
use libfuzzer_sys::fuzz_target;

/// The public keys of RFC 9421 appendix B.1.3 and B.1.4. No input holds a signature of theirs that is valid now, unless it was
/// copied from somewhere.
const KEYS: &str = r#"{"keys":[
    {"kty":"EC","crv":"P-256","x":"qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA","y":"Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0"},
    {"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}
]}"#;

/// The path, then a field a line: `Signature-Input`, `Signature`, `Signature-Agent`, and a directory.
const NAMES: [&str; 4] = ["signature-input", "signature", "signature-agent", "content-digest"];

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut request = http::Request::post(lines.next().unwrap_or_default());
    for (name, line) in NAMES.iter().zip(lines.by_ref()) {
        if !line.is_empty() {
            request = request.header(*name, line);
        }
    }
    // What no server would hand on is no request.
    let Ok(request) = request.body(()) else { return };
    let (head, ()) = request.into_parts();
    let origin = Origin::of("https://www.example.com");

    let found = claims(&head, &origin);
    assert!(found.len() <= 3, "a bounded number");
    assert!(is_signed(&head.headers) || found.is_empty());
    let names_the_tag = input.windows(TAG.len()).any(|part| part == TAG.as_bytes());
    assert!(names_the_tag || found.iter().all(Result::is_err), "what is not for us is no claim");
    for claim in found.iter().flatten() {
        assert!(head.headers.contains_key("signature"));
        assert_eq!(claim.directory.is_some(), head.headers.contains_key("signature-agent"));
    }

    // Long after every seed's signature has expired.
    let now = "2199-01-01T00:00:00Z".parse().expect("a time");
    let keys = Key::read_set(KEYS.as_bytes()).expect("keys");
    assert!(verify(&head, &origin, &keys, now).is_err(), "nobody has signed this");

    // A directory's answer is a stranger's too.
    for key in Key::read_set(lines.next().unwrap_or_default()).unwrap_or_default() {
        assert_eq!(key.id().len(), 43, "a thumbprint");
        assert!(key.verify(None, b"text", b"no signature").is_err());
    }
});
