//! `robots.txt` allows what `llms.txt` lists.

use frontdesk_convert::Url;

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::survey::first_requests::text_of;

pub(super) static RULE: Rule = Rule {
    id: "robots-blocks-llms",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`robots.txt` allows at least one assistant to fetch `llms.txt` and each of its links.",
    matters: "Assistants that obey `robots.txt` (RFC 9309) cannot read the pages that `llms.txt` lists for \
              them.",
    hurts: "Agents, which are sent to pages that they must not read.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Allow the listed paths for assistants in `robots.txt` (`Allow: /docs/`), or remove them \
                   from `llms.txt`.",
        },
        Fix {
            platform: Platform::Cloudflare,
            text: "Cloudflare puts its managed `robots.txt` before your own: turn it off if only your groups \
                   should apply.",
        },
    ],
    check,
};

/// Agents that fetch pages to answer a person. Training crawlers are not among them: disallowing those does
/// not contradict `llms.txt`.
const ASSISTANTS: [&str; 8] = [
    "ChatGPT-User",
    "OAI-SearchBot",
    "Claude-User",
    "Claude-SearchBot",
    "PerplexityBot",
    "Perplexity-User",
    "MistralAI-User",
    "DuckAssistBot",
];

/// Maximum number of `llms.txt` URLs that are checked against `robots.txt`: both files may be long.
const MAX_LINKS: usize = 100;

/// Reports in one finding how many of the first [`MAX_LINKS`] URLs, beginning with that of `llms.txt` itself,
/// are disallowed for all [`ASSISTANTS`]; nothing if none is. URLs of other origins than that of
/// `robots.txt` are not judged. Advice if other agents may request the first disallowed URL.
fn check(survey: &Survey, findings: &mut Findings) {
    let first_requests = &survey.first_requests;
    let Some(llms) = first_requests.llms.as_ref().filter(|llms| text_of(llms).is_some()) else { return };
    let is_ruled = |url: &&Url| url.origin() == first_requests.robots.url().origin();
    let is_forbidden = |url: &&Url| !ASSISTANTS.iter().any(|agent| first_requests.rules.permits(agent, url));
    let offered = std::iter::once(llms.url()).chain(&first_requests.llms_links).take(MAX_LINKS);
    let forbidden: Vec<_> = offered.filter(is_ruled).filter(is_forbidden).collect();
    let Some(first) = forbidden.first() else { return };
    let more = match forbidden.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    // Report only advice if other agents are allowed: the site may exclude the known assistants on purpose.
    let severity = if first_requests.rules.permits("*", first) { Severity::Advice } else { Severity::Broken };
    let message = format!(
        "robots.txt disallows {}{more}, which llms.txt lists, for all assistants: allow them, or do not list them",
        first.path()
    );
    findings.report_at(
        severity,
        first_requests.robots.url().as_str(),
        &[&first_requests.robots, llms],
        message,
    );
}
