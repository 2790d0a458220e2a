//! Stored filters ([`skip_value`]): any bytes are an error, or a value whose one encoding they are and which can
//! be asked, counted, added to, put together with itself and sealed. Reading takes no memory by what a header claims.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pg_skip_fuzz::{allocations, facts};
use skip_filter::policy::Shape;
use skip_value::{Outline, StoredFilter, seal, unseal};

/// What reading may allocate: the names and the shapes of a header, however many bits follow.
const ALLOCATED: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = allocations::at_most(ALLOCATED, || unseal(bytes)) {
        check(value);
    }
    check(bytes);
});

fn check(bytes: &[u8]) {
    let mut copy = bytes.to_vec();
    let value = match allocations::at_most(ALLOCATED, || StoredFilter::decode(bytes)) {
        Ok(value) => value,
        Err(error) => {
            error.to_string();
            if let Ok(distant) = allocations::at_most(ALLOCATED, || Outline::read(bytes, bytes.len() as u64))
            {
                ask(&distant, bytes, 0); // unreachable bits are not its business
            }
            assert_eq!(StoredFilter::decode_mut(&mut copy).unwrap_err(), error);
            assert!(unseal(&[bytes, &seal(bytes)].concat()).is_err());
            return;
        }
    };
    let shapes: Vec<Shape> = value.members().iter().map(|member| *member.shape()).collect();
    let mut again = value.keys().encode(&shapes);
    value.members().iter().for_each(|member| again.extend(member.body()));
    assert_eq!(again, bytes, "another encoding");
    assert_eq!(unseal(&[bytes, &seal(bytes)].concat()), Ok(bytes));
    facts::hold(value.cardinality(), value.false_positive_rate());

    // Hashes that depend on the bytes, and on nothing that the bytes could be made for.
    let hashes = [0, 1, 2].map(|seed| skip_filter::checksum(bytes, seed));
    let found = hashes.map(|hash| value.may_contain_hash(hash));
    let first = &bytes[..bytes.len().min(1_996)];
    let distant =
        Outline::read(first, bytes.len() as u64).or_else(|_| Outline::read(bytes, bytes.len() as u64));
    let distant = distant.unwrap();
    assert_eq!(hashes.map(|hash| ask(&distant, bytes, hash)), found, "asked from afar");
    assert!(distant.is_of(bytes));
    assert_eq!(hashes.map(|hash| distant.may_contain_hash(bytes, hash)), found, "asked by its outline");
    let mut changed = allocations::at_most(ALLOCATED, || StoredFilter::decode_mut(&mut copy)).unwrap();
    changed.union(&value).unwrap();
    assert_eq!(changed.count_ones(), value.count_ones(), "a union with itself");
    assert_eq!(changed.intersection(&value).is_ok(), shapes.len() == 1);
    assert_eq!(changed.count_ones(), value.count_ones(), "an intersection with itself");
    assert_eq!(hashes.map(|hash| changed.may_contain_hash(hash)), found);
    for hash in hashes {
        changed.insert_hash(hash);
    }
    assert!(hashes.iter().all(|&hash| changed.may_contain_hash(hash)), "a key was lost");
    changed.union(&value).unwrap();
    assert!(hashes.iter().all(|&hash| changed.may_contain_hash(hash)), "a key was lost by a union");
    facts::hold(changed.cardinality(), changed.false_positive_rate());
    for (own, others) in changed.members().iter().zip(value.members()) {
        assert_eq!(own.covers(others), Ok(true), "bits were lost");
    }
    assert!(StoredFilter::decode(&copy).is_ok(), "what was added to cannot be read any more");
}

fn ask(distant: &Outline, bytes: &[u8], hash: u64) -> bool {
    distant.may_contain_hash_afar(hash, &mut |offset, line| {
        line.copy_from_slice(&bytes[offset as usize..][..line.len()]);
    })
}
