//! Returns free memory to the operating system.
//!
//! glibc's allocator keeps what is freed in the middle of its heap, and loading a site frees tens of megabytes there.

/// Returns the free pages of all heaps. Takes about a millisecond, during which threads that allocate may wait.
///
/// Does nothing with other C libraries than glibc.
pub(super) fn release() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: malloc_trim(3) accepts any padding, may be called at any time by any thread, and moves nothing that is in use.
        #[expect(unsafe_code, reason = "no safe function returns glibc's free memory")]
        unsafe {
            libc::malloc_trim(0)
        };
    }
}
