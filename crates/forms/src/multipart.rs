//! Reads `multipart/form-data` bodies (RFC 7578), which browsers send for forms with a field for files, and
//! for a `FormData` object of a script.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use encodify::qp;
use encoding_rs::{Encoding, ISO_2022_JP};
use memchr::memmem;

/// Decodes Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One part of a `multipart/form-data` body: the name and the value of a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub name: &'a [u8],
    /// The value. Its transfer encoding and `charset` are decoded, unless the part is a file.
    pub value: Cow<'a, [u8]>,
    /// Whether the value was converted to UTF-8 from the encoding that its `charset` names.
    pub is_converted: bool,
    /// Whether the part is a file that the visitor selected. A field for files without a selection is an
    /// empty text.
    pub is_file: bool,
}

/// The value of the first parameter with this name, regardless of case, of a media type or of
/// `Content-Disposition`. White space at the ends of the value and quotation marks around it are removed.
/// Quotation marks in names and values are written as `%22`, as browsers do, so a quoted value ends at the
/// next one. It must begin directly after the `=`.
pub fn parameter<'a>(header: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let mut rest = &header[memchr::memchr(b';', header)? + 1..];
    loop {
        let name = rest.split(|byte| *byte == b'=').next()?;
        let value = rest.get(name.len() + 1..)?;
        let (value, after) = match value.strip_prefix(b"\"") {
            Some(quoted) => quoted.split_at(memchr::memchr(b'"', quoted).unwrap_or(quoted.len())),
            None => value.split_at(memchr::memchr(b';', value).unwrap_or(value.len())),
        };
        // Drop a preceding parameter without a value: in `a; name="b"`, the name begins after the semicolon.
        let name = name.rsplit(|byte| *byte == b';').next().unwrap_or_default();
        if name.trim_ascii().eq_ignore_ascii_case(wanted) {
            return Some(value.trim_ascii());
        }
        rest = &after[memchr::memchr(b';', after)? + 1..];
    }
}

/// The parts of a body, in their order. Skips text before the first delimiter and after the closing one, and
/// parts without a name or without the empty line before the value. The last part may end without a
/// delimiter. Lines may end without a carriage return.
pub(super) fn parts<'a>(body: &'a [u8], boundary: &[u8]) -> Vec<Part<'a>> {
    let delimiter = [b"--", boundary].concat();
    let finder = memmem::Finder::new(&delimiter);
    // A delimiter is followed by optional blanks and a line break, or, after the last part, by `--`.
    let is_end_of_line = |at: usize| {
        let rest = &body[at..];
        let after = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
        rest.starts_with(b"--") || after.is_none_or(|byte| matches!(byte, b'\r' | b'\n'))
    };
    let starts = finder.find_iter(body).filter(|at| *at == 0 || body[at - 1] == b'\n');
    let starts = starts.filter(|at| is_end_of_line(at + delimiter.len()));
    let mut parts = Vec::new();
    let mut begin = None;
    for at in starts.chain([body.len()]) {
        if let Some(begin) = begin {
            parts.extend(read_part(&body[begin..at]));
        }
        let after = at + delimiter.len();
        if body.get(after..).is_none_or(|rest| rest.starts_with(b"--")) {
            break;
        }
        begin = Some(after);
    }
    parts
}

/// Reads the text between two delimiters: the rest of the line, headers, an empty line and the value. `None`
/// if it has no name, or no empty line. A part with a file name and a value is a file, whose value stays
/// encoded. Of several headers with the same name, the last one counts.
fn read_part(text: &[u8]) -> Option<Part<'_>> {
    let mut rest = &text[memchr::memchr(b'\n', text)? + 1..];
    let mut part = None;
    let (mut transfer_encoding, mut charset) = (&b""[..], None);
    loop {
        let end = memchr::memchr(b'\n', rest)?;
        let (line, after) = (rest[..end].trim_ascii_end(), &rest[end + 1..]);
        rest = after;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_at(memchr::memchr(b':', line).unwrap_or(line.len()));
        if name.eq_ignore_ascii_case(b"content-disposition") {
            let is_file =
                ["filename", "filename*"].iter().any(|name| parameter(value, name.as_bytes()).is_some());
            part = parameter(value, b"name").map(|name| (name, is_file));
        } else if name.eq_ignore_ascii_case(b"content-transfer-encoding") {
            transfer_encoding = value.get(1..).unwrap_or_default().trim_ascii();
        } else if name.eq_ignore_ascii_case(b"content-type") {
            charset = parameter(value, b"charset");
        }
    }
    let (name, is_file) = part?;
    let value = rest.strip_suffix(b"\n").unwrap_or(rest);
    let value = value.strip_suffix(b"\r").unwrap_or(value);
    let is_file = is_file && !value.is_empty();
    let (value, is_converted) =
        if is_file { (value.into(), false) } else { decode_text(value, transfer_encoding, charset) };
    Some(Part { name, value, is_converted, is_file })
}

/// Decodes a text that is quoted-printable or Base64 (RFC 7578 §4.7), and converts it to UTF-8 if it is valid
/// in the encoding that its `charset` names, and this is ISO-2022-JP, or the text is not UTF-8 or contains a
/// null byte. Drops a byte order mark if it converts the text. Leaves other texts unchanged, also malformed
/// Base64. In a quoted-printable text, stray equals signs stay; carriage returns that end no line, an equals
/// sign at the end, and blanks at the ends of lines are dropped. Returns also whether it converted the text.
fn decode_text<'a>(
    value: &'a [u8],
    transfer_encoding: &[u8],
    charset: Option<&[u8]>,
) -> (Cow<'a, [u8]>, bool) {
    let value = if transfer_encoding.eq_ignore_ascii_case(b"quoted-printable") {
        // Decoding with the options of `BODY` never fails.
        qp::BODY.decode(value).unwrap_or_else(|_| value.into())
    } else if transfer_encoding.eq_ignore_ascii_case(b"base64") {
        let text: Vec<u8> = value.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        BASE64.decode(text).map_or(value.into(), Cow::from)
    } else {
        Cow::from(value)
    };
    // Text in ISO-2022-JP consists of ASCII bytes, so it is always valid UTF-8, too. English text in UTF-16
    // is also valid UTF-8, but every other byte is null.
    let is_other = |encoding: &&'static Encoding| {
        *encoding == ISO_2022_JP || value.contains(&0) || str::from_utf8(&value).is_err()
    };
    let converted = charset.and_then(Encoding::for_label).filter(is_other).and_then(|encoding| {
        let (text, has_errors) = encoding.decode_with_bom_removal(&value);
        (!has_errors).then(|| text.into_owned().into_bytes())
    });
    let is_converted = converted.is_some();
    (converted.map_or(value, Cow::from), is_converted)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(body: &str) -> Vec<(String, String, bool)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        parts(body.as_bytes(), b"x")
            .iter()
            .map(|part| (text(part.name), text(&part.value), part.is_file))
            .collect()
    }

    #[test]
    fn parts_are_read_as_clients_write_them() {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned(), false);
        for (body, expected) in [
            (
                "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\ntwo\r\n--x--\r\n",
                vec![field("a", "one\r\ntwo")],
            ),
            (
                "preamble\r\n--x  \r\ncontent-disposition:form-data;name=a\r\nContent-Type: text/plain; name=c\r\n\r\n\r\n--x\r\n\
                 Content-Disposition: form-data; name=\"b\"\r\n\r\n--xy\r\n--x--\r\n--x\r\nContent-Disposition: form-data; name=c\r\n\r\n",
                vec![field("a", ""), field("b", "--xy")],
            ),
            (
                "--x\nContent-Disposition: form-data; name=\"a;b=c\"\n\n1 --x\n--x--",
                vec![field("a;b=c", "1 --x")],
            ),
            ("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nno end", vec![field("a", "no end")]),
            ("--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--", vec![]),
            ("--x\r\nContent-Disposition: form-data; name=a", vec![]),
            ("--x--", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(texts(body), expected, "{body}");
        }
        let file = |name: &str, value: &str| {
            format!("--x\r\nContent-Disposition: form-data; name=\"f\"; {name}\r\n\r\n{value}\r\n--x--")
        };
        for (body, is_file) in [
            (file("filename=\"\"", ""), false),
            (file("filename=\"a; b.pdf\"", "1"), true),
            (file("FileName*=UTF-8''a.pdf", "1"), true),
        ] {
            assert_eq!(texts(&body)[0].2, is_file, "{body}");
        }
    }

    #[test]
    fn encoded_texts_are_decoded() {
        let part = |headers: &str, value: &[u8]| {
            let head = format!("--x\r\nContent-Disposition: form-data; name=a\r\n{headers}\r\n\r\n");
            let body = [head.as_bytes(), value, b"\r\n--x--"].concat();
            String::from_utf8(parts(&body, b"x")[0].value.to_vec()).unwrap_or_else(|_| "not UTF-8".to_owned())
        };
        let quoted = "Content-Transfer-Encoding: Quoted-Printable";
        let base64 = "content-transfer-encoding:base64";
        let latin = "Content-Type: text/plain; charset=ISO-8859-1";
        for (headers, value, expected) in [
            (quoted, &b"Joe owes =E2=82=AC100."[..], "Joe owes €100."),
            (quoted, b"one =\r\ntwo\r\n3=3d=3", "one two\r\n3==3"),
            (quoted, b"=+1=x1=", "=+1=x1"),
            (quoted, b"one = \r\ntwo \r\nthree", "one two\r\nthree"),
            (quoted, b"one\rtwo \t\nthree ", "onetwo\nthree"),
            (base64, b"Sm9lIG93ZXMg\r\n4oKsMTAwLg==", "Joe owes €100."),
            (base64, b"4oKs", "€"),
            (base64, b"not Base64!", "not Base64!"),
            ("Content-Transfer-Encoding: 8bit", b"=3D", "=3D"),
            (latin, b"Andr\xe9", "André"),
            (latin, "André".as_bytes(), "André"),
            ("Content-Type: text/plain; charset=ISO-2022-JP", b"\x1b$BF|\x1b(B", "日"),
            ("Content-Type: text/plain; charset=ISO-2022-JP", "日".as_bytes(), "日"),
            ("Content-Type: text/plain; charset=UTF-16LE", b"\xff\xfeA\0", "A"),
            ("Content-Type: text/plain; charset=UTF-16LE", b"A\0d\0a\0", "Ada"),
            ("Content-Type: text/plain; charset=UTF-16BE", b"\0A\0d\0a", "Ada"),
            // Clients that name another encoding often send UTF-8.
            ("Content-Type: text/plain; charset=UTF-16LE", b"Andrea", "Andrea"),
            (&format!("{latin}\r\n{quoted}"), b"Andr=E9", "André"),
            ("Content-Type: text/plain", b"Andr\xe9", "not UTF-8"),
        ] {
            assert_eq!(part(headers, value), expected, "{headers}");
        }
    }

    #[test]
    fn parameters_are_read_with_and_without_quotation_marks() {
        for (header, expected) in [
            ("multipart/form-data; boundary=x", Some("x")),
            ("multipart/form-data;BOUNDARY=\"a;b\" ; charset=utf-8", Some("a;b")),
            ("multipart/form-data; charset=\"boundary=y\"; flag; boundary = x ;", Some("x")),
            ("multipart/form-data; boundary=\"x", Some("x")),
            ("multipart/form-data; boundary=", Some("")),
            ("multipart/form-data", None),
            ("boundary=x", None),
            (";", None),
        ] {
            assert_eq!(parameter(header.as_bytes(), b"boundary"), expected.map(str::as_bytes), "{header}");
        }
    }

    proptest! {
        #[test]
        fn values_are_found_in_any_surroundings(value in "(?s)[^x]{0,40}", before in "[^x]{0,20}") {
            let body = format!("{before}\r\n--x\r\nContent-Disposition: form-data; name=a\r\n\r\n{value}\r\n--x--");
            prop_assert_eq!(texts(&body), [("a".to_owned(), value, false)]);
        }

        #[test]
        fn any_bytes_are_read(body in proptest::collection::vec(prop_oneof![Just(b'-'), Just(b'x'), Just(b'\n'), Just(b';'), Just(b'='), Just(b'"'), any::<u8>()], 0..80)) {
            let _ = parts(&body, b"x");
            let _ = parameter(&body, b"boundary");
        }
    }
}
