//! Serves a folder during an audit.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, anyhow, bail};
use frontdesk_audit::{Url, parse_target};
use frontdesk_forms::text::visible_lines;

/// A `frontdesk serve` of its own, on a loopback address, with an empty inbox in a temporary folder and
/// without channels. Ends when it is dropped.
pub(super) struct LocalServer {
    child: Child,
    pub(super) url: Url,
}

impl LocalServer {
    /// Starts the server, and waits until it listens. The error has what the server printed.
    pub(super) fn start(folder: &Path) -> anyhow::Result<LocalServer> {
        // A name that begins with a hyphen is no option.
        let folder = std::path::absolute(folder).context("cannot find the folder")?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .arg("serve")
            .arg(folder)
            .arg("--isolated")
            // The server ends when this pipe does, also if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start a server for the folder")?;
        let address = child.stdout.take().and_then(read_address);
        let Some(address) = address else {
            let mut errors = String::new();
            child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
            let _ = child.wait();
            bail!("the folder cannot be served: {}", visible_lines(errors.trim_end()));
        };
        // The pipe must not fill up.
        if let Some(mut stderr) = child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
        let url = parse_target(&address).map_err(|error| anyhow!(error))?;
        Ok(LocalServer { child, url })
    }
}

/// The address that the server prints once it listens.
fn read_address(stdout: ChildStdout) -> Option<String> {
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    lines.find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
