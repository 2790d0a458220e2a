//! Paths: the object keys from a document's root, as one number.

use skip_filter::hash_bytes;

/// The path of the root. Any number will do, but it must not change.
pub const ROOT: u64 = 0x6a73_6f6e_6270_6174;

/// The path of what is under `key` at `path`.
#[inline]
pub fn child(path: u64, key: &[u8]) -> u64 {
    hash_bytes(path, key)
}

/// The most paths that one expression stands for.
const MOST_PATHS: usize = 8;

/// A step from a value to one of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of an object key: `-> 'key'`.
    Key(Vec<u8>),
    /// An element of an array: `-> 1`.
    Element,
    /// The value of an object key, or an element of an array if the text is a number: `#> '{key}'`, `['key']`.
    Either(Vec<u8>),
}

/// All paths that these steps from the root may lead to; None if there are too many.
pub fn paths(steps: &[Step]) -> Option<Vec<u64>> {
    let mut paths = vec![ROOT];
    for step in steps {
        match step {
            Step::Element => {}
            Step::Key(key) => paths.iter_mut().for_each(|path| *path = child(*path, key)),
            Step::Either(key) => {
                let keyed = paths.iter().map(|&path| child(path, key)).collect();
                // The server reads the text with strtol: only one that ends with a digit is a number.
                if key.last().is_some_and(u8::is_ascii_digit) {
                    paths.extend::<Vec<u64>>(keyed);
                } else {
                    paths = keyed;
                }
            }
        }
        if paths.len() > MOST_PATHS {
            return None;
        }
    }
    Some(paths)
}
