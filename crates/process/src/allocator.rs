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

/// The maximum number of threads that release the ends of arenas, because the number of threads of the
/// process may be limited.
#[cfg(target_env = "gnu")]
const MAX_RELEASERS: libc::c_int = 32;

/// A length in bytes that is a multiple of the page size on every system.
#[cfg(target_env = "gnu")]
const PAGES: usize = 64 << 10;

/// The length of the blocks that [`release_end`] allocates: less than [`MMAP_THRESHOLD`], from which glibc
/// maps blocks separately.
#[cfg(target_env = "gnu")]
const BLOCK_LENGTH: libc::c_int = MMAP_THRESHOLD / 4 * 3;

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
    // SAFETY: the caller ensures that no other thread runs yet, and mallopt(3) rejects unsupported values.
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
    {
        // SAFETY: malloc_trim(3) may be called at any time by any thread, and moves nothing in use.
        unsafe { libc::malloc_trim(0) };
        release_ends();
    };
}

/// Returns the free ends of the arenas to the system, of each at most [`TRIM_THRESHOLD`]: `malloc_trim` does
/// so only for the main arena. Once the example site is loaded, the end of another one has 6 MB.
///
/// A new thread gets an arena that no thread uses, or else the next one in a circle. Twice as many threads as
/// there are arenas, at most [`MAX_RELEASERS`], therefore use most of them.
#[cfg(target_env = "gnu")]
fn release_ends() {
    let (ended, ends) = std::sync::mpsc::channel();
    let gate = &std::sync::Mutex::new(());
    let turn = &std::sync::Mutex::new(());
    std::thread::scope(|scope| {
        let closed = gate.lock();
        let spawn = |_| {
            let ended = ended.clone();
            let run = move || {
                // Allocate on one thread at a time, because the blocks take up a lot of address space.
                let own_turn = turn.lock();
                release_end();
                drop(own_turn);
                let _ = ended.send(());
                // Wait until all threads have run, because a new thread could reuse this thread's arena.
                drop(gate.lock());
            };
            std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, run).ok()
        };
        let started = (0..MAX_RELEASERS.min(2 * max_arenas())).map_while(spawn).count();
        ends.iter().take(started).count();
        drop(closed);
    });
}

/// Allocates blocks that are larger than most gaps in the arena of this thread, so that they are at its end,
/// at most [`TRIM_THRESHOLD`] bytes. Returns their pages to the system, and frees the blocks.
#[cfg(target_env = "gnu")]
fn release_end() {
    let length = usize::try_from(BLOCK_LENGTH).unwrap_or(0);
    // Hold all blocks until the end: the next allocation would reuse a block that was freed earlier.
    let mut held = Vec::new();
    for _ in 0..TRIM_THRESHOLD / BLOCK_LENGTH {
        let mut block = Vec::<u8>::new();
        if block.try_reserve_exact(length).is_err() {
            return;
        }
        let unused = block.spare_capacity_mut();
        let before = unused.as_ptr().align_offset(PAGES);
        let pages = &mut unused[before..];
        // SAFETY: the pages are within `block`, which has no contents.
        unsafe { libc::madvise(pages.as_mut_ptr().cast(), pages.len() / PAGES * PAGES, libc::MADV_DONTNEED) };
        held.push(block);
    }
}
