//! One way by which notices reach the operator's team, whatever its kind.

use super::maildir::{self, Maildir};
use super::notice::Notice;
use super::smtp::{self, Smtp};
use super::webhook::{self, Webhook};
use crate::submission::delivery::Route;
use crate::submission::outcome::Outcome;

/// What the operator says of a channel.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name in the inbox and in log lines; unique. The deliveries of a channel belong to its name.
    pub name: String,
    /// The forms whose submissions it takes; all of them if this is empty.
    pub forms: Vec<String>,
    /// How many deliveries may be under way in it at a time; at least one.
    pub concurrency: usize,
    /// Where it leads.
    pub kind: Kind,
}

impl Options {
    /// What stands for the place where it leads. While this stays the same, so does what is known of the other side.
    pub fn leads_to(&self) -> String {
        match &self.kind {
            Kind::Smtp(smtp) => format!("smtp:{}:{}", smtp.host, smtp.port),
            Kind::Webhook(webhook) => format!("{}{}", webhook.url.place(), webhook.url.target()),
            Kind::Maildir(maildir) => format!("maildir:{}", maildir.path.display()),
        }
    }

    /// Which submissions it takes.
    pub fn route(&self) -> Route {
        Route {
            name: self.name.clone(),
            forms: self.forms.clone(),
            has_daily_quota: matches!(self.kind, Kind::Smtp(_)),
        }
    }
}

/// Where a channel leads, with what is particular to that.
#[derive(Clone, Debug)]
pub enum Kind {
    /// To mailboxes, through a mail server.
    Smtp(smtp::Options),
    /// To an HTTP endpoint.
    Webhook(webhook::Options),
    /// Into a mailbox on this machine.
    Maildir(maildir::Options),
}

impl Kind {
    /// As the configuration calls it.
    pub const fn name(&self) -> &'static str {
        match self {
            Kind::Smtp(_) => "smtp",
            Kind::Webhook(_) => "webhook",
            Kind::Maildir(_) => "maildir",
        }
    }
}

/// A channel that is ready to send.
#[derive(Debug)]
pub enum Channel {
    /// See [`Kind::Smtp`].
    Smtp(Smtp),
    /// See [`Kind::Webhook`].
    Webhook(Webhook),
    /// See [`Kind::Maildir`].
    Maildir(Maildir),
}

impl Channel {
    /// Makes it ready. Nothing is sent and nobody is connected to yet; the options have been checked.
    pub fn open(kind: &Kind) -> Channel {
        match kind {
            Kind::Smtp(options) => Channel::Smtp(Smtp::new(options.clone())),
            Kind::Webhook(options) => Channel::Webhook(Webhook::new(options.clone())),
            Kind::Maildir(options) => Channel::Maildir(Maildir::new(options.clone())),
        }
    }

    /// Sends one notice and says what became of it. Each phase has a deadline, and all of it ends within [`crate::submission::outcome::LONGEST_ATTEMPT`].
    /// The same notice may be sent at the same time as others.
    pub async fn send(&self, notice: &Notice) -> Outcome {
        match self {
            Channel::Smtp(smtp) => smtp.send(notice).await,
            Channel::Webhook(webhook) => webhook.send(notice).await,
            Channel::Maildir(maildir) => maildir.send(notice).await,
        }
    }
}
