//! The Markdown is free of the syntax of generators.

use super::comparison::{CONVERT, Comparison};
use crate::markdown::BlockKind;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::excerpt;

pub(super) static RULE: Rule = Rule {
    id: "markdown-leftovers",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The Markdown has no components, template tags, imports, page markup or embedded images.",
    matters: "Agents read the source of the Markdown: syntax that a generator replaces in HTML means nothing \
              to them, and embedded images cost them thousands of tokens.",
    hurts: "Agents, which pay for meaningless text.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Write the Markdown after components, shortcodes and containers are rendered, or replace \
                   them with plain Markdown.",
        },
        CONVERT,
    ],
    check,
};

/// HTML elements that serve only layout, scripts or embedded content. Others, such as `<details>` and
/// `<kbd>`, have a meaning that Markdown cannot express.
const MARKUP: [&str; 12] =
    ["div", "span", "section", "script", "style", "button", "svg", "iframe", "font", "center", "main", "nav"];

/// Reports one finding for each compared page: the first leftover and how many more there are. Looks for
/// template tags in paragraphs, unless the HTML shows them, then for components and page markup, then for
/// embedded images.
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey) {
        // Skip tags that the HTML also shows, for example on a page about a template language.
        let is_shown = |part: &str| comparison.page.reference.text.contains(part);
        let mut found: Vec<(&str, String)> = Vec::new();
        for block in comparison.markdown.blocks.iter().filter(|block| block.kind == BlockKind::Prose) {
            let text = &*block.text;
            let name = template_tag(text).filter(|(tag, _)| !is_shown(tag)).map(|(_, name)| name);
            found.extend(name.map(|name| (name, excerpt(text, 8))));
        }
        for html in &comparison.markdown.html {
            let name = html
                .trim_start_matches(['<', '/'])
                .split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default();
            let kind = match name.chars().next() {
                Some('A'..='Z') => "a component",
                _ if MARKUP.contains(&name) => "page markup",
                _ => continue,
            };
            found.push((kind, excerpt(html, 8)));
        }
        let images = comparison.markdown.images.iter().filter(|image| image.starts_with("data:"));
        found.extend(images.map(|image| ("an embedded image", image.chars().take(40).collect())));
        if let Some((name, text)) = found.first() {
            let more = found.len() - 1;
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            findings.report(
                &[comparison.exchange],
                format!("The Markdown contains {name}, `{text}`{more}: write plain Markdown"),
            );
        }
    }
}

/// A mark of a template language in a paragraph, not always the first, and its name. Containers, imports and
/// exports count only at the start of the paragraph.
fn template_tag(text: &str) -> Option<(&'static str, &'static str)> {
    let marks = [
        ("{{<", "a shortcode"),
        ("{{%", "a shortcode"),
        ("{% ", "a template tag"),
        ("{%- ", "a template tag"),
    ];
    let inside = marks.into_iter().find(|(mark, _)| text.contains(mark));
    let is_import = text.starts_with("import ") && text.contains(" from ") && text.contains(['\'', '"']);
    let is_export = text.starts_with("export const ") || text.starts_with("export default ");
    match inside {
        Some(found) => Some(found),
        None if text.starts_with(":::") => Some((":::", "a container")),
        None if is_import => Some(("import ", "an import")),
        None if is_export => Some(("export ", "an export")),
        None => None,
    }
}
