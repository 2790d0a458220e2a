//! The state: exact hashes, or filters.

use super::members::{Member, Members};
use super::options::{CollectError, Options};
use super::table::{Full, HashTable};
use crate::policy::{BloomFilter, Shape};
use crate::value::Keys;
use allocator_api2::alloc::Allocator;

/// Hashes set at a time when a filter is made from exact ones.
const BATCH: usize = 1 << 19;

/// A fixed shape is no reason to keep more exact hashes than its filter has bytes, but for this many.
const SMALL_TABLE: u64 = 256;

/// Collects the hashes of keys.
pub struct Collector<'o, A: Allocator + Clone> {
    pub(super) options: &'o Options,
    pub(super) state: State<A>,
}

pub(super) enum State<A: Allocator + Clone> {
    Exact(HashTable<A>),
    Filters(Members<A>),
}

/// What the filter will be.
pub struct Finished {
    header: Vec<u8>,
    shapes: Vec<Shape>,
    folds: u64,
}

impl Finished {
    /// Bytes of the value.
    pub fn encoded_len(&self) -> usize {
        self.header.len() + self.shapes.iter().map(|shape| shape.body_bytes() as usize).sum::<usize>()
    }
}

impl<'o, A: Allocator + Clone> Collector<'o, A> {
    /// Nothing collected yet.
    pub fn new_in(options: &'o Options, allocator: A) -> Self {
        Self { options, state: State::Exact(HashTable::new_in(allocator)) }
    }

    /// What is collected, and how.
    pub fn options(&self) -> &'o Options {
        self.options
    }

    /// Whether the exact hashes are still there.
    pub fn is_exact(&self) -> bool {
        matches!(self.state, State::Exact(_))
    }

    /// Adds the key of a hash.
    ///
    /// # Errors
    /// That no filter can be made for so many keys.
    #[inline]
    pub fn insert(&mut self, hash: u64, allocator: &A) -> Result<(), CollectError> {
        match &mut self.state {
            State::Exact(table) => match table.insert(hash, self.options.bound) {
                Ok(()) => Ok(()),
                Err(Full) => self.overflow(hash, allocator),
            },
            State::Filters(members) => members.push(hash, self.options),
        }
    }

    #[cold]
    fn overflow(&mut self, hash: u64, allocator: &A) -> Result<(), CollectError> {
        self.make_filters(allocator)?;
        self.insert(hash, allocator)
    }

    /// Turns exact hashes into bits.
    fn make_filters(&mut self, allocator: &A) -> Result<(), CollectError> {
        let State::Exact(table) = &self.state else { return Ok(()) };
        let mut members = Members::new_in(self.options, table.len().max(1) as u64, allocator.clone())?;
        for hash in table.iter() {
            members.push(hash, self.options)?;
        }
        self.state = State::Filters(members);
        Ok(())
    }

    /// Bytes that exact hashes are worth keeping in, given these options.
    ///
    /// # Errors
    /// That there is no filter of such options.
    pub fn bound_of(options: &Options, most: usize) -> Result<usize, CollectError> {
        let fixed = options.fixed_shape()?;
        Ok(fixed.map_or(most, |shape| most.min(shape.body_bytes().max(SMALL_TABLE) as usize)))
    }

    /// Adds the keys of another state, which is not needed any more.
    ///
    /// # Errors
    /// Different options; no filter for so many keys.
    pub fn combine(&mut self, other: &mut Self, allocator: &A) -> Result<(), CollectError> {
        if self.options != other.options {
            return Err(CollectError::Options);
        }
        let theirs = match &mut other.state {
            State::Exact(table) => return table.iter().try_for_each(|hash| self.insert(hash, allocator)),
            State::Filters(members) => members,
        };
        theirs.flush(other.options)?;
        self.absorb(&theirs.list, allocator)
    }

    /// Adds the keys of filters.
    pub(super) fn absorb<B: AsRef<[u8]>>(
        &mut self,
        theirs: &[Member<B>],
        allocator: &A,
    ) -> Result<(), CollectError> {
        let nothing = State::Filters(Members::none_in(allocator.clone()));
        let (mut members, exact) = match std::mem::replace(&mut self.state, nothing) {
            State::Exact(table) => (Members::none_in(allocator.clone()), Some(table)),
            State::Filters(own) => (own, None),
        };
        members.flush(self.options)?;
        for member in theirs {
            members.absorb(member, self.options)?;
        }
        for hash in exact.iter().flat_map(HashTable::iter) {
            members.push(hash, self.options)?;
        }
        self.state = State::Filters(members);
        Ok(())
    }

    /// What the filter of the keys collected so far is. More can be added afterwards.
    ///
    /// # Errors
    /// That no filter can be made for so many keys.
    pub fn finish(&mut self, keys: &Keys) -> Result<Finished, CollectError> {
        let (shapes, folds) = match &mut self.state {
            State::Exact(table) => {
                let fixed = self.options.fixed_shape()?;
                let shape = fixed.map_or_else(|| self.options.shape_for(table.len() as u64), Ok)?;
                (vec![shape], 1)
            }
            State::Filters(members) => {
                members.flush(self.options)?;
                let folds = members.folds(self.options)?;
                let shape = |shape: &Shape| shape.folded(folds).unwrap_or(*shape);
                (members.list.iter().map(|member| shape(member.filter.shape())).collect(), folds)
            }
        };
        Ok(Finished { header: keys.encode(&shapes), shapes, folds })
    }

    /// Writes the value into zeros of [`Finished::encoded_len`] bytes.
    ///
    /// # Errors
    /// Only if `out` has another length.
    pub fn write(&self, finished: &Finished, out: &mut [u8]) -> Result<(), CollectError> {
        let (header, mut rest) = out.split_at_mut_checked(finished.header.len()).ok_or(CollectError::Wire)?;
        header.copy_from_slice(&finished.header);
        match &self.state {
            State::Exact(table) => {
                let shape = *finished.shapes.first().ok_or(CollectError::Wire)?;
                let mut filter = BloomFilter::from_parts(shape, rest)?;
                let mut batch = Vec::with_capacity(table.len().min(BATCH));
                for hash in table.iter() {
                    batch.push(hash);
                    if batch.len() == BATCH {
                        filter.insert_hashes(&batch);
                        batch.clear();
                    }
                }
                filter.insert_hashes(&batch);
            }
            State::Filters(members) => {
                for (member, shape) in members.list.iter().zip(&finished.shapes) {
                    let length = shape.body_bytes() as usize;
                    let (body, after) = rest.split_at_mut_checked(length).ok_or(CollectError::Wire)?;
                    if finished.folds == 1 {
                        body.copy_from_slice(member.filter.body());
                    } else {
                        member.filter.fold(finished.folds, body).ok_or(CollectError::Wire)?;
                    }
                    rest = after;
                }
            }
        }
        Ok(())
    }
}
