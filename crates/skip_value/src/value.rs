//! A stored filter that is read, or changed, where it lies.

use crate::error::ValueError;
use crate::header;
use crate::keys::{KeyType, Keys};
use skip_filter::policy::{BloomFilter, Cardinality, Shape};

/// A stored filter, read where it lies.
#[derive(Clone, Debug)]
pub struct StoredFilter<B> {
    keys: Keys,
    members: Vec<BloomFilter<B>>,
}

impl<'a> StoredFilter<&'a [u8]> {
    /// Reads a value.
    ///
    /// # Errors
    /// What is wrong with it. Bits that no probe can reach must be zero.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ValueError> {
        let (keys, shapes, start) = header::decode(bytes, bytes.len() as u64)?;
        Ok(Self { keys, members: members(shapes, &bytes[start..], <[u8]>::split_at_checked)? })
    }
}

impl<'a> StoredFilter<&'a mut [u8]> {
    /// Reads a value whose bits are to be changed where they lie.
    ///
    /// # Errors
    /// As [`StoredFilter::decode`].
    pub fn decode_mut(bytes: &'a mut [u8]) -> Result<Self, ValueError> {
        let (keys, shapes, start) = header::decode(bytes, bytes.len() as u64)?;
        Ok(Self { keys, members: members(shapes, &mut bytes[start..], <[u8]>::split_at_mut_checked)? })
    }

    /// Adds the key of a hash.
    pub fn insert_hash(&mut self, hash: u64) {
        if !self.may_contain_hash(hash)
            && let Some(member) = self.members.last_mut()
        {
            member.insert_hash(hash);
        }
    }

    /// Adds all keys of another value.
    ///
    /// # Errors
    /// What differs between the two.
    pub fn union<C: AsRef<[u8]>>(&mut self, other: &StoredFilter<C>) -> Result<(), ValueError> {
        self.must_fit(other)?;
        for (own, others) in self.members.iter_mut().zip(&other.members) {
            own.union(others)?;
        }
        Ok(())
    }

    /// Leaves the bits that both values have.
    ///
    /// # Errors
    /// What differs between the two, or that they are series: a key may lie in different members of them.
    pub fn intersection<C: AsRef<[u8]>>(&mut self, other: &StoredFilter<C>) -> Result<(), ValueError> {
        self.must_fit(other)?;
        match (&mut self.members[..], &other.members[..]) {
            ([own], [others]) => Ok(own.intersection(others)?),
            (several, _) => Err(ValueError::Series(several.len())),
        }
    }
}

impl<B: AsRef<[u8]>> StoredFilter<B> {
    /// What the keys are.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The filters: one, or those of a series.
    pub fn members(&self) -> &[BloomFilter<B>] {
        &self.members
    }

    /// The only filter.
    ///
    /// # Errors
    /// That it is a series.
    pub fn single(&self) -> Result<&BloomFilter<B>, ValueError> {
        match &self.members[..] {
            [member] => Ok(member),
            several => Err(ValueError::Series(several.len())),
        }
    }

    /// Whether the value may hold the key of a hash: false is certain, true is not.
    pub fn may_contain_hash(&self, hash: u64) -> bool {
        self.members.iter().any(|member| member.may_contain_hash(hash))
    }

    /// Number of bits that are set.
    pub fn count_ones(&self) -> u64 {
        self.members.iter().map(BloomFilter::count_ones).sum()
    }

    /// The number of distinct keys, as the set bits tell it.
    ///
    /// Of a series: keys that a full member seemed to hold already were not added to the next one, a share as large as
    /// its rate; they count here. Keys that are in several members, because these came from several parts, count
    /// several times.
    pub fn cardinality(&self) -> Cardinality {
        let mut sum = Cardinality { estimate: 0.0, low: 0.0, high: 0.0 };
        let mut added = 1.0;
        for member in &self.members {
            let one = member.cardinality();
            sum.estimate += one.estimate / added;
            sum.low = sum.low.max(one.low);
            sum.high += one.high / added;
            added = (added * (1.0 - member.false_positive_rate())).max(f64::MIN_POSITIVE);
        }
        sum
    }

    /// The number of keys that are in another value, too, as the set bits of both tell it.
    ///
    /// # Errors
    /// What differs between the two, or that they are series: a key may lie in different members of them.
    pub fn common<C: AsRef<[u8]>>(&self, other: &StoredFilter<C>) -> Result<Cardinality, ValueError> {
        self.must_fit(other)?;
        Ok(self.single()?.common(other.single()?)?)
    }

    /// The rate at which keys match that were never added, as the set bits are now.
    pub fn false_positive_rate(&self) -> f64 {
        1.0 - self.members.iter().map(|member| 1.0 - member.false_positive_rate()).product::<f64>()
    }

    /// Whether filters can be put together: same keys, same shapes.
    ///
    /// # Errors
    /// What differs.
    pub fn must_fit<C: AsRef<[u8]>>(&self, other: &StoredFilter<C>) -> Result<(), ValueError> {
        let mut differences = self.keys.differences(&other.keys, &KeyType::to_string);
        if differences.is_empty() && self.shapes() != other.shapes() {
            let bits = |shapes: Vec<Shape>| list(shapes.iter().map(|shape| shape.geometry().bits));
            let probes =
                |shapes: Vec<Shape>| list(shapes.iter().map(|shape| shape.geometry().num_probes.into()));
            let facts = [
                ("bits", bits(self.shapes()), bits(other.shapes())),
                ("probes", probes(self.shapes()), probes(other.shapes())),
            ];
            differences.extend(facts.into_iter().filter(|(_, one, other)| one != other));
        }
        if differences.is_empty() { Ok(()) } else { Err(ValueError::Mismatch(differences)) }
    }

    fn shapes(&self) -> Vec<Shape> {
        self.members.iter().map(|member| *member.shape()).collect()
    }
}

/// The filters of these shapes, which lie one behind the other.
fn members<B: AsRef<[u8]>>(
    shapes: Vec<Shape>,
    mut bits: B,
    split: impl Fn(B, usize) -> Option<(B, B)>,
) -> Result<Vec<BloomFilter<B>>, ValueError> {
    let mut members = Vec::with_capacity(shapes.len());
    for shape in shapes {
        let length = usize::try_from(shape.body_bytes()).unwrap_or(usize::MAX);
        let (body, rest) = split(bits, length).ok_or(ValueError::Truncated)?;
        members.push(BloomFilter::from_parts(shape, body)?);
        bits = rest;
    }
    if !bits.as_ref().is_empty() {
        return Err(ValueError::TOO_LONG);
    }
    Ok(members)
}

fn list(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" + ")
}

/// An empty value of these keys and shapes; look at their [`Shape::body_bytes`] first.
pub fn empty(keys: &Keys, shapes: &[Shape]) -> Vec<u8> {
    let mut bytes = keys.encode(shapes);
    let bits: u64 = shapes.iter().map(Shape::body_bytes).sum();
    bytes.resize(bytes.len() + bits as usize, 0);
    bytes
}
