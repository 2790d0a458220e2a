//! The numbers a filter is made of, and those it is asked for by: plain data, below every policy.

/// The numbers that fix which bits a key hash means. Filters can be put together only if all of them agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Bits that probes fall on.
    pub bits: u64,
    /// Probes a key.
    pub num_probes: u8,
    /// What key bytes are hashed under; 0 where the policy has no seed.
    pub seed: u64,
}

/// How big a filter shall be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// For a false-positive rate, between 0 and 1.
    Rate(f64),
    /// Bits for each distinct key, at least [`Size::MIN_BITS_PER_KEY`].
    BitsPerKey(f64),
    /// So large, whatever the keys: ClickHouse's `filter_size` and `filter_hashes`.
    Fixed {
        /// Bytes of the filter without what its encoding adds.
        bytes: u64,
        /// Probes a key.
        num_probes: u8,
    },
}

impl Size {
    /// Below half a bit a key no filter is worth its bytes; RocksDB makes none there.
    pub const MIN_BITS_PER_KEY: f64 = 0.5;
}

/// What a policy's filters can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fewest bits of a filter.
    pub min_bits: u64,
    /// Most bits of a filter.
    pub max_bits: u64,
    /// Bits come in multiples of this.
    pub bits_step: u64,
    /// Most probes a key.
    pub max_probes: u8,
    /// Whether key bytes can be hashed under a seed.
    pub seeded: bool,
    /// Bits of a key's hash that a filter sees: it cannot tell keys apart that share all of them.
    pub hash_bits: u8,
    /// Bits of the line that all probes of a key lie in, if that is not the whole filter.
    pub line_bits: Option<u64>,
}
