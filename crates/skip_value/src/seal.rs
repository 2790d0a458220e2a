//! Values outside of tables: as text, as bytea, on the wire.
//!
//! In a table the server's own page checksums watch over a value. Outside anything can happen to it, and one lost bit
//! would be a lost key. So it travels with a checksum: four bytes behind it, little-endian, the lower half of XXH3-64
//! under the seed [`SEED`].

use crate::StoredFilter;
use crate::error::ValueError;
use crate::header::VERSION;
use skip_filter::checksum;

/// "bloom" in ASCII.
const SEED: u64 = 0x6d_6f6f_6c62;

/// Bytes of the checksum.
pub const SEAL: usize = 4;

fn sum(value: &[u8]) -> [u8; SEAL] {
    (checksum(value, SEED) as u32).to_le_bytes()
}

/// The checksum that goes behind a value.
pub fn seal(value: &[u8]) -> [u8; SEAL] {
    sum(value)
}

/// The value in sealed bytes, checked in every respect.
///
/// # Errors
/// What is wrong. A version that is not known is said to be that, since its seal may be another one, too.
pub fn unseal(sealed: &[u8]) -> Result<&[u8], ValueError> {
    let version = sealed.first().map_or(VERSION, |first| first >> 5);
    if version != VERSION {
        return Err(ValueError::Version(version));
    }
    let (value, found) = sealed.split_last_chunk::<SEAL>().ok_or(ValueError::Truncated)?;
    if *found != sum(value) {
        return Err(ValueError::Malformed(
            "its checksum does not match: bytes are missing, added or changed",
        ));
    }
    StoredFilter::decode(value).map(|_| value)
}
