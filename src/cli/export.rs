//! `frontdesk export`: the whole site as static files, with every header and redirect as rules for other servers.
//!
//! What is answered is asked of [`web::describe`]; [`layout`] gives each answer its file, and [`manifest`], [`nginx`] and [`hosts`] say
//! the same in three languages. [`folder`] puts all of it in its place at once.

mod folder;
mod hosts;
mod layout;
mod manifest;
mod map;
mod negotiation;
mod nginx;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;

use self::folder::Folder;
use self::layout::Layout;
use super::{Overrides, serve, site, style};
use crate::config::Config;
use crate::pages::Encodings;
use crate::web::Address;
use crate::web::describe::describe;

/// What is to be written, and where to.
#[derive(Debug, Args)]
pub(super) struct Wanted {
    /// The site's folder
    #[arg(long, default_value = ".", value_name = "DIR")]
    site: PathBuf,
    /// The folder to write to: a new one, an empty one, or an earlier export, which is replaced
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Where nginx finds a desk to hand the forms to, or several; the address that this site is served at if left out
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = replica)]
    replica: Vec<String>,
    /// Where nginx finds the pages, if the export is copied elsewhere; `public` in the output if left out
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Where submissions are kept, and beside them the strongest encodings of earlier runs
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Writes the export and says what it holds.
pub(super) fn run(wanted: &Wanted) -> anyhow::Result<ExitCode> {
    let overrides = Overrides { listen: Vec::new(), ops_listen: None, data_dir: wanted.data_dir.clone() };
    let config = site::configuration(&wanted.site, &overrides.flags())?.at(None);
    if config.base_url.is_none() {
        bail!(
            "`base_url` is not set, and every absolute link would lead to this machine
hint: `base_url = \"https://www.example.com\"` in frontdesk.toml, or FRONTDESK_BASE_URL"
        );
    }
    let folder = Folder::claim(&wanted.output, &wanted.site)?;
    let (site, faults) = site::load(&wanted.site, &config);
    let Some(site) = site else {
        site::print(&faults);
        bail!("the site cannot be exported ({})", site::count(&faults));
    };
    let site = site.strengthened_now(&Encodings::new(serve::encodings(&config)));
    let layout = Layout::of(describe(&site));
    let root = root(wanted, &folder)?;
    let replicas = replicas(wanted, &config)?;

    let mut files = layout.files();
    files.insert("public/_headers".to_owned(), hosts::headers(&layout).into());
    files.insert("public/_redirects".to_owned(), hosts::redirects(&layout).into());
    files.insert("nginx/http.conf".to_owned(), nginx::http(&layout, &replicas, &config.web).into());
    files.insert("nginx/server.conf".to_owned(), nginx::server(&layout, &root, &config.web).into());
    let manifest = manifest::compose(&layout, site.base_url(), &files);
    files.insert(folder::MANIFEST.to_owned(), manifest.into());
    let (count, bytes) = (files.len(), files.values().map(bytes::Bytes::len).sum::<usize>());
    let replaced = folder.fill(&files)?;

    let mut stderr = anstream::stderr().lock();
    if !faults.is_empty() {
        let folder = wanted.site.display();
        writeln!(stderr, "{}: `frontdesk check {folder}` tells more", site::count(&faults))?;
    }
    let (good, reset) = (style::GOOD, style::GOOD.render_reset());
    let (word, to) = (if replaced { "replaced:" } else { "written:" }, wanted.output.display());
    writeln!(
        stderr,
        "{good}{word}{reset} {} pages in {count} files ({} KiB) in {to}",
        site.page_count(),
        bytes.div_ceil(1024),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The absolute path of the pages.
fn root(wanted: &Wanted, folder: &Folder) -> anyhow::Result<String> {
    let root = match &wanted.root {
        Some(root) => std::path::absolute(root).with_context(|| format!("cannot find {}", root.display()))?,
        None => folder.path().join("public"),
    };
    let root = root.to_str().ok_or_else(|| anyhow!("{} is not UTF-8, and nginx.conf is", root.display()))?;
    if root.contains(['\n', '\r']) {
        bail!("`{root}` cannot be written into nginx.conf: it has a line break");
    }
    Ok(root.to_owned())
}

/// Where the forms go: as nginx names it.
fn replicas(wanted: &Wanted, config: &Config) -> anyhow::Result<Vec<String>> {
    if !wanted.replica.is_empty() {
        return Ok(wanted.replica.clone());
    }
    config
        .listen
        .iter()
        .map(|address| match address {
            Address::Tcp(address) if address.port() == 0 => {
                bail!("`{address}` names no port that could be asked\nhint: `--replica 192.0.2.1:8080` says where a desk is")
            }
            Address::Tcp(address) if address.ip().is_unspecified() => {
                Ok(format!("127.0.0.1:{}", address.port()))
            }
            address => Ok(address.to_string()),
        })
        .collect()
}

/// What nginx may be told to ask: an address or a name, with a port, or a socket.
fn replica(text: &str) -> Result<String, String> {
    let is_name = |host: &str| {
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_found = match text.parse::<Address>() {
        Ok(Address::Unix(path)) => path.is_absolute() && !text.contains(char::is_control),
        Ok(Address::Tcp(address)) => address.port() > 0,
        Err(_) => text.rsplit_once(':').is_some_and(|(host, port)| is_name(host) && is_port(port)),
    };
    if is_found {
        Ok(text.to_owned())
    } else {
        Err("expected an address or a name with a port, such as `192.0.2.1:8080`, or `unix:/PATH`".to_owned())
    }
}

/// The name of a file below the export's folder.
fn public(name: &str) -> String {
    format!("public/{name}")
}

/// Whether two paths lead to the same place, or the first into the second.
fn is_within(path: &Path, folder: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_named_as_nginx_does() {
        for (text, expected) in [
            ("192.0.2.1:8080", true),
            ("[2001:db8::1]:8080", true),
            ("desk-1.example.com:8080", true),
            ("unix:/run/frontdesk/http.sock", true),
            ("unix:http.sock", false),
            ("192.0.2.1", false),
            ("192.0.2.1:0", false),
            ("desk:0", false),
            ("desk:99999", false),
            (":8080", false),
            ("desk;}:8080", false),
            ("$host:8080", false),
            ("", false),
        ] {
            assert_eq!(replica(text).is_ok(), expected, "{text}");
        }
    }
}
