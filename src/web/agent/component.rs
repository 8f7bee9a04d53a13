//! What a signature covers: components of a request, and the text that is signed (RFC 9421 §2).

use http::Version;
use http::request::Parts;
use sfv::{BareItem, Dictionary, FieldType as _, InnerList, Item, ListEntry, Parser};

use super::Why;

/// The most components of one signature. Those that agents sign are three or four.
const MAX_COMPONENTS: usize = 32;

/// Fields that are dictionaries, which `;sf` can write anew: it has to be known what a field is.
const DICTIONARIES: [&str; 7] = [
    "content-digest",
    "priority",
    "repr-digest",
    "signature",
    "signature-agent",
    "signature-input",
    "want-content-digest",
];

/// The scheme and authority under which the public reaches the site, as RFC 9421 §2.2.3 normalizes them: in lower case, and
/// without the scheme's own port. What a request says of its host is not asked: a signature for another site must not count here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    scheme: &'static str,
    authority: String,
}

impl Origin {
    /// That of an absolute URL, whatever its path.
    pub fn of(url: &str) -> Origin {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (scheme, port) =
            if scheme.eq_ignore_ascii_case("https") { ("https", ":443") } else { ("http", ":80") };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        let authority = authority.strip_suffix(port).unwrap_or(&authority).to_owned();
        Origin { scheme, authority }
    }

    /// Whether a `Host` header names it.
    pub(super) fn is_named_by(&self, host: &str) -> bool {
        Origin::of(&format!("{}://{host}", self.scheme)) == *self
    }
}

/// The text that is signed (RFC 9421 §2.5): a line for each component, and one for the signature's parameters.
///
/// # Errors
///
/// [`Why::Components`] if it covers something twice, that is not there, or that is not known here.
pub fn signature_base(head: &Parts, origin: &Origin, input: &InnerList) -> Result<Vec<u8>, Why> {
    if input.items.len() > MAX_COMPONENTS {
        return Err(Why::Components);
    }
    let mut base = Vec::new();
    for (at, component) in input.items.iter().enumerate() {
        // Parameters are compared as a set: another order makes no other component.
        if input.items[..at].contains(component) {
            return Err(Why::Components);
        }
        base.extend_from_slice(component.serialize().as_bytes());
        base.extend_from_slice(b": ");
        base.extend(value(head, origin, component).ok_or(Why::Components)?);
        base.push(b'\n');
    }
    let parameters = vec![ListEntry::InnerList(input.clone())].serialize().ok_or(Why::Components)?;
    base.extend_from_slice(b"\"@signature-params\": ");
    base.extend_from_slice(parameters.as_bytes());
    Ok(base)
}

/// The value of one component; nothing where there is none, or several.
fn value(head: &Parts, origin: &Origin, component: &Item) -> Option<Vec<u8>> {
    let name = component.bare_item.as_string()?.as_str();
    if !name.starts_with('@') {
        return field(head, name, component);
    }
    if name == "@query-param" {
        let named = component.params.get("name")?.as_string()?.as_str();
        return if component.params.len() == 1 { query_parameter(head, named) } else { None };
    }
    // `req` and `tr` speak of a response's request and of trailers: there are none. Others are not known.
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

/// A header field, its lines joined (§2.1) or as its parameters want it (§2.1.1 to §2.1.3).
fn field(head: &Parts, name: &str, component: &Item) -> Option<Vec<u8>> {
    // Fields are named in lower case; what is no name is in no request.
    if name.is_empty() || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let parameters: Vec<(&str, &BareItem)> =
        component.params.iter().map(|(key, value)| (key.as_str(), value)).collect();
    match parameters[..] {
        [] => joined(head, name),
        [("sf", BareItem::Boolean(true))] if DICTIONARIES.contains(&name) => {
            Some(dictionary(head, name)?.serialize()?.into_bytes())
        }
        [("key", BareItem::String(key))] => {
            Some(vec![dictionary(head, name)?.get(key.as_str())?.clone()].serialize()?.into_bytes())
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

/// The lines of a field without the white space around them, joined by commas; nothing where there is no line.
pub(super) fn joined(head: &Parts, name: &str) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> =
        head.headers.get_all(name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// A field as a dictionary.
pub(super) fn dictionary(head: &Parts, name: &str) -> Option<Dictionary> {
    Parser::new(&joined(head, name)?).parse().ok()
}

/// The one parameter of the query with this name (§2.2.8), which is written as the value will be.
fn query_parameter(head: &Parts, named: &str) -> Option<Vec<u8>> {
    let pairs = head.uri.query()?.split('&').filter(|pair| !pair.is_empty());
    let mut found = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| reencoded(name) == named)
        .map(|(_, value)| reencoded(value));
    let value = found.next()?;
    found.next().is_none().then(|| value.into_bytes())
}

/// Decoded as a form's field and encoded again, so that there is one way to write it.
fn reencoded(text: &str) -> String {
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
    // A form's fields are text: what is no UTF-8 is replaced before it is encoded.
    let encode = |byte: u8| match byte {
        b'*' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    String::from_utf8_lossy(&decoded).bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn derived_components_come_from_the_request_and_from_where_the_site_is() {
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
    fn fields_are_trimmed_joined_and_written_as_their_parameters_want() {
        // The examples of RFC 9421 §2.1 to §2.1.3, with fields that are known to be dictionaries.
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
    fn nothing_is_covered_twice_and_not_too_much() {
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
            assert_eq!(Origin::of(url), Origin { scheme, authority: authority.to_owned() }, "{url}");
        }
        assert!(origin().is_named_by("WWW.example.com:443"));
        assert!(!origin().is_named_by("example.com"));
    }

    fn check(uri: &str, component: &str, expected: Option<&str>) {
        let component: Item = Parser::new(component).parse().unwrap();
        let found = value(&head(uri), &origin(), &component);
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{component:?} of {uri}");
    }

    fn inner_list(text: &str) -> InnerList {
        let list: sfv::List = Parser::new(text).parse().unwrap();
        let [ListEntry::InnerList(inner)] = &list[..] else { panic!("{text}") };
        inner.clone()
    }

    fn origin() -> Origin {
        Origin::of("https://www.example.com")
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
