//! Settings of a session or a transaction.

use std::fmt::Write as _;

/// The settings in the URL's `options`, as in `-c search_path=desk --lock_timeout=1s`. Hyphens in names
/// become underscores. Words in any other format are ignored. A pooler does not pass these settings on, so
/// each transaction makes them.
pub fn option_settings(options: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut words = split_words(options).into_iter();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => word.strip_prefix("--").map(str::to_owned),
        };
        if let Some((name, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

/// Splits at white space. A backslash escapes the next character.
fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char.is_ascii_whitespace() {
            if std::mem::take(&mut is_word) {
                words.push(std::mem::take(&mut word));
            }
        } else {
            is_word = true;
            word.extend(if char == '\\' { chars.next() } else { Some(char) });
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

/// SQL calls of `set_config` for these settings, separated by commas. They last until the end of the
/// transaction if `is_local` is set, and otherwise until the end of the session.
pub fn set_calls(settings: &[(String, String)], is_local: bool) -> String {
    let mut calls = String::new();
    for (name, value) in settings {
        let comma = if calls.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(calls, "{comma}set_config({}, {}, {is_local})", quote(name), quote(value));
    }
    calls
}

/// Quotes a text as an SQL string literal.
fn quote(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_split_as_the_server_does() {
        for (options, expected) in [
            ("-csearch_path=desk", vec![("search_path", "desk")]),
            ("-c search_path=a,b  --lock-timeout=1s", vec![("search_path", "a,b"), ("lock_timeout", "1s")]),
            ("-c search_path=a,\\ b", vec![("search_path", "a, b")]),
            ("-c a.b=\\\\x=1", vec![("a.b", "\\x=1")]),
            // Neon's name of a server, and a flag that is no setting.
            ("endpoint=ep-cool -e -c", vec![]),
            ("", vec![]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(option_settings(options), expected, "{options}");
        }
    }

    #[test]
    fn a_value_cannot_end_its_constant() {
        let settings = [("search_path".to_owned(), "it's \\' here".to_owned())];
        let expected = r"set_config(E'search_path', E'it''s \\'' here', true)";
        assert_eq!(set_calls(&settings, true), expected);
    }
}
