//! Starts frontdesk.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::{Peer, folder, workers};
use crate::Bench;
use crate::machine::Cores;
use crate::process;

#[derive(Debug, Clone)]
pub struct Options {
    /// Name in the report.
    pub name: String,
    pub site: PathBuf,
    pub cores: Cores,
    /// Settings as environment variables, such as `FRONTDESK_LIMITS__ENABLED`.
    pub environment: Vec<(String, String)>,
    /// Data folder; a temporary one by default.
    pub data: Option<PathBuf>,
}

impl Options {
    /// The defaults of frontdesk, except for the number of connections from one source: all come from this
    /// machine.
    pub fn new(name: impl Into<String>, site: &Path) -> Self {
        let many = ["FRONTDESK_SERVER__MAX_CONNECTIONS", "FRONTDESK_SERVER__MAX_CONNECTIONS_PER_SOURCE"];
        Self {
            name: name.into(),
            site: site.to_owned(),
            cores: Cores::Servers,
            environment: many.map(|name| (name.to_owned(), "19000".to_owned())).to_vec(),
            data: None,
        }
    }

    /// Adds or replaces a setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    #[must_use]
    pub fn on(mut self, cores: Cores) -> Self {
        self.cores = cores;
        self
    }
}

pub fn start(bench: &Bench, options: &Options) -> Result<Peer> {
    let own = folder()?;
    let mut command = Command::new(&bench.frontdesk);
    command.arg("serve").arg(&options.site);
    command.args(["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--data-dir"]);
    command.arg(options.data.clone().unwrap_or_else(|| own.path().join("data")));
    command.env("FRONTDESK_SERVER__WORKERS", workers(options.cores).to_string());
    command.envs(options.environment.iter().map(|(name, value)| (name, value)));
    let wants_tls = options.environment.iter().any(|(name, _)| name == "FRONTDESK_TLS__LISTEN");
    let (mut public, mut secure) = (None, None);
    let peer = Peer::start_with_output(bench, &options.name, options.cores, &command, own, |line| {
        public = public.or(address(line, "listening on http://"));
        secure = secure.or(address(line, "listening on https://"));
        public.filter(|_| secure.is_some() || !wants_tls).map(|public| (public, secure))
    })?;
    settle(&peer);
    Ok(peer)
}

/// Waits until the server is idle. In the background it replaces quick encodings by strong ones, which
/// changes compressed bodies.
fn settle(peer: &Peer) {
    let cpu = || process::usage(peer.process()).total();
    let mut before = cpu();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(300));
        let now = cpu();
        // Less than 6 ms of CPU time in 300 ms.
        if now.saturating_sub(before) < 6_000_000 {
            return;
        }
        before = now;
    }
}

fn address(line: &str, before: &str) -> Option<SocketAddr> {
    line.strip_prefix(before)?.trim_end_matches('/').parse().ok()
}

/// Whether this build has a configuration key, such as `server.fast_lane`.
pub fn has_key(bench: &Bench, site: &Path, key: &str) -> Result<bool> {
    let output = Command::new(&bench.frontdesk).arg("config").arg(site).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).contains(key.rsplit('.').next().unwrap_or(key)))
}
