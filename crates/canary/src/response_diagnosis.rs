//! Names the fault behind the answer to a test submission, or behind its absence: pure functions.

use http::StatusCode;
use http::header::{HeaderMap, LOCATION, SERVER};
use sfv::{BareItem, List, ListEntry, Parser};

use crate::report::{Outcome, Step};
use frontdesk_fetch::{CertificateFault, FetchError, FetchPhase, FetchResponse};
use frontdesk_forms::text::{cut, visible};
use frontdesk_inbox::store::CanaryKey;

/// Maximum number of characters that are quoted from another server's response.
const MAX_QUOTED_CHARS: usize = 120;

/// The result of checking the response to a test submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgment {
    pub step: Step,
    pub outcome: Outcome,
    pub text: String,
}

fn failed(step: Step, text: impl Into<String>) -> Judgment {
    Judgment { step, outcome: Outcome::Failed, text: text.into() }
}

/// Facts about a test submission that the response to it does not contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubmissionFacts<'a> {
    /// The path of the form's endpoint.
    pub path: &'a str,
    /// The value of the response header that only this inbox's servers can compute.
    pub proof: &'a str,
    /// Whether this inbox has accepted the token of the test submission.
    pub is_accepted: bool,
}

/// Judges the response to a test submission. Without the proof in its header, the response is that of a
/// cache, a proxy or another server. It is then a success only if it has a 2xx status, no sign of a cache and
/// the body `{"ok": true}`, and the inbox has accepted the token.
pub(crate) fn judge(response: &FetchResponse, facts: SubmissionFacts<'_>) -> Judgment {
    let header = response.headers.get(CanaryKey::HEADER).map(http::HeaderValue::as_bytes);
    if header == Some(facts.proof.as_bytes()) {
        return judge_ours(response, facts);
    }
    if let Some(evidence) = evidence_of_cache(&response.headers, header.is_some()) {
        let text = format!(
            "a cache answered instead of this server ({evidence}): exclude POST requests and `/api/` from caching"
        );
        return failed(Step::Form, text);
    }
    let text = match response.status {
        status if status.is_redirection() => describe_redirect(response),
        status if status.is_success() => return judge_foreign_success(response, facts),
        status => describe_foreign_error(status, response, facts),
    };
    failed(Step::Form, text)
}

/// Judges a response with the proof, a header that only this inbox's servers can compute. A success only if
/// its status is 200 and the inbox has accepted the token.
fn judge_ours(response: &FetchResponse, facts: SubmissionFacts<'_>) -> Judgment {
    let said = error_member(&response.body).map_or_else(|| ".".to_owned(), |error| format!(": {error}"));
    let text = match response.status {
        StatusCode::OK if facts.is_accepted => return accepted(),
        StatusCode::OK => {
            "the server answered 200, but the inbox of this process has no record of it: all servers must use the same database"
                .to_owned()
        }
        StatusCode::BAD_REQUEST => format!(
            "the form refuses its own example values{said} Correct `example` in the definition of the form, or \
             the proxy that changes the body"
        ),
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
            format!("this server did not get the body as it was sent{said} Check the proxy in front of it")
        }
        status if status.is_server_error() => {
            format!("this server could not store the submission ({status}){said} The log has the cause")
        }
        status => format!("this server refused the submission with {status}{said}"),
    };
    failed(Step::Form, text)
}

fn accepted() -> Judgment {
    Judgment { step: Step::Form, outcome: Outcome::Ok, text: "the test submission was accepted".to_owned() }
}

/// Judges a 2xx response that does not carry the proof. A success only if the body is `{"ok": true}` and
/// the inbox has accepted the token.
fn judge_foreign_success(response: &FetchResponse, facts: SubmissionFacts<'_>) -> Judgment {
    let status = response.status;
    let is_our_body = serde_json::from_slice::<serde_json::Value>(&response.body)
        .is_ok_and(|value| value == serde_json::json!({ "ok": true }));
    let text = if is_our_body && facts.is_accepted {
        // A proxy removed the header with the proof, but this inbox has accepted the submission.
        return accepted();
    } else if is_our_body {
        format!(
            "the answer was {} with `{{\"ok\": true}}`, but the submission never reached this inbox: the public address leads to \
             another instance of frontdesk, or to one with another database",
            status_text(status)
        )
    } else if facts.is_accepted {
        format!(
            "the submission was stored, but a proxy replaces this server's response, so visitors get {}",
            describe_body(status, response)
        )
    } else {
        format!(
            "another server answered instead of this one ({}), such as a login, maintenance or parking page of a proxy: forward \
             POST requests for `{}` to this server",
            describe_body(status, response),
            facts.path
        )
    };
    failed(Step::Form, text)
}

/// Describes a redirect of the test submission, which the canary does not follow.
fn describe_redirect(response: &FetchResponse) -> String {
    let status = status_text(response.status);
    let place = response.headers.get(LOCATION).map(|place| String::from_utf8_lossy(place.as_bytes()));
    let place = place.map_or_else(|| "an unknown address".to_owned(), |place| quoted(&place));
    format!(
        "the submission is redirected to {place} ({status}), and most programs do not repeat a POST: set `base_url` to the \
         final address, and forward POST requests without a redirect"
    )
}

/// Describes an error response from another server, or from this server if a proxy removed the proof. Only
/// the text for 429 distinguishes the two.
fn describe_foreign_error(
    status: StatusCode,
    response: &FetchResponse,
    facts: SubmissionFacts<'_>,
) -> String {
    let (shown, path) = (status_text(status), facts.path);
    let is_ours = response.headers.contains_key("ratelimit-policy") || error_member(&response.body).is_some();
    let server = response.headers.get(SERVER).and_then(|value| value.to_str().ok());
    let server = server.map_or_else(String::new, |server| format!(" (`Server: {}`)", quoted(server)));
    match status.as_u16() {
        429 if is_ours => format!(
            "{shown}: the limits of this server count test submissions, because a proxy removes the request header \
             `Frontdesk-Canary`: let the proxy pass it on"
        ),
        429 => format!("{shown}: a proxy or firewall limits requests{server}: permit more to `{path}`"),
        401 | 407 => format!("{shown}: a proxy asks for a password{server}: exempt `{path}` from it"),
        403 if is_challenge(response) => format!(
            "{shown}: a bot check in front of the server{server} challenges the submission, so programs and some visitors cannot \
             send it: exempt `{path}`"
        ),
        403 => format!(
            "{shown}: a firewall or proxy refuses the submission{server}: permit POST requests for `{path}`"
        ),
        404 | 410 => format!(
            "{shown}: `{path}` does not lead to this server{server}: forward requests for `/api/` to it, or enable the form there"
        ),
        405 | 501 => format!(
            "{shown}: POST is not permitted{server}, as with static hosting: forward requests for `/api/` to this server"
        ),
        413 => format!("{shown}: a proxy refuses the body{server}: permit at least 64 KiB"),
        421 => format!(
            "{shown}: another server answered for this name{server}: check the names of the proxy's certificates"
        ),
        502..=504 | 520..=527 => format!(
            "{shown}: the proxy cannot reach this server{server}: check its upstream address and that this server listens there"
        ),
        500..=599 => {
            format!("{shown}: a proxy returned this error{server}, not this server: see the log of the proxy")
        }
        _ => format!(
            "{shown}: a proxy refuses the submission{server}: forward POST requests for `{path}` to this server"
        ),
    }
}

/// Whether a 403 response looks like a bot check: it has the header `cf-mitigated`, or a word such as
/// `captcha` in its body.
fn is_challenge(response: &FetchResponse) -> bool {
    let body = String::from_utf8_lossy(&response.body).to_ascii_lowercase();
    response.headers.contains_key("cf-mitigated")
        || ["captcha", "challenge", "just a moment"].iter().any(|word| body.contains(word))
}

/// The evidence that a cache has answered: a hit in a cache's header, an `Age` other than 0, or the proof of
/// another submission. `has_proof` says whether the response has such a proof. `None` without evidence.
fn evidence_of_cache(headers: &HeaderMap, has_proof: bool) -> Option<String> {
    let texts = |name| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    for name in ["x-cache", "cf-cache-status", "x-cache-status", "x-proxy-cache", "cache-status"] {
        let is_hit = if name == "cache-status" { is_status_hit } else { is_word_hit };
        if let Some(value) = texts(name).find(|value| is_hit(value)) {
            return Some(format!("`{name}: {}`", quoted(value)));
        }
    }
    if let Some(age) = texts("age").find(|age| age.trim() != "0") {
        return Some(format!("`Age: {}`", quoted(age)));
    }
    has_proof.then(|| "the response belongs to an earlier submission".to_owned())
}

/// Whether a cache in a `Cache-Status` has the parameter `hit` (RFC 9211 §2.1). A value without parameters is
/// read as that of an older header.
fn is_status_hit(value: &str) -> bool {
    let caches = Parser::new(value).parse::<List>().unwrap_or_default();
    let parameters = caches.iter().filter_map(|entry| match entry {
        ListEntry::Item(cache) if !cache.params.is_empty() => Some(&cache.params),
        _ => None,
    });
    let mut hits =
        parameters.map(|parameters| parameters.get("hit") == Some(&BareItem::Boolean(true))).peekable();
    if hits.peek().is_none() { is_word_hit(value) } else { hits.any(|is_hit| is_hit) }
}

/// Whether an older header says that a cache had the response, such as `HIT from name`, `TCP_HIT`,
/// `RefreshHit from cloudfront` or `MISS, HIT`. The name of a cache after `from` does not count.
fn is_word_hit(value: &str) -> bool {
    let outcomes = value.split(',').filter_map(|cache| cache.split(" from ").next());
    let mut words = outcomes.flat_map(|outcome| outcome.split(|c: char| !c.is_ascii_alphanumeric()));
    words.any(|word| word.eq_ignore_ascii_case("hit") || word.ends_with("Hit"))
}

/// Describes a status and the kind of body, for example `200 OK with an HTML page "Sign in"`. A body with
/// `<title`, `<html` or `<!doctype` counts as HTML, regardless of its media type.
fn describe_body(status: StatusCode, response: &FetchResponse) -> String {
    let body = String::from_utf8_lossy(&response.body);
    let status = status_text(status);
    let lower = body.to_ascii_lowercase();
    if let Some((_, rest)) = lower.split_once("<title").and_then(|(_, rest)| rest.split_once('>')) {
        let start = body.len() - rest.len();
        let title = body.get(start..).and_then(|rest| rest.split('<').next()).unwrap_or_default();
        return format!("{status} with an HTML page \"{}\"", quoted(title));
    }
    if lower.contains("<html") || lower.contains("<!doctype") {
        return format!("{status} with an HTML page");
    }
    match serde_json::from_str::<serde_json::Value>(&body) {
        Ok(_) => format!("{status} with JSON that is not frontdesk's"),
        Err(_) if body.trim().is_empty() => format!("{status} without a body"),
        Err(_) => format!("{status} with a text that is not frontdesk's"),
    }
}

/// The message of an error response of this server, cut by [`quoted`]; `None` unless the body is
/// `{"error": "…"}`.
fn error_member(body: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get("error")?.as_str().map(quoted)
}

/// Judges a request that got no response: a failure of the step in which it ended, which is [`Step::Form`]
/// once the connection is established. `host` is the host name in `base_url`.
pub(crate) fn judge_error(error: &FetchError, host: &str) -> Judgment {
    let cause = quoted(&error.sentence);
    match error.phase {
        FetchPhase::Resolve => failed(Step::Dns, describe_unresolved(host, &cause, error.is_timeout)),
        FetchPhase::Connect if error.is_timeout => failed(
            Step::Connect,
            format!(
                "no connection within the time limit ({cause}): check that a firewall permits it and that the address in the DNS \
                 is this server's or its proxy's"
            ),
        ),
        FetchPhase::Connect => failed(
            Step::Connect,
            format!(
                "no connection ({cause}): check that the server or its proxy runs and listens at this address"
            ),
        ),
        FetchPhase::Tls => failed(Step::Tls, describe_tls(host, error, &cause)),
        FetchPhase::Exchange if error.is_timeout => failed(
            Step::Form,
            format!(
                "no response within the time limit ({cause}): check the proxy and the load of this server"
            ),
        ),
        FetchPhase::Exchange => failed(
            Step::Form,
            format!(
                "the connection ended without a response ({cause}): check the proxy in front of this server"
            ),
        ),
    }
}

/// Describes a host name that has no address or whose lookup timed out.
pub(crate) fn describe_unresolved(host: &str, cause: &str, is_timeout: bool) -> String {
    if is_timeout {
        format!(
            "the name server did not respond about {host} in time ({cause}): check this machine's resolver"
        )
    } else {
        format!(
            "{host} has no usable address ({cause}): check the DNS records of the name, its registration, and `base_url`"
        )
    }
}

/// Describes a failed TLS handshake and how to repair the cause.
fn describe_tls(host: &str, error: &FetchError, cause: &str) -> String {
    let (fault, remedy) = match error.certificate {
        Some(CertificateFault::Expired) => {
            ("the certificate has expired".to_owned(), "renew it, and check the clock of this machine")
        }
        Some(CertificateFault::NotYetValid) => (
            "the certificate is not valid yet".to_owned(),
            "check the clock of this machine, which may be behind",
        ),
        Some(CertificateFault::WrongName) => {
            (format!("the certificate is for another name than {host}"), "use one that has this name")
        }
        Some(CertificateFault::UnknownIssuer) => (
            "the certificate's issuer is unknown".to_owned(),
            "serve the complete chain of a public authority, or name your own in `canary.ca_file`",
        ),
        Some(CertificateFault::Other) => {
            ("the certificate is not accepted".to_owned(), "replace the certificate")
        }
        None if error.is_timeout => {
            ("the TLS handshake did not end in time".to_owned(), "check the proxy in front of this server")
        }
        None => (
            "the TLS handshake failed".to_owned(),
            "check that this port speaks TLS and which versions it permits",
        ),
    };
    format!("{fault} ({cause}): {remedy}")
}

fn status_text(status: StatusCode) -> String {
    status
        .canonical_reason()
        .map_or_else(|| status.as_u16().to_string(), |reason| format!("{} {reason}", status.as_u16()))
}

/// Quotes at most [`MAX_QUOTED_CHARS`] characters from the beginning of text from another server, on one line
/// and without control characters.
fn quoted(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(MAX_QUOTED_CHARS).collect();
    cut(&visible(&words.join(" ")), MAX_QUOTED_CHARS).to_owned()
}

#[cfg(test)]
mod tests;
