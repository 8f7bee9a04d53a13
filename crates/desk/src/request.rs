//! Reads the parts of a request: parameters of the URL, fields of a form, and cookies.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_TYPE, COOKIE};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use frontdesk_http::RequestBody;

/// Maximum length of a form, in bytes: a note of 4,000 characters, each percent-encoded, and many ids.
const MAX_BODY: usize = 128 * 1024;
/// How long a client may take to send a form.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of parameters; further ones are ignored.
const MAX_PAIRS: usize = 2000;

/// The characters to percent-encode: all except unreserved characters (RFC 3986 §2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Decoded parameters in their original order.
#[derive(Debug, Default)]
pub(super) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Decodes `application/x-www-form-urlencoded` (URL Standard §5.1). Replaces invalid UTF-8, and
    /// ignores parameters beyond [`MAX_PAIRS`].
    pub(super) fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).take(MAX_PAIRS).map(|(a, b)| (a.into(), b.into())).collect())
    }

    /// The first parameter with this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Encodes parameters for a URL.
pub(super) fn encode_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.into_iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Percent-encodes everything except unreserved characters.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Reads a URL-encoded form. `None` for another media type, or if the form is too long, too slow or broken.
pub(super) async fn read_form(headers: &HeaderMap, body: &mut RequestBody) -> Option<Pairs> {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return None;
    }
    let (bytes, _charge) = body.read(headers, MAX_BODY, BODY_TIMEOUT).await.ok()?;
    Some(Pairs::parse(&bytes))
}

/// The value of a cookie. `None` if it is missing, occurs twice or is not UTF-8.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // Cookies of other sites in the domain may contain any bytes, so compare bytes instead of text.
    let pairs = headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let mut values = pairs.filter_map(|pair| {
        let pair = pair.trim_ascii();
        let at = pair.iter().position(|byte| *byte == b'=')?;
        (pair[..at] == *name.as_bytes()).then_some(&pair[at + 1..])
    });
    let value = values.next()?;
    if values.next().is_some() { None } else { str::from_utf8(value).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let pairs = Pairs::parse(b"a=1&b=x+y%20z&&c&a=2&d=%E4%BD%A0%&e=%zz%4&f=%ff=");
        let found: Vec<_> = pairs.iter().collect();
        assert_eq!(
            found,
            [
                ("a", "1"),
                ("b", "x y z"),
                ("c", ""),
                ("a", "2"),
                ("d", "你%"),
                ("e", "%zz%4"),
                ("f", "\u{fffd}=")
            ]
        );
        assert_eq!((pairs.get("a"), pairs.get("z")), (Some("1"), None));
        assert_eq!(pairs.all("a").count(), 2);
        assert_eq!(Pairs::parse("a=1&".repeat(9999).as_bytes()).0.len(), MAX_PAIRS);
    }

    #[test]
    fn encoded_parameters_are_decoded_to_the_same() {
        let text = "Ada & Co=100%+ü/?#\"<>\r\n";
        let encoded = encode_pairs([("q", text), ("b", "")]);
        assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%=&-._~".contains(&byte)));
        let pairs = Pairs::parse(encoded.as_bytes());
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("q", text), ("b", "")]);
    }

    #[test]
    fn a_cookie_that_occurs_twice_is_ignored() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; b=2;c=3".parse().unwrap());
        assert_eq!(
            (cookie(&headers, "b"), cookie(&headers, "c"), cookie(&headers, "d")),
            (Some("2"), Some("3"), None)
        );
        headers.append(COOKIE, "b=4".parse().unwrap());
        assert_eq!(cookie(&headers, "b"), None);
    }
}
