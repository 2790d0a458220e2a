//! Encoded filters of every policy ([`skip_filter::policy`]): any bytes, with and without numbers from elsewhere, are
//! an error, which matches every key, or a filter that gives them back and keeps what is added, also when it is folded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pg_skip_fuzz::{allocations, facts};
use skip_filter::policy::*;
use std::borrow::Cow;

/// Bytes before the encoding: numbers, see below.
const HEAD: usize = 26;

fuzz_target!(|input: &[u8]| {
    let Some((&[bits @ .., num_probes, by], rest)) = input.split_first_chunk::<10>() else { return };
    let Some((&seed, rest)) = rest.split_first_chunk::<8>() else { return };
    let Some((key, encoded)) = rest.split_first_chunk::<8>() else { return };
    assert_eq!(input.len(), encoded.len() + HEAD);
    let (bits, seed) = (u64::from_le_bytes(bits), u64::from_le_bytes(seed));
    for &policy in POLICIES {
        let as_long = Geometry { bits: encoded.len() as u64 * 8, num_probes, seed };
        for given in [None, Some(Geometry { bits, ..as_long }), Some(as_long)] {
            // Where it lies, or with the rest of a word behind it, in memory that grows from its length.
            let filter =
                allocations::at_most(3 * encoded.len() + 16, || BloomFilter::import(policy, encoded, given));
            if given.is_none() {
                let expected = filter.as_ref().map_or(true, |filter| filter.may_contain(key));
                assert_eq!(key_may_match(policy.name(), key, encoded), expected);
                assert_eq!(key_may_match(policy.stored_name(), key, encoded), expected);
            }
            match filter {
                Ok(filter) => check(&filter, encoded, key, by.into()),
                Err(error) => _ = error.to_string(),
            }
        }
        let prefix = KeyPieces::new(false, Some(Prefix::Capped(4))).unwrap();
        for size in [
            Size::Fixed { bytes: bits, num_probes },
            Size::Rate(f64::from_bits(bits)),
            Size::BitsPerKey(10.0),
        ] {
            let configured =
                ConfiguredPolicy::new(policy, size).and_then(|configured| configured.with_seed(seed));
            if let Ok(configured) = configured {
                configured.key_may_match(key, encoded);
                configured.with_parts(prefix).prefix_may_match(key, encoded);
            }
        }
    }
    assert!(key_may_match("a policy to come", key, encoded));
});

fn check(filter: &BloomFilter<Cow<[u8]>>, encoded: &[u8], key: &[u8], by: u64) {
    let exported = filter.export();
    // ClickHouse's may have come in whole words, the last one with zeros.
    let (start, rest) = encoded.split_at_checked(exported.len()).expect("no longer than what came");
    assert_eq!(exported, start, "{:?}", filter.shape());
    assert!(rest.len() < 8 && rest.iter().all(|&byte| byte == 0), "{:?}", filter.shape());
    facts::hold(filter.cardinality(), filter.false_positive_rate());
    let mut changed = filter.to_owned();
    let (before, found) = (filter.count_ones(), filter.may_contain(key));
    let new = changed.insert_hash(filter.hash(key));
    assert!(changed.may_contain(key), "a key was lost: {:?}", filter.shape());
    assert_eq!((changed.count_ones(), found), (before + new, new == 0));
    assert!(changed.covers(filter).unwrap() && (found || !filter.covers(&changed).unwrap()));
    let again = changed.export();
    let given = Some(*filter.shape().geometry());
    assert_eq!(BloomFilter::import(filter.shape().policy(), &again, given).unwrap(), changed);
    if let Some(shape) = filter.shape().folded(by) {
        let folded = changed.fold(by, vec![0; shape.body_bytes() as usize]).unwrap();
        assert!(folded.may_contain(key), "a key was lost in folding by {by}: {:?}", filter.shape());
    }
    changed.intersection(filter).unwrap();
    assert_eq!(changed, *filter);
}
