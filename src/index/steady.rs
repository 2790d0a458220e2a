//! Reads of an index that maintenance, or a standby's replay, may change meanwhile: repeated until one is undisturbed.

use crate::pages::meta::Meta;
use crate::pages::miss::{Fetch, Miss};
use crate::pg::error::or_raise;
use crate::pg::{Rel, fail, memory};
use pgrx::prelude::*;

/// How often a read starts over before it is an error: as often as a lookup (`MOST_RESTARTS` in [`crate::prune`]).
const MOST_LOOKS: usize = 20;

/// Repeats `look` while pages are recycled during it, and returns only the result of an undisturbed read. After
/// [`MOST_LOOKS`] attempts it raises an error. A page with a different owner in an index that has not changed is
/// damage.
pub fn steady<R>(index: Rel, mut look: impl FnMut() -> Fetch<R>) -> R {
    let mut before = or_raise(index, Meta::read(index));
    for _ in 0..MOST_LOOKS {
        let miss = match look() {
            Ok(result) => return result,
            Err(miss) => miss,
        };
        let now = or_raise(index, Meta::read(index));
        if matches!(miss, Miss::Damage(_)) || !has_moved(&before, &now) {
            miss.into_damage().raise(index);
        }
        before = now;
        memory::check_for_interrupts();
    }
    fail(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("index \"{}\" changes too fast to be inspected", index.name()),
        Some(format!(
            "Pages were recycled during each of {MOST_LOOKS} attempts to read the index. This is not a sign of damage."
        )),
        Some(
            "Try again when maintenance of the index, or its replay on a standby, changes the index less often."
                .into(),
        ),
    )
}

/// Whether pages may have been reused between two reads of the meta page: segments were retired, the delta was folded,
/// or a spare page was taken for the delta, which inserts do without the maintenance lock.
pub fn has_moved(before: &Meta, now: &Meta) -> bool {
    let facts = |meta: &Meta| (meta.generation, meta.delta_head_sequence, meta.spare);
    facts(before) != facts(now)
}
