//! What a process and its children use: processor time by thread, and memory. Read from `/proc`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Nanoseconds in the kernel's unit of processor time, 1/100 s, which is fixed on Linux's interface to programs.
const TICK: u64 = 10_000_000;

/// Processor time, user's and system's, of a process and all its descendants.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Nanoseconds of each thread, by its number.
    pub threads: Vec<(u32, u64)>,
}

impl Usage {
    /// Nanoseconds of all threads together.
    pub fn total(&self) -> u64 {
        self.threads.iter().map(|(_, spent)| spent).sum()
    }

    /// What was spent since `before`, by thread, most first.
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
    /// Resident: whatever is in memory, counted in each process that has it.
    pub rss: u64,
    /// Resident, with what several processes share divided among them.
    pub pss: u64,
    /// Of `rss`, what belongs to no file.
    pub anonymous: u64,
    /// Of `rss`, what belongs to a file, most of all the program itself; the kernel can drop and read it again.
    pub file: u64,
}

/// The processor time of `root` and its descendants so far. Threads that have ended do not count.
pub fn usage(root: u32) -> Usage {
    let mut threads = Vec::new();
    for process in family(root) {
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

/// To the nanosecond where the kernel counts that way, to 10 ms elsewhere.
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

/// User's and system's time in `/proc/PID/stat`: the fields 14 and 15, where the second one may hold spaces and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// A process and its descendants.
pub fn family(root: u32) -> Vec<u32> {
    let mut family = vec![root];
    let mut next = 0;
    while next < family.len() {
        let process = family[next];
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    family
}

/// The memory of `root` and its descendants now.
pub fn memory(root: u32) -> Result<Memory> {
    let mut sum = Memory::default();
    for process in family(root) {
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
    fn a_program_s_name_does_not_confuse_its_times() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 100 1 1";
        assert_eq!(ticks(stat), Some(300));
    }

    #[test]
    fn what_belongs_to_no_file_is_told_from_what_does() {
        let memory = parse_memory(
            "5-6 ---p [rollup]\nRss:   2048 kB\nPss:  1024 kB\nPss_Anon: 3 kB\nAnonymous: 512 kB\n",
        );
        assert_eq!((memory.rss, memory.pss), (2 << 20, 1 << 20));
        assert_eq!((memory.anonymous, memory.file), (512 << 10, 1536 << 10));
    }

    #[test]
    fn what_was_spent_is_told_by_thread_the_busiest_first() {
        let before = Usage { threads: vec![(1, 10), (2, 10)] };
        let after = Usage { threads: vec![(1, 15), (2, 40), (3, 7), (4, 0)] };
        assert_eq!(after.since(&before), [30, 7, 5]);
        assert_eq!(after.total(), 62);
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let own = std::process::id();
        assert!(usage(own).total() > 0);
        assert!(memory(own).is_ok_and(|memory| memory.rss > memory.anonymous && memory.pss > 0));
    }
}
