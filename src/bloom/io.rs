//! Text, binary and bytea formats: the value's bytes and a checksum (`skip_value::seal`).
//!
//! The text format is `\x` and the bytes as hexadecimal digits, like that of bytea.

use super::{keys, problem};
use crate::pg::Report;
use crate::pg::boundary;
use crate::pg::function::Call;
use crate::pg::memory;
use crate::pg::varlena::Made;
use pgrx::prelude::*;
use skip_value::seal::SEAL;
use skip_value::{StoredFilter, ValueError, seal, unseal};
use std::ffi::CString;

/// Reads the text format. Returns None if the caller of the input function takes errors instead of having them raised.
#[pg_extern(sql = false)]
fn bloom_in(call: Call<'_>) -> Option<Made> {
    boundary::callback(|| {
        const CODE: PgSqlErrorCode = PgSqlErrorCode::ERRCODE_INVALID_TEXT_REPRESENTATION;
        let Some(bytes) = unhex(call.text(0)?.to_bytes()) else {
            call.reject(Report::new(
                CODE,
                "invalid input syntax for type bloom".into(),
                Some(
                    "A value of type bloom is written as \\x and an even number of hexadecimal digits."
                        .into(),
                ),
                Some("Filters are made by bloom_agg, bloom_empty and bloom_import.".into()),
            ));
            return None;
        };
        match checked(&bytes) {
            Ok(value) => Some(Made::copy(value)),
            Err(error) => {
                call.reject(problem::no_filter(CODE, &error));
                None
            }
        }
    })
}

#[pg_extern(sql = false)]
fn bloom_out(value: &[u8]) -> CString {
    boundary::callback(|| {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = memory::buffer((value.len() + SEAL) * 2 + 3);
        text.extend(b"\\x");
        for byte in value.iter().chain(&seal(value)) {
            text.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        CString::new(text).unwrap_or_default()
    })
}

/// Reads the binary format: the rest of the message.
#[pg_extern(sql = false)]
fn bloom_recv(call: Call<'_>) -> Made {
    boundary::callback(|| {
        let bytes = call.message(0);
        unsealed(&bytes)
    })
}

#[pg_extern(sql = false)]
fn bloom_send(value: &[u8]) -> Made {
    boundary::callback(|| sealed(value))
}

/// The cast to bytea.
#[pg_extern(sql = false)]
fn bloom_to_bytea(value: &[u8]) -> Made {
    boundary::callback(|| sealed(value))
}

/// The cast from bytea.
#[pg_extern(sql = false)]
fn bloom_from_bytea(bytes: &[u8]) -> Made {
    boundary::callback(|| unsealed(bytes))
}

fn sealed(value: &[u8]) -> Made {
    let mut made = Made::zeros(value.len() + SEAL);
    let (start, end) = made.bytes().split_at_mut(value.len());
    start.copy_from_slice(value);
    end.copy_from_slice(&seal(value));
    made
}

fn unsealed(bytes: &[u8]) -> Made {
    const CODE: PgSqlErrorCode = PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION;
    checked(bytes).map_or_else(|error| problem::no_filter(CODE, &error).raise(), Made::copy)
}

/// The value in sealed bytes, if its keys are of a type that filters can have.
fn checked(sealed: &[u8]) -> Result<&[u8], ValueError> {
    let value = unseal(sealed)?;
    if keys::is_key_type(&StoredFilter::decode(value)?.keys().key_type) {
        Ok(value)
    } else {
        Err(ValueError::Malformed("its key type is not one that keys of filters can have"))
    }
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let digits = text.strip_prefix(b"\\x").or_else(|| text.strip_prefix(b"\\X"))?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = memory::buffer(pairs.len());
    for &[high, low] in pairs {
        bytes.push((digit(high)? << 4 | digit(low)?) as u8);
    }
    Some(bytes)
}
