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

/// `count` zeros whose pages are large where the system has such: reading all weights for one
/// token meets far fewer page-table walks then.
pub(crate) fn zeros(count: usize) -> Vec<crate::Real> {
    let zeros = vec![0.0; count];
    #[cfg(target_os = "linux")]
    {
        // Of a fresh allocation no page has been touched yet.
        const HUGE: usize = 2 << 20;
        let start = (zeros.as_ptr() as usize).next_multiple_of(HUGE);
        let end = zeros.as_ptr() as usize + std::mem::size_of_val(zeros.as_slice());
        if end > start + HUGE {
            #[expect(unsafe_code, reason = "advice on pages is a system call")]
            // SAFETY: the range lies within the allocation, and the advice changes no content.
            unsafe {
                libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE);
            }
        }
    }
    zeros
}
