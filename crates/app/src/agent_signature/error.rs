//! Signature verification errors.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// The syntax is invalid, or `keyid`, `created`, `expires` or the signature itself is missing.
    Malformed,
    /// The signature covers neither `@authority` nor `@target-uri`, omits `Signature-Agent`, or covers too
    /// many, repeated, missing or unknown components.
    Components,
    /// The signature was created in the future, even allowing for clock skew.
    Early,
    Expired,
    /// The signature is valid for more than a day.
    Long,
    /// The operator does not allow the agent's directory, or allows none; or `Signature-Agent` has a `type`
    /// other than `directory`.
    Directory,
    /// The directory's keys are not known: the last fetch failed, or takes longer than the time limit.
    Unavailable,
    /// The directory does not have the key, or the key is not valid now.
    Key,
    /// The algorithm is unknown or does not match the key.
    Algorithm,
    /// The signature does not match the request.
    Signature,
    /// The signature does not match. `Host` names another site, so it may have been made for that site.
    Authority,
    /// The signature was used before, or the table of used signatures is full.
    Replayed,
}
