//! Lets a thread of background work run only while nothing else on the machine wants its core.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "scheduling classes have no safe interface"))]

/// Puts the calling thread into the idle scheduling class (sched(7)). If the system does not allow it, the thread keeps its priority.
#[cfg(target_os = "linux")]
pub(super) fn enter() {
    // SAFETY: all fields are integers, and 0 is what this class asks for.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: sched_setscheduler(2) reads the parameters, which outlive the call. With id 0 it concerns the calling thread alone. Not every C
    // library has a function for it that does so.
    let _ =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const parameters) };
}

/// Elsewhere the whole process would step back.
#[cfg(not(target_os = "linux"))]
pub(super) fn enter() {}
