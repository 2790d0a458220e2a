//! What can be wrong with a filter's parameters, its bytes, or a pair of filters.

use std::fmt;

use super::geometry::Geometry;

/// A policy cannot do what it was asked for. The text of each names the numbers at fault.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicyError {
    /// A false-positive rate that is not between 0 and 1.
    Rate(f64),
    /// Bits a key that are not a number, or fewer than half a bit.
    BitsPerKey(f64),
    /// No filter of the policy has a rate that low.
    RateTooLow {
        /// The policy's name.
        policy: &'static str,
        /// The rate that was asked for.
        rate: f64,
        /// Its lowest.
        lowest: f64,
    },
    /// A number of bits that the policy's filters cannot have.
    Bits {
        /// The policy's name.
        policy: &'static str,
        /// The number.
        bits: u64,
        /// Fewest, most, and step.
        allowed: (u64, u64, u64),
    },
    /// A number of probes that the policy's filters cannot have.
    Probes {
        /// The policy's name.
        policy: &'static str,
        /// The number.
        probes: u8,
        /// The most; the fewest is 1.
        most: u8,
    },
    /// A seed for a policy without one.
    Seed {
        /// The policy's name.
        policy: &'static str,
    },
    /// Neither whole keys nor prefixes are to be added.
    NoKeys,
    /// A prefix of no bytes, which every key shares.
    EmptyPrefix,
    /// Bytes that are no filter of the policy, or not one that this build knows.
    Encoding {
        /// The policy's name.
        policy: &'static str,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// A size that the policy's bytes do not hold, and that was not given beside them.
    SizeNotGiven {
        /// The policy's name.
        policy: &'static str,
    },
    /// A body of the wrong length for its shape.
    Length {
        /// Bytes of the shape.
        expected: u64,
        /// Bytes that came.
        found: u64,
    },
    /// Two filters that cannot be put together.
    Mismatch {
        /// Policy and numbers of the one.
        left: (&'static str, Geometry),
        /// Policy and numbers of the other.
        right: (&'static str, Geometry),
    },
}

/// Names everything that differs between two filters.
fn differences(f: &mut fmt::Formatter<'_>, left: &(&str, Geometry), right: &(&str, Geometry)) -> fmt::Result {
    let numbers = |geometry: &Geometry| {
        [geometry.bits.to_string(), geometry.probes.to_string(), format!("{:#x}", geometry.seed)]
    };
    let mut before = "filters differ in";
    if left.0 != right.0 {
        write!(f, "{before} policy ({} and {})", left.0, right.0)?;
        before = ",";
    }
    let pairs = numbers(&left.1).into_iter().zip(numbers(&right.1));
    for (name, (one, other)) in ["bits", "probes", "seed"].iter().zip(pairs) {
        if one != other {
            write!(f, "{before} {name} ({one} and {other})")?;
            before = ",";
        }
    }
    Ok(())
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "a false-positive rate must be between 0 and 1, not {rate}"),
            Self::BitsPerKey(bits) => write!(f, "bits_per_key must be a number of at least 0.5, not {bits}"),
            Self::RateTooLow { policy, rate, lowest } => {
                write!(
                    f,
                    "policy {policy} cannot have a false-positive rate of {rate:e}: the lowest is {lowest:e}"
                )
            }
            Self::Bits { policy, bits, allowed: (fewest, most, step) } => {
                write!(
                    f,
                    "a filter of policy {policy} has {fewest} to {most} bits in steps of {step}, not {bits}"
                )
            }
            Self::Probes { policy, probes, most } => {
                write!(f, "a filter of policy {policy} has 1 to {most} probes, not {probes}")
            }
            Self::Seed { policy } => write!(f, "policy {policy} has no seed"),
            Self::NoKeys => f.write_str("a filter must hold whole keys, prefixes or both"),
            Self::EmptyPrefix => f.write_str("a prefix has at least one byte"),
            Self::Encoding { policy, reason } => write!(f, "not a filter of policy {policy}: {reason}"),
            Self::SizeNotGiven { policy } => {
                write!(
                    f,
                    "the bytes of a filter of policy {policy} do not include its size, number of hashes and seed"
                )
            }
            Self::Length { expected, found } => {
                write!(f, "the filter has {found} bytes of bits, but its size requires {expected}")
            }
            Self::Mismatch { left, right } => differences(f, left, right),
        }
    }
}

impl std::error::Error for PolicyError {}
