//! The `map` block of nginx's configuration, which computes a variable from others.

use std::fmt::Write as _;

#[derive(Debug)]
pub(super) struct NginxMap {
    source: String,
    variable: String,
    lines: Vec<(String, String)>,
}

impl NginxMap {
    /// An empty map from `source` to `variable`.
    pub fn new(source: &str, variable: &str) -> Self {
        Self { source: source.to_owned(), variable: variable.to_owned(), lines: Vec::new() }
    }

    /// Sets the default value. Values may contain variables.
    pub fn default(&mut self, value: &str) {
        self.lines.push(("default".to_owned(), value.to_owned()));
    }

    /// Adds a text. nginx ignores its case.
    pub fn exactly(&mut self, text: &str, value: &str) {
        self.lines.push((quote(text), value.to_owned()));
    }

    /// Adds a regular expression. The first match counts; texts take precedence over expressions.
    pub fn expression(&mut self, expression: &str, value: &str) {
        self.lines.push((quote(&format!("~{expression}")), value.to_owned()));
    }

    /// Adds a regular expression that ignores case.
    pub fn expression_of_any_case(&mut self, expression: &str, value: &str) {
        self.lines.push((quote(&format!("~*{expression}")), value.to_owned()));
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Removes a text.
    pub fn remove(&mut self, text: &str) {
        self.lines.retain(|(known, _)| *known != quote(text));
    }

    /// The length of the longest text, in bytes, without regular expressions.
    pub fn longest(&self) -> usize {
        let texts = self.lines.iter().filter(|(text, _)| !text.starts_with("\"~"));
        texts.map(|(text, _)| text.len()).max().unwrap_or_default()
    }

    /// Appends the block to the configuration.
    pub fn write(&self, into: &mut String) {
        let _ = writeln!(into, "\nmap \"{}\" {} {{", self.source, self.variable);
        for (text, value) in &self.lines {
            let _ = writeln!(into, "    {text} {};", quote(value));
        }
        into.push_str("}\n");
    }
}

/// Quotes a word of the configuration. Variables stay variables.
pub(super) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
