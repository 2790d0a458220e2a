//! Text search: the lexemes of a tsvector, and what a tsquery demands of them.
//!
//! Both types are read in the form in which PostgreSQL stores them (tsearch/ts_type.h), without the header of their
//! length:
//!
//! | type | form |
//! |---|---|
//! | tsvector | number of lexemes; for each one bit, 11 bits of length, 20 bits of place; the lexemes, with positions |
//! | tsquery | number of items; 12 bytes for each; the lexemes of its operands |
//!
//! An operator of a query stands before its operands: the right one follows it, the left one is as many items away as
//! the operator says.

use crate::Demand;

/// Bytes that are no tsvector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTsvector;

/// The most items of a query that are looked at. A longer one demands nothing.
const MOST_ITEMS: usize = 1024;

const ITEM_BYTES: usize = 12;
const OPERAND: u8 = 1;
const OPERATOR: u8 = 2;
const AND: u8 = 2;
const OR: u8 = 3;
const PHRASE: u8 = 4;

/// Calls `each` with the lexemes of a tsvector.
///
/// # Errors
/// Bytes that are no tsvector.
pub fn each_lexeme<'a>(vector: &'a [u8], mut each: impl FnMut(&'a [u8])) -> Result<(), NotTsvector> {
    let count = word(vector, 0).ok_or(NotTsvector)? as usize;
    let end = count.checked_mul(4).and_then(|bytes| bytes.checked_add(4)).ok_or(NotTsvector)?;
    let lexemes = vector.get(end..).ok_or(NotTsvector)?;
    for number in 0..count {
        let entry = word(vector, 4 + 4 * number).ok_or(NotTsvector)?;
        let (length, place) = ((entry >> 1 & 0x7ff) as usize, (entry >> 12) as usize);
        each(lexemes.get(place..place + length).ok_or(NotTsvector)?);
    }
    Ok(())
}

/// What the lexemes of every tsvector meet that a tsquery matches. Positions and weights are not looked at, and neither
/// a negation nor a prefix demands anything.
pub fn demand(query: &[u8]) -> Demand<Vec<u8>> {
    let Some(count) = word(query, 0) else { return Demand::Anything };
    match count as usize {
        // The server finds nothing by an empty query.
        0 => Demand::Never,
        count if count > MOST_ITEMS => Demand::Anything,
        count => of_items(query, count).unwrap_or(Demand::Anything).bounded(),
    }
}

/// None for bytes that are no tsquery.
fn of_items(query: &[u8], count: usize) -> Option<Demand<Vec<u8>>> {
    let items = query.get(4..4 + count * ITEM_BYTES)?;
    let lexemes = query.get(4 + count * ITEM_BYTES..)?;
    // Operands stand behind their operator, so from the last item to the first, those of each are known.
    let mut demands: Vec<Option<Demand<Vec<u8>>>> = vec![None; count];
    for number in (0..count).rev() {
        let item = items.get(number * ITEM_BYTES..(number + 1) * ITEM_BYTES)?;
        let demand = match (item[0], item[1]) {
            (OPERAND, _) => operand(item, lexemes)?,
            (OPERATOR, operator @ (AND | OR | PHRASE)) => {
                let left = number.checked_add(word(item, 4)? as usize)?;
                let mut take = |place: usize| demands.get_mut(place)?.take();
                let both = [take(left)?, take(number + 1)?];
                if operator == OR { Demand::any(both) } else { Demand::all(both) }
            }
            _ => Demand::Anything,
        };
        demands[number] = Some(demand);
    }
    demands.first_mut()?.take()
}

fn operand(item: &[u8], lexemes: &[u8]) -> Option<Demand<Vec<u8>>> {
    let (is_prefix, value) = (item[2] != 0, word(item, 8)?);
    let (length, place) = ((value & 0xfff) as usize, (value >> 12) as usize);
    let lexeme = lexemes.get(place..place + length)?;
    Some(if is_prefix { Demand::Anything } else { Demand::Key(lexeme.to_vec()) })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{ITEM_BYTES, NotTsvector, demand, each_lexeme};
    use crate::Demand::{self, All, Any, Anything, Key, Never};

    /// A query in the order in which it is stored.
    enum Item {
        Operand(&'static str, bool),
        /// The operator, and where its left operand is.
        Operator(u8, u32),
    }
    use Item::{Operand, Operator};

    fn query(items: &[Item]) -> Vec<u8> {
        let (mut bytes, mut lexemes) = ((items.len() as u32).to_le_bytes().to_vec(), Vec::new());
        for item in items {
            let mut one = [0u8; ITEM_BYTES];
            match item {
                Operand(lexeme, is_prefix) => {
                    // A weight changes nothing.
                    (one[0], one[1], one[2]) = (1, 8, (*is_prefix).into());
                    let value = (lexemes.len() as u32) << 12 | lexeme.len() as u32;
                    one[8..].copy_from_slice(&value.to_le_bytes());
                    lexemes.extend(lexeme.bytes().chain([0]));
                }
                Operator(operator, left) => {
                    (one[0], one[1]) = (2, *operator);
                    one[4..8].copy_from_slice(&left.to_le_bytes());
                }
            }
            bytes.extend(one);
        }
        [bytes, lexemes].concat()
    }

    fn key(lexeme: &str) -> Demand<Vec<u8>> {
        Key(lexeme.as_bytes().to_vec())
    }

    #[test]
    fn queries() {
        let plain = |lexeme| Operand(lexeme, false);
        assert_eq!(demand(&query(&[plain("cat")])), key("cat"));
        assert_eq!(demand(&query(&[])), Never);
        let both = |operator| query(&[Operator(operator, 2), plain("dog"), plain("cat")]);
        assert_eq!(demand(&both(2)), All(vec![key("cat"), key("dog")]));
        assert_eq!(demand(&both(3)), Any(vec![key("cat"), key("dog")]));
        assert_eq!(demand(&both(4)), All(vec![key("cat"), key("dog")]));
        // cat & !dog, cat | !dog, cat & do:*, cat | do:*
        let not = |operator| query(&[Operator(operator, 3), Operator(1, 1), plain("dog"), plain("cat")]);
        assert_eq!(demand(&not(2)), key("cat"));
        assert_eq!(demand(&not(3)), Anything);
        let prefix = |operator| query(&[Operator(operator, 2), Operand("do", true), plain("cat")]);
        assert_eq!(demand(&prefix(2)), key("cat"));
        assert_eq!(demand(&prefix(3)), Anything);
        // Not both: nothing is known of either.
        let negated = query(&[Operator(1, 1), Operator(2, 2), plain("dog"), plain("cat")]);
        assert_eq!(demand(&negated), Anything);
    }

    #[test]
    fn a_long_query() {
        let items = |count: usize| {
            // Each AND has a lexeme on its right, and the next AND on its left.
            let mut items = Vec::new();
            for _ in 1..count {
                items.push(Operator(2, 2));
                items.push(Operand("same", false));
            }
            items.push(Operand("last", false));
            query(&items)
        };
        assert_eq!(demand(&items(400)), All(vec![key("last"), key("same")]));
        assert_eq!(demand(&items(4000)), Anything);
    }

    #[test]
    fn damaged_bytes_demand_nothing() {
        let good = query(&[Operator(2, 2), Operand("dog", false), Operand("cat", false)]);
        let lexemes = good.len() - "dog cat ".len();
        assert!((0..lexemes).all(|end| demand(&good[..end]) == Anything));
        // The left operand is the right one, the operator itself, or far away.
        for left in [1, 0, 7, u32::MAX] {
            let bad = query(&[Operator(2, left), Operand("dog", false), Operand("cat", false)]);
            assert_eq!(demand(&bad), Anything, "{left}");
        }
    }

    #[test]
    fn vectors() {
        // 'a':1 'cat'
        let mut bytes = 2u32.to_le_bytes().to_vec();
        bytes.extend((1u32 << 1 | 1).to_le_bytes());
        bytes.extend((6u32 << 12 | 3 << 1).to_le_bytes());
        bytes.extend(b"a\0\x01\0\x01\0cat");
        let mut found = Vec::new();
        assert_eq!(each_lexeme(&bytes, |lexeme| found.push(lexeme.to_vec())), Ok(()));
        assert_eq!(found, [b"a".to_vec(), b"cat".to_vec()]);
        assert_eq!(each_lexeme(&bytes[..bytes.len() - 1], |_| ()), Err(NotTsvector));
        assert_eq!(each_lexeme(&[], |_| ()), Err(NotTsvector));
        assert_eq!(each_lexeme(&u32::MAX.to_le_bytes(), |_| ()), Err(NotTsvector));
        assert_eq!(each_lexeme(&0u32.to_le_bytes(), |_| ()), Ok(()));
    }
}
