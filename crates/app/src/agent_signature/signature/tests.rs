//! Tests with the examples of the RFC and the drafts, and with changed signatures and requests.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA512, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use http::request::Builder;

use super::*;

/// The private part of `test-key-ed25519` (RFC 9421 appendix B.1.4).
const SEED: &str = "n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU";

/// The keys of RFC 9421 appendix B.1.2 to B.1.4.
const KEYS: &str = r#"{"keys":[
    {"kty":"RSA","e":"AQAB","n":"r4tmm3r20Wd_PbqvP1s2-QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct-Lh1GH45x28Rw3Ry53mm-oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHqgDsznjPFmTOtCEcN2Z1FpWgchwuYLPL-Wokqltd11nqqzi-bJ9cvSKADYdUAAN5WUtzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4aOT9v6d-nb4bnNkQVklLQ3fVAvJm-xdDOp9LCNCN48V2pnDOkFV6-U9nV5oyc6XI2w"},
    {"kty":"EC","crv":"P-256","x":"qIVYZVLCrPZHGHjP17CTW0_-D9Lfw0EkjqF7xB4FivA","y":"Mc4nN9LTDOBhfoUeg8Ye9WedFRhnZXZJA12Qp0zZ6F0"},
    {"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}
]}"#;
const RSA: usize = 0;
const P256: usize = 1;
const ED25519: usize = 2;

/// The thumbprint of the Ed25519 key.
const KEY_ID: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";

/// The `Signature-Input` of a typical signature, created in the first second of 2025 and valid for an hour.
const USUAL: &str = r#"("@authority" "signature-agent";key="a");created=1735689600;expires=1735693200;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";alg="ed25519";nonce="bm9uY2U=";tag="web-bot-auth""#;
const USUAL_AGENT: &str = r#"a="https://agent.example.com""#;
const NOW: i64 = 1_735_689_700;

/// Verifies a request against known keys, and returns the key that signed it. If no signature is valid, the
/// error is that of the first one, or `None` if there is no signature.
fn verify<'a>(
    head: &Parts,
    origin: &SiteOrigin,
    keys: &'a [AgentKey],
    now: Timestamp,
) -> Result<&'a AgentKey, Option<SignatureError>> {
    let mut why = None;
    for claim in claims(head, origin) {
        match claim.and_then(|claim| claim.check_time(now).and_then(|()| claim.check_key(keys, now))) {
            Ok(key) => return Ok(key),
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    Err(why)
}

#[test]
fn the_examples_of_the_rfc_verify() {
    let rsa_pss = |input: &str, signature: &str| example(RSA, input, signature);
    // RFC 9421 appendix B.2.1 to B.2.3.
    rsa_pss(
        r#"();created=1618884473;keyid="test-key-rsa-pss";nonce="b3k2pp5k7z-50gnwp.yemd""#,
        "d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it++wgGxbtRxf8\
         Udx7zFZsckzXaJMk\
         A7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR72rgFWhzx2VjBqJzsPLMIQKhO4DGez\
         XehhWwE56YCE+O6c\
         0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8\
         K3+7EPYTU8IU1bLh\
         dxO5Nyt8C8ssinQ98Xw9Q==",
    );
    rsa_pss(
        r#"("@authority" "content-digest" "@query-param";name="Pet");created=1618884473;keyid="test-key-rsa-pss";tag="header-example""#,
        "LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDfKtjvuJyE5qH\
         7KT8UCMkSowOB4+E\
         CxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLEuEfY17SARYhpTlaqwZVtR8NV7+4UK\
         kjqpcAoFqWFQh62s\
         7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99PZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0R\
         oKUqiYY8Bh0aaUEb\
         0rQl3/XaVe4bXTugEjHSw==",
    );
    rsa_pss(
        r#"("date" "@method" "@path" "@query" "@authority" "content-type" "content-digest" "content-length");created=1618884473;keyid="test-key-rsa-pss""#,
        "bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeGt683+qRpRRU\
         5p2voTp768ZrCUb3\
         8K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLNmvKiLJH1pFkh/aYA2HXXZzNBXmIko\
         QoLd7YfW91kE9o/C\
         CoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Eim5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl\
         5ZJzSRxpJyoEZAFL\
         2FUo5fTIztsDZKEgM4cUA==",
    );
    // RFC 9421 appendix B.2.6.
    example(
        ED25519,
        r#"("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519""#,
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==",
    );
    // RFC 9421 appendix B.2.4 signs a response, so only its key and signature can be tested here.
    let base = "\"@status\": 200\n\"content-type\": application/json\n\"content-digest\": \
        sha-512=:mEWXIS7MaLRuGgxOBdODa3xqM1XdEvxoYhvlCFJ41QJgJc4GTsPp29l5oGX69wWdXymyU0rjJuahq4l5aGgfLQ==:\n\
        \"content-length\": 23\n\"@signature-params\": (\"@status\" \"content-type\" \"content-digest\" \
        \"content-length\");created=1618884473;keyid=\"test-key-ecc-p256\"";
    let signature =
        decode("wNmSUAhwb5LxtOtOpNa6W5xj067m5hFrj0XQ4fvpaCLx0NKocgPquLgyahnzDnDAUy5eCdlYUEkLIj+32oiasw==");
    assert_eq!(keys()[P256].verify(None, base.as_bytes(), &signature), Ok(()));
    assert_eq!(
        keys()[P256].verify(None, base.replace("200", "500").as_bytes(), &signature),
        Err(SignatureError::Signature)
    );
}

#[test]
fn the_examples_of_the_drafts_verify() {
    let nonce = "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==";
    // An earlier form, in which `Signature-Agent` is a string.
    draft(
        ED25519,
        Some(r#""https://signature-agent.test""#),
        &format!(
            r#"sig2=("@authority" "signature-agent");created=1735689600;keyid="{KEY_ID}";alg="ed25519";expires=1735693200;nonce="{nonce}";tag="web-bot-auth""#
        ),
        "jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==",
        Ok(()),
    );
    let nonce = "gubxywVx7hzbYKatLgzuKDllDAIXAkz41PydU7aOY7vT+Mb3GJNxW0qD4zJ+IOQ1NVtg+BNbTCRUMt1Ojr5BgA==";
    draft(
        ED25519,
        None,
        &format!(
            r#"sig1=("@authority");created=1735689600;keyid="{KEY_ID}";alg="ed25519";expires=1735693200;nonce="{nonce}";tag="web-bot-auth""#
        ),
        "uz2SAv+VIemw+Oo890bhYh6Xf5qZdLUgv6/PbiQfCFXcX/vt1A8Pf7OcgL2yUDUYXFtffNpkEr5W6dldqFrkDg==",
        Ok(()),
    );
    // The later form. These examples are valid for a hundred years, which is longer than the limit.
    let times = "created=1735689600";
    let rest = "expires=4889289600;nonce=";
    let agent = r#"agent2="https://signature-agent.test""#;
    let nonce = "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==";
    draft(
        ED25519,
        Some(agent),
        &format!(
            r#"sig2=("@authority" "signature-agent";key="agent2");{times};keyid="{KEY_ID}";alg="ed25519";{rest}"{nonce}";tag="web-bot-auth""#
        ),
        "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==",
        Err(SignatureError::Long),
    );
    let nonce = "wcfPQPh7SzkvrIVvhD00vNk9PkxJNY2NVbYl2PVBB4zmUoluSwE7W6bPtF60QA3k8g06FU7PPCD+J58YofY1zg==";
    draft(
        RSA,
        Some(agent),
        &format!(
            r#"sig2=("@authority" "signature-agent";key="agent2");{times};keyid="oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA";alg="rsa-pss-sha512";{rest}"{nonce}";tag="web-bot-auth""#
        ),
        "gHzpLNeHaHIO19NaJH9YMW5dcVSi2s0wOMBr6p18vcofS106sfC4KBIS0/szPlBBd1vIcyQ88B6CTEWIhRAiVrb9zfX\
         0mx1aG12CSGWcYkS\
         irHeyTxhbuJvXd27ed6skWoy4PjXItq38936ivUQjfdIwXh1aX6HxkAC3vRnEdSNfntkLWeEuIQ5BLIOBGE39fSwg27\
         Qjq6OVWYas/9/aFU\
         r3HA34MXWYdp+//cvlEKDp3kRoLOw9ro0AOr6srHrTeEtxon2afcws1aZVSlPdd2fZSEIGmw9HAHLDCEkFTERu1gH2k\
         /zIEqgy7CAYXI9E5\
         slog0cLg/Vc6+f8gih33g==",
        Err(SignatureError::Long),
    );
}

#[test]
fn a_signature_is_valid_from_a_minute_before_its_creation_to_its_expiry() {
    for (now, expected) in [
        (NOW, Ok(())),
        (1_735_689_540, Ok(())),
        (1_735_689_539, Err(Some(SignatureError::Early))),
        (1_735_693_199, Ok(())),
        (1_735_693_200, Err(Some(SignatureError::Expired))),
    ] {
        check_at(&signed(USUAL, USUAL_AGENT), now, expected);
    }
    for (expires, expected) in [
        ("1735776000", Ok(())),
        ("1735776001", Err(Some(SignatureError::Long))),
        ("1735689600", Err(Some(SignatureError::Expired))),
    ] {
        check(&signed(&USUAL.replace("1735693200", expires), USUAL_AGENT), expected);
    }
}

#[test]
fn every_component_that_is_covered_is_protected() {
    let everything = USUAL.replace(
        r#"("@authority" "#,
        r#"("@method" "@target-uri" "@authority" "@scheme" "@path" "@query" "@query-param";name="a" "@request-target" "content-type" "content-digest";key="sha-256" "x-bytes";bs "#,
    );
    let signed = |change: &dyn Fn(&mut Parts)| {
        let mut head = sign(
            Request::post("/api/contact?a=1&b=2")
                .header("content-type", "application/json")
                .header("content-digest", "sha-256=:AAAA:, sha-512=:BBBB:")
                .header("x-bytes", "a, b")
                .header("x-other", "1")
                .header("signature-agent", USUAL_AGENT),
            &everything,
        );
        change(&mut head);
        head
    };
    let set = |name: &'static str, value: &'static str| {
        move |head: &mut Parts| {
            head.headers.insert(name, value.parse().unwrap());
        }
    };
    let tampered = Err(Some(SignatureError::Signature));
    check(&signed(&|_| ()), Ok(()));
    check(&signed(&|head| head.method = http::Method::PUT), tampered);
    check(&signed(&|head| head.uri = "/api/waitlist?a=1&b=2".parse().unwrap()), tampered);
    check(&signed(&|head| head.uri = "/api/contact?a=1&b=3".parse().unwrap()), tampered);
    check(&signed(&|head| head.uri = "/api/contact?a=2&b=2".parse().unwrap()), tampered);
    check(&signed(&set("content-type", "text/plain")), tampered);
    check(&signed(&set("content-digest", "sha-256=:CCCC:, sha-512=:BBBB:")), tampered);
    check(&signed(&set("x-bytes", "a,b")), tampered);
    check(&signed(&set("signature-agent", r#"a="https://other.example.com""#)), tampered);
    for gone in ["content-type", "content-digest", "x-bytes"] {
        check(
            &signed(&|head| {
                head.headers.remove(gone);
            }),
            Err(Some(SignatureError::Components)),
        );
    }
    // Uncovered parts may change: another digest, another field, the host header.
    check(&signed(&set("content-digest", "sha-512=:CCCC:, sha-256=:AAAA:")), Ok(()));
    check(&signed(&set("x-other", "2")), Ok(()));
    check(&signed(&set("host", "elsewhere.example.com")), Ok(()));
    let mut twice = signed(&|_| ());
    twice.headers.append("content-type", "application/json".parse().unwrap());
    check(&twice, tampered);
}

#[test]
fn every_parameter_is_protected() {
    for (from, to) in [
        ("created=1735689600", "created=1735689601"),
        ("expires=1735693200", "expires=1735693201"),
        ("bm9uY2U=", "bm9uY2V="),
        (r#";alg="ed25519""#, ""),
        (r#""@authority" "#, r#""@authority" "@method" "#),
        (r#";tag="web"#, r#";more;tag="web"#),
        (r#""@authority" "signature-agent";key="a""#, r#""signature-agent";key="a" "@authority""#),
    ] {
        let mut head = signed(USUAL, USUAL_AGENT);
        let input = format!("sig1={}", USUAL.replace(from, to));
        assert_ne!(head.headers["signature-input"], input);
        head.headers.insert("signature-input", input.parse().unwrap());
        check(&head, Err(Some(SignatureError::Signature)));
    }
}

#[test]
fn a_signature_for_another_site_does_not_count() {
    let head = signed(USUAL, USUAL_AGENT);
    let elsewhere = SiteOrigin::from_url("https://www.example.org");
    assert_eq!(verify(&head, &elsewhere, &keys(), at(NOW)).err(), Some(Some(SignatureError::Signature)));
    let plain = SiteOrigin::from_url("http://www.example.com");
    assert!(verify(&head, &plain, &keys(), at(NOW)).is_ok(), "the scheme is not covered");
}

#[test]
fn a_signature_for_another_purpose_is_none() {
    for tag in
        ["", ";tag=web-bot-auth", r#";tag="other""#, r#";tag="web-bot-auth2""#, r#";tag="Web-Bot-Auth""#]
    {
        check(&signed(&USUAL.replace(r#";tag="web-bot-auth""#, tag), USUAL_AGENT), Err(None));
    }
    check(&Request::post("/").body(()).unwrap().into_parts().0, Err(None));
}

#[test]
fn missing_or_mistyped_parameters_are_malformed() {
    for (from, to) in [
        ("created=1735689600;", ""),
        ("created=1735689600", "created=1735689600.0"),
        ("created=1735689600", "created=\"1735689600\""),
        ("expires=1735693200;", ""),
        ("expires=1735693200", "expires=@1735693200"),
        ("keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";", ""),
        ("keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\"", "keyid=poqkLGiymh_W0uP6PZFw"),
        ("alg=\"ed25519\"", "alg=ed25519"),
        ("nonce=\"bm9uY2U=\"", "nonce=:bm9uY2U=:"),
    ] {
        check(&signed(&USUAL.replace(from, to), USUAL_AGENT), Err(Some(SignatureError::Malformed)));
    }
    for (name, value) in [
        ("signature-input", "sig1=("),
        ("signature-input", ""),
        ("signature", "sig1=AAAA"),
        ("signature", "sig2=:AAAA:"),
        ("signature", "sig1=:AAAA"),
        ("signature", "sig1=(:AAAA:)"),
    ] {
        let mut head = signed(USUAL, USUAL_AGENT);
        head.headers.insert(name, value.parse().unwrap());
        let expected = if value.is_empty() { None } else { Some(SignatureError::Malformed) };
        check(&head, Err(expected));
    }
}

#[test]
fn required_and_unsupported_components() {
    for (components, expected) in [
        (r#""@authority" "signature-agent";key="a""#, Ok(())),
        (r#""@target-uri" "signature-agent""#, Ok(())),
        (r#""@authority" "signature-agent";sf"#, Ok(())),
        (r#""@authority" "signature-agent";bs"#, Ok(())),
        (r#""@authority""#, Err(SignatureError::Components)),
        (r#""signature-agent";key="a""#, Err(SignatureError::Components)),
        (r#""@path" "signature-agent";key="a""#, Err(SignatureError::Components)),
        (r#""@authority" "signature-agent";key="b""#, Err(SignatureError::Components)),
        (r#""@authority" "signature-agent";key=a"#, Err(SignatureError::Components)),
        (r#""@authority";req "signature-agent";key="a""#, Err(SignatureError::Components)),
        (
            r#""@authority" "signature-agent";key="a" "signature-agent";key="a""#,
            Err(SignatureError::Components),
        ),
        (r#""@authority" "signature-agent";key="a" "x-missing""#, Err(SignatureError::Components)),
        (r#""@authority" "signature-agent";key="a";tr"#, Err(SignatureError::Components)),
        (r#""@authority" "signature-agent";key="a" "@status""#, Err(SignatureError::Components)),
    ] {
        let input = USUAL.replace(r#""@authority" "signature-agent";key="a""#, components);
        // Without a signature base nothing can be signed, so any signature will do.
        check(&signed(&input, USUAL_AGENT), expected.map_err(Some));
    }
}

#[test]
fn the_directory_is_the_one_that_is_covered() {
    let key = r#""@authority" "signature-agent";key="a""#;
    let whole = r#""@authority" "signature-agent""#;
    for (components, header, expected) in [
        (key, USUAL_AGENT, Ok("https://agent.example.com")),
        (key, r#"b="https://b.example.com", a="https://a.example.com";x"#, Ok("https://a.example.com")),
        (key, r#"a="https://a.example.com";type=directory"#, Ok("https://a.example.com")),
        (key, r#"a="https://a.example.com/jwks.json";type=jwks_uri"#, Err(SignatureError::Directory)),
        (key, r#"a="https://a.example.com/card";type="cimd""#, Err(SignatureError::Directory)),
        (key, "a", Err(SignatureError::Malformed)),
        (key, r#"a=("https://a.example.com")"#, Err(SignatureError::Malformed)),
        (key, r#""https://a.example.com""#, Err(SignatureError::Components)),
        (key, "a=", Err(SignatureError::Malformed)),
        (whole, r#""https://a.example.com""#, Ok("https://a.example.com")),
        (whole, r#"b="https://b.example.com""#, Ok("https://b.example.com")),
        (whole, r#"b="https://b.example.com", sig1="https://a.example.com""#, Ok("https://a.example.com")),
        (whole, r#"b="https://b.example.com", c="https://a.example.com""#, Err(SignatureError::Components)),
        (whole, "https://a.example.com", Err(SignatureError::Malformed)),
    ] {
        let head = signed(&USUAL.replace(key, components), header);
        let found = claims(&head, &origin()).remove(0).map(|claim| claim.directory);
        assert_eq!(found, expected.map(|text| Some(text.to_owned())), "{components} {header}");
    }
}

#[test]
fn an_algorithm_that_is_not_the_keys_is_refused() {
    for (algorithm, expected) in [
        (r#";alg="rsa-pss-sha512""#, Err(Some(SignatureError::Algorithm))),
        (r#";alg="ecdsa-p256-sha256""#, Err(Some(SignatureError::Algorithm))),
        (r#";alg="hmac-sha256""#, Err(Some(SignatureError::Algorithm))),
        (r#";alg="none""#, Err(Some(SignatureError::Algorithm))),
        (r#";alg="""#, Err(Some(SignatureError::Algorithm))),
        ("", Ok(())),
    ] {
        check(&signed(&USUAL.replace(r#";alg="ed25519""#, algorithm), USUAL_AGENT), expected);
    }
}

#[test]
fn a_missing_key_is_reported() {
    let other = USUAL.replace(KEY_ID, "oooooooooooooooooooooooooooooooooooooooooooo");
    check(&signed(&other, USUAL_AGENT), Err(Some(SignatureError::Key)));
    let head = signed(USUAL, USUAL_AGENT);
    assert_eq!(verify(&head, &origin(), &[], at(NOW)).err(), Some(Some(SignatureError::Key)));
    let over = KEYS.replace(r#""crv":"Ed25519""#, r#""crv":"Ed25519","exp":1735689650"#);
    let over = AgentKey::read_set(over.as_bytes()).unwrap();
    assert_eq!(verify(&head, &origin(), &over, at(NOW)).err(), Some(Some(SignatureError::Key)));
}

#[test]
fn of_several_signatures_one_that_counts_is_enough() {
    let mut head = signed(USUAL, USUAL_AGENT);
    let input = |head: &Parts| head.headers["signature-input"].to_str().unwrap().to_owned();
    let with = |inputs: &[&str]| format!("{}, {}", inputs.join(", "), input(&head)).parse().unwrap();
    let bad = r#"bad=();tag="web-bot-auth""#;
    let good: http::HeaderValue = with(&[bad, "proxy=();tag=\"other\"", "x=1"]);
    let too_many: http::HeaderValue = with(&[bad, &bad.replace("bad", "b"), &bad.replace("bad", "c")]);
    head.headers.insert("signature-input", good);
    check(&head, Ok(()));
    head.headers.insert("signature-input", too_many);
    check(&head, Err(Some(SignatureError::Malformed)));
}

#[test]
fn each_of_several_signatures_is_verified_on_its_own() {
    // A browser signs the request of an agent with the agent's signature (draft appendix D.2).
    let agents = format!(r#"{USUAL_AGENT}, browser="https://browser.example.com""#);
    let inner = signed(USUAL, &agents);
    let covered = r#""@authority" "signature-agent";key="browser" "signature-agent";key="a" "signature-input";key="sig1" "signature";key="sig1""#;
    let input = USUAL.replace(r#""@authority" "signature-agent";key="a""#, covered);
    let base = signature_base(&inner, &origin(), &inner_list(&input)).unwrap();
    let seed = URL_SAFE_NO_PAD.decode(SEED).unwrap();
    let signature = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap().sign(&base);
    let mut head = inner.clone();
    for (name, value) in
        [("signature-input", input), ("signature", format!(":{}:", STANDARD.encode(signature)))]
    {
        let both = format!("{}, browser={value}", inner.headers[name].to_str().unwrap());
        head.headers.insert(name, both.parse().unwrap());
    }
    let check = |head: &Parts| {
        let claims = claims(head, &origin()).into_iter();
        let check = |claim: Claim| {
            (
                claim.directory.clone().unwrap(),
                claim.check_key(&keys(), at(NOW)).map(|key| key.id().to_owned()),
            )
        };
        claims.map(|claim| claim.map(check)).collect::<Vec<_>>()
    };
    let (agent, browser) = ("https://agent.example.com".to_owned(), "https://browser.example.com".to_owned());
    let valid = || Ok(KEY_ID.to_owned());
    assert_eq!(check(&head), [Ok((agent.clone(), valid())), Ok((browser.clone(), valid()))]);
    // A changed inner signature invalidates the outer one.
    let changed = head.headers["signature"].to_str().unwrap().replacen("sig1=:", "sig1=:AAAA", 1);
    head.headers.insert("signature", changed.parse().unwrap());
    let invalid = || Err(SignatureError::Signature);
    assert_eq!(check(&head), [Ok((agent, invalid())), Ok((browser, invalid()))]);
}

#[test]
fn each_algorithm_signs_and_is_verified() {
    let random = SystemRandom::new();
    let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = p256.public_key().as_ref();
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
    let rsa = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    // In PKCS #1, nine bytes of tags, lengths and sign precede the modulus of 2,048 bits.
    let n = encode(&rsa.public_key().as_ref()[9..265]);
    let set = format!(
        r#"{{"keys":[{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}},{{"kty":"RSA","n":"{n}","e":"AQAB"}}]}}"#
    );
    let keys = AgentKey::read_set(set.as_bytes()).unwrap();
    let [p256_key, rsa_key] = &keys[..] else { panic!("{keys:?}") };
    let with_rsa = |padding: &'static dyn aws_lc_rs::signature::RsaEncoding, base: &[u8]| {
        let mut signature = vec![0; rsa.public_modulus_len()];
        rsa.sign(padding, &random, base, &mut signature).unwrap();
        signature
    };
    let ecdsa = |base: &[u8]| p256.sign(&random, base).unwrap().as_ref().to_vec();
    let pss = |base: &[u8]| with_rsa(&RSA_PSS_SHA512, base);
    let pkcs1 = |base: &[u8]| with_rsa(&RSA_PKCS1_SHA256, base);
    let count = |key: &AgentKey, algorithm: &str, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
        let input = USUAL.replace(KEY_ID, key.id()).replace(";alg=\"ed25519\"", algorithm);
        let head = sign_with(usual_request(USUAL_AGENT), &input, sign);
        verify(&head, &origin(), &keys, at(NOW)).map(|_| ()).map_err(Option::unwrap)
    };
    assert_eq!(count(p256_key, ";alg=\"ecdsa-p256-sha256\"", &ecdsa), Ok(()));
    assert_eq!(count(p256_key, "", &ecdsa), Ok(()));
    assert_eq!(count(rsa_key, ";alg=\"rsa-pss-sha512\"", &pss), Ok(()));
    assert_eq!(count(rsa_key, "", &pss), Ok(()));
    assert_eq!(count(rsa_key, ";alg=\"rsa-v1_5-sha256\"", &pkcs1), Ok(()));
    assert_eq!(count(rsa_key, "", &pkcs1), Err(SignatureError::Signature));
    assert_eq!(count(rsa_key, ";alg=\"rsa-v1_5-sha256\"", &pss), Err(SignatureError::Signature));
    assert_eq!(count(p256_key, ";alg=\"rsa-pss-sha512\"", &pss), Err(SignatureError::Algorithm));
}

#[test]
fn a_second_ecdsa_signature_made_of_the_first_is_the_same_one() {
    // The order of the P-256 group (FIPS 186-5). If (r, s) is a valid signature, so is (r, order - s).
    const ORDER: [u8; 32] = [
        0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc, 0xe6, 0xfa,
        0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
    ];
    let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = p256.public_key().as_ref();
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
    let set = format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}}]}}"#);
    let keys = AgentKey::read_set(set.as_bytes()).unwrap();
    let input = USUAL.replace(KEY_ID, keys[0].id()).replace(r#";alg="ed25519";nonce="bm9uY2U=""#, "");
    let claim = |sign: &dyn Fn(&[u8]) -> Vec<u8>| {
        let head = sign_with(usual_request(USUAL_AGENT), &input, sign);
        let claim = claims(&head, &origin()).remove(0).unwrap();
        assert!(claim.check_key(&keys, at(NOW)).is_ok(), "{input}");
        claim
    };
    let sign = |base: &[u8]| p256.sign(&SystemRandom::new(), base).unwrap().as_ref().to_vec();
    let first = claim(&sign);
    let mut second = first.signature.clone();
    let mut borrow = 0;
    for at in (0..32).rev() {
        let difference = i32::from(ORDER[at]) - i32::from(second[32 + at]) - borrow;
        borrow = i32::from(difference < 0);
        second[32 + at] = u8::try_from(difference.rem_euclid(256)).unwrap();
    }
    let second = claim(&|_| second.clone());
    assert_ne!(first.signature, second.signature);
    assert_eq!(first.identity(), second.identity());
    // A second signature by the agent over the same text is different.
    assert_ne!(first.identity(), claim(&sign).identity());
}

/// Checks an example from RFC 9421 appendix B.2, which signs the request in that appendix with one of its
/// keys.
fn example(key: usize, input: &str, signature: &str) {
    let head = Request::post("/foo?param=Value&Pet=dog")
        .header("host", "example.com")
        .header("date", "Tue, 20 Apr 2021 02:07:55 GMT")
        .header("content-type", "application/json")
        .header(
            "content-digest",
            "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:",
        )
        .header("content-length", "18")
        .body(())
        .unwrap()
        .into_parts()
        .0;
    let base = |site: &str| signature_base(&head, &SiteOrigin::from_url(site), &inner_list(input)).unwrap();
    let verified = |base: &[u8]| keys()[key].verify(None, base, &decode(signature));
    assert_eq!(verified(&base("https://example.com")), Ok(()), "{input}");
    if input.contains("@authority") {
        assert_eq!(verified(&base("https://example.org")), Err(SignatureError::Signature), "{input}");
    }
}

/// Checks an example from the drafts. Its signature is valid; `time` is the expected result for its validity
/// period.
fn draft(key: usize, agent: Option<&str>, input: &str, signature: &str, time: Result<(), SignatureError>) {
    let label = input.split_once('=').unwrap().0;
    let mut request = Request::get("/path/to/resource")
        .header("signature-input", input)
        .header("signature", format!("{label}=:{}:", signature.replace(' ', "")));
    if let Some(agent) = agent {
        request = request.header("signature-agent", agent);
    }
    let head = request.body(()).unwrap().into_parts().0;
    let claim = claims(&head, &SiteOrigin::from_url("https://example.com")).remove(0).unwrap();
    assert_eq!(claim.check_key(&keys(), at(NOW)).map(AgentKey::id), Ok(keys()[key].id()), "{input}");
    assert_eq!(claim.check_time(at(NOW)), time, "{input}");
    assert_eq!(claim.directory.is_some(), agent.is_some());
}

fn check(head: &Parts, expected: Result<(), Option<SignatureError>>) {
    check_at(head, NOW, expected);
}

fn check_at(head: &Parts, now: i64, expected: Result<(), Option<SignatureError>>) {
    let found = verify(head, &origin(), &keys(), at(now)).map(|key| assert_eq!(key.id(), KEY_ID));
    assert_eq!(found, expected, "{:?} at {now}", head.headers);
}

fn signed(input: &str, agent: &str) -> Parts {
    sign(usual_request(agent), input)
}

fn usual_request(agent: &str) -> Builder {
    Request::post("/api/contact").header("host", "www.example.com").header("signature-agent", agent)
}

fn sign(request: Builder, input: &str) -> Parts {
    let seed = URL_SAFE_NO_PAD.decode(SEED).unwrap();
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    sign_with(request, input, &|base| pair.sign(base).as_ref().to_vec())
}

/// Signs a request. If the signature base cannot be derived, signs an empty one.
fn sign_with(request: Builder, input: &str, sign: &dyn Fn(&[u8]) -> Vec<u8>) -> Parts {
    let mut head = request.body(()).unwrap().into_parts().0;
    let base = signature_base(&head, &origin(), &inner_list(input)).unwrap_or_default();
    let signature = format!("sig1=:{}:", STANDARD.encode(sign(&base)));
    head.headers.insert("signature-input", format!("sig1={input}").parse().unwrap());
    head.headers.insert("signature", signature.parse().unwrap());
    head
}

fn inner_list(text: &str) -> InnerList {
    let list: sfv::List = Parser::new(text).parse().unwrap();
    let [ListEntry::InnerList(inner)] = &list[..] else { panic!("{text}") };
    inner.clone()
}

fn decode(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64.replace(' ', "")).unwrap()
}

fn keys() -> Vec<AgentKey> {
    AgentKey::read_set(KEYS.as_bytes()).unwrap()
}

fn origin() -> SiteOrigin {
    SiteOrigin::from_url("https://www.example.com")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
