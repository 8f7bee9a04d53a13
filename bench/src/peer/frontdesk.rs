//! Starts frontdesk as a server to measure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;

use super::{Identity, Peer, Reserved, command, create_folder};
use crate::http::{BROWSER, IDENTITY, get, send};
use crate::settings::{Bench, Cores};

#[derive(Debug, Clone)]
pub struct Options<'a> {
    pub name: &'a str,
    pub site: &'a Path,
    pub cores: Cores,
    /// Settings as environment variables, such as `FRONTDESK_LIMITS__ENABLED`.
    pub environment: Vec<(String, String)>,
    pub tls: Option<&'a Identity>,
    pub data: Option<PathBuf>,
}

impl<'a> Options<'a> {
    /// frontdesk's default settings, except for higher connection limits, because all connections come from
    /// this machine.
    pub fn new(name: &'a str, site: &'a Path) -> Self {
        let environment = Vec::new();
        Self { name, site, cores: Cores::Servers, environment, tls: None, data: None }
            .set("SERVER__MAX_CONNECTIONS", "19000")
            .set("SERVER__MAX_CONNECTIONS_PER_SOURCE", "19000")
    }

    /// Adds a setting such as `LIMITS__ENABLED` as an environment variable.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<String>) -> Self {
        self.environment.push((format!("FRONTDESK_{key}"), value.into()));
        self
    }
}

pub fn start(bench: &Bench, options: Options<'_>) -> Result<Peer> {
    start_in(bench, options, create_folder()?)
}

/// Starts frontdesk, which stores its data in `folder`, unless the options name another one. Waits for the
/// first response and until the server is idle.
pub fn start_in(bench: &Bench, options: Options<'_>, folder: TempDir) -> Result<Peer> {
    let peer = start_answering(bench, options, folder)?;
    wait_until_idle(&peer);
    Ok(peer)
}

/// Like [`start_in`], but waits only for the first response.
pub fn start_answering(bench: &Bench, mut options: Options<'_>, folder: TempDir) -> Result<Peer> {
    let reserved = Reserved::with_folder(folder)?;
    if let Some(identity) = options.tls {
        options = options
            .set("TLS__LISTEN", reserved.secure.to_string())
            .set("TLS__CERTIFICATE", identity.certificate.to_string_lossy())
            .set("TLS__KEY", identity.key.to_string_lossy())
            .set("TLS__REDIRECT", "false");
    }
    let mut command = command(&bench.frontdesk);
    command.arg("serve").arg(options.site).arg("--listen").arg(reserved.address.to_string());
    command.args(["--ops-listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(options.data.as_deref().unwrap_or(reserved.folder.path()));
    command
        .env("FRONTDESK_SERVER__WORKERS", bench.core_numbers(options.cores).len().to_string())
        .envs(options.environment);
    let peer = Peer::start(bench, options.name, options.cores, &mut command, reserved)?;
    // frontdesk accepts connections before it has opened the inbox, so wait for the first response.
    send(peer.address, &get(BROWSER, "/", IDENTITY, None))?;
    Ok(peer)
}

/// Waits until the server uses less than 6 ms of CPU time in 300 ms, three times in a row, but at most 30 s:
/// once may only mean that it waits for the disk. In the background, frontdesk replaces quick encodings with
/// stronger ones, which changes compressed bodies.
fn wait_until_idle(peer: &Peer) {
    let total = || peer.usage().values().sum::<u64>();
    let (mut before, mut quiet) = (total(), 0);
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(300));
        let now = total();
        quiet = if now.saturating_sub(before) < 6_000_000 { quiet + 1 } else { 0 };
        if quiet == 3 {
            return;
        }
        before = now;
    }
}
