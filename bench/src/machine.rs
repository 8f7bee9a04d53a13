//! The cores that the servers and the load generator use.

use anyhow::{Context as _, Result, ensure};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that a thread and its child processes may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    Servers,
    Generator,
    /// Both cores, shared by the server and the load generator.
    Both,
}

/// The two cores of a measurement: the first and the last that this process may use.
#[derive(Debug, Clone, Copy, Default)]
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

    /// Runs `work` and the processes that it starts on `cores`. Then binds this thread to the core of the
    /// load generator again.
    pub fn run_on<T>(self, cores: Cores, work: impl FnOnce() -> T) -> Result<T> {
        pin(None, &self.core_numbers(cores))?;
        let result = work();
        pin(None, &self.core_numbers(Cores::Generator))?;
        Ok(result)
    }
}

/// Binds this thread, or the first thread of a process, to the cores with these numbers. Processes that it
/// starts inherit them.
pub fn pin(process: Option<Pid>, numbers: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for number in numbers {
        set.set(*number);
    }
    sched_setaffinity(process, &set).context("cannot bind a thread to its cores")
}
