//! States as processes send them: what is no state is an error, and claims no memory.

use super::{BOUND, collect, encode, hash, keys, options, serialized};
use allocator_api2::alloc::Global;
use skip_filter::policy::Size;
use skip_value::collect::wire::{Wire, WireKeys, WireMember, WireOptions, WireType};
use skip_value::collect::{CollectError, Collector, CollectorOptions};
use skip_value::{KeyType, Keys, StoredFilter};

/// A state of more exact hashes than its own bound allows is none: reading it would make a filter of any size it
/// claims.
#[test]
fn states_do_not_claim_memory() {
    for (count, bound) in [(3, 0), (6, 64), (12, 128), (12_288, BOUND)] {
        for is_one_more in [false, true] {
            let options = CollectorOptions { bound, ..options("skip", Some(100_000_000), 0, false) };
            let numbers: Vec<u64> = (1..=count + u64::from(is_one_more)).collect();
            let hashes: Vec<u8> = numbers.iter().flat_map(|&number| hash(number).to_le_bytes()).collect();
            let part = collect(&options, numbers.iter().copied());
            assert_eq!(part.is_exact(), !is_one_more, "{count} {bound}");
            let empty = serialized(&mut Collector::new_in(&options, Global));
            let mut wire = Wire::read(&empty).unwrap();
            wire.hashes = &hashes;
            let sent = wire.write(Vec::with_capacity).unwrap();
            let read = Collector::deserialize(&sent, &Global, |_, _| &options);
            assert_eq!(read.is_err(), is_one_more, "{count} {bound}");
        }
    }
}

const BODY: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// A state as it is sent, of these exact hashes and so many members of 64 bits.
fn as_sent(hashes: &[u64], members: usize) -> Vec<u8> {
    let hashes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    let keys = WireKeys { key_type: WireType::BuiltIn(20), collation: None };
    let size = Size::Rate(0.01);
    let options = WireOptions { policy: 1, size, seed: 0, expected: None, bound: 0, guess: 0 };
    let member = |_| WireMember {
        bits: 64,
        num_probes: 5,
        ones: 13,
        full_at: 60,
        most: 60,
        keys: 10,
        length: 8,
        body: &BODY,
    };
    let members = (0..members).map(member).collect();
    Wire { keys, options, members, hashes: &hashes }.write(Vec::with_capacity).unwrap()
}

/// Found by fuzzing: hashes beside filters were lost, and a value of more than 64 members cannot be read.
#[test]
fn states_that_no_process_sends_are_errors() {
    for (hashes, members, is_state) in
        [(&[7u64, 8][..], 0, true), (&[], 1, true), (&[], 64, true), (&[7, 8], 1, false), (&[], 65, false)]
    {
        let mut kept = None;
        let state = as_sent(hashes, members);
        let state = Collector::deserialize(&state, &Global, |options, _| &*kept.insert(options));
        assert_eq!(state.is_ok(), is_state, "{hashes:?} and {members} members");
        if let Ok(mut state) = state {
            let bytes = encode(&mut state);
            let value = StoredFilter::decode(&bytes).unwrap();
            assert!(hashes.iter().all(|&hash| value.may_contain_hash(hash)));
        }
    }
}

/// Keys of a state are such as a stored filter can have, and a state lacks nothing of what it was sent with.
#[test]
fn states_of_no_keys_are_errors() {
    let sent = as_sent(&[7, 8], 0);
    let mut wire = Wire::read(&sent).unwrap();
    let options = options("skip", None, 0, false);
    let long = "x".repeat(1_025);
    let name = &long[1..];
    for (key_type, collation, is_state) in [
        (WireType::BuiltIn(20), None, true),
        (WireType::BuiltIn(0), None, false),
        (WireType::BuiltIn(16_384), None, false),
        (WireType::Named("public", "mood"), Some(("\"de\"", "1.2")), true),
        (WireType::Named(name, name), Some((name, name)), true),
        (WireType::Named("public", &long), None, false),
        (WireType::Named("pub\0lic", "mood"), None, false),
        (WireType::Named("public", "mo\0od"), None, false),
        (WireType::Named("", "mood"), None, false),
        (WireType::Named("public", ""), None, false),
        (WireType::BuiltIn(25), Some(("d\0e", "1.2")), false),
        (WireType::BuiltIn(25), Some(("de", "1\0")), false),
        (WireType::BuiltIn(25), Some(("", "1.2")), false),
        (WireType::BuiltIn(25), Some(("de", "")), true),
        (WireType::BuiltIn(25), Some(("\"de\"", &*long)), false),
    ] {
        wire.keys = WireKeys { key_type, collation };
        let sent = wire.write(Vec::with_capacity).unwrap();
        let read = Collector::deserialize(&sent, &Global, |_, _| &options);
        assert_eq!(read.is_ok(), is_state, "{:?}", wire.keys);
        if let Ok(mut state) = read {
            let bytes = state.finish(&wire.keys().unwrap(), Vec::with_capacity).unwrap();
            assert!(*StoredFilter::decode(&bytes).unwrap().keys() == wire.keys().unwrap());
        }
        for length in 0..sent.len() {
            let read = Collector::<Global>::deserialize(&sent[..length], &Global, |_, _| &options);
            assert!(read.is_err(), "{length} of {}", sent.len());
        }
    }
}

/// States of other keys are not combined: they would be found as what they are not.
#[test]
fn states_of_other_keys_are_not_combined() {
    let options = options("skip", None, 0, false);
    let own = keys(&options);
    let sent = serialized(&mut collect(&options, 0..10));
    let mut all = Collector::new_in(&options, Global);
    for other in [
        Keys { key_type: KeyType::BuiltIn(25), ..own.clone() },
        Keys { key_type: KeyType::Named { schema: "public".into(), name: "mood".into() }, ..own.clone() },
    ] {
        assert_eq!(all.combine_sent(&sent, &other, &Global), Err(CollectError::Keys));
    }
    all.combine_sent(&sent, &own, &Global).unwrap();
}
