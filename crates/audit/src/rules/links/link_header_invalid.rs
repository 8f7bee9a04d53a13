//! The header field `Link` can be parsed.

use http::header;

use crate::link_header::parse_link_header;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "link-header-invalid",
    group: Group::Links,
    severity: Severity::Broken,
    checks: "The `Link` field has valid links, such as `</page.md>; rel=\"alternate\"`.",
    matters: "Clients ignore what does not follow the syntax (RFC 8288 §3), and each link needs `rel` \
              (§3.3).",
    hurts: "Agents, which do not find what the field declares.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Write the target between `<` and `>`, and the parameters after semicolons: `Link: </page.md>; \
               rel=\"alternate\"; type=\"text/markdown\"`.",
    }],
    check,
};

/// Reports each 200 response for a page or its twin whose `Link` has no target; as advice, one in which a
/// link lacks `rel`.
fn check(survey: &Survey, findings: &mut Findings) {
    for page in &survey.first_requests.pages {
        let exchanges = [Some(&page.html), page.agent.as_ref(), page.twin.as_ref()].into_iter().flatten();
        for exchange in exchanges {
            let value = exchange.success().map(|response| response.header(header::LINK)).unwrap_or_default();
            let links = parse_link_header(&value);
            let start: String = value.chars().take(80).collect();
            if links.is_empty() && !value.trim_matches([',', ' ']).is_empty() {
                findings.report(
                    &[exchange],
                    format!("`Link: {start}` has no target: write it between `<` and `>`"),
                );
            } else if let Some(link) = links.iter().find(|link| link.rel.is_empty()) {
                let message =
                    format!("`Link` names {} without `rel`, so clients ignore it: add `rel`", link.target);
                findings.report_as(Severity::Advice, &[exchange], message);
            }
        }
    }
}
