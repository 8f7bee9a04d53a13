//! Decodes HTML files in the encodings that browsers choose.

use std::borrow::Cow;

use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, WINDOWS_1252};

/// The text of an HTML file, and its media type. A file that is not UTF-8, or declares ISO-2022-JP, has the
/// encoding that it declares, or else Windows-1252. Its media type has no `charset`, so that browsers choose
/// the same encoding. Invalid bytes become U+FFFD.
pub fn decode_html(bytes: &[u8]) -> (Cow<'_, str>, &'static str) {
    let start = &bytes[..bytes.len().min(1024)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let label = start.split_once("charset=").map(|(_, label)| label.trim_start_matches(['"', '\'']));
    // The encoding in an XML declaration applies if no `<meta>` declares one (HTML §13.2.3.2).
    let xml = start.trim_start().strip_prefix("<?xml").and_then(|xml| xml.split_once("?>"));
    let xml = xml.and_then(|(xml, _)| xml.split_once("encoding")).map(|(_, label)| {
        label.trim_start().trim_start_matches('=').trim_start().trim_start_matches(['"', '\''])
    });
    let label = label.or(xml).and_then(|label| label.split(['"', '\'', ' ', '>', ';', '/']).next());
    let declared = label.and_then(|label| Encoding::for_label(label.as_bytes()));
    // A file whose declaration is readable as ASCII is not UTF-16, even if it declares UTF-16: assume UTF-8.
    let declared = declared.map(|encoding| if encoding.is_ascii_compatible() { encoding } else { UTF_8 });
    match std::str::from_utf8(bytes) {
        Ok(text) if declared != Some(ISO_2022_JP) => (text.into(), "text/html; charset=utf-8"),
        // Browsers decode a file without a declared encoding as Windows-1252.
        _ => (declared.unwrap_or(WINDOWS_1252).decode(bytes).0, "text/html"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_that_browsers_choose() {
        for (html, expected) in [
            (&b"<?xml version='1.0' encoding='iso-8859-2'?><title>\xb1</title>"[..], "\u{105}"),
            (b"<?xml version=\"1.0\" encoding = \"iso-8859-2\" ?><meta charset=iso-8859-1>\xb1", "\u{b1}"),
            (b"<title>\x80 \xfc</title>", "\u{20ac} \u{fc}"),
            (b"<meta charset=utf-8>\xfc", "\u{fffd}"),
            (b"<meta charset=utf-16>\xfc", "\u{fffd}"),
            ("<?xml version='1.0' encoding='iso-8859-2'?>\u{fc}".as_bytes(), "\u{fc}"),
            (b"\xff\xfea\0", "a"),
        ] {
            let (text, _) = decode_html(html);
            assert!(text.contains(expected), "{text}");
        }
    }
}
