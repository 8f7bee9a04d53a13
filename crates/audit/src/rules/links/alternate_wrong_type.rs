//! The declared Markdown of a page is Markdown.

use crate::declared_markdown::declared_twin;
use crate::exchange::{Representation, is_almost_markdown};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "alternate-wrong-type",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The URL that a page declares as its Markdown returns Markdown.",
    matters: "The link promises `text/markdown` (RFC 8288 §3.4.1); a client that follows it gets the HTML \
              that it wanted to avoid.",
    hurts: "Agents, which read markup as Markdown.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Serve the file with `Content-Type: text/markdown; charset=utf-8`, and exclude `.md` URLs \
                   from the fallback to the home page.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`location ~ \\.md$ { types { text/markdown md; } try_files $uri =404; }`",
        },
        Fix { platform: Platform::Apache, text: "`AddType text/markdown .md`." },
    ],
    check,
};

/// Reports each declared Markdown with status 200 that is neither Markdown nor a type that other rules
/// report.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in survey.first_requests.pages.iter().filter(|page| declared_twin(page).is_some()) {
        let Some((twin, response)) = page.twin.as_ref().and_then(|twin| Some((twin, twin.success()?))) else {
            continue;
        };
        let (claimed, is_html) = (response.media_type(), response.representation() == Representation::Html);
        // Skip types that other rules report, such as `text/plain`, and HTML that is declared as Markdown.
        let is_reported = if is_html { claimed.ends_with("markdown") } else { is_almost_markdown(&claimed) };
        if page.twin_markdown.is_some() || is_reported {
            continue;
        }
        let kind = if is_html { "HTML".to_owned() } else { claimed };
        findings.report(
            &[&page.html, twin],
            format!(
                "The page declares its Markdown at {}, which returns {kind}: send `text/markdown`",
                twin.url()
            ),
        );
    }
}
