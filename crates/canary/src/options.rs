//! The canary's options, and the time limits that follow from them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::page::FormPage;
use crate::report::StepResult;
use frontdesk_fetch::{ExtraRoots, Url};
use frontdesk_forms::Form;

/// The options of the canary.
#[derive(Clone, Debug, Default)]
pub struct CanaryOptions {
    /// The time between two runs. `None` disables the canary.
    pub every: Option<Duration>,
    /// Requested with GET after each success. The path may be secret.
    pub ping_url: Option<Url>,
    /// A Maildir on this machine in which the canary's mails arrive.
    pub mailbox: Option<PathBuf>,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub extra_roots: Option<ExtraRoots>,
    /// The site's public address, without a path.
    pub base_url: String,
    /// The forms to which test submissions are sent.
    pub forms: Vec<&'static Form>,
    /// Pages that show a form: the first ones.
    pub pages: Vec<FormPage>,
    /// What this machine can check without a request.
    pub local: LocalChecks,
}

/// Checks of this machine, such as the free space of its disk. They may take some seconds.
#[derive(Clone, Default)]
pub struct LocalChecks(pub Option<Arc<dyn Fn() -> Vec<StepResult> + Send + Sync>>);

impl fmt::Debug for LocalChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "LocalChecks" } else { "none" })
    }
}

impl CanaryOptions {
    /// The host and port of the public address, as messages name the site.
    pub fn site(&self) -> &str {
        self.base_url.split_once("://").map_or(&*self.base_url, |(_, rest)| rest)
    }
}

/// The time limits of the parts of a run. They are shorter if runs follow each other quickly, so that a run
/// has ended before the next one is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimits {
    /// For each phase of a request to a form.
    pub request: Duration,
    /// Until an accepted test submission is processed.
    pub processing: Duration,
    /// Until all channels have responded.
    pub channels: Duration,
    /// Until the mail has arrived in the mailbox.
    pub mailbox: Duration,
}

impl TimeLimits {
    pub fn of_interval(every: Duration) -> TimeLimits {
        let seconds = Duration::from_secs;
        TimeLimits {
            request: every.clamp(seconds(5), seconds(20)),
            processing: every.clamp(seconds(8), seconds(60)),
            channels: every.clamp(seconds(8), seconds(125)),
            mailbox: (every / 2).clamp(seconds(5), seconds(300)),
        }
    }

    /// The limit of a whole run.
    pub fn run(self) -> Duration {
        self.request * 15 + self.processing + self.channels + self.mailbox
    }
}
