//! What the tests share.

/// Bytes of hexadecimal digits; "-" is no bytes.
pub fn hex(digits: &str) -> Vec<u8> {
    let digits = if digits == "-" { "" } else { digits };
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// A number as LevelDB's and RocksDB's tests write their keys: four little-endian bytes.
pub fn number_key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}
