//! The formats of other systems: `bloom_export`, `bloom_import`.

use super::keys::KeyReader;
use super::operators::decode;
use super::problem::{self, bad_policy};
use crate::pg::boundary;
use crate::pg::fail;
use crate::pg::function::Call;
use crate::pg::sql_text::Text;
use crate::pg::varlena::Made;
use pgrx::prelude::*;
use skip_filter::policy::{BloomFilter, Geometry, PolicyError, Size, spec};

/// The filter in the format of the system that its policy comes from.
#[pg_extern(sql = false)]
fn bloom_export(filter: &[u8]) -> Made {
    boundary::callback(|| {
        let value = decode(filter);
        match value.single() {
        Ok(single) => Made::copy(&single.export()),
        Err(error) => fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "this bloom filter cannot be exported".into(),
            Some(problem::sentence(&error.to_string())),
            Some("A filter becomes a series when it receives more keys than expected. Build it with the expected number of keys.".into()),
        ),
    }
    })
}

/// The filter in the bytes of another system.
#[pg_extern(sql = false)]
fn bloom_import(call: Call<'_>, bytes: &[u8], policy: Text, key_type: pg_sys::Oid) -> Made {
    boundary::callback(move || {
        // The body owns the text: an error jumps over the frame around it.
        let spec = spec::parse(&policy.0).unwrap_or_else(|error| bad_policy(&error));
        let given = match spec.size {
            Some(Size::Fixed { bytes, num_probes }) => {
                Some(Geometry { bits: bytes.saturating_mul(8), num_probes, seed: spec.seed })
            }
            _ => None,
        };
        let imported = BloomFilter::import(spec.policy, bytes, given).unwrap_or_else(|error| {
            fail(
                PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION,
                format!("the bytes are not a valid filter of policy {}", spec.policy.name()),
                Some(problem::sentence(&error.to_string())),
                matches!(error, PolicyError::SizeNotGiven { .. }).then(|| {
                    format!(
                        "Give them as parameters of the policy: {}(filter_size=…, filter_hashes=…, seed=…).",
                        spec.policy.name()
                    )
                }),
            )
        });
        let shape = *imported.shape();
        let keys = KeyReader::new(key_type, call.collation()).keys(spec.policy, shape.geometry().seed);
        let header = keys.encode(&[shape]);
        let mut made = Made::zeros(header.len() + imported.body().len());
        let (start, body) = made.bytes().split_at_mut(header.len());
        start.copy_from_slice(&header);
        body.copy_from_slice(imported.body());
        made
    })
}
