//! A stored filter that was not fetched is asked for a few keys by fetching the few bytes that their probes are in.
//!
//! A filter of a megabyte says no after two probes on average, and yes after a dozen: there is no need to fetch it for
//! that.
//!
//! Answers are those of the whole value: see [`StoredFilter::may_contain_hash`](crate::StoredFilter::may_contain_hash).
//! That unreachable bits are zero is not checked here: no answer depends on them.

use crate::outline::Outline;

/// Bytes that are fetched at a time, aligned in the filter: a line of policy `rocksdb`, in which all probes of a key
/// are.
pub const LINE: usize = 64;

impl Outline {
    /// Whether the value may hold the key of a hash. `fetch` copies bytes of the value, [`LINE`] at most, from an
    /// offset on.
    pub fn may_contain_hash_afar(&self, hash: u64, fetch: &mut dyn FnMut(u64, &mut [u8])) -> bool {
        let mut body = self.start();
        self.shapes().iter().any(|shape| {
            let from = body;
            body += shape.body_bytes();
            let (mut line, mut at) = ([0; LINE], None);
            shape.policy().probe(shape.geometry(), hash, &mut |position| {
                let (byte, bit) = (position / 8, position % 8);
                let first = byte - byte % LINE as u64;
                if at != Some(first) {
                    let length = (shape.body_bytes() - first).min(LINE as u64);
                    fetch(from + first, &mut line[..length as usize]);
                    at = Some(first);
                }
                line[(byte - first) as usize] >> bit & 1 != 0
            })
        })
    }
}
