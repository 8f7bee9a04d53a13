//! `[inbox]`: the private address of the inbox's web interface, and who may use it.

use super::inbox_domain;
use super::reader::{Reader, deliveries, requests, restart};
use super::server::resolve_socket_path;
use super::value_parsers::{self, ParseResult, Raw, parse_items, parse_list, parse_text};
use frontdesk_deliver::daily_user_reminder::ReminderOptions;
use frontdesk_deliver::smtp::SmtpOptions;
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_desk::{DeskOptions, HostName, Role, User};
use frontdesk_forms::email::Mailbox;
use frontdesk_http::Address;
use frontdesk_site::fault::closest;

/// Maximum number of users who may log in to the inbox.
const MAX_USERS: usize = 100;

/// The values of `[inbox]`.
pub(super) struct InboxValues {
    /// The address of the web interface, if it is enabled.
    pub(super) listen: Option<Address>,
    /// The options of the web interface, except those that other sections set.
    pub(super) options: DeskOptions,
    /// The channel whose mail server sends login links; `None` for the first SMTP channel.
    mail: Option<String>,
    /// The time of day at which users get the daily mail.
    digest_at: Option<jiff::civil::Time>,
}

/// Reads `[inbox]`. Refuses an address that other machines can reach, unless it has a domain for TLS, a proxy
/// authenticates users, or `allow_remote` is set. Refuses `user_header` on a TCP address without
/// `trusted_proxies`.
pub(super) fn read(r: &mut Reader<'_>) -> InboxValues {
    let mut listen = r.get(
        restart("inbox.listen").set_in_starter_file("\"127.0.0.1:8082\""),
        "off",
        "The private address of the inbox's web interface (docs/pages/inbox.md), a Unix socket such as \
         \"unix:/run/frontdesk/inbox.sock\", or \"off\". `frontdesk inbox open` prints a link that logs you in. \
         Never publish this address without `domain`.",
        value_parsers::optional_listen_address,
    );
    if let Some(address) = &mut listen {
        resolve_socket_path(address, r.site_folder());
    }
    let options = read_access(r);
    let options = DeskOptions { domain: inbox_domain::read(r), ..options };
    let digest_at = r.get(
        deliveries("inbox.digest").with_example("\"08:00\""),
        "off",
        "The time of day, in the time zone of this machine, at which each of the `users` gets a mail with due \
         follow-ups and the number of new submissions, if there are any; \"off\" for no mails.",
        value_parsers::optional_local_time,
    );
    let mail = r.get(
        requests("inbox.mail").with_example("\"mail\""),
        "",
        "The name of the channel with `kind = \"smtp\"` whose mail server and sender are used for mails with \
         login links; if empty, the first one.",
        value_parsers::optional(|raw| parse_text(raw, "the name of a channel", |text| Some(text.to_owned()))),
    );
    let may_be_remote = r.get(
        requests("inbox.allow_remote"),
        "false",
        "Whether `listen` may be an address that other machines can reach without TLS, as in a container. \
         Restrict the access by other means.",
        value_parsers::parse_bool,
    );
    let is_remote = matches!(&listen, Some(Address::Tcp(address)) if !address.ip().is_loopback());
    let has_proxy = options.user_header.is_some() && !options.trusted_proxies.is_empty();
    r.refuse_if(
        is_remote && !has_proxy && !may_be_remote && options.domain.is_none(),
        "inbox.listen",
        "is not a loopback address: set `domain` for TLS, `user_header` and `trusted_proxies` to a proxy that authenticates users, or `allow_remote = true`",
    );
    r.refuse_if(
        options.user_header.is_some()
            && options.trusted_proxies.is_empty()
            && matches!(listen, Some(Address::Tcp(_))),
        "inbox.user_header",
        "has no effect without `trusted_proxies`",
    );
    InboxValues { listen, options, mail, digest_at }
}

/// Reads `inbox.host`, `user_header`, `trusted_proxies` and `users`. The other options have their defaults.
fn read_access(r: &mut Reader<'_>) -> DeskOptions {
    DeskOptions {
        hosts: r.get(
            requests("inbox.host").with_example("[\"inbox.example.com\"]"),
            "[]",
            "Host names of the web interface behind a proxy or in a private network. Requests with another \
             `Host` than these, the address itself or localhost are refused.",
            parse_hosts,
        ),
        user_header: r.get(
            requests("inbox.user_header").with_example("\"x-auth-user\""),
            "",
            "The header with the name of the user that a proxy has authenticated. The server trusts it only from \
             `trusted_proxies` and on a Unix socket. The proxy must set it in each request, and replace a value \
             that the client sent.",
            value_parsers::optional(parse_header),
        ),
        trusted_proxies: r.get(
            requests("inbox.trusted_proxies").with_example("[\"127.0.0.1\"]"),
            "[]",
            "",
            value_parsers::parse_networks,
        ),
        users: r.get(
            requests("inbox.users").with_example("[\"ada@example.com = admin\", \"grace@example.com\"]"),
            "[]",
            "E-mail addresses of the users who may log in with a link in a mail, each with a role: \
             \"ADDRESS = read\" reads, \"ADDRESS = edit\" or just \"ADDRESS\" also changes submissions, \
             \"ADDRESS = admin\" also tests channels and ends the sessions of others.",
            parse_users,
        ),
        ..DeskOptions::default()
    }
}

impl InboxValues {
    /// The mail server and the sender of login links; `None` if there are no users. Records a fault if
    /// `inbox.mail` does not name an SMTP channel, or if there are users and no such channel.
    pub(super) fn login_mail(&self, r: &mut Reader<'_>, channels: &[ChannelOptions]) -> Option<SmtpOptions> {
        let smtp_of = |channel: &ChannelOptions| match &channel.kind {
            TransportOptions::Smtp(smtp) => Some(smtp.clone()),
            _ => None,
        };
        let is_wanted =
            |channel: &&ChannelOptions| self.mail.as_ref().is_none_or(|name| *name == channel.name);
        let smtp = channels.iter().filter(is_wanted).find_map(smtp_of);
        r.refuse_if(
            smtp.is_none() && self.mail.is_some(),
            "inbox.mail",
            "must be the name of a `[[channel]]` with `kind = \"smtp\"`",
        );
        r.refuse_if(
            smtp.is_none() && self.mail.is_none() && !self.options.users.is_empty(),
            "inbox.users",
            "needs a `[[channel]]` with `kind = \"smtp\"`, whose mail server sends the login links; without mail, \
             remove the users and log in with `frontdesk inbox open`",
        );
        smtp.filter(|_| !self.options.users.is_empty())
    }

    /// The daily mails to the users through the mail server of login links; `None` if they are off or
    /// `mail` is `None`. Records a fault if they are on and there are no users.
    pub(super) fn reminders(
        &self,
        r: &mut Reader<'_>,
        mail: Option<&SmtpOptions>,
        site: &str,
    ) -> Option<ReminderOptions> {
        let users: Vec<String> = self.options.users.iter().map(|user| user.address.clone()).collect();
        r.refuse_if(
            self.digest_at.is_some() && users.is_empty(),
            "inbox.digest",
            "needs `users`, who get the mails",
        );
        let (at, smtp) = (self.digest_at?, mail?.clone());
        Some(ReminderOptions { at, users, smtp, site: site.to_owned() })
    }
}

/// Records an error if the address of the web interface is also one of the `others`: the same port of the
/// same IP address, or of all, or the same Unix socket. Port 0 never is.
pub(super) fn refuse_shared_address<'a>(
    r: &mut Reader<'_>,
    listen: Option<&Address>,
    others: impl IntoIterator<Item = &'a Address>,
) {
    let is_fixed = |address: &&Address| !matches!(address, Address::Tcp(tcp) if tcp.port() == 0);
    let overlaps = |other: &Address, own: &Address| match (own, other) {
        (Address::Tcp(own), Address::Tcp(other)) => {
            let is_same = own.ip() == other.ip() || own.ip().is_unspecified() || other.ip().is_unspecified();
            own.port() == other.port() && is_same
        }
        (own, other) => own == other,
    };
    let own = listen.filter(is_fixed);
    let is_shared = own.is_some_and(|own| others.into_iter().any(|other| overlaps(other, own)));
    r.refuse_if(
        is_shared,
        "inbox.listen",
        "is also another listener's address: the inbox needs one of its own",
    );
}

fn parse_hosts(raw: &Raw) -> ParseResult<Vec<HostName>> {
    parse_items(raw, "a list of host names such as [\"inbox.example.com\"]", |item| item.parse().ok())
}

/// Parses at most [`MAX_USERS`] entries `ADDRESS` or `ADDRESS = ROLE`. Converts addresses to lower case, and
/// refuses repeated ones.
fn parse_users(raw: &Raw) -> ParseResult<Vec<User>> {
    let expected = "a list of users such as [\"ada@example.com = admin\", \"grace@example.com = read\"]";
    let users = parse_list(raw, expected, MAX_USERS, parse_user)?;
    let repeated = users
        .iter()
        .enumerate()
        .find(|(at, user)| users[..*at].iter().any(|other| other.address == user.address));
    match repeated {
        Some((_, user)) => Err(format!("{expected}; `{}` occurs twice: keep one entry", user.address)),
        None => Ok(users),
    }
}

/// Parses `ADDRESS = ROLE`, or `ADDRESS` with the role `edit`. Converts the address to lower case; the role
/// must already be in lower case.
fn parse_user(text: &str) -> Result<User, String> {
    // An address may contain `=`, but only before its `@`.
    let (address, role) = match text.rsplit_once('=').filter(|(_, role)| !role.contains('@')) {
        Some((address, role)) => (address.trim(), Some(role.trim())),
        None => (text.trim(), None),
    };
    if Mailbox::parse(address).is_none() {
        return Err("it must begin with an e-mail address such as \"ada@example.com\"".to_owned());
    }
    let role = role.map_or(Ok(Role::Edit), |name| {
        let names = Role::ALL.map(Role::name);
        Role::from_name(name).ok_or_else(|| match closest(&name.to_ascii_lowercase(), names) {
            Some(known) => format!("the role must be `read`, `edit` or `admin`: did you mean `{known}`?"),
            None => "the role must be `read`, `edit` or `admin`".to_owned(),
        })
    })?;
    Ok(User { address: address.to_ascii_lowercase(), role })
}

/// Parses the name of a header. Refuses `RESERVED` names and those that begin with `sec-`, whose meaning
/// browsers or HTTP define.
fn parse_header(raw: &Raw) -> ParseResult<http::HeaderName> {
    /// Headers that cannot name a user, because browsers set them or HTTP defines their meaning.
    const RESERVED: [&str; 6] =
        ["host", "origin", "cookie", "authorization", "content-type", "content-length"];
    parse_text(raw, "the name of a header such as \"x-auth-user\"", |text| {
        let name: http::HeaderName = text.parse().ok()?;
        (!RESERVED.contains(&name.as_str()) && !name.as_str().starts_with("sec-")).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    const CHANNEL: &str = "[[channel]]\nname = \"team\"\nkind = \"smtp\"\nhost = \"127.0.0.1\"\ntls = \"none\"\n\
                           from = \"desk@example.com\"\nto = [\"team@example.com\"]\n";

    fn users(entries: &[&str]) -> ParseResult<Vec<User>> {
        parse_users(&Raw::List(entries.iter().map(|entry| Raw::Text((*entry).to_owned())).collect()))
    }

    #[test]
    fn users_have_an_address_and_a_role() {
        let user = |address: &str, role| User { address: address.to_owned(), role };
        let expected = [
            user("ada@example.com", Role::Edit),
            user("grace@example.com", Role::Read),
            user("joan@example.com", Role::Admin),
            user("a=b@example.com", Role::Edit),
            user("a=c@example.com", Role::Read),
        ];
        let entries = [
            "ada@example.com",
            "Grace@Example.com = read",
            "joan@example.com=admin",
            "a=b@example.com",
            "a=c@example.com = read",
        ];
        assert_eq!(users(&entries).unwrap(), expected);
        // As in an environment variable.
        assert_eq!(parse_users(&Raw::Text(entries.join(", "))).unwrap(), expected);
        assert_eq!(users(&[]).unwrap(), []);
    }

    #[test]
    fn an_error_names_the_wrong_entry_and_what_is_right() {
        for (entries, message) in [
            (&["ada"][..], "`ada` is not valid: it must begin with an e-mail address"),
            (&["a@example.com", "= read"], "`= read` is not valid: it must begin with an e-mail address"),
            (
                &["a@example.com = Edit"],
                "`a@example.com = Edit` is not valid: the role must be `read`, `edit` or `admin`: did you mean `edit`?",
            ),
            (&["a@example.com = adnin"], "did you mean `admin`?"),
            (&["a@example.com = owner"], "the role must be `read`, `edit` or `admin`"),
            (&["a@example.com = "], "the role must be"),
            (&["a@example.com", "A@example.com = read"], "`a@example.com` occurs twice: keep one entry"),
        ] {
            let error = users(entries).unwrap_err();
            assert!(error.contains(message), "{entries:?}: {error}");
        }
        let many: Vec<String> = (0..=MAX_USERS).map(|n| format!("u{n}@example.com")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(users(&many).unwrap_err().ends_with("at most 100"));
    }

    #[test]
    fn login_links_are_sent_by_a_channel() {
        let read = |text: &str| {
            let (config, faults) = Config::parse(text, Path::new(""), [], &[]);
            let faults: Vec<String> = faults
                .iter()
                .filter(|fault| fault.message.contains("inbox."))
                .map(ToString::to_string)
                .collect();
            (config.web.inbox_pages.login_mail.map(|smtp| smtp.port), faults)
        };
        let inbox = |keys: &str| format!("[inbox]\nlisten = \"127.0.0.1:8082\"\n{keys}\n");
        let users = "users = [\"ada@example.com\"]";
        let other = CHANNEL.replace("team\"\nkind", "other\"\nkind");
        let channels = format!("{}port = 25\n{}port = 2525\n", CHANNEL, other.replace("desk@", "other@"));
        let both = format!("{users}\nmail = \"other\"");
        assert_eq!(read(&format!("{}{channels}", inbox(users))), (Some(25), vec![]));
        assert_eq!(read(&format!("{}{channels}", inbox(&both))), (Some(2525), vec![]));
        assert_eq!(read(&format!("{}{channels}", inbox(""))), (None, vec![]));
        let digest = format!("{}{channels}", inbox(&format!("{both}\ndigest = \"08:00\"")));
        let reminders = Config::parse(&digest, Path::new(""), [], &[]).0.maintenance.reminders;
        let reminders = reminders.map(|it| (it.at.to_string(), it.users, it.smtp.port));
        assert_eq!(reminders, Some(("08:00:00".to_owned(), vec!["ada@example.com".to_owned()], 2525)));
        for (text, expected) in [
            (inbox(users), "frontdesk.toml:3: `inbox.users` needs a `[[channel]]` with `kind = \"smtp\"`"),
            (
                format!("{}{CHANNEL}", inbox("digest = \"08:00\"")),
                "frontdesk.toml:3: `inbox.digest` needs `users`, who get the mails",
            ),
            (
                format!("{}{CHANNEL}", inbox(&both)),
                "frontdesk.toml:4: `inbox.mail` must be the name of a `[[channel]]`",
            ),
        ] {
            let (mail, faults) = read(&text);
            assert_eq!((mail, faults.len()), (None, 1), "{faults:?}");
            assert!(faults[0].starts_with(expected), "{faults:?}");
        }
    }
}
