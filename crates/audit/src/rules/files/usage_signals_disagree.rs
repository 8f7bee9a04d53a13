//! Statements about the use of a page do not contradict each other.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;
use crate::usage_preferences::{Statement, Syntax, Use, header_statements, robots_statements};

pub(super) static RULE: Rule = Rule {
    id: "usage-signals-disagree",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`Content-Signal` and `Content-Usage`, in `robots.txt` and in the responses of a page, agree \
             about each use.",
    matters: "Crawlers read different statements (contentsignals.org, draft-ietf-aipref-attach). A crawler \
              that reads only the permissive one uses content that the operator wants to protect.",
    hurts: "Operators, whose content is used against their will.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "State each preference once, or derive all statements from the same setting.",
        },
        Fix {
            platform: Platform::Cloudflare,
            text: "Markdown for Agents sends its own `Content-Signal`: compare it with the one in your \
                   `robots.txt`.",
        },
    ],
    check,
};

/// Compares the lines of `robots.txt` for all crawlers and the fields of both representations. Reports only
/// the first page that has contradictions, with one finding for each use.
fn check(survey: &Survey, findings: &mut Findings) {
    let robots = robots_statements(&survey.first_requests);
    for page in &survey.first_requests.pages {
        let in_general = robots.iter().filter(|line| line.agents.iter().any(|agent| agent == "*"));
        let about: Vec<_> = in_general.filter(|line| line.is_about(&page.url)).collect();
        // If several `Content-Usage` lines match, only those with the longest path apply.
        let usage = about.iter().filter(|line| line.syntax == Syntax::Usage);
        let longest = usage.map(|line| line.path.len()).max().unwrap_or_default();
        let is_valid = |line: &&&Statement| line.syntax == Syntax::Signal || line.path.len() == longest;
        let ruling = about.iter().filter(is_valid).copied();
        let responses = [Some(&page.html), page.agent.as_ref()].into_iter().flatten();
        let fields: Vec<_> = responses.flat_map(header_statements).collect();
        let statements: Vec<_> = ruling.chain(&fields).collect();
        for used in [Use::Search, Use::Input, Use::Training] {
            let find = |is_allowed| {
                statements.iter().find(|statement| statement.preferences.contains(&(used, is_allowed)))
            };
            let (Some(yes), Some(no)) = (find(true), find(false)) else { continue };
            let message = format!(
                "{}, but {}: state once whether the page may be used for {}",
                no.quote(),
                yes.quote(),
                used.title()
            );
            findings.report_at(Severity::Broken, page.url.as_str(), &[&no.exchange, &yes.exchange], message);
        }
        if !findings.is_empty() {
            return;
        }
    }
}
