//! The priority of background threads.

/// Adds `steps` to the calling thread's nice value, which lowers its share of a core that others want, too:
/// each step takes about a fifth (sched(7)). Threads that it starts inherit the value. Does nothing outside
/// of Linux, where the value belongs to the whole process.
pub fn lower_priority(steps: i32) {
    #[cfg(target_os = "linux")]
    // A system that does not allow it leaves the thread as it is.
    let _ = rustix::process::nice(steps);
    #[cfg(not(target_os = "linux"))]
    let _ = steps;
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_calling_thread_is_lowered() {
        let nice = || rustix::process::nice(0).unwrap();
        let before = nice();
        let lowered = std::thread::spawn(move || {
            lower_priority(1);
            nice()
        });
        assert_eq!((lowered.join().unwrap(), nice()), ((before + 1).min(19), before));
    }
}
