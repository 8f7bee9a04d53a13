//! Sends the requests of an audit, and applies the rules to what came back.

pub mod basics;
pub mod basis;
pub mod caches;
pub mod files;
pub mod forms;
pub mod links;
pub mod negotiation;

use std::collections::BTreeSet;
use std::sync::Arc;

use frontdesk_convert::Url;

use self::basics::BasicsSurvey;
use self::basis::Basis;
use self::caches::CachesSurvey;
use self::files::FilesSurvey;
use self::forms::FormsSurvey;
use self::links::LinksSurvey;
use self::negotiation::NegotiationSurvey;
use crate::client::Client;
use crate::exchange::Exchange;
use crate::options::{AuditError, Options};
use crate::report::{NotJudged, Report};
use crate::rule::Findings;
use crate::rules::rules;

/// Everything that the audit knows about a site.
pub struct Survey {
    pub basis: Basis,
    pub caches: CachesSurvey,
    pub negotiation: NegotiationSurvey,
    pub links: LinksSurvey,
    pub files: FilesSurvey,
    pub forms: FormsSurvey,
    pub basics: BasicsSurvey,
    /// All exchanges, in the order in which they ended.
    pub exchanges: Vec<Arc<Exchange>>,
}

/// Audits the site at `target`. `seed` must differ between audits of the same site; the time is good enough.
/// Needs a runtime with the clock enabled, and takes at most as long as its requests: each has limits of time
/// and size.
pub async fn audit(target: &Url, options: &Options, seed: u64) -> Result<Report, AuditError> {
    let client = Client::new(target, options, seed).await?;
    let basis = Basis::survey(&client, target).await?;
    // The order decides what is left out if the budget does not suffice.
    let caches = CachesSurvey::survey(&client, &basis).await;
    let negotiation = NegotiationSurvey::survey(&client, &basis).await;
    let files = FilesSurvey::survey(&client, &basis).await;
    let links = LinksSurvey::survey(&client, &basis).await;
    let basics = BasicsSurvey::survey(&client, &basis).await;
    let forms = FormsSurvey::survey(&client, &files).await;
    let exchanges = client.exchanges();
    let survey = Survey { basis, caches, negotiation, links, files, forms, basics, exchanges };
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
        requests: client.sent(),
        pages: survey.basis.pages.iter().map(|page| page.url.to_string()).collect(),
    }
}
