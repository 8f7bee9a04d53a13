//! Derives the signature base (the bytes that are signed) from the components of a request (RFC 9421 §2).

use http::Version;
use http::request::Parts;
use sfv::{BareItem, Dictionary, FieldType as _, InnerList, Item, ListEntry, Parser};

use super::error::SignatureError;

/// The maximum number of components that one signature may cover. Agents cover three or four.
const MAX_COMPONENTS: usize = 32;

/// The fields for which a signature may use the parameter `sf` (RFC 9421 §2.1.1). The server must know the
/// type of such a field: all of these are dictionaries.
const DICTIONARIES: [&str; 7] = [
    "content-digest",
    "priority",
    "repr-digest",
    "signature",
    "signature-agent",
    "signature-input",
    "want-content-digest",
];

/// The site's public scheme and authority, normalized as in RFC 9421 §2.2.3 (lower case, no default port).
/// Used instead of the `Host` header, so that a signature for another site is not valid here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteOrigin {
    scheme: &'static str,
    authority: String,
}

impl SiteOrigin {
    /// Takes the scheme and the authority from a URL, in lower case and without the scheme's default port.
    /// Ignores its path. Every scheme but `https`, and a missing one, counts as `http`.
    pub fn from_url(url: &str) -> SiteOrigin {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (scheme, port) =
            if scheme.eq_ignore_ascii_case("https") { ("https", ":443") } else { ("http", ":80") };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        let authority = authority.strip_suffix(port).unwrap_or(&authority).to_owned();
        SiteOrigin { scheme, authority }
    }

    /// Whether a `Host` value names this origin's host and port.
    pub(super) fn matches_host(&self, host: &str) -> bool {
        SiteOrigin::from_url(&format!("{}://{host}", self.scheme)) == *self
    }
}

/// Builds the signature base (RFC 9421 §2.5). Fails for too many, repeated, missing or unknown components.
pub fn signature_base(
    head: &Parts,
    origin: &SiteOrigin,
    input: &InnerList,
) -> Result<Vec<u8>, SignatureError> {
    if input.items.len() > MAX_COMPONENTS {
        return Err(SignatureError::Components);
    }
    let mut base = Vec::new();
    for (at, component) in input.items.iter().enumerate() {
        // Parameters are compared as a set: a component with reordered parameters is the same component.
        if input.items[..at].contains(component) {
            return Err(SignatureError::Components);
        }
        base.extend_from_slice(component.serialize().as_bytes());
        base.extend_from_slice(b": ");
        base.extend(component_value(head, origin, component).ok_or(SignatureError::Components)?);
        base.push(b'\n');
    }
    let parameters =
        vec![ListEntry::InnerList(input.clone())].serialize().ok_or(SignatureError::Components)?;
    base.extend_from_slice(b"\"@signature-params\": ");
    base.extend_from_slice(parameters.as_bytes());
    Ok(base)
}

/// The value of one component. `None` if the component is unknown, the request lacks it or has the query
/// parameter more than once, or the component has unsupported parameters.
fn component_value(head: &Parts, origin: &SiteOrigin, component: &Item) -> Option<Vec<u8>> {
    let name = component.bare_item.as_string()?.as_str();
    if !name.starts_with('@') {
        return field_value(head, name, component);
    }
    if name == "@query-param" {
        let named = component.params.get("name")?.as_string()?.as_str();
        return if component.params.len() == 1 { query_parameter(head, named) } else { None };
    }
    // Reject all parameters: `req` and `tr` apply only to responses and trailers, and others are unknown.
    if !component.params.is_empty() {
        return None;
    }
    let path = Some(head.uri.path()).filter(|path| !path.is_empty()).unwrap_or("/");
    let query = head.uri.query();
    let text = match name {
        "@method" => head.method.as_str().to_owned(),
        "@authority" => origin.authority.clone(),
        "@scheme" => origin.scheme.to_owned(),
        "@target-uri" => {
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            format!("{}://{}{path}{query}", origin.scheme, origin.authority)
        }
        "@path" => path.to_owned(),
        "@query" => format!("?{}", query.unwrap_or_default()),
        "@request-target" if head.version >= Version::HTTP_2 => {
            query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
        }
        "@request-target" => head.uri.to_string(),
        _ => return None,
    };
    Some(text.into_bytes())
}

/// The value of a header field: its combined lines (§2.1), or the form that the component's parameters
/// request (§2.1.1 to §2.1.3). `None` if the name is not in lower case, the field is missing or cannot be
/// parsed as requested, or the parameters are not supported.
fn field_value(head: &Parts, name: &str, component: &Item) -> Option<Vec<u8>> {
    // Component names are in lower case (§2.1).
    if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let parameters: Vec<(&str, &BareItem)> =
        component.params.iter().map(|(key, value)| (key.as_str(), value)).collect();
    match parameters[..] {
        [] => combined_value(head, name),
        [("sf", BareItem::Boolean(true))] if DICTIONARIES.contains(&name) => {
            Some(parse_dictionary(head, name)?.serialize()?.into_bytes())
        }
        [("key", BareItem::String(key))] => {
            Some(vec![parse_dictionary(head, name)?.get(key.as_str())?.clone()].serialize()?.into_bytes())
        }
        [("bs", BareItem::Boolean(true))] => {
            let line = |line: &http::HeaderValue| {
                Item::new(BareItem::ByteSequence(line.as_bytes().trim_ascii().to_owned())).serialize()
            };
            let lines: Vec<String> = head.headers.get_all(name).iter().map(line).collect();
            (!lines.is_empty()).then(|| lines.join(", ").into_bytes())
        }
        _ => None,
    }
}

/// The lines of a field, trimmed and joined with commas (§2.1). `None` if there are no lines.
pub(super) fn combined_value(head: &Parts, name: &str) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> =
        head.headers.get_all(name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// Parses a field as a dictionary (RFC 9651 §3.2). `None` if it is missing or malformed.
pub(super) fn parse_dictionary(head: &Parts, name: &str) -> Option<Dictionary> {
    Parser::new(&combined_value(head, name)?).parse().ok()
}

/// The normalized value of the only query parameter with the normalized name `named` (§2.2.8). `None` if
/// there are several such parameters, or none.
fn query_parameter(head: &Parts, named: &str) -> Option<Vec<u8>> {
    let pairs = head.uri.query()?.split('&').filter(|pair| !pair.is_empty());
    let mut found = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| normalize_encoding(name) == named)
        .map(|(_, value)| normalize_encoding(value));
    let value = found.next()?;
    found.next().is_none().then(|| value.into_bytes())
}

/// Decodes a form field and encodes it again, so that equal values have the same encoding (§2.2.8).
/// Replaces invalid UTF-8.
fn normalize_encoding(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        let hex = (digit(bytes.get(at)), digit(bytes.get(at + 1)));
        decoded.push(match (byte, hex) {
            (b'+', _) => b' ',
            (b'%', (Some(high), Some(low))) => {
                at += 2;
                u8::try_from(high * 16 + low).unwrap_or_default()
            }
            _ => byte,
        });
    }
    // Percent-encodes a byte like `application/x-www-form-urlencoded`, but encodes a space as `%20`.
    let encode = |byte: u8| match byte {
        b'*' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    String::from_utf8_lossy(&decoded).bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn derived_components_use_the_request_and_the_sites_origin() {
        let uri = "/path?param=value&foo=bar&baz=batman&qux=&a%20b=c%2fd+e&twice=1&twice=2";
        for (component, expected) in [
            ("\"@method\"", Some("POST")),
            ("\"@authority\"", Some("www.example.com")),
            ("\"@scheme\"", Some("https")),
            ("\"@target-uri\"", Some(&*format!("https://www.example.com{uri}"))),
            ("\"@request-target\"", Some(uri)),
            ("\"@path\"", Some("/path")),
            ("\"@query\"", Some(&uri[5..])),
            ("\"@query-param\";name=\"baz\"", Some("batman")),
            ("\"@query-param\";name=\"qux\"", Some("")),
            ("\"@query-param\";name=\"a%20b\"", Some("c%2Fd%20e")),
            ("\"@query-param\";name=\"a b\"", None),
            ("\"@query-param\";name=\"twice\"", None),
            ("\"@query-param\";name=\"none\"", None),
            ("\"@query-param\"", None),
            ("\"@query-param\";name=\"baz\";req", None),
            ("\"@method\";req", None),
            ("\"@authority\";x=1", None),
            ("\"@status\"", None),
            ("\"@signature-params\"", None),
            ("\"@Method\"", None),
            ("method", None),
        ] {
            check(uri, component, expected);
        }
        check("/", "\"@query\"", Some("?"));
        check("/", "\"@path\"", Some("/"));
        check("/?", "\"@query\"", Some("?"));
        check("http://elsewhere.example/x", "\"@request-target\"", Some("http://elsewhere.example/x"));
        check("http://elsewhere.example/x", "\"@authority\"", Some("www.example.com"));
        check("http://elsewhere.example/x", "\"@target-uri\"", Some("https://www.example.com/x"));
    }

    #[test]
    fn field_values_follow_the_component_parameters() {
        // The examples from RFC 9421 §2.1 to §2.1.3, with fields that are known to be dictionaries.
        for (component, expected) in [
            ("\"x-ows-header\"", Some("Leading and trailing whitespace.")),
            ("\"cache-control\"", Some("max-age=60, must-revalidate")),
            ("\"x-empty\"", Some("")),
            ("\"x-missing\"", None),
            ("\"Cache-Control\"", None),
            ("\"\"", None),
            ("\"content-digest\"", Some("a=1,    b=2;x=1;y=2,   c=(a   b   c), d")),
            ("\"content-digest\";sf", Some("a=1, b=2;x=1;y=2, c=(a b c), d")),
            ("\"content-digest\";key=\"a\"", Some("1")),
            ("\"content-digest\";key=\"b\"", Some("2;x=1;y=2")),
            ("\"content-digest\";key=\"c\"", Some("(a b c)")),
            ("\"content-digest\";key=\"d\"", Some("?1")),
            ("\"content-digest\";key=\"e\"", None),
            ("\"content-digest\";sf;key=\"a\"", None),
            ("\"content-digest\";sf=?0", None),
            ("\"content-digest\";bs;sf", None),
            ("\"content-digest\";tr", None),
            ("\"content-digest\";req", None),
            ("\"x-ows-header\";sf", None),
            ("\"cache-control\";bs", Some(":bWF4LWFnZT02MA==:, :bXVzdC1yZXZhbGlkYXRl:")),
            ("\"x-missing\";bs", None),
        ] {
            check("/", component, expected);
        }
    }

    #[test]
    fn components_are_limited_and_unique() {
        let head = head("/");
        for (input, expected) in [
            ("(\"@method\" \"@path\")", true),
            ("(\"content-digest\";key=\"a\" \"content-digest\";key=\"b\")", true),
            ("()", true),
            ("(\"@method\" \"@method\")", false),
            ("(\"content-digest\";key=\"a\" \"content-digest\";key=\"a\")", false),
            ("(method)", false),
            ("(1)", false),
            (&*format!("({})", (0..33).map(|n| format!("\"x-{n}\" ")).collect::<String>()), false),
        ] {
            let base = signature_base(&head, &origin(), &inner_list(input));
            assert_eq!(base.is_ok(), expected, "{input}");
        }
    }

    #[test]
    fn an_origin_is_normalized() {
        for (url, scheme, authority) in [
            ("https://www.example.com", "https", "www.example.com"),
            ("https://WWW.Example.com:443/path", "https", "www.example.com"),
            ("https://www.example.com:80", "https", "www.example.com:80"),
            ("http://www.example.com:80/?x", "http", "www.example.com"),
            ("http://127.0.0.1:8080", "http", "127.0.0.1:8080"),
            ("http://[2001:db8::80]", "http", "[2001:db8::80]"),
        ] {
            assert_eq!(
                SiteOrigin::from_url(url),
                SiteOrigin { scheme, authority: authority.to_owned() },
                "{url}"
            );
        }
        assert!(origin().matches_host("WWW.example.com:443"));
        assert!(!origin().matches_host("example.com"));
    }

    fn check(uri: &str, component: &str, expected: Option<&str>) {
        let component: Item = Parser::new(component).parse().unwrap();
        let found = component_value(&head(uri), &origin(), &component);
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{component:?} of {uri}");
    }

    fn inner_list(text: &str) -> InnerList {
        let list: sfv::List = Parser::new(text).parse().unwrap();
        let [ListEntry::InnerList(inner)] = &list[..] else { panic!("{text}") };
        inner.clone()
    }

    fn origin() -> SiteOrigin {
        SiteOrigin::from_url("https://www.example.com")
    }

    fn head(uri: &str) -> Parts {
        Request::post(uri)
            .header("host", "elsewhere.example.com")
            .header("x-ows-header", "   Leading and trailing whitespace.   ")
            .header("cache-control", "max-age=60")
            .header("cache-control", "   must-revalidate ")
            .header("x-empty", "")
            .header("content-digest", "a=1,    b=2;x=1;y=2,   c=(a   b   c), d")
            .body(())
            .unwrap()
            .into_parts()
            .0
    }
}
