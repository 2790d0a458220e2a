//! `bloom_agg`: the keys of a group become a filter.
//!
//! Step, combine, serialize, deserialize and final function around `skip_value::collect`. A state and everything it
//! owns are allocated in the group's memory. The server therefore counts a state against work_mem when there are many
//! groups, and frees it. The options of a state are kept once for all states in that memory.

use super::keys::KeyReader;
use super::problem::{self, bad_policy};
use super::size::{negative, size_of};
use crate::pg::aggregate::{Aggregate, StateFamily, StatePointer, Token};
use crate::pg::alloc::ContextAllocator;
use crate::pg::boundary;
use crate::pg::fail;
use crate::pg::function::{Call, Lasting};
use crate::pg::kept::Kept;
use crate::pg::memory::{process_secret, work_mem};
use crate::pg::parallel_memory::{Shared, SharedPlace};
use crate::pg::text::of_bytes;
use crate::pg::varlena::{Growing, Made, Varlena};
use pgrx::prelude::*;
use skip_filter::policy::{FilterPolicy, Size, spec};
use skip_value::Keys;
use skip_value::collect::{CollectError, Collector, CollectorOptions, OptionsKey, Sink};

/// The state of a group.
struct AggregateState<'m> {
    collector: Collector<'m, ContextAllocator<'m>>,
    memory: ContextAllocator<'m>,
    kind: &'m Kind,
}

impl StateFamily for AggregateState<'static> {
    type In<'m> = AggregateState<'m>;
}

/// The options and keys of a state. Most groups have the same.
#[derive(PartialEq)]
struct Kind {
    options: CollectorOptions,
    keys: Keys,
}

/// Limit of the exact hashes of a partial state, in bytes: they are sent as one value, and the server limits values to
/// 1 GB.
const MOST_SENT: usize = 1 << 30;

thread_local! {
    /// The kinds of states, each stored once.
    static KINDS: Kept<OptionsKey, Kind> = Kept::default();
    /// The state that the step function keeps for a caller that looks the function up anew for each row.
    static STEPS: Lasting<Steps> = Lasting::default();
}

/// Keeps a kind for the states in the memory of this group.
fn keep<'m>(group: &Aggregate<'m>, options: CollectorOptions, keys: Keys) -> &'m Kind {
    let options = CollectorOptions { secret: process_secret(), ..options };
    group.keep(&KINDS, options.key(), Kind { options, keys })
}

/// What a call site keeps for the step function.
struct Steps {
    reader: KeyReader,
    /// The parameters of the last row, unparsed and parsed.
    last: Option<(BuildRequest, Wanted)>,
}

/// The arguments of a row besides its value.
struct BuildRequest {
    rate: Option<f64>,
    expected: Option<i64>,
    policy: Option<String>,
}

/// The parsed arguments.
#[derive(Clone, Copy)]
struct Wanted {
    policy: &'static dyn FilterPolicy,
    size: Size,
    seed: u64,
    expected: Option<u64>,
}

impl BuildRequest {
    fn of(call: &Call<'_>) -> Self {
        let text = |text: Varlena<'_>| text.with_bytes(of_bytes);
        Self { rate: call.float(2), expected: call.integer(3), policy: call.varlena(4).map(text) }
    }

    fn is_asked_again(&self, call: &Call<'_>) -> bool {
        call.float(2).map(f64::to_bits) == self.rate.map(f64::to_bits)
            && call.integer(3) == self.expected
            && match (call.varlena(4), &self.policy) {
                (Some(text), Some(policy)) => text.with_bytes(|bytes| bytes == policy.as_bytes()),
                (text, policy) => text.is_none() && policy.is_none(),
            }
    }

    fn wanted(&self) -> Wanted {
        let policy = self.policy.as_deref().unwrap_or("skip");
        let spec = spec::parse(policy).unwrap_or_else(|error| bad_policy(&error));
        Wanted {
            policy: spec.policy,
            size: size_of(self.rate, spec.size),
            seed: spec.seed,
            expected: self.expected.map(|number| u64::try_from(number).unwrap_or_else(|_| negative(number))),
        }
    }
}

impl Wanted {
    /// Whether a state was made with these parameters.
    fn is_of(&self, options: &CollectorOptions) -> bool {
        let of = |policy: &dyn FilterPolicy, size, seed, expected| (policy.code(), size, seed, expected);
        of(self.policy, self.size, self.seed, self.expected)
            == of(options.policy, options.size, options.seed, options.expected)
    }

    fn options(self, group: &Aggregate<'_>) -> CollectorOptions {
        let Self { policy, size, seed, expected } = self;
        let is_partial = group.is_partial();
        let bound = if is_partial { work_mem().min(MOST_SENT) } else { work_mem() };
        let guess = group.expected_rows() as u64;
        let mut options =
            CollectorOptions { policy, size, seed, expected, bound, guess, is_partial, secret: 0 };
        // Raises an error for parameters that no filter can have, before rows are read.
        options.bound = or_raise(Collector::<ContextAllocator<'_>>::bound_of(&options, options.bound));
        or_raise(options.shape_for(1));
        options
    }
}

fn or_raise<T>(result: Result<T, CollectError>) -> T {
    result.unwrap_or_else(|error| problem::collecting(&error))
}

/// Adds a row: state, value, and optionally rate, expected number, policy.
#[pg_extern(sql = false)]
fn bloom_agg_step(call: Call<'_>) -> StatePointer {
    boundary::callback(|| {
        let mut steps = call.typed_site(1, &STEPS, |key_type| {
            let Some(key_type) = call.type_before_cast(1).or(key_type) else { undetermined() };
            Steps { reader: KeyReader::of_argument(key_type, call.collation()), last: None }
        });
        let Some(value) = call.value(1, steps.reader.repr()) else { return call.same(0) };
        let wanted = steps.wanted(&call);
        let hash = steps.reader.hash(value, wanted.policy, wanted.seed);
        call.with_group::<AggregateState>(|state, group| {
            if let Some(state) = state {
                if !wanted.is_of(state.collector.options()) {
                    problem::collecting(&CollectError::Options);
                }
                or_raise(state.collector.insert(hash, &state.memory));
                return None;
            }
            let group = group.aggregate();
            let memory = group.memory();
            let kind = keep(&group, wanted.options(&group), steps.reader.keys(wanted.policy, wanted.seed));
            let mut collector = Collector::new_in(&kind.options, memory);
            or_raise(collector.insert(hash, &memory));
            Some(AggregateState { collector, memory, kind })
        })
    })
}

/// Raises an error because the type of the values is unknown.
fn undetermined() -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INDETERMINATE_DATATYPE,
        "could not determine the type of the keys of a bloom filter".into(),
        Some("The polymorphic step function of bloom_agg was called without an expression that tells the type.".into()),
        Some("Call an aggregate that is declared for a named type, such as bloom_agg(bigint).".into()),
    )
}

impl Steps {
    /// The parsed arguments of a row. Most rows have those of the row before.
    fn wanted(&mut self, call: &Call<'_>) -> Wanted {
        if let Some((_, wanted)) = self.last.as_ref().filter(|(asked, _)| asked.is_asked_again(call)) {
            return *wanted;
        }
        let asked = BuildRequest::of(call);
        let wanted = asked.wanted();
        self.last = Some((asked, wanted));
        wanted
    }
}

/// A state on its way to the combine function, which the server calls next. The first byte of the value tells which
/// variant it is.
enum Sent<'m> {
    /// Bytes that live for `'m`.
    Bytes(&'m [u8]),
    /// Bytes in memory that the processes of the query share.
    Shared(SharedPlace),
    /// A state of this process, which saves copying it twice. Only one combine call takes it: aggregates that share a
    /// state share its combination, too (ExecInitAgg of nodeAgg.c makes one of each for every `aggtransno`).
    Here(Token),
}

impl StateFamily for Sent<'static> {
    type In<'m> = Sent<'m>;
}

/// First bytes of the value, one for each variant of [`Sent`].
const BYTES: u8 = 0;
const SHARED: u8 = 1;
const HERE: u8 = 2;

/// The destination of a serialized state.
enum Out<'a> {
    Value(Growing),
    Shared(Shared<'a>),
}

impl Sink for Out<'_> {
    fn write(&mut self, piece: &[u8]) -> Option<()> {
        match self {
            Self::Value(value) => value.write(piece),
            Self::Shared(shared) => shared.write(piece),
        }
    }

    fn zeros(&mut self, length: usize) -> Option<&mut [u8]> {
        match self {
            Self::Value(value) => value.zeros(length),
            Self::Shared(shared) => shared.zeros(length),
        }
    }
}

#[pg_extern(sql = false)]
fn bloom_agg_serialize(call: Call<'_>) -> Option<Made> {
    boundary::callback(|| call.with_state::<AggregateState, _>(0, |state| sent(&call, state)).flatten())
}

/// Serializes a state: a token, a place in shared memory, or the bytes themselves.
fn sent(call: &Call<'_>, state: &mut AggregateState<'_>) -> Option<Made> {
    if let Some(token) = call.hand_on(0) {
        or_raise(state.collector.flush());
        return short(HERE, &token);
    }
    let group = call.aggregate();
    let out = or_raise(state.collector.serialize(&state.kind.keys, |length| match group.share(length) {
        Some(shared) => Out::Shared(shared),
        None => Out::Value(value(BYTES, length)),
    }));
    if group.makes_room_for_others() {
        drop(state.collector.take(&state.memory));
    }
    match out {
        Out::Value(value) => Some(value.finish()),
        Out::Shared(shared) => short(SHARED, shared.place().to_bytes().as_flattened()),
    }
}

/// A value being written, with its first byte.
fn value(first: u8, capacity: usize) -> Growing {
    let mut value = Growing::with_capacity(1 + capacity);
    value.write(&[first]);
    value
}

fn short(first: u8, rest: &[u8]) -> Option<Made> {
    let mut value = value(first, rest.len());
    value.write(rest)?;
    Some(value.finish())
}

#[pg_extern(sql = false)]
fn bloom_agg_deserialize(call: Call<'_>) -> StatePointer {
    boundary::callback(|| {
        call.aggregate(); // an error outside of an aggregate
        call.pass::<Sent>(|call| {
            let sent = match call.bytes(0)?.split_first() {
                Some((&BYTES, bytes)) => Some(Sent::Bytes(bytes)),
                Some((&SHARED, place)) => SharedPlace::from_bytes(place).map(Sent::Shared),
                Some((&HERE, token)) => token.try_into().ok().map(Sent::Here),
                _ => None,
            };
            Some(known(sent))
        })
    })
}

/// Unwraps a deserialized state; an error for bytes that no serialize function sends.
fn known<T>(sent: Option<T>) -> T {
    or_raise(sent.ok_or(CollectError::Wire))
}

/// Adds the keys of another state, in the form in which it was sent.
#[pg_extern(sql = false)]
fn bloom_agg_combine(call: Call<'_>) -> StatePointer {
    boundary::callback(|| {
        let whole = call.with_passed::<Sent, _>(1, |sent| match sent {
            Sent::Bytes(bytes) => combine_bytes(&call, bytes),
            Sent::Shared(place) => {
                let found = known(call.shared(place));
                let whole = combine_bytes(&call, found.bytes());
                found.free();
                whole
            }
            Sent::Here(token) => combine_here(&call, token),
        });
        whole.unwrap_or_else(|| call.same(0))
    })
}

fn combine_bytes(call: &Call<'_>, sent: &[u8]) -> StatePointer {
    call.with_group::<AggregateState>(|state, group| {
        if let Some(state) = state {
            or_raise(state.collector.combine_sent(sent, &state.kind.keys, &state.memory));
            return None;
        }
        let group = group.aggregate();
        let memory = group.memory();
        let mut kind = None;
        let collector = Collector::deserialize(sent, &memory, |options, keys| {
            &kind.insert(keep(&group, options, keys)).options
        });
        let collector = or_raise(collector);
        kind.map(|kind| AggregateState { collector, memory, kind })
    })
}

fn combine_here(call: &Call<'_>, token: Token) -> StatePointer {
    call.with_group::<AggregateState>(|state, group| {
        let group = group.aggregate();
        let AggregateState { mut collector, memory, kind } =
            known(group.take_handed_on::<AggregateState>(token));
        if let Some(state) = state {
            if state.kind.keys != kind.keys {
                problem::collecting(&CollectError::Keys);
            }
            or_raise(state.collector.combine(&mut collector, &state.memory));
            return None;
        }
        let kind = keep(&group, CollectorOptions { is_partial: false, ..kind.options }, kind.keys.clone());
        Some(AggregateState { collector: collector.into_whole(&kind.options), memory, kind })
    })
}

/// The filter of the keys so far. The state stays unchanged, because window frames continue with it.
#[pg_extern(sql = false)]
fn bloom_agg_final(call: Call<'_>) -> Option<Made> {
    boundary::callback(|| {
        let finish = |state: &mut AggregateState<'_>| {
            or_raise(state.collector.finish(&state.kind.keys, Growing::with_capacity)).finish()
        };
        call.with_state::<AggregateState, _>(0, finish)
    })
}
