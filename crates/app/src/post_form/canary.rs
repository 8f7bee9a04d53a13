//! Test submissions of the canary (`docs/pages/canary.md`): a genuine token lets a submission pass without
//! limits, and marks it as a test, which no statistics include. A request with any other token is an ordinary
//! one.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use serde::Deserialize;

use crate::response::HttpResponse;
use frontdesk_forms::Form;
use frontdesk_inbox::store::{CanaryKey, Hash, Store};

/// A token that this inbox has issued for one form and that has not expired. It may have been used.
pub(super) struct GenuineToken {
    key: CanaryKey,
    pub(super) nonce: Hash,
}

/// The member of a JSON body that contains the canary's token. Other members are ignored.
#[derive(Deserialize)]
struct Marked {
    #[serde(default)]
    desk_canary: Option<String>,
}

impl GenuineToken {
    /// Verifies a token for `form`. Reads the key from the database only if the text looks like a token.
    /// `None` if the token is not genuine or has expired, or if the key cannot be read.
    pub(super) async fn verify(text: &str, form: &Form, store: &Store) -> Option<GenuineToken> {
        if !CanaryKey::is_token(text) {
            return None;
        }
        let key = store.canary_key().await.ok()?;
        let nonce = key.verify(text, form.name, now())?;
        Some(GenuineToken { key, nonce })
    }

    /// Marks the token as used. Returns false if it was used before or issued for another form, if its canary
    /// run has ended, or on an error.
    pub(super) async fn use_up(&self, form: &'static Form, store: &Store) -> bool {
        let (nonce, name) = (self.nonce, form.name);
        store.change(move |tx| tx.use_canary(&nonce, name, now())).await.unwrap_or(false)
    }

    /// Adds a header with the proof that this server has received the token.
    pub(super) fn prove(&self, mut response: HttpResponse) -> HttpResponse {
        if let Ok(proof) = HeaderValue::from_str(&self.key.proof(&self.nonce)) {
            response.headers_mut().insert(CanaryKey::HEADER, proof);
        }
        response
    }
}

/// The token in the canary's request header. The header announces a test submission.
pub(super) fn token_in_header(headers: &HeaderMap) -> Option<&str> {
    headers.get(CanaryKey::HEADER)?.to_str().ok()
}

/// The token in a JSON body. Parses only a body that contains the member's name.
pub(super) fn token_in_body(body: &Bytes) -> Option<String> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.contains(CanaryKey::MEMBER))?;
    serde_json::from_str::<Marked>(text).ok()?.desk_canary
}

#[expect(clippy::disallowed_methods, reason = "tokens expire")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_a_string_member_of_an_object() {
        let check = |body: &str, expected: Option<&str>| {
            assert_eq!(
                token_in_body(&Bytes::copy_from_slice(body.as_bytes())).as_deref(),
                expected,
                "{body}"
            );
        };
        check(r#"{"email": "a@example.com", "desk_canary": "token"}"#, Some("token"));
        check(r#"{"desk_canary": null}"#, None);
        check(r#"{"desk_canary": 7}"#, None);
        check(r#"{"desk_canary": "token""#, None);
        check(r#"{"message": "desk_canary"}"#, None);
        check("{}", None);
    }
}
