//! Caddy as a file server with precompressed files.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Result;

use super::{FileServer, Peer, folder, free_address, workers};
use crate::Bench;

/// Starts it without admin API and access log.
pub fn start(bench: &Bench, options: &FileServer) -> Result<Peer> {
    let own = folder()?;
    let address = free_address()?;
    let secure = options.tls.is_some().then(free_address).transpose()?;
    let mut site = format!("  bind 127.0.0.1\n  root * {}\n", options.root.display());
    for (name, value) in options.headers {
        writeln!(site, "  header {name} `{value}`")?;
    }
    site += "  file_server {\n    precompressed br gzip\n  }\n";
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
    let mut peer = Peer::start(bench, "Caddy", options.cores, &command, address, own)?;
    peer.secure = secure;
    Ok(peer)
}
