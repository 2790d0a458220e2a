//! Conversion of strings between the database's encoding and Rust's.
//!
//! A `String` in this extension is UTF-8, whatever the database's encoding is. A byte without a character in UTF-8 (any
//! byte beyond ASCII in a database of encoding SQL_ASCII; a few characters of other encodings) becomes a character of
//! Unicode's last private plane that stands for the byte, and is converted back to the same byte. Names are therefore
//! preserved. A character that the database's encoding does not have becomes a question mark.

use pgrx::pg_sys;
use std::ffi::{CStr, CString, c_char};

/// The character that stands for byte 0 of a sequence without a character; those for the other bytes follow.
const RAW_BYTES: u32 = 0x10_FF00;

/// The most bytes to which one byte of a string may grow in another encoding (MAX_CONVERSION_GROWTH of pg_wchar.h).
const GROWTH: usize = 4;

fn encoding() -> pg_sys::pg_enc::Type {
    // SAFETY: a plain global of the process.
    unsafe { pg_sys::GetDatabaseEncoding() as pg_sys::pg_enc::Type }
}

/// Whether the database's texts are UTF-8.
pub fn is_utf8() -> bool {
    encoding() == pg_sys::pg_enc::PG_UTF8
}

/// Converts a string of the server; NULL is empty.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
pub unsafe fn of_server(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not NULL; a name from the catalog or a palloc'd string, both NUL-terminated, which callers keep during
    // this call.
    of_bytes(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Converts bytes in the database's encoding.
pub fn of_bytes(bytes: &[u8]) -> String {
    if bytes.is_ascii() || encoding() == pg_sys::pg_enc::PG_UTF8 {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    convert(bytes, encoding(), pg_sys::pg_enc::PG_UTF8, &mut |piece| match piece {
        Piece::Converted(piece) => text.push_str(&String::from_utf8_lossy(piece)),
        Piece::Unknown(bytes) => text.extend(bytes.iter().map(|&byte| raw_byte(byte))),
    });
    text
}

/// The string in the database's encoding, up to its first NUL.
pub fn to_server(text: &str) -> CString {
    let bytes = to_bytes(text);
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

/// The string in the database's encoding.
pub fn to_bytes(text: &str) -> Vec<u8> {
    let encoding = encoding();
    if text.is_ascii() || encoding == pg_sys::pg_enc::PG_UTF8 {
        return text.as_bytes().to_vec();
    }
    let mut bytes = Vec::with_capacity(text.len());
    // Pieces that end with a character that stands for a byte; the rest of each piece is converted.
    for piece in text.split_inclusive(|c| byte_of(c).is_some()) {
        let last = piece.chars().next_back();
        let raw = last.and_then(byte_of);
        let plain =
            if raw.is_some() { &piece[..piece.len() - last.map_or(0, char::len_utf8)] } else { piece };
        if encoding == pg_sys::pg_enc::PG_SQL_ASCII {
            bytes.extend_from_slice(plain.as_bytes());
        } else {
            convert(plain.as_bytes(), pg_sys::pg_enc::PG_UTF8, encoding, &mut |piece| match piece {
                Piece::Converted(piece) => bytes.extend_from_slice(piece),
                Piece::Unknown(_) => bytes.push(b'?'),
            });
        }
        bytes.extend(raw);
    }
    bytes
}

fn raw_byte(byte: u8) -> char {
    char::from_u32(RAW_BYTES + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn byte_of(c: char) -> Option<u8> {
    u32::from(c)
        .checked_sub(RAW_BYTES)
        .and_then(|byte| u8::try_from(byte).ok())
        .filter(|byte| !byte.is_ascii())
}

/// A piece of a conversion's result.
enum Piece<'a> {
    Converted(&'a [u8]),
    /// A character that is not in the other encoding.
    Unknown(&'a [u8]),
}

/// Converts the characters that both encodings have, in order. One of the encodings is UTF-8.
fn convert(
    mut rest: &[u8],
    from: pg_sys::pg_enc::Type,
    to: pg_sys::pg_enc::Type,
    take: &mut dyn FnMut(Piece<'_>),
) {
    let Some(function) = conversion(from, to) else { return plain(rest, from, take) };
    let mut converted = vec![0u8; rest.len() * GROWTH + 1];
    while !rest.is_empty() {
        // SAFETY: `rest` and the buffer for the result with their lengths; returns normally for characters that it
        // cannot convert.
        let done = unsafe {
            let (length, room) = (rest.len() as i32, converted.len() as i32);
            let source = rest.as_ptr().cast_mut();
            let target = converted.as_mut_ptr();
            pg_sys::pg_do_encoding_conversion_buf(
                function,
                from as i32,
                to as i32,
                source,
                length,
                target,
                room,
                true,
            )
        };
        let (done, left) = rest.split_at(usize::try_from(done).unwrap_or(0).min(rest.len()));
        if !done.is_empty() {
            let end = converted.iter().position(|&byte| byte == 0).unwrap_or(converted.len());
            take(Piece::Converted(&converted[..end]));
        }
        let (unknown, left) = left.split_at(length_of_first(left, from));
        if !unknown.is_empty() {
            take(Piece::Unknown(unknown));
        }
        rest = left;
    }
}

/// Length of the first character in bytes; 0 if there is none.
fn length_of_first(text: &[u8], encoding: pg_sys::pg_enc::Type) -> usize {
    if text.is_empty() {
        return 0;
    }
    let mut first = [0u8; 8];
    let length = text.len().min(first.len());
    first[..length].copy_from_slice(&text[..length]);
    // SAFETY: reads the first bytes of a character, which has at most 4.
    let length = unsafe { pg_sys::pg_encoding_mblen(encoding as i32, first.as_ptr().cast()) };
    usize::try_from(length).unwrap_or(1).clamp(1, text.len())
}

/// Converts without a conversion function: only ASCII is the same in both encodings.
fn plain(text: &[u8], encoding: pg_sys::pg_enc::Type, take: &mut dyn FnMut(Piece<'_>)) {
    let mut rest = text;
    while !rest.is_empty() {
        let ascii = rest.iter().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let (same, left) = rest.split_at(ascii);
        take(Piece::Converted(same));
        let (unknown, left) = left.split_at(length_of_first(left, encoding));
        take(Piece::Unknown(unknown));
        rest = left;
    }
}

/// The conversion function; None if there is none, or the catalog cannot be read now.
fn conversion(from: pg_sys::pg_enc::Type, to: pg_sys::pg_enc::Type) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog lookup, in a transaction that has not failed.
    let function = unsafe {
        if !pg_sys::IsTransactionState() {
            return None;
        }
        pg_sys::FindDefaultConversionProc(from as i32, to as i32)
    };
    (function != pg_sys::InvalidOid).then_some(function)
}
