//! The keys of documents, and the keys that searches ask for.

use crate::container::{Names, NotJsonb, Scalar, each_scalar};
use crate::number::{Number, Numeral, numeral};
use crate::path;
use skip_filter::hash_bytes;

const STRING: u8 = b's';
const NUMBER: u8 = b'n';
const ODD_NUMBER: u8 = b'o';
const TRUE: u8 = b't';
const FALSE: u8 = b'f';
const NULL: u8 = b'0';
const NAME: u8 = b'k';

/// Bytes of a key before the scalar: the path and the kind.
const HEAD: usize = 9;
/// The most bytes of a string whose key is made without the buffer: most strings have no more.
const SHORT: usize = 55;

/// Makes keys under the seed of an index.
pub struct KeyMaker {
    seed: u64,
    buffer: Vec<u8>,
    /// The names of the last document, and their keys.
    names: Names,
    name_keys: Vec<u64>,
}

impl KeyMaker {
    pub fn new(seed: u64) -> Self {
        Self { seed, buffer: Vec::new(), names: Names::default(), name_keys: Vec::new() }
    }

    fn key(&mut self, path: u64, kind: u8, add: impl FnOnce(&mut Vec<u8>)) -> u64 {
        self.buffer.clear();
        self.buffer.extend_from_slice(&head_of(path, kind));
        add(&mut self.buffer);
        hash_bytes(self.seed, &self.buffer)
    }

    fn string(&mut self, path: u64, string: &[u8]) -> u64 {
        if string.len() > SHORT {
            return self.key(path, STRING, |buffer| buffer.extend_from_slice(string));
        }
        let mut bytes = [0; HEAD + SHORT];
        let (head, rest) = bytes.split_at_mut(HEAD);
        head.copy_from_slice(&head_of(path, STRING));
        rest[..string.len()].copy_from_slice(string);
        hash_bytes(self.seed, &bytes[..HEAD + string.len()])
    }

    fn number(&mut self, path: u64, number: &Number) -> u64 {
        self.key(path, NUMBER, |buffer| number.add_to(buffer))
    }

    fn bare(&mut self, path: u64, kind: u8) -> u64 {
        hash_bytes(self.seed, &head_of(path, kind))
    }

    /// The key by which a scalar is found.
    pub(crate) fn scalar(&mut self, path: u64, scalar: Scalar<'_>) -> u64 {
        match scalar {
            Scalar::String(string) => self.string(path, string),
            // jsonb has neither NaN nor infinity; if it had, they would be found as odd ones.
            Scalar::Number(bytes) => match Number::of_numeric(bytes) {
                Some(number) => self.number(path, &number),
                None => self.bare(path, ODD_NUMBER),
            },
            Scalar::Bool(true) => self.bare(path, TRUE),
            Scalar::Bool(false) => self.bare(path, FALSE),
            Scalar::Null => self.bare(path, NULL),
        }
    }

    /// Calls `add` with the keys of a document.
    ///
    /// # Errors
    /// Bytes that are no document.
    pub fn of_document(&mut self, document: &[u8], mut add: impl FnMut(u64)) -> Result<(), NotJsonb> {
        let mut names = std::mem::take(&mut self.names);
        if names.read(document, path::ROOT)? {
            self.name_keys.clear();
            self.name_keys
                .extend(names.paths().iter().map(|&path| hash_bytes(self.seed, &head_of(path, NAME))));
        }
        self.name_keys.iter().for_each(|&key| add(key));
        let result = each_scalar(document, &names, |path, scalar| {
            add(self.scalar(path, scalar));
            let Scalar::String(string) = scalar else { return };
            match numeral(string) {
                Some(Numeral::Number(number)) => add(self.number(path, &number)),
                Some(Numeral::Odd) => add(self.bare(path, ODD_NUMBER)),
                None => {}
            }
        });
        self.names = names;
        result
    }

    /// The keys of all scalars of a document that is found at `path`: whatever contains the document there, or equals
    /// it, has all of them.
    ///
    /// # Errors
    /// Bytes that are no document.
    pub fn of_scalars(&mut self, document: &[u8], path: u64) -> Result<Vec<u64>, NotJsonb> {
        let (mut keys, mut names) = (Vec::new(), Names::default());
        names.read(document, path)?;
        each_scalar(document, &names, |path, scalar| keys.push(self.scalar(path, scalar)))?;
        Ok(keys)
    }

    /// Whatever has `name` as a key of its outermost object, or as a string in its outermost array, has one of these.
    pub fn of_name(&mut self, name: &[u8]) -> Vec<u64> {
        vec![self.bare(path::child(path::ROOT, name), NAME), self.string(path::ROOT, name)]
    }

    /// Whatever has at `path` a value whose text (`->>`) is this has one of these. None if the text may be that of an
    /// array or object.
    pub fn of_text(&mut self, path: u64, text: &[u8]) -> Option<Vec<u64>> {
        let mut keys = vec![self.string(path, text)];
        match text {
            [b'{' | b'[', ..] | b"NaN" | b"Infinity" | b"-Infinity" => return None,
            b"true" => keys.push(self.bare(path, TRUE)),
            b"false" => keys.push(self.bare(path, FALSE)),
            _ => match Number::of_text(text) {
                Some(number) => keys.push(self.number(path, &number)),
                // Perhaps a number of many digits.
                None if text.iter().all(|byte| byte.is_ascii_digit() || b"-.".contains(byte)) => return None,
                None => {}
            },
        }
        Some(keys)
    }

    /// Whatever has at `path` a value whose text is read as this number by some type of numbers has one of these.
    pub fn of_number(&mut self, path: u64, number: &Number) -> Vec<u64> {
        vec![self.number(path, number), self.bare(path, ODD_NUMBER)]
    }
}

/// What all keys of this kind at this path begin with.
#[inline]
fn head_of(path: u64, kind: u8) -> [u8; HEAD] {
    let [a, b, c, d, e, f, g, h] = path.to_le_bytes();
    [a, b, c, d, e, f, g, h, kind]
}
