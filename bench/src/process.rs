//! CPU time by thread and memory of a process and its descendants, from `/proc`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Nanoseconds of a clock tick: `/proc` counts CPU time in 1/100 s on all architectures (`USER_HZ`).
const TICK: u64 = 10_000_000;

/// CPU time, user and system, of a process and its descendants.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Id and nanoseconds of each thread.
    pub threads: Vec<(u32, u64)>,
}

impl Usage {
    /// Nanoseconds of all threads.
    pub fn total(&self) -> u64 {
        self.threads.iter().map(|(_, spent)| spent).sum()
    }

    /// Nanoseconds of each thread since `before`, in descending order.
    pub fn since(&self, before: &Self) -> Vec<u64> {
        let earlier = |thread: u32| {
            before.threads.iter().find(|(number, _)| *number == thread).map_or(0, |(_, spent)| *spent)
        };
        let mut spent: Vec<u64> = self
            .threads
            .iter()
            .map(|(thread, spent)| spent.saturating_sub(earlier(*thread)))
            .filter(|spent| *spent > 0)
            .collect();
        spent.sort_unstable_by(|a, b| b.cmp(a));
        spent
    }
}

/// Memory of a process and all its descendants, in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Memory {
    /// Resident memory. Shared memory counts in each process.
    pub rss: u64,
    /// Proportional set size: shared memory is divided among the processes.
    pub pss: u64,
    /// Part of `rss` that is not backed by a file.
    pub anonymous: u64,
    /// Part of `rss` that is backed by a file, mostly the program. The kernel can drop and reload it.
    pub file: u64,
}

/// The CPU time of `root` and its descendants. Threads that have ended do not count.
pub fn usage(root: u32) -> Usage {
    let mut threads = Vec::new();
    for process in process_tree(root) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for task in tasks.flatten() {
            let Some(number) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(spent) = spent(&task.path()) {
                threads.push((number, spent));
            }
        }
    }
    Usage { threads }
}

/// Exact if the kernel provides `schedstat`, otherwise in steps of 10 ms.
fn spent(task: &Path) -> Option<u64> {
    let exact = fs::read_to_string(task.join("schedstat")).ok();
    if let Some(spent) =
        exact.and_then(|text| text.split(' ').next()?.parse().ok()).filter(|spent| *spent > 0)
    {
        return Some(spent);
    }
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    ticks(&stat).map(|ticks| ticks * TICK)
}

/// Fields 14 and 15 of `/proc/PID/stat`, user and system time. Field 2, the program name, can contain spaces
/// and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// The ids of a process and its descendants.
pub fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while next < tree.len() {
        let process = tree[next];
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            tree.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    tree
}

/// The memory of `root` and its descendants.
pub fn memory(root: u32) -> Result<Memory> {
    let mut sum = Memory::default();
    for process in process_tree(root) {
        let path = format!("/proc/{process}/smaps_rollup");
        let text = fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
        let of = parse_memory(&text);
        sum.rss += of.rss;
        sum.pss += of.pss;
        sum.anonymous += of.anonymous;
        sum.file += of.file;
    }
    Ok(sum)
}

fn parse_memory(rollup: &str) -> Memory {
    let field = |name: &str| {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
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
        assert_eq!(ticks(stat), Some(300));
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
        let before = Usage { threads: vec![(1, 10), (2, 10)] };
        let after = Usage { threads: vec![(1, 15), (2, 40), (3, 7), (4, 0)] };
        assert_eq!(after.since(&before), [30, 7, 5]);
        assert_eq!(after.total(), 62);
    }

    #[test]
    fn usage_and_memory_of_this_process_are_read() {
        let own = std::process::id();
        assert!(usage(own).total() > 0);
        assert!(memory(own).is_ok_and(|memory| memory.rss > memory.anonymous && memory.pss > 0));
    }
}
