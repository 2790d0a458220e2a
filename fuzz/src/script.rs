//! What processes do with states of one filter, in any order: collect, send, combine, finish. No key may be lost.

use crate::facts;
use crate::wire::{finish, keys};
use allocator_api2::alloc::Global;
use arbitrary::Arbitrary;
use skip_filter::policy::{BloomFilter, POLICIES, Size};
use skip_value::collect::{CollectError, Collector, CollectorOptions};
use skip_value::{StoredFilter, empty};

/// Processes that are told apart.
const PARTS: usize = 6;

/// The most keys that come at once.
const MANY_KEYS: i64 = 1 << 10;

/// The most hashes, combinings and values of a script: more show nothing new, but take their time. (As many members as
/// a value can have come about in [`wire`](crate::wire).)
const MOST_HASHES: usize = 1 << 11;
const MOST_COMBININGS: usize = 10;
const MOST_VALUES: usize = 2;

/// Sizes that every policy has filters of.
const SIZES: [Size; 8] = [
    Size::Rate(0.01),
    Size::Rate(0.3),
    Size::Rate(0.9),
    Size::Rate(1e-4),
    Size::BitsPerKey(10.0),
    Size::BitsPerKey(0.5),
    Size::Fixed { bytes: 64, num_probes: 3 },
    Size::Fixed { bytes: 1_280, num_probes: 7 },
];

/// What all processes agree on, and what each does.
#[derive(Arbitrary, Debug)]
pub struct Script {
    policy: u8,
    size: u8,
    seed: u64,
    expected: Option<u16>,
    parts: [PartOptions; PARTS],
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct PartOptions {
    bound: u8,
    guess: Guess,
    is_partial: bool,
    secret: u64,
}

#[derive(Arbitrary, Debug)]
enum Guess {
    Few(u8),
    Some(u16),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Keys that follow each other.
    Insert { part: u8, from: u16, count: u16 },
    /// A hash, however poor.
    Hash { part: u8, hash: u64 },
    /// To another process.
    Send { part: u8 },
    /// Combine one with another, which begins anew.
    Combine { part: u8, other: u8 },
    /// Many processes that collect a few keys each, all of them for one.
    Crowd { part: u8, others: u8, count: u16 },
    /// A value of what there is; more may follow.
    Finish { part: u8 },
}

struct Part<'o> {
    state: Collector<'o, Global>,
    hashes: Vec<u64>,
}

impl<'o> Part<'o> {
    fn new(options: &'o CollectorOptions) -> Self {
        Self { state: Collector::new_in(options, Global), hashes: vec![] }
    }

    fn insert(&mut self, hash: u64) -> Result<(), CollectError> {
        self.hashes.push(hash);
        self.state.insert(hash, &Global)
    }

    fn combine(&mut self, other: &mut Self) -> Result<(), CollectError> {
        self.hashes.append(&mut other.hashes);
        self.state.combine(&mut other.state, &Global)
    }

    fn send(&mut self) -> Result<(), CollectError> {
        let options = self.state.options();
        let bytes = self.state.serialize(&keys(options), Vec::with_capacity)?;
        self.state = Collector::deserialize(&bytes, &Global, |sent, sent_keys| {
            assert!(
                sent == *options && sent_keys == keys(options),
                "{sent:?} arrived instead of {options:?}"
            );
            options
        })
        .expect("what was sent is no state");
        Ok(())
    }

    /// All keys are in the value; where its shape does not depend on them, it is the filter of these keys.
    fn check(&mut self) -> Result<(), CollectError> {
        let options = self.state.options();
        let bytes = finish(&mut self.state)?;
        let value = StoredFilter::decode(&bytes).expect("what was written cannot be read");
        for hash in &self.hashes {
            assert!(value.may_contain_hash(*hash), "{hash:x} was lost");
        }
        facts::hold(value.cardinality(), value.false_positive_rate());
        assert!(finish(&mut self.state)? == bytes, "finishing changes the state");
        if let Some(shape) = options.fixed_shape()? {
            let mut filter = BloomFilter::new(shape);
            filter.insert_hashes(&self.hashes);
            let mut expected = empty(&keys(options), &[shape]);
            let header = expected.len() - filter.body().len();
            expected[header..].copy_from_slice(filter.body());
            assert!(bytes == expected, "not the filter of these keys");
        }
        Ok(())
    }
}

impl Script {
    /// Proves that no key is lost by it.
    pub fn run(&self) {
        let options = self.parts.each_ref().map(|part| self.options(part));
        // Parts can be too many, and too different, for the members of a value; all else there are filters for.
        match self.steps(&options) {
            Ok(()) | Err(CollectError::TooLarge { .. } | CollectError::TooManySizes) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn options(&self, part: &PartOptions) -> CollectorOptions {
        let policy = POLICIES[usize::from(self.policy) % POLICIES.len()];
        let guess = match part.guess {
            Guess::Few(guess) => guess.into(),
            Guess::Some(guess) => guess.into(),
            Guess::Any(guess) => guess,
        };
        CollectorOptions {
            policy,
            size: SIZES[usize::from(self.size) % SIZES.len()],
            seed: if policy.limits().seeded { self.seed } else { 0 },
            expected: self.expected.map(u64::from),
            bound: usize::from(part.bound) * 32,
            guess,
            is_partial: part.is_partial,
            secret: part.secret,
        }
    }

    fn steps(&self, options: &[CollectorOptions; PARTS]) -> Result<(), CollectError> {
        let mut parts = options.each_ref().map(Part::new);
        let of = |part: u8| usize::from(part) % PARTS;
        let (mut combinings, mut values) = (0..MOST_COMBININGS, 0..MOST_VALUES);
        for step in self.steps.iter() {
            if parts.iter().map(|part| part.hashes.len()).sum::<usize>() > MOST_HASHES {
                break;
            }
            match *step {
                Step::Insert { part, from, count } => {
                    for number in 0..i64::from(count) % MANY_KEYS {
                        parts[of(part)].insert(skip_filter::hash_i64(3, i64::from(from) + number))?;
                    }
                }
                Step::Hash { part, hash } => parts[of(part)].insert(hash)?,
                Step::Send { part } => parts[of(part)].send()?,
                Step::Combine { part, other } if of(part) != of(other) && combinings.next().is_some() => {
                    let mut taken = std::mem::replace(&mut parts[of(other)], Part::new(&options[of(other)]));
                    parts[of(part)].combine(&mut taken)?;
                }
                Step::Combine { .. } => {}
                Step::Crowd { part, others, count } => {
                    for other in (0..others).zip(combinings.by_ref()).map(|(other, _)| other) {
                        let mut taken = Part::new(&options[of(other)]);
                        for number in 0..i64::from(count) % MANY_KEYS / 4 {
                            taken.insert(skip_filter::hash_i64(4 + u64::from(other), number))?;
                        }
                        taken.send()?;
                        parts[of(part)].combine(&mut taken)?;
                    }
                }
                Step::Finish { part } if values.next().is_some() => parts[of(part)].check()?,
                Step::Finish { .. } => {}
            }
        }
        let [first, others @ ..] = &mut parts;
        for other in others {
            other.send()?;
            first.combine(other)?;
        }
        first.check()
    }
}
