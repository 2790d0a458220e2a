//! What must be true of estimates, whatever the bits are: a planner reckons with them.

use skip_filter::policy::Cardinality;

/// Bounds are solved for to a part in 10^12.
const ROUNDING: f64 = 1.0 + 1e-9;

/// Bounds around an estimate, and a rate that is one. Only a number is at least as large as another.
#[track_caller]
pub fn hold(Cardinality { estimate, low, high }: Cardinality, rate: f64) {
    let in_order = 0.0 <= low && low <= estimate * ROUNDING && estimate <= high * ROUNDING;
    assert!(in_order, "{low} <= {estimate} <= {high}");
    assert!((0.0..=ROUNDING).contains(&rate), "{rate}");
}
