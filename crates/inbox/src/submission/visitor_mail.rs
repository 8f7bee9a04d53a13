//! Mails to visitors: what they are for, and which addresses get them.
//!
//! A mail to a visitor is a delivery through a channel of its own, whose name begins with [`PREFIX`]. It
//! never counts as a delivery to the team.

use std::sync::Arc;
use std::time::Duration;

use frontdesk_forms::email::Mailbox;
use frontdesk_forms::mailbox_identity::{is_automated, mailbox_key};
use frontdesk_forms::named_enum;

/// The prefix of the names of channels to visitors. The names of the operator's channels have no colon.
pub const PREFIX: &str = "visitor:";

named_enum! {
    /// The purpose of a mail to a visitor. Its name is also the name of the channel that sends it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum VisitorMail {
        /// Thanks a visitor for a submission. Queued when the submission is processed.
        Acknowledgement = "visitor:acknowledgement",
        /// Asks a visitor to confirm the address.
        Confirmation = "visitor:confirmation",
        /// Asks a visitor once more to confirm the address.
        Reminder = "visitor:reminder",
    }
}

/// Whether a channel's deliveries go to visitors instead of the team.
pub fn is_visitor_channel(name: &str) -> bool {
    name.starts_with(PREFIX)
}

named_enum! {
    /// An hourly limit on the mails sent to visitors. The name of the limit is a label value in metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MailLimit {
        /// Limits the rate of mails of one kind to all visitors together.
        All = "all",
        /// Limits the rate of mails of all kinds that are sent because of submissions from one network.
        Network = "network",
        /// Limits the rate of mails of all kinds to the addresses of one domain.
        Domain = "domain",
    }
}

impl MailLimit {
    /// The key in `frontdesk.toml` that sets the limit, such as `forms.visitor_mails_per_hour`.
    pub const fn key(self) -> &'static str {
        match self {
            MailLimit::All => "forms.visitor_mails_per_hour",
            MailLimit::Network => "forms.visitor_mails_per_network_per_hour",
            MailLimit::Domain => "forms.visitor_mails_per_domain_per_hour",
        }
    }
}

/// A count for each [`MailLimit`], in the order of [`MailLimit::ALL`].
pub type LimitCounts = [usize; MailLimit::ALL.len()];

/// The maximum numbers of mails to visitors per hour, so that an attacker cannot flood third parties through
/// this server. `None` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HourlyLimits {
    /// Maximum number of mails of each kind per hour to all visitors together.
    pub all: u32,
    /// Maximum number of mails of all kinds per hour that are sent because of submissions from one network.
    pub network: Option<u32>,
    /// Maximum number of mails of all kinds per hour to the addresses of one domain. The domains of large
    /// mailbox providers have no limit.
    pub domain: Option<u32>,
}

/// The conditions for sending a mail to a visitor: its kind, the addresses and the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitorRule {
    pub mail: VisitorMail,
    /// Addresses of the operator, as [`mailbox_key`]s, which get no acknowledgement: a program that reads
    /// such an address could answer each mail through the form.
    pub own_addresses: Arc<[String]>,
    pub limits: HourlyLimits,
    /// The forms whose visitors must confirm their addresses, each with its rule. Empty for all mails except
    /// [`VisitorMail::Confirmation`].
    pub confirmations: Vec<(String, ConfirmationRule)>,
}

/// How long visitors may take to confirm an address, and when they are reminded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmationRule {
    /// How long the link in a confirmation mail can be used.
    pub within: Duration,
    /// The time between the confirmation mail and the reminder; `None` for no reminder.
    pub remind_after: Option<Duration>,
}

impl VisitorRule {
    /// Whether a visitor's address may get the mail. Refuses invalid addresses; those of programs, mailing
    /// lists and roles such as `postmaster`, because a reply could start a loop; addresses of the operator,
    /// for an acknowledgement; and addresses that a mail server could relay elsewhere or deliver on its own
    /// machine: address literals, domains without a dot, and local parts with quotation marks, `%` or `!`.
    pub fn permits(&self, email: &str) -> bool {
        let Some(mailbox) = Mailbox::parse(email) else { return false };
        let (local, domain) = (mailbox.local().to_ascii_lowercase(), mailbox.domain());
        let is_plain = !local.contains(['"', '%', '!']) && !domain.starts_with('[') && domain.contains('.');
        let is_own = self.mail == VisitorMail::Acknowledgement
            && self.own_addresses.iter().any(|own| *own == mailbox_key(email));
        is_plain && !is_automated(&local) && !is_own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_the_operator_and_odd_addresses_get_no_mail() {
        check(
            true,
            &["ada@example.com", "Ada+tag@mail.example.com", "noreply.fan@example.com", "a.b@x.example"],
        );
        check(
            false,
            &[
                "not an address",
                "ada@[192.0.2.1]",
                "ada@[IPv6:::1]",
                "root@localhost",
                "ada@localhost",
                "\"ada\"@example.com",
                "\"a@b\"@example.com",
                "victim%example.org@example.com",
                "example.org!victim@example.com",
                "MAILER-DAEMON@example.com",
                "no-reply@example.com",
                "No_Reply+1@example.com",
                "do.not.reply@example.com",
                "postmaster@example.com",
                "list-request@example.com",
                "owner-list@example.com",
                "list-bounces@example.com",
                "desk@example.com",
                "Desk+loop@Example.com",
            ],
        );
    }

    #[test]
    fn channels_to_visitors_have_a_prefix() {
        assert!(VisitorMail::ALL.iter().all(|mail| is_visitor_channel(mail.name())));
        assert!(!is_visitor_channel("visitor"));
    }

    fn check(permitted: bool, addresses: &[&str]) {
        let rule = VisitorRule {
            mail: VisitorMail::Acknowledgement,
            own_addresses: ["desk@example.com".to_owned()].into(),
            limits: HourlyLimits { all: 1, network: None, domain: None },
            confirmations: Vec::new(),
        };
        for email in addresses {
            assert_eq!(rule.permits(email), permitted, "{email}");
        }
        let asks = VisitorRule { mail: VisitorMail::Confirmation, ..rule };
        assert!(asks.permits("desk@example.com"), "an operator can try the form");
    }
}
