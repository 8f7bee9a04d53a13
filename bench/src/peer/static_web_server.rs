//! static-web-server, which uses the same HTTP libraries as the general path of frontdesk.

use std::process::Command;

use anyhow::Result;

use super::{FileServer, Peer, folder, free_address, workers};
use crate::Bench;

/// The program in the folder of tools. There is no Debian package.
pub const PROGRAM: &str = "cargo/bin/static-web-server";

/// Starts it with precompressed files, without compression on the fly.
pub fn start(bench: &Bench, options: &FileServer) -> Result<Peer> {
    let (own, address) = (folder()?, free_address()?);
    let configuration = format!(
        include_str!("static-web-server.toml"),
        port = address.port(),
        root = options.root.display(),
        workers = workers(options.cores),
        headers = options.header_lines(|name, value| format!("{name} = {value:?}")),
    );
    let file = own.path().join("sws.toml");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new(bench.tools.join(PROGRAM));
    command.arg("--config-file").arg(&file);
    Peer::start(bench, "static-web-server", options.cores, &command, address, own)
}
