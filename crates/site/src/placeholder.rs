//! Fills the placeholders of words, such as `{date}`, and adds filters for words to the template engine.

use std::borrow::Cow;
use std::collections::BTreeMap;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};

use frontdesk_forms::text::escape_html;

/// Adds the filters for words: `words.or_write|fill(mail=…)` and `words|plural("posts", n)`. `fill` returns
/// HTML: it escapes the word and its values, except values that are HTML already. `plural` returns plain
/// text, in which only `{n}` is filled in, and fails if the word does not exist.
pub(super) fn add_filters(environment: &mut Environment<'static>) {
    environment.add_filter("fill", |text: String, values: Kwargs| -> Result<Value, Error> {
        let mut given = BTreeMap::new();
        for name in values.args() {
            let value: Value = values.get(name)?;
            let text = value.to_string();
            given.insert(name, if value.is_safe() { text } else { escape_html(&text) });
        }
        let filled = fill(&escape_html(&text), |name| given.get(name).map(|value| value.as_str().into()));
        Ok(Value::from_safe_string(filled))
    });
    environment.add_filter("plural", |words: Value, name: String, n: usize| -> Result<Value, Error> {
        let text = |name: &str| words.get_attr(name).map(|text| text.to_string());
        let number = n.to_string();
        let name = plural_name(&name, &text("singular")?, &number);
        if words.get_attr(&name)?.is_undefined() {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("there is no word `{name}`, which the filter `plural` needs for {n}"),
            ));
        }
        Ok(Value::from(fill(&text(&name)?, |name| (name == "n").then(|| number.as_str().into()))))
    });
}

/// The name of the word to use with `number`: `name` with `_one` or `_other` appended. `singular` lists the
/// numbers that take the singular, separated by commas.
pub(super) fn plural_name(name: &str, singular: &str, number: &str) -> String {
    let is_singular = singular.split(',').any(|one| one.trim() == number);
    format!("{name}_{}", if is_singular { "one" } else { "other" })
}

/// Replaces each placeholder `{name}` for which `value` has a value. Leaves other braces unchanged, also
/// those in values.
pub(super) fn fill<'a>(text: &str, value: impl Fn(&str) -> Option<Cow<'a, str>>) -> String {
    let mut filled = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, after) = rest.split_at(at);
        filled.push_str(before);
        let name = placeholder(after);
        if let Some((name, value)) = name.and_then(|name| Some((name, value(name)?))) {
            filled.push_str(&value);
            rest = &after[name.len() + 2..];
        } else {
            filled.push('{');
            rest = &after[1..];
        }
    }
    filled + rest
}

/// The name of the placeholder at the beginning of `text`: lower-case ASCII letters and `_` in braces. `None`
/// if there is none.
fn placeholder(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_name.then_some(name)
}

/// The names of all placeholders in `text`, sorted and without duplicates.
pub(super) fn placeholders(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> =
        text.match_indices('{').filter_map(|(at, _)| placeholder(&text[at..])).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_that_are_no_placeholders_stay() {
        let value = |name: &str| (name == "n").then(|| "{n}".into());
        for (text, expected) in [
            ("{n} of {m}", "{n} of {m}"),
            ("{{n}}", "{{n}}"),
            ("{", "{"),
            ("{n", "{n"),
            ("{ n }", "{ n }"),
            ("a{n}é", "a{n}é"),
        ] {
            assert_eq!(fill(text, value), expected);
        }
    }
}
