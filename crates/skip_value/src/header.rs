//! What stands before a stored filter's bits.
//!
//! Version 1, little-endian. Most values have the short form:
//!
//! | bytes | holds |
//! |---|---|
//! | 1 | version in the upper 3 bits, the policy's code in the lower 5 |
//! | 1 | the type of the keys in the upper 3 bits, probes a key, 1 to 31, in the lower 5 |
//! | 0 to 2 | if those 3 bits are 0, the type's OID as a varint |
//!
//! and the rest is the filter's bits, whose length tells their number. In the 3 bits, 1 stands for bigint, 2 text, 3
//! uuid, 4 bytea, 5 timestamptz, 6 inet, 7 macaddr. Only built-in types, whose OIDs are the same in every database, are
//! named by them. Everything else takes the long form, whose second byte is 0:
//!
//! | bytes | holds |
//! |---|---|
//! | 1 | as above |
//! | 1 | 0 |
//! | 1 | flags: 1 for a seed, 2 for a collation, 4 for a type by name |
//! | 1 or 2, or two strings | the type: its OID, or schema and name |
//! | 8, if flagged | the seed |
//! | two strings, if flagged | the collation's name, and the version of it that keys were hashed under |
//! | 1 | number of members, 1 to 64 |
//! | for each, 1 and 1 to 10 | probes, and bits as a varint |
//!
//! and then the members' bits, one after the other. A string is its length as a varint and its bytes. A varint has 7
//! bits a byte, the lowest first, and no needless zeros. A header has one encoding: the long form is for what the short
//! one cannot say. So filters are equal if their bytes are.

use crate::error::ValueError;
use crate::keys::{CODED, Collation, KeyType, Keys};
use skip_filter::policy::{FilterPolicy, Geometry, Shape, by_code};

/// Version of the layout, of the hash scheme, and of the canonical form of keys.
pub const VERSION: u8 = 1;

/// Servers give OIDs from here on to what users create (FirstNormalObjectId).
pub(crate) const FIRST_USER_OID: u32 = 16_384;

const SEED: u8 = 1;
const COLLATION: u8 = 2;
const NAMED: u8 = 4;

/// Bits of the probes in the short form; the code of the type is above them.
const PROBES_BITS: u32 = 5;
const PROBES_MASK: u8 = (1 << PROBES_BITS) - 1;

/// The most members of a series. Each is made for several times the keys of the one before, so that a few dozen hold
/// more keys than fit into a value.
pub const MOST_MEMBERS: usize = 64;

/// The longest name: far above a server's 64 bytes, in case it was built with more.
pub(crate) const LONGEST_NAME: usize = 1024;

impl Keys {
    /// The header of a filter of these keys with these members.
    pub fn encode(&self, members: &[Shape]) -> Vec<u8> {
        let first = VERSION << 5 | self.policy.code();
        if let Some((num_probes, oid)) = self.short_form(members) {
            let code = CODED.iter().position(|&coded| coded == oid).map_or(0, |i| i as u8 + 1);
            let mut bytes = vec![first, code << PROBES_BITS | num_probes];
            if code == 0 {
                put_varint(&mut bytes, oid.into());
            }
            return bytes;
        }
        let is_named = matches!(self.key_type, KeyType::Named { .. });
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags =
            flag(self.seed != 0, SEED) | flag(self.collation.is_some(), COLLATION) | flag(is_named, NAMED);
        let mut bytes = vec![first, 0, flags];
        match &self.key_type {
            KeyType::BuiltIn(oid) => put_varint(&mut bytes, (*oid).into()),
            KeyType::Named { schema, name } => {
                [schema, name].iter().for_each(|text| put_text(&mut bytes, text))
            }
        }
        if self.seed != 0 {
            bytes.extend(self.seed.to_le_bytes());
        }
        if let Some(Collation { name, version }) = &self.collation {
            [name, version].iter().for_each(|text| put_text(&mut bytes, text));
        }
        bytes.push(members.len() as u8);
        for member in members {
            bytes.push(member.geometry().num_probes);
            put_varint(&mut bytes, member.geometry().bits);
        }
        bytes
    }

    /// Probes and type, if there is no more to say.
    fn short_form(&self, members: &[Shape]) -> Option<(u8, u32)> {
        let (&[member], KeyType::BuiltIn(oid)) = (members, &self.key_type) else { return None };
        let is_plain = self.seed == 0 && self.collation.is_none();
        let whole = member.geometry().bits == member.body_bytes() * 8;
        let num_probes = member.geometry().num_probes;
        (is_plain && whole && num_probes <= PROBES_MASK).then_some((num_probes, *oid))
    }
}

/// Reads the header of a value of `length` bytes, of which `bytes` are the first ones: the keys, the members' shapes,
/// and the length of the header.
pub(crate) fn decode(bytes: &[u8], length: u64) -> Result<(Keys, Vec<Shape>, usize), ValueError> {
    let mut input = Input(bytes);
    let first = input.byte()?;
    if first >> 5 != VERSION {
        return Err(ValueError::Version(first >> 5));
    }
    let policy = by_code(first & 31).ok_or(ValueError::Policy(first & 31))?;
    let second = input.byte()?;
    let (keys, members) = if second != 0 {
        let oid = match CODED.get(usize::from(second >> PROBES_BITS).wrapping_sub(1)) {
            Some(&coded) => coded,
            None => input.oid()?,
        };
        let key_type = KeyType::BuiltIn(oid);
        let body = length.saturating_sub((bytes.len() - input.0.len()) as u64);
        let geometry = Geometry { bits: body.saturating_mul(8), num_probes: second & PROBES_MASK, seed: 0 };
        (Keys { policy, seed: 0, key_type, collation: None }, vec![Shape::new(policy, geometry)?])
    } else {
        long_form(&mut input, policy)?
    };
    let header = &bytes[..bytes.len() - input.0.len()];
    if keys.encode(&members) != header {
        return Err(ValueError::Malformed("its header is not in canonical form"));
    }
    Ok((keys, members, header.len()))
}

fn long_form(
    input: &mut Input<'_>,
    policy: &'static dyn FilterPolicy,
) -> Result<(Keys, Vec<Shape>), ValueError> {
    let flags = input.byte()?;
    if flags & !(SEED | COLLATION | NAMED) != 0 {
        return Err(ValueError::Malformed("its header has unknown flags"));
    }
    let key_type = if flags & NAMED == 0 {
        KeyType::BuiltIn(input.oid()?)
    } else {
        KeyType::Named { schema: input.name()?, name: input.name()? }
    };
    let seed = if flags & SEED == 0 { 0 } else { u64::from_le_bytes(input.array()?) };
    let has_collation = flags & COLLATION != 0;
    let collation =
        has_collation.then(|| Ok::<_, ValueError>(Collation { name: input.name()?, version: input.text()? }));
    let collation = collation.transpose()?;
    let count = usize::from(input.byte()?);
    if !(1..=MOST_MEMBERS).contains(&count) {
        return Err(ValueError::Malformed("its number of members is not between 1 and 64"));
    }
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        let (num_probes, bits) = (input.byte()?, input.varint()?);
        members.push(Shape::new(policy, Geometry { bits, num_probes, seed })?);
    }
    Ok((Keys { policy, seed, key_type, collation }, members))
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_varint(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ValueError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ValueError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        self.take(N)?.try_into().map_err(|_| ValueError::Truncated)
    }

    fn byte(&mut self) -> Result<u8, ValueError> {
        Ok(self.array::<1>()?[0])
    }

    fn varint(&mut self) -> Result<u64, ValueError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ValueError::Malformed("a number in its header is too long"))
    }

    fn oid(&mut self) -> Result<u32, ValueError> {
        let oid = u32::try_from(self.varint()?).ok().filter(|oid| (1..FIRST_USER_OID).contains(oid));
        oid.ok_or(ValueError::Malformed("its key type is not a built-in type"))
    }

    fn text(&mut self) -> Result<String, ValueError> {
        let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if length > LONGEST_NAME {
            return Err(ValueError::Malformed("a name in its header is too long"));
        }
        let text = self.take(length)?;
        if text.contains(&0) {
            return Err(ValueError::Malformed("a name in its header has a zero byte"));
        }
        let text = std::str::from_utf8(text);
        Ok(text.map_err(|_| ValueError::Malformed("a name in its header is not UTF-8"))?.to_owned())
    }

    fn name(&mut self) -> Result<String, ValueError> {
        let name = self.text()?;
        if name.is_empty() { Err(ValueError::Malformed("a name in its header is empty")) } else { Ok(name) }
    }
}
