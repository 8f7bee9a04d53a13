//! Caddy as a file server with precompressed files.

use std::process::Command;

use anyhow::Result;

use super::{FileServer, Peer, folder, free_address, workers};
use crate::Bench;

/// Starts it without admin API and access log.
pub fn start(bench: &Bench, options: &FileServer) -> Result<Peer> {
    let (own, address) = (folder()?, free_address()?);
    let mut configuration = format!(
        include_str!("Caddyfile"),
        port = address.port(),
        root = options.root.display(),
        headers = options.header_lines(|name, value| format!("  header {name} `{value}`")),
    );
    let secure = options.tls.map(|_| free_address()).transpose()?;
    if let (Some(identity), Some(secure)) = (options.tls, secure) {
        let (certificate, key) = (identity.certificate.display(), identity.key.display());
        let tls = format!("tls {certificate} {key} {{\n    protocols tls1.3\n  }}");
        configuration += &format!("https://:{} {{\n  import site\n  {tls}\n}}\n", secure.port());
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
