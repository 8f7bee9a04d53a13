//! Which processor runs what: servers on one core, the load generator on another.

use anyhow::{Context as _, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that a thread, and every process that it starts, may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// The servers' own.
    Servers,
    /// The load generator's own.
    Generator,
    /// Both, which server and generator then share.
    Both,
}

/// The two cores that are measured on: the first and the last that this process was given.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    servers: usize,
    generator: usize,
}

impl Machine {
    /// Looks at what this process may use. An error where that is a single core: server and generator would be measured together.
    pub fn of_this_process() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("which cores may be used cannot be told")?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        ensure!(
            allowed.len() >= 2,
            "two cores are needed, one for the servers and one for the load generator"
        );
        Ok(Self { servers: allowed[0], generator: allowed[allowed.len() - 1] })
    }

    /// The numbers of `cores`.
    pub fn numbers(self, cores: Cores) -> Vec<usize> {
        match cores {
            Cores::Servers => vec![self.servers],
            Cores::Generator => vec![self.generator],
            Cores::Both => vec![self.servers, self.generator],
        }
    }

    /// Keeps this thread, and what it starts from now on, to `cores`.
    pub fn keep_to(self, cores: Cores) -> Result<()> {
        keep_to(&self.numbers(cores))
    }
}

/// Keeps this thread, and what it starts from now on, to the cores of these numbers.
pub fn keep_to(numbers: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for number in numbers {
        set.set(*number);
    }
    sched_setaffinity(None, &set).context("a thread cannot be kept to its core")
}
