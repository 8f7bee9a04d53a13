//! A private frontdesk: the real binary on free ports, with a temporary data folder.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use frontdesk_inbox::store::{DatabaseUrl, InboxReader, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::PATIENCE;
use super::channel_site::until;
use super::client::{Answer, Connection};

/// The example site of the repository.
pub fn example_site() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("site")
}

/// A site that loads immediately, for tests that do not depend on its content.
pub fn small_site() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/site")
}

/// The binary with an empty environment.
pub fn frontdesk() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frontdesk"));
    command.env_clear().stdin(Stdio::null()).env(MIN_FREE.0, MIN_FREE.1);
    command
}

/// Reserves no free space, so that tests do not depend on this machine's disk.
const MIN_FREE: (&str, &str) = ("FRONTDESK_STORE__MIN_FREE", "off");

/// The library that changes a process's clock.
pub fn libfaketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").expect("it is there");
    let files = folders.flatten().map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    files.into_iter().find(|file| file.exists()).expect("this test needs the `faketime` package")
}

/// The schema and the URL of a data folder's inbox if the tests run on PostgreSQL, otherwise `None`.
/// `FRONTDESK_TEST_POSTGRES` has the server's URL.
pub fn store_of(data: &Path) -> Option<(String, String)> {
    let url = std::env::var("FRONTDESK_TEST_POSTGRES").ok()?;
    let name = data.as_os_str().as_encoded_bytes();
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let schema = format!("it_{hash:016x}");
    let made = Command::new("psql")
        .args([
            &url,
            "-qc",
            &format!("SET client_min_messages = warning; CREATE SCHEMA IF NOT EXISTS {schema}"),
        ])
        .status();
    assert!(made.expect("psql runs").success());
    let joint = if url.contains('?') { '&' } else { '?' };
    Some(("FRONTDESK_STORE__URL".to_owned(), format!("{url}{joint}options=-csearch_path%3D{schema}")))
}

/// A running server. When it is dropped, the inbox must have the expected number of submissions.
#[derive(Debug)]
pub struct TestServer {
    pub address: SocketAddr,
    pub ops: SocketAddr,
    /// The address that listens for TLS, if any.
    pub tls: Option<SocketAddr>,
    child: Child,
    site: PathBuf,
    data: PathBuf,
    /// The temporary data folder, which is removed with the server.
    folder: Option<tempfile::TempDir>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// Dropping this value closes the server's standard error.
    stderr: Option<mpsc::Receiver<String>>,
    stdout: mpsc::Receiver<String>,
    said: RefCell<Vec<String>>,
    expected: RefCell<Option<usize>>,
}

impl TestServer {
    /// Serves the small site with limits switched off.
    pub fn start() -> Self {
        Self::with(&small_site(), &[("FRONTDESK_LIMITS__ENABLED", "false")])
    }

    /// Serves the example site with limits switched off.
    pub fn with_example_site() -> Self {
        Self::with(&example_site(), &[("FRONTDESK_LIMITS__ENABLED", "false")])
    }

    /// Serves `site` with these variables in its environment.
    pub fn with(site: &Path, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a data folder");
        let mut server = Self::at(site, &folder.path().join("data"), environment);
        server.folder = Some(folder);
        server
    }

    /// The same with a persistent data folder.
    pub fn at(site: &Path, data: &Path, environment: &[(&str, &str)]) -> Self {
        Self::serving(site, data, &[], environment)
    }

    /// The same with further arguments for `serve`.
    pub fn serving(site: &Path, data: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let environment: Vec<(String, String)> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let Started { child, address, ops, tls, stderr, stdout } =
            spawn(&[], site, data, &arguments, &environment).unwrap_or_else(|said| not_started(&said));
        Self {
            stderr: Some(stderr),
            stdout,
            said: RefCell::default(),
            address,
            ops,
            tls,
            child,
            site: site.to_owned(),
            data: data.to_owned(),
            folder: None,
            arguments,
            environment,
            expected: RefCell::new(Some(0)),
        }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.data.clone()
    }

    pub fn site(&self) -> PathBuf {
        self.site.clone()
    }

    /// Asks the server to read its configuration again. Does not wait.
    pub fn reload(&self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).expect("a process id"));
        let pid = pid.expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it can be told");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.request("GET", path, headers, b"")
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.connect()
            .request(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Sends a form as JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    /// Sends a request to the operations address.
    pub fn ops(&self, path: &str) -> Answer {
        Connection::open(self.ops).request("GET", path, &[], b"").expect("the private listener answers")
    }

    /// Waits until all accepted submissions have been processed, if the server is running and can process
    /// them.
    pub fn catch_up(&self) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let is_running =
            stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'));
        if !is_running {
            return;
        }
        let place = match store_of(&self.data) {
            Some((_, url)) => DatabaseUrl::Postgres(Server::parse(&url).expect("a URL")),
            None => DatabaseUrl::Sqlite(self.data.join("inbox.sqlite")),
        };
        // Tests with an unreadable inbox do not need to wait.
        let _ = InboxReader::open(place).and_then(|reader| reader.catch_up(Duration::from_secs(20)));
    }

    /// The output of `frontdesk inbox list --json` while the server is running.
    pub fn inbox(&self) -> Vec<Value> {
        self.catch_up();
        let output = frontdesk()
            .args(["inbox", "list", "--json", "--site"])
            .arg(&self.site)
            .arg("--data-dir")
            .arg(self.data_dir())
            .envs(store_of(&self.data))
            .output()
            .expect("the command runs");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("JSON is text");
        text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    /// Sets the number of submissions that the inbox must have in the end.
    pub fn expect(&self, submissions: usize) {
        *self.expected.borrow_mut() = Some(submissions);
    }

    /// Skips the final inbox check, for tests that check the inbox themselves.
    pub fn expect_anything(&self) {
        *self.expected.borrow_mut() = None;
    }

    /// The server's standard error since its first start: one JSON object per line by default.
    pub fn log(&self) -> String {
        let mut said = self.said.borrow_mut();
        said.extend(self.stderr.iter().flat_map(mpsc::Receiver::try_iter));
        said.join("\n")
    }

    /// Waits until the log has `count` of these texts. Panics after a timeout. A message may arrive after the
    /// effect that it reports, because the log is written and read by other threads.
    pub fn assert_logged_times(&self, text: &str, count: usize) {
        let began = Instant::now();
        while self.log().matches(text).count() < count {
            assert!(began.elapsed() < PATIENCE, "the log has no {text:?}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// [`TestServer::assert_logged_times`] for one.
    pub fn assert_logged(&self, text: &str) {
        self.assert_logged_times(text, 1);
    }

    /// The server's standard output after the line with its address.
    pub fn told(&self) -> String {
        self.stdout.try_iter().collect::<Vec<_>>().join("\n")
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        self.hear_out();
    }

    /// After the server has ended, waits until the log contains everything that it wrote to standard error.
    fn hear_out(&self) {
        let mut said = self.said.borrow_mut();
        let stderr =
            self.stderr.iter().flat_map(|stderr| std::iter::from_fn(|| stderr.recv_timeout(PATIENCE).ok()));
        said.extend(stderr);
    }

    /// Restarts the server with the same data on other ports.
    pub fn restart(&mut self) {
        self.try_restart(&[]).unwrap_or_else(|said| not_started(&said));
    }

    /// The same, but started by the program and arguments in `runner`, which must execute the server. Returns
    /// the server's output as an error if it ended before it was listening.
    pub fn try_restart(&mut self, runner: &[&str]) -> Result<(), Vec<String>> {
        self.log();
        let Started { child, address, ops, tls, stderr, stdout } =
            spawn(runner, &self.site, &self.data, &self.arguments, &self.environment)?;
        (self.child, self.address, self.ops, self.stderr, self.stdout) =
            (child, address, ops, Some(stderr), stdout);
        self.tls = tls;
        Ok(())
    }

    /// Sets environment variables for the next start.
    pub fn set(&mut self, environment: &[(&str, &str)]) {
        for (name, value) in environment {
            self.environment.retain(|(known, _)| known != name);
            self.environment.push(((*name).to_owned(), (*value).to_owned()));
        }
    }

    /// Stops the process with SIGSTOP, and waits until no thread of it runs. SIGCONT continues it.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let is_stopped = || {
            let mut threads = std::fs::read_dir(&tasks).expect("it is there").map(|thread| {
                let stat = thread.expect("a thread").path().join("stat");
                std::fs::read_to_string(stat).is_ok_and(|stat| stat.contains(") T "))
            });
            threads.all(|is_stopped| is_stopped)
        };
        assert!(until(|| is_stopped().then_some(())).is_some(), "SIGSTOP does not stop the server");
    }

    /// Whether the server has ended for any reason.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_some()
    }

    /// Whether SIGKILL has ended the server.
    pub fn was_killed(&mut self) -> bool {
        let status = self.child.try_wait().expect("it can be asked");
        status.is_some_and(|status| status.signal() == Some(Signal::KILL.as_raw()))
    }

    /// Closes the server's standard error. The reading thread ends after the next line.
    pub fn close_stderr(&mut self) {
        self.stderr = None;
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it can be told");
    }

    /// Ends the server with SIGTERM. Returns the exit code and the duration.
    pub fn terminate(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("it ends");
        let took = began.elapsed();
        self.hear_out();
        (status.code(), took)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.expected.borrow().is_some() {
            self.catch_up();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            return;
        }
        if let Some(expected) = self.expected.take() {
            let inbox = self.inbox();
            assert_eq!(inbox.len(), expected, "the inbox holds {inbox:#?}");
        }
    }
}

struct Started {
    child: Child,
    address: SocketAddr,
    ops: SocketAddr,
    tls: Option<SocketAddr>,
    stderr: mpsc::Receiver<String>,
    stdout: mpsc::Receiver<String>,
}

fn spawn(
    runner: &[&str],
    site: &Path,
    data: &Path,
    arguments: &[String],
    environment: &[(String, String)],
) -> Result<Started, Vec<String>> {
    let mut command = frontdesk();
    if let [program, arguments @ ..] = runner {
        let server = command.get_program().to_owned();
        command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).env(MIN_FREE.0, MIN_FREE.1).args(arguments).arg(server);
    }
    if environment.iter().any(|(name, _)| name.starts_with(MIN_FREE.0)) {
        command.env_remove(MIN_FREE.0);
    }
    let mut child = command
        .arg("serve")
        .arg(site)
        .arg("--data-dir")
        .arg(data)
        .args(arguments)
        .args(unless_told(arguments, ["--listen", "127.0.0.1:0"]))
        .args(unless_told(arguments, ["--ops-listen", "127.0.0.1:0"]))
        .envs(std::env::var("FRONTDESK_TEST_FAST_LANE").map(|lane| ("FRONTDESK_SERVER__FAST_LANE", lane)))
        .envs(store_of(data))
        // New sites have the inbox's web interface on a fixed port.
        .env("FRONTDESK_INBOX__LISTEN", "off")
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let said = lines(child.stderr.take().expect("it is piped"));
    let told = lines(child.stdout.take().expect("it is piped"));
    let (mut public, mut private, mut tls) = (None, None, None);
    while public.is_none() || private.is_none() {
        let Ok(line) = told.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(said.iter().collect());
        };
        let after = |words: &str| line.strip_prefix(words)?.parse().ok();
        private = private.or_else(|| after("private listener on http://"));
        public = public.or_else(|| after("listening on http://"));
        tls = tls.or_else(|| after("listening on https://"));
    }
    let (address, ops) = (public.expect("it was said"), private.expect("it was said"));
    Ok(Started { child, address, ops, tls, stderr: said, stdout: told })
}

/// A flag and its value, unless the test's arguments contain the flag.
fn unless_told(arguments: &[String], flag: [&'static str; 2]) -> Vec<&'static str> {
    if arguments.iter().any(|argument| argument == flag[0]) { Vec::new() } else { flag.to_vec() }
}

/// The lines of a pipe, read until the receiver is dropped, so that the pipe does not fill up.
fn lines(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let pipe = BufReader::new(pipe);
    std::thread::spawn(move || pipe.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

fn not_started(said: &[String]) -> ! {
    panic!("the server did not start: {said:#?}")
}
