//! Settings of the process: open files, program code in memory, and scheduling. Also starts threads, and ends
//! the process when its standard input ends.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "the C library's settings and scheduling classes have no safe interface")
)]

use std::fmt;

use frontdesk_config::Config;
use frontdesk_process::panics::{self, Panic, Part};
use frontdesk_site::STACK_BYTES;
use frontdesk_site::disk_file::MAX_HELD_OPEN;
use frontdesk_site::fault::REPORT_DEFECT;

/// Number of file descriptors reserved for the inbox, deliveries and reloads.
const RESERVED_DESCRIPTORS: u64 = 128;

/// Starts a thread that sends SIGTERM to this process when standard input ends, because the process that
/// started it has then ended.
pub(super) fn end_with_input() -> std::io::Result<()> {
    let wait = || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::TERM);
    };
    std::thread::Builder::new().name("input".into()).spawn(wait).map(drop)
}

/// Raises the soft limit on open files, usually 1,024, to the number that `server.max_connections` and the
/// site's files on the disk need. If the hard limit is too low, logs a warning and reduces the number of
/// connections: they must not use up the descriptors that are needed to store and deliver submissions.
pub(super) fn raise_descriptor_limit(config: &mut Config) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let wanted = config.web.http.max_connections as u64 + RESERVED_DESCRIPTORS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted + MAX_HELD_OPEN) {
        let before = limit.current;
        limit.current =
            Some(limit.maximum.map_or(wanted + MAX_HELD_OPEN, |most| most.min(wanted + MAX_HELD_OPEN)));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "cannot raise the limit on open files; it stays as it is");
            limit.current = before;
        }
        if let Some(current) = limit.current.filter(|current| *current < wanted) {
            let (wanted, possible) = (config.web.http.max_connections, connections_within(current));
            tracing::warn!(
                "the limit on open files allows only {possible} connections, so the server accepts no more, although `server.max_connections` = {wanted}: raise `ulimit -n`, or `LimitNOFILE` of the service"
            );
            config.web.http.max_connections = possible;
        }
    }
}

/// Returns how many connections this many descriptors allow: at least 1. Reserves at most half of the
/// descriptors.
fn connections_within(descriptors: u64) -> usize {
    let possible = descriptors - RESERVED_DESCRIPTORS.min(descriptors / 2);
    usize::try_from(possible).unwrap_or(usize::MAX).max(1)
}

/// The reason why [`run_in_new_thread`] returned no result.
#[derive(Debug)]
pub(super) enum ThreadError {
    NotStarted(std::io::Error),
    Panicked(Panic),
}

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(error) => write!(f, "no thread can be started: {error}"),
            Self::Panicked(panic) => write!(f, "{}", panic.with_message()),
        }
    }
}

impl ThreadError {
    /// Returns advice for the operator on how to resolve the error.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::NotStarted(_) => {
                "raise the limits on threads (`TasksMax` of the service, `ulimit -u`) and on address space (`ulimit -v`)"
            }
            Self::Panicked(_) => REPORT_DEFECT,
        }
    }
}

/// Runs `work`, which loads the site, in a new thread, because a thread keeps freed memory for reuse until it
/// ends. Waits for its end, and returns a panic of `work` as an error.
pub(super) fn run_in_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ThreadError> {
    run_with_stack(STACK_BYTES, work)
}

/// Like [`run_in_new_thread`], with a stack of this size.
fn run_with_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> Result<T, ThreadError> {
    let caught = || panics::catch(Part::Content, work);
    let thread = std::thread::Builder::new().stack_size(bytes);
    std::thread::scope(|scope| {
        let thread = thread.spawn_scoped(scope, caught).map_err(ThreadError::NotStarted)?;
        let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map_err(ThreadError::Panicked)
    })
}

/// Drops the program's code and constants from this process's memory, because the process has executed code
/// that it needs only while it loads a site. The kernel maps what is used again from its cache.
pub(super) fn release_program_pages() {
    #[cfg(target_os = "linux")]
    // SAFETY: `release_segments` has the right type, and dl_iterate_phdr(3) passes valid objects to it.
    unsafe {
        libc::dl_iterate_phdr(Some(release_segments), std::ptr::null_mut())
    };
}

/// Releases the pages of the first object, the program itself, in segments without write permission. Returns
/// 1, so that `dl_iterate_phdr` skips the other objects.
#[cfg(target_os = "linux")]
unsafe extern "C" fn release_segments(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: dl_iterate_phdr(3) passes a valid object with `dlpi_phnum` headers at `dlpi_phdr`.
    let (base, headers) = unsafe {
        let object = &*object;
        (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    // SAFETY: sysconf(3) has no preconditions.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16);
    for header in headers.iter().filter(|it| it.p_type == libc::PT_LOAD && it.p_flags & libc::PF_W == 0) {
        let start = (base + header.p_vaddr).next_multiple_of(page);
        let end = (base + header.p_vaddr + header.p_memsz) / page * page;
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or_default();
        // SAFETY: the pages are in a segment without write permission, so they equal the program's file, from
        // which the kernel maps them again.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
    1
}

/// Puts the calling thread into the idle scheduling class (sched(7)). If the system does not allow it, or has
/// no such class for a single thread, the thread keeps its priority.
pub(super) fn enter_idle_class() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all fields are integers, so zero bytes are valid. `SCHED_IDLE` requires priority 0.
        let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: sched_setscheduler(2) reads the parameters, which outlive the call. With id 0, the system
        // call affects only the calling thread; the wrappers of some C libraries behave differently.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const parameters) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_start_is_an_error() {
        assert_eq!(run_in_new_thread(|| 7).expect("a result"), 7);
        let error = run_with_stack(1 << 60, || 7).expect_err("no such address space");
        assert!(matches!(error, ThreadError::NotStarted(_)), "{error}");
        assert!(error.to_string().starts_with("no thread can be started: "), "{error}");
        let error = run_in_new_thread::<u32>(|| panic!("a defect")).expect_err("a panic");
        assert_eq!(error.hint(), REPORT_DEFECT);
    }

    #[test]
    fn some_descriptors_stay_reserved() {
        for (descriptors, connections) in
            [(0, 1), (1, 1), (100, 50), (256, 128), (1024, 896), (10_128, 10_000)]
        {
            assert_eq!(connections_within(descriptors), connections, "{descriptors}");
        }
    }
}
