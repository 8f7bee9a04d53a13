//! Signature verification errors.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// The syntax is invalid, or `keyid`, `created`, `expires` or the signature itself is missing.
    Malformed,
    /// The signature omits the authority or `Signature-Agent`, or covers a missing or unknown component.
    Components,
    /// The signature was created in the future, even allowing for clock skew.
    Early,
    Expired,
    /// The signature is valid for more than a day.
    Long,
    /// The operator does not allow the agent's directory.
    Directory,
    /// The directory's keys could not be fetched within the time limit.
    Unavailable,
    /// The directory does not have the key, or the key is not valid now.
    Key,
    /// The algorithm is unknown or does not match the key.
    Algorithm,
    /// The signature does not match the request.
    Signature,
    /// Like [`Self::Signature`], but `Host` names another site, for which the agent may have signed.
    Authority,
    /// The signature was used before, or the table of used signatures is full.
    Replayed,
}
