//! static-web-server, which uses the same HTTP libraries as the general path of frontdesk.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Result;

use super::{FileServer, Peer, folder, free_address, workers};
use crate::Bench;

/// Starts it with precompressed files, without compression on the fly.
pub fn start(bench: &Bench, options: &FileServer) -> Result<Peer> {
    let own = folder()?;
    let address = free_address()?;
    let mut configuration = format!(
        "[general]
host = \"127.0.0.1\"
port = {}
root = \"{}\"
log-level = \"error\"
threads-multiplier = {}
cache-control-headers = false
compression = false
compression-static = true
security-headers = false
directory-listing = false

[advanced]

[[advanced.headers]]
source = \"**\"
[advanced.headers.headers]
",
        address.port(),
        options.root.display(),
        workers(options.cores),
    );
    for (name, value) in options.headers {
        writeln!(configuration, "{name} = {value:?}")?;
    }
    let file = own.path().join("sws.toml");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new(&bench.static_web_server);
    command.arg("--config-file").arg(&file);
    Peer::start(bench, "static-web-server", options.cores, &command, address, own)
}
