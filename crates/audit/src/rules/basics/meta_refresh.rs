//! Pages do not redirect or reload by themselves.

use super::shared::tag;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "meta-refresh",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "A page has no `<meta http-equiv=\"refresh\">`.",
    matters: "Agents and caches see a page with status 200 and little text, and do not follow the redirect. \
              A reload interrupts people who read slowly (WCAG 2.2.1).",
    hurts: "Agents and search engines, which do not follow; people who read slowly, who are interrupted.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Redirect with status 301 or 308 and `Location`. Remove automatic reloads.",
        },
        Fix { platform: Platform::Netlify, text: "A line `/old /new 301` in `_redirects`." },
        Fix { platform: Platform::Cloudflare, text: "Pages: a line `/old /new 301` in `_redirects`." },
        Fix { platform: Platform::Nginx, text: "`location = /old { return 301 /new; }`" },
        Fix { platform: Platform::Caddy, text: "`redir /old /new 301`" },
        Fix { platform: Platform::Apache, text: "`Redirect 301 /old /new`" },
    ],
    check,
};

/// Reports each `<meta http-equiv=refresh>` with `content` that is not in `<noscript>`.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        for meta in page.select("meta[http-equiv=refresh i][content]") {
            // A refresh within `<noscript>` affects only browsers without scripts.
            if meta.ancestors().all(|ancestor| ancestor.name() != "noscript") {
                let does =
                    if meta.attribute("content").is_some_and(|content| content.contains(['=', ';', ','])) {
                        "redirects"
                    } else {
                        "reloads"
                    };
                findings.report(
                    &[&page.html],
                    format!(
                        "The page {does} by itself ({}): redirect in the server instead, or remove it",
                        tag(meta)
                    ),
                );
            }
        }
    }
}
