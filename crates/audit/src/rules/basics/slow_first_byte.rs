//! The time to first byte is short.

use std::sync::Arc;
use std::time::Duration;

use crate::exchange::{Exchange, Representation};
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "slow-first-byte",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "The median time to first byte of pages is at most 1.5 seconds.",
    matters: "Clients cannot start before the first byte, and agents give up after some seconds. The audit \
              measures from its own machine, without the time to connect.",
    hurts: "People and agents, who wait or give up.",
    fixes: &[Fix {
        platform: Platform::Any,
        text: "Cache rendered pages in the server or at a CDN, and measure what the application waits \
               for.",
    }],
    check,
};

const MAX_TIME: Duration = Duration::from_millis(1_500);

/// Minimum number of responses for a median. With fewer, one slow response would determine the result.
const MIN_RESPONSES: usize = 5;

/// Reports the median time of all 200 responses with HTML or Markdown if it exceeds [`MAX_TIME`]. Responses
/// to HEAD count by their media type. Needs at least [`MIN_RESPONSES`] responses.
fn check(survey: &Survey, findings: &mut Findings) {
    let is_page = |exchange: &&Arc<Exchange>| {
        exchange.success().is_some_and(|response| response.representation() != Representation::Other)
    };
    let mut pages: Vec<_> = survey.exchanges.iter().filter(is_page).collect();
    pages.sort_by_key(|exchange| exchange.response().map(|response| response.time_to_header));
    let Some(median) = pages.get(pages.len() / 2).filter(|_| pages.len() >= MIN_RESPONSES) else { return };
    let time = median.response().map_or(Duration::ZERO, |response| response.time_to_header);
    if time > MAX_TIME {
        let count = pages.len();
        let message = format!(
            "The median time to first byte of {count} responses is {} ms: reduce it to at most 1,500 ms",
            time.as_millis()
        );
        findings.report_at(Severity::Advice, survey.first_requests.url.as_str(), &[median], message);
    }
}
