//! The webhook channel: posts notifications to an HTTP endpoint, either signed according to Standard Webhooks
//! or in the format of a chat service.
//!
//! An attempt is one connection and one POST. The response's status determines the outcome ([`answer`]);
//! Telegram and Teams also report errors in the body ([`service`]). Redirects are never followed.
//! docs/pages/webhooks.md explains how a receiver verifies a signature.

#![expect(clippy::disallowed_methods, reason = "a signature includes the time of the attempt")]

pub mod answer;
pub mod body;
mod chat_filters;
pub mod service;
mod text;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use standardwebhooks::{
    HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, HEADER_WEBHOOK_TIMESTAMP, Webhook as Signer,
};
use uuid::Uuid;

use crate::notification::Notification;
use frontdesk_fetch::{ExtraRoots, FetchClient, FetchError, FetchResponse, FetchTimeouts, NameResolver, Url};
use frontdesk_inbox::submission::delivery_outcome::{AttemptFailure, Cause, LONGEST_ATTEMPT, Outcome};

pub use body::WebhookBody;
pub use service::ChatService;

#[derive(Clone, Debug)]
pub struct WebhookOptions {
    pub url: Url,
    /// The signing keys; two during a rotation. Without a key, requests are not signed.
    pub secrets: Vec<SigningKey>,
    pub body: WebhookBody,
    /// The token of a Telegram bot, which is also in `url`, or of a user of ntfy. Outcomes omit it, because
    /// the receiver may quote it.
    pub token: Option<SecretString>,
    /// Whether private addresses are allowed. The metadata addresses of cloud providers, which hand out
    /// credentials, are always refused.
    pub allow_private: bool,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub extra_roots: Option<ExtraRoots>,
    pub deadlines: FetchTimeouts,
}

/// Time limits for the phases of an attempt. Their sum is less than [`LONGEST_ATTEMPT`].
pub const DEADLINES: FetchTimeouts = FetchTimeouts {
    resolve: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    tls: Duration::from_secs(10),
    answer: Duration::from_secs(30),
    body: Duration::from_secs(10),
};

pub struct Webhook {
    options: Box<WebhookOptions>,
    client: FetchClient,
    clock: fn() -> Timestamp,
}

impl Webhook {
    pub fn new(options: WebhookOptions) -> Webhook {
        Webhook::with_clock(options, NameResolver::System, Timestamp::now)
    }

    fn with_clock(options: WebhookOptions, resolver: NameResolver, clock: fn() -> Timestamp) -> Webhook {
        let WebhookOptions { allow_private, extra_roots, deadlines, .. } = &options;
        let client = FetchClient::new(resolver, *allow_private, extra_roots.as_ref(), *deadlines);
        Webhook { options: Box::new(options), client, clock }
    }

    /// Makes one attempt. Fails without sending anything if the template produces no valid body.
    pub async fn send(&self, notice: &Notification) -> Outcome {
        self.send_dated(notice).await.0
    }

    /// Makes one attempt, as [`Webhook::send`] does, and also returns the time that the receiver states in
    /// its response; `None` without a response or a valid date. If the request fails, the cause is the
    /// channel or, once the request may have been sent, unclear.
    pub(crate) async fn send_dated(&self, notice: &Notification) -> (Outcome, Option<Timestamp>) {
        let WebhookOptions { url, secrets, body, .. } = &*self.options;
        let body = match body.render(notice) {
            Ok(body) => body,
            Err(fault) => return (Outcome::failed(Cause::Notification, fault), None),
        };
        let mut headers = signed_headers(secrets, notice.id, (self.clock)(), &body);
        headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        // Without `Accept-Encoding`, a receiver may compress its response (RFC 9110 §12.5.3), which would not
        // be readable.
        headers.push((ACCEPT_ENCODING, HeaderValue::from_static("identity")));
        headers.extend(self.authorization());
        let exchange = self.client.send(Method::POST, url, headers, body);
        let failed = match tokio::time::timeout(LONGEST_ATTEMPT, exchange).await {
            Ok(Ok(answer)) => {
                let outcome = self.without_token(self.outcome(&answer));
                return (outcome, answer::stated_time(&answer.headers));
            }
            Ok(Err(failed)) => failed,
            Err(_) => {
                let sentence = format!("the attempt took longer than {} s", LONGEST_ATTEMPT.as_secs());
                FetchError { is_sent: true, is_timeout: true, ..sentence.into() }
            }
        };
        let cause = if failed.is_sent { Cause::Unclear } else { Cause::Channel };
        (Outcome::failed(cause, format!("{}: {}", url.host_and_port(), failed.sentence)), None)
    }

    /// Derives the outcome from the response, as the chat service or the robot at this host reports errors,
    /// or else from the HTTP status.
    fn outcome(&self, answer: &FetchResponse) -> Outcome {
        let now = (self.clock)();
        match &self.options.body {
            WebhookBody::Service(service) => service.outcome(answer, now),
            WebhookBody::Standard | WebhookBody::Template(_) => {
                service::outcome_of_host(&self.options.url.host().to_string(), answer, now)
            }
        }
    }

    /// `Authorization` with the token for ntfy (RFC 6750). `None` for other receivers, without a token, and
    /// if the token cannot be the value of a header.
    fn authorization(&self) -> Option<(HeaderName, HeaderValue)> {
        let WebhookBody::Service(ChatService::Ntfy { .. }) = &self.options.body else { return None };
        let token = self.options.token.as_ref()?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).ok()?;
        value.set_sensitive(true);
        Some((AUTHORIZATION, value))
    }

    /// Removes the token from the response's text, which the inbox shows: a proxy may quote the URL.
    fn without_token(&self, outcome: Outcome) -> Outcome {
        let Some(token) = &self.options.token else { return outcome };
        let redact = |text: String| text.replace(token.expose_secret(), "…");
        match outcome {
            Outcome::Delivered(text) => Outcome::Delivered(redact(text)),
            Outcome::Failed(failure) => {
                Outcome::Failed(AttemptFailure { answer: redact(failure.answer), ..failure })
            }
        }
    }
}

/// A Standard Webhooks secret for HMAC-SHA-256.
#[derive(Clone)]
pub struct SigningKey(Arc<Signer>);

impl SigningKey {
    /// Parses `whsec_` followed by 24 to 64 bytes in Base64. The error does not quote the secret.
    pub fn parse(text: &str) -> Result<SigningKey, String> {
        let expected = || {
            Err("expected `whsec_` and 24 to 64 random bytes in Base64, for example the output of \
                 `echo \"whsec_$(openssl rand -base64 32)\"`"
                .to_owned())
        };
        let Some(encoded) = text.strip_prefix("whsec_") else { return expected() };
        let bytes = encoded.trim_end_matches('=').len() * 3 / 4;
        match Signer::new(encoded) {
            Ok(signer) if (24..=64).contains(&bytes) => Ok(SigningKey(Arc::new(signer))),
            _ => expected(),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// Returns the Standard Webhooks headers: the notification's id, the time of the attempt, and one signature
/// per key. Without a key, the signature header is omitted.
fn signed_headers(
    keys: &[SigningKey],
    id: Uuid,
    now: Timestamp,
    body: &str,
) -> Vec<(HeaderName, HeaderValue)> {
    let (id, seconds) = (id.to_string(), now.as_second());
    // Signing cannot fail here: the signer rejects only bodies that are not UTF-8.
    let signatures: Vec<String> =
        keys.iter().filter_map(|key| key.0.sign(&id, seconds, body.as_bytes()).ok()).collect();
    let signature = (!signatures.is_empty()).then(|| (HEADER_WEBHOOK_SIGNATURE, signatures.join(" ")));
    let headers = [(HEADER_WEBHOOK_ID, id), (HEADER_WEBHOOK_TIMESTAMP, seconds.to_string())];
    headers
        .into_iter()
        .chain(signature)
        .filter_map(|(name, value)| {
            Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests;
