//! Fuzzes the path of a request: accepted paths are normalized and stay inside the site.

#![no_main]

use frontdesk_site::path::{decode, encode, resolve_relative, twin_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (path, relative) = input.split_once('\n').unwrap_or((input, ""));

    if let Ok(decoded) = decode(path) {
        assert_plain(&decoded);
        assert!(decoded.len() <= path.len(), "decoding never makes a path longer");

        let encoded = encode(&decoded);
        assert!(
            encoded.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte)),
            "safe in links and headers: {encoded}"
        );
        assert_eq!(decode(&encoded).as_deref(), Ok(&*decoded), "encoding and decoding are inverse");

        let markdown = twin_path(&decoded);
        assert!(markdown.starts_with('/') && markdown.ends_with(".md"), "{markdown}");

        assert_inside(&resolve_relative(&decoded, relative));
    }
    assert_inside(&resolve_relative("/blog/a-post/", input));
    assert_inside(&resolve_relative("/", input));
});

fn assert_plain(path: &str) {
    assert!(!path.contains(['\\', '\0', '\r', '\n']), "{path:?}");
    assert!(!path.contains(char::is_control), "{path:?}");
    assert_inside(path);
    assert!(!path.contains("//"), "{path:?}");
}

/// Asserts that a path begins at the root and has no dot segments.
fn assert_inside(path: &str) {
    assert!(path.starts_with('/'), "{path:?}");
    assert!(path.split('/').all(|segment| segment != "." && segment != ".."), "{path:?}");
}
