//! Settings of the C library's allocator.

#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "the allocator's settings have no safe interface")
)]

/// glibc maps allocations of at least this many bytes separately, and unmaps them when they are freed. Unless
/// the program sets this threshold, glibc raises it to as much as 32 MiB, and then keeps most of the tens of
/// megabytes that loading a site allocates and frees. With glibc's initial value, 128 KiB, loading takes a
/// sixth longer, because the compressors map and unmap their tables for every file.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD: libc::c_int = 4 << 20;

/// glibc keeps at most this many free bytes at the end of each heap. Its default, 128 KiB, lets it return the
/// memory of each converted page to the system, only to get it back for the next one.
#[cfg(target_env = "gnu")]
const TRIM_THRESHOLD: libc::c_int = 16 << 20;

/// The maximum number of arenas: one for each core. By default, glibc creates one for each thread that loads
/// a site and for each that encodes it, up to eight for each core, and threads do not use the free memory of
/// each other's arenas.
#[cfg(target_env = "gnu")]
fn max_arenas() -> libc::c_int {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    libc::c_int::try_from(cores).unwrap_or(libc::c_int::MAX)
}

/// Makes glibc return large freed blocks to the system (`MMAP_THRESHOLD`), keep the free ends of heaps up to
/// a limit (`TRIM_THRESHOLD`), and create few arenas (`max_arenas`). Must be called before other threads
/// start, and before anything large is allocated. Does nothing with other C libraries.
pub fn configure_allocator() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no other thread runs yet (see above), and mallopt(3) rejects values that it does not support.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, max_arenas());
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_THRESHOLD);
    };
}

/// Returns free memory to the system. Meanwhile, threads that allocate memory may have to wait. Does nothing
/// with C libraries other than glibc.
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time by any thread, and moves nothing in use.
    unsafe {
        libc::malloc_trim(0)
    };
}
