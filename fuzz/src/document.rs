//! Documents in PostgreSQL's binary form of jsonb (utils/jsonb.h), made up of a fuzzer's bytes.

use arbitrary::{Result, Unstructured};

/// How often an entry has the end of its data instead of its length (JB_OFFSET_STRIDE).
const STRIDE: usize = 32;
/// The most levels of arrays and objects.
const MOST_LEVELS: u32 = 8;
const OBJECT: u32 = 0x2000_0000;
const ARRAY: u32 = 0x4000_0000;
const SCALAR: u32 = 0x1000_0000;

/// A whole document: an array, an object, or a scalar.
pub fn document(source: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let kind = *source.choose(&[OBJECT, ARRAY, ARRAY | SCALAR])?;
    container(source, kind, 0)
}

fn container(source: &mut Unstructured<'_>, kind: u32, level: u32) -> Result<Vec<u8>> {
    let count = if kind & SCALAR != 0 { 1 } else { source.int_in_range(0..=40usize)? };
    let names = if kind == OBJECT { count } else { 0 };
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for index in 0..names + count {
        let before = data.len();
        let kind = if index < names {
            add_string(source, &mut data)?
        } else {
            add_value(source, &mut data, level)?
        };
        let length = if index % STRIDE == 0 { 0x8000_0000 | data.len() } else { data.len() - before };
        entries.push(kind | length as u32);
    }
    let words = std::iter::once(kind | count as u32).chain(entries);
    Ok(words.flat_map(u32::to_ne_bytes).chain(data).collect())
}

/// Adds a string's data and returns its type.
fn add_string(source: &mut Unstructured<'_>, data: &mut Vec<u8>) -> Result<u32> {
    let words: [&[u8]; 6] = [b"", b"a", b"-12.50", b"0x1f", b"true", b"{"];
    data.extend(match source.int_in_range(0..=1)? {
        0 => source.choose(&words)?,
        _ => {
            let length = source.int_in_range(0..=20)?;
            source.bytes(length)?
        }
    });
    Ok(0)
}

/// Adds a value's data and returns its type.
fn add_value(source: &mut Unstructured<'_>, data: &mut Vec<u8>, level: u32) -> Result<u32> {
    Ok(match source.int_in_range(0..=7)? {
        0..=2 => add_string(source, data)?,
        3 => {
            // A number of digits to base 10,000 in the short form of numeric, behind its length.
            let digits = source.int_in_range(0..=3usize)?;
            data.resize(data.len().next_multiple_of(4), 0);
            data.extend(((4 + 2 + 2 * digits as u32) << 2).to_ne_bytes());
            data.extend((0x8000 | source.int_in_range(0..=0x3fffu16)?).to_ne_bytes());
            for _ in 0..digits {
                data.extend(source.int_in_range(0..=9_999u16)?.to_ne_bytes());
            }
            0x1000_0000
        }
        4 => 0x2000_0000,
        5 => 0x3000_0000,
        6 if level < MOST_LEVELS => {
            let kind = *source.choose(&[OBJECT, ARRAY])?;
            let inner = container(source, kind, level + 1)?;
            data.resize(data.len().next_multiple_of(4), 0);
            data.extend(inner);
            0x5000_0000
        }
        _ => 0x4000_0000,
    })
}
