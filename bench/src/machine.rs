//! The machine: the cores that the servers and the load generator use, and a description for the report.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Bench;
use crate::peer::file_server::STATIC_WEB_SERVER;
use crate::suites::loading::generators::ZOLA_PACKAGE;

/// The cores that a thread and its child processes may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    Servers,
    Generator,
    /// Both cores, shared by the server and the load generator.
    Both,
}

/// The two cores of a measurement: the first and the last that this process may use.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    servers: usize,
    generator: usize,
}

impl Machine {
    /// Chooses the cores from those that this process may use. Fails if there is only one.
    pub fn of_this_process() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("cannot read the CPU affinity of this process")?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let has_two = allowed.len() >= 2;
        ensure!(has_two, "two cores are needed: one for the servers and one for the load generator");
        Ok(Self { servers: allowed[0], generator: allowed[allowed.len() - 1] })
    }

    pub fn core_numbers(self, cores: Cores) -> Vec<usize> {
        match cores {
            Cores::Servers => vec![self.servers],
            Cores::Generator => vec![self.generator],
            Cores::Both => vec![self.servers, self.generator],
        }
    }
}

impl Machine {
    /// Runs `work` and the processes that it starts on `cores`. Then binds this thread to the core of the
    /// load generator again.
    pub fn run_on<T>(self, cores: Cores, work: impl FnOnce() -> T) -> Result<T> {
        pin(&self.core_numbers(cores))?;
        let result = work();
        pin(&self.core_numbers(Cores::Generator))?;
        Ok(result)
    }
}

/// Binds this thread, and the processes that it starts, to the cores with these numbers.
pub fn pin(numbers: &[usize]) -> Result<()> {
    pin_thread(None, numbers)
}

/// Binds the first thread of a process, and the processes that it starts, to the cores with these numbers.
pub fn pin_process(process: u32, numbers: &[usize]) -> Result<()> {
    pin_thread(Pid::from_raw(process.cast_signed()), numbers)
}

fn pin_thread(thread: Option<Pid>, numbers: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for number in numbers {
        set.set(*number);
    }
    sched_setaffinity(thread, &set).context("cannot bind a thread to its cores")
}

/// Describes the machine and the program versions as names and values. Unknown values are "not found".
pub fn describe(bench: &Bench) -> Vec<(String, String)> {
    let uname = rustix::system::uname();
    let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let memory =
        read_field("/proc/meminfo", "MemTotal:").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let memory = memory.map(|kilobytes| format!("{:.0} GB", kilobytes as f64 / 1_048_576.0));
    let cores = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = cores.lines().filter(|line| line.starts_with("processor")).count();
    let system = read_field("/etc/os-release", "PRETTY_NAME=").map(|name| name.trim_matches('"').to_owned());
    let static_web_server = bench.tools.join(STATIC_WEB_SERVER);
    let zola = bench.tools.join(ZOLA_PACKAGE);
    let unquote = |text: &str| text.trim_matches(['"', ',']).to_owned();
    let pairs = [
        ("processor", read_field("/proc/cpuinfo", "model name")),
        ("cores", Some(cores.to_string())),
        ("memory", memory),
        ("kernel", Some(kernel)),
        ("system", system),
        ("frontdesk", read_version(&bench.frontdesk, "--version", 1)),
        ("nginx", read_version("nginx", "-v", 2)),
        ("Caddy", read_version("caddy", "version", 0)),
        ("h2load", read_version("h2load", "--version", 1)),
        ("static-web-server", read_version(&static_web_server, "--version", 1)),
        ("Zola", read_field(&zola.display().to_string(), "  \"version\"").map(|text| unquote(&text))),
        ("Hugo", read_version("hugo", "version", 1)),
        ("compiler", read_version("rustc", "--version", 1)),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.unwrap_or_else(|| "not found".to_owned()))).into()
}

fn read_field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches(['\t', ' ', ':']).trim().to_owned())
}

/// Reads a program's version: the word at index `word` in the first line of its output.
fn read_version(program: impl AsRef<OsStr>, question: &str, word: usize) -> Option<String> {
    let output = Command::new(program).arg(question).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().next()?.split_whitespace().nth(word).map(|word| word.trim_start_matches("nginx/").to_owned())
}
