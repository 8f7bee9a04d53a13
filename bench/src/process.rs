//! Runs programs, and reads the memory usage and CPU time of a process and its descendants from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

/// A clock tick in nanoseconds: `/proc` counts CPU time in 1/100 s on all architectures (`USER_HZ`).
const TICK: u64 = 10_000_000;

/// User and system CPU time of a process and its descendants.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// CPU time of each thread by its id, in nanoseconds.
    pub threads: BTreeMap<u32, u64>,
}

impl Usage {
    pub fn total(&self) -> u64 {
        self.threads.values().sum()
    }

    /// CPU time of each thread since `before`, in nanoseconds and in descending order.
    pub fn since(&self, before: &Self) -> Vec<u64> {
        let earlier = |thread| before.threads.get(thread).copied().unwrap_or(0);
        let spent = self.threads.iter().map(|(thread, spent)| spent.saturating_sub(earlier(thread)));
        let mut spent: Vec<u64> = spent.filter(|spent| *spent > 0).collect();
        spent.sort_unstable_by(|a, b| b.cmp(a));
        spent
    }
}

/// Memory of a process and all its descendants, in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Memory {
    /// Resident memory. Shared memory is counted once for each process.
    pub rss: u64,
    /// Proportional set size: shared memory is divided among the processes that share it.
    pub pss: u64,
    /// Part of `rss` that is not backed by a file.
    pub anonymous: u64,
    /// Part of `rss` that is backed by a file, mostly the program. The kernel can drop and reload it.
    pub file: u64,
}

/// Returns a program's standard output. If the program fails, the error contains its standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The CPU time of `root` and its descendants. Threads that have already ended are not included.
pub fn cpu_usage(root: u32) -> Usage {
    let threads = process_tree(root).into_iter().flat_map(task_folders);
    let spent = |task: PathBuf| Some((task.file_name()?.to_str()?.parse().ok()?, thread_cpu_time(&task)?));
    Usage { threads: threads.filter_map(spent).collect() }
}

fn task_folders(process: u32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// The CPU time of a thread in nanoseconds: exact if the kernel provides `schedstat`, otherwise in steps of
/// 10 ms.
fn thread_cpu_time(task: &Path) -> Option<u64> {
    let read = |file| fs::read_to_string(task.join(file)).ok();
    let exact = read("schedstat").and_then(|text| text.split(' ').next()?.parse().ok());
    exact.filter(|spent| *spent > 0).or_else(|| Some(parse_ticks(&read("stat")?)? * TICK))
}

/// User and system time in clock ticks: fields 14 and 15. Field 2, the name, can contain spaces and brackets.
fn parse_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// The process `root` and its descendants.
pub fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while next < tree.len() {
        for task in task_folders(tree[next]) {
            let children = fs::read_to_string(task.join("children")).unwrap_or_default();
            tree.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    tree
}

pub fn memory_usage(root: u32) -> Result<Memory> {
    let mut rollups = String::new();
    for process in process_tree(root) {
        let path = format!("/proc/{process}/smaps_rollup");
        rollups += &fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    }
    Ok(parse_memory(&rollups))
}

fn parse_memory(rollups: &str) -> Memory {
    let field = |name: &str| {
        let lines = rollups.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum::<u64>() * 1024
    };
    let (rss, anonymous) = (field("Rss"), field("Anonymous"));
    Memory { rss, pss: field("Pss"), anonymous, file: rss.saturating_sub(anonymous) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_a_program_name_are_parsed() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 100 1 1";
        assert_eq!(parse_ticks(stat), Some(300));
    }

    #[test]
    fn anonymous_and_file_memory_are_separate() {
        let memory = parse_memory(
            "5-6 ---p [rollup]\nRss:   2048 kB\nPss:  1024 kB\nPss_Anon: 3 kB\nAnonymous: 512 kB\n",
        );
        assert_eq!((memory.rss, memory.pss), (2 << 20, 1 << 20));
        assert_eq!((memory.anonymous, memory.file), (512 << 10, 1536 << 10));
    }

    #[test]
    fn usage_lists_the_busiest_thread_first() {
        let before = Usage { threads: [(1, 10), (2, 10)].into() };
        let after = Usage { threads: [(1, 15), (2, 40), (3, 7), (4, 0)].into() };
        assert_eq!(after.since(&before), [30, 7, 5]);
        assert_eq!(after.total(), 62);
    }

    #[test]
    fn usage_and_memory_of_this_process_are_read() {
        let own = std::process::id();
        assert!(cpu_usage(own).total() > 0);
        assert!(memory_usage(own).is_ok_and(|memory| memory.rss > memory.anonymous && memory.pss > 0));
    }
}
