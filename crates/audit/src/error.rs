//! The errors that end an audit.

/// Why a site could not be audited.
#[derive(Debug)]
pub enum AuditError {
    /// The page cannot be fetched: DNS, the connection, TLS or HTTP failed. Contains a sentence.
    Unreachable(String),
    /// The URL redirects to another host, or returns a login, a challenge or an error. Contains a sentence.
    NotServed(String),
}

impl std::fmt::Display for AuditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AuditError::Unreachable(sentence) | AuditError::NotServed(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for AuditError {}
