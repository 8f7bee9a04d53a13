//! Separates front matter from the body, and parses YAML and TOML.

use serde_json::{Map, Value};

use crate::fault::Fault;
use frontdesk_publish::FrontMatterMarks;

/// Returns the source of the front matter, the body, and the parsed front matter. Fails if the front matter
/// is missing, not closed or not valid.
pub(crate) fn split<'a>(place: &str, text: &'a str) -> Result<(&'a str, &'a str, Map<String, Value>), Fault> {
    let Some(marks) = FrontMatterMarks::of(text) else {
        let fault = Fault::error(place, Some(1), "no front matter");
        let hint = "begin the file with a line `---`, `title: …`, `description: …`, and a line `---`";
        return Err(fault.hint(hint));
    };
    let Some((source, body)) = marks.split(text) else {
        let message = format!("the front matter has no closing line `{}`", marks.closing);
        return Err(Fault::error(place, Some(1), message));
    };
    let parse = if marks.is_yaml { parse_yaml } else { parse_toml };
    Ok((source, body, parse(place, source)?))
}

/// Parses YAML. Empty front matter is an empty table. Words such as `no` are booleans only below `extra`.
/// Numbers that are not finite are text: `12e45678` is the hash of a commit. An error states the line in the
/// file.
fn parse_yaml(place: &str, source: &str) -> Result<Map<String, Value>, Fault> {
    if source.trim().is_empty() {
        return Ok(Map::new());
    }
    // As in YAML 1.2, only `true` and `false` are booleans: `title: No` is text.
    let options = serde_saphyr::options! { strict_booleans: true };
    match serde_saphyr::from_str_with_options::<Value>(source, options) {
        Ok(Value::Object(mut table)) => {
            // Below `extra`, read `no` as false: templates test these values, and text counts as true.
            let extra = table.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case("extra"));
            if let Some((key, value)) = extra
                && let Ok(mut other) = serde_saphyr::from_str::<Value>(source)
            {
                *value = other[key.as_str()].take();
            }
            Ok(table)
        }
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(Fault::error(place, Some(2), "the front matter is not a list of `key: value` lines")),
        Err(error) => {
            if let Some(quoted) = with_quotes(source, &error) {
                return parse_yaml(place, &quoted);
            }
            let line = error.location().and_then(|at| usize::try_from(at.line()).ok()).map(|line| line + 1);
            let message = error.to_string();
            let first = message.lines().next().unwrap_or("it cannot be read");
            let first = first.strip_prefix("error: ").unwrap_or(first);
            // Remove the line number from the parser's message, because it counts from the start of the front
            // matter. The fault states the line in the file.
            let what = first
                .split_once(": ")
                .filter(|(before, _)| before.contains("line "))
                .map_or(first, |(_, what)| what);
            // Remove the parser's advice about its own option for repeated keys.
            let what = what.split_once(", set DuplicateKeyPolicy").map_or(what, |(what, _)| what);
            let fault = Fault::error(place, line, format!("the front matter is not valid YAML: {what}"));
            Err(fault.hint(if what.starts_with("duplicate") {
                "remove one of the two lines"
            } else {
                "quote values that contain a colon or begin with a special character; indent with spaces"
            }))
        }
    }
}

/// The source with quotes around the number that the parser refused because it is not finite. `None` after
/// other errors.
fn with_quotes(source: &str, mut error: &serde_saphyr::Error) -> Option<String> {
    while let serde_saphyr::Error::WithSnippet { error: cause, .. } = error {
        error = cause;
    }
    let serde_saphyr::Error::NonFiniteFloat { value, location } = error else { return None };
    let (line, column) = (usize::try_from(location.line()).ok()?, usize::try_from(location.column()).ok()?);
    let start: usize = source.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let at = start + source[start..].char_indices().nth(column.checked_sub(1)?)?.0;
    let rest = source[at..].strip_prefix(&**value)?;
    Some(format!("{}'{value}'{rest}", &source[..at]))
}

/// Parses TOML. Dates become strings. An error states the line in the file.
fn parse_toml(place: &str, source: &str) -> Result<Map<String, Value>, Fault> {
    match source.parse::<toml::Table>() {
        Ok(table) => Ok(table.into_iter().map(|(key, value)| (key, toml_to_json(value))).collect()),
        Err(error) => {
            let line =
                error.span().map(|span| 2 + source[..span.start.min(source.len())].matches('\n').count());
            Err(Fault::error(place, line, format!("the front matter is not valid TOML: {}", error.message())))
        }
    }
}

/// Converts a TOML value to JSON. Dates become strings; `nan` and `inf` become `null`.
fn toml_to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(at) => at.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(toml_to_json).collect(),
        toml::Value::Table(table) => {
            table.into_iter().map(|(key, value)| (key, toml_to_json(value))).collect::<Map<_, _>>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_texts() {
        let source =
            "title: T\r\nä: {commit: 12e45678, other: [-7e1000, .nan]} # 12e45678\nid: 12e4\n.inf: .inf\n";
        let table = parse_yaml("a.md", source).expect("valid");
        assert_eq!(table["ä"], serde_json::json!({"commit": "12e45678", "other": ["-7e1000", ".nan"]}));
        assert_eq!((&table["id"], &table[".inf"]), (&120_000.0.into(), &".inf".into()));
        assert!(parse_yaml("a.md", "a: !!float .nan\n").is_err());
    }
}
