//! Metrics about this process, read from `/proc`. A metric that cannot be read is omitted.

use std::fs;

use super::exposition::Exposition;
use frontdesk_http::resident_memory;

/// Clock ticks per second in `/proc/PID/stat` (`USER_HZ`): 100 on every supported architecture.
const TICKS_A_SECOND: f64 = 100.0;

/// Writes the standard process metrics that Prometheus client libraries export. Blocks to read `/proc`.
pub(super) fn write_process(out: &mut Exposition) {
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        // Do not count the descriptor that `read_dir` opened.
        let open = descriptors.count().saturating_sub(1);
        out.single("process_open_fds", open);
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = most.map_or_else(|| "+Inf".to_owned(), |most| most.to_string());
    out.single("process_max_fds", most);
    if let Some(bytes) = resident_memory() {
        out.single("process_resident_memory_bytes", bytes);
    }
    let times = fs::read_to_string("/proc/self/stat").ok().and_then(|text| parse_times(&text));
    let Some((cpu, began)) = times else { return };
    out.single("process_cpu_seconds_total", cpu);
    if let Some(booted) = fs::read_to_string("/proc/stat").ok().and_then(|text| parse_boot_time(&text)) {
        out.single("process_start_time_seconds", booted + began);
    }
}

/// Parses CPU time and start time relative to boot, in seconds, from `/proc/self/stat` (`proc_pid_stat(5)`).
fn parse_times(stat: &str) -> Option<(f64, f64)> {
    // The command name, in parentheses, may contain spaces and parentheses; the following fields do not.
    let rest = stat.rsplit_once(") ")?.1;
    // `rest` begins with the third field.
    let field = |number: usize| rest.split(' ').nth(number - 3)?.parse::<f64>().ok();
    Some(((field(14)? + field(15)?) / TICKS_A_SECOND, field(22)? / TICKS_A_SECOND))
}

/// Parses the boot time of the machine, in seconds since 1970, from `/proc/stat`.
fn parse_boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        let stat = "4711 (a) b (c)) S 1 1 1 0 -1 4194560 9 8 7 6 150 50 0 0 20 0 3 0 1234 99 88";
        assert_eq!(parse_times(stat), Some((2.0, 12.34)));
        assert_eq!(parse_times("4711 (a) S 1 1"), None);
        assert_eq!(parse_boot_time("cpu 1 2\nbtime 1700000000\nprocesses 1\n"), Some(1_700_000_000.0));
    }
}
