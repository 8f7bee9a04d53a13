//! Real mail servers of Debian on private ports: OpenSMTPD, Postfix and Exim, which deliver everything into
//! one Maildir.
//!
//! Their folders have fixed paths, so each server runs in its own mount namespace, which needs root, or
//! `sudo` without a password. Uses the standard library only, so that unit tests can include the file.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::port::Port;

/// A mail server of Debian. The packages cannot be installed side by side: `scripts/test channels` unpacks
/// them into the folder that `FRONTDESK_MAIL_SERVERS` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    OpenSmtpd,
    Postfix,
    Exim,
}

impl Software {
    /// A shell script that runs the server. Its parameters are the folder for the server's files, the port,
    /// the folder with unpacked packages, and the user that owns the mailbox. It ends when its standard input
    /// is closed, and so always ends with the test.
    fn script(self) -> &'static str {
        match self {
            Software::OpenSmtpd => {
                concat!(include_str!("mail_server/common.sh"), include_str!("mail_server/opensmtpd.sh"))
            }
            Software::Postfix => {
                concat!(include_str!("mail_server/common.sh"), include_str!("mail_server/postfix.sh"))
            }
            Software::Exim => {
                concat!(include_str!("mail_server/common.sh"), include_str!("mail_server/exim.sh"))
            }
        }
    }
}

/// A running server.
#[derive(Debug)]
pub struct MailServer {
    software: Software,
    pub address: SocketAddr,
    _port: Port,
    folder: PathBuf,
    child: Child,
}

impl MailServer {
    /// Starts the server with all of its files in this folder, and waits until it accepts connections.
    pub fn start(software: Software, folder: &Path) -> MailServer {
        let packages = std::env::var("FRONTDESK_MAIL_SERVERS")
            .expect("`scripts/test channels` unpacks the packages and sets this");
        let is_root = fs::metadata("/proc/self").expect("there is /proc").uid() == 0;
        // OpenSMTPD does not deliver to root's mailbox.
        let user = if is_root { "nobody".to_owned() } else { output("id", "-un") };
        fs::create_dir(folder.join("box")).expect("the folder is empty");
        for (path, mode) in [(folder.to_owned(), 0o711), (folder.join("box"), 0o777)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the folder is ours");
        }

        let port = Port::reserve();
        let address = port.address();
        let log = File::create(folder.join("log")).expect("it can be written");

        let mut command = if is_root { Command::new("unshare") } else { Command::new("sudo") };
        if !is_root {
            command.args(["-n", "unshare"]);
        }
        let child = command
            .args(["-m", "sh", "-c", software.script(), "sh"])
            .arg(folder)
            .args([&port.number().to_string(), &packages, &user])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("there is `unshare`, of the package `util-linux`, and `sudo` unless we are root");
        let mut server = MailServer { software, address, folder: folder.to_owned(), child, _port: port };
        server.wait_until("accepts connections", |_| TcpStream::connect(address).is_ok());
        server
    }

    /// Waits for this many messages and returns the Maildir's files in no particular order.
    pub fn messages(&mut self, count: usize) -> Vec<Vec<u8>> {
        self.wait_until("has delivered everything", |server| server.delivered().len() >= count);
        self.delivered().iter().map(|path| fs::read(path).expect("it is ours to read")).collect()
    }

    fn delivered(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.join("box/maildir/new"));
        entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn(&MailServer) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            let has_ended = self.child.try_wait().expect("it is our child").is_some();
            if has_ended || started.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!(
                    "{:?} never {what} (it needs root, or `sudo` without a password):\n{log}",
                    self.software
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn output(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().expect("the program is there");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
