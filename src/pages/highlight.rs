//! Colours code by class names, so that the stylesheet decides and no inline style is needed.

use std::sync::OnceLock;

use giallo::{HighlightOptions, Registry, ThemeVariant};

use super::html::escape;

/// The highlighter tells kinds of tokens apart by the colours of a colour theme. This one gives each kind a colour of its
/// own, which [`kind`] turns back into a name; a test holds the two together.
const PALETTE: &str = "dark-plus";

/// The grammars' effort grows with the square of a line's length, in bytes; what is longer is not meant for reading anyhow.
const LONGEST_LINE: usize = 2_000;

/// The longest block that is coloured, in bytes.
const LONGEST_BLOCK: usize = 200_000;

/// Colours code. Once it has been used it holds all grammars, so that it should not outlive the loading of a site.
#[derive(Default)]
pub struct Highlighter {
    /// All grammars, unpacked on the first code block that names its language.
    registry: OnceLock<Option<Registry>>,
}

impl Highlighter {
    fn registry(&self) -> Option<&Registry> {
        let unpack = || {
            let mut registry = Registry::builtin().ok()?;
            registry.link_grammars();
            Some(registry)
        };
        self.registry.get_or_init(unpack).as_ref()
    }

    /// `code` as HTML: escaped, with `<span class="c-KIND">` around what the grammar of `language` recognises. An unknown
    /// language, or none, gives escaped text.
    pub fn highlight(&self, code: &str, language: &str) -> String {
        let language = alias(language);
        let code = code.trim_end_matches('\n');
        let too_long = code.len() > LONGEST_BLOCK || code.lines().any(|line| line.len() > LONGEST_LINE);
        if too_long || matches!(language, "" | "text" | "txt" | "plain" | "plaintext") {
            return escape(code);
        }
        let options = HighlightOptions::new(language, ThemeVariant::Single(PALETTE)).merge_whitespace(false);
        let registry = self.registry().filter(|registry| registry.contains_grammar(language));
        let Some(highlighted) = registry.and_then(|registry| registry.highlight(code, &options).ok()) else {
            return escape(code);
        };
        let mut html = String::with_capacity(code.len() * 2);
        for (number, line) in highlighted.tokens.iter().enumerate() {
            if number > 0 {
                html.push('\n');
            }
            for token in line {
                let ThemeVariant::Single(style) = &token.style else { continue };
                let text = escape(&token.text);
                match kind(&style.foreground.as_hex()).filter(|_| !token.text.trim().is_empty()) {
                    Some(kind) => html.push_str(&format!("<span class=\"c-{kind}\">{text}</span>")),
                    None => html.push_str(&text),
                }
            }
        }
        html
    }
}

/// Names that people write, where the grammar has another.
fn alias(language: &str) -> &str {
    match language {
        "sh" | "shell" | "zsh" | "console" => "bash",
        "yml" => "yaml",
        "rs" => "rust",
        "py" => "python",
        "js" => "javascript",
        "ts" => "typescript",
        "md" => "markdown",
        other => other,
    }
}

/// The kind of token that [`PALETTE`] paints in this colour; none for plain text.
fn kind(colour: &str) -> Option<&'static str> {
    Some(match colour {
        "#6A9955" => "comment",
        "#C586C0" | "#569CD6" => "keyword",
        "#CE9178" | "#D16969" | "#D7BA7D" => "string",
        "#B5CEA8" => "number",
        "#4FC1FF" => "constant",
        "#DCDCAA" => "function",
        "#4EC9B0" => "type",
        "#9CDCFE" => "variable",
        "#808080" => "punctuation",
        "#C8C8C8" => "tag",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_get_the_class_of_their_kind() {
        let highlighter = Highlighter::default();
        for (language, code, expected) in [
            ("rust", "fn main() {}", "<span class=\"c-keyword\">fn</span>"),
            ("rust", "// why", "<span class=\"c-comment\">// why</span>"),
            ("rust", "let x = 42;", "<span class=\"c-number\">42</span>"),
            ("python", "def f(): pass", "<span class=\"c-function\">f</span>"),
            ("json", "{\"a\": \"b\"}", "c-string"),
            ("toml", "a = \"b\"", "c-string"),
            ("bash", "# why", "<span class=\"c-comment\"># why</span>"),
            ("yaml", "a: 1", "c-number"),
        ] {
            let html = highlighter.highlight(code, language);
            assert!(html.contains(expected), "{language}: {html}");
        }
    }

    #[test]
    fn an_unknown_language_is_plain_and_escaped() {
        let highlight = |code, language| Highlighter::default().highlight(code, language);
        assert_eq!(highlight("<a> & b\n", "no-such-language"), "&lt;a&gt; &amp; b");
        assert_eq!(highlight("x < y\n", ""), "x &lt; y");
    }

    #[test]
    fn the_text_survives_whatever_the_language() {
        let code = "if (a < b) { return \"&amp;\"; } // ü\n\n\tlast";
        let highlighter = Highlighter::default();
        for language in ["rust", "javascript", "c", "html", "bash", "http", "diff"] {
            let html = highlighter.highlight(code, language);
            let mut text = String::new();
            let mut inside = false;
            for c in html.chars() {
                match c {
                    '<' => inside = true,
                    '>' => inside = false,
                    c if !inside => text.push(c),
                    _ => {}
                }
            }
            let text = text
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#39;", "'")
                .replace("&amp;", "&");
            assert_eq!(text, code, "{language}");
        }
    }
}
