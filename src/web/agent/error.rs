//! Signature verification errors.

/// Why a signature is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// The syntax is invalid, or `keyid`, `created`, `expires` or the signature itself is missing.
    Malformed,
    /// The signature does not cover the site's authority or the `Signature-Agent` header, or it covers a
    /// missing or unknown component.
    Components,
    /// The signature was created in the future, even allowing for clock skew.
    Early,
    Expired,
    /// The signature is valid for more than a day.
    Long,
    /// The operator does not allow the agent's directory.
    Directory,
    /// The directory's keys could not be fetched, or not within the time limit.
    Unavailable,
    /// The directory does not have the key, or the key is not valid now.
    Key,
    /// The algorithm is unknown or does not match the key.
    Algorithm,
    /// The signature does not match the request.
    Signature,
    /// The signature does not match the request. The `Host` names another site, for which the signature may
    /// have been made.
    Authority,
    /// The signature was used before, or the table of used signatures is full.
    Replayed,
}
