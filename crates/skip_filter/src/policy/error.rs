//! What can be wrong with a filter's parameters, its bytes, or a pair of filters.

use super::geometry::Geometry;
use thiserror::Error;

/// A policy cannot do what it was asked for. The text of each names the numbers at fault.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PolicyError {
    /// A false-positive rate that is not between 0 and 1.
    #[error("a false-positive rate must be between 0 and 1, not {0}")]
    Rate(f64),
    /// Bits a key that are not a number, or fewer than half a bit.
    #[error("bits_per_key must be a number of at least 0.5, not {0}")]
    BitsPerKey(f64),
    /// No filter of the policy has a rate that low.
    #[error("policy {policy} cannot have a false-positive rate of {rate:e}: the lowest is {lowest:e}")]
    RateTooLow {
        /// The policy's name.
        policy: &'static str,
        /// The rate that was asked for.
        rate: f64,
        /// Its lowest.
        lowest: f64,
    },
    /// A number of bits that the policy's filters cannot have.
    #[error("a filter of policy {policy} has {} to {} bits in steps of {}, not {bits}", .allowed.0, .allowed.1, .allowed.2)]
    Bits {
        /// The policy's name.
        policy: &'static str,
        /// The number.
        bits: u64,
        /// Fewest, most, and step.
        allowed: (u64, u64, u64),
    },
    /// A number of probes that the policy's filters cannot have.
    #[error("a filter of policy {policy} has 1 to {most} probes, not {num_probes}")]
    Probes {
        /// The policy's name.
        policy: &'static str,
        /// The number.
        num_probes: u8,
        /// The most; the fewest is 1.
        most: u8,
    },
    /// A seed for a policy without one.
    #[error("policy {policy} has no seed")]
    Seed {
        /// The policy's name.
        policy: &'static str,
    },
    /// Neither whole keys nor prefixes are to be added.
    #[error("a filter must hold whole keys, prefixes or both")]
    NoKeys,
    /// A prefix of no bytes, which every key shares.
    #[error("a prefix has at least one byte")]
    EmptyPrefix,
    /// Bytes that are no filter of the policy, or not one that this build knows.
    #[error("not a filter of policy {policy}: {reason}")]
    Encoding {
        /// The policy's name.
        policy: &'static str,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// A size that the policy's bytes do not hold, and that was not given beside them.
    #[error("the bytes of a filter of policy {policy} do not include its size, number of hashes and seed")]
    SizeNotGiven {
        /// The policy's name.
        policy: &'static str,
    },
    /// A body of the wrong length for its shape.
    #[error("the filter has {found} bytes of bits, but its size requires {expected}")]
    Length {
        /// Bytes of the shape.
        expected: u64,
        /// Bytes that came.
        found: u64,
    },
    /// Two filters that cannot be put together.
    #[error("filters differ in {}", differences(.left, .right))]
    Mismatch {
        /// Policy and numbers of the one.
        left: (&'static str, Geometry),
        /// Policy and numbers of the other.
        right: (&'static str, Geometry),
    },
}

/// Names everything that differs between two filters, given by policy and numbers.
fn differences(left: &(&str, Geometry), right: &(&str, Geometry)) -> String {
    let facts = |&(policy, geometry): &(&str, Geometry)| {
        [
            ("policy", policy.to_owned()),
            ("bits", geometry.bits.to_string()),
            ("probes", geometry.num_probes.to_string()),
            ("seed", format!("{:#x}", geometry.seed)),
        ]
    };
    let pairs = facts(left).into_iter().zip(facts(right)).filter(|(one, other)| one != other);
    let texts = pairs.map(|((name, one), (_, other))| format!("{name} ({one} and {other})"));
    texts.collect::<Vec<_>>().join(", ")
}
