//! A policy with its parameters as text: `skip`, `leveldb(bits_per_key=10)`,
//! `clickhouse(filter_size=8192, filter_hashes=3, seed=0)`.
//!
//! | parameter | policies | means |
//! |---|---|---|
//! | `bits_per_key` | all | size by bits for each distinct key, instead of by a rate |
//! | `seed` | `skip`, `clickhouse` | what keys are hashed under, 0 unless it is given |
//! | `filter_size`, `filter_hashes` | all | bytes of the filter and probes a key, whatever the keys; both or neither |

use super::filter_policy::FilterPolicy;
use super::geometry::Size;
use super::registry::{POLICIES, by_name};

/// A policy and what its text said of it.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The policy.
    pub policy: &'static dyn FilterPolicy,
    /// How big filters shall be, if the text said so.
    pub size: Option<Size>,
    /// What keys are hashed under.
    pub seed: u64,
}

/// Reads a policy with its parameters.
///
/// # Errors
/// What is wrong, as a sentence without a full stop.
pub fn parse(text: &str) -> Result<Spec, String> {
    let text = text.trim();
    let (name, parameters) = match text.split_once('(') {
        None => (text, ""),
        Some((name, rest)) => {
            let inner =
                rest.strip_suffix(')').ok_or_else(|| format!("\"{text}\" has no closing parenthesis"))?;
            (name.trim_end(), inner)
        }
    };
    let policy = by_name(name).ok_or_else(|| {
        let known: Vec<_> = POLICIES.iter().map(|policy| policy.name()).collect();
        format!("there is no filter policy \"{name}\", only {}", known.join(", "))
    })?;
    let mut given = Given::default();
    for parameter in parameters.split(',').map(str::trim).filter(|parameter| !parameter.is_empty()) {
        let pair = parameter
            .split_once('=')
            .ok_or_else(|| format!("\"{parameter}\" is not of the form name=value"))?;
        given.take(pair.0.trim(), pair.1.trim())?;
    }
    let seed = given.seed.unwrap_or(0);
    if seed != 0 && !policy.limits().seeded {
        return Err(format!("filter policy \"{name}\" has no seed"));
    }
    Ok(Spec { policy, size: given.size()?, seed })
}

#[derive(Default)]
struct Given {
    bits_per_key: Option<f64>,
    bytes: Option<u64>,
    num_probes: Option<u8>,
    seed: Option<u64>,
}

impl Given {
    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        fn set<T: std::str::FromStr>(place: &mut Option<T>, name: &str, value: &str) -> Result<(), String> {
            if place.is_some() {
                return Err(format!("{name} is given twice"));
            }
            let parsed = value.parse();
            *place = Some(parsed.map_err(|_| format!("\"{value}\" is not a valid value for {name}"))?);
            Ok(())
        }
        match name {
            "bits_per_key" => set(&mut self.bits_per_key, name, value),
            "filter_size" => set(&mut self.bytes, name, value),
            "filter_hashes" => set(&mut self.num_probes, name, value),
            "seed" => set(&mut self.seed, name, value),
            _ => Err(format!(
                "there is no parameter \"{name}\", only bits_per_key, seed, filter_size and filter_hashes"
            )),
        }
    }

    fn size(&self) -> Result<Option<Size>, String> {
        match (self.bits_per_key, self.bytes, self.num_probes) {
            (None, None, None) => Ok(None),
            (Some(bits), None, None) => Ok(Some(Size::BitsPerKey(bits))),
            (None, Some(bytes), Some(num_probes)) => Ok(Some(Size::Fixed { bytes, num_probes })),
            (Some(_), _, _) => Err("bits_per_key and filter_size exclude each other".into()),
            _ => Err("filter_size and filter_hashes are given together or not at all".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn names_and_parameters() {
        let plain = parse("skip").unwrap();
        assert_eq!((plain.policy.name(), plain.size, plain.seed), ("skip", None, 0));
        let leveldb = parse(" leveldb( bits_per_key = 10 ) ").unwrap();
        assert_eq!(leveldb.size, Some(Size::BitsPerKey(10.0)));
        let clickhouse = parse("clickhouse(filter_size=8192, filter_hashes=3, seed=42)").unwrap();
        assert_eq!(
            (clickhouse.size, clickhouse.seed),
            (Some(Size::Fixed { bytes: 8192, num_probes: 3 }), 42)
        );
        assert_eq!(parse("leveldb.BuiltinBloomFilter2()").unwrap().policy.name(), "leveldb");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [
            ("", "no filter policy"),
            ("cuckoo", "only skip, leveldb"),
            ("skip(", "closing"),
            ("skip(seed)", "name=value"),
            ("skip(seed=x)", "not a valid value for seed"),
            ("skip(seed=1, seed=1)", "twice"),
            ("leveldb(seed=1)", "has no seed"),
            ("skip(sed=1)", "no parameter"),
            ("skip(filter_size=10)", "together"),
            ("skip(filter_size=10, filter_hashes=2, bits_per_key=3)", "exclude"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
