//! Runs programs, and reads the memory usage and CPU time of a process and its descendants from `/proc`.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use procfs::process::{Process, Task};

/// A clock tick in nanoseconds: `/proc` counts CPU time in 1/100 s on all architectures (`USER_HZ`).
const TICK: u64 = 10_000_000;

/// User and system CPU time of each thread by its id, in nanoseconds.
pub type Usage = BTreeMap<u32, u64>;

/// CPU time of each thread between two readings, in nanoseconds and in descending order. Leaves out threads
/// that used none, and those that ended before the second reading.
pub fn usage_between(before: &Usage, after: &Usage) -> Vec<u64> {
    let earlier = |thread| before.get(thread).copied().unwrap_or(0);
    let spent = after.iter().map(|(thread, spent)| spent.saturating_sub(earlier(thread)));
    let mut spent: Vec<u64> = spent.filter(|spent| *spent > 0).collect();
    spent.sort_unstable_by(|a, b| b.cmp(a));
    spent
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
    let tasks = process_tree(root).into_iter().flat_map(tasks);
    tasks.filter_map(|task| Some((task.tid.cast_unsigned(), thread_cpu_time(&task)?))).collect()
}

fn tasks(process: u32) -> impl Iterator<Item = Task> {
    let tasks = Process::new(process.cast_signed()).and_then(|process| process.tasks());
    tasks.into_iter().flatten().flatten()
}

/// The CPU time of a thread in nanoseconds: exact if the kernel provides `schedstat`, otherwise in steps of
/// 10 ms.
fn thread_cpu_time(task: &Task) -> Option<u64> {
    match task.schedstat() {
        Ok(times) if times.sum_exec_runtime > 0 => Some(times.sum_exec_runtime),
        _ => task.stat().ok().map(|times| (times.utime + times.stime) * TICK),
    }
}

/// The process `root` and its descendants.
pub fn process_tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while next < tree.len() {
        tree.extend(tasks(tree[next]).filter_map(|task| task.children().ok()).flatten());
        next += 1;
    }
    tree
}

/// Memory of a process and its descendants, in bytes. Fails if one of them ends meanwhile.
///
/// - resident memory, in which shared memory is counted once for each process;
/// - the proportional set size, in which shared memory is divided among processes;
/// - the part of resident memory that is not backed by a file;
/// - the part that is backed by a file, mostly the program, which the kernel can drop and reload.
pub fn memory_usage(root: u32) -> Result<[u64; 4]> {
    let [mut resident, mut proportional, mut anonymous] = [0; 3];
    for process in process_tree(root) {
        let rollup = Process::new(process.cast_signed())?.smaps_rollup()?;
        for map in rollup.memory_map_rollup.0 {
            let field = |name: &str| map.extension.map.get(name).copied().unwrap_or(0);
            resident += field("Rss");
            proportional += field("Pss");
            anonymous += field("Anonymous");
        }
    }
    Ok([resident, proportional, anonymous, resident.saturating_sub(anonymous)])
}

/// The peak of a process's resident memory, in bytes.
pub fn memory_peak(process: u32) -> Result<u64> {
    let kibibytes = Process::new(process.cast_signed())?.status()?.vmhwm;
    Ok(kibibytes.context("the kernel reports no peak of memory")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_lists_the_busiest_thread_first() {
        let before = Usage::from([(1, 10), (2, 10)]);
        let after = Usage::from([(1, 15), (2, 40), (3, 7), (4, 0)]);
        assert_eq!(usage_between(&before, &after), [30, 7, 5]);
    }

    #[test]
    fn usage_and_memory_of_this_process_are_read() {
        let own = std::process::id();
        assert!(cpu_usage(own).values().sum::<u64>() > 0);
        assert!(
            memory_usage(own).is_ok_and(|[all, _, anonymous, file]| anonymous > 0 && all == anonymous + file)
        );
    }
}
