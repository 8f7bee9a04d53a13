//! A `map` block in nginx's configuration, which computes one variable from others.

use std::fmt;

#[derive(Debug)]
pub(super) struct NginxMap {
    source: String,
    variable: String,
    lines: Vec<(String, String)>,
}

impl NginxMap {
    /// A map from `source` to `variable`, with only a default value. Values may contain variables.
    pub fn new(source: &str, variable: &str, default: &str) -> Self {
        let lines = vec![("default".to_owned(), default.to_owned())];
        Self { source: source.to_owned(), variable: variable.to_owned(), lines }
    }

    /// Maps a string to a value. nginx ignores case when it compares strings.
    pub fn add_text(&mut self, text: &str, value: &str) {
        self.lines.push((quote(text), value.to_owned()));
    }

    /// Maps strings that match a regular expression to a value. The expression ignores case if it begins with
    /// `*`. The first matching expression applies; plain strings take precedence.
    pub fn add_expression(&mut self, expression: &str, value: &str) {
        self.add_text(&format!("~{expression}"), value);
    }

    /// The number of lines, including the default.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// The length, in bytes, of the longest quoted string that is not a regular expression.
    pub fn longest_text(&self) -> usize {
        let texts = self.lines.iter().filter(|(text, _)| !text.starts_with("\"~"));
        texts.map(|(text, _)| text.len()).max().unwrap_or_default()
    }
}

impl fmt::Display for NginxMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "map \"{}\" {} {{", self.source, self.variable)?;
        for (text, value) in &self.lines {
            writeln!(f, "    {text} {};", quote(value))?;
        }
        f.write_str("}")
    }
}

/// Quotes a string for nginx's configuration. nginx still expands variables in the quoted string.
pub(super) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
