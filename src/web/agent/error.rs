//! The errors of signatures.

/// Why a signature is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// A syntax error, or `keyid`, `created`, `expires` or the signature itself is missing.
    Malformed,
    /// It does not cover the site's authority or its `Signature-Agent`, or it covers a missing or unknown
    /// component.
    Components,
    Early,
    Expired,
    /// Its validity is longer than a day.
    Long,
    /// The operator does not allow the agent's directory.
    Directory,
    Unavailable,
    /// The directory does not have the key, or the key is not valid now.
    Key,
    /// The algorithm is unknown, or not the key's.
    Algorithm,
    Signature,
    /// The signature does not verify, and the `Host` is not the site's: it may be valid for another site.
    Authority,
    /// The signature was used before, or the table of used signatures is full.
    Replayed,
}
