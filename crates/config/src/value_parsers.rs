//! Parses the values of configuration keys. An error describes the values that are valid.

use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeValue};

use frontdesk_age::Recipient;
use frontdesk_forms::email::{Mailbox, ascii_spelling, with_ascii_domain};
use frontdesk_forms::text::unsafe_marked;
use frontdesk_http::{Address, Network, default_memory_limit};
use frontdesk_inbox::store::{DatabaseUrl, Server};
use frontdesk_limits::rate_limiter;
use frontdesk_process::disk_space::MinFree;

/// A value from a TOML file, or text from the environment or a flag.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    /// Every value from the environment and from flags is text.
    Text(String),
    Number(i64),
    Flag(bool),
    List(Vec<Raw>),
    Table(Vec<(String, Raw)>),
    /// A floating-point number, a date, or an integer of more than 64 bits. Only `site.extra` and a channel's
    /// `when` accept them.
    Other(String),
}

impl Raw {
    /// Converts a value from a TOML file. Dates and numbers that are not `i64` become [`Raw::Other`].
    pub(super) fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                let parsed = i64::from_str_radix(&digits, number.radix());
                parsed.map_or_else(|_| Self::Other(number.to_string().replace('_', "")), Self::Number)
            }
            DeValue::Boolean(flag) => Self::Flag(*flag),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::from_toml(item.get_ref())).collect())
            }
            DeValue::Table(table) => {
                let member = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                    (key.get_ref().to_string(), Self::from_toml(value.get_ref()))
                };
                Self::Table(table.iter().map(member).collect())
            }
            DeValue::Float(number) => Self::Other(number.as_str().to_owned()),
            DeValue::Datetime(at) => Self::Other(at.to_string()),
        }
    }

    /// The values of the members `names`. `None` unless this value is a table with exactly these members.
    pub(super) fn members<const N: usize>(&self, names: [&str; N]) -> Option<[&Self; N]> {
        let Self::Table(members) = self else { return None };
        if members.len() != N {
            return None;
        }
        let found = names.map(|name| members.iter().find(|(key, _)| key == name).map(|(_, value)| value));
        found.iter().all(Option::is_some).then(|| found.map(|member| member.unwrap_or(self)))
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Formats the value as TOML on one line. Hides passwords in all texts ([`without_password`]).
    pub(super) fn display(&self) -> String {
        match self {
            Self::Text(text) => toml_string(&without_password(text, false)),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Other(text) => text.clone(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::display).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Table(members) => {
                let is_bare = |key: &str| {
                    !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c))
                };
                let name = |key: &str| if is_bare(key) { key.to_owned() } else { toml_string(key) };
                let members: Vec<String> = members
                    .iter()
                    .map(|(key, value)| format!("{} = {}", name(key), value.display()))
                    .collect();
                format!("{{ {} }}", members.join(", "))
            }
        }
    }

    /// A placeholder for a secret value: it shows only whether the value is empty.
    pub(super) fn redacted(&self) -> String {
        match self {
            Self::Text(text) if text.is_empty() => "\"\"".to_owned(),
            Self::List(items) if items.is_empty() => "[]".to_owned(),
            _ => "\"…\"".to_owned(),
        }
    }

    /// The items of a list of strings, or of a string with commas or line breaks between them, which may be
    /// written as a list in brackets, with quotation marks but without escapes. Leaves out empty items of
    /// such a string. `None` for other values.
    pub(super) fn items(&self) -> Option<Vec<&str>> {
        match self {
            Self::List(items) => items.iter().map(Self::as_text).collect(),
            Self::Text(text) => {
                let list = text.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']'));
                let items = list.unwrap_or(text).split([',', '\n']).map(str::trim);
                let items = items.map(|item| if list.is_some() { without_quotes(item) } else { item });
                Some(items.filter(|item| !item.is_empty()).collect())
            }
            _ => None,
        }
    }
}

/// Writes a text as a string in TOML, on one line. Escapes control characters and the other characters that
/// [`unsafe_marked`] finds.
pub fn toml_string(text: &str) -> String {
    let mut string = String::from("\"");
    for (c, is_unsafe) in unsafe_marked(text) {
        match c {
            '"' | '\\' => string.extend(['\\', c]),
            '\n' => string.push_str("\\n"),
            '\r' => string.push_str("\\r"),
            '\t' => string.push_str("\\t"),
            c if is_unsafe => {
                // Writing to a string cannot fail.
                let _ = write!(string, "\\U{:08X}", u32::from(c));
            }
            c => string.push(c),
        }
    }
    string.push('"');
    string
}

/// Removes one pair of double or single quotation marks around an item, if it has one.
fn without_quotes(item: &str) -> &str {
    let quoted = |mark: char| item.strip_prefix(mark)?.strip_suffix(mark);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(item)
}

/// Hides the passwords in a URL: `scheme://user:password@host`, and the parameters `pass` and those whose
/// names end with `password`. With `is_connection_url`, the text is meant to be the URL of a server or a
/// SQLite file, and may be malformed, such as `redis//:password@host` or `user:password@host`: then hides
/// everything between the first colon and the last `@`. Returns other texts unchanged.
pub(super) fn without_password(text: &str, is_connection_url: bool) -> String {
    let is_scheme = |text: &str| text.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
    let hidden = || {
        let (before, host) = text.rsplit_once('@')?;
        let user = match before.find("://") {
            Some(at) if !is_connection_url || is_scheme(&before[..at]) => at + 3,
            _ if is_connection_url && !text.starts_with("sqlite:") => 0,
            _ => return None,
        };
        let colon = user + before[user..].find(':')?;
        Some(format!("{}:***@{host}", &before[..colon]))
    };
    let text = hidden().unwrap_or_else(|| text.to_owned());
    let parameter = |part: &str| match part.split_once('=') {
        Some((name, _)) if name == "pass" || name.ends_with("password") => format!("{name}=***"),
        _ => part.to_owned(),
    };
    match text.split_once('?') {
        Some((base, query)) => {
            format!("{base}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
        }
        // PostgreSQL's `host=… password=…` format is not a URL.
        None => text.split(' ').map(parameter).collect::<Vec<_>>().join(" "),
    }
}

/// The parsed value, or a description of valid values.
pub(super) type ParseResult<T> = Result<T, String>;

/// Returns a parser that accepts one of two or more words and returns its value. Case matters.
pub(super) fn one_of<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Raw) -> ParseResult<T> {
    move |raw| {
        let found = words.iter().find(|(word, _)| raw.as_text() == Some(word));
        found.map(|(_, value)| *value).ok_or_else(|| {
            let quoted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            let [first @ .., last] = &quoted[..] else { return String::new() };
            format!("{} or {last}", first.join(", "))
        })
    }
}

/// Extends a parser: an empty string becomes `None`.
pub(super) fn optional<T>(parse: impl Fn(&Raw) -> ParseResult<T>) -> impl Fn(&Raw) -> ParseResult<Option<T>> {
    move |raw| if raw.as_text() == Some("") { Ok(None) } else { parse(raw).map(Some) }
}

/// Extends a parser: "off" becomes `None`.
pub(super) fn off_or<T>(parse: impl Fn(&Raw) -> ParseResult<T>) -> impl Fn(&Raw) -> ParseResult<Option<T>> {
    move |raw| match raw.as_text() {
        Some("off") => Ok(None),
        _ => parse(raw).map(Some).map_err(|expected| format!("\"off\", or {expected}")),
    }
}

/// Extends a parser: "auto" becomes `None`.
pub(super) fn auto_or<T>(parse: impl Fn(&Raw) -> ParseResult<T>) -> impl Fn(&Raw) -> ParseResult<Option<T>> {
    move |raw| match raw.as_text() {
        Some("auto") => Ok(None),
        _ => parse(raw).map(Some).map_err(|expected| {
            let or = if expected.contains(", or ") { "" } else { "or " };
            format!("\"auto\", {or}{expected}")
        }),
    }
}

/// Parses text with `parse`. The error is `expected`, which describes valid values, also if the value is not
/// text.
pub(super) fn parse_text<T>(raw: &Raw, expected: &str, parse: impl Fn(&str) -> Option<T>) -> ParseResult<T> {
    raw.as_text().and_then(parse).ok_or_else(|| expected.to_owned())
}

/// Parses the items of a list or of a comma-separated text ([`Raw::items`]) with `parse`. An empty list is
/// valid. The error is `expected`, and names the first invalid item.
pub(super) fn parse_items<T>(
    raw: &Raw,
    expected: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> ParseResult<Vec<T>> {
    let parse = |item: &str| parse(item).ok_or_else(|| format!("{expected}; `{item}` is not valid"));
    raw.items().ok_or(expected)?.into_iter().map(parse).collect()
}

/// Parses a list or a comma-separated text ([`Raw::items`]) of at most `max` items. The error names the first
/// invalid item, and the reason.
pub(super) fn parse_list<T, E: Display>(
    raw: &Raw,
    expected: &str,
    max: usize,
    parse: impl Fn(&str) -> Result<T, E>,
) -> ParseResult<Vec<T>> {
    let items = raw.items().ok_or(expected)?;
    if items.len() > max {
        return Err(format!("{expected}, at most {max}"));
    }
    let parse =
        |text: &str| parse(text).map_err(|error| format!("{expected}; `{text}` is not valid: {error}"));
    items.into_iter().map(parse).collect()
}

/// Parses one line of text without control characters, which may be empty. Removes white space at both ends.
pub(super) fn parse_line(raw: &Raw) -> ParseResult<String> {
    match raw {
        Raw::Text(text) if !text.chars().any(char::is_control) => Ok(text.trim().to_owned()),
        _ => Err("text in quotes, on one line".to_owned()),
    }
}

/// Parses the URL path below which a build is served. It must begin with a slash; an empty text means `/`.
/// Adds a missing slash at the end, and decodes escapes. Refuses the paths that
/// [`decode`](frontdesk_site::path::decode) refuses.
pub(super) fn parse_mount(raw: &Raw) -> ParseResult<String> {
    parse_text(raw, "a path such as \"/docs/\"", |text| {
        let mount = format!("{}/", text.trim_end_matches('/'));
        frontdesk_site::path::decode(&mount).ok().map(std::borrow::Cow::into_owned)
    })
}

/// Parses a CSS selector, which may be empty.
pub(super) fn css_selector(raw: &Raw) -> ParseResult<String> {
    parse_text(raw, "a CSS selector such as \"main, .content\"", |text| {
        (text.is_empty() || frontdesk_convert::Selector::parse(text).is_ok()).then(|| text.to_owned())
    })
}

/// Parses an e-mail address without a name, which may be empty. Removes white space at its ends. The error
/// suggests a corrected address if there is one ([`with_corrected_address`]).
pub(super) fn email(raw: &Raw) -> ParseResult<String> {
    let text = parse_line(raw)?;
    if text.is_empty() || Mailbox::parse(&text).is_some() {
        return Ok(text);
    }
    Err(with_corrected_address("an e-mail address such as \"hello@example.com\"", [&*text]))
}

/// Adds the first of `texts` that can be corrected to the description of the expected addresses: without a
/// name, as in `Team <team@example.com>`, or with its domain in Punycode.
pub(super) fn with_corrected_address<'a>(expected: &str, texts: impl IntoIterator<Item = &'a str>) -> String {
    let corrected = |text: &str| {
        let bare = text.trim().strip_suffix('>').and_then(|text| text.rsplit_once('<'));
        match bare.filter(|(_, address)| Mailbox::parse(address).is_some()) {
            Some((_, address)) => Some(format!("{expected}, without a name: \"{address}\"")),
            None => ascii_address(text).map(|ascii| with_punycode(expected, Some(ascii))),
        }
    };
    texts.into_iter().find_map(corrected).unwrap_or_else(|| expected.to_owned())
}

/// `text` with its domain in Punycode, if this turns it into a valid address.
pub(super) fn ascii_address(text: &str) -> Option<String> {
    let ascii = with_ascii_domain(text);
    (ascii != text && Mailbox::parse(&ascii).is_some()).then(|| ascii.into_owned())
}

/// Adds the value in Punycode, if there is one, to the description of the expected values.
pub(super) fn with_punycode(expected: &str, ascii: Option<String>) -> String {
    match ascii {
        Some(ascii) => format!("{expected}, with the domain in Punycode: \"{ascii}\""),
        None => expected.to_owned(),
    }
}

/// Parses a boolean, or `true` or `false` as text, as in the environment and in flags.
pub(super) fn parse_bool(raw: &Raw) -> ParseResult<bool> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Text(text) if text == "true" => Ok(true),
        Raw::Text(text) if text == "false" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// Returns a parser for whole numbers in a range, written as numbers or as text.
pub(super) fn count<T: TryFrom<i64>>(range: RangeInclusive<i64>) -> impl Fn(&Raw) -> ParseResult<T> {
    move |raw| {
        let number = match raw {
            Raw::Number(number) => Some(*number),
            Raw::Text(text) => text.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| range.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    }
}

/// The units of durations, in milliseconds.
const DURATIONS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The units of sizes, in bytes.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Formats a number in the largest unit that divides it evenly.
fn format_in_largest_unit(number: u64, units: &[(&str, u64)]) -> String {
    let unit = units.iter().find(|(_, unit)| number >= *unit && number.is_multiple_of(*unit));
    unit.map_or_else(|| number.to_string(), |(name, unit)| format!("{}{name}", number / unit))
}

/// Parses a whole number with a unit, such as `24h`; white space may precede the unit. `None` if the form is
/// wrong or the result exceeds `u64`.
fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, name) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, unit) = units.iter().find(|(unit, _)| *unit == name.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*unit)
}

/// Returns a parser for durations in a range, such as `500ms`, `10s`, `5m`, `24h` or `2d`. It refuses white
/// space.
pub(super) fn duration(range: RangeInclusive<Duration>) -> impl Fn(&Raw) -> ParseResult<Duration> {
    let in_words = |duration: &Duration| match u64::try_from(duration.as_millis()) {
        Ok(0) => "0s".to_owned(),
        millis => format_in_largest_unit(millis.unwrap_or(u64::MAX), &DURATIONS),
    };
    let (from, to) = (in_words(range.start()), in_words(range.end()));
    let expected =
        format!("a duration from {from} to {to}, in `ms`, `s`, `m`, `h` or `d` such as \"{from}\"");
    move |raw| {
        parse_text(raw, &expected, |text| {
            let text = Some(text).filter(|text| !text.contains(char::is_whitespace))?;
            let duration = Duration::from_millis(parse_with_unit(text, &DURATIONS)?);
            range.contains(&duration).then_some(duration)
        })
    }
}

/// Returns a parser for sizes in a range, such as `10MB` or `8MiB`. Its results are in bytes.
pub(super) fn bytes(range: RangeInclusive<u64>) -> impl Fn(&Raw) -> ParseResult<u64> {
    move |raw| {
        let [from, to] = [*range.start(), *range.end()].map(|bytes| format_in_largest_unit(bytes, &SIZES));
        let expected = format!("a size from {from} to {to} with its unit, such as \"10MB\" or \"8MiB\"");
        parse_text(raw, &expected, |text| parse_with_unit(text, &SIZES).filter(|bytes| range.contains(bytes)))
    }
}

/// Parses the disk space to keep free: a size from 1 B to 1 EiB, "auto", or "off".
pub(super) fn min_free(raw: &Raw) -> ParseResult<MinFree> {
    match raw.as_text() {
        Some("auto") => Ok(MinFree::Auto),
        Some("off") => Ok(MinFree::Off),
        _ => bytes(1..=1 << 60)(raw).map(MinFree::Bytes).map_err(|_| {
            "\"auto\", \"off\", or a size with its unit such as \"500MB\" or \"2GiB\"".to_owned()
        }),
    }
}

/// Parses a time of day in UTC as `HH:MM`, or "off" as `None`.
pub(super) fn optional_time(raw: &Raw) -> ParseResult<Option<jiff::civil::Time>> {
    parse_time(raw, "a time of day in UTC such as \"07:00\", or \"off\"")
}

/// Parses a time of day as [`optional_time`] does, but in the time zone of this machine.
pub(super) fn optional_local_time(raw: &Raw) -> ParseResult<Option<jiff::civil::Time>> {
    parse_time(raw, "a time of day such as \"08:00\", or \"off\"")
}

/// Parses a time of day as `HH:MM`, or "off" as `None`. An invalid text fails with the error `expected`.
fn parse_time(raw: &Raw, expected: &str) -> ParseResult<Option<jiff::civil::Time>> {
    parse_text(raw, expected, |text| match text {
        "off" => Some(None),
        time => time.parse().ok().filter(|_| time.len() == 5 && time.as_bytes()[2] == b':').map(Some),
    })
}

/// Returns a parser for memory limits in bytes: a size, "auto" for the default of this machine (`None` if its
/// memory is not known), or "off" (`None`).
pub(super) fn memory_limit(range: RangeInclusive<u64>) -> impl Fn(&Raw) -> ParseResult<Option<u64>> {
    let bytes = bytes(range);
    move |raw| match raw.as_text() {
        Some("auto") => Ok(default_memory_limit()),
        Some("off") => Ok(None),
        _ => bytes(raw).map(Some).map_err(|expected| format!("\"auto\", \"off\", or {expected}")),
    }
}

/// Parses the age public key to which submissions are encrypted.
pub(super) fn recipient(raw: &Raw) -> ParseResult<Recipient> {
    raw.as_text().map_or_else(|| Err("an age public key such as \"age1…\"".to_owned()), Recipient::parse)
}

/// Parses addresses to listen on, at least one: a port as a number, or texts ([`Raw::items`]).
pub(super) fn listen_addresses(raw: &Raw) -> ParseResult<Vec<Address>> {
    let expected = "a port such as 8080, an address and a port such as \"127.0.0.1:8080\", \"localhost:8080\" or \":80\", \"unix:/PATH\", or a list of these";
    let found = match raw {
        Raw::Number(port) => vec![port.to_string().parse().map_err(|_| expected.to_owned())?],
        _ => parse_items(raw, expected, |item| item.parse().ok())?,
    };
    if found.is_empty() { Err(expected.to_owned()) } else { Ok(found) }
}

/// Like [`listen_addresses`], but returns an empty list for an empty list or text.
pub(super) fn listen_addresses_or_none(raw: &Raw) -> ParseResult<Vec<Address>> {
    if raw.items().is_some_and(|items| items.is_empty()) { Ok(Vec::new()) } else { listen_addresses(raw) }
}

/// Parses one address to listen on, or "off" or an empty text as `None`.
pub(super) fn optional_listen_address(raw: &Raw) -> ParseResult<Option<Address>> {
    let expected =
        "a port such as 8081, an address and a port such as \"127.0.0.1:8081\", \"unix:/PATH\", or \"off\"";
    if let Raw::Number(port) = raw {
        return port.to_string().parse().map(Some).map_err(|_| expected.to_owned());
    }
    parse_text(raw, expected, |text| match text {
        "" | "off" => Some(None),
        address => address.parse().ok().map(Some),
    })
}

/// Parses a list of IP addresses and blocks in CIDR notation.
pub(super) fn parse_networks(raw: &Raw) -> ParseResult<Vec<Network>> {
    let expected = "a list of addresses or blocks such as [\"10.0.0.0/8\", \"2001:db8::/32\"]";
    parse_items(raw, expected, |item| item.parse().ok())
}

/// Parses the URL of a database. The path of a SQLite file may be relative to the data folder; the caller
/// resolves it.
pub(super) fn database_url(raw: &Raw) -> ParseResult<DatabaseUrl> {
    let text = raw.as_text().unwrap_or_default();
    match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => Ok(DatabaseUrl::Sqlite(path.into())),
        None if text.starts_with("postgres") => {
            Server::parse(text).map(DatabaseUrl::Postgres).map_err(|error| {
                format!("a URL such as \"postgres://frontdesk@db.example.com/frontdesk\"; this one {error}")
            })
        }
        _ => Err(
            "\"sqlite:PATH\" with a path relative to the data folder, or \"postgres://USER@HOST/DATABASE\""
                .to_owned(),
        ),
    }
}

/// Parses the URL of the Redis server for shared limits. Reports a value that is not text as an invalid URL.
pub(super) fn redis(raw: &Raw) -> ParseResult<rate_limiter::RedisOptions> {
    rate_limiter::RedisOptions::parse(raw.as_text().unwrap_or_default().trim())
}

/// Minimum length of `limits.shared_secret`, in characters. Anyone who can read the hashed sources in Redis
/// can test guesses of the secret.
const MIN_SECRET_CHARS: usize = 16;

/// Parses a secret of at least [`MIN_SECRET_CHARS`] characters. The caller handles an empty value.
pub(super) fn shared_secret(raw: &Raw) -> ParseResult<String> {
    let expected = format!(
        "empty, or a secret of {MIN_SECRET_CHARS} characters or more, such as `openssl rand -base64 24` prints"
    );
    parse_text(raw, &expected, |text| (text.chars().count() >= MIN_SECRET_CHARS).then(|| text.to_owned()))
}

/// Parses an http or https URL without a path, and removes trailing slashes. Accepts an empty text.
pub(super) fn base_url(raw: &Raw) -> ParseResult<String> {
    let address = parse_web_address(raw, "a URL such as \"https://www.example.com\"")?;
    let trimmed = address.trim_end_matches('/');
    let authority = trimmed.split_once("://").map_or("", |(_, authority)| authority);
    if authority.contains(['/', '?', '#', '@']) {
        return Err("a URL without a path, such as \"https://www.example.com\"".to_owned());
    }
    Ok(trimmed.to_owned())
}

/// Parses an http or https URL of ASCII characters, without a user name. Accepts an empty text. The scheme of
/// the result is in lower case. The error for an internationalized domain names its form in Punycode.
pub(super) fn web_address(raw: &Raw) -> ParseResult<String> {
    parse_web_address(raw, "a URL such as \"https://www.example.com/\"")
}

/// Parses a URL as [`web_address`] does. The error is `expected`, with a correction if there is one.
fn parse_web_address(raw: &Raw, expected: &str) -> ParseResult<String> {
    let text = parse_line(raw).map_err(|_| expected.to_owned())?;
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let address = match scheme.to_ascii_lowercase().as_str() {
        scheme @ ("http" | "https") => format!("{scheme}://{rest}"),
        _ => text,
    };
    if address.is_empty() || is_web_address(&address) {
        return Ok(address);
    }
    Err(with_punycode(expected, ascii_web_address(&address)))
}

/// Whether a text is a URL of ASCII characters with `http` or `https` in lower case, without a user name.
fn is_web_address(address: &str) -> bool {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let is_host = |authority: &str| {
        // An IPv6 address in brackets contains colons, so look for the port after the brackets.
        let after = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[after..].split_once(':') {
            Some((rest, port)) => (&authority[..after + rest.len()], Some(port)),
            None => (authority, None),
        };
        let plain =
            host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '[' | ']' | ':'));
        !host.is_empty() && plain && port.is_none_or(|port| port.parse::<u16>().is_ok())
    };
    let is_plain = address
        .chars()
        .all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '}'));
    is_plain && authority.is_some_and(is_host)
}

/// `address` with its internationalized domain in Punycode, if the result is a valid URL.
fn ascii_web_address(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let (host, after) = rest.split_at(rest.find([':', '/', '?', '#']).unwrap_or(rest.len()));
    let ascii = format!("{scheme}://{}{after}", ascii_spelling(host)?);
    is_web_address(&ascii).then_some(ascii)
}

/// Parses a language tag. Checks its syntax (BCP 47), but not whether the subtags are registered.
pub(super) fn language(raw: &Raw) -> ParseResult<String> {
    let tag = parse_line(raw)?;
    let mut parts = tag.split('-');
    let first = parts
        .next()
        .is_some_and(|part| matches!(part.len(), 2 | 3) && part.chars().all(|c| c.is_ascii_alphabetic()));
    let rest =
        parts.all(|part| (1..=8).contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric()));
    if first && rest { Ok(tag) } else { Err("a language tag such as \"en\" or \"de-CH\"".to_owned()) }
}

/// Maximum number of languages. Each one adds work to every load of the site.
const MAX_LANGUAGES: usize = 50;

/// Parses a list of at most [`MAX_LANGUAGES`] tags, which may be empty. Refuses duplicates, regardless of
/// case.
pub(super) fn languages(raw: &Raw) -> ParseResult<Vec<String>> {
    let expected =
        format!("a list of up to {MAX_LANGUAGES} different language tags such as [\"en\", \"de\"]");
    let tags = parse_items(raw, &expected, |tag| language(&Raw::Text(tag.to_owned())).ok())?;
    let is_repeated = |at: usize| tags[..at].iter().any(|other| other.eq_ignore_ascii_case(&tags[at]));
    let is_valid = tags.len() <= MAX_LANGUAGES && !(0..tags.len()).any(is_repeated);
    if is_valid { Ok(tags) } else { Err(expected) }
}

#[cfg(test)]
mod tests {
    use frontdesk_forms::text::has_unsafe;

    use super::*;

    #[test]
    fn an_integer_is_a_number_or_text_with_its_radix() {
        for (text, expected) in [
            ("-1_000", Raw::Number(-1000)),
            ("0xff", Raw::Number(255)),
            ("10_000_000_000_000_000_000", Raw::Other("10000000000000000000".to_owned())),
            ("0x1_0000_0000_0000_0000", Raw::Other("0x10000000000000000".to_owned())),
        ] {
            let value = DeValue::parse(text).expect("it is TOML");
            assert_eq!(Raw::from_toml(value.get_ref()), expected, "{text}");
        }
    }

    #[test]
    fn a_time_of_day_has_hours_and_minutes() {
        let parse = |text: &str| optional_local_time(&Raw::Text(text.to_owned()));
        assert_eq!(parse("off"), Ok(None));
        assert_eq!(parse("06:30"), Ok(Some(jiff::civil::time(6, 30, 0, 0))));
        for text in ["T0630", "06+02", "06-02", "6:300", "24:00", "6:30", "06:30:00", "063000", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_displayed_value_is_toml_with_the_same_value() {
        let controls: String = ('\0'..='\u{a0}').collect();
        let texts = [
            controls.as_str(),
            "",
            "a \"b\" 'c' \\n",
            "e\u{301} \u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
            "\u{202e}\u{2028}\u{feff}\u{e0041}",
            "\u{1f469}\u{200d}\u{1f4bb}",
        ];
        for text in texts {
            let table = Raw::Table(vec![(text.to_owned(), Raw::Text(text.to_owned()))]);
            for raw in [Raw::Text(text.to_owned()), Raw::List(vec![table])] {
                let shown = raw.display();
                let value = DeValue::parse(&shown).unwrap_or_else(|error| panic!("{shown}: {error}"));
                assert_eq!(Raw::from_toml(value.get_ref()), raw, "{shown}");
                assert!(!has_unsafe(&shown), "{shown}");
            }
        }
        assert_eq!(toml_string("e\u{301}\u{7f}\u{1b}"), "\"e\u{301}\\U0000007F\\U0000001B\"");
    }

    #[test]
    fn a_malformed_connection_url_shows_no_password_and_other_texts_stay() {
        for (url, expected) in [
            ("user:pa//ss@redis:6379", "user:***@redis:6379"),
            ("user:/pass@redis:6379", "user:***@redis:6379"),
            ("user:pa://ss@redis:6379", "user:***@redis:6379"),
            ("redis:/user:p//w@redis", "redis:***@redis"),
            ("redis//user:pass@redis", "redis//user:***@redis"),
            ("redis://user:p//w://x@redis", "redis://user:***@redis"),
            ("REDIS://user:pass@redis", "REDIS://user:***@redis"),
            ("postgres//desk@db/inbox", "postgres//desk@db/inbox"),
            ("sqlite:data@2/inbox.db", "sqlite:data@2/inbox.db"),
        ] {
            assert_eq!(without_password(url, true), expected, "{url}");
        }
        for text in [
            "{\"text\":{{\"@here \"~text}}}",
            "mailto:desk@example.com",
            "MAILTO:desk@example.com",
            "acct:desk@example.com",
            "Write to us: desk@example.com",
        ] {
            assert_eq!(without_password(text, false), text);
        }
        assert_eq!(without_password("http://user:pass@proxy", false), "http://user:***@proxy");
    }

    #[test]
    fn an_internationalized_domain_is_refused_with_its_punycode() {
        let hint = "an e-mail address such as \"hello@example.com\", with the domain in Punycode: \
                    \"desk@xn--mnchen-3ya.example\"";
        for (text, expected) in [
            ("desk@example.com", Ok("desk@example.com")),
            ("desk@münchen.example", Err(hint)),
            ("désk@münchen.example", Err("an e-mail address such as \"hello@example.com\"")),
            (
                "Desk, Ltd. <desk@example.com>",
                Err("an e-mail address such as \"hello@example.com\", without a name: \"desk@example.com\""),
            ),
            ("Desk <desk>", Err("an e-mail address such as \"hello@example.com\"")),
        ] {
            let parsed = email(&Raw::Text(text.to_owned()));
            assert_eq!(parsed.as_deref().map_err(|error| &**error), expected, "{text}");
        }
    }

    #[test]
    fn a_size_has_a_number_and_a_unit() {
        for (text, bytes) in [
            ("65536B", Some(65_536)),
            ("512MB", Some(512_000_000)),
            ("1GiB", Some(1 << 30)),
            ("2 TiB", Some(2 << 40)),
            ("100kB", Some(100_000)),
            ("64KiB", Some(65_536)),
            ("3GB", Some(3_000_000_000)),
            ("1TB", Some(1_000_000_000_000)),
            ("8MiB", Some(8 << 20)),
            ("8", None),
            ("MiB", None),
            ("-1MiB", None),
            ("1.5GiB", None),
            ("8mib", None),
            ("99999999999TiB", None),
            ("", None),
        ] {
            assert_eq!(parse_with_unit(text, &SIZES), bytes, "{text}");
        }
        let read = |raw: Raw| bytes(64 << 10..=1 << 40)(&raw);
        assert_eq!(read(Raw::Text("1TiB".to_owned())), Ok(1 << 40));
        let expected = "a size from 64KiB to 1TiB with its unit, such as \"10MB\" or \"8MiB\"".to_owned();
        for raw in [Raw::Number(1 << 20), Raw::Text("2TiB".to_owned()), Raw::Text("64kB".to_owned())] {
            assert_eq!(read(raw), Err(expected.clone()));
        }
    }

    #[test]
    fn a_refused_duration_is_answered_with_the_limits_in_their_units() {
        let (ms, second) = (Duration::from_millis, Duration::from_secs(1));
        for (range, text, expected) in [
            (
                ms(1)..=second * 60,
                "0s",
                "a duration from 1ms to 1m, in `ms`, `s`, `m`, `h` or `d` such as \"1ms\"",
            ),
            (
                ms(100)..=second * 10,
                "99ms",
                "a duration from 100ms to 10s, in `ms`, `s`, `m`, `h` or `d` such as \"100ms\"",
            ),
            (
                ms(1500)..=ms(2500),
                "3s",
                "a duration from 1500ms to 2500ms, in `ms`, `s`, `m`, `h` or `d` such as \"1500ms\"",
            ),
            (
                ms(0)..=second * 7200,
                "3h",
                "a duration from 0s to 2h, in `ms`, `s`, `m`, `h` or `d` such as \"0s\"",
            ),
        ] {
            let from = *range.start();
            let read = duration(range);
            assert_eq!(read(&Raw::Text(text.to_owned())), Err(expected.to_owned()));
            let example = expected.rsplit('"').nth(1).unwrap_or_default();
            assert_eq!(read(&Raw::Text(example.to_owned())), Ok(from), "{example}");
        }
    }

    #[test]
    fn a_memory_limit_is_a_size_automatic_or_switched_off() {
        let read = |text: &str| memory_limit(1..=1 << 30)(&Raw::Text(text.to_owned()));
        assert_eq!(read("auto"), Ok(default_memory_limit()));
        assert_eq!(read("off"), Ok(None));
        assert_eq!(read("512MB"), Ok(Some(512_000_000)));
        assert!(read("2GiB").is_err() && read("half").is_err());
    }

    #[test]
    fn the_reserve_is_a_size_automatic_or_switched_off() {
        let read = |text: &str| min_free(&Raw::Text(text.to_owned()));
        assert_eq!(read("auto"), Ok(MinFree::Auto));
        assert_eq!(read("off"), Ok(MinFree::Off));
        assert_eq!(read("500MB"), Ok(MinFree::Bytes(500_000_000)));
        assert!(read("5%").is_err() && read("0B").is_err());
    }

    #[test]
    fn addresses_have_a_host_and_perhaps_a_port() {
        for (address, valid) in [
            ("https://www.example.com", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:8080", true),
            ("https://example.com/path?query", true),
            ("", true),
            ("https://", false),
            ("https://example.com:", false),
            ("https://example.com:99999", false),
            ("https://example.com'", false),
            ("https://user@example.com", false),
            ("ftp://example.com", false),
            ("www.example.com", false),
        ] {
            assert_eq!(web_address(&Raw::Text(address.to_owned())).is_ok(), valid, "{address}");
        }
    }

    #[test]
    fn a_base_url_is_corrected_to_punycode_and_its_scheme_to_lower_case() {
        let hint = |url: &str| {
            let expected = "a URL such as \"https://www.example.com\", with the domain in Punycode:";
            Err(format!("{expected} \"{url}\""))
        };
        let refused = || Err("a URL such as \"https://www.example.com\"".to_owned());
        for (text, expected) in [
            ("HTTPS://Example.com/", Ok("https://Example.com".to_owned())),
            ("https://m\u{fc}ller.de", hint("https://xn--mller-kva.de")),
            ("Http://www.m\u{fc}ller.de:8080/", hint("http://www.xn--mller-kva.de:8080/")),
            ("https://ada:m\u{fc}ller@m\u{fc}ller.de", refused()),
            ("m\u{fc}ller.de", refused()),
            ("ftp://m\u{fc}ller.de", refused()),
        ] {
            assert_eq!(base_url(&Raw::Text(text.to_owned())), expected, "{text}");
        }
    }
}
