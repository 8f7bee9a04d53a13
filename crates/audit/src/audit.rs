//! Surveys a site, and applies the rules.

use std::collections::BTreeSet;

use frontdesk_convert::Url;

use crate::client::Client;
use crate::options::{AuditError, Options};
use crate::report::{NotJudged, Report};
use crate::rule::Findings;
use crate::rules::rules;
use crate::survey::Survey;
use crate::survey::basics::BasicsSurvey;
use crate::survey::basis::Basis;
use crate::survey::caches::CachesSurvey;
use crate::survey::files::FilesSurvey;
use crate::survey::forms::FormsSurvey;
use crate::survey::links::LinksSurvey;
use crate::survey::negotiation::NegotiationSurvey;

/// Audits the site at `target`. `seed` must differ between audits of a site; the time suffices.
/// Needs a Tokio runtime with timers. Ends in time, because each request has limits of time and size.
pub async fn audit(target: &Url, options: &Options, seed: u64) -> Result<Report, AuditError> {
    let client = Client::new(target, options, seed).await?;
    let mut basis = Basis::survey(&client, target).await?;
    // The order decides what is left out if the budget does not suffice.
    let caches = CachesSurvey::survey(&client, &mut basis).await;
    let negotiation = NegotiationSurvey::survey(&client, &basis, &caches).await;
    let files = FilesSurvey::survey(&client, &basis).await;
    let transport = BasicsSurvey::survey(&client, &basis).await;
    let forms = FormsSurvey::survey(&client, &files).await;
    // Last, because it follows more links if requests are left.
    let links = LinksSurvey::survey(&client, &basis, &caches).await;
    let exchanges = client.exchanges();
    let survey = Survey { basis, caches, negotiation, links, files, forms, basics: transport, exchanges };
    Ok(judge(&survey, &client))
}

/// Applies all rules.
fn judge(survey: &Survey, client: &Client) -> Report {
    let denials: BTreeSet<_> = client.denials().into_iter().collect();
    let mut not_judged: Vec<_> = denials
        .into_iter()
        .map(|(group, denial)| NotJudged { group, rule: None, reason: denial.to_string() })
        .collect();
    let mut found = Vec::new();
    for rule in rules() {
        let mut findings = Findings::new(rule);
        (rule.check)(survey, &mut findings);
        found.append(&mut findings.found);
        let reasons = findings.not_judged.into_iter();
        not_judged.extend(reasons.map(|reason| NotJudged { group: rule.group, rule: Some(rule), reason }));
    }
    Report {
        url: survey.basis.url.to_string(),
        findings: found,
        not_judged,
        submissions: survey.forms.operations.iter().filter_map(|tested| tested.submission.clone()).collect(),
        requests: client.sent(),
        pages: survey.basis.pages.iter().map(|page| page.url.to_string()).collect(),
    }
}
