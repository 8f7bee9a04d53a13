//! Pages in the sitemap and in `llms.txt` have no `noindex`.

use frontdesk_convert::forbids_index;

use super::shared::excerpt;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "noindex-listed",
    group: Group::Basics,
    severity: Severity::Broken,
    checks: "No page in the sitemap or in `llms.txt` has `noindex` for all crawlers or a search engine.",
    matters: "The sitemap asks search engines to index the page (sitemaps.org). `noindex`, in the page or in \
              `X-Robots-Tag`, forbids it and wins.",
    hurts: "Operators, whose page is missing from search results; people, who do not find it.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Remove `noindex`, which is often left over from a staging site. If you want it, remove the \
               page from the sitemap.",
    }],
    check,
};

/// Reports each page with `noindex` whose exact URL is in the sitemap; as advice if it is only in `llms.txt`.
/// The finding names the first of the `<meta>` elements for `robots` and `googlebot`, or else the first line
/// of `X-Robots-Tag`. In a line, directives after the name of a crawler count only if the crawler belongs to
/// a search engine.
fn check(survey: &Survey, findings: &mut Findings) {
    let first_requests = &survey.first_requests;
    for page in &first_requests.pages {
        let lines = page.response().headers.get_all("x-robots-tag").into_iter();
        let header = lines.filter_map(|line| line.to_str().ok()).find(|line| forbids_index(line));
        let metas = page.select("meta[name=robots i][content], meta[name=googlebot i][content]");
        let attributes =
            metas.iter().filter_map(|meta| Some((meta.attribute("name")?, meta.attribute("content")?)));
        let said = match (attributes.into_iter().find(|(_, content)| forbids_index(content)), header) {
            (Some((name, content)), _) => {
                format!("`<meta name=\"{}\" content=\"{}\">`", excerpt(name), excerpt(content))
            }
            (None, Some(header)) => format!("`X-Robots-Tag: {}`", excerpt(header)),
            (None, None) => continue,
        };
        if first_requests.sitemap_urls.contains(&page.url) {
            findings.report(
                &[&page.html],
                format!(
                    "The page is in the sitemap, but has {said}: remove the page from the sitemap, or remove `noindex`"
                ),
            );
        } else if first_requests.llms_links.contains(&page.url) {
            let message = format!(
                "The page is in llms.txt, but has {said}: remove the link there, or remove `noindex`"
            );
            findings.report_as(Severity::Advice, &[&page.html], message);
        }
    }
}
