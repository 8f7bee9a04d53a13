//! Notifies the service manager of the server's state (`sd_notify(3)`).

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// The connection to the service manager. Without a service manager, notifications do nothing.
#[derive(Debug, Default)]
pub(super) struct ServiceManager {
    manager: Option<(UnixDatagram, SocketAddr)>,
}

impl ServiceManager {
    /// Creates a socket for the address in `NOTIFY_SOCKET`. If the variable is not set, or after a warning if
    /// it is invalid, notifications do nothing.
    pub(super) fn from_environment() -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
        if name.is_empty() {
            return Self::default();
        }
        Self::connect(&name).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot use the socket in NOTIFY_SOCKET; the service manager gets no notifications");
            Self::default()
        })
    }

    /// Creates a socket for an absolute path, or for an abstract name after `@`; fails for other addresses.
    /// The manager need not exist yet.
    fn connect(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "NOTIFY_SOCKET must be an absolute path, or `@` followed by a name",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // A service manager that does not read its socket must not block the server.
        socket.set_nonblocking(true)?;
        Ok(Self { manager: Some((socket, address)) })
    }

    /// Reports that the server is serving requests. `systemctl status` shows `status`.
    pub(super) fn notify_ready(&self, status: &str) {
        // Each line is an assignment, so the status must be a single line.
        self.send(&format!("READY=1\nSTATUS={}", status.replace(['\n', '\r'], " ")));
    }

    /// Reports that a reload has begun. Call [`Self::notify_ready`] when the reload ends, even if it fails.
    pub(super) fn notify_reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=Reloading the site", monotonic_micros()));
    }

    /// Reports that shutdown has begun. During the drain, the server still accepts connections.
    pub(super) fn notify_stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Shutting down");
    }

    /// Sends a notification. Ignores errors, because the server works without a manager.
    fn send(&self, state: &str) {
        if let Some((socket, manager)) = &self.manager {
            let _ = socket.send_to_addr(state.as_bytes(), manager);
        }
    }
}

/// The time of `CLOCK_MONOTONIC` in microseconds, as the protocol requires.
fn monotonic_micros() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn check(manager: &UnixDatagram, name: &OsStr) {
        let hear = || {
            let mut text = [0; 512];
            let length = manager.recv(&mut text).expect("a notification was sent");
            String::from_utf8(text[..length].to_vec()).expect("it is text")
        };
        let notify = ServiceManager::connect(name).expect("it can be reached");
        notify.notify_ready("12 pages\nSTOPPING=1");
        assert_eq!(hear(), "READY=1\nSTATUS=12 pages STOPPING=1");
        let before = monotonic_micros();
        notify.notify_reloading();
        let said = hear();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "RELOADING=1");
        let at: i64 = lines[1].strip_prefix("MONOTONIC_USEC=").expect("the time").parse().expect("a number");
        assert!((before..=monotonic_micros()).contains(&at), "{at}");
        notify.notify_stopping();
        assert!(hear().starts_with("STOPPING=1\n"));
    }

    #[test]
    fn a_socket_has_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("it can listen");
        check(&manager, path.as_os_str());
        let name = format!("frontdesk-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("it can listen");
        check(&manager, &OsString::from(format!("@{name}")));
    }

    #[test]
    fn without_a_manager_nothing_fails() {
        ServiceManager::default().notify_ready("12 pages");
        assert!(ServiceManager::connect(OsStr::new("vsock:2:1")).is_err());
        // The manager may have stopped.
        let folder = tempfile::tempdir().expect("a folder");
        ServiceManager::connect(folder.path().join("notify").as_os_str()).expect("a path").notify_stopping();
    }
}
