//! Surveys a site, and applies the rules.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use frontdesk_convert::Url;

use crate::client::Client;
use crate::client_profiles::CHROME;
use crate::error::AuditError;
use crate::exchange::{Representation, Response};
use crate::options::Options;
use crate::report::{NotJudged, Report};
use crate::rule::Findings;
use crate::rules::rules;
use crate::survey::Survey;
use crate::survey::basics::BasicsSurvey;
use crate::survey::caches::CachesSurvey;
use crate::survey::files::FilesSurvey;
use crate::survey::first_requests::FirstRequests;
use crate::survey::forms::FormsSurvey;
use crate::survey::links::LinksSurvey;
use crate::survey::negotiation::NegotiationSurvey;

/// Rules that have not started within this time are reported as not judged: only pages made to be slow take
/// longer.
const MAX_JUDGING: Duration = Duration::from_mins(1);

/// Audits the site at `target`. Besides reading, sends invalid submissions to the operations that the site's
/// API description names, and with [`Options::submits`] valid ones. `seed` must differ between audits of a
/// site; the time suffices. Needs a Tokio runtime with timers. Requests have limits of time and size, and so
/// have all of them together. For a site that gives browsers only Markdown, returns a report with one finding
/// and not an error.
pub async fn audit(target: &Url, options: &Options, seed: u64) -> Result<Report, AuditError> {
    let client = Client::new(target, options, seed).await?;
    let mut first_requests = match FirstRequests::survey(&client, target).await {
        Ok(first_requests) => first_requests,
        Err(error) => return only_markdown(&client).ok_or(error),
    };
    // If the request budget runs out, the later surveys are incomplete, so their order matters.
    let caches = CachesSurvey::survey(&client, &mut first_requests).await;
    let negotiation = NegotiationSurvey::survey(&client, &first_requests, &caches).await;
    let files = FilesSurvey::survey(&client, &first_requests).await;
    let basics = BasicsSurvey::survey(&client, &first_requests).await;
    let forms = FormsSurvey::survey(&client, &files).await;
    // Survey the links last: this survey spends all remaining requests on further links.
    let links = LinksSurvey::survey(&client, &first_requests, &caches).await;
    let exchanges = client.exchanges();
    let survey = Survey { first_requests, caches, negotiation, links, files, forms, basics, exchanges };
    Ok(judge(&survey, &client))
}

/// The report about a site that gives browsers only Markdown, so that no rule can read a page, or whose
/// further requests were not sent. `None` if no response so far is Markdown with status 200.
fn only_markdown(client: &Client) -> Option<Report> {
    let exchanges = client.exchanges();
    let is_markdown = |response: &Response| response.representation() == Representation::Markdown;
    let wrong = exchanges.iter().find(|exchange| exchange.success().is_some_and(is_markdown))?;
    let rule = rules().find(|rule| rule.id == "browser-gets-markdown")?;
    let mut findings = Findings::new(rule);
    findings.report(&[wrong], format!("{} gets Markdown: send HTML", CHROME.name));
    // If all requests were permitted, a second request, with a cache-busting query, got no HTML either.
    let denial = client.denials().pop().map(|(_, denial)| denial.to_string());
    let reason = denial.unwrap_or_else(|| "a browser gets no HTML, so nothing else can be judged".to_owned());
    Some(Report {
        url: wrong.url().to_string(),
        findings: findings.found,
        not_judged: vec![NotJudged { group: rule.group, rule: None, reason }],
        submissions: Vec::new(),
        requests: client.sent(),
        pages: Vec::new(),
    })
}

/// Applies all rules. Notes as not judged: requests that were not sent, each reason once for each group; what
/// rules could not judge; and rules that have not started within [`MAX_JUDGING`].
fn judge(survey: &Survey, client: &Client) -> Report {
    let denials: BTreeSet<_> = client.denials().into_iter().collect();
    let mut not_judged: Vec<_> = denials
        .into_iter()
        .map(|(group, denial)| NotJudged { group, rule: None, reason: denial.to_string() })
        .collect();
    let mut found = Vec::new();
    let began = Instant::now();
    for rule in rules() {
        if began.elapsed() > MAX_JUDGING {
            let reason = "reading the pages took too long".to_owned();
            not_judged.push(NotJudged { group: rule.group, rule: Some(rule), reason });
            continue;
        }
        let mut findings = Findings::new(rule);
        (rule.check)(survey, &mut findings);
        found.append(&mut findings.found);
        let reasons = findings.not_judged.into_iter();
        not_judged.extend(reasons.map(|reason| NotJudged { group: rule.group, rule: Some(rule), reason }));
    }
    Report {
        url: survey.first_requests.url.to_string(),
        findings: found,
        not_judged,
        submissions: survey.forms.operations.iter().filter_map(|tested| tested.submission.clone()).collect(),
        requests: client.sent(),
        pages: survey.first_requests.pages.iter().map(|page| page.url.to_string()).collect(),
    }
}
