//! The canary's options, and the time limits that follow from them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::server_checks::ServerCheck;
use crate::site_forms::SiteContent;
use frontdesk_fetch::{ExtraRoots, Url};
use frontdesk_forms::Form;

/// The options of the canary.
#[derive(Clone, Debug, Default)]
pub struct CanaryOptions {
    /// The time between two runs. `None` disables the canary.
    pub every: Option<Duration>,
    /// The URL that is requested with GET after each run without a failure. The path may be secret.
    pub ping_url: Option<Url>,
    /// A Maildir on this machine in which the canary's mails arrive.
    pub mailbox: Option<PathBuf>,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub extra_roots: Option<ExtraRoots>,
    /// The site's public address, without a path.
    pub base_url: String,
    /// The forms to which test submissions are sent.
    pub forms: Vec<&'static Form>,
    /// The address of the inbox's own domain, if it has one, such as `https://desk.example.com`.
    pub inbox_url: Option<String>,
    /// The pages and scripts of the site that is served.
    pub site: Arc<SiteContent>,
    /// Checks that the server supplies: of its disk, certificate files and inbox, and of the DNS records of
    /// sender domains.
    pub server_checks: Vec<ServerCheck>,
}

impl CanaryOptions {
    /// The host and port of the public address. Messages use them as the name of the site.
    pub fn site(&self) -> &str {
        self.base_url.split_once("://").map_or(&*self.base_url, |(_, rest)| rest)
    }
}

/// The time limits of the parts of a run. They are shorter if runs follow each other quickly. Together they
/// may exceed a short interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimits {
    /// The time limit for each phase of a request to a form, and for each check of this machine.
    pub request: Duration,
    /// The time limit for fetching all pages and scripts.
    pub pages: Duration,
    /// The time limit for processing an accepted test submission.
    pub processing: Duration,
    /// The time limit for the responses of all channels.
    pub channels: Duration,
    /// The time limit for the mail's arrival in the mailbox.
    pub mailbox: Duration,
}

impl TimeLimits {
    /// The time limits for runs at intervals of `every`, each between a minimum and a maximum.
    pub fn of_interval(every: Duration) -> TimeLimits {
        let seconds = Duration::from_secs;
        TimeLimits {
            request: every.clamp(seconds(5), seconds(20)),
            pages: every.clamp(seconds(10), seconds(90)),
            processing: every.clamp(seconds(8), seconds(60)),
            channels: every.clamp(seconds(8), seconds(125)),
            mailbox: (every / 2).clamp(seconds(5), seconds(300)),
        }
    }

    /// The time limit for a whole run.
    pub fn run(self) -> Duration {
        self.request * 9 + self.pages + self.processing + self.channels + self.mailbox
    }
}
