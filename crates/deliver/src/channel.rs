//! Channel options, and [`Channel`], which sends notifications over any transport.

use jiff::Timestamp;

use super::maildir::{Maildir, MaildirOptions};
use super::notification::Notification;
use super::smtp::{Smtp, SmtpOptions};
use super::visitor_mail::{VisitorMailOptions, VisitorMailer};
use super::webhook::{Webhook, WebhookOptions};
use frontdesk_inbox::submission::delivery::{Condition, DailyQuota, Route};
use frontdesk_inbox::submission::delivery_outcome::{Cause, Outcome};

#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// The channel's unique name, as in the log and in stored deliveries.
    pub name: String,
    /// The forms whose submissions the channel delivers. An empty list means all forms.
    pub forms: Vec<String>,
    /// The condition that a submission must meet for the channel to deliver it.
    pub when: Condition,
    /// Maximum number of attempts in progress, at least one.
    pub concurrency: usize,
    /// Whether the receiver has a daily quota. If so, first attempts to deliver submissions from
    /// high-volume networks are rate-limited.
    pub has_daily_quota: bool,
    pub kind: TransportOptions,
}

impl ChannelOptions {
    /// Identifies the receiver: a mail server's host and port (not the recipients), a webhook's host, port,
    /// path and query, or a folder. A channel that is switched off is switched on again when this value
    /// changes.
    pub fn destination(&self) -> String {
        let mail_server = |smtp: &SmtpOptions| format!("smtp:{}:{}", smtp.host, smtp.port);
        match &self.kind {
            TransportOptions::Smtp(smtp) => mail_server(smtp),
            TransportOptions::Visitor(visitor) => mail_server(&visitor.smtp),
            TransportOptions::Webhook(webhook) => {
                format!("{}{}", webhook.url.host_and_port(), webhook.url.target())
            }
            TransportOptions::Maildir(maildir) => format!("maildir:{}", maildir.path.display()),
        }
    }

    /// The channel's name, forms, condition, daily quota and rule for visitors, which the store uses to
    /// create deliveries.
    pub fn route(&self) -> Route {
        let (account, recipients) = match &self.kind {
            TransportOptions::Smtp(smtp) => (smtp.account(), smtp.addresses.to.len()),
            TransportOptions::Visitor(visitor) => (visitor.smtp.account(), 1),
            TransportOptions::Webhook(webhook) => (webhook.url.host_and_port(), 1),
            TransportOptions::Maildir(maildir) => (maildir.path.display().to_string(), 1),
        };
        let recipients = u32::try_from(recipients).unwrap_or(u32::MAX);
        let quota = self.has_daily_quota.then_some(DailyQuota { account, recipients });
        let visitor = match &self.kind {
            TransportOptions::Visitor(visitor) => Some(visitor.rule.clone()),
            _ => None,
        };
        Route { name: self.name.clone(), forms: self.forms.clone(), when: self.when.clone(), quota, visitor }
    }
}

#[derive(Clone, Debug)]
pub enum TransportOptions {
    Smtp(SmtpOptions),
    Webhook(WebhookOptions),
    Maildir(MaildirOptions),
    /// Mails to visitors, not to the team.
    Visitor(Box<VisitorMailOptions>),
}

impl TransportOptions {
    /// The value of the configuration key `kind`; `visitor` for mails to visitors, which are configured
    /// otherwise.
    pub const fn name(&self) -> &'static str {
        match self {
            TransportOptions::Smtp(_) => "smtp",
            TransportOptions::Webhook(_) => "webhook",
            TransportOptions::Maildir(_) => "maildir",
            TransportOptions::Visitor(_) => "visitor",
        }
    }
}

pub enum Channel {
    Smtp(Smtp),
    Webhook(Webhook),
    Maildir(Maildir),
    Visitor(Box<VisitorMailer>),
}

impl Channel {
    /// Creates the channel without connecting to the receiver.
    pub fn open(kind: &TransportOptions) -> Channel {
        match kind {
            TransportOptions::Smtp(options) => Channel::Smtp(Smtp::new(options.clone())),
            TransportOptions::Webhook(options) => Channel::Webhook(Webhook::new(options.clone())),
            TransportOptions::Maildir(options) => Channel::Maildir(Maildir(options.clone())),
            TransportOptions::Visitor(options) => Channel::Visitor(Box::new(VisitorMailer::new(options))),
        }
    }

    /// Sends one notification. Each transport enforces its own time limits, so the call returns within
    /// [`LONGEST_ATTEMPT`](frontdesk_inbox::submission::delivery_outcome::LONGEST_ATTEMPT). A Maildir write
    /// that has timed out continues in the background. Concurrent calls are allowed. A channel to visitors
    /// refuses every notification.
    pub async fn send(&self, notice: &Notification) -> Outcome {
        self.send_dated(notice).await.0
    }

    /// Like [`Channel::send`], but also returns the time that a webhook's receiver states in its response;
    /// `None` if it states none, and for other transports.
    pub(crate) async fn send_dated(&self, notice: &Notification) -> (Outcome, Option<Timestamp>) {
        let outcome = match self {
            Channel::Smtp(smtp) => smtp.send(notice).await,
            Channel::Webhook(webhook) => return webhook.send_dated(notice).await,
            Channel::Maildir(maildir) => maildir.send(notice).await,
            Channel::Visitor(_) => {
                Outcome::failed(Cause::Refused, "this channel sends mails to visitors only")
            }
        };
        (outcome, None)
    }
}
