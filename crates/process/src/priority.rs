//! The priority of background threads.

/// Adds `steps` to the nice value of the calling thread (sched(7)). If other threads want the same core, each
/// step lowers this thread's share by about a fifth. Threads that it starts inherit the value. Does nothing
/// except on Linux, because elsewhere the value belongs to the whole process.
pub fn lower_priority(steps: i32) {
    #[cfg(target_os = "linux")]
    // If the system does not permit the change, the thread keeps its priority.
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
