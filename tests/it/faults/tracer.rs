//! Uses strace to kill the server at a system call, or to make the call fail.
//!
//! strace counts calls per thread, so the n-th call is that of the first thread to make n calls. strace's
//! faster mode (`--seccomp-bpf`) does not deliver signals at a call, so this module uses the slower default
//! mode.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PATIENCE, TestServer};

/// The fault that strace injects into the server. If files are named, only calls on them count.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names of system calls as in strace's `-e inject`, separated by commas.
    pub calls: String,
    /// The fault in strace's syntax, such as `signal=KILL` or `error=EIO`.
    pub deed: String,
    /// Which calls fail, in strace's syntax: `3` for the third, `3+` for the third and all later ones.
    pub when: String,
    pub files: Vec<PathBuf>,
}

impl Plan {
    /// Kills at the `n`-th call.
    pub fn kill(calls: &str, n: usize) -> Plan {
        Plan {
            calls: calls.to_owned(),
            deed: "signal=KILL".to_owned(),
            when: n.to_string(),
            files: Vec::new(),
        }
    }

    /// Arguments for strace, which writes the calls to `log`.
    pub fn arguments(&self, log: &Path) -> Vec<String> {
        let Plan { calls, deed, when, files } = self;
        let mut arguments: Vec<String> = ["-f", "-qq", "-s", "0", "-e", "signal=none", "-o"]
            .map(str::to_owned)
            .into_iter()
            .chain([log.display().to_string()])
            .chain(["-e".to_owned(), format!("trace={calls}")])
            .chain(["-e".to_owned(), format!("inject={calls}:{deed}:when={when}")])
            .collect();
        for file in files {
            arguments.extend(["-P".to_owned(), file.display().to_string()]);
        }
        arguments
    }
}

/// strace, attached to a running server. Detaches when dropped.
#[derive(Debug)]
pub struct Tracer {
    strace: Child,
    server: u32,
    /// Names of the threads that existed when strace attached, by thread ID.
    threads: HashMap<String, String>,
    log: PathBuf,
}

impl Tracer {
    /// Attaches to every thread. Counting begins at that moment.
    pub fn attach(desk: &mut TestServer, plan: &Plan, log: &Path) -> Tracer {
        let pid = desk.pid();
        let mut strace = strace()
            .args(plan.arguments(log))
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace runs: these tests need the `strace` package");
        let deadline = Instant::now() + PATIENCE;
        while !is_traced(pid) && !desk.has_ended() {
            let is_refused = strace.try_wait().expect("it can be asked").is_some();
            if is_refused || Instant::now() > deadline {
                // The server may have been killed, as planned, while strace was still attaching to its other
                // threads.
                let dying_until = Instant::now() + Duration::from_secs(5);
                while is_refused && !desk.has_ended() && Instant::now() < dying_until {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if desk.has_ended() {
                    break;
                }
                let _ = strace.kill();
                let said = strace.wait_with_output().expect("it ends").stderr;
                panic!("strace does not attach: {}", String::from_utf8_lossy(&said));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Tracer { strace, server: pid, threads: names(pid), log: log.to_owned() }
    }

    /// Detaches from the server. Returns the thread and the name of the last call that strace logged: if the
    /// server was killed, the call at which it was killed. `None` if the log has no call.
    pub fn let_go(mut self) -> Option<String> {
        self.end();
        self.struck()
    }

    /// SIGTERM makes strace detach, and the server continues. If the server has ended, strace ends as well.
    /// On a busy machine, that can take more than a second, and sometimes strace waits forever for a thread
    /// that no longer exists. It is killed after five seconds; its log may then be empty.
    fn end(&mut self) {
        if is_traced(self.server) {
            let _ = kill_process(Pid::from_child(&self.strace), Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.strace.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > deadline {
                let _ = self.strace.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The thread and the name of the last call in strace's log, or `None` if the log has no call.
    fn struck(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&std::fs::read(&self.log).ok()?).into_owned();
        let mut calls = text.lines().filter_map(|line| {
            let (thread, rest) = line.split_once(' ')?;
            let call = rest.trim_start().split_once('(')?.0;
            call.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then_some((thread, call))
        });
        let (thread, call) = calls.next_back()?;
        // Threads that started after strace attached are Tokio's blocking threads, which wait for the disk.
        let name = self.threads.get(thread).map_or("tokio-rt-worker", String::as_str);
        Some(format!("{}: {call}", name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.end();
    }
}

/// The strace command, with only `PATH` in its environment.
pub fn strace() -> Command {
    let mut command = Command::new("strace");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Whether each thread of a process is being traced.
fn is_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        std::fs::read_to_string(thread.path().join("status")).is_ok_and(|status| {
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        })
    })
}

/// The names of a process's threads, by thread ID.
fn names(pid: u32) -> HashMap<String, String> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return HashMap::new() };
    let named = threads.flatten().filter_map(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        Some((thread.file_name().into_string().ok()?, name.trim_end().to_owned()))
    });
    named.collect()
}
