//! Temporary files that the processes of a parallel build share. One process writes a file; when it is finished, all of
//! them may read it.
//!
//! They are the server's own ([`pg_sys::SharedFileSet`]): in `temp_tablespaces`, counted against temp_file_limit, and
//! removed when the last process has left the build, also after an error.

use super::memory;
use super::temp_file::cannot;
use pgrx::pg_sys;
use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The files of a build, as long as this process takes part in it.
#[derive(Clone, Copy)]
pub struct SharedFiles<'a> {
    set: *mut pg_sys::FileSet,
    build: PhantomData<&'a ()>,
}

impl<'a> SharedFiles<'a> {
    /// The files of a set.
    ///
    /// # Safety
    /// The set is initialized, and this process is attached to it for `'a`.
    pub(super) unsafe fn of(set: *mut pg_sys::SharedFileSet) -> Self {
        // SAFETY: the address of a field of the set.
        Self { set: unsafe { &raw mut (*set).fs }, build: PhantomData }
    }

    /// Creates a file. No process may have created one of this name. It belongs to the current memory context and
    /// transaction.
    pub fn create(self, name: &str) -> NewFile<'a> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: a set that this process is attached to. The server raises an error instead of returning NULL.
        let raw = unsafe { pg_sys::BufFileCreateFileSet(self.set, name.as_ptr()) };
        NewFile(Open { file: NonNull::new(raw).unwrap_or_else(|| cannot("created")), build: PhantomData })
    }

    /// Opens a file that is finished. None if no process has created it.
    pub fn open(self, name: &str) -> Option<FinishedFile<'a>> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: as in create().
        let raw = unsafe { pg_sys::BufFileOpenFileSet(self.set, name.as_ptr(), libc::O_RDONLY, true) };
        NonNull::new(raw).map(|file| FinishedFile(Open { file, build: PhantomData }))
    }
}

/// An open file.
struct Open<'a> {
    file: NonNull<pg_sys::BufFile>,
    build: PhantomData<&'a ()>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: an open file, closed once. After an ERROR the server's abort closes it.
            unsafe { pg_sys::BufFileClose(self.file.as_ptr()) }
        }
    }
}

/// A file that is being written.
pub struct NewFile<'a>(Open<'a>);

impl NewFile<'_> {
    /// Appends numbers. A file system error is the server's error.
    pub fn append(&mut self, numbers: &[u64]) {
        memory::check_for_interrupts();
        let (data, bytes) = (numbers.as_ptr().cast_mut().cast(), size_of_val(numbers));
        // SAFETY: an open file; the server only reads the bytes.
        unsafe { pg_sys::BufFileWrite(self.0.file.as_ptr(), data, bytes) };
    }

    /// Ends writing: all processes may open the file.
    pub fn finish(self) {
        // SAFETY: an open file, to which nothing is written any more.
        unsafe { pg_sys::BufFileExportFileSet(self.0.file.as_ptr()) };
    }
}

/// A file that can be read.
pub struct FinishedFile<'a>(Open<'a>);

impl FinishedFile<'_> {
    /// Number of numbers in it.
    pub fn count(&self) -> u64 {
        // SAFETY: an open file.
        let bytes = unsafe { pg_sys::BufFileSize(self.0.file.as_ptr()) };
        u64::try_from(bytes).unwrap_or(0) / size_of::<u64>() as u64
    }

    /// Reads the next numbers into the beginning of `numbers`. Returns how many there were: fewer than there is room
    /// for at the end of the file.
    pub fn read(&mut self, numbers: &mut [u64]) -> usize {
        memory::check_for_interrupts();
        let (data, bytes) = (numbers.as_mut_ptr().cast(), size_of_val(numbers));
        // SAFETY: an open file, and memory for `bytes` bytes, which may hold any numbers.
        let have = unsafe { pg_sys::BufFileRead(self.0.file.as_ptr(), data, bytes) };
        have / size_of::<u64>()
    }
}
