//! Renders the templates of the web interface, and builds its responses.

use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
    SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};

use super::response_body::DeskBody;
use frontdesk_forms::text::escape_html;
use frontdesk_http::SECURITY_HEADERS;

pub(super) type Reply = Response<DeskBody>;

/// The content security policy of all responses: no inline scripts or styles, and nothing from other hosts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The `Referrer-Policy` of all responses. With `no-referrer`, browsers would send `Origin: null` with forms,
/// and the origin could not be checked.
const REFERRER: &str = "same-origin";

const STYLE: &str = include_str!("assets/inbox.css");
const SCRIPT: &str = include_str!("assets/inbox.js");
const ICON: &str = include_str!("assets/icon.svg");

/// A file for all pages: its media type, its content, and the content compressed with gzip. Pages are not
/// compressed: they contain secrets beside text from the URL (BREACH).
struct Asset {
    media_type: &'static str,
    plain: &'static str,
    gzip: Vec<u8>,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let asset = |media_type, plain: &'static str| Asset { media_type, plain, gzip: gzip(plain.as_bytes()) };
    [
        asset("text/css; charset=utf-8", STYLE),
        asset("text/javascript; charset=utf-8", SCRIPT),
        asset("image/svg+xml", ICON),
    ]
});

/// Compresses an asset. Returns an empty vector if that fails.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

/// The response with the asset at this path, compressed if the client accepts gzip by name, not by `*`.
/// `None` if there is no asset.
pub(super) fn asset(path: &str, headers: &HeaderMap) -> Option<Reply> {
    let [style, script, icon] = &*ASSETS;
    let asset = match path {
        "/inbox.css" => style,
        "/inbox.js" => script,
        "/icon.svg" | "/favicon.ico" => icon,
        _ => return None,
    };
    // The value must name gzip: a client that accepts it only with `*` gets the plain file.
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(accepts_gzip);
    let is_compressed = !asset.gzip.is_empty() && headers.get_all(ACCEPT_ENCODING).iter().any(accepts);
    let body = if is_compressed {
        Bytes::from_static(&asset.gzip)
    } else {
        Bytes::from_static(asset.plain.as_bytes())
    };
    let mut reply = reply(StatusCode::OK, asset.media_type, body);
    reply.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(reply)
}

/// Whether an `Accept-Encoding` value lists gzip without a weight, or with one that is not zero.
fn accepts_gzip(value: &str) -> bool {
    value.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        is_gzip
            && parts.all(|weight| {
                !weight.trim_start_matches(['q', 'Q', '=', ' ']).trim_matches(['0', '.']).is_empty()
            })
    })
}

const TEMPLATES: [(&str, &str); 12] = [
    ("base.html", include_str!("assets/base.html")),
    ("channels.html", include_str!("assets/channels.html")),
    ("confirm.html", include_str!("assets/confirm.html")),
    ("list.html", include_str!("assets/list.html")),
    ("log.html", include_str!("assets/log.html")),
    ("login.html", include_str!("assets/login.html")),
    ("message.html", include_str!("assets/message.html")),
    ("review.html", include_str!("assets/review.html")),
    ("person.html", include_str!("assets/person.html")),
    ("sessions.html", include_str!("assets/sessions.html")),
    ("statistics.html", include_str!("assets/statistics.html")),
    ("submission.html", include_str!("assets/submission.html")),
];

pub(super) struct Templates(Environment<'static>);

impl Templates {
    /// Loads the templates, which escape every value that is not marked as safe. An invalid template is
    /// logged and left out.
    pub(super) fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_auto_escape_callback(|_| AutoEscape::Html);
        environment.set_formatter(|output, _, value| {
            let text =
                if value.is_undefined() || value.is_none() { String::new() } else { value.to_string() };
            let text = if value.is_safe() { text } else { escape_html(&text) };
            output.write_str(&text).map_err(minijinja::Error::from)
        });
        for (name, text) in TEMPLATES {
            if let Err(error) = environment.add_template(name, text) {
                // This error is not expected, because a test renders each template.
                tracing::error!(%error, template = name, "a built-in template of the inbox is invalid; its pages respond with a 500; please report this");
            }
        }
        Self(environment)
    }

    /// Renders a page. An error is logged, and the response is then a 500 in plain text.
    pub(super) fn page(&self, status: StatusCode, name: &str, values: Value) -> Reply {
        let rendered = self.0.get_template(name).and_then(|template| template.render(values));
        match rendered {
            Ok(html) => reply(status, "text/html; charset=utf-8", html),
            Err(error) => {
                // Log only the kind of the error, because its details may quote a submission.
                tracing::error!(kind = ?error.kind(), template = name, "cannot render a page of the inbox; the response is a 500; please report this");
                reply(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "text/plain; charset=utf-8",
                    "This page cannot be shown. The server's log has the reason.\n",
                )
            }
        }
    }

    /// A page with a heading and a sentence, without the navigation, so that it needs no operator and no
    /// inbox.
    pub(super) fn message(&self, status: StatusCode, heading: &str, sentence: &str) -> Reply {
        self.page(status, "message.html", context! { heading, sentence })
    }
}

/// A response that is complete in memory, with the security headers and `Cache-Control: no-store`.
pub(super) fn reply(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Reply {
    with_headers(status, media_type, DeskBody::Full(Full::new(body.into())))
}

pub(super) fn stream_reply(media_type: &'static str, body: DeskBody) -> Reply {
    with_headers(StatusCode::OK, media_type, body)
}

/// A response with the security headers and `Cache-Control: no-store`.
fn with_headers(status: StatusCode, media_type: &'static str, body: DeskBody) -> Reply {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static(REFERRER));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Redirects with a 303 (RFC 9110 §15.4.4) to a path, or to `/` if the path is not a valid header value.
pub(super) fn see_other(path: &str) -> Reply {
    let mut response = reply(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    // Paths are composed of ids, fixed texts and encoded parameters, so they are valid values.
    let location = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}

pub(super) fn set_cookie(response: &mut Reply, cookie: HeaderValue) {
    response.headers_mut().append(SET_COOKIE, cookie);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_page_have_at_most_12_kilobytes() {
        // A page with its data has at most 60 kilobytes: `inbox_pages.rs` tests it.
        let total: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!((1000..12_000).contains(&total), "{total}");
    }

    #[test]
    fn files_are_compressed_for_clients_that_accept_gzip() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(value), expected, "{value}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(asset("/inbox.css", &headers).unwrap().headers().get(CONTENT_ENCODING), None);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
        assert_eq!(asset("/inbox.js", &headers).unwrap().headers()[CONTENT_ENCODING], "gzip");
        assert!(asset("/", &headers).is_none());
    }

    #[test]
    fn no_template_has_inline_code_or_unescaped_values() {
        for (name, text) in TEMPLATES {
            for wrong in [" style=", "<style", " onclick", " onload", "javascript:", "http://", "https://"] {
                assert!(!text.contains(wrong), "{name}: {wrong}");
            }
            // The chart consists of numbers and days.
            assert_eq!(text.matches("safe").count(), usize::from(name == "statistics.html"), "{name}");
            let scripts = text.matches("<script").count();
            assert_eq!(scripts, text.matches("<script src=\"/inbox.js\" defer>").count(), "{name}");
        }
    }
}
