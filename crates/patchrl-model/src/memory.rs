//! How freed memory is kept.
//!
//! Owns one setting of the C library's allocator. Nothing here is needed for a
//! right result.

/// Keep the memory of freed buffers for the next ones, for this whole process.
///
/// A step frees and asks again for gigabytes of activations. By default glibc
/// gives each large buffer back at once, and the kernel clears its pages anew:
/// a fifth of a step's time. Does nothing on other systems.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "the allocator's settings are a C function")]
        // SAFETY: `mallopt` takes two integers and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
            libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
            libc::mallopt(libc::M_TOP_PAD, 64 << 20);
        }
    }
}
