//! The result of a check by `frontdesk doctor`.

/// The result of a check by `frontdesk doctor`.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum CheckResult {
    /// No problem, with a description of the finding.
    Good(String),
    /// A problem, with advice on how to solve it.
    Bad(String),
    /// A remark that is not a problem, such as the reason why a check was not possible.
    Unknown(String),
}

impl<Good: Into<String>, Bad: Into<String>> From<Result<Good, Bad>> for CheckResult {
    /// Converts `Ok` to [`CheckResult::Good`], and `Err` to [`CheckResult::Bad`].
    fn from(result: Result<Good, Bad>) -> CheckResult {
        match result {
            Ok(text) => CheckResult::Good(text.into()),
            Err(text) => CheckResult::Bad(text.into()),
        }
    }
}

impl CheckResult {
    /// The label of the result in reports (`ok`, `fix` or `note`), and its description.
    pub(in crate::cli) fn word_and_text(self) -> (&'static str, String) {
        match self {
            CheckResult::Good(text) => ("ok", text),
            CheckResult::Bad(text) => ("fix", text),
            CheckResult::Unknown(text) => ("note", text),
        }
    }
}
