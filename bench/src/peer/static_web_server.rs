//! static-web-server, which is built on the same libraries as frontdesk's general path.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Peer, folder, free_address, workers};
use crate::Bench;
use crate::cores::Cores;

/// Starts it with these headers added to each answer. Compression on the fly is off; with `precompressed`, `.br` and `.gz` beside a
/// file are sent to whoever takes them.
pub fn start(
    bench: &Bench,
    root: &Path,
    cores: Cores,
    headers: &[(String, String)],
    precompressed: bool,
) -> Result<Peer> {
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
compression-static = {precompressed}
security-headers = false
directory-listing = false

[advanced]

[[advanced.headers]]
source = \"**\"
[advanced.headers.headers]
",
        address.port(),
        root.display(),
        workers(cores),
    );
    for (name, value) in headers {
        writeln!(configuration, "{name} = {value:?}")?;
    }
    let file = own.path().join("sws.toml");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new(&bench.static_web_server);
    command.arg("--config-file").arg(&file);
    Peer::start(bench, "static-web-server", cores, &command, address, own)
}
