//! Data that states of an aggregate share, kept once for all states in a memory context.
//!
//! There may be a million states in a context, so they refer to the shared data. It must live exactly as long as they
//! do. Therefore it is kept for their context, and dropped when the context is reset or deleted. (It is not kept for
//! the function's lookup, because a caller may look the function up for each row, in memory that is freed after the
//! row.)

use super::aggregate::Aggregate;
use pgrx::{PgMemoryContexts, pg_sys};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::thread::LocalKey;

/// The values of one context, by key. One key has few values.
type OfContext<K, T> = HashMap<K, Vec<Box<T>>>;

/// The values, by memory context.
pub struct Kept<K, T>(RefCell<HashMap<pg_sys::MemoryContext, OfContext<K, T>>>);

impl<K, T> Default for Kept<K, T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

/// Drops the values of a context when it is dropped itself, together with the context's memory.
struct Ending<K: 'static, T: 'static> {
    context: pg_sys::MemoryContext,
    kept: &'static LocalKey<Kept<K, T>>,
}

impl<K, T> Drop for Ending<K, T> {
    fn drop(&mut self) {
        let of_context = self.kept.with(|kept| kept.0.borrow_mut().remove(&self.context));
        drop(of_context);
    }
}

impl<'m> Aggregate<'m> {
    /// A value equal to this one, kept as long as the memory of the group.
    pub fn keep<K: Eq + Hash, T: PartialEq>(
        &self,
        kept: &'static LocalKey<Kept<K, T>>,
        key: K,
        value: T,
    ) -> &'m T {
        let context = self.context;
        if kept.with(|kept| !kept.0.borrow().contains_key(&context)) {
            PgMemoryContexts::For(context).leak_and_drop_on_delete(Ending { context, kept });
            kept.with(|kept| kept.0.borrow_mut().insert(context, HashMap::new()));
        }
        kept.with(|kept| {
            let mut kept = kept.0.borrow_mut();
            let alike = kept.entry(context).or_default().entry(key).or_default();
            let place = alike.iter().position(|known| **known == value).unwrap_or_else(|| {
                alike.push(Box::new(value));
                alike.len() - 1
            });
            // SAFETY: a boxed value does not move until `Ending` drops it, when the context is reset or deleted: not
            // before 'm is over.
            unsafe { &*std::ptr::from_ref::<T>(&alike[place]) }
        })
    }
}
