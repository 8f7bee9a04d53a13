//! URLs that choose a language by the client's say so in `Vary`.

use std::sync::Arc;

use http::header;

use super::shared::report_without;
use crate::client::redirect_target;
use crate::exchange::Exchange;
use crate::language::{lang_of, other_languages, primary_subtag};
use crate::page::Page;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "vary-missing-language",
    group: Group::Caches,
    severity: Severity::Broken,
    checks: "If a URL shows or redirects to different languages by `Accept-Language`, its responses carry \
             `Vary: Accept-Language`.",
    matters: "Without it, a cache serves the language of the first client to all others (RFC 9111 §4.1).",
    hurts: "People and agents, who get a language that they do not read.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Send `Vary: Accept-Language` with the redirect or page, or `Cache-Control: no-store` with \
                   the redirect. Better, give each language a URL of its own and let people choose.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "`add_header Vary Accept-Language always;` in the `location` that uses the `map` of \
                   `$http_accept_language`.",
        },
        Fix {
            platform: Platform::Cloudflare,
            text: "Caches there ignore `Vary: Accept-Language`: bypass the cache for this URL.",
        },
    ],
    check,
};

/// Judges the first response of the survey and the response to a client that asked for other languages, if
/// that client got one of these languages, and the first response does not have the same one. Reports the
/// first response if it lacks `Vary: Accept-Language`, and also the other response if the first is not
/// reported or has another status. Never reports a response with `no-store`.
fn check(survey: &Survey, findings: &mut Findings) {
    let (Some(first), Some(other)) =
        (survey.first_requests.named_url_chain.first(), survey.caches.other_languages.as_ref())
    else {
        return;
    };
    let asked = other_languages(&survey.first_requests.pages[0]);
    let Some(got) = language_of(other).filter(|language| asked.contains(language)) else { return };
    if language_of(first).is_some_and(|language| language == got) {
        return;
    }
    let difference = format!("clients whose `Accept-Language` is `{got}` get another language here");
    report_without("Accept-Language", findings, first, "The response without `Accept-Language`", &difference);
    let status = |exchange: &Exchange| exchange.response().map(|response| response.status);
    if findings.is_empty() || status(first) != status(other) {
        report_without("Accept-Language", findings, other, "The response to these clients", &difference);
    }
}

/// The language that a response chooses: of a redirect, the first segment of the target's path, or else the
/// first label of its host, that has the form `de` or `de-AT`; otherwise `Content-Language`, or else the
/// `lang` of the page. `None` if it names none, or if the status is neither a redirect nor 200.
fn language_of(exchange: &Arc<Exchange>) -> Option<String> {
    if let Some(target) = redirect_target(exchange) {
        let host = target.host_str().unwrap_or_default();
        let parts = target.path_segments().into_iter().flatten().chain(host.split('.').take(1));
        let is_subtag = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_tag = |part: &&str| matches!(part.len(), 2 | 5) && part.split(['-', '_']).all(is_subtag);
        return parts.into_iter().find(is_tag).map(primary_subtag);
    }
    let declared = exchange.success()?.header(header::CONTENT_LANGUAGE);
    let language = Some(declared).filter(|language| !language.is_empty());
    let language = language.or_else(|| Page::read(exchange).map(|page| lang_of(&page)))?;
    Some(primary_subtag(&language)).filter(|language| !language.is_empty())
}
