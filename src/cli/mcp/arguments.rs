//! Parses the arguments of a tool call. Each error names the argument, and what would be right.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::session::ToolError;
use frontdesk_desk::time::TimeArgument;
use frontdesk_forms::is_form_name;
use frontdesk_forms::text::{cut, visible};
use frontdesk_inbox::store::SearchText;

/// Maximum length of a quoted value in an error, in characters.
const MAX_QUOTED: usize = 60;

/// The arguments that have not been read yet. `null` counts as absent, and so does an empty text where a text
/// selects something.
#[derive(Debug)]
pub(super) struct ToolArguments {
    values: Map<String, Value>,
}

impl ToolArguments {
    /// Fails if there is an argument that the `parameters` do not list.
    pub(super) fn new(
        values: Map<String, Value>,
        parameters: &[(&'static str, Value)],
    ) -> Result<ToolArguments, ToolError> {
        let is_known = |name: &str| parameters.iter().any(|(known, _)| *known == name);
        if let Some(name) = values.keys().find(|name| !is_known(name)) {
            let known: Vec<String> = parameters.iter().map(|(known, _)| format!("`{known}`")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = quote(name);
            return Err(ToolError::new(format!(
                "there is no argument {name}; arguments of this tool: {known}"
            )));
        }
        Ok(ToolArguments { values })
    }

    /// Removes and returns an argument. `None` for `null`.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name).filter(|value| !value.is_null())
    }

    /// A text of at most `most` characters; a longer one is an error. `None` if it is absent.
    pub(super) fn text(&mut self, name: &str, most: usize) -> Result<Option<String>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= most => Ok(Some(text)),
            Some(Value::String(text)) => Err(ToolError::new(format!(
                "`{name}` has {} characters, and may have at most {most}",
                text.chars().count()
            ))),
            Some(other) => Err(wrong(name, "a text", &other)),
        }
    }

    /// A text without the white space at both ends. `None` if the argument is absent or blank.
    pub(super) fn word(&mut self, name: &str, most: usize) -> Result<Option<String>, ToolError> {
        let text = self.text(name, most)?.map(|text| text.trim().to_owned());
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Like [`ToolArguments::word`], but fails if the argument is absent or blank.
    pub(super) fn required_word(&mut self, name: &str, most: usize) -> Result<String, ToolError> {
        self.word(name, most)?.ok_or_else(|| missing(name))
    }

    /// The words of a search. `None` if the text is absent or empty; one without a letter or digit is an
    /// error.
    pub(super) fn search_text(&mut self, name: &str, most: usize) -> Result<Option<SearchText>, ToolError> {
        let Some(text) = self.word(name, most)? else { return Ok(None) };
        let parsed = SearchText::parse(&text);
        parsed.map(Some).map_err(|error| ToolError::new(format!("`{name}` is {}, but {error}", quote(&text))))
    }

    /// A text that must be one of `choices`, in the same case. `None` if it is absent or empty.
    pub(super) fn choice(
        &mut self,
        name: &str,
        choices: &[&'static str],
    ) -> Result<Option<&'static str>, ToolError> {
        let Some(word) = self.word(name, usize::MAX)? else { return Ok(None) };
        let found = choices.iter().find(|choice| **choice == word);
        found.map(|choice| Some(*choice)).ok_or_else(|| {
            ToolError::new(format!("`{name}` must be one of {}, not {}", choices.join(", "), quote(&word)))
        })
    }

    /// The name of a form, which need not be configured. `None` if it is absent or empty.
    pub(super) fn form_name(&mut self, name: &str) -> Result<Option<String>, ToolError> {
        let Some(word) = self.word(name, usize::MAX)? else { return Ok(None) };
        if is_form_name(&word) {
            return Ok(Some(word));
        }
        Err(ToolError::new(format!(
            "`{name}` must be the name of a form, of lowercase letters, digits and `-`, not {}",
            quote(&word)
        )))
    }

    /// A whole number in `range`, which may be written as `2.0`. `None` if it is absent. Any other value,
    /// such as a text, is an error.
    pub(super) fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<u16>,
    ) -> Result<Option<u16>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = to_integer(&value).and_then(|number| u16::try_from(number).ok());
        number.filter(|number| range.contains(number)).map(Some).ok_or_else(|| {
            let expected = format!("a whole number from {} to {}", range.start(), range.end());
            wrong(name, &expected, &value)
        })
    }

    /// A boolean; false if it is absent.
    pub(super) fn flag(&mut self, name: &str) -> Result<bool, ToolError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(wrong(name, "true or false", &other)),
        }
    }

    /// A time, a date, or an age, as on the command line. `None` if it is absent or empty.
    pub(super) fn time(&mut self, name: &str) -> Result<Option<TimeArgument>, ToolError> {
        let Some(word) = self.word(name, MAX_QUOTED)? else { return Ok(None) };
        let parsed = TimeArgument::parse(&word);
        parsed
            .map(Some)
            .map_err(|expected| ToolError::new(format!("`{name}` is {}, but {expected}", quote(&word))))
    }

    /// A complete id, not a prefix. `None` if it is absent or empty.
    pub(super) fn id(&mut self, name: &str) -> Result<Option<Uuid>, ToolError> {
        self.word(name, MAX_QUOTED)?.map(|word| parse_id(name, &word)).transpose()
    }

    /// A required list of one to `most` complete ids. Leaves out duplicates, which count towards `most`.
    pub(super) fn ids(&mut self, name: &str, most: usize) -> Result<Vec<Uuid>, ToolError> {
        let expected = format!("a list of 1 to {most} complete ids, as `list_submissions` returns them");
        let items = match self.take(name) {
            None => return Err(ToolError::new(format!("`{name}` is missing: {expected}"))),
            Some(Value::Array(items)) if (1..=most).contains(&items.len()) => items,
            Some(Value::Array(items)) => {
                return Err(ToolError::new(format!(
                    "`{name}` has {} ids, but must be {expected}",
                    items.len()
                )));
            }
            Some(other) => return Err(wrong(name, &expected, &other)),
        };
        let mut ids: Vec<Uuid> = Vec::with_capacity(items.len());
        for item in &items {
            let id = item.as_str().ok_or_else(|| wrong(name, &expected, item))?;
            let id = parse_id(name, id.trim())?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }
}

/// The error for a required argument that is absent or empty.
pub(super) fn missing(name: &str) -> ToolError {
    ToolError::new(format!("`{name}` is missing"))
}

/// The value of an integer; `None` for other values, and for very large numbers. `2.0` and `1e1` are
/// integers, too (JSON Schema 2020-12, §4.2.3).
fn to_integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 2f64.powi(53))?;
        format!("{number:.0}").parse().ok()
    })
}

/// Parses a complete id. The error quotes `word`, and `name`, the argument that contains it.
fn parse_id(name: &str, word: &str) -> Result<Uuid, ToolError> {
    Uuid::try_parse(word).map_err(|_| {
        ToolError::new(format!(
            "{} in `{name}` is not a complete id such as 01a1c5e2-86af-7000-8000-0123456789ab",
            quote(word)
        ))
    })
}

/// The error for the argument `name`: its value is `found`, but must be `expected`.
fn wrong(name: &str, expected: &str, found: &Value) -> ToolError {
    let found = match found {
        Value::String(text) => quote(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    ToolError::new(format!("`{name}` must be {expected}, not {found}"))
}

/// The first [`MAX_QUOTED`] characters of a value in backquotes. Makes unsafe characters visible.
fn quote(text: &str) -> String {
    let start = cut(text, MAX_QUOTED);
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("`{}{more}`", visible(start))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "01a1c5e2-86af-7000-8000-0123456789ab";

    fn arguments(values: Value) -> ToolArguments {
        let Value::Object(values) = values else { panic!("an object") };
        ToolArguments { values }
    }

    fn said<T: std::fmt::Debug>(result: Result<T, ToolError>) -> String {
        result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"))
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        let given = |value: Value| arguments(json!({ "x": value }));
        for (found, expected) in [
            (said(given(json!(1)).text("x", 5)), "`x` must be a text, not 1"),
            (said(given(json!("123456")).text("x", 5)), "`x` has 6 characters, and may have at most 5"),
            (said(given(json!(" \n")).required_word("x", 5)), "`x` is missing"),
            (
                said(given(json!("?")).search_text("x", 5)),
                "`x` is `?`, but it has no letter or digit to search for",
            ),
            (said(given(json!("c")).choice("x", &["a", "b"])), "`x` must be one of a, b, not `c`"),
            (said(given(json!(0)).number("x", 1..=5)), "`x` must be a whole number from 1 to 5, not 0"),
            (said(given(json!(1.5)).number("x", 1..=5)), "`x` must be a whole number from 1 to 5, not 1.5"),
            (said(given(json!("3")).number("x", 1..=5)), "`x` must be a whole number from 1 to 5, not `3`"),
            (said(given(json!("yes")).flag("x")), "`x` must be true or false, not `yes`"),
            (
                said(given(json!("soon")).time("x")),
                "`x` is `soon`, but it must be a time such as 2026-11-20T14:00:00Z, a date such as 2026-11-20, or an age such as 30m, 2h or 3d",
            ),
            (
                said(given(json!("01a1c5e2")).id("x")),
                "`01a1c5e2` in `x` is not a complete id such as 01a1c5e2-86af-7000-8000-0123456789ab",
            ),
            (
                said(given(json!([])).ids("x", 2)),
                "`x` has 0 ids, but must be a list of 1 to 2 complete ids, as `list_submissions` returns them",
            ),
            (
                said(given(json!([1])).ids("x", 2)),
                "`x` must be a list of 1 to 2 complete ids, as `list_submissions` returns them, not 1",
            ),
        ] {
            assert_eq!(found, expected);
        }
        let many = said(given(json!([ID, ID, ID])).ids("x", 2));
        assert!(many.starts_with("`x` has 3 ids"), "{many}");
        let quoted = said(given(json!("\u{1b}".repeat(100))).choice("x", &["a"]));
        assert!(quoted.ends_with(&format!("{}…`", "\\u{1b}".repeat(MAX_QUOTED))), "{quoted}");
    }

    #[test]
    fn absent_arguments_have_their_defaults() {
        let mut given =
            arguments(json!({ "a": null, "b": "", "c": " word ", "d": 5, "e": true, "f": [ID, ID] }));
        assert_eq!(given.text("a", 1).ok(), Some(None));
        assert_eq!(given.choice("b", &["x"]).ok(), Some(None));
        assert_eq!(given.search_text("missing", 10).ok(), Some(None));
        assert_eq!(given.word("c", 10).ok(), Some(Some("word".to_owned())));
        assert_eq!(given.number("d", 1..=5).ok(), Some(Some(5)));
        assert_eq!(given.flag("e").ok(), Some(true));
        assert_eq!(given.flag("missing").ok(), Some(false));
        assert_eq!(given.ids("f", 2).ok(), Some(vec![Uuid::try_parse(ID).unwrap()]));
    }

    #[test]
    fn an_unknown_argument_is_refused_with_the_known_ones() {
        let values = || json!({ "limitt": 1 }).as_object().unwrap().clone();
        let parameters = [("form", json!({})), ("limit", json!({}))];
        let error = said(ToolArguments::new(values(), &parameters));
        assert_eq!(error, "there is no argument `limitt`; arguments of this tool: `form`, `limit`");
        let error = said(ToolArguments::new(values(), &[]));
        assert_eq!(error, "there is no argument `limitt`; arguments of this tool: none");
    }
}
