//! Keys that have become bits: one filter, or the members of a series.
//!
//! Hashes wait until there are many, because that is faster in a large filter. Invariants: there is at least one
//! member; keys go into the last; of a member that is not the last, no key is set later.

use super::options::{CollectError, CollectorOptions, MOST_BYTES};
use crate::header::MOST_MEMBERS;
use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;
use skip_filter::policy::{BATCH, BloomFilter, Geometry, LARGE, PolicyError, Shape, Size};

/// The first member's share of the promised rate: nearly all, as a right guess needs no other member.
const FIRST_SHARE: f64 = 15.0 / 16.0;
/// Each further member's share of the rate that the ones before it left.
const NEXT_SHARE: f64 = 0.5;

/// Where several processes fill filters that are to be ORed, each stops at this share of the rate: if their guess is
/// right, none comes near it, and if not, filters of up to eight processes that cannot be ORed keep the promise
/// together.
const PARTIAL_SHARE: f64 = 1.0 / 16.0;

/// The first member is made for this number of times the planner's guess, because guesses are old; but within
/// [`FEWEST_TIMES`] and [`MOST_TIMES`].
const OVER_GUESS: f64 = 1.05;
/// The first member is made for at least this number of times the keys collected so far.
const FEWEST_TIMES: u64 = 16;
/// The first member is made for at most this number of times the keys collected so far.
const MOST_TIMES: u64 = 256;
/// Partial filters may be ORed up to this fraction of the keys that the filter was made for: the guess, and about half
/// of what [`OVER_GUESS`] adds to it.
const NEARLY_FULL: f64 = 0.98;

/// Each further member is made for this number of times the keys of the one before.
const GROWTH: u64 = 4;

/// Bits come in multiples of this many steps of their policy, so that filters can be folded by 2 to 10 and by many
/// numbers above, or at least by some.
const FOLDABLE: [u64; 3] = [2_520, 60, 12];
/// The most that this may add to a filter: one part in 16.
const LITTLE: u64 = 16;

/// The most that a filter is folded by.
const MOST_FOLDS: u64 = 256;

/// Hashes that wait for a filter that fits the caches; for a larger one it is a [`BATCH`].
const FEW_PENDING: usize = 1 << 10;

pub(super) struct Member<B> {
    pub filter: BloomFilter<B>,
    pub ones: u64,
    /// Number of set bits from which on keys go to another member.
    pub full_at: u64,
    /// Number of set bits up to which it may be ORed with others.
    pub most: u64,
    /// Keys that it was made for.
    pub keys: u64,
}

pub(super) struct Members<A: Allocator + Clone> {
    pub list: Vec<Member<Vec<u8, A>>, A>,
    pending: Vec<u64, A>,
    most_pending: usize,
    /// Memory to add keys to a large filter in.
    scratch: Vec<u32, A>,
}

impl<A: Allocator + Clone> Members<A> {
    /// No members, to [`absorb`](Self::absorb) some.
    pub fn none_in(allocator: A) -> Self {
        Self {
            list: Vec::new_in(allocator.clone()),
            pending: Vec::new_in(allocator.clone()),
            most_pending: FEW_PENDING,
            scratch: Vec::new_in(allocator),
        }
    }

    /// One empty filter: of the fixed shape, or for at least `keys` keys.
    pub fn new_in(options: &CollectorOptions, keys: u64, allocator: A) -> Result<Self, CollectError> {
        let mut members = Self::none_in(allocator);
        if let Some(shape) = options.fixed_shape()? {
            let filter = empty(shape, members.list.allocator())?;
            members.open(Member { filter, ones: 0, full_at: u64::MAX, most: u64::MAX, keys });
            return Ok(members);
        }
        let guess = (options.guess as f64 * OVER_GUESS) as u64;
        let mut wanted = guess.clamp(keys.saturating_mul(FEWEST_TIMES), keys.saturating_mul(MOST_TIMES));
        let shape = loop {
            match options.shape_for(wanted).and_then(|shape| foldable(&shape)) {
                Ok(shape) => break shape,
                // Not all of the guess, if that is too large; but the keys at hand.
                Err(error) if wanted / 2 < keys => return Err(error),
                Err(_) => wanted /= 2,
            }
        };
        let share = if options.is_partial { PARTIAL_SHARE } else { FIRST_SHARE };
        let full_at = ones_at(&shape, options.rate()? * share);
        let most = ones_of(&shape, wanted as f64 * NEARLY_FULL);
        let filter = empty(shape, members.list.allocator())?;
        members.open(Member { filter, ones: 0, full_at, most, keys: wanted });
        Ok(members)
    }

    fn open(&mut self, member: Member<Vec<u8, A>>) {
        let is_small = member.filter.shape().body_bytes() < LARGE;
        self.most_pending = if is_small { FEW_PENDING } else { BATCH };
        self.list.push(member);
        if self.pending.capacity() < self.most_pending {
            let mut pending = Vec::with_capacity_in(self.most_pending, self.list.allocator().clone());
            pending.extend_from_slice(&self.pending);
            self.pending = pending;
        }
    }

    /// Adds the key of a hash.
    #[inline]
    pub fn push(&mut self, hash: u64, options: &CollectorOptions) -> Result<(), CollectError> {
        self.pending.push(hash);
        if self.pending.len() < self.most_pending { Ok(()) } else { self.flush(options) }
    }

    /// Sets the bits of all keys that wait.
    pub fn flush(&mut self, options: &CollectorOptions) -> Result<(), CollectError> {
        let mut pending = std::mem::replace(&mut self.pending, Vec::new_in(self.list.allocator().clone()));
        let result = self.set_all(&mut pending, options);
        if self.pending.capacity() <= pending.capacity() {
            self.pending = pending;
        }
        self.pending.clear();
        result
    }

    fn set_all(&mut self, pending: &mut Vec<u64, A>, options: &CollectorOptions) -> Result<(), CollectError> {
        if let Some((_, closed)) = self.list.split_last()
            && !closed.is_empty()
        {
            pending.retain(|&hash| !closed.iter().any(|member| member.filter.may_contain_hash(hash)));
        }
        let mut rest = &pending[..];
        while let Some(last) = self.list.last_mut() {
            let (now, later) = rest.split_at(last.step().min(rest.len()));
            grow(&mut self.scratch, last.filter.shape().room(now.len()));
            last.ones += last.filter.insert_hashes_in(now, &mut self.scratch);
            if last.ones >= last.full_at {
                self.open_next(options)?;
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn open_next(&mut self, options: &CollectorOptions) -> Result<(), CollectError> {
        if self.list.len() >= MOST_MEMBERS {
            self.list.last_mut().into_iter().for_each(|last| last.full_at = u64::MAX);
            return Ok(());
        }
        let Some(last) = self.list.last() else { return Ok(()) };
        let used: u64 = self.list.iter().map(|member| member.filter.shape().body_bytes()).sum();
        let share = if options.is_partial { PARTIAL_SHARE } else { 1.0 - FIRST_SHARE };
        let mut rate = options.rate()? * share * NEXT_SHARE.powi(self.list.len() as i32);
        let mut keys = last.keys.saturating_mul(GROWTH);
        let limits = options.policy.limits();
        loop {
            let shape = Shape::for_keys(options.policy, keys, Size::Rate(rate), options.seed);
            match shape {
                Ok(shape) if used + shape.body_bytes() <= MOST_BYTES => {
                    let shape = foldable(&shape)?;
                    let filter = empty(shape, self.list.allocator())?;
                    let full_at = ones_at(&shape, rate);
                    self.open(Member { filter, ones: 0, full_at, most: full_at, keys });
                    return Ok(());
                }
                // A rate that the policy has no filters for: the lowest it has must do.
                Err(PolicyError::RateTooLow { lowest, .. }) if rate < lowest => rate = lowest,
                Err(error) if limits.max_bits > used * 8 && keys < last.keys => return Err(error.into()),
                _ if keys < last.keys.max(2) / 2 => {
                    return Err(CollectError::TooLarge { keys: last.keys * 2 });
                }
                _ => keys /= 2,
            }
        }
    }

    /// Takes over the keys of another part's member: ORs it into one of the same shape, if that will do.
    ///
    /// It will if both hold no more keys than were guessed for all parts, and the rates of all members stay below the
    /// promised one. If the guess was right, all parts are ORed so. If it was too low, some are not, and have low
    /// rates.
    pub fn absorb<B: AsRef<[u8]>>(
        &mut self,
        other: &Member<B>,
        options: &CollectorOptions,
    ) -> Result<(), CollectError> {
        let shape = *other.filter.shape();
        let must = self.list.len() >= MOST_MEMBERS;
        let rate: f64 = self.list.iter().map(Member::rate).sum();
        let most = options.rate()? * FIRST_SHARE;
        for member in self.list.iter_mut().filter(|member| *member.filter.shape() == shape) {
            let ones = member.filter.count_ones_with(&other.filter);
            let fits = ones <= member.most && rate - member.rate() + rate_at(&shape, ones) <= most;
            if must || member.most == u64::MAX || fits {
                member.filter.union(&other.filter)?;
                member.ones = ones;
                return Ok(());
            }
        }
        if must {
            return Err(CollectError::TooManySizes);
        }
        let filter = copy(shape, other.filter.body(), self.list.allocator())?;
        let Member { ones, full_at, most, keys, .. } = *other;
        let mut member = Member { filter, ones, full_at, most, keys };
        member.open_up();
        self.open(member);
        // The emptiest is last, for keys to come.
        let fill = |member: &Member<Vec<u8, A>>| member.ones as f64 / member.most.max(1) as f64;
        self.list.sort_by(|one, other| fill(other).total_cmp(&fill(one)));
        Ok(())
    }

    /// What the only filter can be folded by without its rate rising above the promised one.
    pub fn folds(&self, options: &CollectorOptions) -> Result<u64, CollectError> {
        let ([only], None) = (&self.list[..], options.fixed_shape()?) else { return Ok(1) };
        let shape = only.filter.shape();
        let keys = shape.layout().cardinality(only.ones).estimate.ceil();
        if !keys.is_finite() {
            return Ok(1);
        }
        let rate = options.rate()?;
        let fits = |by: &u64| {
            shape.folded(*by).is_some_and(|folded| folded.layout().expected_rate(keys as u64) <= rate)
        };
        Ok((2..=MOST_FOLDS).rev().find(fits).unwrap_or(1))
    }
}

/// Memory of at least `length` numbers, whose values do not matter.
fn grow<A: Allocator + Clone>(scratch: &mut Vec<u32, A>, length: usize) {
    if scratch.len() < length {
        *scratch = Vec::with_capacity_in(length, scratch.allocator().clone());
        scratch.resize(length, 0);
    }
}

fn copy<A: Allocator + Clone>(
    shape: Shape,
    body: &[u8],
    allocator: &A,
) -> Result<BloomFilter<Vec<u8, A>>, CollectError> {
    let mut copy = Vec::with_capacity_in(body.len(), allocator.clone());
    copy.resize(body.len(), 0);
    copy.copy_from_slice(body); // extend_from_slice goes byte by byte here
    Ok(BloomFilter::from_parts(shape, copy)?)
}

fn empty<A: Allocator + Clone>(shape: Shape, allocator: &A) -> Result<BloomFilter<Vec<u8, A>>, CollectError> {
    let bytes = shape.body_bytes() as usize;
    let mut body = Vec::with_capacity_in(bytes, allocator.clone());
    body.resize(bytes, 0);
    Ok(BloomFilter::from_parts(shape, body)?)
}

/// The next larger shape that can be folded by many numbers; the smallest, and those at the policy's end, as they are.
fn foldable(shape: &Shape) -> Result<Shape, CollectError> {
    let Geometry { bits, .. } = *shape.geometry();
    let limits = shape.policy().limits();
    let rounded = FOLDABLE.iter().map(|steps| bits.next_multiple_of(limits.bits_step * steps));
    let most = (bits + bits / LITTLE).min(limits.max_bits).min(MOST_BYTES * 8);
    let bits = rounded.into_iter().find(|&bits| bits <= most).unwrap_or(bits);
    Ok(Shape::new(shape.policy(), Geometry { bits, ..*shape.geometry() })?)
}

impl<B: AsRef<[u8]>> Member<B> {
    /// No more parts of it are filled elsewhere: it need not stop where parts do.
    pub fn open_up(&mut self) {
        self.full_at = self.most;
    }

    /// Keys that can be added before it is time to look if the member is full: as many as cannot fill it; but not so
    /// few that looking takes longer than adding.
    fn step(&self) -> usize {
        let num_probes = u64::from(self.filter.shape().geometry().num_probes.max(1));
        let cannot_fill = self.full_at.saturating_sub(self.ones) / num_probes;
        usize::try_from(cannot_fill.max(self.keys / 64).max(1)).unwrap_or(usize::MAX)
    }

    fn rate(&self) -> f64 {
        rate_at(self.filter.shape(), self.ones)
    }
}

/// Number of set bits of a filter of `keys` keys.
fn ones_of(shape: &Shape, keys: f64) -> u64 {
    let layout = shape.layout();
    layout.bits - layout.zeros(keys).0 as u64
}

/// The rate of a filter with `ones` set bits.
fn rate_at(shape: &Shape, ones: u64) -> f64 {
    let keys = shape.layout().cardinality(ones).estimate;
    if keys.is_finite() { shape.layout().expected_rate(keys as u64) } else { 1.0 }
}

/// Number of set bits at which a filter is expected to have a rate.
fn ones_at(shape: &Shape, rate: f64) -> u64 {
    let layout = shape.layout();
    let (mut low, mut high) = (0u64, layout.bits);
    while low < high {
        let middle = low.midpoint(high);
        if layout.expected_rate(middle) < rate {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    ones_of(shape, low as f64)
}
