//! PostgreSQL's binary form of jsonb (utils/jsonb.h), which is what it stores on disk.
//!
//! A container is an array or object: a header with the number of elements or pairs, one entry of four bytes for each
//! element, or for each key and then each value, and the data. A scalar document is an array of one element. Entries
//! say where their data ends, or how long it is. Numbers and containers begin at a multiple of four bytes.

use crate::path;

/// Bytes that are no jsonb document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJsonb;

/// A scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar<'a> {
    String(&'a [u8]),
    /// A number as the type numeric stores it, without the header of its length.
    Number(&'a [u8]),
    Bool(bool),
    Null,
}

/// What a document has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentPart<'a> {
    Scalar(Scalar<'a>),
    /// A key of the outermost object; the path includes it.
    Name,
}

const COUNT: u32 = 0x0fff_ffff;
const OBJECT: u32 = 0x2000_0000;
const ARRAY: u32 = 0x4000_0000;

const LENGTH: u32 = 0x0fff_ffff;
const HAS_OFFSET: u32 = 0x8000_0000;
const TYPE: u32 = 0x7000_0000;
const STRING: u32 = 0;
const NUMERIC: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;
const CONTAINER: u32 = 0x5000_0000;

/// Calls `each` with all parts of a document and their paths, which begin with `root`. Containers are not visited in
/// order.
///
/// # Errors
/// Bytes that are no document.
pub fn each_part<'a>(
    document: &'a [u8],
    root: u64,
    mut each: impl FnMut(u64, DocumentPart<'a>),
) -> Result<(), NotJsonb> {
    // Documents may be nested as deeply as the server's stack allows, so this does not call itself.
    let mut waiting = vec![(document, root)];
    let mut is_outermost = true;
    while let Some((bytes, path)) = waiting.pop() {
        let header = word(bytes, 0)?;
        let count = (header & COUNT) as usize;
        let is_object = match header & (OBJECT | ARRAY) {
            OBJECT => true,
            ARRAY => false,
            _ => return Err(NotJsonb),
        };
        let entries = if is_object { 2 * count } else { count };
        let data = bytes.get(4 + 4 * entries..).ok_or(NotJsonb)?;
        let entry_of = |index: usize| word(bytes, 4 + 4 * index);
        // Where the data of the keys ends is where that of the values begins.
        let (mut keys, mut values) = (Ends::default(), Ends::default());
        if is_object {
            for index in 0..count {
                values.next(entry_of(index)?)?;
            }
        }
        for index in 0..count {
            let (mut at, mut entry) = (path, entry_of(index)?);
            if is_object {
                let (from, to) = keys.next(entry)?;
                at = path::child(path, data.get(from..to).ok_or(NotJsonb)?);
                if is_outermost {
                    each(at, DocumentPart::Name);
                }
                entry = entry_of(count + index)?;
            }
            let (from, to) = values.next(entry)?;
            let aligned = || data.get(from.next_multiple_of(4)..to).ok_or(NotJsonb);
            let scalar = match entry & TYPE {
                STRING => Scalar::String(data.get(from..to).ok_or(NotJsonb)?),
                NUMERIC => Scalar::Number(without_length(aligned()?)?),
                FALSE => Scalar::Bool(false),
                TRUE => Scalar::Bool(true),
                NULL => Scalar::Null,
                CONTAINER => {
                    waiting.push((aligned()?, at));
                    continue;
                }
                _ => return Err(NotJsonb),
            };
            each(at, DocumentPart::Scalar(scalar));
        }
        is_outermost = false;
    }
    Ok(())
}

/// Where the data of consecutive entries is.
#[derive(Default)]
struct Ends(usize);

impl Ends {
    /// Start and end of the next entry's data.
    fn next(&mut self, entry: u32) -> Result<(usize, usize), NotJsonb> {
        let (from, length) = (self.0, (entry & LENGTH) as usize);
        self.0 = if entry & HAS_OFFSET != 0 { length } else { from + length };
        if self.0 < from { Err(NotJsonb) } else { Ok((from, self.0)) }
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, NotJsonb> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).ok_or(NotJsonb)?;
    Ok(u32::from_ne_bytes(word))
}

/// A value of variable length without the header that says how long it is: one or four bytes.
pub(crate) fn without_length(bytes: &[u8]) -> Result<&[u8], NotJsonb> {
    let first = *bytes.first().ok_or(NotJsonb)?;
    let (header, length) = if first & 1 == 1 {
        (1, usize::from(first >> 1))
    } else if first & 3 == 0 {
        (4, (word(bytes, 0)? >> 2) as usize)
    } else {
        return Err(NotJsonb);
    };
    bytes.get(header..length).ok_or(NotJsonb)
}
