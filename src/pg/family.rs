//! Members of operator families, remembered in the session: support functions by type, and the strategies of operators.
//!
//! A query asks for the same few members again and again while it is planned and run. A search of the server's caches
//! takes some five hundred instructions, and a remembered answer some twenty.
//!
//! Invariant: what is remembered was found after the last change of a family that the server has announced. It
//! announces the rows of pg_amop and pg_amproc that are changed, removed or added, whoever does it, as it does for its
//! own caches. So it may be remembered, too, that a family does not have a member.

use super::boundary;
use pgrx::pg_sys::{self, Oid};
use std::cell::Cell;
use std::ffi::c_int;

/// The number of answers that are remembered of each kind, a power of two. Few families are used at a time.
const PLACES: usize = 64;

/// What is asked for: family, left type, right type and number of a support function; or operator and family.
type Question = [u32; 4];

/// Answers, each in the place that its question tells; a new one takes the place of an older one.
struct Answers<A>([Cell<Option<(Question, A)>>; PLACES]);

/// An operator's place in a family.
#[derive(Clone, Copy)]
pub(super) struct Membership {
    pub strategy: i32,
    pub right: Oid,
}

thread_local! {
    static FUNCTIONS: Answers<Option<Oid>> = const { Answers::new() };
    static OPERATORS: Answers<Option<Membership>> = const { Answers::new() };
    /// The number of changes that the server has announced; None before it was asked to do so.
    static CHANGES: Cell<Option<u64>> = const { Cell::new(None) };
}

impl<A: Copy> Answers<A> {
    const fn new() -> Self {
        Self([const { Cell::new(None) }; PLACES])
    }

    fn place(&self, question: Question) -> &Cell<Option<(Question, A)>> {
        // Fibonacci hashing: the upper bits of a product with 2^64 divided by the golden ratio.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed =
            question.iter().fold(0, |mixed: u64, &part| (mixed ^ u64::from(part)).wrapping_mul(FACTOR));
        &self.0[(mixed >> (u64::BITS - PLACES.trailing_zeros())) as usize]
    }

    /// The answer to a question, remembered or found by `search`.
    fn answer(&self, question: Question, search: impl FnOnce() -> A) -> A {
        let place = self.place(question);
        if let Some((known, answer)) = place.get()
            && known == question
        {
            return answer;
        }
        let changes = changes();
        let answer = search();
        // The server may announce a change while it searches.
        if CHANGES.get() == Some(changes) {
            place.set(Some((question, answer)));
        }
        answer
    }

    fn forget(&self) {
        self.0.iter().for_each(|place| place.set(None));
    }
}

/// The support function `number` that a family has for two types.
pub(super) fn support_function(family: Oid, left: Oid, right: Oid, number: i16) -> Option<Oid> {
    let question = [family.to_u32(), left.to_u32(), right.to_u32(), number as u32];
    FUNCTIONS.with(|known| {
        known.answer(question, || {
            // SAFETY: a catalog lookup.
            let function = unsafe { pg_sys::get_opfamily_proc(family, left, right, number) };
            (function != Oid::INVALID).then_some(function)
        })
    })
}

/// The place of a search operator in a family; None if it is not in the family.
pub(super) fn member(operator: Oid, family: Oid) -> Option<Membership> {
    OPERATORS.with(|known| {
        known.answer([operator.to_u32(), family.to_u32(), 0, 0], || {
            let cache = pg_sys::SysCacheIdentifier::AMOPOPID as i32;
            // SAFETY: a syscache tuple, released after its contents were copied.
            unsafe {
                let search = pg_sys::Datum::from(pg_sys::AMOP_SEARCH);
                let tuple = pg_sys::SearchSysCache3(cache, operator.into(), search, family.into());
                if tuple.is_null() {
                    return None;
                }
                let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_amop>();
                let member = Membership { strategy: form.amopstrategy.into(), right: form.amoprighttype };
                pg_sys::ReleaseSysCache(tuple);
                Some(member)
            }
        })
    })
}

/// The number of changes that were announced. From the first call on they are.
fn changes() -> u64 {
    if let Some(changes) = CHANGES.get() {
        return changes;
    }
    use pg_sys::SysCacheIdentifier::{AMOPOPID, AMPROCNUM};
    for cache in [AMOPOPID, AMPROCNUM] {
        // SAFETY: a function of this library, which is never unloaded. The server has room for 64 such functions, and
        // ends a session that asks for more.
        unsafe { pg_sys::CacheRegisterSyscacheCallback(cache as i32, Some(changed), pg_sys::Datum::null()) };
    }
    CHANGES.set(Some(0));
    0
}

/// Forgets everything. It calls no function of the server: the transaction may be aborting.
unsafe extern "C-unwind" fn changed(_argument: pg_sys::Datum, _cache: c_int, _hash: u32) {
    boundary::callback(|| {
        CHANGES.set(CHANGES.get().map(|changes| changes.wrapping_add(1)));
        FUNCTIONS.with(Answers::forget);
        OPERATORS.with(Answers::forget);
    });
}
