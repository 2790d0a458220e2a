//! States as another process may send them: what they claim, and what must hold of those that are taken.
//!
//! A state says itself how large its filters become: up to a server's 1 GB, which is right for an aggregate and too
//! slow for a fuzzer. So targets look at its numbers first.

use crate::{allocations, facts};
use allocator_api2::alloc::Global;
use arbitrary::Arbitrary;
use skip_filter::policy::{BloomFilter, Geometry, POLICIES, PolicyError, Shape, Size, by_code};
use skip_value::collect::wire::{Wire, WireKeys, WireMember, WireOptions, WireType};
use skip_value::collect::{CollectError, Collector, CollectorOptions};
use skip_value::{KeyType, Keys, StoredFilter};

/// Keys that came waiting or that the first filters are made for; and the largest filter of so many keys.
const MANY_KEYS: u64 = 1 << 12;
const LARGE_FILTER: u64 = 1 << 18;

/// More members than a value may have.
const MANY_MEMBERS: usize = 70;

/// What reading a state may allocate for each of its bytes, and over that: a thousand hashes that wait, and as many
/// bytes as serde takes on trust for a list.
const ALLOCATED_PER_BYTE: usize = 16;
const ALLOCATED: usize = 2 << 20;

/// Whether its filters stay small, also if more keys are added.
fn is_small(wire: &Wire<'_>) -> bool {
    let WireOptions { policy, size, seed, expected, .. } = wire.options;
    let of = |keys| by_code(policy).map(|policy| Shape::for_keys(policy, keys, size, seed));
    let small = |keys| matches!(of(keys), Some(Ok(shape)) if shape.body_bytes() <= LARGE_FILTER);
    // A guess is taken for up to 256 times the keys that are there.
    let most = (wire.hashes.len() as u64 / 8 + 1) * 256;
    let is_fixed = expected.is_some() || matches!(size, Size::Fixed { .. });
    (if is_fixed { small(expected.unwrap_or(0)) } else { small(most) })
        && wire.members.iter().all(|member| member.keys <= MANY_KEYS)
}

/// Whether a hash is in the state, as exact one or in a filter.
fn holds(wire: &Wire<'_>, options: &CollectorOptions, hash: u64) -> bool {
    let in_member = |member: &WireMember<'_>| {
        let geometry = Geometry { bits: member.bits, num_probes: member.num_probes, seed: options.seed };
        let filter = BloomFilter::from_parts(Shape::new(options.policy, geometry)?, member.body)?;
        Ok::<_, PolicyError>(filter.may_contain_hash(hash))
    };
    wire.hashes().any(|exact| exact == hash) || wire.members.iter().any(|member| in_member(member).unwrap())
}

/// Proves what holds of any bytes as a state.
pub fn check(bytes: &[u8]) {
    let mut place = None;
    let allowed = ALLOCATED + bytes.len() * ALLOCATED_PER_BYTE;
    let received = allocations::at_most(allowed, || {
        Collector::deserialize(bytes, &Global, |options, keys| &place.insert((options, keys)).0)
    });
    let mut state = match received {
        Ok(state) => state,
        Err(error) => {
            error.to_string();
            return;
        }
    };
    let wire = Wire::read(bytes).expect("it was read before");
    let keys = wire.keys().expect("they were read before");
    if !is_small(&wire) {
        return;
    }
    // An error says that there is no filter for the keys: then nothing is promised.
    _ = go_on(&mut state, &wire, &keys);
}

fn go_on(state: &mut Collector<'_, Global>, wire: &Wire<'_>, keys: &Keys) -> Result<(), CollectError> {
    let options = state.options();
    let sent = state.serialize(keys, Vec::with_capacity)?;
    let mut again =
        Collector::deserialize(&sent, &Global, |_, _| options).expect("what was sent is no state");
    let first = finish_with(state, keys)?;
    assert!(finish_with(state, keys)? == first, "finishing changes the state");
    let arrived = finish_with(&mut again, keys)?;
    // Several filters arrive one by one, and which of them can be ORed depends on those that are there.
    let several = Wire::read(&sent).expect("it was read before").members.len() > 1;
    assert!(several || arrived == first, "sending changes the state");
    let mut all = Collector::new_in(options, Global);
    let added = [0, 1, 2].map(|number| skip_filter::hash_i64(1, number));
    all.insert(added[0], &Global)?;
    all.combine(&mut again, &Global)?;
    all.insert(added[1], &Global)?;
    all.combine(state, &Global)?;
    all.insert(added[2], &Global)?;
    let last = finish_with(&mut all, keys)?;
    let [first, arrived, last] = [&first, &arrived, &last]
        .map(|bytes| StoredFilter::decode(bytes).expect("what was written cannot be read"));
    facts::hold(last.cardinality(), last.false_positive_rate());
    assert!(added.iter().all(|&hash| last.may_contain_hash(hash)), "a key was lost");
    // What is in a filter by chance must stay in it just as well.
    let some = (0..100).map(|number| skip_filter::hash_i64(2, number));
    for hash in wire.hashes().chain(some).filter(|&hash| holds(wire, options, hash)) {
        let holding = [&first, &arrived, &last].map(|value| value.may_contain_hash(hash));
        assert_eq!(holding, [true; 3], "a key was lost");
    }
    Ok(())
}

/// The keys of values that are written here.
pub fn keys(options: &CollectorOptions) -> Keys {
    Keys { policy: options.policy, seed: options.seed, key_type: KeyType::BuiltIn(20), collation: None }
}

/// The value of what was collected so far.
pub fn finish(state: &mut Collector<'_, Global>) -> Result<Vec<u8>, CollectError> {
    let keys = keys(state.options());
    finish_with(state, &keys)
}

fn finish_with(state: &mut Collector<'_, Global>, keys: &Keys) -> Result<Vec<u8>, CollectError> {
    let mut length = 0;
    let bytes = state.finish(keys, |bytes| {
        length = bytes;
        Vec::with_capacity(bytes)
    })?;
    assert_eq!(bytes.len(), length);
    Ok(bytes)
}

/// A state of any numbers, but with bits of the length that they say.
#[derive(Arbitrary, Debug)]
pub struct MadeUp {
    policy: u8,
    size: MadeUpSize,
    seed: u64,
    expected: Option<u16>,
    bound: u16,
    guess: u64,
    hashes: Vec<u64>,
    /// A value has 64 members at most: a few are made many by taking them several times.
    times: u8,
    members: Vec<MadeUpMember>,
    oid: u32,
    name: String,
    collation: Option<(String, String)>,
}

#[derive(Arbitrary, Debug)]
enum MadeUpSize {
    Rate(f64),
    Bits(f64),
    Hundredths(u8),
    TenthsOfBits(u8),
    Fixed(u8, u8),
}

#[derive(Arbitrary, Debug)]
struct MadeUpMember {
    steps: u8,
    num_probes: u8,
    ones: u64,
    full_at: u64,
    most: u64,
    keys: u64,
    few: bool,
    fill: u8,
}

impl MadeUp {
    /// The state as it would be sent.
    pub fn encode(&self) -> Vec<u8> {
        let policy = POLICIES[usize::from(self.policy) % POLICIES.len()];
        let size = match self.size {
            MadeUpSize::Rate(rate) => Size::Rate(rate),
            MadeUpSize::Bits(bits) => Size::BitsPerKey(bits),
            MadeUpSize::Hundredths(rate) => Size::Rate(f64::from(rate) / 100.0),
            MadeUpSize::TenthsOfBits(bits) => Size::BitsPerKey(f64::from(bits) / 10.0),
            MadeUpSize::Fixed(words, num_probes) => Size::Fixed { bytes: u64::from(words) * 8, num_probes },
        };
        let step = policy.limits().bits_step.max(64);
        let bodies: Vec<Vec<u8>> = self
            .members
            .iter()
            .map(|member| (0..u64::from(member.steps) * step / 8).map(|_| member.fill).collect())
            .collect();
        let members = self.members.iter().zip(&bodies).map(|(member, body)| {
            let of = |number| if member.few { number % (MANY_KEYS + 1) } else { number };
            WireMember {
                bits: body.len() as u64 * 8,
                num_probes: member.num_probes,
                ones: of(member.ones),
                full_at: of(member.full_at),
                most: of(member.most),
                keys: of(member.keys),
                length: body.len() as u64,
                body,
            }
        });
        let hashes: Vec<u8> = self.hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        let options = WireOptions {
            policy: policy.code(),
            size,
            seed: if policy.limits().seeded { self.seed } else { 0 },
            expected: self.expected.map(u64::from),
            bound: self.bound.into(),
            guess: self.guess,
        };
        let most = self.members.len() * (usize::from(self.times) % 24 + 1);
        let members = members.cycle().take(most.min(MANY_MEMBERS)).collect();
        let key_type = if self.name.is_empty() {
            WireType::BuiltIn(self.oid)
        } else {
            WireType::Named("public", &self.name)
        };
        let collation = self.collation.as_ref().map(|(name, version)| (&**name, &**version));
        let keys = WireKeys { key_type, collation };
        // An error says that the head is longer than any.
        Wire { keys, options, hashes: &hashes, members }.write(Vec::with_capacity).unwrap_or_default()
    }
}
