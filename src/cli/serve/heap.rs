//! Keeps glibc's allocator from holding memory that is free. Does nothing with other C libraries.
//!
//! Loading a site allocates and frees tens of megabytes. By default glibc keeps most of that: it raises the size from which it maps
//! memory for a single allocation, up to 32 MiB, and never returns pages in the middle of a heap.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "the C library's settings have no safe interface")
)]

/// Allocations of this size and more are mapped for themselves and unmapped when they are freed, in bytes. It is glibc's initial
/// value; setting it keeps it from growing.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD: libc::c_int = 128 * 1024;

/// Settles how memory is allocated. Call it before anything large is allocated.
pub(super) fn configure() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt(3) accepts any value for any parameter, may be called at any time, and refuses what it cannot use.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    };
}

/// Returns the free pages of all heaps. Threads that allocate may wait meanwhile.
pub(super) fn release() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) accepts any padding, may be called at any time by any thread, and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0)
    };
}
