//! Finds the front matter at the beginning of a Markdown file.

/// The language of front matter and the line that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontMatterMarks {
    /// The line that ends the front matter. In YAML, `...` ends it, too.
    pub closing: &'static str,
    /// Whether the front matter is YAML. Otherwise, it is TOML.
    pub is_yaml: bool,
}

impl FrontMatterMarks {
    /// Reads the first line of a text, which may name the language (`---toml`). `None` if it does not begin
    /// front matter.
    pub fn of(text: &str) -> Option<Self> {
        let (closing, is_yaml) = match text.lines().next().unwrap_or_default().trim_end() {
            "---" | "---yaml" => ("---", true),
            "---toml" => ("---", false),
            "+++" => ("+++", false),
            _ => return None,
        };
        Some(Self { closing, is_yaml })
    }

    /// Splits a text that begins with these marks into the source of the front matter and the body. `None` if
    /// no line ends the front matter.
    pub fn split(self, text: &str) -> Option<(&str, &str)> {
        let start = text.find('\n').map_or(text.len(), |at| at + 1);
        let mut end = start;
        for line in text[start..].split_inclusive('\n') {
            let line_text = line.trim_end();
            if line_text == self.closing || (self.is_yaml && line_text == "...") {
                return Some((&text[start..end], &text[end + line.len()..]));
            }
            end += line.len();
        }
        None
    }
}
