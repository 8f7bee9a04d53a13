//! Redis, as desks share their limits by it: nothing is written to the disk.

use std::process::Command;

use anyhow::Result;

use super::{Peer, folder, free_address};
use crate::Bench;
use crate::cores::Cores;

/// Starts it on `cores`.
pub fn start(bench: &Bench, cores: Cores) -> Result<Peer> {
    let address = free_address()?;
    let own = folder()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
    command.arg(address.port().to_string()).arg("--dir").arg(own.path());
    Peer::start(bench, "Redis", cores, &command, address, own)
}
