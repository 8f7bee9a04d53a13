//! Writes nginx `map` blocks that choose HTML or Markdown, and the encoding, as [`negotiate`] does.
//!
//! nginx can match regular expressions and use their captures, but it cannot compare numbers. So each weight
//! becomes a number of at least four digits (`1000`, `0500`), and two weights are compared at the first digit
//! that differs. A table of common field values comes first, because a lookup is faster.

use std::fmt::Write as _;

use super::nginx_map::NginxMap;
use frontdesk_negotiate::{self as negotiate, Encoding, Media};

/// Maximum length, in bytes, of a field value that is evaluated. Real clients send shorter values; a longer,
/// crafted one can take more than a millisecond.
pub(super) const MAX_VALUE: usize = 500;

/// Values of `Accept` that browsers, tools, agents and feed readers send.
const KNOWN_ACCEPT: [&str; 16] = [
    "*/*",
    "text/html",
    "text/markdown",
    "text/html, */*",
    "text/markdown, text/html, */*",
    "text/markdown, text/html",
    "text/markdown, */*",
    "text/markdown, text/plain;q=0.9, */*;q=0.8",
    "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, text/html;q=0.7, */*;q=0.1",
    "text/markdown, text/plain;q=0.9, application/json;q=0.9, text/html;q=0.8, application/pdf;q=0.7, video/*;q=0.7, */*;q=0.5",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    "application/rss+xml",
];

/// Values of `Accept-Encoding` that browsers, tools, agents and feed readers send.
const KNOWN_ACCEPT_ENCODING: [&str; 9] = [
    "",
    "gzip, deflate, br, zstd",
    "gzip, deflate, br",
    "gzip, br",
    "gzip, deflate",
    "gzip",
    "br",
    "zstd",
    "identity",
];

/// The letter for each encoding that a file can have, in order of preference.
const LETTERS: [(Encoding, char); 3] =
    [(Encoding::Brotli, 'b'), (Encoding::Zstd, 'z'), (Encoding::Gzip, 'g')];

/// Abbreviates the encodings of a file to one letter each, in order of preference. Leaves out identity.
pub(super) fn encoding_letters(encodings: impl Iterator<Item = Encoding>) -> String {
    let available: Vec<Encoding> = encodings.collect();
    LETTERS.iter().filter(|(encoding, _)| available.contains(encoding)).map(|(_, letter)| letter).collect()
}

/// A quoted string (RFC 9110 §5.6.4).
const QUOTED: &str = r#""(?:[^"\\\n]|\\.)*+""#;
/// Optional white space around list members (RFC 9110 §5.6.3).
const OWS: &str = r"[ \t]*+";
/// Looks ahead for the end of a list member.
const END: &str = r"(?=[,\n])";

/// Matches the rest of a parameter: up to the next comma or semicolon outside quotes.
fn rest_of_parameter() -> String {
    format!(r#"(?:[^",;\n]++|{QUOTED})*+"#)
}

/// Matches as few list members as possible before the member that follows in the expression.
fn earlier_members() -> String {
    format!(r#"(?:(?:[^",\n]++|{QUOTED})*+,)*?"#)
}

/// Matches the parameters that precede the weight of a list member.
fn parameters() -> String {
    format!(r"{OWS}(?:;(?!{OWS}q{OWS}=){})*+", rest_of_parameter())
}

/// Maps the field value in `source`, followed by ten digits, to the greatest weight that it gives to `name`:
/// at least four digits, such as `0500` for 0.5. If no list member is `name`, the weight is `otherwise`.
fn weight_map(source: &str, variable: &str, name: &str, otherwise: &str) -> NginxMap {
    let member = format!("{}{OWS}{name}{}", earlier_members(), parameters());
    let q = format!(";{OWS}q{OWS}={OWS}");
    // A later member has a greater weight if both weights begin with the same digits and its next digit is
    // greater. The ten digits after the field value define the order of digits. Missing digits are zeros.
    let further = format!(r"\d*+{OWS}(?:;{})*+,{member}{q}0?+\.", rest_of_parameter());
    // Parameters after the weight are ignored.
    let rest = format!(r"\d*+{OWS}(?:;{})*+{END}", rest_of_parameter());
    let greater = format!(
        r"(?!(\d{{0,2}})(?:(\d){further}\1(\d){rest}[^\n]*+\n\d*\2\d*\3|(?!\d){further}\1(?:0?[1-9]){rest}))"
    );
    let mut map = NginxMap::new(&format!("{source}\\n0123456789"), variable, otherwise);
    // A member without a weight has the maximum weight, 1.
    map.add_expression(
        &format!(r"*^{member}(?:{q}1(?:\.0*+)?+{OWS}(?:;{})*+)?+{END}", rest_of_parameter()),
        "1000",
    );
    map.add_expression(
        &format!(r"*^{member}{q}0?+\.(?=\d{{0,2}}[1-9])(?={rest}){greater}(\d{{1,3}}+)"),
        "0$400",
    );
    // Digits after the third matter only to distinguish a weight below 0.001 from zero.
    map.add_expression(&format!(r"*^{member}{q}0?+\.000\d*[1-9]{rest}"), "0001");
    map.add_expression(&format!(r"*^{member}{q}(?:0(?:\.\d*+)?+|\.\d++){rest}"), "0000");
    map
}

/// Matches a weight if a later one in the space-separated list is greater: both begin with the same digits,
/// and the next digit of the later one is greater. No capture group may precede this expression.
fn less_than_later() -> String {
    let mut expression = String::from(r"(\d{0,3})(?:");
    for digit in 0..9 {
        let separator = if digit == 0 { "" } else { "|" };
        let _ = write!(expression, r"{separator}{digit}\d* (?:\d+ )*\1[{}-9]", digit + 1);
    }
    expression.push(')');
    expression
}

/// The maps from `Accept` to `$frontdesk_media`: `html`, `markdown` or `none`. A value that is longer than
/// [`MAX_VALUE`] or has an unclosed quote gives `html`.
pub(super) fn media_maps() -> Vec<NginxMap> {
    let name_of = |media| match media {
        Some(Media::Html) => "html",
        Some(Media::Markdown) => "markdown",
        None => "none",
    };
    let mut media = NginxMap::new("$http_accept", "$frontdesk_media", "$frontdesk_weighed_media");
    media.add_text("", name_of(negotiate::choose([])));
    for known in KNOWN_ACCEPT {
        media.add_text(known, name_of(negotiate::choose([known.as_bytes()])));
    }
    media.add_expression(&format!("^.{{{}}}", MAX_VALUE + 1), "html");
    media.add_expression(&unclosed_quote(), "html");

    let accept = "$http_accept";
    let named = "$frontdesk_q_of_markdown";
    let mut markdown = NginxMap::new(named, "$frontdesk_q_markdown", named);
    markdown.add_text("", "$frontdesk_q_text");
    let mut named = NginxMap::new(named, "$frontdesk_names_markdown", "1");
    named.add_text("", "0");

    let mut weighed = NginxMap::new(
        "$frontdesk_q_html $frontdesk_q_markdown/$frontdesk_names_markdown",
        "$frontdesk_weighed_media",
        "html",
    );
    weighed.add_expression(r"^0000\d* 0000", "$frontdesk_media_of_nothing");
    weighed.add_expression(&format!("^{}", less_than_later()), "markdown");
    weighed.add_expression(r"^(\d{4})\d* \1\d*/1\z", "markdown");

    // A token (RFC 9110 §5.6.2). Every valid member begins with one; a field without valid members counts as
    // absent.
    let token = "[!#$%&'*+.^_`|~0-9a-z-]++";
    let some_weight = format!(
        ";{OWS}q{OWS}={OWS}(?:1(?:\\.0*+)?+|0(?:\\.\\d*+)?+|\\.\\d++){OWS}(?:;{})*+",
        rest_of_parameter()
    );
    let mut readable = NginxMap::new("$http_accept\\n0123456789", "$frontdesk_media_of_nothing", "html");
    readable.add_expression(
        &format!(
            r"*^{}{OWS}(?!\*/(?!\*[ \t;,\n])){token}/{token}{}(?:{some_weight})?+{END}",
            earlier_members(),
            parameters()
        ),
        "none",
    );
    vec![
        weight_map(accept, "$frontdesk_q_any", r"\*/\*", "0000"),
        weight_map(accept, "$frontdesk_q_text", r"text/\*", "$frontdesk_q_any"),
        weight_map(accept, "$frontdesk_q_html", "text/html", "$frontdesk_q_text"),
        weight_map(accept, "$frontdesk_q_of_markdown", "text/markdown", ""),
        markdown,
        named,
        readable,
        weighed,
        media,
    ]
}

/// The maps that choose by `Accept-Encoding` among the encodings whose letters are in `$frontdesk_has`. The
/// result is `$frontdesk_encoding`: `br`, `zstd`, `gzip` or empty. It is empty for a value that is longer
/// than [`MAX_VALUE`] or has an unclosed quote.
pub(super) fn encoding_maps() -> Vec<NginxMap> {
    let source = "$http_accept_encoding";
    let mut maps = vec![
        weight_map(source, "$frontdesk_q_other", r"\*", "0000"),
        weight_map(source, "$frontdesk_q_identity", "identity", "0000"),
    ];
    let (mut available, mut chosen_of) = (Vec::new(), Vec::new());
    for (at, (encoding, letter)) in LETTERS.into_iter().enumerate() {
        let token = encoding.token().unwrap_or_default();
        let name = if encoding == Encoding::Gzip { "(?:x-)?gzip" } else { token };
        let (said, of_file) = (format!("$frontdesk_q_of_{token}"), format!("$frontdesk_q_{token}"));
        maps.push(weight_map(source, &said, name, "$frontdesk_q_other"));
        let mut map = NginxMap::new(&format!("$frontdesk_has {said}"), &of_file, "0000");
        map.add_expression(&format!(r"^[a-z]*{letter}[a-z]* (\d{{4}})"), "$1");
        maps.push(map);
        available.push(of_file);
        // Matches if the weight of this encoding is not zero, and no later weight exceeds it.
        chosen_of.push((format!(r"^(?:\d+ ){{{at}}}(?!0000)(?!{})", less_than_later()), token));
    }
    let mut weighed = NginxMap::new(
        &format!("{} $frontdesk_q_identity", available.join(" ")),
        "$frontdesk_weighed_encoding",
        "",
    );
    for (expression, token) in chosen_of {
        weighed.add_expression(&expression, token);
    }
    maps.push(weighed);

    let all = encoding_letters(Encoding::PREFERENCE.into_iter());
    let mut encoding = NginxMap::new(
        &format!("$frontdesk_has:{source}"),
        "$frontdesk_encoding",
        "$frontdesk_weighed_encoding",
    );
    for known in KNOWN_ACCEPT_ENCODING {
        let chosen = negotiate::Codings::parse([known.as_bytes()]).choose(|_| true);
        encoding.add_text(&format!("{all}:{known}"), chosen.token().unwrap_or_default());
    }
    // If `$frontdesk_has` is empty, the file is sent unencoded.
    encoding.add_expression("^:", "");
    encoding.add_expression(&format!("^[^:]*:.{{{}}}", MAX_VALUE + 1), "");
    encoding.add_expression(&format!("^[^:]*:{}", &unclosed_quote()[1..]), "");
    maps.push(encoding);
    maps
}

/// Matches a field value that contains an unclosed quote.
fn unclosed_quote() -> String {
    format!(r#"^(?!(?:[^"]++|{QUOTED})*+\z)"#)
}
