//! nginx, tuned for static pages.

use std::process::Command;

use anyhow::Result;

use super::{FileServer, Peer, folder, free_address, workers};
use crate::Bench;

/// Starts it with or without sendfile: small files are faster without.
pub fn start(bench: &Bench, name: &str, options: &FileServer, sendfile: bool) -> Result<Peer> {
    let (own, address) = (folder()?, free_address()?);
    let secure = options.tls.map(|_| free_address()).transpose()?;
    let mut server = format!("    listen {address} backlog=4096 reuseport;\n");
    if let (Some(identity), Some(secure)) = (options.tls, secure) {
        server += &format!(
            include_str!("nginx-tls.conf"),
            address = secure,
            certificate = identity.certificate.display(),
            key = identity.key.display(),
        );
    }
    server += &options.header_lines(|name, value| format!("    add_header {name} {value:?};"));
    let configuration = format!(
        include_str!("nginx.conf"),
        user = user(),
        folder = own.path().display(),
        workers = workers(options.cores),
        sendfile = if sendfile { "on" } else { "off" },
        root = options.root.display(),
        server = server,
    );
    let file = own.path().join("nginx.conf");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(own.path()).arg("-c").arg(&file);
    let mut peer = Peer::start(bench, name, options.cores, &command, address, own)?;
    peer.secure = secure;
    Ok(peer)
}

/// Only root may set the user.
pub fn user() -> &'static str {
    if rustix::process::geteuid().is_root() { "user root;\n" } else { "" }
}
