//! The state: exact hashes, or filters.

use super::members::{Member, Members};
use super::options::{CollectError, CollectorOptions};
use super::table::{Full, HashTable};
use crate::Keys;
use allocator_api2::alloc::Allocator;
use skip_filter::policy::{BATCH, BloomFilter, Shape};

/// A fixed shape is no reason to keep more exact hashes than its filter has bytes, but for this many.
const SMALL_TABLE: u64 = 256;

/// Collects the hashes of keys.
pub struct Collector<'o, A: Allocator + Clone> {
    pub(super) options: &'o CollectorOptions,
    pub(super) state: State<A>,
}

pub(super) enum State<A: Allocator + Clone> {
    Exact(HashTable<A>),
    Filters(Members<A>),
}

/// Takes the bytes of a value or of a state, one piece after the other.
pub trait Sink {
    /// Adds a piece; None if there is no room for it.
    fn write(&mut self, piece: &[u8]) -> Option<()>;

    /// Adds `length` zeros and lends them; None if there is no room for them.
    fn zeros(&mut self, length: usize) -> Option<&mut [u8]>;
}

impl Sink for Vec<u8> {
    fn write(&mut self, piece: &[u8]) -> Option<()> {
        self.extend_from_slice(piece);
        Some(())
    }

    fn zeros(&mut self, length: usize) -> Option<&mut [u8]> {
        let start = self.len();
        self.resize(start + length, 0);
        self.get_mut(start..)
    }
}

impl<'o, A: Allocator + Clone> Collector<'o, A> {
    /// Nothing collected yet.
    pub fn new_in(options: &'o CollectorOptions, allocator: A) -> Self {
        Self { options, state: State::Exact(HashTable::new_in(allocator)) }
    }

    /// What is collected, and how.
    pub fn options(&self) -> &'o CollectorOptions {
        self.options
    }

    /// Whether the exact hashes are still there.
    pub fn is_exact(&self) -> bool {
        matches!(self.state, State::Exact(_))
    }

    /// Adds the key of a hash.
    ///
    /// # Errors
    /// No filter can be made for that number of keys.
    #[inline]
    pub fn insert(&mut self, hash: u64, allocator: &A) -> Result<(), CollectError> {
        match &mut self.state {
            State::Exact(table) => match table.insert(hash, self.options.secret, self.options.bound) {
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
    pub fn bound_of(options: &CollectorOptions, most: usize) -> Result<usize, CollectError> {
        let fixed = options.fixed_shape()?;
        Ok(fixed.map_or(most, |shape| most.min(shape.body_bytes().max(SMALL_TABLE) as usize)))
    }

    /// Does what was put off until there is more of it: worth it before waiting for others.
    ///
    /// # Errors
    /// No filter can be made for that number of keys.
    pub fn flush(&mut self) -> Result<(), CollectError> {
        match &mut self.state {
            State::Exact(_) => Ok(()),
            State::Filters(members) => members.flush(self.options),
        }
    }

    /// What is collected; nothing is left.
    pub fn take(&mut self, allocator: &A) -> Self {
        let nothing = State::Exact(HashTable::new_in(allocator.clone()));
        Self { options: self.options, state: std::mem::replace(&mut self.state, nothing) }
    }

    /// A part as the beginning of the whole.
    pub fn into_whole(mut self, options: &'o CollectorOptions) -> Self {
        if let State::Filters(members) = &mut self.state {
            members.list.iter_mut().for_each(Member::open_up);
        }
        self.options = options;
        self
    }

    /// Adds the keys of another state, which is not needed any more.
    ///
    /// # Errors
    /// The options differ, or no filter can be made for that number of keys.
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

    /// Writes the value of the keys collected so far into the sink that `allocate` gives for its bytes. More keys can
    /// be added afterwards.
    ///
    /// # Errors
    /// No filter can be made for that number of keys, or the sink did not take the bytes.
    pub fn finish<S: Sink>(
        &mut self,
        keys: &Keys,
        allocate: impl FnOnce(usize) -> S,
    ) -> Result<S, CollectError> {
        let (shapes, folds) = self.shapes()?;
        let header = keys.encode(&shapes);
        let bodies: u64 = shapes.iter().map(Shape::body_bytes).sum();
        let mut sink = allocate(header.len() + bodies as usize);
        let written = sink.write(&header).and_then(|()| match &self.state {
            State::Exact(table) => write_table(table, *shapes.first()?, &mut sink),
            State::Filters(members) => {
                members.list.iter().try_for_each(|member| write_member(member, folds, &mut sink))
            }
        });
        written.map(|()| sink).ok_or(CollectError::Wire)
    }

    /// What the filters will be, and by what they are to be folded.
    fn shapes(&mut self) -> Result<(Vec<Shape>, u64), CollectError> {
        match &mut self.state {
            State::Exact(table) => {
                let fixed = self.options.fixed_shape()?;
                let shape = fixed.map_or_else(|| self.options.shape_for(table.len() as u64), Ok)?;
                Ok((vec![shape], 1))
            }
            State::Filters(members) => {
                members.flush(self.options)?;
                let folds = members.folds(self.options)?;
                let shape = |shape: &Shape| shape.folded(folds).unwrap_or(*shape);
                Ok((members.list.iter().map(|member| shape(member.filter.shape())).collect(), folds))
            }
        }
    }
}

fn write_table<A: Allocator + Clone>(table: &HashTable<A>, shape: Shape, sink: &mut impl Sink) -> Option<()> {
    let mut filter = BloomFilter::from_parts(shape, sink.zeros(shape.body_bytes() as usize)?).ok()?;
    let most = table.len().min(BATCH);
    let mut memory = vec![0; shape.room(most)];
    let mut batch = Vec::with_capacity(most);
    for hash in table.iter() {
        batch.push(hash);
        if batch.len() == BATCH {
            filter.insert_hashes_in(&batch, &mut memory);
            batch.clear();
        }
    }
    filter.insert_hashes_in(&batch, &mut memory);
    Some(())
}

fn write_member<B: AsRef<[u8]>>(member: &Member<B>, folds: u64, sink: &mut impl Sink) -> Option<()> {
    if folds == 1 {
        return sink.write(member.filter.body());
    }
    let length = member.filter.shape().folded(folds)?.body_bytes() as usize;
    member.filter.fold(folds, sink.zeros(length)?).map(|_| ())
}
