//! What a jsonpath asks of a document, as far as it asks for equality: `@? '$.a[*] ? (@.b == "x")'`,
//! `@@ '$.a == 1 && exists($.b)'`.
//!
//! A jsonpath is read in the form in which PostgreSQL stores it (utils/jsonpath.h), without the header of its length: a
//! number for version and mode, then items. An item has a type, a padding to four bytes, how far away the next item of
//! its chain is (0: there is none), and what its type needs. Distances count from the item.
//!
//! A chain begins with the root, with the current item of a filter, or with something else, such as a literal. Its
//! accessors lead from the values of the document to others. Array accessors leave the path as it is, as keys have no
//! trace of arrays: so it makes no difference whether the server unwraps arrays, which it does in lax mode. Where an
//! accessor leads to unknown places (`.*`, `.**`, methods), what follows is not asked about; filters are nevertheless.
//!
//! A document is found by `@?` if the chain gives a value, and by `@@` if it gives the value true alone. An error finds
//! nothing, because both operators suppress it. So what must hold for a value to come out of the chain must hold for
//! every document that is found:
//!
//! - every filter of the chain is true for some value that reaches it;
//! - a comparison is true if it holds for a pair of values of its two sides, so both sides give values;
//! - `==` of a place and a literal: the document has the literal at the place;
//! - `&&`: both sides; `||`: one of them; `exists(…)`: its chain gives a value;
//! - of anything else (`!`, `is unknown`, arithmetic, variables, `like_regex`) nothing is known.
//!
//! The result of a predicate that is not in a filter is a value, whatever it is: `@? '$.a == 1'` finds every document.

use crate::container::{Scalar, without_length};
use crate::keys::KeyMaker;
use crate::path;
use skip_text::Demand;

/// What an operator asks of the values that a path gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathQuery {
    /// `@?`: there is one.
    Exists,
    /// `@@`: it is true.
    IsTrue,
}

/// The version that this module understands, without the bit that says whether the mode is lax.
const VERSION: u32 = 1;
const LAX: u32 = 1 << 31;

/// The most levels of predicates and chains within each other, and the most items, that are looked at.
const MOST_LEVELS: u32 = 64;
const MOST_ITEMS: u32 = 2048;

// Types of items.
const NULL: u8 = 0;
const STRING: u8 = 1;
const NUMERIC: u8 = 2;
const BOOL: u8 = 3;
const AND: u8 = 4;
const OR: u8 = 5;
const NOT: u8 = 6;
const IS_UNKNOWN: u8 = 7;
const EQUAL: u8 = 8;
const GREATER_OR_EQUAL: u8 = 13;
const ANY_ARRAY: u8 = 21;
const INDEX_ARRAY: u8 = 23;
const KEY: u8 = 25;
const CURRENT: u8 = 26;
const ROOT: u8 = 27;
const FILTER: u8 = 29;
const EXISTS: u8 = 30;
const STARTS_WITH: u8 = 41;
const LIKE_REGEX: u8 = 42;

/// What the keys meet of every document that is found.
pub fn demand(keys: &mut KeyMaker, path: &[u8], asked: PathQuery) -> Demand<u64> {
    let version = path.get(..4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes);
    let (Some(version), Some(items)) = (version, path.get(4..)) else { return Demand::Anything };
    if version & !LAX != VERSION {
        return Demand::Anything;
    }
    let mut reader = Reader { keys, items, left: MOST_ITEMS };
    // Bytes that are no jsonpath, and paths that are too large, demand nothing.
    reader.whole(asked).unwrap_or(Demand::Anything).bounded()
}

/// An item.
struct PathItem {
    /// Where it begins, and where what its type needs begins.
    from: usize,
    at: usize,
    kind: u8,
    next: Option<usize>,
}

impl PathItem {
    fn is_predicate(&self) -> bool {
        matches!(self.kind, AND..=GREATER_OR_EQUAL | EXISTS | STARTS_WITH | LIKE_REGEX)
    }
}

/// What a chain of items gives, if it gives anything.
struct Chain<'a> {
    /// What is demanded of the document for that.
    demand: Demand<u64>,
    end: End<'a>,
}

enum End<'a> {
    /// Values at this path of the document.
    Place(u64),
    Literal(Scalar<'a>),
    Unknown,
}

struct Reader<'k, 'a> {
    keys: &'k mut KeyMaker,
    items: &'a [u8],
    /// The number of items that may still be read.
    left: u32,
}

impl<'a> Reader<'_, 'a> {
    fn whole(&mut self, asked: PathQuery) -> Option<Demand<u64>> {
        let first = self.item(0)?;
        if asked == PathQuery::IsTrue && first.is_predicate() && first.next.is_none() {
            return self.predicate(0, None, 0);
        }
        let chain = self.chain(0, None, 0)?;
        Some(match chain.end {
            End::Place(place) if asked == PathQuery::IsTrue => {
                let is_true = Demand::Key(self.keys.scalar(place, Scalar::Bool(true)));
                Demand::all([chain.demand, is_true])
            }
            _ => chain.demand,
        })
    }

    /// What is demanded for a predicate to be true; `current` is the place of the filter's current item.
    fn predicate(&mut self, from: usize, current: Option<u64>, level: u32) -> Option<Demand<u64>> {
        let item = self.item(from)?;
        if level >= MOST_LEVELS || item.next.is_some() {
            return Some(Demand::Anything);
        }
        let part = |reader: &mut Self, number: usize| {
            let part = reader.distance(item.from, item.at + 4 * number)?;
            Some((part, level + 1))
        };
        match item.kind {
            AND | OR => {
                let mut one = |number| {
                    let (part, level) = part(self, number)?;
                    self.predicate(part, current, level)
                };
                let both = [one(0)?, one(1)?];
                Some(if item.kind == AND { Demand::all(both) } else { Demand::any(both) })
            }
            EXISTS => {
                let (part, level) = part(self, 0)?;
                Some(self.chain(part, current, level)?.demand)
            }
            EQUAL..=GREATER_OR_EQUAL | STARTS_WITH => {
                let mut one = |number| {
                    let (part, level) = part(self, number)?;
                    self.chain(part, current, level)
                };
                let (left, right) = (one(0)?, one(1)?);
                let equality = match (left.end, right.end) {
                    (End::Place(place), End::Literal(scalar)) | (End::Literal(scalar), End::Place(place))
                        if item.kind == EQUAL =>
                    {
                        Demand::Key(self.keys.scalar(place, scalar))
                    }
                    _ => Demand::Anything,
                };
                Some(Demand::all([left.demand, right.demand, equality]))
            }
            // NOT and IS_UNKNOWN are true where what they contain is not.
            NOT | IS_UNKNOWN => Some(Demand::Anything),
            _ => Some(Demand::Anything),
        }
    }

    /// What is demanded for a chain to give a value, and the place of such values.
    fn chain(&mut self, from: usize, current: Option<u64>, level: u32) -> Option<Chain<'a>> {
        let unknown = Chain { demand: Demand::Anything, end: End::Unknown };
        if level >= MOST_LEVELS {
            return Some(unknown);
        }
        let first = self.item(from)?;
        if first.next.is_none()
            && let Some(literal) = self.literal(&first)
        {
            return Some(Chain { end: End::Literal(literal), ..unknown });
        }
        let mut place = match first.kind {
            ROOT => Some(path::ROOT),
            CURRENT => current,
            _ => None,
        };
        let (mut demands, mut next) = (Vec::new(), first.next);
        while let Some(from) = next {
            let item = self.item(from)?;
            match item.kind {
                ANY_ARRAY | INDEX_ARRAY => {}
                KEY => {
                    let name = self.string(item.at)?;
                    place = place.map(|place| path::child(place, name));
                }
                FILTER => {
                    let predicate = self.distance(item.from, item.at)?;
                    demands.push(self.predicate(predicate, place, level + 1)?);
                }
                _ => place = None,
            }
            next = item.next;
        }
        Some(Chain { demand: Demand::all(demands), end: place.map_or(End::Unknown, End::Place) })
    }

    fn item(&mut self, from: usize) -> Option<PathItem> {
        self.left = self.left.checked_sub(1)?;
        let kind = *self.items.get(from)?;
        let at = (from + 1).next_multiple_of(4);
        let next = match self.number(at)? {
            0 => None,
            distance => Some(moved(from, distance)?),
        };
        Some(PathItem { from, at: at + 4, kind, next })
    }

    fn literal(&self, item: &PathItem) -> Option<Scalar<'a>> {
        match item.kind {
            NULL => Some(Scalar::Null),
            STRING => self.string(item.at).map(Scalar::String),
            NUMERIC => without_length(self.items.get(item.at..)?).ok().map(Scalar::Number),
            BOOL => self.items.get(item.at).map(|&byte| Scalar::Bool(byte != 0)),
            _ => None,
        }
    }

    fn string(&self, at: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number(at)?).ok()?;
        self.items.get(at + 4..)?.get(..length)
    }

    /// The item whose distance from the item at `from` stands at `at`.
    fn distance(&self, from: usize, at: usize) -> Option<usize> {
        moved(from, self.number(at)?)
    }

    fn number(&self, at: usize) -> Option<i32> {
        Some(i32::from_ne_bytes(self.items.get(at..)?.get(..4)?.try_into().ok()?))
    }
}

/// Items stand behind those that refer to them.
fn moved(from: usize, distance: i32) -> Option<usize> {
    from.checked_add(usize::try_from(distance).ok().filter(|&distance| distance > 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Demand::{All, Any, Anything, Key};

    /// Chains of items, as a path has them.
    enum TestItem {
        /// A chain: its items.
        Chain(Vec<TestItem>),
        Plain(u8),
        Text(u8, &'static str),
        Truth(bool),
        One(u8, Box<TestItem>),
        Two(u8, Box<TestItem>, Box<TestItem>),
    }
    use TestItem::{Chain, One, Plain, Text, Truth, Two};

    fn write(bytes: &mut Vec<u8>, nodes: &[TestItem]) -> usize {
        let from = bytes.len();
        let set = |bytes: &mut Vec<u8>, at: usize, to: usize| {
            bytes[at..at + 4].copy_from_slice(&((to - from) as i32).to_ne_bytes());
        };
        let [node, rest @ ..] = nodes else { return bytes.len() };
        if let Chain(inner) = node {
            return write(bytes, inner);
        }
        bytes.push(match node {
            Plain(kind) | Text(kind, _) | One(kind, _) | Two(kind, ..) => *kind,
            Truth(_) | Chain(_) => BOOL,
        });
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let next = bytes.len();
        bytes.extend([0; 4]);
        match node {
            Text(_, text) => {
                bytes.extend((text.len() as i32).to_ne_bytes());
                bytes.extend(text.bytes().chain([0]));
            }
            Truth(truth) => bytes.push((*truth).into()),
            One(_, part) => {
                let at = bytes.len();
                bytes.extend([0; 4]);
                let to = write(bytes, std::slice::from_ref(part));
                set(bytes, at, to);
            }
            Two(_, left, right) => {
                let at = bytes.len();
                bytes.extend([0; 8]);
                let to = write(bytes, std::slice::from_ref(left));
                set(bytes, at, to);
                let to = write(bytes, std::slice::from_ref(right));
                set(bytes, at + 4, to);
            }
            Plain(_) | Chain(_) => {}
        }
        if !rest.is_empty() {
            let to = write(bytes, rest);
            set(bytes, next, to);
        }
        from
    }

    fn bytes(nodes: &[TestItem]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, nodes);
        [(VERSION | LAX).to_ne_bytes().to_vec(), bytes].concat()
    }

    fn asks(nodes: &[TestItem], asked: PathQuery) -> Demand<u64> {
        demand(&mut KeyMaker::new(1), &bytes(nodes), asked)
    }

    fn key(path: &[&str], scalar: Scalar<'_>) -> Demand<u64> {
        let path = path.iter().fold(path::ROOT, |path, name| path::child(path, name.as_bytes()));
        Key(KeyMaker::new(1).scalar(path, scalar))
    }

    fn at(head: u8, name: &'static str) -> TestItem {
        Chain(vec![Plain(head), Text(KEY, name)])
    }

    /// `name == "text"`, from the root or the current item.
    fn equals(head: u8, name: &'static str, text: &'static str) -> TestItem {
        Two(EQUAL, Box::new(at(head, name)), Box::new(Text(STRING, text)))
    }

    #[test]
    fn predicates() {
        let x = || key(&["a"], Scalar::String(b"x"));
        let y = || key(&["b"], Scalar::String(b"y"));
        let both = |kind| {
            let (left, right) = (equals(ROOT, "a", "x"), equals(ROOT, "b", "y"));
            [Two(kind, Box::new(left), Box::new(right))]
        };
        assert_eq!(asks(&[equals(ROOT, "a", "x")], PathQuery::IsTrue), x());
        // A predicate gives a value in any case.
        assert_eq!(asks(&[equals(ROOT, "a", "x")], PathQuery::Exists), Anything);
        assert_eq!(asks(&both(AND), PathQuery::IsTrue), All(vec![x(), y()]));
        assert_eq!(asks(&both(OR), PathQuery::IsTrue), Any(vec![x(), y()]));
        assert_eq!(asks(&[One(NOT, Box::new(equals(ROOT, "a", "x")))], PathQuery::IsTrue), Anything);
        assert_eq!(asks(&[One(IS_UNKNOWN, Box::new(equals(ROOT, "a", "x")))], PathQuery::IsTrue), Anything);
        let less = Two(10, Box::new(at(ROOT, "a")), Box::new(Text(STRING, "x")));
        assert_eq!(asks(&[less], PathQuery::IsTrue), Anything);
        // A predicate with a method: ($.a == "x").type()
        assert_eq!(asks(&[equals(ROOT, "a", "x"), Plain(31)], PathQuery::IsTrue), Anything);
        // $.a alone must be true, and "x" == $.a is the same as $.a == "x".
        assert_eq!(asks(&[at(ROOT, "a")], PathQuery::IsTrue), key(&["a"], Scalar::Bool(true)));
        assert_eq!(asks(&[at(ROOT, "a")], PathQuery::Exists), Anything);
        let turned = Two(EQUAL, Box::new(Text(STRING, "x")), Box::new(at(ROOT, "a")));
        assert_eq!(asks(&[turned], PathQuery::IsTrue), x());
        let truth = Two(EQUAL, Box::new(at(ROOT, "a")), Box::new(Truth(false)));
        assert_eq!(asks(&[truth], PathQuery::IsTrue), key(&["a"], Scalar::Bool(false)));
    }

    #[test]
    fn filters() {
        let filter = |predicate| One(FILTER, Box::new(predicate));
        // $.list[*] ? (@.b == "y")
        let list =
            || vec![Plain(ROOT), Text(KEY, "list"), Plain(ANY_ARRAY), filter(equals(CURRENT, "b", "y"))];
        let inner = || key(&["list", "b"], Scalar::String(b"y"));
        assert_eq!(asks(&list(), PathQuery::Exists), inner());
        // … .c == "z", and exists(…)
        let mut longer = list();
        longer.push(Text(KEY, "c"));
        let equal = Two(EQUAL, Box::new(Chain(longer)), Box::new(Text(STRING, "z")));
        let c = key(&["list", "c"], Scalar::String(b"z"));
        assert_eq!(asks(&[equal], PathQuery::IsTrue), All(vec![inner(), c]));
        assert_eq!(asks(&[One(EXISTS, Box::new(Chain(list())))], PathQuery::IsTrue), inner());
        assert_eq!(asks(&[One(EXISTS, Box::new(Chain(list())))], PathQuery::Exists), Anything);
        // Below .* the place is not known, but the root is.
        let below = |predicate| [Plain(ROOT), Plain(22), filter(predicate)];
        assert_eq!(asks(&below(equals(CURRENT, "b", "y")), PathQuery::Exists), Anything);
        assert_eq!(
            asks(&below(equals(ROOT, "a", "x")), PathQuery::Exists),
            key(&["a"], Scalar::String(b"x"))
        );
        // After a method the value is another one.
        let method = Chain(vec![Plain(ROOT), Text(KEY, "a"), Plain(31)]);
        let typed = Two(EQUAL, Box::new(method), Box::new(Text(STRING, "x")));
        assert_eq!(asks(&[typed], PathQuery::IsTrue), Anything);
    }

    #[test]
    fn damaged_bytes_and_deep_paths_demand_nothing_more() {
        let good = bytes(&[equals(ROOT, "a", "x")]);
        for end in 0..good.len() - 1 {
            let found = demand(&mut KeyMaker::new(1), &good[..end], PathQuery::IsTrue);
            assert_eq!(found, Anything, "{end}");
        }
        for at in 0..good.len() {
            for byte in [0, 1, 4, 29, 255] {
                let mut bad = good.clone();
                bad[at] = byte;
                let _ = demand(&mut KeyMaker::new(1), &bad, PathQuery::IsTrue);
            }
        }
        let deep = |levels| {
            (0..levels).fold(equals(ROOT, "a", "x"), |inner, _| {
                Two(AND, Box::new(inner), Box::new(equals(ROOT, "b", "y")))
            })
        };
        let both = All(vec![key(&["a"], Scalar::String(b"x")), key(&["b"], Scalar::String(b"y"))]);
        assert_eq!(asks(&[deep(20)], PathQuery::IsTrue), both);
        assert_eq!(asks(&[deep(100)], PathQuery::IsTrue), key(&["b"], Scalar::String(b"y")));
    }
}
