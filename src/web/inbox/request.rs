//! Reads the parts of a request: parameters of the URL, fields of a form, and cookies.

use std::time::Duration;

use http::HeaderMap;
use http::header::{CONTENT_TYPE, COOKIE};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

/// Maximum length of a form, in bytes: a note of 4,000 characters, each percent-encoded, and many ids.
const MAX_BODY: usize = 128 * 1024;
/// How long a client may take to send a form.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of parameters.
const MAX_PAIRS: usize = 2000;

/// Decoded parameters in their order.
#[derive(Debug, Default)]
pub(super) struct Pairs(Vec<(String, String)>);

impl Pairs {
    /// Decodes `application/x-www-form-urlencoded` (URL Standard §5.1).
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).take(MAX_PAIRS);
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self(decoded.collect())
    }

    /// The first parameter with this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
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

/// Percent-encodes everything except unreserved characters (RFC 3986 §2.3).
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        match (*first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = &after[2..];
            }
            (b'+', ..) => bytes.push(b' '),
            (byte, ..) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Reads a form of limited size. `None` if it is too long, too slow, broken or of another type.
pub(super) async fn read_form(headers: &HeaderMap, body: Incoming) -> Option<Pairs> {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return None;
    }
    let read = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await;
    let bytes = read.ok()?.ok()?.to_bytes();
    Some(Pairs::parse(std::str::from_utf8(&bytes).ok()?))
}

/// The value of a cookie. `None` if it is missing or occurs twice.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut values = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(found, _)| *found == name)
        .map(|(_, value)| value);
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let pairs = Pairs::parse("a=1&b=x+y%20z&&c&a=2&d=%E4%BD%A0%&e=%zz%4&f=%ff=");
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
        assert_eq!(Pairs::parse(&"a=1&".repeat(9999)).0.len(), MAX_PAIRS);
    }

    #[test]
    fn encoded_parameters_are_decoded_to_the_same() {
        let text = "Ada & Co=100%+ü/?#\"<>\r\n";
        let encoded = encode_pairs([("q", text), ("b", "")]);
        assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%=&-._~".contains(&byte)));
        let pairs = Pairs::parse(&encoded);
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
