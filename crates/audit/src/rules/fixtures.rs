//! Surveys for unit tests of rules.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use frontdesk_convert::Url;
use http::{HeaderName, StatusCode};

use crate::client_profiles::CLAUDE_CODE;
use crate::exchange::{Exchange, Request, Response};
use crate::page::Page;
use crate::robots::Robots;
use crate::rule::{Findings, Rule, Severity};
use crate::survey::Survey;
use crate::survey::basics::BasicsSurvey;
use crate::survey::caches::CachesSurvey;
use crate::survey::files::FilesSurvey;
use crate::survey::first_requests::FirstRequests;
use crate::survey::forms::FormsSurvey;
use crate::survey::links::LinksSurvey;
use crate::survey::negotiation::NegotiationSurvey;

/// A complete response with an uncompressed body.
pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let field = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    Response {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.iter().map(field).collect(),
        body: body.into(),
        encoded_length: body.len(),
        is_whole: true,
        is_encoding_untrue: false,
        has_bytes_after_gzip: false,
        time_to_header: Duration::ZERO,
    }
}

/// A GET request without header fields, and its response.
pub(crate) fn exchange(url: &str, response: Response) -> Arc<Exchange> {
    let request = Request::get(&Url::parse(url).unwrap());
    Arc::new(Exchange { number: 1, request, outcome: Ok(response) })
}

/// A GET request and its response: HTML with status 200.
pub(crate) fn page(url: &str, headers: &[(&str, &str)], body: &str) -> Arc<Exchange> {
    exchange(url, response(200, headers, &format!("<!doctype html>{body}")))
}

pub(crate) fn redirect(url: &str, target: &str) -> Arc<Exchange> {
    exchange(url, response(301, &[("location", target)], ""))
}

/// A survey with only this page, and the given results of the group basics. Its `robots.txt` is that page,
/// too.
pub(crate) fn survey(page: &Arc<Exchange>, own: BasicsSurvey) -> Survey {
    let first_requests = FirstRequests {
        url: page.url().clone(),
        named_url_chain: vec![page.clone()],
        robots: page.clone(),
        rules: Rc::new(Robots::default()),
        llms: None,
        llms_links: Vec::new(),
        sitemaps: Vec::new(),
        sitemap_urls: Vec::new(),
        pages: vec![Page::read(page).expect("a page")],
        agent: CLAUDE_CODE,
        tie: None,
    };
    Survey {
        first_requests,
        caches: CachesSurvey::default(),
        negotiation: NegotiationSurvey::default(),
        links: LinksSurvey::default(),
        files: FilesSurvey::default(),
        forms: FormsSurvey::default(),
        basics: own,
        exchanges: Vec::new(),
    }
}

/// The severities of the rule's findings, in order.
pub(crate) fn found(rule: &'static Rule, survey: &Survey) -> Vec<Severity> {
    let mut findings = Findings::new(rule);
    (rule.check)(survey, &mut findings);
    findings.found.iter().map(|finding| finding.severity).collect()
}

/// A survey of the group basics without exchanges, for a site with a public address.
pub(crate) fn public() -> BasicsSurvey {
    BasicsSurvey { is_public: true, ..BasicsSurvey::default() }
}
