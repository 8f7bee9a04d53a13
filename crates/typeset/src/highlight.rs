//! Highlights code with class names, because the content security policy forbids inline styles.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use blake3::Hash;
use giallo::{HighlightOptions, Registry, ThemeVariant};

use frontdesk_forms::text::escape_html;

/// The theme whose colors the library assigns to tokens. [`token_kind`] maps each color to a kind of token.
/// A test checks this mapping.
const PALETTE: &str = "dark-plus";

/// Maximum length of a line, in bytes. A block with a longer line is not highlighted, because the time is
/// quadratic in the length.
const MAX_LINE_BYTES: usize = 2_000;

/// Maximum length of a highlighted block, in bytes.
const MAX_BLOCK_BYTES: usize = 200_000;

/// Highlights code. Holds tens of megabytes of grammars after its first use, so drop it after loading the
/// site.
#[derive(Default)]
pub struct Highlighter {
    /// All grammars, unpacked when the first block with a language is highlighted.
    registry: OnceLock<Option<Registry>>,
    /// The HTML of the blocks highlighted so far. Pages often repeat a block, such as a command.
    blocks: Mutex<HashMap<Hash, Arc<str>>>,
}

impl Highlighter {
    /// `None` if the grammars cannot be unpacked, which is tried only once.
    fn registry(&self) -> Option<&Registry> {
        // The grammars of the built-in registry are linked already; linking them again would take as long as
        // unpacking them.
        self.registry.get_or_init(|| Registry::builtin().ok()).as_ref()
    }

    /// The HTML of a code block: that of an earlier block with the same hash, or the result of `render`,
    /// which several threads may call for the same hash.
    pub fn block(&self, of: Hash, render: impl FnOnce() -> String) -> Arc<str> {
        let blocks = || self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = blocks().get(&of).cloned();
        known.unwrap_or_else(|| {
            // Render before locking, so that several threads can highlight at the same time.
            let html: Arc<str> = render().into();
            blocks().entry(of).or_insert(html).clone()
        })
    }

    /// Whether code in `language` is highlighted, or is known to be plain text. `true` for every language if
    /// the grammars cannot be unpacked.
    pub fn knows(&self, language: &str) -> bool {
        let find =
            || self.registry().is_none_or(|registry| registry.contains_grammar(grammar_name(language)));
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if is_plain(language) {
            return true;
        }
        let before = known().get(language).copied();
        before.unwrap_or_else(|| *known().entry(language.to_owned()).or_insert(find()))
    }

    /// Converts `code` to HTML with `<span class="c-KIND">` around the tokens of `language`, without line
    /// breaks at the end. Only escapes the code if it is plain text, if the language is unknown, if the code
    /// or one of its lines is too long, or if the library fails.
    pub fn highlight(&self, code: &str, language: &str) -> String {
        let code = code.trim_end_matches('\n');
        let too_long = code.len() > MAX_BLOCK_BYTES || code.lines().any(|line| line.len() > MAX_LINE_BYTES);
        if too_long || is_plain(language) {
            return escape_html(code);
        }
        let language = grammar_name(language);
        let options = HighlightOptions::new(language, ThemeVariant::Single(PALETTE)).merge_whitespace(false);
        let registry = self.registry().filter(|registry| registry.contains_grammar(language));
        let Some(highlighted) = registry.and_then(|registry| registry.highlight(code, &options).ok()) else {
            return escape_html(code);
        };
        let mut html = String::with_capacity(code.len() * 2);
        for (number, line) in highlighted.tokens.iter().enumerate() {
            if number > 0 {
                html.push('\n');
            }
            for token in line {
                let ThemeVariant::Single(style) = &token.style else { continue };
                let text = escape_html(&token.text);
                match token_kind(&style.foreground.as_hex()).filter(|_| !token.text.trim().is_empty()) {
                    Some(kind) => html.extend(["<span class=\"c-", kind, "\">", &text, "</span>"]),
                    None => html.push_str(&text),
                }
            }
        }
        html
    }
}

/// The languages that were looked up in this process, each with whether there is a grammar. A reload that
/// takes all highlighted blocks from earlier renderings does not unpack the grammars again.
static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Whether the name of the language means plain text, which is not highlighted.
fn is_plain(language: &str) -> bool {
    matches!(language, "" | "text" | "txt" | "plain" | "plaintext" | "none" | "output")
}

/// The grammar's name for a language: resolves common aliases, and returns other names unchanged.
fn grammar_name(language: &str) -> &str {
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

/// The kind of token that has this color in [`PALETTE`]. `None` for plain text.
fn token_kind(color: &str) -> Option<&'static str> {
    Some(match color {
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
    fn languages_with_a_grammar_and_plain_text_are_known() {
        let highlighter = Highlighter::default();
        for (language, is_known) in
            [("rust", true), ("rs", true), ("console", true), ("", true), ("text", true), ("rsut", false)]
        {
            assert_eq!(highlighter.knows(language), is_known, "{language}");
            assert_eq!(highlighter.knows(language), is_known, "{language}, a second time");
        }
    }

    #[test]
    fn highlighting_keeps_the_text() {
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
