//! `Link` and `<link>` name the same Markdown.

use frontdesk_convert::Url;

use super::production_host::production_host;
use crate::declared_markdown::{declared_in_field, declared_in_head};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "link-header-disagrees",
    group: Group::Links,
    severity: Severity::Advice,
    checks: "The `Link` field and the `<link>` element of a page name the same Markdown.",
    matters: "Clients read only one of them. If they differ, one is usually outdated.",
    hurts: "Agents, some of which get an outdated text.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Declare the Markdown in one place only, or generate both from the same value.",
    }],
    check,
};

/// Reports each page whose `Link` and `<link>` both declare Markdown and have no URL in common. If a
/// private copy names the host of the public site, URLs on these two hosts need only have the same path.
fn check(survey: &Survey, findings: &mut Findings) {
    let production = production_host(survey);
    for page in &survey.first_requests.pages {
        // Treat URLs with the same path on the audited host and on the production host as equal.
        let is_same = |one: &Url, other: &Url| {
            let is_known =
                |url: &Url| url.host_str() == page.url.host_str() || url.host_str() == production.as_deref();
            one == other
                || production.is_some() && is_known(one) && is_known(other) && one.path() == other.path()
        };
        let (in_field, in_head) = (declared_in_field(page), declared_in_head(page));
        if let ([field, ..], [head, ..]) = (&in_field[..], &in_head[..])
            && !in_field.iter().any(|url| in_head.iter().any(|other| is_same(url, other)))
        {
            findings.report(
                &[&page.html],
                format!(
                    "`Link` names {field} as the page's Markdown, but `<link>` names {head}: name the same"
                ),
            );
        }
    }
}
