//! `[[channel]]`: the destinations of submissions.

use secrecy::SecretString;
use toml::de::DeValue;

use super::channel_conditions::{self, ChannelForms};
use super::named_file;
use super::reader::{ConfigKey, Reader, deliveries};
use super::value_parsers::{self, ParseResult, Raw};
use frontdesk_deliver::mail::MailAddresses;
use frontdesk_deliver::maildir::MaildirOptions;
use frontdesk_deliver::smtp::{SmtpDeadlines, SmtpLogin, SmtpOptions, SmtpTls, is_this_machine};
use frontdesk_deliver::webhook::{self, ChatService, SigningKey, WebhookBody, WebhookOptions};
use frontdesk_deliver::{ChannelOptions, TransportOptions};
use frontdesk_fetch::url::Host;
use frontdesk_fetch::{ExtraRoots, Url, address_check};
use frontdesk_forms::FormSet;
use frontdesk_forms::email::Mailbox;
use frontdesk_forms::text::visible;
use frontdesk_site::PagesOptions;
use frontdesk_site::fault::{closest, did_you_mean};

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChannelKind {
    Smtp,
    Webhook,
    Maildir,
}

/// Reads each `[[channel]]`. Records its faults, and leaves it out if a required key is missing or unusable.
/// Senders and recipients that are not set are those of `site`. `set` has the site's forms. Also warns about
/// submissions that no channel receives because of `when` ([`routing::warn_about_gaps`]).
pub(super) fn read(r: &mut Reader<'_>, site: &PagesOptions, set: &FormSet) -> Vec<ChannelOptions> {
    let names = r.tables("channel").into_iter();
    let read = |name: String| r.in_table(format!("channel.{name}."), |r| read_channel(r, name, site, set));
    let channels: Vec<ChannelOptions> = names.filter_map(read).collect();
    channel_conditions::warn_about_gaps(r, &channels, set);
    channels
}

/// Reads the options of the channel `name`. `None`, after recording errors, if a required key is missing or
/// unusable.
fn read_channel(
    r: &mut Reader<'_>,
    name: String,
    site: &PagesOptions,
    set: &FormSet,
) -> Option<ChannelOptions> {
    // Declares the key `name`. `Reader::tables` has already checked its value.
    let _: String = r.get(deliveries("name").show_in_starter_file(), "", "", value_parsers::parse_line);
    let kind = r.get(deliveries("kind").show_in_starter_file(), "", "", value_parsers::optional(parse_kind));
    r.refuse_if(kind.is_none(), "kind", "is missing: \"smtp\", \"webhook\" or \"maildir\"");
    let has_kind = kind.is_some();
    let (is_mail, is_maildir) = (kind == Some(ChannelKind::Smtp), kind == Some(ChannelKind::Maildir));
    let forms = r.get(deliveries("forms"), "[]", "only submissions to these forms; all if empty", |raw| {
        parse_forms(raw, set)
    });
    let taken = ChannelForms::named(&forms, set);
    let when = channel_conditions::read_condition(r, &taken);
    let kind = match kind {
        Some(ChannelKind::Smtp) => read_smtp(r, site, &taken).map(TransportOptions::Smtp),
        Some(ChannelKind::Webhook) => read_webhook(r).map(TransportOptions::Webhook),
        Some(ChannelKind::Maildir) => read_maildir(r, site, &taken).map(TransportOptions::Maildir),
        None => None,
    };
    let concurrency = r.get(
        deliveries("concurrency"),
        "4",
        "the maximum number of deliveries at a time",
        value_parsers::count(1..=64),
    );
    let has_daily_quota = !is_maildir
        && r.get(
            deliveries("daily_quota"),
            if is_mail { "true" } else { "false" },
            "whether the receiver limits messages per day (docs/pages/deliveries.md)",
            value_parsers::parse_bool,
        );
    if !has_kind {
        // Do not report other keys as unknown: which keys a channel has depends on its kind.
        r.skip_table();
    }
    Some(ChannelOptions { name, forms, when, concurrency, has_daily_quota, kind: kind? })
}

const KINDS: [(&str, ChannelKind); 3] =
    [("smtp", ChannelKind::Smtp), ("webhook", ChannelKind::Webhook), ("maildir", ChannelKind::Maildir)];

/// Names of services and protocols that operators write as the kind, in lower case and without spaces and
/// signs; the name for the message; and the keys to write instead.
const KNOWN_SERVICES: [(&[&str], &str, &str); 9] = [
    (&["slack"], "Slack", "`kind = \"webhook\"` and `body = \"slack\"`"),
    (&["mattermost"], "Mattermost", "`kind = \"webhook\"` and `body = \"mattermost\"`"),
    (&["discord"], "Discord", "`kind = \"webhook\"` and `body = \"discord\"`"),
    (&["teams", "msteams", "microsoftteams"], "Teams", "`kind = \"webhook\"` and `body = \"teams\"`"),
    (&["telegram"], "Telegram", "`kind = \"webhook\"` and `body = \"telegram\"`, with `token` and `chat`"),
    (&["ntfy"], "ntfy", "`kind = \"webhook\"` and `body = \"ntfy\"`, with the topic's URL as `url`"),
    (
        &["googlechat", "gchat"],
        "Google Chat",
        "`kind = \"webhook\"` and `body = '{ \"text\": {{ text | shorten(8000) | inert }} }'`",
    ),
    (&["email", "mail"], "e-mail", "`kind = \"smtp\"` and `host`, the name of your mail server"),
    (
        &["http", "https", "url", "zapier", "make", "n8n", "hubspot", "crm"],
        "HTTP",
        "`kind = \"webhook\"` and `url`",
    ),
];

/// Parses the kind of a channel. The error of a known service or protocol names the keys to write, and that
/// of a typing error the kind that is meant.
fn parse_kind(raw: &Raw) -> ParseResult<ChannelKind> {
    let expected = match value_parsers::one_of(&KINDS)(raw) {
        Ok(kind) => return Ok(kind),
        Err(expected) => expected,
    };
    let text = raw.as_text().unwrap_or_default().to_lowercase();
    let word: String = text.chars().filter(|c| c.is_alphanumeric()).collect();
    if let Some((_, service, keys)) = KNOWN_SERVICES.iter().find(|(names, ..)| names.contains(&&*word)) {
        return Err(format!("{expected}; for {service}, write {keys}"));
    }
    Err(match closest(&word, KINDS.map(|(name, _)| name)) {
        Some(kind) => format!("{expected}: did you mean \"{kind}\"?"),
        None => expected,
    })
}

/// Reads the keys of a mail server. `None`, after recording an error, if the host or the addresses are
/// missing or invalid. Refuses an unencrypted connection to another machine, and a user name without a
/// password or the reverse. Warns about a port that contradicts `tls`.
fn read_smtp(r: &mut Reader<'_>, site: &PagesOptions, forms: &ChannelForms) -> Option<SmtpOptions> {
    let host = r.get(
        deliveries("host").with_example("\"smtp.example.com\"").show_in_starter_file(),
        "",
        "",
        parse_host,
    );
    let tls = r.get(
        deliveries("tls"),
        "starttls",
        "or \"implicit\"; \"none\" only on this machine",
        parse_smtp_tls,
    );
    let port = r.get(
        deliveries("port"),
        "0",
        "0 is the usual port for `tls`: 587, 465 or 25",
        value_parsers::count(0..=65_535),
    );
    let port = match (port, tls) {
        (0, SmtpTls::Implicit) => 465,
        (0, SmtpTls::StartTls) => 587,
        (0, SmtpTls::None) => 25,
        (port, _) => port,
    };
    warn_about_port(r, tls, port);
    let username = r.get(
        deliveries("username").with_example("\"desk@example.com\"").show_in_starter_file(),
        "",
        "",
        value_parsers::parse_line,
    );
    let password = deliveries("password").with_example("\"secret\"").secret().show_in_starter_file();
    let password =
        r.get(password, "", "better set in the environment", value_parsers::optional(parse_password));
    let helo = r.get(
        deliveries("helo").with_example("\"web.example.com\""),
        "",
        "the name of this machine in EHLO; the domain of `from` if empty",
        value_parsers::optional(parse_hello_name),
    );
    let addresses = read_mail_addresses(r, &site.operator.email, &site.title, forms);
    let extra_roots =
        read_pem(r, deliveries("ca_file"), "your own certificate authority (PEM)").map(|(_, roots)| roots);
    r.refuse_if(host.is_empty(), "host", "is missing: the mail server's name");
    r.refuse_if(
        tls == SmtpTls::None && !host.is_empty() && !is_this_machine(&host),
        "tls",
        "may be \"none\" only if `host` is this machine (\"localhost\", \"127.0.0.1\", \"::1\")",
    );
    r.refuse_if(
        username.is_empty() && password.is_some(),
        "password",
        "is set, but `username` is not: set both or neither",
    );
    r.refuse_if(
        !username.is_empty() && password.is_none(),
        "password",
        "is missing, although `username` is set: set both or neither",
    );
    let login = password
        .filter(|_| !username.is_empty())
        .map(|password| SmtpLogin { username, password: SecretString::from(password) });
    let deadlines = SmtpDeadlines::default();
    let addresses = addresses.filter(|_| !host.is_empty())?;
    Some(SmtpOptions { host, port, tls, login, helo, addresses, extra_roots, deadlines })
}

/// Warns about port 465 with STARTTLS, and about ports 25 and 587 with implicit TLS.
fn warn_about_port(r: &mut Reader<'_>, tls: SmtpTls, port: u16) {
    r.warn_if(
        tls == SmtpTls::StartTls && port == 465,
        "port",
        "port 465 of a mail server begins with TLS",
        "set `tls = \"implicit\"`, or remove `port` to use 587",
    );
    r.warn_if(
        tls == SmtpTls::Implicit && matches!(port, 25 | 587),
        "port",
        "ports 25 and 587 of a mail server begin without TLS",
        "remove `tls = \"implicit\"`, or remove `port` to use 465",
    );
}

/// Parses the password of a login. Refuses numbers, and control characters, which passwords do not have (RFC
/// 4013 §2.3): a file with the password may have several lines, or be in UTF-16.
fn parse_password(raw: &Raw) -> ParseResult<String> {
    let password = raw.as_text().filter(|text| !text.contains(char::is_control));
    Ok(password.ok_or("a password in quotes, on one line, without control characters")?.to_owned())
}

/// Reads the keys of a webhook. `None`, after recording an error, if the URL or what the body's format needs
/// is missing or invalid. Keys of other formats and a forbidden IP address in the URL are errors, too, but
/// do not change the result. Warns as [`warn_about_webhook`] does.
fn read_webhook(r: &mut Reader<'_>) -> Option<WebhookOptions> {
    // A chat service accepts messages from anyone who knows the URL, so the URL is a secret.
    let url_key = deliveries("url").with_example("\"https://hooks.example.com/frontdesk\"").secret();
    let url = r.get(url_key, "", "docs/pages/webhooks.md", value_parsers::optional(parse_webhook_url));
    let secrets = r.get(
        deliveries("secret").with_example("\"whsec_…\"").secret(),
        "[]",
        "signs messages (Standard Webhooks); a list of two during a key rotation; unsigned if empty",
        parse_signing_keys,
    );
    let format = r.get(
        deliveries("body"),
        "standard",
        "or \"slack\", \"mattermost\", \"discord\", \"teams\", \"telegram\", \"ntfy\", or a template",
        parse_body_format,
    );
    let token = r.get(
        deliveries("token").with_example("\"\"").secret(),
        "",
        "for \"telegram\": the bot's token; for \"ntfy\": an access token, if the topic needs one",
        value_parsers::optional(parse_token),
    );
    let chat = r.get(
        deliveries("chat").with_example("\"\"").secret(),
        "",
        "for \"telegram\": the id of the chat, or the @name of a channel",
        value_parsers::optional(parse_telegram_chat),
    );
    let allow_private = r.get(
        deliveries("allow_private"),
        "false",
        "whether the receiver may be in a private network",
        value_parsers::parse_bool,
    );
    let extra_roots =
        read_pem(r, deliveries("ca_file"), "your own certificate authority (PEM)").map(|(_, roots)| roots);
    let has_token = matches!(format, BodyFormat::Telegram | BodyFormat::Ntfy);
    r.refuse_if(token.is_some() && !has_token, "token", "is only for `body` \"telegram\" or \"ntfy\"");
    let is_telegram = matches!(format, BodyFormat::Telegram);
    r.refuse_if(chat.is_some() && !is_telegram, "chat", "is only for `body` \"telegram\"");
    let (url, body) = match format {
        BodyFormat::Body(body) => {
            r.refuse_if(url.is_none(), "url", "is missing: the URL that submissions are posted to");
            (url, Some(body))
        }
        BodyFormat::Telegram => telegram_target(r, url, token.as_deref(), chat),
        BodyFormat::Ntfy => ntfy_target(r, url),
    };
    if let Some(url) = &url {
        refuse_unreachable(r, "url", url, allow_private);
    }
    if let (Some(url), Some(body)) = (&url, &body) {
        warn_about_webhook(r, url, body, secrets.is_empty());
    }
    let deadlines = webhook::DEADLINES;
    let (url, body, token) = (url?, body?, token.map(SecretString::from));
    Some(WebhookOptions { url, secrets, body, token, allow_private, extra_roots, deadlines })
}

/// Warns about the standard body for a chat service, which cannot read it; about the body for Teams at
/// `webhook.office.com`, which Microsoft is retiring; or else about the standard body without a signature.
fn warn_about_webhook(r: &mut Reader<'_>, url: &Url, body: &WebhookBody, is_unsigned: bool) {
    let host = url.host().to_string();
    let is_teams = matches!(body, WebhookBody::Service(ChatService::Teams));
    r.warn_if(
        is_teams && host.ends_with(".webhook.office.com"),
        "url",
        "Microsoft is retiring webhooks at webhook.office.com",
        "create a workflow \"Post to a channel when a webhook request is received\" in Teams, and use its URL",
    );
    if !matches!(body, WebhookBody::Standard) {
        return;
    }
    let is_at = |of: &str| host.strip_suffix(of).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if let Some((_, format)) = SERVICE_HOSTS.iter().find(|(of, _)| is_at(of)) {
        let message = format!("{host} cannot read the JSON of frontdesk");
        let is_workflow = ["/triggers/", "/workflows/"].iter().any(|path| url.target().starts_with(path));
        let hint = if host == "hooks.slack.com" && is_workflow {
            "set `body = '{ \"text\": {{ text }} }'`, with the name of your workflow's variable as \"text\""
                .to_owned()
        } else {
            format!("set `body = {format}`")
        };
        r.warn_if(true, "url", &message, &hint);
        return;
    }
    r.warn_if(
        is_unsigned,
        "secret",
        "a webhook without a `secret` is not signed",
        "the receiver cannot verify the sender: set `secret` to `whsec_` and 24 to 64 random bytes in Base64",
    );
}

/// Hosts of chat services, and the values of `body` that their webhooks need, as in TOML.
const SERVICE_HOSTS: [(&str, &str); 6] = [
    ("hooks.slack.com", "\"slack\""),
    ("discord.com", "\"discord\""),
    ("discordapp.com", "\"discord\""),
    ("webhook.office.com", "\"teams\""),
    ("ntfy.sh", "\"ntfy\""),
    ("chat.googleapis.com", "'{ \"text\": {{ text | shorten(8000) | inert }} }'"),
];

/// The value of the key `body`. The formats for Telegram and ntfy need further keys.
enum BodyFormat {
    Body(WebhookBody),
    Telegram,
    Ntfy,
}

/// Parses the name of a format, or a template. White space at both ends of a name does not matter.
fn parse_body_format(raw: &Raw) -> ParseResult<BodyFormat> {
    let expected = "\"standard\", the name of a service, or a template";
    match raw.as_text().ok_or(expected)?.trim() {
        "telegram" => Ok(BodyFormat::Telegram),
        "ntfy" => Ok(BodyFormat::Ntfy),
        text => WebhookBody::parse(text).map(BodyFormat::Body).map_err(|why| format!("a body format: {why}")),
    }
}

/// The URL of `sendMessage` at the Bot API (Telegram's own, or the server at `url`), and the body for `chat`.
/// Records an error and returns `None` for a part that is missing, or for both if the token is missing or
/// invalid.
fn telegram_target(
    r: &mut Reader<'_>,
    url: Option<Url>,
    token: Option<&str>,
    chat: Option<String>,
) -> (Option<Url>, Option<WebhookBody>) {
    let is_token = |token: &str| {
        let (id, key) = token.split_once(':').unwrap_or_default();
        !id.is_empty() && key.len() >= 20 && id.bytes().all(|byte| byte.is_ascii_digit())
    };
    r.refuse_if(token.is_none(), "token", "is missing: the token that @BotFather gave your bot");
    let is_wrong = token.is_some_and(|token| !is_token(token));
    r.refuse_if(is_wrong, "token", "must be a bot's token such as \"123456789:AAE…\", from @BotFather");
    r.refuse_if(chat.is_none(), "chat", "is missing: the id of the chat that the bot writes to");
    let url = url.or_else(|| Url::parse(TELEGRAM).ok());
    let Some(token) = token.filter(|_| !is_wrong) else { return (None, None) };
    let url = url.map(|url| {
        let prefix = url.target().trim_end_matches('/').to_owned();
        url.with_target(&format!("{prefix}/bot{token}/sendMessage"))
    });
    (url, chat.map(|chat| WebhookBody::Service(ChatService::Telegram { chat })))
}

const TELEGRAM: &str = "https://api.telegram.org/";

/// Splits the URL of a topic into the server's root, to which JSON is published, and the body with the topic.
/// Records an error and returns no body if the URL is missing or its path does not end with a valid topic: up
/// to 64 ASCII letters, digits, `-` and `_`.
fn ntfy_target(r: &mut Reader<'_>, url: Option<Url>) -> (Option<Url>, Option<WebhookBody>) {
    let expected = "must be the URL of your topic, such as \"https://ntfy.sh/a-topic-that-is-hard-to-guess\"";
    r.refuse_if(url.is_none(), "url", expected);
    let Some(url) = url else { return (None, None) };
    let (root, topic) = url.target().rsplit_once('/').unwrap_or_default();
    let is_topic = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_wrong = !(1..=64).contains(&topic.len()) || !topic.bytes().all(is_topic);
    r.refuse_if(is_wrong, "url", expected);
    let body = ChatService::Ntfy { topic: topic.to_owned() };
    (Some(url.with_target(&format!("{root}/"))), (!is_wrong).then_some(WebhookBody::Service(body)))
}

/// Reads the keys of a Maildir. `None`, after recording an error, if the path is missing or an address is
/// invalid.
fn read_maildir(r: &mut Reader<'_>, site: &PagesOptions, forms: &ChannelForms) -> Option<MaildirOptions> {
    let path = r.file(
        deliveries("path").with_example("\"/var/mail/frontdesk\""),
        "relative to this folder, unless absolute",
    );
    // Mail in a Maildir stays on this machine, so its sender needs no public address.
    let email = if site.operator.email.is_empty() { "frontdesk@localhost" } else { &site.operator.email };
    let addresses = read_mail_addresses(r, email, &site.title, forms);
    r.refuse_if(path.is_none(), "path", "is missing: the folder of the Maildir");
    Some(MaildirOptions { path: path?, addresses: addresses? })
}

/// Reads the sender's address and name, which default to `operator` and `title`, and the recipients, which
/// default to the sender. `None`, after recording an error, if there is no sender or an address cannot be
/// used. If the recipients depend on a field that does not exist or cannot be checked, each mail goes to all
/// of them.
fn read_mail_addresses(
    r: &mut Reader<'_>,
    operator: &str,
    title: &str,
    forms: &ChannelForms,
) -> Option<MailAddresses> {
    let from = r.get(
        deliveries("from").with_example("\"desk@example.com\""),
        "",
        "`operator.email` if empty; Reply-To has the visitor's address",
        value_parsers::email,
    );
    let from = if from.is_empty() { operator.to_owned() } else { from };
    let from_name =
        r.get(deliveries("from_name"), "", "the site's title if empty", value_parsers::parse_line);
    let from_name = if from_name.is_empty() { title.to_owned() } else { from_name };
    let to = r.get_table(
        deliveries("to").with_example("[\"team@example.com\"]").show_in_starter_file(),
        "[]",
        "`from` if empty; or by value (docs/pages/deliveries.md)",
        parse_recipients,
    );
    let (to, by_value) = match to {
        Recipients::All(to) => (to, None),
        Recipients::ByValue(field, cases) => {
            let all = cases.iter().flat_map(|(_, to)| to.clone()).collect();
            (all, channel_conditions::read_recipients(r, forms, field, cases))
        }
    };
    let missing = "is missing, and so is `operator.email`: the address that mail is sent from";
    r.refuse_if(from.is_empty(), "from", missing);
    let to = if to.is_empty() { vec![from.clone()] } else { to };
    let addresses = MailAddresses::new(&from, &from_name, &to);
    let addresses = addresses.map_err(|fault| r.refuse_if(!from.is_empty(), "from", &fault)).ok()?;
    Some(match by_value {
        Some(by_value) => addresses.with_recipients_by_value(by_value),
        None => addresses,
    })
}

/// Reads the certificates of a private authority from the PEM file that `key` names. Also returns the file's
/// bytes, because the Redis client parses them itself. `None` if the key is not set or, after recording an
/// error, if the file is unusable.
pub(super) fn read_pem(
    r: &mut Reader<'_>,
    key: ConfigKey,
    documentation: &'static str,
) -> Option<(Vec<u8>, ExtraRoots)> {
    let name = key.name.clone();
    let path = r.file(key, documentation)?;
    let pem = named_file::read_bytes(path.as_ref())
        .map_err(|error| format!("cannot be read: {}: {error}", path.display()));
    let roots = pem.and_then(|pem| ExtraRoots::parse(&pem).map(|roots| (pem, roots)));
    roots.map_err(|fault| r.refuse_if(true, &name, &fault)).ok()
}

/// Records an error if the host of a URL is an IP address that requests must not connect to. Does not resolve
/// names.
pub(super) fn refuse_unreachable(r: &mut Reader<'_>, key: &str, url: &Url, allow_private: bool) {
    if let Host::Address(address) = url.host()
        && let Err(why) = address_check::check_addresses(url.host(), &[*address], allow_private)
    {
        r.refuse_if(true, key, &format!("points to a forbidden address: {why}"));
    }
}

/// Parses the hosts, or URLs without a path, where agents publish their keys. A host gets `https://`.
pub(super) fn parse_directories(raw: &Raw) -> ParseResult<Vec<Url>> {
    let expected = "a list of hosts such as [\"agent.example.com\"], or of URLs without a path";
    let read = |text: &str| {
        let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let url = Url::parse(&url).map_err(|why| format!("{expected}: {why}"))?;
        if url.target() == "/" { Ok(url) } else { Err(expected.to_owned()) }
    };
    raw.items().ok_or_else(|| expected.to_owned())?.into_iter().map(read).collect()
}

/// Parses the names of forms. Accepts a form whose file has faults. The error names the first form that does
/// not exist or is switched off.
fn parse_forms(raw: &Raw, set: &FormSet) -> ParseResult<Vec<String>> {
    let names: Vec<String> = set.iter().map(|form| format!("{:?}", form.name)).collect();
    let expected = format!("a list of forms: {}", names.join(", "));
    let read = |name: &str| {
        if set.named(name).is_some() || set.is_faulty(name) {
            return Ok(name.to_owned());
        }
        if FormSet::built_in().named(name).is_some() {
            return Err(format!(
                "a list of forms that are switched on; `{name}` is switched off: remove it from the list"
            ));
        }
        let all = set.iter().map(|form| form.name).chain(set.faulty().iter().map(String::as_str));
        let hint = did_you_mean(name, all, || format!("the forms are {}", names.join(", ")));
        Err(format!("a list of existing forms; there is no form `{}`: {hint}", visible(name)))
    };
    raw.items().ok_or(expected)?.into_iter().map(read).collect()
}

fn parse_smtp_tls(raw: &Raw) -> ParseResult<SmtpTls> {
    let modes = [("starttls", SmtpTls::StartTls), ("implicit", SmtpTls::Implicit), ("none", SmtpTls::None)];
    let expected = "\"starttls\", \"implicit\", or \"none\" on this machine";
    value_parsers::one_of(&modes)(raw).map_err(|_| expected.to_owned())
}

/// Parses an ASCII host name or an IP address, without brackets and port. May be empty.
fn parse_host(raw: &Raw) -> ParseResult<String> {
    let text = value_parsers::parse_line(raw)?;
    let plain = text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_' | b':'));
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    if plain && (is_address || !text.contains(':')) {
        Ok(text)
    } else {
        let expected = "a host name such as \"smtp.example.com\", or an IP address, without brackets, a port (`port`) or a scheme (`tls`)";
        let ascii = value_parsers::ascii_address(&format!("host@{text}"));
        Err(value_parsers::with_punycode(expected, ascii.map(|address| address.replacen("host@", "", 1))))
    }
}

/// Parses the name of a machine in EHLO: a domain or an address literal (RFC 5321 §4.1.1.1).
fn parse_hello_name(raw: &Raw) -> ParseResult<String> {
    let text = value_parsers::parse_line(raw)?;
    let address = format!("host@{text}");
    let is_bare_address = text.parse::<std::net::IpAddr>().is_ok();
    if !is_bare_address && Mailbox::parse(&address).is_some_and(|address| address.domain() == text) {
        return Ok(text);
    }
    let expected = "a host name such as \"web.example.com\", or an address such as \"[192.0.2.1]\"";
    let ascii = value_parsers::ascii_address(&address);
    Err(value_parsers::with_punycode(expected, ascii.map(|address| address.replacen("host@", "", 1))))
}

fn parse_webhook_url(raw: &Raw) -> ParseResult<Url> {
    let text = raw.as_text().ok_or("a URL such as \"https://hooks.example.com/frontdesk\"")?;
    Url::parse(text).map_err(|why| format!("a URL to post to: {why}"))
}

/// Parses a token, which is part of a URL or a header field: up to 200 visible ASCII characters except `/`,
/// `?`, `#`, `%` and `\`.
fn parse_token(raw: &Raw) -> ParseResult<String> {
    let is_safe = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'?' | b'#' | b'%' | b'\\');
    let expected = "a token of up to 200 ASCII characters, without spaces and / ? # % \\";
    value_parsers::parse_text(raw, expected, |text| {
        (text.len() <= 200 && text.bytes().all(is_safe)).then(|| text.to_owned())
    })
}

/// Parses the id of a chat, which is a number or its digits as text, and negative for groups and channels; or
/// the `@name` of a public channel.
fn parse_telegram_chat(raw: &Raw) -> ParseResult<String> {
    let text = match raw {
        Raw::Number(number) => number.to_string(),
        raw => raw.as_text().unwrap_or_default().to_owned(),
    };
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let is_id = (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = text.strip_prefix('@').is_some_and(|name| {
        (4..=32).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    let expected =
        "the id of a chat such as \"-1001234567890\", or the name of a public channel such as \"@example\"";
    if is_id || is_name { Ok(text) } else { Err(expected.to_owned()) }
}

/// Parses one signing key, or a list of at most two, which may be empty. No error quotes a key.
fn parse_signing_keys(raw: &Raw) -> ParseResult<Vec<SigningKey>> {
    let expected = || "a key such as \"whsec_…\", or a list of two while the key is being changed".to_owned();
    let key = |text: &str| SigningKey::parse(text).map_err(|why| why.replacen("expected ", "", 1));
    let items = raw.items().filter(|items| items.len() <= 2).ok_or_else(expected)?;
    items.into_iter().map(key).collect()
}

/// The value of the key `to`, which sets the recipients of mails.
enum Recipients {
    All(Vec<String>),
    /// The name of a form field, and the recipients for each of its values; `*` stands for all others.
    ByValue(String, Vec<(String, Vec<String>)>),
}

/// Parses a list of addresses, which may be empty, or a table `{ FIELD = { VALUE = ADDRESSES } }` of one
/// field, which must have the value `*` and no empty list. The table may also be TOML in a text.
fn parse_recipients(raw: &Raw) -> ParseResult<Recipients> {
    let from_text;
    let raw = match raw.as_text().filter(|text| text.starts_with('{')) {
        // A variable or a flag contains the table as TOML text.
        Some(text) => {
            from_text = DeValue::parse(text).map(|value| Raw::from_toml(value.get_ref()));
            from_text.as_ref().unwrap_or(raw)
        }
        None => raw,
    };
    let Raw::Table(fields) = raw else { return parse_email_addresses(raw).map(Recipients::All) };
    let expected = "a list of e-mail addresses, or one field whose values have such lists, with \"*\" for all \
                    others: { plan = { \"Team\" = [\"sales@example.com\"], \"*\" = [\"team@example.com\"] } }";
    let cases = match &fields[..] {
        [(field, Raw::Table(values))] if values.iter().any(|(value, _)| value == "*") => {
            Some((field, values))
        }
        _ => None,
    };
    let (field, values) = cases.ok_or(expected)?;
    let case = |(value, raw): &(String, Raw)| {
        let to = parse_email_addresses(raw).ok().filter(|to| !to.is_empty())?;
        Some((value.clone(), to))
    };
    let cases: Option<Vec<_>> = values.iter().map(case).collect();
    Ok(Recipients::ByValue(field.clone(), cases.ok_or(expected)?))
}

/// Parses a list of e-mail addresses without names, which may be empty. The error suggests a correction,
/// if there is one.
fn parse_email_addresses(raw: &Raw) -> ParseResult<Vec<String>> {
    let address = |item: &str| {
        let address = value_parsers::email(&Raw::Text(item.to_owned())).ok()?;
        Some(address).filter(|address| !address.is_empty())
    };
    let expected = "a list of e-mail addresses such as [\"team@example.com\"]";
    value_parsers::parse_items(raw, expected, address).map_err(|error| {
        let corrected = value_parsers::with_corrected_address(expected, raw.items().into_iter().flatten());
        if corrected == expected { error } else { corrected }
    })
}
