//! The dependency tree stays within its budget: each crate costs build time, binary size and trust.

use std::collections::BTreeSet;
use std::process::Command;

/// The maximum number of crates that the server is built from, including itself. A clean build on two cores
/// takes about half a second per crate. Before you raise this number, look for a smaller crate (`cargo tree
/// --edges normal,build`) and state the reason in `deny.toml`.
const MAX_CRATES: usize = 308;

#[test]
fn the_server_is_built_from_few_crates() {
    // Count only the crates for the platform on which the server runs.
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "frontdesk", "--edges", "normal,build"])
        .args(["--target", "x86_64-unknown-linux-gnu", "--prefix", "none", "--no-dedupe", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("text");
    let crates: BTreeSet<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
    assert!(crates.len() > 100, "cargo tree lists too little: {crates:?}");
    assert!(
        crates.len() <= MAX_CRATES,
        "{} crates, and the budget is {MAX_CRATES}: {crates:#?}",
        crates.len()
    );
}
