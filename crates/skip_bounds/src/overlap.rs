//! How many ranges a value is between the bounds of, on average: what planning expects of a value that it does not
//! know.

use crate::bounds::Bounds;

/// The part of the other ranges, of those that have bounds, between whose bounds the values of one lie: 0 if the ranges
/// have the order of the values, 1 if each has values of the whole table. It is found from the bounds of some ranges;
/// open ones and ones without values do not count. None if there are fewer than two.
pub fn overlap(sample: &[Bounds]) -> Option<f64> {
    let known: Vec<&Bounds> = sample.iter().filter(|b| b.has_values() && !b.open).collect();
    if known.len() < 2 {
        return None;
    }
    let holds = |(at, key): (usize, u64)| {
        known.iter().enumerate().filter(|(other, bounds)| *other != at && bounds.holds(Some(key))).count()
    };
    let met: usize = known
        .iter()
        .enumerate()
        .map(|(at, bounds)| {
            holds((at, bounds.least / 2 + bounds.greatest / 2 + (bounds.least & bounds.greatest & 1)))
        })
        .sum();
    Some(met as f64 / (known.len() * (known.len() - 1)) as f64)
}
