//! Parses the info string of a fenced code block (language, title, highlighted lines) and renders the block.
//!
//! Accepts the syntax of Docusaurus, Starlight, VitePress, Hugo, MkDocs and Zola, so that pages can be moved
//! here unchanged. Lines get classes and data attributes instead of inline styles, which the content
//! security policy forbids.

use std::fmt::Write as _;

use frontdesk_fault::closest;
use frontdesk_forms::text::escape_html;

/// Maximum number of lines that get elements of their own. Longer blocks are shown without line numbers and
/// highlighted lines, because every line adds some 30 bytes to the page.
const MAX_MARKED_LINES: usize = 10_000;

/// An inclusive range of line numbers, which start at 1.
type LineRange = (usize, usize);

/// The parsed info string of a code block.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CodeBlock {
    pub language: String,
    pub title: Option<String>,
    highlighted: Vec<LineRange>,
    inserted: Vec<LineRange>,
    deleted: Vec<LineRange>,
    /// The number of the first line, if lines are numbered.
    first_number: Option<usize>,
}

/// The attribute names that the warning about an unknown attribute suggests.
const NAMES: [&str; 8] =
    ["title", "hl_lines", "mark", "ins", "del", "showLineNumbers", "linenos", "startLineNumber"];

/// Attributes of other generators and of rustdoc that are ignored without a warning, in lower case.
#[rustfmt::skip]
const WITHOUT_EFFECT: [&str; 22] = [
    "wrap", "frame", "collapse", "hide_lines", "live", "noinline", "copy", "ignore", "no_run",
    "should_panic", "compile_fail", "editable", "noplayground", "noplaypen", "mdbook-runnable",
    "anchorlinenos", "lineanchors", "linenostyle", "hl_inline", "style", "preserveindent", "theme",
];

/// The languages that the warning about an unknown language suggests.
#[rustfmt::skip]
const USUAL_LANGUAGES: [&str; 33] = [
    "bash", "c", "cpp", "csharp", "css", "diff", "docker", "elixir", "go", "graphql", "haskell", "html", "http", "ini", "java",
    "javascript", "json", "kotlin", "lua", "markdown", "nginx", "perl", "php", "powershell", "python", "ruby", "rust", "scala",
    "sql", "swift", "toml", "typescript", "yaml",
];

/// The message about a language that is not highlighted. Suggests a common language with a similar name.
pub fn describe_unknown_language(language: &str) -> String {
    let meant = closest(&language.to_ascii_lowercase(), USUAL_LANGUAGES);
    let question = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    format!("the language `{language}` of a code block is unknown{question}")
}

impl CodeBlock {
    /// Parses an info string, the text after the opening fence. `lines` is the number of lines of code. Calls
    /// `warn` with a message for each unknown attribute and each invalid line number. A first line number
    /// does not number the lines if no other attribute does. Without a language at the beginning, the
    /// language is the first class, as in `{.rust}`, or unknown word in braces, as in `{python}`, whichever
    /// comes first.
    pub fn parse(info: &str, lines: usize, warn: &mut impl FnMut(String)) -> Self {
        let end = info.find([' ', ',', '{', '\t', ':', '=']).unwrap_or(info.len());
        // Without a language, as in `title="a.txt"`, the first word is an attribute.
        let end = if info[end..].starts_with('=') { 0 } else { end };
        let mut block = Self { language: info[..end].to_owned(), ..Self::default() };
        let mut numbered = None;
        let mut start = None;
        for (name, value) in Attributes(&info[end..]) {
            let mut ranges = |text: &str| line_ranges(text, lines, warn);
            match name.to_ascii_lowercase().replace('-', "_").as_str() {
                "title" | "name" | "filename" | "file" => {
                    block.title = Some(value).filter(|it| !it.is_empty());
                }
                "" | "hl_lines" | "mark" | "highlight" | "emphasize_lines" => {
                    block.highlighted.extend(ranges(&value));
                }
                "ins" | "add" | "added" => block.inserted.extend(ranges(&value)),
                "del" | "rem" | "removed" => block.deleted.extend(ranges(&value)),
                "showlinenumbers" | "linenos" | "linenums" | "line_numbers" | "numberlines" => {
                    numbered = Some(!matches!(value.as_str(), "false" | "off"));
                    let is_word = ["", "true", "on", "table", "inline", "false", "off"].contains(&&*value);
                    start = if is_word { start } else { first_number(&name, &value, warn).or(start) };
                }
                "nolinenumbers" | "no_line_numbers" => numbered = Some(false),
                "linenostart" | "startlinenumber" | "startfrom" | "firstline" => {
                    start = first_number(&name, &value, warn).or(start);
                }
                // `{.rust #id}` is Pandoc's syntax for a language and an anchor.
                class if class.starts_with('.') && block.language.is_empty() => {
                    name[1..].clone_into(&mut block.language);
                }
                other => {
                    let known = other.starts_with(['.', '#'])
                        || other.starts_with("edition")
                        || other.starts_with("ignore_")
                        || is_error_code(other)
                        || WITHOUT_EFFECT.contains(&other.replace('_', "-").as_str())
                        || WITHOUT_EFFECT.contains(&other);
                    let is_word = value.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
                    if !known && is_word && block.language.is_empty() && info.starts_with('{') {
                        block.language = name;
                    } else if !known {
                        warn(match closest(&name, NAMES) {
                            Some(meant) => {
                                format!("unknown attribute `{name}` of a code block; did you mean `{meant}`?")
                            }
                            None => format!("unknown attribute `{name}` of a code block"),
                        });
                    }
                }
            }
        }
        block.first_number = numbered.unwrap_or(false).then_some(start.unwrap_or(1));
        block
    }

    /// Whether any attribute has an effect. Ignored, unknown and empty attributes do not count.
    pub fn has_attributes(&self) -> bool {
        let Self { language, title: _, highlighted: _, inserted: _, deleted: _, first_number: _ } = self;
        *self != Self { language: language.clone(), ..Self::default() }
    }

    /// The info string for the Markdown representation: the language, and the title if there is one. A block
    /// with a title but no language gets `text`, and quotes and backticks in the title become apostrophes.
    /// The other attributes affect only the appearance of the block.
    pub fn plain_info(&self) -> String {
        match &self.title {
            Some(title) => format!("{} title=\"{}\"", self.named_language(), title.replace(['"', '`'], "'")),
            None => self.language.clone(),
        }
    }

    fn named_language(&self) -> &str {
        if self.language.is_empty() { "text" } else { &self.language }
    }

    fn is_diff(&self) -> bool {
        matches!(self.language.as_str(), "diff" | "patch" | "udiff")
    }

    /// The language for highlighting the code. Empty for a diff, because each of its lines has one color.
    pub fn grammar(&self) -> &str {
        if self.is_diff() { "" } else { &self.language }
    }

    /// The block as HTML, in a `<figure>` if it has a title. `code` is highlighted or escaped HTML in which
    /// no element spans two lines. In a block of more than `MAX_MARKED_LINES` lines, no line is numbered or
    /// marked.
    pub fn render(&self, code: &str) -> String {
        let language = escape_html(self.named_language());
        let count = code.split('\n').count();
        let is_unmarked = !self.is_diff() && self.first_number.is_none() && {
            self.highlighted.is_empty() && self.inserted.is_empty() && self.deleted.is_empty()
        };
        let is_plain = is_unmarked || count > MAX_MARKED_LINES;
        let class = if self.first_number.is_some() && !is_plain { "code numbered" } else { "code" };
        let mut html = String::with_capacity(code.len() + 128);
        if let Some(title) = &self.title {
            let _ =
                writeln!(html, "<figure class=\"code-box\"><figcaption>{}</figcaption>", escape_html(title));
        }
        let _ = write!(
            html,
            "<pre class=\"{class}\" tabindex=\"0\" data-lang=\"{language}\"><code class=\"language-{language}\">"
        );
        if is_plain {
            html.push_str(code);
            html.push('\n');
        } else {
            let lines: Vec<&str> = code.split('\n').collect();
            (1..=lines.len()).for_each(|number| self.render_line(&mut html, number, &lines));
        }
        html.push_str("</code></pre>\n");
        if self.title.is_some() {
            html.push_str("</figure>\n");
        }
        html
    }

    /// Appends the line `number` of `lines` with its element. `ins` and `del` mark lines that the page's
    /// author added or removed; the stylesheet adds `+` or `-`. A line that is marked as both gets `del`. The
    /// lines of a diff already contain these signs, so they get neither.
    fn render_line(&self, html: &mut String, number: usize, lines: &[&str]) {
        let line = lines[number - 1];
        let is_in = |ranges: &[LineRange]| ranges.iter().any(|(from, to)| (*from..=*to).contains(&number));
        let mut class = String::from("line");
        let mut tag = "span";
        if self.is_diff() {
            class.push_str(diff_class(lines, number - 1));
        } else if is_in(&self.deleted) {
            tag = "del";
        } else if is_in(&self.inserted) {
            tag = "ins";
        }
        if is_in(&self.highlighted) {
            class.push_str(" marked");
            if tag == "span" {
                tag = "mark";
            }
        }
        let _ = write!(html, "<{tag} class=\"{class}\"");
        if let Some(first) = self.first_number {
            let _ = write!(html, " data-line=\"{}\"", first.saturating_add(number - 1));
        }
        let _ = writeln!(html, ">{line}\n</{tag}>");
        // Remove the line feed after the closing tag: the stylesheet makes each line a block, so it would be
        // shown as an empty line.
        html.pop();
    }
}

/// The class of the line at index `at` of a unified diff, with a leading space; empty for a context line. The
/// lines are escaped HTML. `---` and `+++` name files only on consecutive lines: a removed comment of SQL or
/// Lua also begins with `--- `. Does not count the lines of hunks, because documentation shortens them.
fn diff_class(lines: &[&str], at: usize) -> &'static str {
    let line = lines[at];
    let names_files = |first: usize| {
        let begins = |at: usize, start: &str| lines.get(at).is_some_and(|line| line.starts_with(start));
        begins(first, "--- ") && begins(first + 1, "+++ ")
    };
    let is_header = ["diff ", "index ", "@@"].iter().any(|start| line.starts_with(start))
        || names_files(at)
        || at > 0 && names_files(at - 1);
    match line.as_bytes().first() {
        _ if is_header => " c-meta",
        Some(b'+') => " c-inserted",
        Some(b'-') => " c-deleted",
        _ => "",
    }
}

/// Whether a word in lower case is the code of a compiler error that a rustdoc example expects: `e0308`.
fn is_error_code(word: &str) -> bool {
    word.strip_prefix('e')
        .is_some_and(|digits| digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// The number of the first line. A step after it, as in MkDocs' `1 2`, has no effect. Calls `warn` and
/// returns `None` if the value of the attribute `name` does not begin with a number.
fn first_number(name: &str, value: &str, warn: &mut impl FnMut(String)) -> Option<usize> {
    let number = value.split_whitespace().next().and_then(|first| first.parse().ok());
    if number.is_none() {
        warn(format!("`{name}={value}` does not name the first line: write its number, as in `{name}=10`"));
    }
    number
}

/// Parses line numbers and ranges: `1,3-5`, `1 3-5`, `"2-4",7`. Calls `warn` for invalid items, which are
/// left out, and for numbers greater than `lines`, which are kept.
fn line_ranges(text: &str, lines: usize, warn: &mut impl FnMut(String)) -> Vec<LineRange> {
    let items =
        text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'' | '[' | ']' | '{' | '}'));
    let mut ranges = Vec::new();
    for item in items.filter(|item| !item.is_empty()) {
        let (from, to) = item.split_once(['-', '–']).unwrap_or((item, item));
        match (from.trim_matches('.').parse::<usize>(), to.trim_matches('.').parse::<usize>()) {
            (Ok(from), Ok(to)) if from >= 1 && from <= to => {
                if to > lines {
                    let are = if lines == 1 { "line" } else { "lines" };
                    warn(format!("`{item}` names a line that does not exist: the block has {lines} {are}"));
                }
                ranges.push((from, to));
            }
            _ => warn(format!("`{item}` is neither a line number nor a range of lines such as `3-5`")),
        }
    }
    ranges
}

/// The attributes of an info string as names and values. A list of lines in braces has an empty name.
/// Attributes in other braces (`{linenos=true}`) are treated like attributes without braces. Text in brackets
/// is a `title`. Text in quotes is a name that keeps its quotes.
struct Attributes<'a>(&'a str);

impl Attributes<'_> {
    /// Takes a value in quotes, braces or brackets, or a bare one, from the beginning. If the closing quote,
    /// brace or bracket is missing, the value is the whole rest. A bare value ends at a space, a tab, a comma
    /// or `}`, but line numbers and ranges with spaces between them are one value.
    fn take_value(&mut self) -> String {
        let text = self.0;
        let closing = match text.chars().next() {
            Some(quote @ ('"' | '\'')) => Some(quote),
            Some('{') => Some('}'),
            Some('[') => Some(']'),
            _ => None,
        };
        if let Some(closing) = closing {
            let end = text[1..].find(closing).map_or(text.len(), |at| at + 1);
            self.0 = text.get(end + 1..).unwrap_or_default();
            return text[1..end].to_owned();
        }
        let mut end = text.find([' ', '\t', ',', '}']).unwrap_or(text.len());
        // In Zola's `hl_lines=1 3-5`, spaces separate the numbers and ranges.
        let is_range = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'-') && !text.is_empty();
        while is_range(text[..end].rsplit(' ').next().unwrap_or_default()) && text[end..].starts_with(' ') {
            let next = &text[end + 1..];
            let length = next.find([' ', '\t', ',', '}']).unwrap_or(next.len());
            if !is_range(&next[..length]) {
                break;
            }
            end += 1 + length;
        }
        self.0 = &text[end..];
        text[..end].to_owned()
    }
}

impl Iterator for Attributes<'_> {
    type Item = (String, String);

    /// Takes the next attribute. The value of an attribute without `=` is empty.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let text = self.0.trim_start_matches([' ', '\t', ',', ':', '}']);
            self.0 = text;
            let first = text.chars().next()?;
            if first == '{' {
                let inner = &text[1..text.find('}').unwrap_or(text.len())];
                let is_list = inner.bytes().all(|b| b.is_ascii_digit() || matches!(b, b' ' | b',' | b'-'));
                if is_list {
                    return Some((String::new(), self.take_value()));
                }
                // Continue with the attributes inside the braces. The closing brace is skipped later.
                self.0 = &text[1..];
                continue;
            }
            if first == '[' {
                return Some(("title".to_owned(), self.take_value()));
            }
            if matches!(first, '"' | '\'') {
                // Expressive Code marks the quoted text where it occurs in the code. That is not supported,
                // so `parse` warns.
                let marked = self.take_value();
                return Some((format!("{first}{marked}{first}"), String::new()));
            }
            let end = text.find([' ', '\t', ',', '=', '{', '}']).unwrap_or(text.len());
            let (name, rest) = text.split_at(end.max(first.len_utf8()));
            self.0 = rest;
            let value = match rest.strip_prefix('=') {
                Some(after) => {
                    self.0 = after;
                    self.take_value()
                }
                None => String::new(),
            };
            return Some((name.to_owned(), value));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(info: &str) -> (CodeBlock, Vec<String>) {
        let mut warnings = Vec::new();
        let block = CodeBlock::parse(info, 20, &mut |warning| warnings.push(warning));
        (block, warnings)
    }

    #[test]
    fn the_spellings_of_other_generators_are_understood() {
        let titled = |title: &str| CodeBlock { title: Some(title.into()), ..CodeBlock::default() };
        let lines =
            |highlighted: &[LineRange]| CodeBlock { highlighted: highlighted.into(), ..CodeBlock::default() };
        let numbered = |first| CodeBlock { first_number: Some(first), ..CodeBlock::default() };
        for (info, expected) in [
            ("rs", CodeBlock::default()),
            ("rs title=\"src/a b.rs\"", titled("src/a b.rs")),
            ("rs title='a.rs'", titled("a.rs")),
            ("{rs, title='a.rs'}", titled("a.rs")),
            ("{rs} title='a.rs'", titled("a.rs")),
            ("rs title=a.rs", titled("a.rs")),
            ("rs,name=a.rs", titled("a.rs")),
            ("rs [a.rs]", titled("a.rs")),
            ("rs {title=\"a.rs\"}", titled("a.rs")),
            ("rs {1,3-5}", lines(&[(1, 1), (3, 5)])),
            ("rs{1,3-5}", lines(&[(1, 1), (3, 5)])),
            ("rs mark={2, 4}", lines(&[(2, 2), (4, 4)])),
            ("rs,hl_lines=1 3-5", lines(&[(1, 1), (3, 5)])),
            ("rs hl_lines=\"1 3-5\"", lines(&[(1, 1), (3, 5)])),
            ("rs {hl_lines=[1,\"3-5\"]}", lines(&[(1, 1), (3, 5)])),
            ("rs showLineNumbers", numbered(1)),
            ("rs,linenos,linenostart=7", numbered(7)),
            ("rs {linenos=inline,linenostart=7}", numbered(7)),
            ("rs showLineNumbers=7", numbered(7)),
            ("rs linenums=\"7\"", numbered(7)),
            ("rs linenums=\"7 2\"", numbered(7)),
            ("rs:line-numbers", numbered(1)),
            ("rs showLineNumbers=false startLineNumber=3", CodeBlock::default()),
            ("{.rs linenos=true}", numbered(1)),
            ("rs,ignore,edition2024,E0308 frame=none wrap", CodeBlock::default()),
            (
                "rs ins={2} del={3-4}",
                CodeBlock { inserted: vec![(2, 2)], deleted: vec![(3, 4)], ..CodeBlock::default() },
            ),
        ] {
            let (block, warnings) = parse(info);
            assert_eq!(block, CodeBlock { language: "rs".into(), ..expected }, "{info}");
            assert_eq!(warnings, [""; 0], "{info}");
        }
    }

    #[test]
    fn attributes_without_effect_are_reported() {
        for (info, warning) in [
            ("rs tilte=\"a\"", "unknown attribute `tilte` of a code block; did you mean `title`?"),
            ("rs {21}", "`21` names a line that does not exist: the block has 20 lines"),
            ("rs {5-3}", "`5-3` is neither a line number"),
            ("rs ins={a}", "`a` is neither a line number"),
            ("rs {0}", "`0` is neither a line number"),
            (
                "rs linenostart=x",
                "`linenostart=x` does not name the first line: write its number, as in `linenostart=10`",
            ),
            (
                "rs linenos=abc",
                "`linenos=abc` does not name the first line: write its number, as in `linenos=10`",
            ),
            ("rs \"text\"", "unknown attribute `\"text\"` of a code block"),
            ("rs title=\"open", ""),
        ] {
            let (_, warnings) = parse(info);
            assert_eq!(warnings.len(), usize::from(!warning.is_empty()), "{info}: {warnings:?}");
            assert!(warnings.iter().all(|found| found.starts_with(warning)), "{info}: {warnings:?}");
        }
    }

    #[test]
    fn lines_have_elements_only_if_needed() {
        let render = |info: &str, code: &str| {
            let html = parse(info).0.render(code);
            let (_, code) = html.split_once("<code class=\"language-").expect("a code element");
            code.split_once("\">").expect("its end").1.trim_end().trim_end_matches("</code></pre>").to_owned()
        };
        assert_eq!(render("rs", "a\nb"), "a\nb\n");
        assert_eq!(
            render("rs {2}", "a\n&lt;\n"),
            "<span class=\"line\">a\n</span><mark class=\"line marked\">&lt;\n</mark><span class=\"line\">\n</span>"
        );
        assert_eq!(
            render("rs ins={1} del={2} linenos=9", "a\nb"),
            "<ins class=\"line\" data-line=\"9\">a\n</ins><del class=\"line\" data-line=\"10\">b\n</del>"
        );
        assert_eq!(
            render("diff", "@@\n-b\n+c\n d"),
            "<span class=\"line c-meta\">@@\n</span><span class=\"line c-deleted\">-b\n</span>\
             <span class=\"line c-inserted\">+c\n</span><span class=\"line\"> d\n</span>"
        );
    }

    #[test]
    fn changed_lines_of_a_diff_may_begin_with_more_signs() {
        let lines = ["--- a", "+++ b", "@@ -1 +1 @@", "--- c", "+-- d", "+++ e", " f", "--- a", "+++ b"];
        let (meta, deleted, inserted) = (" c-meta", " c-deleted", " c-inserted");
        let expected = [meta, meta, meta, deleted, inserted, inserted, "", meta, meta];
        assert_eq!(std::array::from_fn(|at| diff_class(&lines, at)), expected);
    }

    #[test]
    fn a_title_is_the_caption_of_a_figure() {
        let html = parse("rs title=\"<a>\"").0.render("x");
        assert!(
            html.starts_with("<figure class=\"code-box\"><figcaption>&lt;a&gt;</figcaption>\n<pre "),
            "{html}"
        );
        assert!(html.ends_with("</pre>\n</figure>\n"), "{html}");
    }

    #[test]
    fn the_plain_info_string_keeps_language_and_title() {
        for (info, plain) in [
            ("rs {1} linenos", "rs"),
            ("rs title='a \"b\"' {1}", "rs title=\"a 'b'\""),
            ("{title=a}", "text title=\"a\""),
            ("title=\"a b.rs\"", "text title=\"a b.rs\""),
            ("title=a {1}", "text title=\"a\""),
            ("{python}", "python"),
            ("{wrap}", ""),
            ("", ""),
        ] {
            assert_eq!(parse(info).0.plain_info(), plain, "{info}");
        }
    }

    proptest! {
        #[test]
        fn any_info_string_is_parsed(info in "[a-z0-9={}\\[\\]\"' ,:.#é–-]{0,40}") {
            let (block, warnings) = parse(&info);
            prop_assert!(warnings.len() <= info.len());
            block.render("a\nb");
        }
    }

    #[test]
    fn very_long_blocks_have_no_marked_lines() {
        let block = CodeBlock { first_number: Some(1), ..CodeBlock::default() };
        for (lines, class) in [(MAX_MARKED_LINES, "code numbered"), (MAX_MARKED_LINES + 1, "code")] {
            let html = block.render(&vec!["x"; lines].join("\n"));
            assert!(html.starts_with(&format!("<pre class=\"{class}\" ")), "{}", &html[..60]);
        }
    }
}
