//! Free memory of the allocator.
#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    allow(unsafe_code, reason = "declares a function of the C library that has no preconditions")
)]

/// Returns free memory of all threads to the system. The allocator of glibc keeps what a configuration took while it was
/// read, and the memory of a replaced one. Other allocators return free memory themselves.
///
/// It takes some milliseconds, in which threads may wait for memory: call it after a reload only.
pub(super) fn release_free() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Size of a block: below the smallest threshold of `mmap`.
        const BLOCK: usize = 120 << 10;
        /// More than the 64 MiB of a heap (`HEAP_MAX_SIZE`).
        const BLOCKS: usize = (65 << 20) / BLOCK;
        unsafe extern "C" {
            /// See malloc_trim(3).
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // The free end of a thread's heap is not returned. Behind these blocks, it is no end any more.
        let mut blocks: Vec<Vec<u8>> = std::hint::black_box((0..BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect());
        let last = blocks.pop();
        drop(blocks);
        malloc_trim(0);
        drop(std::hint::black_box(last));
    }
}
