//! Caddy as a file server.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Peer, folder, free_address, workers};
use crate::Bench;
use crate::cores::Cores;

/// As it is called in the report.
pub const NAME: &str = "Caddy";

/// What differs between measurements.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// What it serves.
    pub root: &'a Path,
    /// Where it runs, one processor of Go's a core.
    pub cores: Cores,
    /// Headers that are added to each answer.
    pub headers: &'a [(String, String)],
    /// Whether `.br` and `.gz` beside a file are sent to whoever takes them.
    pub precompressed: bool,
    /// Certificate and key, to serve HTTP/2 and HTTP/1.1 over TLS 1.3 as well.
    pub tls: Option<(&'a Path, &'a Path)>,
}

/// Starts it, without its administration and with no log of requests.
pub fn start(bench: &Bench, options: &Options) -> Result<Peer> {
    let own = folder()?;
    let address = free_address()?;
    let secure = options.tls.is_some().then(free_address).transpose()?;
    let mut site = format!("  bind 127.0.0.1\n  root * {}\n", options.root.display());
    for (name, value) in options.headers {
        writeln!(site, "  header {name} `{value}`")?;
    }
    site += if options.precompressed {
        "  file_server {\n    precompressed br gzip\n  }\n"
    } else {
        "  file_server\n"
    };
    let mut configuration = format!(
        "{{
  admin off
  auto_https off
  grace_period 1s
}}
http://:{} {{
{site}}}
",
        address.port()
    );
    if let (Some((certificate, key)), Some(secure)) = (options.tls, secure) {
        let (certificate, key) = (certificate.display(), key.display());
        write!(
            configuration,
            "https://:{} {{\n  tls {certificate} {key} {{\n    protocols tls1.3\n  }}\n{site}}}\n",
            secure.port()
        )?;
    }
    let file = own.path().join("Caddyfile");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
    command.env("GOMAXPROCS", workers(options.cores).to_string());
    for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        command.env(name, own.path());
    }
    let mut peer = Peer::start(bench, NAME, options.cores, &command, address, own)?;
    peer.secure = secure;
    Ok(peer)
}
