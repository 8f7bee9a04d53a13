//! The result of verifying the signatures of a request.

/// The identity of a request's sender, as far as signatures prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentStatus {
    /// The request has no signature, or only signatures for other purposes.
    Unsigned,
    /// An agent from an allowed directory signed the request.
    Verified(Agent),
    /// The request is signed, but no signature is valid.
    Unverified(SignatureError),
}

impl AgentStatus {
    /// The label value in the metrics: `unsigned`, `verified`, or the error.
    pub const fn name(&self) -> &'static str {
        match self {
            AgentStatus::Unsigned => "unsigned",
            AgentStatus::Verified(_) => "verified",
            AgentStatus::Unverified(why) => why.name(),
        }
    }

    /// The verified agent's directory, which is stored with the submission.
    pub fn agent(&self) -> Option<&str> {
        match self {
            AgentStatus::Verified(agent) => Some(&agent.directory),
            _ => None,
        }
    }
}

/// A verified agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The host of its directory, for example `agent.example.com`.
    pub directory: String,
}

/// Why a signature is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// A syntax error, or `keyid`, `created`, `expires` or the signature itself is missing.
    Malformed,
    /// It does not cover the site's authority or its `Signature-Agent`, or it covers a missing or unknown
    /// component.
    Components,
    /// `created` is in the future.
    Early,
    /// `expires` has passed.
    Expired,
    /// Its validity is longer than a day.
    Long,
    /// The operator does not allow the agent's directory.
    Directory,
    /// The directory cannot be fetched.
    Unavailable,
    /// The directory does not have the key, or the key is not valid now.
    Key,
    /// The algorithm is unknown, or not the key's.
    Algorithm,
    /// The signature does not verify.
    Signature,
    /// The signature does not verify, and the `Host` is not the site's: it may be valid for another site.
    Authority,
    /// The signature was used before, or the table of used signatures is full.
    Replayed,
}

impl SignatureError {
    /// The label value in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            SignatureError::Malformed => "malformed",
            SignatureError::Components => "components",
            SignatureError::Early => "early",
            SignatureError::Expired => "expired",
            SignatureError::Long => "long",
            SignatureError::Directory => "directory",
            SignatureError::Unavailable => "unavailable",
            SignatureError::Key => "key",
            SignatureError::Algorithm => "algorithm",
            SignatureError::Signature => "signature",
            SignatureError::Authority => "authority",
            SignatureError::Replayed => "replayed",
        }
    }
}
