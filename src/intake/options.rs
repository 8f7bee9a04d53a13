//! The options of accepting and processing submissions.

use std::time::Duration;

use crate::limits::Quota;
use crate::screening;
use crate::submission::encryption::Recipient;

/// How submissions are accepted and processed.
#[derive(Clone, Debug)]
pub struct IntakeOptions {
    /// How long the same content counts as a repeat.
    pub duplicate_window: Duration,
    /// The key to which submissions are encrypted once no channel has to deliver them. `None` leaves them in
    /// plain text.
    pub recipient: Option<Recipient>,
    /// Which submissions are held or marked as suspicious.
    pub screening: screening::ScreeningOptions,
    /// How many new submissions each form may receive. Beyond that, submissions from networks that have sent
    /// many are held until the flood ends. `None` disables this.
    pub form_quota: Option<Quota>,
    /// The time from the last submission beyond the quota to the end of the flood.
    pub flood_ends_after: Duration,
}

impl Default for IntakeOptions {
    fn default() -> IntakeOptions {
        IntakeOptions {
            duplicate_window: Duration::from_hours(24),
            recipient: None,
            screening: screening::ScreeningOptions::default(),
            form_quota: None,
            flood_ends_after: Duration::from_mins(1),
        }
    }
}
