//! Uses valgrind to count the CPU instructions that each step of a request takes, and compares the counts
//! with `instructions.toml`: `cargo bench -p frontdesk-benches --bench instructions`, or `-- --accept` to
//! record new counts.
//!
//! Counts do not depend on the machine's load, so changes of a few percent are visible. Counts do not include
//! the effects of caches and branch prediction: use `micro.rs` to measure time.

#![allow(clippy::disallowed_methods, reason = "tests and benchmarks read clocks and wait")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod cases;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{CASES, Run};

/// The option that runs only the case named by the next argument. This program passes it to itself under
/// valgrind.
const RUN: &str = "--run";

/// Number of warm-up runs, which are not counted, because the first run differs from later ones.
const WARM_UP: u64 = 200;

/// Number of counted runs.
const ROUNDS: u64 = 1_000;

/// Accepted difference from the recorded count, in percent.
const TOLERANCE_PERCENT: f64 = 5.0;

/// The symbol by which valgrind finds [`counted`].
const COUNTED: &str = "instructions::counted";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == RUN) {
        let case = CASES.iter().find(|case| arguments.get(at + 1).is_some_and(|name| name == case.name));
        let mut run = (case.expect("a case's name").prepare)();
        (0..WARM_UP).for_each(|_| run());
        counted(&mut run);
        return ExitCode::SUCCESS;
    }
    let found = count_all();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut baseline: BTreeMap<String, BTreeMap<String, u64>> = toml::from_str(&text).expect("numbers");
    if arguments.iter().any(|argument| argument == "--accept") {
        baseline.insert(std::env::consts::ARCH.to_owned(), found);
        std::fs::write(&path, written(&baseline)).expect("a writable file");
        println!("recorded in benches/instructions.toml");
        return ExitCode::SUCCESS;
    }
    compare(baseline.get(std::env::consts::ARCH).unwrap_or(&BTreeMap::new()), &found)
}

/// Runs a case repeatedly. valgrind counts only inside this function.
#[inline(never)]
fn counted(run: &mut Run) {
    for _ in 0..ROUNDS {
        run();
    }
}

/// Counts the instructions of each case, by name. Runs as many cases at a time as there are cores, because
/// valgrind uses a single core.
fn count_all() -> BTreeMap<String, u64> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let cases = std::iter::from_fn(|| CASES.get(next.fetch_add(1, Ordering::Relaxed)));
        cases.map(|case| (case.name.to_owned(), count(case.name))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("failed to count a case")).collect()
    })
}

/// Runs this program under valgrind, and returns the number of instructions of one run of a case.
fn count(case: &str) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("counts");
    // Clear the environment except for `PATH`, because the size of the environment moves the stack. valgrind
    // emulates the same processor on all machines with AVX2, so code that depends on the processor behaves
    // the same.
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(std::env::current_exe().expect("a path"))
        .args([RUN, case])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output();
    let run = run.unwrap_or_else(|error| panic!("cannot run valgrind: {error}"));
    assert!(run.status.success(), "{case}: {}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(&output).expect("the output of valgrind");
    let sum = text.lines().find_map(|line| line.strip_prefix("summary: ")).expect("a sum");
    let sum: u64 = sum.trim().parse().expect("a number");
    assert!(sum > ROUNDS, "{case}: nothing was counted");
    sum / ROUNDS
}

/// Formats the counts of each architecture as the content of `instructions.toml`.
fn written(baseline: &BTreeMap<String, BTreeMap<String, u64>>) -> String {
    let mut text = String::from(
        "# Instructions of each case in benches/cases.rs, from `cargo bench -p frontdesk-benches --bench instructions -- --accept`.\n",
    );
    for (architecture, counts) in baseline {
        write!(text, "\n[{architecture}]\n").expect("a string");
        for (name, count) in counts {
            writeln!(text, "{name} = {count}").expect("a string");
        }
    }
    text
}

/// Prints each count next to the recorded one. Fails if a case is missing on either side, or if a count
/// differs by more than [`TOLERANCE_PERCENT`]. Decreases must be recorded too, because an unrecorded decrease
/// would hide a later increase.
#[expect(clippy::cast_precision_loss, reason = "approximate figures suffice")]
fn compare(baseline: &BTreeMap<String, u64>, found: &BTreeMap<String, u64>) -> ExitCode {
    let mut fine = true;
    println!("{:<28} {:>12} {:>12} {:>9}", "instructions", "recorded", "counted", "change");
    for (name, &count) in found {
        let Some(&before) = baseline.get(name) else {
            println!("{name:<28} {:>12} {count:>12} {:>9}  NEW", "", "");
            fine = false;
            continue;
        };
        let change = count as f64 * 100.0 / before as f64 - 100.0;
        let verdict = match change {
            change if change > TOLERANCE_PERCENT => "  MORE",
            change if change < -TOLERANCE_PERCENT => "  LESS",
            _ => "",
        };
        fine &= verdict.is_empty();
        println!("{name:<28} {before:>12} {count:>12} {change:>+8.1}%{verdict}");
    }
    for name in baseline.keys().filter(|name| !found.contains_key(*name)) {
        println!("{name:<28} is recorded, but there is no such case");
        fine = false;
    }
    if fine {
        return ExitCode::SUCCESS;
    }
    println!(
        "\nThe counts differ from benches/instructions.toml. Fix unintended growth; record intended changes and \
         decreases with `scripts/test instructions --accept`, and commit the file."
    );
    ExitCode::FAILURE
}
