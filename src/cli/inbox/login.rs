//! `frontdesk inbox open` and `frontdesk inbox sessions`: login links and sessions of the web interface.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{anyhow, bail};

use super::command_context::Console;
use crate::cli::diagnostics::{counted, with_hint};
use frontdesk_config::Config;
use frontdesk_desk::time::{format_distance, format_local};
use frontdesk_forms::text::{escape_html, visible};
use frontdesk_http::{Address, reachable};
use frontdesk_inbox::login_session::{self, SecretToken};
use frontdesk_inbox::store::{Editor, TokenHash};

/// How long to wait for a listener on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates and prints a link that logs in once within ten minutes. Unless `is_print_only`, opens the link in
/// a browser if there is a desktop; ignores errors of that. Fails if no server listens at the web interface's
/// address, unless `address` is given or the server may be elsewhere, and if there is no inbox yet. An
/// `address` without a scheme gets `http://`.
pub(super) fn open(
    config: &Config,
    address: Option<&str>,
    is_print_only: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let base = if let Some(address) = address {
        address.trim_end_matches('/').to_owned()
    } else {
        let base = base_url(config)?;
        require_server(config, &base, console)?;
        base
    };
    let base = if base.contains("://") { base } else { format!("http://{base}") };
    if console.inbox.is_none() {
        bail!("there is no inbox at {} yet: start the server first, which creates it", console.url);
    }
    let token = login_session::create_login(console.url, &console.user, console.now.timestamp())?;
    let link = format!("{base}/login?token={}", token.as_str());
    writeln!(console.out, "{link}")?;
    console.out.flush()?;
    writeln!(console.err, "The link works once and expires in ten minutes.")?;
    if !is_print_only && let Some(page) = write_redirect_page(&link, &token) {
        let opened = Command::new("xdg-open").arg(page).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if opened.is_ok() {
            writeln!(console.err, "Opening it in your browser.")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if the link would lead to an address of this machine at which no server listens. Only prints a note
/// if the server may run on another machine, or behind a proxy. Checks nothing if the inbox has no address of
/// its own, or one whose port is picked at each start.
fn require_server(config: &Config, base: &str, console: &mut Console<'_>) -> anyhow::Result<()> {
    let Some(address) = &config.inbox_listen else { return Ok(()) };
    let is_listening = match address {
        Address::Tcp(address) if address.port() != 0 => {
            TcpStream::connect_timeout(&reachable(*address), CONNECT_TIMEOUT).is_ok()
        }
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
        Address::Tcp(_) => true,
    };
    if is_listening {
        return Ok(());
    }
    let has_proxy = !config.web.inbox_pages.hosts.is_empty();
    if has_proxy || config.store.url.file().is_none() {
        let note = "No server on this machine listens at `inbox.listen`: the link works if another machine serves the inbox.";
        writeln!(console.err, "{note}")?;
        return Ok(());
    }
    Err(with_hint(
        anyhow!("no server listens at {address} (`inbox.listen`), so a link to {base} would not work"),
        "start the server with `frontdesk serve`; if it has another address, give its URL: `--address URL`",
    ))
}

/// The URL of the web interface: from `inbox.domain`, unless the port of its own address is picked at each
/// start; or else from the first host in `inbox.host`; or else from `inbox.listen`. Fails if the web
/// interface is switched off, or if it only has a Unix socket or a port that is picked at each start.
fn base_url(config: &Config) -> anyhow::Result<String> {
    let has_unknown_port = matches!(&config.inbox_listen, Some(Address::Tcp(own)) if own.port() == 0);
    if !has_unknown_port && let Some(authority) = config.clone().with_base_url(None).inbox_authority(None) {
        return Ok(format!("https://{authority}"));
    }
    let name = config.web.inbox_pages.hosts.first();
    match (&config.inbox_listen, name) {
        (None, _) => Err(with_hint(
            anyhow!("the web interface is switched off"),
            "set `listen = \"127.0.0.1:8082\"` in the table `[inbox]` of frontdesk.toml, and restart the server",
        )),
        (Some(_), Some(name)) => Ok(format!("https://{name}")),
        (Some(Address::Tcp(address)), None) if address.port() != 0 => {
            Ok(format!("http://{}", reachable(*address)))
        }
        (Some(address), None) => Err(with_hint(
            anyhow!("the URL of the web interface at {address} is not known"),
            "set `inbox.host`, or give the URL: `--address URL`",
        )),
    }
}

/// Writes a page that redirects to the link into the user's runtime folder, where it stays, and returns its
/// path. `None` without a desktop or such a folder, or if the page cannot be written. Browsers are started
/// with the page's path, because other users of this machine can read the arguments of a process.
fn write_redirect_page(link: &str, token: &SecretToken) -> Option<PathBuf> {
    if ["WAYLAND_DISPLAY", "DISPLAY"].iter().all(|name| std::env::var_os(name).is_none_or(|it| it.is_empty()))
    {
        return None;
    }
    let folder = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?);
    // The hash identifies the file, and does not reveal the token.
    let name: String = token.hash()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(format!("frontdesk-{name}.html"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
    let link = escape_html(link);
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>frontdesk</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={link}\"><a href=\"{link}\">Open the inbox</a>"
    );
    file.write_all(page.as_bytes()).ok()?;
    Some(path)
}

/// Lists the sessions, or ends the one whose id begins with `revoke`, or all of them. Ending all also makes
/// unused login links invalid. Fails if `revoke` does not match exactly one session. Does nothing
/// if there is no inbox.
pub(super) fn sessions(
    revoke: Option<&str>,
    all: bool,
    console: &mut Console<'_>,
) -> anyhow::Result<ExitCode> {
    let Some(inbox) = console.inbox.clone() else { return Ok(ExitCode::SUCCESS) };
    let now = console.now.timestamp();
    let sessions = inbox.sessions(now)?;
    if all || revoke.is_some() {
        let found = revoke.map(|prefix| login_session::find(&sessions, &prefix.to_ascii_lowercase()));
        if let (Some(prefix), Some(found)) = (revoke, &found)
            && found.len() != 1
        {
            let what = if found.is_empty() { "no session has" } else { "several sessions have" };
            let error = anyhow!("{what} an id that begins with `{}`", visible(prefix));
            return Err(with_hint(error, "`frontdesk inbox sessions` lists the ids"));
        }
        let hashes: Option<Vec<TokenHash>> =
            found.map(|found| found.iter().map(|session| session.hash).collect());
        let mut editor = Editor::open(console.url)?.on_behalf_of(&console.user);
        let count = editor.revoke(hashes.as_deref())?;
        let links = if all { "; unused login links are no longer valid" } else { "" };
        writeln!(console.out, "{} ended{links}", counted(count, "session"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        writeln!(console.out, "No session is open.")?;
    }
    for session in &sessions {
        let since = format_local(session.created_at, console.now.time_zone());
        let last = format_distance(session.used_at, now);
        let (id, name) = (session.short_id(), visible(&session.user));
        let client = if session.client.is_empty() { "unknown browser" } else { &session.client };
        let link = if session.is_mailed { "a mail" } else { "a command" };
        let trusted = if session.is_trusted { ", trusted for 30 days" } else { "" };
        writeln!(console.out, "{id}  {name}  {client}, by {link} since {since}{trusted}, last used {last}")?;
    }
    Ok(ExitCode::SUCCESS)
}
