//! A request of the audit and its response: the evidence of every finding.

use std::borrow::Cow;
use std::io::{self, Read as _};
use std::time::Duration;

use encoding_rs::{Encoding, UTF_8};
use flate2::{bufread::GzDecoder, read::MultiGzDecoder};
use frontdesk_convert::{Url, decode_html};
use frontdesk_fetch::FetchResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

/// Maximum length of a response body in bytes, as sent and after decoding. Longer bodies are truncated.
pub(crate) const MAX_BODY: usize = 2 << 20;

/// The start of a cache-busting query, which is unique and makes a URL unknown to all caches. Hexadecimal
/// digits follow.
pub(crate) const FRESH_QUERY: &str = "frontdesk-audit=";

/// Returns the text without the cache-busting queries that the audit adds to URLs.
pub(crate) fn without_fresh_queries(text: &str) -> String {
    let mut parts = text.split(FRESH_QUERY);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.truncate(clean.trim_end_matches(['?', '&']).len());
        clean.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    clean
}

/// A request, before the client adds the fields that all requests carry.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: Url,
    /// The header fields in the order in which they are sent; a name may occur several times.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: String,
}

impl Request {
    pub fn get(url: &Url) -> Request {
        Request::new(Method::GET, url)
    }

    pub fn new(method: Method, url: &Url) -> Request {
        Request { method, url: url.clone(), headers: Vec::new(), body: String::new() }
    }

    /// Adds a header field. Ignores a value with characters that are not permitted in header fields.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Request {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    #[must_use]
    pub fn accept(self, value: &str) -> Request {
        self.header(header::ACCEPT, value)
    }

    pub fn has_accept(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == header::ACCEPT)
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Request {
        self.body = body.into();
        self
    }
}

/// A request that was sent, and its outcome.
#[derive(Debug)]
pub struct Exchange {
    /// The number of the request within its audit, from 1.
    pub number: usize,
    pub request: Request,
    /// The response, or a sentence that says what failed, without the URL.
    pub outcome: Result<Response, String>,
}

impl Exchange {
    pub fn url(&self) -> &Url {
        &self.request.url
    }

    pub fn response(&self) -> Option<&Response> {
        self.outcome.as_ref().ok()
    }

    /// The response, if its status is 200.
    pub fn success(&self) -> Option<&Response> {
        self.response().filter(|response| response.status == StatusCode::OK)
    }

    /// The request and its outcome in a few words: `GET (Accept: text/markdown) → 200 text/html`. Leaves
    /// out the URL, and the fields that the client adds.
    pub fn summary(&self) -> String {
        let sent: Vec<_> = self
            .request
            .headers
            .iter()
            .map(|(name, value)| {
                format!("{}: {}", title_case(name), String::from_utf8_lossy(value.as_bytes()))
            })
            .collect();
        let sent = if sent.is_empty() { String::new() } else { format!(" ({})", sent.join("; ")) };
        let came = match &self.outcome {
            Ok(response) => format!("{} {}", response.status.as_u16(), response.media_type()),
            Err(error) => error.clone(),
        };
        format!("{}{sent} → {}", self.request.method, came.trim_end())
    }
}

#[cfg(test)]
impl Exchange {
    /// A GET request, and its response with status 200, `body` and no header fields.
    pub(crate) fn with_body(url: &str, body: &str) -> Exchange {
        let fetched = FetchResponse {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: body.as_bytes().to_vec(),
            is_whole: true,
            time_to_header: Duration::ZERO,
        };
        let request = Request::get(&Url::parse(url).expect("a URL"));
        Exchange { number: 1, request, outcome: Ok(Response::from_fetched(fetched)) }
    }
}

/// A header name with a capital at the start of each word, for example `Accept-Encoding`.
fn title_case(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

/// Whether the body is a complete gzip member followed by bytes that do not begin another one.
fn has_bytes_after_gzip_member(mut body: &[u8]) -> bool {
    let mut decoder = GzDecoder::new(&mut body).take(MAX_BODY as u64 + 1);
    let is_complete = io::copy(&mut decoder, &mut io::sink()).is_ok_and(|length| length <= MAX_BODY as u64);
    is_complete && !body.is_empty() && !body.starts_with(&[0x1f, 0x8b])
}

/// The kind of a response, by the beginning of its body and by its `Content-Type`
/// ([`Response::representation`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    Html,
    Markdown,
    /// Another media type, such as JSON or plain text.
    Other,
}

/// Whether servers send this media type with Markdown if their tables of media types lack `text/markdown`. An
/// empty string stands for a missing `Content-Type`.
pub(crate) fn is_almost_markdown(media_type: &str) -> bool {
    matches!(media_type, "" | "text/plain" | "application/octet-stream" | "text/x-markdown")
}

/// A response with any status.
#[derive(Debug)]
pub struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The decoded body, at most 2 MiB. Undecoded if the content coding is not gzip.
    pub body: Vec<u8>,
    /// The number of bytes that arrived, before decoding.
    pub encoded_length: usize,
    /// Whether the body is complete: false if it is too long, was interrupted or cannot be decoded.
    pub is_whole: bool,
    /// Whether all bytes arrived but are not gzip, although `Content-Encoding` says so. Browsers show an
    /// error.
    pub is_encoding_untrue: bool,
    /// Whether other bytes follow a complete gzip body. Browsers ignore them and show the page.
    pub has_bytes_after_gzip: bool,
    /// The time from sending the request to the end of the response's header, without connection setup.
    pub time_to_header: Duration,
}

impl Response {
    /// Decodes a gzip body, and cuts it after [`MAX_BODY`] bytes. If decoding fails, the body is the part
    /// before the error.
    pub(crate) fn from_fetched(fetched: FetchResponse) -> Response {
        let FetchResponse { status, headers, body, is_whole, time_to_header } = fetched;
        let encoded_length = body.len();
        let (is_encoding_untrue, has_bytes_after_gzip) = (false, false);
        let mut response = Response {
            status,
            headers,
            body,
            encoded_length,
            is_whole,
            is_encoding_untrue,
            has_bytes_after_gzip,
            time_to_header,
        };
        if response.encoding() == "gzip" && !response.body.is_empty() {
            let mut decoded = Vec::new();
            let mut reader = MultiGzDecoder::new(response.body.as_slice()).take(MAX_BODY as u64 + 1);
            let result = reader.read_to_end(&mut decoded);
            response.has_bytes_after_gzip =
                is_whole && result.is_err() && has_bytes_after_gzip_member(&response.body);
            response.is_encoding_untrue = is_whole && result.is_err() && !response.has_bytes_after_gzip;
            response.is_whole &= !response.is_encoding_untrue && decoded.len() <= MAX_BODY;
            decoded.truncate(MAX_BODY);
            response.body = decoded;
        }
        response
    }

    /// The value of a field, with several lines joined by commas (RFC 9110 §5.3). Empty if there is none.
    pub fn header(&self, name: impl header::AsHeaderName) -> String {
        let values = self.headers.get_all(name).into_iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect::<Vec<_>>().join(", ")
    }

    /// The media type without parameters, in lower case; empty if there is none.
    pub fn media_type(&self) -> String {
        let value = self.header(header::CONTENT_TYPE);
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The `charset` parameter of the media type, in lower case and without quotation marks; `None` if it
    /// is missing.
    pub fn charset(&self) -> Option<String> {
        let value = self.header(header::CONTENT_TYPE).to_ascii_lowercase();
        let mut parameters = value.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
        let charset = parameters.find(|(name, _)| name.trim() == "charset")?.1;
        Some(charset.trim().trim_matches('"').to_owned())
    }

    /// The content coding in lower case; empty if there is none or if it is `identity`.
    pub fn encoding(&self) -> String {
        let value = self.header(header::CONTENT_ENCODING).to_ascii_lowercase();
        if value == "identity" { String::new() } else { value }
    }

    /// The header names in `Vary`, in lower case.
    pub fn vary(&self) -> Vec<String> {
        let value = self.header(header::VARY).to_ascii_lowercase();
        value.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    }

    /// Whether `Vary` names this field, or is `*`.
    pub fn varies_on(&self, name: &str) -> bool {
        self.vary().iter().any(|varied| varied == name || varied == "*")
    }

    /// The encoding that `charset` names; `None` without `charset` or if it is empty. The error is the
    /// unknown name.
    fn declared_encoding(&self) -> Result<Option<&'static Encoding>, String> {
        let Some(charset) = self.charset().filter(|charset| !charset.is_empty()) else { return Ok(None) };
        Encoding::for_label(charset.as_bytes()).map(Some).ok_or(charset)
    }

    /// Why the text cannot be compared with another one, as a clause; `None` if it is complete, decoded,
    /// and in a known character encoding. Valid UTF-8 with an unknown coding counts as decoded.
    pub fn unreadable(&self) -> Option<String> {
        let is_utf8 = std::str::from_utf8(&self.body).is_ok();
        // A UTF-8 body is readable even if its coding is unknown: browsers ignore values such as `utf-8`.
        if !matches!(&*self.encoding(), "" | "gzip") && !is_utf8 {
            return Some(format!("the content coding `{}` was not requested", self.encoding()));
        } else if !self.is_whole {
            return Some("the body is not complete".to_owned());
        }
        self.declared_encoding().err().map(|charset| format!("the charset `{charset}` is not known"))
    }

    /// The body as text. A byte order mark decides the encoding, then a known `charset`. Without these,
    /// [`decode_html`] reads HTML, and other bodies are UTF-8. Text that is valid UTF-8 is never read in a
    /// single-byte encoding, which must have been declared by mistake. Invalid bytes become U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        let is_utf8 = std::str::from_utf8(&self.body).is_ok();
        match self.declared_encoding().ok().flatten() {
            Some(encoding) if !(encoding.is_single_byte() && is_utf8) => encoding.decode(&self.body).0,
            None if self.representation() == Representation::Html => decode_html(&self.body).0,
            _ => UTF_8.decode(&self.body).0,
        }
    }

    /// The kind of the response. A body that begins as an HTML document is HTML, even if the `Content-Type`
    /// says otherwise, and XML that is not XHTML, such as a sitemap, is not HTML. The `Content-Type` decides
    /// about all other bodies. Only the first 512 bytes are read.
    pub fn representation(&self) -> Representation {
        let start = String::from_utf8_lossy(&self.body[..self.body.len().min(512)]);
        let start = start.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
        if start.starts_with("<!doctype html") || start.starts_with("<html") {
            return Representation::Html;
        }
        let is_xhtml = self.media_type() == "application/xhtml+xml"
            || start.contains("<!doctype html")
            || start.contains("<html");
        let is_xml = ["<?xml", "<urlset", "<sitemapindex", "<rss", "<feed"];
        if !is_xhtml && is_xml.iter().any(|root| start.starts_with(root)) {
            return Representation::Other;
        }
        match &*self.media_type() {
            "text/html" | "application/xhtml+xml" => Representation::Html,
            "text/markdown" | "text/x-markdown" => Representation::Markdown,
            _ => Representation::Other,
        }
    }

    /// The value of a directive of `Cache-Control` in lower case, without quotation marks; empty if it has
    /// none, and `None` if the directive is missing. `name` is in lower case.
    pub fn cache_directive(&self, name: &str) -> Option<String> {
        let value = self.header(header::CACHE_CONTROL).to_ascii_lowercase();
        let mut directives =
            value.split(',').map(|directive| directive.split_once('=').unwrap_or((directive, "")));
        let (_, value) = directives.find(|(own, _)| own.trim() == name)?;
        Some(value.trim().trim_matches('"').to_owned())
    }

    /// Whether the body is incomplete and reaches the limit of the audit, [`MAX_BODY`], as sent or after
    /// decoding.
    pub(crate) fn is_too_long(&self) -> bool {
        !self.is_whole && self.body.len().max(self.encoded_length) >= MAX_BODY
    }

    /// Whether the response is HTML, and its first printable ASCII character is `<`: false for plain text
    /// that is served as `text/html`.
    pub fn is_page(&self) -> bool {
        let start = self.body.iter().find(|byte| byte.is_ascii_graphic());
        self.representation() == Representation::Html && start == Some(&b'<')
    }

    /// The `s-maxage` of `Cache-Control`, otherwise `max-age`, in seconds: the longest time for which a
    /// shared cache may serve the response without revalidation. Zero for `no-store`, `no-cache` and
    /// `private`; `None` if unspecified or no number.
    pub fn shared_lifetime(&self) -> Option<u64> {
        let has = |name: &str| self.cache_directive(name).is_some();
        if has("no-store") || has("no-cache") || has("private") {
            return Some(0);
        }
        let seconds = |name: &str| self.cache_directive(name)?.parse().ok();
        seconds("s-maxage").or_else(|| seconds("max-age"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn response(headers: &[(&str, &str)], body: &[u8]) -> Response {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        let body = body.to_vec();
        let (status, time_to_header) = (StatusCode::OK, Duration::ZERO);
        Response::from_fetched(FetchResponse { status, headers, body, is_whole: true, time_to_header })
    }

    #[test]
    fn bytes_decide_what_a_client_got() {
        for (kind, body, expected) in [
            ("text/markdown", "# Title", Representation::Markdown),
            ("text/markdown", "<!DOCTYPE html><title>x</title>", Representation::Html),
            ("Text/HTML; charset=utf-8", "", Representation::Html),
            ("text/plain", "\u{feff}\n<html lang=en>", Representation::Html),
            ("text/plain", "# Title", Representation::Other),
            ("text/html", "<?xml version='1.0'?>\n<!-- all --><urlset>", Representation::Other),
            ("text/html", "<rss version='2.0'>", Representation::Other),
            ("text/html", "<?xml version='1.0'?><!DOCTYPE html PUBLIC ''>", Representation::Html),
            ("application/xhtml+xml", "<?xml version='1.0'?>\n<html>", Representation::Html),
        ] {
            let found = response(&[("content-type", kind)], body.as_bytes()).representation();
            assert_eq!(found, expected, "{kind} {body}");
        }
    }

    #[test]
    fn a_page_begins_with_markup() {
        let page = |body: &str| response(&[("content-type", "text/html")], body.as_bytes()).is_page();
        assert!(page("\u{feff}\n<!DOCTYPE html>") && page("<p>x"));
        assert!(!page("User-agent: *") && !page(""));
        assert!(!response(&[("content-type", "text/plain")], b"<a>").is_page());
    }

    #[test]
    fn a_compression_bomb_is_cut() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::copy(&mut std::io::repeat(b'x').take(64 << 20), &mut encoder).unwrap();
        let bomb = encoder.finish().unwrap();
        let found = response(&[("content-encoding", "gzip")], &bomb);
        assert_eq!((found.body.len(), found.is_whole), (MAX_BODY, false));
        assert_eq!(found.encoded_length, bomb.len());
        let broken = response(&[("content-encoding", "gzip")], b"not gzip");
        assert!(!broken.is_whole && broken.body.is_empty() && broken.is_encoding_untrue);
    }

    #[test]
    fn bytes_after_a_gzip_body_are_ignored() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(b"<p>a").unwrap();
        let page = encoder.finish().unwrap();
        let cut = &page[..page.len() - 9];
        for (body, text, is_whole, is_untrue, has_more) in [
            (page.clone(), "<p>a", true, false, false),
            ([&page[..], &page].concat(), "<p>a<p>a", true, false, false),
            ([&page[..], b"\0\0<!-- x -->"].concat(), "<p>a", true, false, true),
            (cut.to_vec(), "<p>a", false, true, false),
            ([&page[..], cut].concat(), "<p>a<p>a", false, true, false),
        ] {
            let found = response(&[("content-encoding", "gzip")], &body);
            let flags = (found.is_whole, found.is_encoding_untrue, found.has_bytes_after_gzip);
            assert_eq!((&*found.text(), flags), (text, (is_whole, is_untrue, has_more)), "{body:?}");
        }
    }

    #[test]
    fn text_is_decoded_as_browsers_do() {
        for (kind, body, expected) in [
            ("text/markdown; charset=shift_jis", &b"\x83e\x83X\x83g"[..], "\u{30c6}\u{30b9}\u{30c8}"),
            ("text/html", b"<meta charset=shift_jis>\x83e", "<meta charset=shift_jis>\u{30c6}"),
            ("text/html; charset=utf-8", b"\xff\xfea\0", "a"),
            ("text/markdown; charset=iso-8859-1", "\u{e4}".as_bytes(), "\u{e4}"),
            ("text/markdown; charset=iso-8859-1", b"\xe4", "\u{e4}"),
            ("text/markdown", b"\xef\xbb\xbf# \xe4", "# \u{fffd}"),
            ("text/markdown; charset=klingon", b"x", "x"),
        ] {
            assert_eq!(response(&[("content-type", kind)], body).text(), expected, "{kind} {body:?}");
        }
    }

    #[test]
    fn text_that_cannot_be_compared_is_known() {
        let reason = |name: &str, value: &str| response(&[(name, value)], b"\xe4").unreadable();
        assert_eq!(reason("content-type", "text/html; charset=latin1"), None);
        assert!(reason("content-type", "text/html; charset=klingon").unwrap().contains("klingon"));
        assert!(reason("content-encoding", "br").unwrap().contains("`br`"));
        assert!(reason("content-encoding", "gzip").unwrap().contains("complete"));
    }

    #[test]
    fn cache_control_gives_the_shared_lifetime() {
        for (value, expected) in [
            ("public, max-age=600", Some(600)),
            ("max-age=60, s-maxage=\"3600\"", Some(3600)),
            ("no-cache, max-age=60", Some(0)),
            ("Private", Some(0)),
            ("max-age=x", None),
            ("", None),
        ] {
            assert_eq!(response(&[("cache-control", value)], b"").shared_lifetime(), expected, "{value}");
        }
    }
}
