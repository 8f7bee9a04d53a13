//! `robots.txt` returns no server error.

use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "robots-server-error",
    group: Group::Files,
    severity: Severity::Broken,
    checks: "`/robots.txt` does not return a status of 500 or above.",
    matters: "A crawler that gets a server error must assume that the whole site is disallowed (RFC 9309 \
              §2.3.1.4).",
    hurts: "People who search for the site, who do not find it; agents, which must not read it.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Serve `robots.txt` as a file. If there are no rules, return 404: then everything is \
                   allowed.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`location = /robots.txt { root /srv/www; }`, so that the request does not reach the \
                   application.",
        },
    ],
    check,
};

/// Reports a 5xx response for `robots.txt`. A redirect or a failed request is recorded as not judged.
fn check(survey: &Survey, findings: &mut Findings) {
    let robots = &survey.first_requests.robots;
    match &robots.outcome {
        Ok(response) if response.status.is_server_error() => {
            let status = response.status.as_u16();
            findings.report(
                &[robots],
                format!(
                    "/robots.txt returns {status}, so crawlers must treat the whole site as disallowed: \
                     return the rules, or 404"
                ),
            );
        }
        Ok(response) if response.status.is_redirection() => {
            findings
                .not_judged("robots.txt redirects, and the audit does not follow it: its rules are unknown");
        }
        Ok(_) => {}
        Err(error) => findings.not_judged(format!("robots.txt cannot be fetched: {error}")),
    }
}
