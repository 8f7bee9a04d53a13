//! Alone in its process, because other tests would allocate memory meanwhile.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::sync::mpsc;

use frontdesk_process::allocator::{configure_allocator, release_memory};

/// The resident memory of this process in kilobytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a readable file");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Allocates 12 MB in blocks, and frees them.
fn use_memory() {
    drop((0..120).map(|_| vec![1_u8; 100_000]).collect::<Vec<_>>());
}

#[test]
fn the_free_memory_of_all_arenas_is_returned() {
    configure_allocator();
    let before = resident();
    let (done, wait) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    // This thread and the other one have an arena each.
    use_memory();
    let thread = std::thread::spawn(move || {
        use_memory();
        done.send(()).expect("a receiver");
        let _ = ended.recv();
    });
    wait.recv().expect("a sender");
    let used = resident();
    release_memory();
    let after = resident();
    assert!(before + 20_000 < used && after < before + 4_000, "{before}, {used} and then {after} KB");
    drop(end);
    thread.join().expect("no panic");
}
