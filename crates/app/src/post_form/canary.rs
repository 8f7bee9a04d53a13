//! Test submissions of the canary (`docs/pages/canary.md`): a genuine token lets a submission pass without
//! limits, and marks it, so that it counts for nothing. A request with any other token is an ordinary one.

use http::Method;
use http::header::HeaderValue;
use jiff::Timestamp;
use serde::Deserialize;

use super::refusal::FormRefusal;
use super::{Content, FormRequest, Posted};
use crate::response::{HttpResponse, accepted};
use frontdesk_http::RequestBody;
use frontdesk_inbox::store::{CanaryKey, Hash};

/// Whether a request is a test submission.
pub(super) enum CanaryCheck {
    Answered(HttpResponse),
    /// It is not. Contains the body if it has been read to find out.
    Ordinary(Option<Posted>),
}

/// The member with the token. All others are ignored.
#[derive(Deserialize)]
struct Marked {
    #[serde(default)]
    desk_canary: Option<String>,
}

impl FormRequest<'_> {
    /// Answers a test submission that its header announces, without counting it towards limits.
    pub(super) async fn read_canary(&self, body: &mut RequestBody) -> CanaryCheck {
        let token = self.head.headers.get(CanaryKey::HEADER).and_then(|value| value.to_str().ok());
        let (Some(token), &Method::POST) = (token, &self.head.method) else {
            return CanaryCheck::Ordinary(None);
        };
        let Some((key, nonce)) = self.verify(token).await else { return CanaryCheck::Ordinary(None) };
        match self.read(body).await {
            Ok(posted) => match self.accept_canary(&posted).await {
                Some(response) => CanaryCheck::Answered(response),
                None => CanaryCheck::Ordinary(Some(posted)),
            },
            Err(refusal) => CanaryCheck::Answered(with_proof(refusal.to_response(), &key, &nonce)),
        }
    }

    /// Stores a test submission, and returns the response; `None` if the body has no genuine token, or one
    /// that has been used.
    pub(super) async fn accept_canary(&self, posted: &Posted) -> Option<HttpResponse> {
        let Content::Json(bytes) = &posted.content else { return None };
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.contains(CanaryKey::MEMBER))?;
        let token = serde_json::from_str::<Marked>(text).ok()?.desk_canary?;
        let (key, nonce) = self.verify(&token).await?;
        let (name, now) = (self.form.name, now());
        let used = self.app.store.change(move |tx| tx.use_canary(&nonce, name, now)).await;
        if !used.unwrap_or(false) {
            return None;
        }
        let stored = match posted.parse(self.form) {
            Ok(parsed) => {
                let accepted = self.app.intake.accept_canary(parsed.entry, nonce, now).await;
                accepted.map_err(|error| {
                    let request = self.id();
                    tracing::error!(%request, form = name, %error, "a test submission of the canary could not be stored");
                    FormRefusal::NotStored(request)
                })
            }
            Err(rejection) => Err(rejection.into()),
        };
        let response = stored.map_or_else(|refusal| refusal.to_response(), |_| accepted());
        Some(with_proof(response, &key, &nonce))
    }

    /// The nonce of a genuine token for this form. Reads the key from the database only for a text that may
    /// be a token.
    async fn verify(&self, token: &str) -> Option<(CanaryKey, Hash)> {
        if !CanaryKey::is_token(token) {
            return None;
        }
        let key = self.app.store.canary_key().await.ok()?;
        let nonce = key.verify(token, self.form.name, now())?;
        Some((key, nonce))
    }
}

#[expect(clippy::disallowed_methods, reason = "tokens expire")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Adds the proof that this server has received the token.
fn with_proof(mut response: HttpResponse, key: &CanaryKey, nonce: &Hash) -> HttpResponse {
    if let Ok(proof) = HeaderValue::from_str(&key.proof(nonce)) {
        response.headers_mut().insert(CanaryKey::HEADER, proof);
    }
    response
}
