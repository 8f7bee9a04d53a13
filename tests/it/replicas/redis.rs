//! The Redis server that the replicas share, on its own host.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::network::{Host, Net};

const PASSWORD: &str = "sesame";
const PORT: u16 = 6379;
/// Time limit for Redis to respond after its start.
const PATIENCE: Duration = Duration::from_mins(2);

/// A Redis server that ends when dropped.
pub struct Counter {
    pub host: Host,
    process: Option<Child>,
}

impl Counter {
    pub fn start(net: &Net, host: Host) -> Counter {
        let mut counter = Counter { host, process: None };
        counter.run(net);
        counter
    }

    pub fn url(&self) -> String {
        format!("redis://:{PASSWORD}@{}:{PORT}", self.host.address())
    }

    /// Starts Redis with an empty database, and returns once it accepts connections.
    pub fn run(&mut self, net: &Net) {
        let mut command = net.command(self.host, "redis-server", None);
        command
            .args(["--bind", "0.0.0.0", "--port", &PORT.to_string(), "--requirepass", PASSWORD, "--save", ""])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        self.process = Some(command.spawn().expect("redis-server is there"));
        let began = Instant::now();
        let connect =
            || net.on(self.host, || std::net::TcpStream::connect((self.host.address(), PORT)).is_ok());
        while !connect() {
            assert!(began.elapsed() < PATIENCE, "Redis does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills Redis with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops Redis with SIGSTOP: connections remain, but it does not respond.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Undoes [`Counter::pause`].
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).expect("it can be told");
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.kill();
    }
}
