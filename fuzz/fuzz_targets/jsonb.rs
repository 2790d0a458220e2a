//! The keys of jsonb documents ([`skip_jsonb`]): any bytes are an error, or a document whose keys a search for each of
//! its parts asks for, in bounded time and memory. Any bytes as a jsonpath ask for something.
//!
//! The first byte chooses what the other bytes are: a document as they are, a document that is made up of them, perhaps
//! with a few bytes changed, or a jsonpath.

#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use pg_skip_fuzz::{allocations, document};
use skip_jsonb::container::{Names, Scalar, each_scalar};
use skip_jsonb::jsonpath::{self, PathQuery};
use skip_jsonb::keys::KeyMaker;
use skip_jsonb::number::Number;
use skip_jsonb::path;
use std::collections::HashSet;

/// What making the keys may allocate for each byte of a document, and over that.
const ALLOCATED_PER_BYTE: usize = 64;
const ALLOCATED: usize = 16 << 10;

fuzz_target!(|input: &[u8]| {
    let Some((&way, rest)) = input.split_first() else { return };
    match way % 4 {
        0 => _ = keys(rest),
        1 => {
            if let Ok(made_up) = document::document(&mut Unstructured::new(rest)) {
                assert!(keys(&made_up), "a document is not read");
            }
        }
        2 => {
            let Some((changes, rest)) = rest.split_first_chunk::<9>() else { return };
            let Ok(mut bytes) = document::document(&mut Unstructured::new(rest)) else { return };
            for change in changes.chunks_exact(3) {
                let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
                bytes[place] ^= change[2];
            }
            keys(&bytes);
        }
        _ => {
            for asked in [PathQuery::Exists, PathQuery::IsTrue] {
                jsonpath::demand(&mut KeyMaker::new(1), rest, asked);
            }
        }
    }
});

/// Whether the bytes are a document. If they are, each part is found.
fn keys(bytes: &[u8]) -> bool {
    let mut maker = KeyMaker::new(7);
    let (mut found, mut count) = (HashSet::new(), 0);
    let read = allocations::at_most(ALLOCATED + bytes.len() * ALLOCATED_PER_BYTE, || {
        maker.of_document(bytes, |_| count += 1)
    });
    // An entry of four bytes has at most a name, a scalar, and the number that it is read as.
    assert!(count <= 3 * bytes.len() / 4, "{count} keys of {} bytes", bytes.len());
    let again = maker.of_document(bytes, |key| _ = found.insert(key));
    assert_eq!(read, again);
    let scalars = maker.of_scalars(bytes, path::ROOT);
    assert_eq!(scalars.is_ok(), read.is_ok());
    if let Ok(scalars) = scalars {
        assert!(scalars.iter().all(|key| found.contains(key)), "a scalar that is not found");
        let mut names = Names::default();
        names.read(bytes, path::ROOT).expect("it was read before");
        each_scalar(bytes, &names, |path, scalar| {
            let asked = match scalar {
                Scalar::String(text) => maker.of_text(path, text),
                Scalar::Number(number) => {
                    Number::of_numeric(number).map(|number| maker.of_number(path, &number))
                }
                Scalar::Bool(truth) => maker.of_text(path, if truth { b"true" } else { b"false" }),
                Scalar::Null => None,
            };
            assert!(asked.is_none_or(|keys| keys.iter().any(|key| found.contains(key))), "{scalar:?}");
        })
        .expect("it was read before");
    }
    read.is_ok()
}
