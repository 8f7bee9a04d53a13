//! The channel to an HTTP endpoint: signed as Standard Webhooks describe it, or in the words of a chat service.
//!
//! An attempt is one connection and one POST: resolve → check the addresses → connect to a checked one → TLS → request → answer.
//! The answer's status decides ([`answer`] holds the table). Redirects are never followed.
//!
//! # Verifying a signature
//!
//! A receiver joins the `webhook-id` header, the `webhook-timestamp` header and the body as it was received with full stops, takes
//! HMAC-SHA-256 of that with the key (what follows `whsec_`, decoded from Base64), encodes it in Base64 and compares it, in
//! constant time, with each member of `webhook-signature` that begins with `v1,`: one match is enough, there are two while a secret
//! is rotated. He refuses timestamps that are more than five minutes off, and takes a `webhook-id` that he has seen as done.

pub mod answer;
pub mod body;
mod chat;
pub mod sign;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::deliver::notice::Notice;
use crate::fetch::{Client, Deadlines, Failed, Resolver, Roots, Url};
use crate::submission::outcome::{Cause, LONGEST_ATTEMPT, Outcome};

pub use body::Body;
pub use sign::Key;

/// What the operator says of a webhook.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where notices are posted to.
    pub url: Url,
    /// The keys that sign, one signature for each: two while a secret is rotated. Without any, nothing is signed.
    pub secrets: Vec<Key>,
    /// What the request's body looks like.
    pub body: Body,
    /// Whether the name may lead to addresses that the Internet at large cannot reach. Those from which clouds hand out
    /// credentials stay refused.
    pub allow_private: bool,
    /// Certificate authorities that are trusted beside the public ones.
    pub extra_roots: Option<Roots>,
    /// How long each phase may take.
    pub deadlines: Deadlines,
}

/// How long each phase of an attempt may take. In the sum they stay below [`LONGEST_ATTEMPT`], which ends an attempt in any case.
pub const DEADLINES: Deadlines = Deadlines {
    resolve: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    tls: Duration::from_secs(10),
    answer: Duration::from_secs(30),
    body: Duration::from_secs(10),
};

/// A webhook that is ready to send.
pub struct Webhook {
    url: Url,
    secrets: Vec<Key>,
    body: Body,
    client: Client,
    clock: fn() -> Timestamp,
}

impl Webhook {
    /// Makes it ready; nobody is connected to.
    pub fn new(options: Options) -> Webhook {
        Webhook::with(options, Resolver::System, Timestamp::now)
    }

    /// The same with other eyes for names and time.
    fn with(options: Options, resolver: Resolver, clock: fn() -> Timestamp) -> Webhook {
        let Options { url, secrets, body, allow_private, extra_roots, deadlines } = options;
        let client = Client::new(resolver, allow_private, extra_roots.as_ref(), deadlines);
        Webhook { url, secrets, body, client, clock }
    }

    /// Posts one notice and says what became of it.
    pub async fn send(&self, notice: &Notice) -> Outcome {
        let body = match self.body.render(notice) {
            Ok(body) => body,
            Err(fault) => return Outcome::failed(Cause::Notice, fault),
        };
        let headers = sign::headers(&self.secrets, notice.id, (self.clock)(), &body);
        let exchange = self.client.post(&self.url, headers, body);
        let failed = match tokio::time::timeout(LONGEST_ATTEMPT, exchange).await {
            Ok(Ok(answer)) => return answer::outcome(&answer, (self.clock)()),
            Ok(Err(failed)) => failed,
            Err(_) => {
                let sentence = format!("not done within {} s", LONGEST_ATTEMPT.as_secs());
                Failed { is_sent: true, sentence }
            }
        };
        let cause = if failed.is_sent { Cause::Unclear } else { Cause::Channel };
        Outcome::failed(cause, format!("{}: {}", self.url.place(), failed.sentence))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
