//! The `[[channel]]` tables: where submissions go from here.

use std::path::Path;

use secrecy::SecretString;

use super::email;
use super::reader::Reader;
use super::value::{self, Parsed, Raw};
use crate::deliver::smtp::{self, Login, Tls};
use crate::deliver::webhook::{self, Body, Key};
use crate::deliver::{Kind, Options, maildir};
use crate::fetch::url::Host;
use crate::fetch::{Roots, Url, address};
use crate::forms::FORMS;

/// What stands for the operator where a channel says nothing of its own.
pub(super) struct Defaults<'a> {
    /// The site's folder, to which paths are relative.
    pub(super) folder: &'a Path,
    /// The operator's address.
    pub(super) email: &'a str,
    /// The site's title.
    pub(super) title: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Smtp,
    Webhook,
    Maildir,
}

/// Reads every channel, in their order.
pub(super) fn read(r: &mut Reader<'_>, defaults: &Defaults<'_>) -> Vec<Options> {
    r.tables("channel").into_iter().filter_map(|name| channel(r, name, defaults)).collect()
}

/// One channel; nothing where it is at fault, which has been noted then.
fn channel(r: &mut Reader<'_>, name: String, defaults: &Defaults<'_>) -> Option<Options> {
    let key = |last: &str| format!("channel.{name}.{last}");
    // Known already: the others are called by it.
    let _: String = r.get(&key("name"), "", value::text);
    let way = r.get(&key("kind"), "", way);
    let forms = r.get(&key("forms"), "[]", forms);
    let concurrency = r.get(&key("concurrency"), "4", value::count(1..=64));
    r.refuse_if(way.is_none(), &key("kind"), "is missing: \"smtp\", \"webhook\" or \"maildir\"");
    let kind = match way? {
        Way::Smtp => Kind::Smtp(smtp(r, &key, defaults)?),
        Way::Webhook => Kind::Webhook(webhook(r, &key, defaults)?),
        Way::Maildir => Kind::Maildir(maildir(r, &key, defaults)?),
    };
    Some(Options { name, forms, concurrency, kind })
}

fn smtp(r: &mut Reader<'_>, key: &dyn Fn(&str) -> String, defaults: &Defaults<'_>) -> Option<smtp::Options> {
    let host = r.get(&key("host"), "", host);
    let tls = r.get(&key("tls"), "starttls", tls);
    let port = match r.get(&key("port"), "0", value::count(0..=65_535)) {
        0 => match tls {
            Tls::Implicit => 465,
            Tls::StartTls => 587,
            Tls::None => 25,
        },
        port => u16::try_from(port).unwrap_or_default(),
    };
    let username = r.get(&key("username"), "", value::text);
    let password = r.get(&key("password"), "", secret);
    let (from, from_name, to) = correspondents(r, key, defaults);
    let extra_roots = pem(r, &key("ca_file"), defaults.folder).map(|(pem, _)| pem);
    r.refuse_if(host.is_empty(), &key("host"), "is missing: the mail server's name");
    r.refuse_if(
        tls == Tls::None && !host.is_empty() && !is_loopback(&host),
        &key("tls"),
        "may be \"none\" only where `host` is this machine (\"localhost\", \"127.0.0.1\", \"::1\")",
    );
    r.refuse_if(
        username.is_empty() != password.is_none(),
        &key("password"),
        "and `username` belong together: neither or both",
    );
    let login = password
        .filter(|_| !username.is_empty())
        .map(|password| Login { username, password: SecretString::from(password) });
    let deadlines = smtp::Deadlines::default();
    (!host.is_empty()).then_some(smtp::Options {
        host,
        port,
        tls,
        login,
        from,
        from_name,
        to,
        extra_roots,
        deadlines,
    })
}

fn webhook(
    r: &mut Reader<'_>,
    key: &dyn Fn(&str) -> String,
    defaults: &Defaults<'_>,
) -> Option<webhook::Options> {
    let url = r.get(&key("url"), "", url);
    let secrets = r.get(&key("secret"), "[]", keys);
    let body = r.get(&key("body"), "standard", |raw| {
        let text =
            raw.as_text().ok_or("\"standard\", \"slack\", \"mattermost\", \"discord\" or a template")?;
        Body::parse(text).map_err(|why| format!("the form of a request's body: {why}"))
    });
    let allow_private = r.get(&key("allow_private"), "false", value::flag);
    let extra_roots = certificates(r, &key("ca_file"), defaults.folder);
    r.refuse_if(url.is_none(), &key("url"), "is missing: where submissions are posted to");
    if let Some(url) = &url {
        refuse_unreachable(r, &key("url"), url, allow_private);
    }
    r.warn_if(
        secrets.is_empty() && matches!(body, Body::Standard),
        &key("secret"),
        "a webhook without a `secret` is not signed",
        "without one the receiver cannot tell who sent it: `whsec_` and 24 to 64 random bytes in Base64",
    );
    let deadlines = webhook::DEADLINES;
    Some(webhook::Options { url: url?, secrets, body, allow_private, extra_roots, deadlines })
}

fn maildir(
    r: &mut Reader<'_>,
    key: &dyn Fn(&str) -> String,
    defaults: &Defaults<'_>,
) -> Option<maildir::Options> {
    let path = r.get(&key("path"), "", value::text);
    let (from, from_name, to) =
        correspondents(r, key, &Defaults { email: or_this_machine(defaults.email), ..*defaults });
    r.refuse_if(path.is_empty(), &key("path"), "is missing: the folder of the Maildir");
    (!path.is_empty()).then(|| maildir::Options { path: defaults.folder.join(path), from, from_name, to })
}

/// Mail that never leaves this machine needs no address that is known elsewhere.
fn or_this_machine(email: &str) -> &str {
    if email.is_empty() { "frontdesk@localhost" } else { email }
}

/// Sender and recipients: the operator's address, unless it says otherwise.
fn correspondents(
    r: &mut Reader<'_>,
    key: &dyn Fn(&str) -> String,
    defaults: &Defaults<'_>,
) -> (String, String, Vec<String>) {
    let or_operator = |address: String| if address.is_empty() { defaults.email.to_owned() } else { address };
    let from = or_operator(r.get(&key("from"), "", email));
    let from_name = r.get(&key("from_name"), "", value::text);
    let from_name = if from_name.is_empty() { defaults.title.to_owned() } else { from_name };
    let to = r.get(&key("to"), "[]", addresses);
    r.refuse_if(
        from.is_empty(),
        &key("from"),
        "is missing, and so is `operator.email`: the address that mail is sent from",
    );
    let to = if to.is_empty() { vec![from.clone()] } else { to };
    (from, from_name, to)
}

/// The certificates of an authority of one's own (PEM), for the mail library, which reads them itself.
pub(super) fn pem(r: &mut Reader<'_>, key: &str, folder: &Path) -> Option<(Vec<u8>, Roots)> {
    let path = r.get(key, "", value::text);
    if path.is_empty() {
        return None;
    }
    let pem = std::fs::read(folder.join(path)).map_err(|error| format!("cannot be read: {error}"));
    let read = pem.and_then(|pem| Roots::parse(&pem).map(|roots| (pem, roots)));
    r.refuse_if(read.is_err(), key, read.as_ref().err().map_or("", String::as_str));
    read.ok()
}

/// The certificates of an authority of one's own (PEM).
pub(super) fn certificates(r: &mut Reader<'_>, key: &str, folder: &Path) -> Option<Roots> {
    pem(r, key, folder).map(|(_, roots)| roots)
}

/// Notes a URL whose address is written in it and may not be connected to.
pub(super) fn refuse_unreachable(r: &mut Reader<'_>, key: &str, url: &Url, allow_private: bool) {
    if let Host::Address(address) = url.host()
        && let Err(why) = address::permitted(url.host(), &[*address], allow_private)
    {
        r.refuse_if(true, key, &format!("leads nowhere: {why}"));
    }
}

/// Hosts, or URLs without a path, at which agents publish their keys.
pub(super) fn directories(raw: &Raw) -> Parsed<Vec<Url>> {
    let expected = "a list of hosts such as [\"agent.example.com\"], or of URLs without a path";
    let read = |text: &str| {
        let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let url = Url::parse(&url).map_err(|why| format!("{expected}: {why}"))?;
        if url.target() == "/" { Ok(url) } else { Err(expected.to_owned()) }
    };
    raw.items().ok_or_else(|| expected.to_owned())?.into_iter().map(read).collect()
}

fn way(raw: &Raw) -> Parsed<Option<Way>> {
    match raw.as_text() {
        Some("") => Ok(None),
        Some("smtp") => Ok(Some(Way::Smtp)),
        Some("webhook") => Ok(Some(Way::Webhook)),
        Some("maildir") => Ok(Some(Way::Maildir)),
        _ => Err("\"smtp\", \"webhook\" or \"maildir\"".to_owned()),
    }
}

fn forms(raw: &Raw) -> Parsed<Vec<String>> {
    let names = || FORMS.iter().map(|form| format!("{:?}", form.name)).collect::<Vec<_>>().join(", ");
    let expected = || format!("a list of forms, of which there are {}", names());
    let items = raw.items().ok_or_else(expected)?;
    let known = |name: &&str| FORMS.iter().any(|form| form.name == *name);
    if items.iter().all(known) { Ok(items.into_iter().map(str::to_owned).collect()) } else { Err(expected()) }
}

fn tls(raw: &Raw) -> Parsed<Tls> {
    match raw.as_text() {
        Some("starttls") => Ok(Tls::StartTls),
        Some("implicit") => Ok(Tls::Implicit),
        Some("none") => Ok(Tls::None),
        _ => Err("\"starttls\", \"implicit\", or \"none\" on this machine".to_owned()),
    }
}

/// A name or an address, without a port.
fn host(raw: &Raw) -> Parsed<String> {
    let text = value::text(raw)?;
    let plain = text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_' | b':'));
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    if plain && (is_address || !text.contains(':')) {
        Ok(text)
    } else {
        Err("a name such as \"smtp.example.com\", or an address".to_owned())
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn url(raw: &Raw) -> Parsed<Option<Url>> {
    match raw.as_text() {
        Some("") => Ok(None),
        Some(text) => Url::parse(text).map(Some).map_err(|why| format!("an address to post to: {why}")),
        None => Err("an address such as \"https://hooks.example.com/frontdesk\"".to_owned()),
    }
}

fn keys(raw: &Raw) -> Parsed<Vec<Key>> {
    let expected = || "a key \"whsec_…\", or a list of two while it is being changed".to_owned();
    let key = |text: &str| Key::parse(text).map_err(|why| why.replacen("expected ", "", 1));
    raw.items().ok_or_else(expected)?.into_iter().map(key).collect()
}

fn secret(raw: &Raw) -> Parsed<Option<String>> {
    let text = raw.as_text().ok_or("a text")?;
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

fn addresses(raw: &Raw) -> Parsed<Vec<String>> {
    let expected = || "a list of e-mail addresses such as [\"team@example.com\"]".to_owned();
    let items = raw.items().ok_or_else(expected)?;
    items
        .into_iter()
        .map(|item| match email(&Raw::Text(item.to_owned())) {
            Ok(address) if !address.is_empty() => Ok(address),
            _ => Err(expected()),
        })
        .collect()
}
