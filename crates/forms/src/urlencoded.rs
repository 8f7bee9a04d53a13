//! Decodes names and values in `application/x-www-form-urlencoded` (URL Standard §5.1): bodies and queries.

use std::string::FromUtf8Error;

use percent_encoding::percent_decode;

/// A name or a value from a form body or query, still percent-encoded.
#[derive(Clone, Copy)]
pub(crate) struct Encoded<'a>(&'a [u8]);

impl Encoded<'_> {
    /// Decodes `+` and `%XX`. Leaves other percent signs unchanged.
    pub(crate) fn decode_bytes(self) -> Vec<u8> {
        let spaced: Vec<u8> = self.0.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        percent_decode(&spaced).collect()
    }

    /// Like [`Self::decode_bytes`], but returns a string. Fails if the bytes are not UTF-8.
    pub(crate) fn decode(self) -> Result<String, FromUtf8Error> {
        String::from_utf8(self.decode_bytes())
    }
}

/// The names and values in a body or a query, in their order. Skips empty pairs; without `=`, the value is
/// empty.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = (Encoded<'_>, Encoded<'_>)> {
    text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (Encoded(&pair[..at]), Encoded(pair.get(at + 1..).unwrap_or_default()))
    })
}

/// The decoded value of the first parameter with this name in a query. `None` if there is none, or if the
/// value is not UTF-8.
pub fn parameter(query: &str, wanted: &str) -> Option<String> {
    let (_, value) = pairs(query.as_bytes()).find(|(name, _)| name.decode_bytes() == wanted.as_bytes())?;
    value.decode().ok()
}
