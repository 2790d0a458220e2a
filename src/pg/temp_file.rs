//! A temporary file of the server: counted against temp_file_limit, logged by log_temp_files, removed when the
//! transaction ends.

use super::{fail, memory};
use pgrx::{PgSqlErrorCode, pg_sys};

/// A temporary file that is written and read in any order; it is created by the first write.
#[derive(Default)]
pub struct TempFile {
    file: Option<std::ptr::NonNull<pg_sys::BufFile>>,
}

impl TempFile {
    fn get(&mut self) -> *mut pg_sys::BufFile {
        let file = *self.file.get_or_insert_with(|| {
            // SAFETY: the file belongs to the current transaction, which outlives this value; the server raises an
            // error instead of returning NULL.
            let raw = unsafe { pg_sys::BufFileCreateTemp(false) };
            std::ptr::NonNull::new(raw).unwrap_or_else(|| cannot("created"))
        });
        file.as_ptr()
    }

    fn seek(&mut self, at: u64) -> *mut pg_sys::BufFile {
        let file = self.get();
        let offset = pg_sys::off_t::try_from(at).unwrap_or(pg_sys::off_t::MAX);
        // SAFETY: an open file. The server splits it into pieces of 1 GB itself, from piece 0 on.
        if unsafe { pg_sys::BufFileSeek(file, 0, offset, 0) } != 0 {
            cannot("positioned");
        }
        file
    }

    /// Writes bytes at an offset that is at most the file's length. A file system error is the server's error.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        memory::check_for_interrupts();
        let file = self.seek(at);
        // SAFETY: an open file; the server only reads the bytes.
        unsafe { pg_sys::BufFileWrite(file, bytes.as_ptr().cast_mut().cast(), bytes.len()) };
    }

    /// Reads bytes that were written before.
    pub fn read(&mut self, at: u64, bytes: &mut [u8]) {
        memory::check_for_interrupts();
        let file = self.seek(at);
        // SAFETY: an open file, and memory for `bytes.len()` bytes.
        let have = unsafe { pg_sys::BufFileRead(file, bytes.as_mut_ptr().cast(), bytes.len()) };
        if have != bytes.len() {
            cannot("read");
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.filter(|_| !std::thread::panicking()) {
            // SAFETY: created by get(), closed once. After an ERROR the server's abort closes it.
            unsafe { pg_sys::BufFileClose(file.as_ptr()) }
        }
    }
}

/// Raises an error: a temporary file, which processes may share, could not be created, positioned or read.
pub(super) fn cannot(what: &str) -> ! {
    let hint = "Look at the file system of temp_tablespaces, and at the server's log.";
    fail(
        PgSqlErrorCode::ERRCODE_IO_ERROR,
        format!("a temporary file could not be {what}"),
        None,
        Some(hint.into()),
    )
}
