//! Rust's allocator: if the system refuses memory, one backend ends, and not the whole server.
//!
//! Rust's own code cannot go on without the memory that it asks for, and aborts the process. The server takes that for
//! a crash: it ends all backends, and recovers. A FATAL error ends only the backend that raises it: its transaction is
//! rolled back, and its locks are released. An ERROR is not possible here, because an allocator must not leave by a
//! jump or a panic. Code that may ask for much at a time uses [`super::memory::buffer`], which raises an ERROR.
//!
//! Linux refuses memory if `vm.overcommit_memory` is 2, as PostgreSQL's manual recommends for dedicated servers, or if
//! the process has a limit.

use super::ereport;
use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, but for failures.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: the system's allocator does the work. A failure ends the process, and so neither returns nor unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }
}

#[inline]
fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        ereport::end_session_without_memory(size);
    }
    memory
}

/// An empty buffer with room for `length` bytes; None if there is not so much memory.
pub(super) fn bytes(length: usize) -> Option<Vec<u8>> {
    if length == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(length).ok()?;
    // SAFETY: the layout is not empty. The buffer is freed by ALLOCATOR, which gives it back to the same allocator.
    unsafe {
        let memory = System.alloc(layout);
        (!memory.is_null()).then(|| Vec::from_raw_parts(memory, 0, length))
    }
}
