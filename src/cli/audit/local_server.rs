//! Serves a folder during an audit.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, anyhow, bail};
use frontdesk_audit::{Url, parse_target};
use frontdesk_forms::text::visible_lines;

/// A process of `frontdesk serve` on a loopback address, with an empty inbox in a temporary folder and
/// without channels. Dropping it stops the process and waits for its end.
pub(super) struct LocalServer {
    child: Child,
    pub(super) url: Url,
}

impl LocalServer {
    /// Starts the server, and waits until it listens, without a time limit. The error quotes what the server
    /// printed to standard error.
    pub(super) fn start(folder: &Path) -> anyhow::Result<LocalServer> {
        // An absolute path cannot be taken for an option, even if the folder's name begins with a hyphen.
        let folder = std::path::absolute(folder)
            .with_context(|| format!("cannot make the path `{}` absolute", folder.display()))?;
        let program = std::env::current_exe().with_context(|| {
            format!("cannot find frontdesk's own program file, which is needed to serve {}", folder.display())
        })?;
        let mut child = Command::new(&program)
            .arg("serve")
            .arg(&folder)
            .arg("--isolated")
            // The server ends when this pipe is closed, even if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{} serve {}`", program.display(), folder.display()))?;
        let address = child.stdout.take().and_then(read_address);
        let Some(address) = address else {
            let mut errors = String::new();
            child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
            let _ = child.wait();
            bail!("{} cannot be served: {}", folder.display(), visible_lines(errors.trim_end()));
        };
        // Read the rest of standard error, because a full pipe would block the server.
        if let Some(mut stderr) = child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
        let url = parse_target(&address).map_err(|error| anyhow!(error))?;
        Ok(LocalServer { child, url })
    }
}

/// The address that the server prints once it listens. `None` if it ends before that.
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
