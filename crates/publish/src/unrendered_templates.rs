//! Distinguishes the Markdown that a generator wrote for readers from a copy of its source, which still has
//! template syntax.

use crate::front_matter::FrontMatterMarks;

/// Template syntax, found outside of code, that a site generator would have replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSyntax {
    /// The characters that begin the syntax, such as `{{`.
    pub kind: String,
    /// The line, counted from 1.
    pub line: usize,
}

/// Delimiters of expressions, tags and includes: of Hugo, Liquid, Jinja, Nunjucks, Vue, EJS, ERB and
/// markdown-include.
const DELIMITERS: [(&str, &str); 4] = [("{{", "}}"), ("{%", "%}"), ("<%", "%>"), ("{!", "!}")];

/// CommonMark reads a line with at least this indentation, in columns, as code, unless it continues a
/// paragraph.
const CODE_INDENT: usize = 4;
/// The number of columns between two tab stops (CommonMark).
const TAB_STOP: usize = 4;

/// Lines that begin in this way are directives: snippets, admonitions and tabs of Python-Markdown, attributes
/// of kramdown, includes of VitePress. The containers of VitePress and Docusaurus (`:::`) are not among them,
/// because the plugins of these generators that write Markdown for readers keep them.
const DIRECTIVES: [&str; 9] =
    ["--8<--", "!!! ", "??? ", "???+ ", "=== \"", "{: ", "{:.", "<!--@include:", "<!-- @include:"];

/// The first template syntax in `written` whose kind is not in `shown`, the Markdown made from the page's
/// HTML: a page about templates may show some. `None` if there is none, so that `written` is for readers.
pub fn find_template_syntax(written: &str, shown: &str) -> Option<TemplateSyntax> {
    let found = template_syntax(written);
    let shown = if found.is_empty() { Vec::new() } else { template_syntax(shown) };
    found.into_iter().find(|syntax| !shown.iter().any(|shown| shown.kind == syntax.kind))
}

/// The template syntax in a Markdown text outside of front matter, code blocks and code spans. Includes code
/// blocks that are directives, and the first line of front matter in TOML. A code block that is not closed
/// reaches to the end of the text.
fn template_syntax(text: &str) -> Vec<TemplateSyntax> {
    let mut found = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let marks = FrontMatterMarks::of(text);
    let front_matter = marks.and_then(|marks| Some((marks, marks.split(text)?.1)));
    // If no line ends the front matter, there is none, and the first line belongs to the body.
    let body = front_matter.map_or(text, |(_, body)| body);
    let skipped = &text[..text.len() - body.len()];
    if front_matter.is_some_and(|(marks, _)| !marks.is_yaml) {
        // Only sources of generators such as Hugo and Zola have front matter in TOML.
        let opening = text.lines().next().unwrap_or_default().trim_end();
        found.push(TemplateSyntax { kind: opening.to_owned(), line: 1 });
    }
    // The fence that opened the current code block, and its indentation.
    let mut fence: Option<(&str, usize)> = None;
    let mut follows_text = false;
    for (line, number) in body.lines().zip(skipped.lines().count() + 1..) {
        let indent = indentation(line);
        let is_indented = indent >= CODE_INDENT;
        let is_fenced = fence.is_some();
        let trimmed = line.trim();
        let marks = fence_marks(trimmed);
        let mut add = |kind: &str| found.push(TemplateSyntax { kind: kind.to_owned(), line: number });
        match fence {
            Some((open, depth)) => {
                if marks.starts_with(open) && marks.len() == trimmed.len() && indent < depth + CODE_INDENT {
                    fence = None;
                }
            }
            // Skip indented code, which may look like a fence.
            None if is_indented && !follows_text => {}
            None if !marks.is_empty() => {
                fence = Some((marks, indent));
                // `{name}` after the fence is a directive of MyST, or code that Quarto or R Markdown runs.
                let mut info = trimmed[marks.len()..].trim_start().chars();
                if info.next() == Some('{') && info.next().is_some_and(char::is_alphabetic) {
                    add(&format!("{marks}{{"));
                }
            }
            None => {
                if let Some(kind) = directive(trimmed) {
                    add(&kind);
                }
                if has_role(trimmed) {
                    add("{role}`");
                }
                let prose = without_code_spans(trimmed);
                for (open, close) in DELIMITERS {
                    if prose.split_once(open).is_some_and(|(_, rest)| rest.contains(close)) {
                        add(open);
                    }
                }
            }
        }
        // An indented line after text continues the paragraph, so it is not code.
        follows_text = !is_fenced && !trimmed.is_empty() && (follows_text || !is_indented);
    }
    found
}

/// The number of columns of white space at the beginning of a line.
fn indentation(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    blanks.fold(0, |width, c| if c == '\t' { (width / TAB_STOP + 1) * TAB_STOP } else { width + 1 })
}

/// The backticks or tildes at the beginning of a line, if they begin or end a fenced code block. Empty for
/// other lines.
fn fence_marks(line: &str) -> &str {
    let marks = |mark: char| &line[..line.len() - line.trim_start_matches(mark).len()];
    let longest = if line.starts_with('`') { marks('`') } else { marks('~') };
    // The info string of a block that is fenced with backticks has no backtick (CommonMark).
    let is_code_span = longest.starts_with('`') && line[longest.len()..].contains('`');
    if longest.len() < 3 || is_code_span { "" } else { longest }
}

/// The beginning of a line that is a directive, an import or export of a script module, or a tag of a Vue or
/// React component. `None` for other lines. `line` must not be indented.
pub fn directive(line: &str) -> Option<String> {
    if let Some(known) = DIRECTIVES.iter().find(|directive| line.starts_with(**directive)) {
        return Some((*known).to_owned());
    }
    let is_quoted = |text: &str| text.starts_with(['"', '\'']);
    if let Some(rest) = line.strip_prefix("import ")
        && (is_quoted(rest) || rest.split_once(" from ").is_some_and(|(_, module)| is_quoted(module)))
    {
        return Some("import ".to_owned());
    }
    if ["export const ", "export default ", "export function "].iter().any(|export| line.starts_with(export))
    {
        return Some("export ".to_owned());
    }
    let name = line.strip_prefix('<')?.strip_prefix('/').unwrap_or(&line[1..]);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(name.len());
    let is_component = name.starts_with(|c: char| c.is_ascii_uppercase())
        && name[..end].contains(|c: char| c.is_ascii_lowercase())
        && name[end..].starts_with([' ', '/', '>']);
    is_component.then(|| format!("<{}", &name[..end]))
}

/// Whether a line has a role of MyST, such as `` {ref}`target` ``.
fn has_role(line: &str) -> bool {
    line.match_indices("}`").any(|(end, _)| {
        line[..end].rsplit_once('{').is_some_and(|(before, name)| {
            !before.ends_with('`')
                && name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.chars().all(|c| c.is_ascii_lowercase() || matches!(c, ':' | '-' | '_'))
        })
    })
}

/// The line without code spans. Removes only the backticks of a span that is not closed.
fn without_code_spans(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let (before, from) = rest.split_at(at);
        let inner = from.trim_start_matches('`');
        let marks = &from[..from.len() - inner.len()];
        text.push_str(before);
        rest = match inner.split_once(marks) {
            Some((_, after)) => after,
            None => inner,
        };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind and line of the first template syntax of a text whose page shows `shown`.
    fn check(written: &str, shown: &str, expected: Option<(&str, usize)>) {
        let found = find_template_syntax(written, shown);
        let found = found.as_ref().map(|syntax| (syntax.kind.as_str(), syntax.line));
        assert_eq!(found, expected, "{written:?}");
    }

    #[test]
    fn sources_have_template_syntax() {
        for (written, kind, line) in [
            ("+++\ntitle = 'A'\n+++\nText\n", "+++", 1),
            ("---\ntitle: A\n---\n\nText {{< ref \"b\" >}}\n", "{{", 5),
            ("# A\n\n{{% note %}}\nText\n{{% /note %}}\n", "{{", 3),
            ("Text\n{% include nav.html %}\n", "{%", 2),
            ("Version {{ site.version }}\n", "{{", 1),
            ("- <%= title %>\n", "<%", 1),
            ("{!shared.md!}\n", "{!", 1),
            ("--8<-- \"shared.md\"\n", "--8<--", 1),
            ("Text\n\n!!! note\n    Text\n", "!!! ", 3),
            ("=== \"Linux\"\n\n    apt\n", "=== \"", 1),
            ("# A\n{: .title}\n", "{: ", 2),
            ("<!--@include: ./b.md-->\n", "<!--@include:", 1),
            ("import Tabs from '@theme/Tabs';\n\n# A\n", "import ", 1),
            ("export const x = 1\n", "export ", 1),
            ("# A\n\n<Tabs>\n<TabItem value=\"a\">\n", "<Tabs", 3),
            ("</Card>\n", "<Card", 1),
            ("```{note}\nText\n```\n", "```{", 1),
            (":::\nA\n:::\n~~~ {r}\nplot()\n~~~\n", "~~~{", 4),
            ("See {ref}`target`.\n", "{role}`", 1),
            ("A\n    {{ lazy }}\n", "{{", 2),
            ("---\n\nText {{ x }}\n", "{{", 3),
            ("--- \r\ntitle: A\r\n---\t\r\n\r\nText {{ x }}\r\n", "{{", 5),
            ("\u{feff}---yaml\ntitle: A\n...\nText {{ x }}\n", "{{", 4),
            ("---toml\ntitle = 'A'\n---\nText\n", "---toml", 1),
            ("+++ \ntitle = 'A'\n+++\nText\n", "+++", 1),
            ("Text\n\n    ```\n\n \t```\n\nText {{ x }}\n", "{{", 7),
        ] {
            check(written, "# A\n\nText\n", Some((kind, line)));
        }
    }

    #[test]
    fn markdown_for_readers_has_none() {
        for written in [
            "---\nurl: /a.md\ndescription: 'Use {{ x }}'\n---\n\n# A\n\nText with `{{ x }}` and ``a ` {% b %}``.\n",
            "```liquid\n{% include a %}\n```\n\n~~~\n```\n{{ x }}\n~~~\n",
            "````md\n```{note}\n```\n````\n",
            "Text\n\n    {{ indented }}\n\n    {{ still }}\n",
            "--- \ndescription: 'Use {{ x }}'\n---\t\nText\n",
            "\u{feff}---\ndescription: 'Use {{ x }}'\n...\nText\n",
            "+++\n\nText\n",
            "```\n    ```\n{{ x }}\n```\n    {{ code }}\n",
            "- A\n\n    ```\n    {{ x }}\n    ```\n\n  - B\n    ```\n    {{ x }}\n    ```\n",
            "::: tip\nText\n:::\n\n:::note Title\nText\n:::\n",
            "<details>\n<summary>More</summary>\n</details>\n",
            "Import goods from \"abroad\".\n\nimport duties rise\n",
            "Vec<T> and <T> and <https://example.com>\n<HTML>\n",
            "Set {a} or {`b`} here, 50 %} and {{.\n",
            "***\n\n--- \n+++\n",
            "`{code}`",
            "",
        ] {
            check(written, "# A\n\nText\n", None);
        }
    }

    #[test]
    fn a_page_may_show_template_syntax() {
        check("Write {{ x }}.\n", "Write {{ x }}.\n", None);
        check("Write {{ x }}.\n{% include a %}\n", "Write {{ x }}.\n", Some(("{%", 2)));
        check("{% include a %}\n", "```\n{% include a %}\n```\n", Some(("{%", 1)));
    }
}
