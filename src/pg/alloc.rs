//! Memory contexts, and Rust collections in them, for states whose memory the server must count and free.
//!
//! All allocations of such collections are freed when their context is reset, whether they were dropped or not. Out of
//! memory is the server's ERROR; with Rust's own allocator it ends the session ([`super::allocator`]).

use allocator_api2::alloc::{AllocError, Allocator, Layout};
use pgrx::pg_sys;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A new memory context below another one, for a little memory at first (ALLOCSET_START_SMALL_SIZES).
///
/// # Safety
/// `parent` is a memory context.
pub(super) unsafe fn new_context(
    parent: pg_sys::MemoryContext,
    name: &'static CStr,
) -> pg_sys::MemoryContext {
    // SAFETY: as the caller promises. The name is a constant, as the server demands.
    unsafe {
        pg_sys::AllocSetContextCreateInternal(
            parent,
            name.as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    }
}

/// Least alignment of the server's allocations (MAXALIGN) in bytes.
const ALIGNMENT: usize = 8;

/// Allocates in one memory context, which is neither reset nor deleted for `'m`.
#[derive(Clone, Copy, Debug)]
pub struct ContextAllocator<'m> {
    context: pg_sys::MemoryContext,
    memory: PhantomData<&'m ()>,
}

impl ContextAllocator<'_> {
    /// Allocates in `context`.
    ///
    /// # Safety
    /// The context exists for `'m`, and nothing resets it.
    pub(super) unsafe fn new(context: pg_sys::MemoryContext) -> Self {
        Self { context, memory: PhantomData }
    }
}

// SAFETY: an allocation is valid until it is freed or 'm is over, and so are the allocators; clones allocate in the
// same context.
unsafe impl Allocator for ContextAllocator<'_> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.align() > ALIGNMENT {
            return Err(AllocError);
        }
        if layout.size() == 0 {
            return Ok(NonNull::slice_from_raw_parts(NonNull::<u64>::dangling().cast(), 0));
        }
        // SAFETY: the context exists for 'm. Raises the server's error when there is no memory.
        let memory = unsafe {
            pg_sys::MemoryContextAllocExtended(self.context, layout.size(), pg_sys::MCXT_ALLOC_HUGE as i32)
        };
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(memory, layout.size()))
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: allocated above, freed once, and its context still exists.
            unsafe { pg_sys::pfree(memory.as_ptr().cast()) };
        }
    }
}
