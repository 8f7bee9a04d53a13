//! The Markdown has the links of the HTML.

use frontdesk_convert::{HtmlTree, Selector};
use std::collections::{BTreeSet, HashSet};

use super::comparison::{CONVERT, Comparison, has_own_text};
use crate::markdown::TextBlock;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::words::words;

pub(super) static RULE: Rule = Rule {
    id: "markdown-links-missing",
    group: Group::Parity,
    severity: Severity::Advice,
    checks: "The Markdown has the links of the HTML. Relative links and links to the Markdown of a page \
             count.",
    matters: "Agents follow links to find what a page does not say itself.",
    hurts: "Agents, which do not find the linked pages.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Keep links in the Markdown: `[text](https://example.com/page/)`.",
        },
        CONVERT,
    ],
    check,
};

/// If the HTML has at least this many links, Markdown without links is reported as broken, not as advice.
const MANY: usize = 5;

/// Minimum number of words in a compared block of links: the Markdown may have a shorter text by chance.
const MIN_WORDS: usize = 3;

/// Reports how many `http` and `https` links of each compared page are missing. Considers only blocks whose
/// text the Markdown has. Blocks around the content, blocks of links with fewer than [`MIN_WORDS`] words, and
/// links to the page itself, to files and to services do not count. Broken if the Markdown has neither links
/// nor raw HTML, and the HTML has at least [`MANY`] such links. Skips Markdown that is another text
/// ([`Comparison::is_other_text`]).
fn check(survey: &Survey, findings: &mut Findings) {
    let anchor = Selector::parse("a[href]").unwrap_or_else(|error| unreachable!("{error}"));
    for comparison in Comparison::all(survey).iter().filter(|comparison| !comparison.is_other_text()) {
        let page = comparison.page;
        let (base, markdown) = (comparison.exchange.url(), comparison.markdown);
        // Relative links may be relative to the Markdown or to the page, so resolve them against both URLs.
        let links = markdown.links.iter().flat_map(|link| [base.join(link), page.url.join(link)]);
        let html = HtmlTree::parse(&markdown.html.concat());
        let anchors =
            html.all(&anchor).into_iter().filter_map(|link| page.url.join(link.attribute("href")?).ok());
        let own: HashSet<_> = links.flatten().chain(anchors).map(|url| essence(url.as_str())).collect();
        let is_long = |text: &str| words(text).len() >= MIN_WORDS;
        let is_text = |block: &&TextBlock| has_own_text(block) || is_long(&block.text);
        // Skip blocks whose text the Markdown lacks: the rule `markdown-text-missing` reports them.
        let blocks = page.reference.blocks.iter().filter(is_text).filter(|block| comparison.has(&block.text));
        let blocks = blocks.filter(|block| !comparison.is_surrounding(&block.text));
        let links = blocks.flat_map(|block| &block.links).filter(|link| link.starts_with("http"));
        let mut expected: BTreeSet<_> = links.map(|link| essence(link)).collect();
        let here = essence(page.url.as_str());
        let (host, path) = host_and_path(&here);
        // Compare only the path: local builds and previews link to the same page on the public site.
        let is_page = |link: &str| link == here || !path.is_empty() && host_and_path(link).1 == path;
        expected.retain(|link| !is_service(link) && !is_page(link));
        let paths: HashSet<_> = own.iter().map(|link| host_and_path(link).1).collect();
        let on_this_host: HashSet<_> =
            own.iter().map(|link| host_and_path(link)).filter(|own| own.0 == host).collect();
        // A link to the audited host counts with any host in the Markdown, and a link to another host also
        // counts with the audited host: local builds and previews link to the public site.
        let is_there = |link: &str| {
            let (other, path) = host_and_path(link);
            own.contains(link)
                || if other == host { paths.contains(path) } else { on_this_host.contains(&(host, path)) }
        };
        let missing: Vec<_> = expected.iter().filter(|link| !is_there(link)).collect();
        let [first, ..] = missing[..] else { continue };
        let is_broken = expected.len() >= MANY && markdown.links.is_empty() && markdown.html.is_empty();
        let severity = if is_broken { Severity::Broken } else { Severity::Advice };
        findings.report_as(
            severity,
            &[comparison.exchange, &page.html],
            format!(
                "The Markdown lacks {} of {} links in the HTML, starting with {first}",
                missing.len(),
                expected.len()
            ),
        );
    }
}

/// A link without the parts that may differ: the scheme, `www.`, the query, the fragment, a name such as
/// `index.html`, and an ending such as `.md`.
fn essence(link: &str) -> String {
    let link = link.split(['?', '#']).next().unwrap_or_default();
    let link = link.split_once("://").map_or(link, |(_, rest)| rest);
    let link = link.strip_prefix("www.").unwrap_or(link).trim_end_matches('/');
    // The Markdown of `page.html` may be called `page.html.md`, so several endings are removed.
    let endings = [".mdx", ".md", ".html", ".htm", "/index", "/README"];
    let link = endings.iter().fold(link, |link, ending| link.strip_suffix(ending).unwrap_or(link));
    link.trim_end_matches('/').to_owned()
}

/// Splits a result of [`essence`] into the host and the path.
fn host_and_path(essence: &str) -> (&str, &str) {
    essence.split_once('/').unwrap_or((essence, ""))
}

/// Whether a link contains a text such as `/edit/` or `/share`, as links do that edit or share the page, or
/// has a dot after its last slash, as a file has. The name of a file may contain a hash, which differs
/// between versions of the page.
fn is_service(link: &str) -> bool {
    let parts = ["/edit/", "/blob/", "/issues/new", "/intent/", "/sharer", "/share"];
    let is_file = link.rsplit_once('/').is_some_and(|(_, name)| name.contains('.'));
    is_file || parts.iter().any(|part| link.contains(part))
}
