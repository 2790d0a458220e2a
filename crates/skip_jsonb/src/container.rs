//! PostgreSQL's binary form of jsonb (utils/jsonb.h), which is what it stores on disk.
//!
//! A container is an array or object: a header with the number of elements or pairs, one entry of four bytes for each
//! element, or for each key and then each value, and the data. A scalar document is an array of one element. Entries
//! say where their data ends, or how long it is. Numbers and containers begin at a multiple of four bytes.

use crate::path;
use smallvec::SmallVec;

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

/// The keys of a document's outermost object, with their paths. The documents of a column often have the same keys,
/// whose bytes are then the same: those of the next document are compared with the last ones, and its paths are known.
#[derive(Debug, Default)]
pub struct Names {
    /// The header of the object and the entries of its keys; empty for another document.
    head: Vec<u8>,
    /// The data of its keys.
    data: Vec<u8>,
    root: u64,
    /// The paths of its keys.
    paths: Vec<u64>,
}

impl Names {
    /// Takes the names of a document's outermost object, whose path is `root`. A document that is none has no names.
    /// Returns false if they are those of the last document.
    ///
    /// # Errors
    /// Bytes that are no document.
    pub fn read(&mut self, document: &[u8], root: u64) -> Result<bool, NotJsonb> {
        if self.are_of(document, root) {
            return Ok(false);
        }
        self.head.clear();
        self.data.clear();
        self.paths.clear();
        self.root = root;
        let container = Container::parse(document)?;
        if container.is_object {
            let mut keys = Ends::default();
            for index in 0..container.count {
                let (from, to) = keys.next(container.entry(index)?)?;
                self.paths.push(path::child(root, container.data.get(from..to).ok_or(NotJsonb)?));
            }
            self.data.extend_from_slice(container.data.get(..keys.0).ok_or(NotJsonb)?);
            self.head.extend_from_slice(&document[..4 + 4 * container.count]);
        }
        Ok(true)
    }

    fn are_of(&self, document: &[u8], root: u64) -> bool {
        let values = self.head.len() + 4 * self.paths.len();
        !self.head.is_empty()
            && self.root == root
            && document.starts_with(&self.head)
            && document.get(values..).is_some_and(|data| data.starts_with(&self.data))
    }

    /// The paths of the keys.
    pub fn paths(&self) -> &[u64] {
        &self.paths
    }
}

/// Calls `each` with all scalars of a document and their paths, which begin with that of its [`Names`]. Containers are
/// not visited in order.
///
/// # Errors
/// Bytes that are no document, or whose names these are not.
pub fn each_scalar<'a>(
    document: &'a [u8],
    names: &Names,
    mut each: impl FnMut(u64, Scalar<'a>),
) -> Result<(), NotJsonb> {
    // Documents may be nested as deeply as the server's stack allows, so this does not call itself.
    let mut waiting = SmallVec::<[(Container<'a>, u64); 8]>::new();
    let outermost = Container::parse(document)?;
    if outermost.is_object {
        let mut values = Ends(names.data.len());
        for (index, &path) in names.paths.iter().enumerate() {
            let entry = outermost.entry(outermost.count + index)?;
            match outermost.value(entry, values.next(entry)?)? {
                DocumentPart::Scalar(scalar) => each(path, scalar),
                DocumentPart::Container(inner) => waiting.push((inner, path)),
            }
        }
    } else {
        waiting.push((outermost, names.root));
    }
    while let Some((container, path)) = waiting.pop() {
        // Where the data of the keys ends is where that of the values begins.
        let (mut keys, mut values) = (Ends::default(), Ends::default());
        let first = if container.is_object { container.count } else { 0 };
        for index in 0..first {
            values.next(container.entry(index)?)?;
        }
        for index in 0..container.count {
            let mut at = path;
            if container.is_object {
                let (from, to) = keys.next(container.entry(index)?)?;
                at = path::child(path, container.data.get(from..to).ok_or(NotJsonb)?);
            }
            let entry = container.entry(first + index)?;
            match container.value(entry, values.next(entry)?)? {
                DocumentPart::Scalar(scalar) => each(at, scalar),
                DocumentPart::Container(inner) => waiting.push((inner, at)),
            }
        }
    }
    Ok(())
}

/// An array or object.
#[derive(Clone, Copy)]
struct Container<'a> {
    is_object: bool,
    /// Number of elements or pairs.
    count: usize,
    entries: &'a [u8],
    data: &'a [u8],
}

enum DocumentPart<'a> {
    Scalar(Scalar<'a>),
    Container(Container<'a>),
}

impl<'a> Container<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, NotJsonb> {
        let header = word(bytes, 0)?;
        let count = (header & COUNT) as usize;
        let is_object = match header & (OBJECT | ARRAY) {
            OBJECT => true,
            ARRAY => false,
            _ => return Err(NotJsonb),
        };
        let entries = if is_object { 2 * count } else { count };
        let (entries, data) = bytes[4..].split_at_checked(4 * entries).ok_or(NotJsonb)?;
        Ok(Self { is_object, count, entries, data })
    }

    fn entry(&self, index: usize) -> Result<u32, NotJsonb> {
        word(self.entries, 4 * index)
    }

    /// What an entry says is between two places of the data.
    #[inline]
    fn value(&self, entry: u32, (from, to): (usize, usize)) -> Result<DocumentPart<'a>, NotJsonb> {
        let aligned = || self.data.get(from.next_multiple_of(4)..to).ok_or(NotJsonb);
        Ok(DocumentPart::Scalar(match entry & TYPE {
            STRING => Scalar::String(self.data.get(from..to).ok_or(NotJsonb)?),
            NUMERIC => Scalar::Number(without_length(aligned()?)?),
            FALSE => Scalar::Bool(false),
            TRUE => Scalar::Bool(true),
            NULL => Scalar::Null,
            CONTAINER => return Ok(DocumentPart::Container(Container::parse(aligned()?)?)),
            _ => return Err(NotJsonb),
        }))
    }
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
