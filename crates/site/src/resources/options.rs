//! Options for the generated resources.

/// The options of the generated files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceOptions {
    /// The e-mail address for vulnerability reports. If empty, there is no `security.txt`.
    pub security_email: String,
    /// How many requests one source may send to the forms per minute and per hour. `None` if limits are
    /// disabled.
    pub quotas: Option<(u32, u32)>,
    /// Messages with the same content count as one submission if they arrive within this time of each other.
    pub duplicate_window: std::time::Duration,
}
