//! Colours code by class names, so that the stylesheet decides and no inline style is needed.

use std::sync::LazyLock;

use giallo::{HighlightOptions, Registry, ThemeVariant};

use super::html::escape;

/// The highlighter tells kinds of tokens apart by the colours of a colour theme. This one gives each kind a colour of its
/// own, which [`kind`] turns back into a name; a test holds the two together.
const PALETTE: &str = "dark-plus";

/// All grammars, unpacked once, on the first code block that names its language.
static REGISTRY: LazyLock<Option<Registry>> = LazyLock::new(|| {
    let mut registry = Registry::builtin().ok()?;
    registry.link_grammars();
    Some(registry)
});

/// `code` as HTML: escaped, with `<span class="c-KIND">` around what the grammar of `language` recognises. An unknown
/// language, or none, gives escaped text.
pub fn highlight(code: &str, language: &str) -> String {
    let language = alias(language);
    let plain = || escape(code.trim_end_matches('\n'));
    if matches!(language, "" | "text" | "txt" | "plain" | "plaintext" | "console-output") {
        return plain();
    }
    let Some(registry) = REGISTRY.as_ref().filter(|registry| registry.contains_grammar(language)) else {
        return plain();
    };
    let options = HighlightOptions::new(language, ThemeVariant::Single(PALETTE)).merge_whitespace(false);
    let Ok(highlighted) = registry.highlight(code.trim_end_matches('\n'), &options) else { return plain() };
    let mut html = String::with_capacity(code.len() * 2);
    for (number, line) in highlighted.tokens.iter().enumerate() {
        if number > 0 {
            html.push('\n');
        }
        for token in line {
            let ThemeVariant::Single(style) = &token.style else { continue };
            match kind(&style.foreground.as_hex()).filter(|_| !token.text.trim().is_empty()) {
                Some(kind) => {
                    html.push_str("<span class=\"c-");
                    html.push_str(kind);
                    html.push_str("\">");
                    html.push_str(&escape(&token.text));
                    html.push_str("</span>");
                }
                None => html.push_str(&escape(&token.text)),
            }
        }
    }
    html
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
            let html = highlight(code, language);
            assert!(html.contains(expected), "{language}: {html}");
        }
    }

    #[test]
    fn an_unknown_language_is_plain_and_escaped() {
        assert_eq!(highlight("<a> & b\n", "no-such-language"), "&lt;a&gt; &amp; b");
        assert_eq!(highlight("x < y\n", ""), "x &lt; y");
    }

    #[test]
    fn the_text_survives_whatever_the_language() {
        let code = "if (a < b) { return \"&amp;\"; } // ü\n\n\tlast";
        for language in ["rust", "javascript", "c", "html", "bash", "http", "diff"] {
            let html = highlight(code, language);
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
