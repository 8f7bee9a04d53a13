//! The options of the generated resources.

/// The options of resources besides those of the site.
#[derive(Debug, Clone, Default)]
pub struct ResourceOptions {
    /// The address for vulnerability reports. If it is empty, there is no `security.txt`.
    pub security_email: String,
    pub signals: ContentSignals,
    /// Requests that one source may send to the forms in a minute and in an hour; `None` if limits are off.
    pub quotas: Option<(u32, u32)>,
    /// Messages with the same content within this time count as one submission.
    pub duplicate_window: std::time::Duration,
}

/// The operator's preferences in `robots.txt` (contentsignals.org). `None` expresses no preference.
#[derive(Debug, Clone, Copy, Default)]
pub struct ContentSignals {
    pub search: Option<bool>,
    /// Using pages as input for an answer.
    pub ai_input: Option<bool>,
    pub ai_train: Option<bool>,
}
