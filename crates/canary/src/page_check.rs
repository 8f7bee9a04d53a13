//! Fetches the pages that show a form, as a browser would, and compares them.

#![expect(clippy::disallowed_methods, reason = "steps are timed")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use crate::page::{self, FormPage, ShownForm};
use crate::report::{Outcome, Report, Step, StepResult};
use frontdesk_fetch::{FetchClient, FetchResponse, Url};
use frontdesk_forms::Form;

/// Maximum number of pages that are fetched in a run.
pub(crate) const MAX_PAGES: usize = 20;
/// Maximum number of bytes of a page.
pub(crate) const MAX_PAGE_BYTES: usize = 2 << 20;

/// What is compared with what.
pub(crate) struct PageCheck<'a> {
    pub client: &'a FetchClient,
    /// The public address.
    pub url: &'a Url,
    pub origin: &'a str,
    pub forms: &'a [&'static Form],
    /// The report of the last run, which knows the pages that showed a form.
    pub previous: Option<&'a Report>,
}

impl PageCheck<'_> {
    /// Checks the first pages, each form on them, and each script once.
    pub async fn run(&self, pages: &[FormPage]) -> Vec<StepResult> {
        let mut steps = Vec::new();
        let mut scripts: BTreeMap<String, String> = BTreeMap::new();
        let mut shown: BTreeSet<String> = BTreeSet::new();
        for page in pages.iter().take(MAX_PAGES) {
            let own_html = String::from_utf8_lossy(&page.html);
            let own = page::forms_on(&own_html, self.origin);
            let own: Vec<(&Form, &ShownForm)> = self
                .forms
                .iter()
                .filter_map(|form| Some((*form, own.iter().find(|own| own.sends_to(form))?)))
                .collect();
            let (began, fetched) = (Instant::now(), self.fetch(&page.path).await);
            for (form, own) in own {
                let subject = subject(&page.path, form);
                let (outcome, text) = match &fetched {
                    Ok(html) => page::compare(form, own, &page::forms_on(html, self.origin)),
                    Err(fault) => (Outcome::Failed, fault.clone()),
                };
                shown.insert(subject.clone());
                steps.push(StepResult { step: Step::Page, subject, outcome, text, took: began.elapsed() });
            }
            let own_scripts = page::scripts_on(&own_html, self.origin);
            scripts.extend(own_scripts.into_iter().map(|script| (script, page.path.clone())));
        }
        steps.extend(self.check_lost(&shown).await);
        for (script, page) in scripts.into_iter().take(MAX_PAGES) {
            steps.extend(self.check_script(&script, &page).await);
        }
        steps
    }

    /// Fetches a page. The error names what visitors get instead.
    async fn fetch(&self, path: &str) -> Result<String, String> {
        let response = self.get(path, "text/html").await?;
        let media_type =
            response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !response.status.is_success() {
            return Err(format!("visitors get {} instead of the page with the form", response.status));
        }
        if !media_type.to_ascii_lowercase().starts_with("text/html") {
            return Err(format!("visitors get `{media_type}` instead of a page in HTML"));
        }
        if !response.is_whole {
            return Err("visitors get only a part of the page".to_owned());
        }
        Ok(String::from_utf8_lossy(&response.body).into_owned())
    }

    async fn get(&self, path: &str, accept: &'static str) -> Result<FetchResponse, String> {
        let headers = [(ACCEPT, HeaderValue::from_static(accept))];
        let sent = self.client.send(Method::GET, &self.url.with_target(path), headers, "").await;
        sent.map_err(|error| format!("the page cannot be fetched: {}", error.sentence))
    }

    /// Looks at pages that showed a form at the last run and do not show it any more.
    async fn check_lost(&self, shown: &BTreeSet<String>) -> Vec<StepResult> {
        let previous = self.previous.into_iter().flat_map(|report| &report.steps);
        let lost = previous.filter(|step| step.step == Step::Page && !shown.contains(&step.subject));
        let mut steps = Vec::new();
        for step in lost.take(MAX_PAGES) {
            let Some((path, name)) = step.subject.rsplit_once(' ') else { continue };
            let Some(form) = self.forms.iter().find(|form| form.name == name) else { continue };
            let began = Instant::now();
            // A page that is gone was taken away on purpose: the site has no such page, either.
            let Ok(html) = self.fetch(path).await else { continue };
            if let Some((outcome, text)) = page::judge_lost(form, &page::forms_on(&html, self.origin)) {
                let subject = step.subject.clone();
                steps.push(StepResult { step: Step::Page, subject, outcome, text, took: began.elapsed() });
            }
        }
        steps
    }

    /// `None` if the script arrives.
    async fn check_script(&self, script: &str, page: &str) -> Option<StepResult> {
        let began = Instant::now();
        let fault = match self.get(script, "*/*").await {
            Err(fault) => fault,
            Ok(response) if !response.status.is_success() => {
                format!("visitors get {} for it", response.status)
            }
            Ok(response) => {
                let media_type = response.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                let media_type = media_type.unwrap_or_default().to_ascii_lowercase();
                if media_type.contains("javascript") {
                    return None;
                }
                format!("visitors get `{media_type}` for it, which browsers do not run")
            }
        };
        let text = format!("the script of the page {page} does not work: {fault}");
        let (subject, took) = (script.to_owned(), began.elapsed());
        Some(StepResult { step: Step::Page, subject, outcome: Outcome::Failed, text, took })
    }
}

fn subject(path: &str, form: &Form) -> String {
    format!("{path} {}", form.name)
}

/// A page could not be tried, because an earlier step failed.
pub(crate) fn not_tried(pages: &[FormPage]) -> Vec<StepResult> {
    let skip = |page: &FormPage| StepResult {
        step: Step::Page,
        subject: page.path.clone(),
        outcome: Outcome::Skipped,
        text: "not tried, because of the fault above".to_owned(),
        took: Duration::ZERO,
    };
    pages.iter().take(MAX_PAGES).map(skip).collect()
}
