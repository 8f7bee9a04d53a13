//! Reduces the log lines about a lasting failure to one at its beginning and one at its end.

/// Tracks whether a repeated operation is currently failing, so that only changes are logged.
#[derive(Debug, Default)]
pub struct Outage {
    is_reported: bool,
}

impl Outage {
    /// Records a failure. Returns whether it is the first since the last success, and so must be logged.
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    pub fn is_ongoing(&self) -> bool {
        self.is_reported
    }

    /// Records a success. Returns whether it ends a failure, and so must be logged.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.is_reported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_and_the_end_of_an_outage_are_logged() {
        let mut outage = Outage::default();
        assert!(!outage.end(), "nothing has failed");
        assert_eq!([outage.begin(), outage.begin(), outage.begin()], [true, false, false]);
        assert!(outage.is_ongoing());
        assert_eq!([outage.end(), outage.end()], [true, false]);
        assert!(!outage.is_ongoing());
        assert!(outage.begin());
    }
}
