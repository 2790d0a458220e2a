//! Counts the bytes that are allocated, so that targets can tell memory that an input has from memory that it claims.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs `work`, which may allocate so many bytes over all.
#[track_caller]
pub fn at_most<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = BYTES.load(Ordering::Relaxed);
    let result = work();
    let allocated = BYTES.load(Ordering::Relaxed) - before;
    assert!(allocated <= bytes, "{allocated} bytes were allocated, where {bytes} should do");
    result
}
