//! The order key of a jsonb document, from the server's own form of it.
//!
//! `compareJsonbContainers` puts empty arrays first, then scalars, arrays by their number of elements, and objects by
//! their number of pairs. Scalars are null, strings, numbers, false and true, in this order.
//!
//! | bits of the key, from the highest | content |
//! |---|---|
//! | 3 | 0 empty array, 1 scalar, 2 array, 3 object |
//! | 61, of an array or an object | number of elements or pairs |
//! | 2 and 59, of a scalar | its type, and the first bits of a number's own key; 1 for true |
//!
//! Strings have no more than their type, because their order is that of the database's collation.

use crate::bytes::{u32_at, varlena};
use crate::numeric;

/// Of the header of a container: JB_CMASK, JB_FSCALAR and JB_FOBJECT of jsonb.h.
const COUNT: u32 = 0x0FFF_FFFF;
const SCALAR: u32 = 0x1000_0000;
const OBJECT: u32 = 0x2000_0000;
/// Of the entry of a scalar: JENTRY_TYPEMASK and the types.
const TYPE: u32 = 0x7000_0000;
const STRING: u32 = 0x0000_0000;
const NUMBER: u32 = 0x1000_0000;
const FALSE: u32 = 0x2000_0000;
const TRUE: u32 = 0x3000_0000;
const NULL: u32 = 0x4000_0000;

/// Shift of the upper bits, and of a scalar's type.
const CLASS: u32 = 61;
const SCALAR_TYPE: u32 = 59;
/// Bits of a number's key that are cut off.
const CUT: u32 = 64 - SCALAR_TYPE;

/// The key of a document with these bytes behind its header; None if it is damaged.
pub fn key(bytes: &[u8]) -> Option<u64> {
    let header = u32_at(bytes, 0)?;
    let count = u64::from(header & COUNT);
    if header & OBJECT != 0 {
        return Some(3 << CLASS | count);
    }
    if header & SCALAR == 0 {
        return Some(if count == 0 { 0 } else { 2 << CLASS | count });
    }
    let (number_of_type, rest) = match u32_at(bytes, 4)? & TYPE {
        NULL => (0, 0),
        STRING => (1, 0),
        NUMBER => (2, numeric::key(varlena(bytes.get(8..)?)?)? >> CUT),
        FALSE => (3, 0),
        TRUE => (3, 1),
        _ => return None,
    };
    Some(1 << CLASS | number_of_type << SCALAR_TYPE | rest)
}
