//! Keeps memory below `server.max_memory`: closes the connections that hold the most when memory is short.
//!
//! Connections charge their memory to their slots (`connection_memory.rs`); plain HTTP/1.1 requests charge
//! nothing. When resident memory nears the limit, a thread closes connections: first those of the network
//! that holds the most and, within it, of the source that holds the most. The site, the limiter's tables and
//! a reload also use memory. Closing connections does not free that memory, so connections may always hold an
//! eighth of the limit.

use std::collections::{BinaryHeap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::conn_limits::Holding;
use super::connection_memory::{Closing, Slot};
use super::options::Options;
use super::server_state::Server;
use frontdesk_limits::{Source, SourceNetwork};
use frontdesk_process::allocator;

/// The bytes that the server needs besides the site and connections: 40 MB for the program and the database,
/// 40 MiB for the limiter.
pub const NEEDED: u64 = 80 << 20;

/// The time between two measurements while less than half of the limit is used.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time between two measurements while half of the limit or more is used.
const SHORT_INTERVAL: Duration = Duration::from_millis(20);

/// An eighth of the limit is kept free: memory grows between measurements, and closing takes a moment.
const RESERVE_DIVISOR: u64 = 8;

/// At least this many bytes or a quarter of the limit, whichever is less, are kept free: memory grows just as
/// fast under a low limit.
const LEAST_RESERVE: u64 = 32 << 20;

/// Connections may always hold an eighth of the limit.
const ALLOWANCE_DIVISOR: u64 = 8;

/// How long new connections from a source are refused after its connections were closed.
const BLOCKED_FOR: Duration = Duration::from_secs(10);

/// How long memory must be above the limit before the log says that connections are not the cause (a reload
/// may briefly need more), and the time from the last closure until the log reports recovery.
const PATIENCE: Duration = Duration::from_secs(10);

/// A warning about memory is repeated after this time if its cause persists.
const WARN_EVERY: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// There is enough memory, or enough connections are being closed.
    Nothing,
    /// Connections that together hold this many bytes must be closed.
    Shed(u64),
    /// There is too little memory, but connections are not the cause.
    Warn,
}

/// Chooses how to react to the resident memory. All amounts are in bytes. `held` is the memory of all
/// connections, `closing` that of closing ones, which is expected to be freed. Above the closing threshold,
/// sheds enough to be [`reserve`] below it, but leaves the connections an eighth of the limit. Warns if there
/// is nothing to shed, nothing is closing, and memory is above the limit itself.
fn decide_action(resident: u64, held: u64, closing: u64, limit: u64) -> Action {
    let threshold = closing_threshold(limit);
    let expected = resident.saturating_sub(closing);
    // Aim below the threshold, because the memory of open connections continues to grow.
    let excess = if expected > threshold { expected + reserve(limit) - threshold } else { 0 };
    let surplus = held.saturating_sub(closing).saturating_sub(limit / ALLOWANCE_DIVISOR);
    match excess.min(surplus) {
        0 if resident > limit && closing == 0 => Action::Warn,
        0 => Action::Nothing,
        bytes => Action::Shed(bytes),
    }
}

/// How many bytes of the memory limit are kept free: an eighth, or more if the limit is low
/// ([`LEAST_RESERVE`]).
fn reserve(limit: u64) -> u64 {
    (limit / RESERVE_DIVISOR).max(LEAST_RESERVE.min(limit / 4))
}

/// The resident memory above which connections are closed, in bytes.
fn closing_threshold(limit: u64) -> u64 {
    limit - reserve(limit)
}

/// The connections to close in order to free `bytes`. They are chosen one by one, each from the network that
/// holds the most memory at that point: the largest one of the source that held the most at first. All of
/// them if they hold less.
fn connections_to_close(mut holdings: Vec<Holding>, bytes: u64) -> Vec<Holding> {
    let mut of_source: HashMap<Source, usize> = HashMap::new();
    let mut of_network: HashMap<SourceNetwork, usize> = HashMap::new();
    for holding in &holdings {
        *of_source.entry(holding.source).or_default() += holding.bytes;
        *of_network.entry(holding.source.network()).or_default() += holding.bytes;
    }
    // Connections are taken from the end, so sort the first ones to close there: those of the source that
    // holds the most, and of these the largest.
    holdings.sort_unstable_by_key(|holding| (of_source[&holding.source], holding.source, holding.bytes));
    let mut by_network: HashMap<SourceNetwork, Vec<Holding>> = HashMap::new();
    for holding in holdings {
        by_network.entry(holding.source.network()).or_default().push(holding);
    }
    let mut networks: BinaryHeap<_> =
        of_network.into_iter().map(|(network, bytes)| (bytes, network)).collect();
    let mut chosen = Vec::new();
    let mut freed = 0;
    while freed < bytes
        && let Some((held, network)) = networks.pop()
    {
        let Some(holding) = by_network.get_mut(&network).and_then(Vec::pop) else { continue };
        networks.push((held - holding.bytes, network));
        freed += holding.bytes as u64;
        chosen.push(holding);
    }
    chosen
}

/// Measures memory and, if returning free memory to the system is not enough, closes connections and refuses
/// new ones from their sources for `BLOCKED_FOR`. Blocks until the sender of `stop` is dropped. Without a
/// limit, only ends expired blocks of sources. Where resident memory cannot be measured, uses what
/// connections hold instead.
pub(super) fn watch<S: AsRef<Options>>(server: &Server<S>, stop: &Receiver<()>) {
    let connections = &server.connections;
    let mut log = Log::default();
    let mut interval = INTERVAL;
    while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        connections.lift_expired_blocks(now);
        let Some(limit) = (**server.snapshot.load()).as_ref().max_memory else { continue };
        let measured = || Some(resident_memory()? + server.body_copies.bytes());
        let resident = measured();
        interval =
            if resident.is_some_and(|resident| resident < limit / 2) { INTERVAL } else { SHORT_INTERVAL };
        if resident.is_some_and(|resident| resident <= closing_threshold(limit)) {
            log.record_recovery(now);
            continue;
        }
        let holdings = connections.holdings();
        let held = total_bytes(&holdings, |_| true);
        let closing = total_bytes(&holdings, |slot| slot.closing() == Some(Closing::Now));
        let decision = || decide_action(measured().unwrap_or(held), held, closing, limit);
        match decision() {
            Action::Nothing => continue,
            Action::Warn if !log.record_other_cause(now) => continue,
            Action::Warn | Action::Shed(_) => {}
        }
        // Freed memory may still be resident: return it to the system, and decide again.
        allocator::release_memory();
        match decision() {
            Action::Nothing => {}
            Action::Shed(bytes) => {
                let open =
                    holdings.into_iter().filter(|holding| holding.slot.closing() != Some(Closing::Now));
                let chosen = connections_to_close(open.collect(), bytes);
                connections.close_and_block(&chosen, now + BLOCKED_FOR);
                log.record_closed(chosen.len(), held, limit, now);
            }
            Action::Warn => log.warn_of_other_cause(held, limit, now),
        }
    }
}

fn total_bytes(holdings: &[Holding], which: impl Fn(&Slot) -> bool) -> u64 {
    holdings.iter().filter(|holding| which(&holding.slot)).map(|holding| holding.bytes as u64).sum()
}

/// Logs that connections were closed for memory, that the limit is exceeded for another reason, and that
/// there is enough memory again. Repeats a warning at most every ten minutes.
#[derive(Debug, Default)]
struct Log {
    /// How many connections have been closed since the last report of recovery, and when the last one was
    /// closed.
    closed: Option<(usize, Instant)>,
    closing_warned_at: Option<Instant>,
    /// The time at which memory rose above the limit for a reason other than connections.
    above_since: Option<Instant>,
    above_warned_at: Option<Instant>,
}

impl Log {
    /// Counts closed connections. Logs a warning on the first closure since the last recovery, and again
    /// every [`WARN_EVERY`] while closures continue.
    fn record_closed(&mut self, count: usize, held: u64, limit: u64, now: Instant) {
        if self.closed.is_none() || may_warn_again(self.closing_warned_at, now) {
            self.closing_warned_at = Some(now);
            tracing::warn!(
                connections_bytes = held,
                max_memory_bytes = limit,
                "memory has nearly reached `server.max_memory`: closing the connections that use the most, and refusing connections from their sources for {} seconds; if this keeps happening when the server is not under attack, raise the limit",
                BLOCKED_FOR.as_secs()
            );
        }
        self.closed = Some((self.closed.map_or(0, |(before, _)| before) + count, now));
    }

    /// Records that memory is below the closing threshold. Logs that once, [`PATIENCE`] after the last
    /// closure, if connections were closed.
    fn record_recovery(&mut self, now: Instant) {
        self.above_since = None;
        if let Some((count, at)) = self.closed
            && now.saturating_duration_since(at) >= PATIENCE
        {
            self.closed = None;
            tracing::info!(closed_connections = count, "memory is below `server.max_memory` again");
        }
    }

    /// Records that memory is above the limit for a reason other than connections. Returns whether a warning
    /// is due: memory has been above for [`PATIENCE`], and the last warning is [`WARN_EVERY`] ago.
    fn record_other_cause(&mut self, now: Instant) -> bool {
        let since = *self.above_since.get_or_insert(now);
        now.saturating_duration_since(since) >= PATIENCE && may_warn_again(self.above_warned_at, now)
    }

    /// Logs that memory is short for a reason other than connections, and records the time of the warning.
    fn warn_of_other_cause(&mut self, held: u64, limit: u64, now: Instant) {
        self.above_warned_at = Some(now);
        tracing::warn!(
            connections_bytes = held,
            max_memory_bytes = limit,
            "memory is above `server.max_memory`, but connections hold little of it, so none are closed: raise the limit"
        );
    }
}

fn may_warn_again(warned_at: Option<Instant>, now: Instant) -> bool {
    warned_at.is_none_or(|at| now.saturating_duration_since(at) >= WARN_EVERY)
}

/// The resident memory of this process in bytes; `None` if `/proc` is not available. The status file stays
/// open, so that it can be read often, even when no file descriptor is free.
pub fn resident_memory() -> Option<u64> {
    static STATUS: OnceLock<Option<File>> = OnceLock::new();
    let status = STATUS.get_or_init(|| File::open("/proc/self/status").ok()).as_ref()?;
    let mut text = [0; 4096];
    let length = status.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok().and_then(|status| parse_size(status, "VmRSS"))
}

/// Parses the size called `name`, in kB, in the text of `/proc/self/status` or `/proc/meminfo`. Returns
/// bytes; `None` if there is no such size.
fn parse_size(text: &str, name: &str) -> Option<u64> {
    let size = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// The default limit: a share of the memory of the control group (version 2) or the machine, whichever is
/// less. `None` if neither can be read.
pub fn default_limit() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_size(&text, "MemTotal"));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| cgroup_limit(Path::new("/sys/fs/cgroup"), cgroup_path(&text)?));
    machine.into_iter().chain(group).min().map(default_share)
}

/// Half of the memory: reloads, kernel buffers and other programs need the rest. On a small machine, half may
/// not be enough even for a small site. There, the share is one and a half times [`NEEDED`], but at least an
/// eighth of the memory stays free.
fn default_share(memory: u64) -> u64 {
    (memory / 2).max(NEEDED + NEEDED / 2).min(memory - memory / 8)
}

/// The path of the control group in `/proc/self/cgroup` (cgroups(7)), without the first slash. `None` unless
/// it is a group of version 2.
fn cgroup_path(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// The lowest `memory.max` of a control group and its ancestors. `None` if there is no limit.
fn cgroup_limit(root: &Path, group: &str) -> Option<u64> {
    let folder = root.join(group);
    let folders = folder.ancestors().take_while(|folder| folder.starts_with(root));
    let limits =
        folders.filter_map(|folder| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok());
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MB: u64 = 1 << 20;

    fn holding(source: [u8; 4], bytes: usize) -> Holding {
        Holding { source: Source::V4(source), bytes, slot: Arc::default() }
    }

    #[test]
    fn connections_are_closed_only_if_they_hold_the_memory() {
        let check = |resident: u64, held: u64, closing: u64, expected: Action| {
            let action = decide_action(resident * MB, held * MB, closing * MB, 160 * MB);
            assert_eq!(action, expected, "{resident} {held} {closing}");
        };
        check(100, 90, 0, Action::Nothing);
        check(128, 90, 0, Action::Nothing);
        check(129, 90, 0, Action::Shed(33 * MB));
        check(400, 90, 0, Action::Shed(70 * MB));
        // Connections that are being closed count as free.
        check(133, 90, 5, Action::Nothing);
        check(138, 90, 5, Action::Shed(37 * MB));
        check(400, 90, 80, Action::Nothing);
        // Connections may always hold an eighth of the limit.
        check(400, 21, 0, Action::Shed(MB));
        check(400, 20, 0, Action::Warn);
        check(160, 20, 0, Action::Nothing);
        check(161, 0, 0, Action::Warn);
        for (limit, least) in [(64, 48), (128, 96), (160, 128), (256, 224), (1024, 896)] {
            assert_eq!(closing_threshold(limit * MB), least * MB, "{limit}");
            assert_eq!(2 * reserve(limit * MB), 2 * (limit - least) * MB, "{limit}");
        }
    }

    #[test]
    fn the_most_expensive_source_of_the_most_expensive_network_is_first() {
        let holdings = || {
            vec![
                holding([192, 0, 2, 1], 50),
                holding([192, 0, 2, 1], 10),
                holding([192, 0, 2, 1], 30),
                holding([192, 0, 2, 2], 70),
                holding([198, 51, 100, 1], 60),
                holding([203, 0, 113, 1], 45),
                holding([203, 0, 113, 2], 45),
            ]
        };
        let check = |bytes: u64, expected: &[usize]| {
            let chosen: Vec<usize> =
                connections_to_close(holdings(), bytes).iter().map(|chosen| chosen.bytes).collect();
            assert_eq!(chosen, expected, "{bytes}");
        };
        check(0, &[]);
        check(1, &[50]);
        check(51, &[50, 30]);
        // Now another network holds more.
        check(81, &[50, 30, 45]);
        check(u64::MAX, &[50, 30, 45, 10, 70, 60, 45]);
    }

    #[test]
    fn each_memory_event_is_logged_once() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut log = Log::default();
        assert!(!log.record_other_cause(after(0)) && !log.record_other_cause(after(9)));
        log.record_recovery(after(9));
        assert!(!log.record_other_cause(after(10)) && log.record_other_cause(after(20)));
        log.warn_of_other_cause(0, 0, after(20));
        assert!(!log.record_other_cause(after(21)) && log.record_other_cause(after(620)));
        log.record_closed(2, 0, 0, after(630));
        log.record_closed(3, 0, 0, after(631));
        assert_eq!(log.closed, Some((5, after(631))));
        assert_eq!(log.closing_warned_at, Some(after(630)));
        log.record_recovery(after(640));
        assert!(log.closed.is_some());
        log.record_recovery(after(641));
        assert!(log.closed.is_none());
        log.record_closed(1, 0, 0, after(650));
        log.record_closed(1, 0, 0, after(1249));
        assert_eq!(log.closing_warned_at, Some(after(650)));
        log.record_closed(1, 0, 0, after(1250));
        assert_eq!(log.closing_warned_at, Some(after(1250)));
    }

    #[test]
    fn the_limit_is_that_of_the_control_group_or_the_machine() {
        assert_eq!(parse_size("MemTotal:        2048 kB\nMemFree: 1 kB\n", "MemTotal"), Some(2 * MB));
        assert_eq!(parse_size("MemFree: 1 kB\n", "MemTotal"), None);
        assert_eq!(parse_size("Name:\ta\nVmRSS:\t   24576 kB\nThreads:\t1\n", "VmRSS"), Some(24 * MB));
        for (memory, share) in [(4096, 2048), (512, 256), (160, 120), (128, 112)] {
            assert_eq!(default_share(memory * MB), share * MB, "{memory}");
        }
        assert_eq!(
            cgroup_path("0::/system.slice/frontdesk.service\n"),
            Some("system.slice/frontdesk.service")
        );
        assert_eq!(cgroup_path("4:memory:/x\n0::/\n"), Some(""));
        assert_eq!(cgroup_path("4:memory:/x\n"), None);
        let root = tempfile::tempdir().expect("a folder");
        let group = root.path().join("system.slice/frontdesk.service");
        std::fs::create_dir_all(&group).expect("a folder");
        let write = |folder: &Path, text: &str| std::fs::write(folder.join("memory.max"), text);
        let limit = || cgroup_limit(root.path(), "system.slice/frontdesk.service");
        assert_eq!(limit(), None);
        write(&group, "max\n").expect("written");
        assert_eq!(limit(), None);
        write(&root.path().join("system.slice"), "1048576\n").expect("written");
        assert_eq!(limit(), Some(MB));
        write(&group, "4096\n").expect("written");
        assert_eq!(limit(), Some(4096));
    }
}
