//! Writes inputs to start from into a folder of each target's under the one that is named: filters of other systems
//! (`tests/vectors`), stored values and states of every kind. What a fuzzer can find by itself is left out.

use allocator_api2::alloc::Global;
use skip_filter::policy::{BloomFilter, Geometry, POLICIES, Shape, Size, by_name};
use skip_value::collect::wire::{Wire, WireKeys, WireMember, WireOptions, WireType};
use skip_value::collect::{Collector, CollectorOptions};
use skip_value::{Collation, KeyType, Keys, StoredFilter, empty, seal};
use std::error::Error;
use std::path::{Path, PathBuf};

const LEVELDB: &str = include_str!("../../crates/skip_filter/tests/vectors/leveldb.tsv");
const CLICKHOUSE: &str = include_str!("../../crates/skip_filter/tests/vectors/clickhouse_bloom.tsv");
const ROCKSDB: &str = include_str!("../../crates/skip_filter/tests/vectors/rocksdb_fast_local.tsv");

/// Larger ones are no good seeds.
const MOST_BYTES: usize = 1_400;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The folder of one target's seeds.
struct Seeds {
    folder: PathBuf,
    count: usize,
}

impl Seeds {
    fn new(corpus: &Path, target: &str) -> Result<Self> {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, count: 0 })
    }

    fn add(&mut self, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.concat();
        if bytes.len() <= MOST_BYTES {
            std::fs::write(self.folder.join(format!("seed-{:03}", self.count)), bytes)?;
            self.count += 1;
        }
        Ok(())
    }
}

fn hex(digits: &str) -> Result<Vec<u8>> {
    let places = (0..digits.len()).step_by(2);
    Ok(places.map(|at| u8::from_str_radix(&digits[at..at + 2], 16)).collect::<std::result::Result<_, _>>()?)
}

fn keys(policy: &str, seed: u64) -> Result<Keys> {
    let policy = by_name(policy).ok_or("no such policy")?;
    Ok(Keys { policy, seed, key_type: KeyType::BuiltIn(20), collation: None })
}

/// The filters of other systems: keys and numbers, bits, and what follows them.
fn vectors() -> Result<Vec<(Keys, Geometry, Vec<u8>)>> {
    let rows = |text: &'static str| text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let mut vectors = Vec::new();
    for row in rows(LEVELDB).filter(|row| row[0] == "filter") {
        let mut body = hex(row[3])?;
        let num_probes = body.pop().ok_or("no probes")?;
        vectors.push((
            keys("leveldb", 0)?,
            Geometry { bits: body.len() as u64 * 8, num_probes, seed: 0 },
            body,
        ));
    }
    for row in rows(CLICKHOUSE).filter(|row| row[0] == "filter") {
        let (bytes, seed): (u64, u64) = (row[1].parse()?, row[3].parse()?);
        let geometry = Geometry { bits: bytes * 8, num_probes: row[2].parse()?, seed };
        vectors.push((keys("clickhouse", seed)?, geometry, hex(row[5])?));
    }
    for row in rows(ROCKSDB).filter(|row| !row[0].starts_with('#')) {
        let geometry = Geometry { bits: row[1].parse::<u64>()? * 8, num_probes: row[0].parse()?, seed: 0 };
        vectors.push((keys("rocksdb", 0)?, geometry, hex(row[3])?));
    }
    Ok(vectors)
}

/// Values of every kind of header, with a few keys each.
fn values() -> Result<Vec<Vec<u8>>> {
    let german = Collation { name: "\"de-x-icu\"".into(), version: "153.120".into() };
    let named = KeyType::Named { schema: "public".into(), name: "Ünder".into() };
    let mut values = Vec::new();
    for policy in POLICIES {
        let plain = keys(policy.name(), 0)?;
        let seed = if policy.limits().seeded { u64::MAX - 5 } else { 0 };
        let full = Keys { seed, key_type: named.clone(), collation: Some(german.clone()), ..plain.clone() };
        let date = Keys { key_type: KeyType::BuiltIn(1082), ..plain.clone() };
        let step = policy.limits().bits_step.max(64);
        for (keys, sizes) in [
            (&plain, vec![step]),
            (&date, vec![step]),
            (&plain, vec![step, step * 3]),
            (&full, vec![step]),
            (&full, vec![step; 3]),
        ] {
            let shape = |bits| Shape::new(keys.policy, Geometry { bits, num_probes: 5, seed: keys.seed });
            let shapes = sizes.into_iter().map(shape).collect::<std::result::Result<Vec<_>, _>>()?;
            let mut bytes = empty(keys, &shapes);
            let mut value = StoredFilter::decode_mut(&mut bytes)?;
            (0..8).for_each(|number| value.insert_hash(skip_filter::hash_i64(3, number)));
            values.push(bytes);
        }
    }
    Ok(values)
}

/// States of every kind as they are sent: exact ones, filters, and series.
fn states() -> Result<Vec<Vec<u8>>> {
    let mut states = Vec::new();
    for &policy in POLICIES {
        let key_type = KeyType::Named { schema: "public".into(), name: "mood".into() };
        let collation = Some(Collation { name: "ignore_case".into(), version: "153.120".into() });
        let named = Keys { policy, seed: 0, key_type, collation };
        let plain = CollectorOptions {
            policy,
            size: Size::Rate(0.01),
            seed: 0,
            expected: None,
            bound: 64,
            guess: 0,
            is_partial: false,
            secret: 0,
        };
        let fixed = Size::Fixed { bytes: 64, num_probes: 5 };
        for (options, count) in [
            (CollectorOptions { bound: 4_096, ..plain }, 0),
            (CollectorOptions { bound: 4_096, ..plain }, 20),
            (plain, 30),
            (CollectorOptions { size: Size::Rate(0.3), is_partial: true, ..plain }, 100),
            (CollectorOptions { size: Size::BitsPerKey(2.5), ..plain }, 400),
            (CollectorOptions { expected: Some(100), ..plain }, 50),
            (CollectorOptions { size: fixed, ..plain }, 50),
            (CollectorOptions { guess: 1_000, ..plain }, 50),
        ] {
            let mut state = Collector::new_in(&options, Global);
            (0..count).try_for_each(|number| state.insert(skip_filter::hash_i64(3, number), &Global))?;
            states.push(state.serialize(&keys(policy.name(), 0)?, Vec::with_capacity)?);
            states.push(state.serialize(&named, Vec::with_capacity)?);
        }
    }
    Ok(states)
}

/// States that no process sends: a filter of less than it claims, hashes beside a filter, more members than a value
/// has, no built-in type, a name that is too long.
fn refused() -> Result<Vec<Vec<u8>>> {
    let options =
        || WireOptions { policy: 1, size: Size::Rate(0.01), seed: 0, expected: None, bound: 0, guess: 0 };
    let keys = |key_type| WireKeys { key_type, collation: None };
    let body = [1, 2, 3, 4, 5, 6, 7, 8];
    let member = |bits| WireMember {
        bits,
        num_probes: 5,
        ones: 60,
        full_at: 60,
        most: 60,
        keys: 10,
        length: 8,
        body: &body,
    };
    let bigint = || keys(WireType::BuiltIn(20));
    let long = "x".repeat(1_025);
    let wires = [
        Wire { keys: bigint(), options: options(), members: vec![member(1 << 30)], hashes: &[] },
        Wire { keys: bigint(), options: options(), members: vec![member(64)], hashes: &body },
        Wire {
            keys: bigint(),
            options: options(),
            members: (0..65).map(|_| member(64)).collect(),
            hashes: &[],
        },
        Wire { keys: keys(WireType::BuiltIn(16_384)), options: options(), members: vec![], hashes: &body },
        Wire {
            keys: keys(WireType::Named("public", &long)),
            options: options(),
            members: vec![],
            hashes: &body,
        },
    ];
    Ok(wires.iter().map(|wire| wire.write(Vec::with_capacity)).collect::<std::result::Result<_, _>>()?)
}

fn main() -> Result<()> {
    let corpus = std::env::args_os().nth(1).ok_or("name the folder of the corpora")?;
    let of = |target| Seeds::new(corpus.as_ref(), target);
    let (mut value, mut policy, mut state, mut map) = (of("value")?, of("policy")?, of("state")?, of("map")?);
    let mut jsonb = of("jsonb")?;
    for (keys, geometry, body) in vectors()? {
        let shape = Shape::new(keys.policy, geometry)?;
        let filter = BloomFilter::from_parts(shape, &body[..])?;
        value.add(&[&keys.encode(&[shape]), &body])?;
        let (bits, seed) = (geometry.bits.to_le_bytes(), geometry.seed.to_le_bytes());
        policy.add(&[&bits, &[geometry.num_probes, 2], &seed, b"some key", &filter.export()])?;
    }
    for bytes in values()? {
        value.add(&[&bytes])?;
        value.add(&[&bytes, &seal(&bytes)])?;
        if let Ok(filter) = StoredFilter::decode(&bytes)?.single() {
            policy.add(&[&[0; 26], &filter.export()])?;
        }
    }
    for bytes in states()?.into_iter().chain(refused()?) {
        state.add(&[&[0], &bytes])?;
    }
    // Numbers without a pattern, for what is made up of numbers.
    for number in 0..40u64 {
        let words =
            (0..20 + number as i64 * 3).flat_map(|at| skip_filter::hash_i64(number, at).to_le_bytes());
        state.add(&[&[1 + (number % 2) as u8], &words.collect::<Vec<_>>()])?;
    }
    // Numbers that are close together, far apart, and a mixture; as a data page and as a fence page.
    for (number, steps) in [[1u16, 1], [7, 299], [0x8014, 0x8001], [1, 0x8020]].into_iter().enumerate() {
        let steps: Vec<u8> = (0..600).flat_map(|at| steps[at / 8 % 2].to_le_bytes()).collect();
        for kind in [1, 2] {
            map.add(&[&[kind], &[0; 8], &(1u64 << (8 * number)).to_le_bytes(), &[0; 9], &steps])?;
        }
    }
    // Numbers without a pattern, for documents that are made up of them, and a path: $."a" == true.
    for number in 0..40u64 {
        let words = (0..4 + number as i64 * 2).flat_map(|at| skip_filter::hash_i64(number, at).to_le_bytes());
        jsonb.add(&[&[1 + (number % 2) as u8], &words.collect::<Vec<_>>()])?;
    }
    let path: [u32; 12] = [1 << 31 | 1, 8, 0, 16, 40, 27, 8, 25, 0, 1, u32::from(b'a'), 3];
    let path: Vec<u8> = path.iter().flat_map(|word| word.to_ne_bytes()).chain([0, 0, 0, 0, 1]).collect();
    jsonb.add(&[&[3], &path])?;
    for Seeds { folder, count } in [value, policy, state, map, jsonb] {
        println!("{count} seeds in {}", folder.display());
    }
    Ok(())
}
