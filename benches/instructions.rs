//! Counts the instructions of what is done for each request, under valgrind, and compares them with `instructions.toml`:
//! `cargo bench --bench instructions`, or `-- --accept` to write down what it finds.
//!
//! Counts do not depend on what else the machine does, so that a few percent more are seen. They say nothing of caches and
//! mispredicted branches: whether something got faster is for `micro.rs` to say.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod cases;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{CASES, Run};

/// The argument before the name of a case, which is then run instead of counted.
const RUN: &str = "--run";

/// Before counting: what is only done the first time is not of interest.
const WARM_UP: u64 = 200;

/// What is counted.
const ROUNDS: u64 = 1_000;

/// A count may differ from the one that is written down by so much.
const TOLERANCE_PERCENT: f64 = 5.0;

/// The name by which valgrind knows [`counted`].
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut baseline: BTreeMap<String, BTreeMap<String, u64>> = toml::from_str(&text).expect("numbers");
    if arguments.iter().any(|argument| argument == "--accept") {
        baseline.insert(std::env::consts::ARCH.to_owned(), found);
        std::fs::write(&path, written(&baseline)).expect("it can be written");
        println!("written down in benches/instructions.toml");
        return ExitCode::SUCCESS;
    }
    compare(baseline.get(std::env::consts::ARCH).unwrap_or(&BTreeMap::new()), &found)
}

/// Runs a case so often that what surrounds it does not matter. By its name valgrind begins and ends to count.
#[inline(never)]
fn counted(run: &mut Run) {
    for _ in 0..ROUNDS {
        run();
    }
}

/// The instructions of each case, by its name. Valgrind uses one core, so there is one case at a time for each.
fn count_all() -> BTreeMap<String, u64> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let cases = std::iter::from_fn(|| CASES.get(next.fetch_add(1, Ordering::Relaxed)));
        cases.map(|case| (case.name.to_owned(), count(case.name))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a case cannot be counted")).collect()
    })
}

/// The instructions of a case, once through, as a run of this program under valgrind counts them.
fn count(case: &str) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("counts");
    // Without an environment, whose size moves the stack. Valgrind stands for the same processor wherever there is AVX2, so that
    // code which chooses by processor chooses the same.
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(std::env::current_exe().expect("it has a path"))
        .args([RUN, case])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output();
    let run = run.unwrap_or_else(|error| panic!("valgrind cannot be run: {error}"));
    assert!(run.status.success(), "{case}: {}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(&output).expect("valgrind has written it");
    let sum = text.lines().find_map(|line| line.strip_prefix("summary: ")).expect("a sum");
    let sum: u64 = sum.trim().parse().expect("a number");
    assert!(sum > ROUNDS, "{case}: nothing was counted");
    sum / ROUNDS
}

fn written(baseline: &BTreeMap<String, BTreeMap<String, u64>>) -> String {
    let mut text = String::from(
        "# Instructions that each case of benches/cases.rs takes. `cargo bench --bench instructions -- --accept` writes this file.\n",
    );
    for (architecture, counts) in baseline {
        write!(text, "\n[{architecture}]\n").expect("a string");
        for (name, count) in counts {
            writeln!(text, "{name} = {count}").expect("a string");
        }
    }
    text
}

/// Prints each count beside what is written down. Fails where one has grown, has shrunk so much that growing back would not be seen,
/// or is not written down.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn compare(baseline: &BTreeMap<String, u64>, found: &BTreeMap<String, u64>) -> ExitCode {
    let mut fine = true;
    println!("{:<28} {:>12} {:>12} {:>9}", "instructions", "written down", "found", "change");
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
        println!("{name:<28} is written down, and no such case is there");
        fine = false;
    }
    if fine {
        return ExitCode::SUCCESS;
    }
    println!(
        "\nToo far off what benches/instructions.toml says. What has grown by mistake is to be mended; what is meant, \
         and what has shrunk, is to be written down: `scripts/test instructions --accept`, and the file belongs to the commit."
    );
    ExitCode::FAILURE
}
