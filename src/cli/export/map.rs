//! nginx's `map`: a variable whose value follows from others.

use std::fmt::Write as _;

/// One `map` block.
#[derive(Debug)]
pub(super) struct Map {
    source: String,
    variable: String,
    lines: Vec<(String, String)>,
}

impl Map {
    /// One without lines: the variable gets its value by the source's.
    pub fn new(source: &str, variable: &str) -> Self {
        Self { source: source.to_owned(), variable: variable.to_owned(), lines: Vec::new() }
    }

    /// The value where nothing matches. It may name variables, as all values may.
    pub fn default(&mut self, value: &str) {
        self.lines.push(("default".to_owned(), value.to_owned()));
    }

    /// The value of this text, in whatever case: nginx makes no difference.
    pub fn exactly(&mut self, text: &str, value: &str) {
        self.lines.push((quote(text), value.to_owned()));
    }

    /// The value where this matches. Of several the first one counts, and texts before them all.
    pub fn expression(&mut self, expression: &str, value: &str) {
        self.lines.push((quote(&format!("~{expression}")), value.to_owned()));
    }

    /// The same, in whatever case.
    pub fn expression_of_any_case(&mut self, expression: &str, value: &str) {
        self.lines.push((quote(&format!("~*{expression}")), value.to_owned()));
    }

    /// How many lines it has.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Leaves out what it has for this text.
    pub fn forget(&mut self, text: &str) {
        self.lines.retain(|(known, _)| *known != quote(text));
    }

    /// The longest text that is no expression, in bytes.
    pub fn longest(&self) -> usize {
        let texts = self.lines.iter().filter(|(text, _)| !text.starts_with("\"~"));
        texts.map(|(text, _)| text.len()).max().unwrap_or_default()
    }

    /// Writes it as nginx reads it.
    pub fn write(&self, into: &mut String) {
        let _ = writeln!(into, "\nmap \"{}\" {} {{", self.source, self.variable);
        for (text, value) in &self.lines {
            let _ = writeln!(into, "    {text} {};", quote(value));
        }
        into.push_str("}\n");
    }
}

/// As one word of the configuration. A dollar is left as it is.
pub(super) fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
