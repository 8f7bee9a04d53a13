//! Reduces the log lines about a lasting failure to one at its beginning and one at its end.

/// Tracks whether a repeated operation is currently failing, so that only changes are logged.
#[derive(Debug, Default)]
pub struct FailureLog {
    is_reported: bool,
}

impl FailureLog {
    /// Records a failure. Returns whether it is the first since the last success, and so must be logged.
    pub fn record_failure(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    pub fn is_failing(&self) -> bool {
        self.is_reported
    }

    /// Records a success. Returns whether it ends a failure, and so must be logged.
    pub fn record_success(&mut self) -> bool {
        std::mem::take(&mut self.is_reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_and_the_end_of_a_failure_are_logged() {
        let mut log = FailureLog::default();
        assert!(!log.record_success(), "nothing has failed");
        let failures = [log.record_failure(), log.record_failure(), log.record_failure()];
        assert_eq!(failures, [true, false, false]);
        assert!(log.is_failing());
        assert_eq!([log.record_success(), log.record_success()], [true, false]);
        assert!(!log.is_failing());
        assert!(log.record_failure());
    }
}
