//! Runs a command within a time limit, and measures its time and its peak of memory.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::figures::Spread;
use crate::process::process_tree;

/// A command that takes less than this is repeated, and the median counts.
const SHORT: Duration = Duration::from_secs(1);

/// One run of a command.
struct CommandRun {
    elapsed: Duration,
    /// Peak of resident memory, in bytes.
    peak: f64,
    /// The standard output. `None` if the command was ended at the time limit.
    output: Option<String>,
}

/// The time and memory of an operation.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Milliseconds; above the time limit if the operation was ended there.
    pub millis: Spread,
    /// Peak of resident memory, in bytes; `None` if it was not measured.
    pub peak: Option<f64>,
    /// The standard output of the first run; empty if it was ended.
    pub output: String,
}

impl Measured {
    pub fn time(millis: Spread) -> Self {
        Self { millis, peak: None, output: String::new() }
    }
}

/// Runs a command once, or `rounds` times if it is short. A command that exceeds `limit` is ended. Fails if
/// the command fails.
pub fn measure(command: &Command, limit: Duration, rounds: usize) -> Result<Measured> {
    let mut runs = vec![run(command, limit)?];
    while runs.len() < rounds && runs[0].elapsed < SHORT {
        runs.push(run(command, limit)?);
    }
    let peak = runs.iter().map(|run| run.peak).fold(0.0, f64::max);
    let ended = runs.iter().any(|run| run.output.is_none());
    let millis = if ended {
        Spread::above(limit.as_secs_f64() * 1e3)
    } else {
        Spread::of(runs.iter().map(|run| run.elapsed.as_secs_f64() * 1e3))
    };
    let output = runs.swap_remove(0).output.unwrap_or_default();
    Ok(Measured { millis, peak: Some(peak), output })
}

/// Runs a command below `time`, which reports its memory.
fn run(command: &Command, limit: Duration) -> Result<CommandRun> {
    let usage = tempfile::NamedTempFile::new()?;
    let errors = tempfile::NamedTempFile::new()?;
    let name = command.get_program().display().to_string();
    let mut timed = Command::new("/usr/bin/time");
    timed.args(["--format", "%M", "--output"]).arg(usage.path());
    timed.arg(command.get_program()).args(command.get_args());
    timed.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    timed.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.reopen()?);
    let began = Instant::now();
    let child = timed.spawn().context("cannot run /usr/bin/time")?;
    let root = child.id();
    let (end, ended) = channel::<()>();
    let (output, was_ended) = std::thread::scope(|scope| {
        let guard = scope.spawn(move || {
            let is_late = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if is_late {
                // Not `time` itself, which still reports.
                for process in process_tree(root).into_iter().filter(|process| *process != root) {
                    let _ = Pid::from_raw(process.cast_signed())
                        .map(|process| kill_process(process, Signal::KILL));
                }
            }
            is_late
        });
        let output = child.wait_with_output();
        drop(end);
        (output, guard.join().unwrap_or(false))
    });
    let (output, elapsed) = (output?, began.elapsed());
    let failure = || format!("{name}: {}", fs::read_to_string(errors.path()).unwrap_or_default().trim());
    ensure!(was_ended || output.status.success(), failure());
    let usage = fs::read_to_string(usage.path())?;
    let kibibytes: f64 =
        usage.lines().next_back().and_then(|line| line.parse().ok()).with_context(failure)?;
    let output = if was_ended { None } else { Some(String::from_utf8(output.stdout)?) };
    Ok(CommandRun { elapsed, peak: kibibytes * 1024.0, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Measured> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        measure(&command, limit, 3)
    }

    #[test]
    fn a_command_is_timed_and_its_output_returned() {
        let measured = shell("echo found; sleep 0.05", Duration::from_secs(20)).expect("it succeeds");
        assert_eq!(measured.output, "found\n");
        assert!((50.0..20_000.0).contains(&measured.millis.least), "{:?}", measured.millis);
        assert!(measured.peak.is_some_and(|peak| peak > 100_000.0), "{:?}", measured.peak);
    }

    #[test]
    fn a_command_is_ended_at_its_limit() {
        let measured = shell("sleep 30; echo late", Duration::from_millis(200)).expect("it is ended");
        assert!(measured.millis.is_above());
        assert_eq!((measured.millis.median, measured.output.as_str()), (200.0, ""));
    }

    #[test]
    fn a_failure_has_the_message_of_the_command() {
        let error = shell("echo broken >&2; exit 3", Duration::from_secs(20)).expect_err("it fails");
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
