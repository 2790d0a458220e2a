//! Claims that hold for most seeds only.
//!
//! Each index hashes with a random seed of its own. In a map, two keys with the same fingerprint are one key. So the
//! lookup of a rare key reads all ranges if a key that is everywhere has its fingerprint, which is so for a few seeds
//! in ten thousand. A claim about how much a lookup reads, made of one index, is therefore only likely. If it fails,
//! the test is run once more from its beginning, with other seeds; if it fails again, the test fails.
//!
//! This is for amounts only: pages, ranges, rates. A claim about rows holds for every seed.

/// What a panic carries if a likely claim does not hold.
pub struct Unlikely(pub String);

/// Fails the test unless the claim holds in one of two runs of it.
#[track_caller]
pub fn likely(holds: bool, otherwise: impl FnOnce() -> String) {
    if !holds {
        std::panic::panic_any(Unlikely(otherwise()));
    }
}
