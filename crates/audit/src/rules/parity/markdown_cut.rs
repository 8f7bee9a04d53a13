//! The Markdown of a page is complete.

use super::comparison::{CONVERT, cut_block, markdown_of};
use crate::exchange::MAX_BODY;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::excerpt;

pub(super) static RULE: Rule = Rule {
    id: "markdown-cut",
    group: Group::Parity,
    severity: Severity::Broken,
    checks: "The Markdown of a page is complete.",
    matters: "An incomplete body is a transfer error (RFC 9112 §8). Agents use it anyway, because Markdown \
              has no end marker.",
    hurts: "Agents, which answer from a part of the page.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Raise the size limit of the converter or the proxy, and compute `Content-Length` from the \
                   final body.",
        },
        CONVERT,
    ],
    check,
};

/// Reports each page whose Markdown did not arrive completely, or ends within a block of the HTML. Markdown
/// with an untrue `Content-Encoding` does not count as incomplete. Markdown that reaches the limit of the
/// audit is noted as not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let Some((exchange, markdown)) = markdown_of(page) else { continue };
        let Some(response) = exchange.response() else { continue };
        if response.body.len() >= MAX_BODY {
            findings.not_judged(format!("the Markdown of {} is longer than 2 MiB", page.url));
        } else if !response.is_whole && !response.is_encoding_untrue {
            findings.report(&[exchange], "The connection ended before the Markdown was complete");
        } else if let Some(block) = cut_block(page, markdown) {
            let end = markdown.blocks.last().map_or("", |last| &*last.text);
            let words = end.split_whitespace().count();
            let end = end.split_whitespace().skip(words.saturating_sub(6)).collect::<Vec<_>>().join(" ");
            let whole = excerpt(&block.text, words + 6);
            let whole: Vec<_> = whole.split(' ').collect();
            let whole = whole[whole.len().saturating_sub(13)..].join(" ");
            findings.report(
                &[exchange, &page.html],
                format!("The Markdown ends with “… {end}”, where the HTML continues: “… {whole}”"),
            );
        }
    }
}
