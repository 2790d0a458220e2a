//! Looks at an index that maintenance, or a standby's replay, may change meanwhile.

use crate::pages::meta::Meta;
use crate::pages::miss::{Fetch, Miss};
use crate::pg::error::or_raise;
use crate::pg::{Rel, fail, memory};
use pgrx::prelude::*;

/// How often a look starts over.
const MOST_LOOKS: usize = 20;

/// Looks again as long as pages are recycled under the look. Comes back only with what an undisturbed look gave: when
/// there is none, that is an error. A foreign page in an index that has not changed is damage.
pub fn steady<R>(index: Rel, mut look: impl FnMut() -> Fetch<R>) -> R {
    let mut before = or_raise(index, Meta::read(index));
    for _ in 0..MOST_LOOKS {
        let miss = match look() {
            Ok(result) => return result,
            Err(miss) => miss,
        };
        let now = or_raise(index, Meta::read(index));
        if matches!(miss, Miss::Damage(_)) || !has_moved(&before, &now) {
            miss.not_recycled().raise(index);
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

/// Whether pages may have become something else between two looks at the meta page: segments were retired, the delta
/// was folded, or a spare page was taken for the delta, which inserts do without the maintenance lock.
pub fn has_moved(before: &Meta, now: &Meta) -> bool {
    let facts = |meta: &Meta| (meta.generation, meta.delta_head_sequence, meta.spare);
    facts(before) != facts(now)
}
