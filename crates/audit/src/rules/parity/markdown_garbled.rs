//! The Markdown has the characters of the HTML.

use std::collections::HashSet;

use regex_lite::Regex;

use super::comparison::{CONVERT, Comparison};
use crate::markdown::BlockKind;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "markdown-garbled",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "The Markdown has no wrongly decoded characters and no escaped character references.",
    matters: "UTF-8 that is read as Windows-1252 turns `ü` into `Ã¼`, and text that is escaped twice shows \
              `&nbsp;`.",
    hurts: "Agents, which quote wrong names and prices.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Read and write files as UTF-8 in each step, and escape text once: Markdown needs no \
                   character references.",
        },
        CONVERT,
    ],
    check,
};

/// The characters of the bytes 0x80 to 0x9F in Windows-1252; U+FFFD for undefined bytes.
const WINDOWS_1252: &str = "€\u{fffd}‚ƒ„…†‡ˆ‰Š‹Œ\u{fffd}Ž\u{fffd}\u{fffd}‘’“”•–—˜™š›œ\u{fffd}žŸ";

/// Maximum number of distinct suspicious texts per page to look up in the HTML.
const MAX_LOOKUPS: usize = 100;

/// Reports the first garbled character of each compared page; otherwise, as advice, the first character
/// reference in its text.
fn check(survey: &Survey, findings: &mut Findings) {
    for comparison in Comparison::all(survey) {
        let shown = &*comparison.page.reference.text;
        if let Some((garbled, right)) = garbled(&comparison.markdown.text, shown) {
            findings.report(
                &[comparison.exchange, &comparison.page.html],
                format!(
                    "The Markdown has `{garbled}` where the HTML has `{right}`: decode the text as UTF-8"
                ),
            );
        } else if let Some(reference) = escaped(&comparison, shown) {
            findings.report_as(
                Severity::Advice,
                &[comparison.exchange, &comparison.page.html],
                format!(
                    "The text of the Markdown shows `{reference}`, and the HTML does not: escape text once"
                ),
            );
        }
    }
}

/// The first characters that are the UTF-8 of one character of `shown`, read as Windows-1252 or Latin-1,
/// with that character. `shown` does not have them itself.
fn garbled(text: &str, shown: &str) -> Option<(String, char)> {
    let characters: Vec<char> = text.chars().collect();
    let in_html: HashSet<char> = shown.chars().collect();
    let mut seen = HashSet::new();
    let suspicious = characters.iter().enumerate().filter_map(|(start, first)| {
        let length = match byte(*first)? {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return None,
        };
        let run = characters.get(start..start + length)?;
        let bytes: Vec<u8> = run.iter().copied().map(byte).collect::<Option<_>>()?;
        let right = std::str::from_utf8(&bytes).ok()?.chars().next()?;
        let run: String = run.iter().collect();
        (in_html.contains(&right) && seen.insert(right)).then_some((run, right))
    });
    suspicious.take(MAX_LOOKUPS).find(|(run, _)| !shown.contains(run))
}

/// The byte from 0x80 to 0xFF that Windows-1252 or Latin-1 decodes to this character, if there is one.
fn byte(character: char) -> Option<u8> {
    let mut in_windows = WINDOWS_1252.chars().zip(0x80..).filter(|(own, _)| *own != '\u{fffd}');
    let code = in_windows.find(|(own, _)| *own == character).map_or(u32::from(character), |(_, code)| code);
    u8::try_from(code).ok().filter(|byte| *byte >= 0x80)
}

/// The first character reference in the Markdown's text, outside of code, that `shown` does not contain.
fn escaped(comparison: &Comparison<'_>, shown: &str) -> Option<String> {
    let reference = Regex::new("&(?:[A-Za-z]{2,8}|#[0-9]{2,6}|#x[0-9A-Fa-f]{2,6});").ok()?;
    let blocks = &comparison.markdown.blocks;
    let texts = blocks.iter().filter(|block| matches!(block.kind, BlockKind::Heading(_) | BlockKind::Prose));
    let found = texts.flat_map(|block| reference.find_iter(&block.text)).map(|found| found.as_str());
    let mut seen = HashSet::new();
    let mut different = found.filter(|found| seen.insert(*found)).take(MAX_LOOKUPS);
    different.find(|found| !shown.contains(found)).map(str::to_owned)
}
