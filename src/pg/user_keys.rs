//! Operator classes that bring their own keys: support functions 4 and 5, which users write in any language.
//!
//! | function | what it does |
//! |---|---|
//! | 4 `(value) returns text[]` | the keys of a value |
//! | 5 `(query, strategy integer) returns text[]` | the keys that every value has that an operator finds |
//!
//! If the second function returns an array of one dimension, all of its keys are there. If the array has two, of each
//! row at least one is there. A NULL array demands nothing. NULL elements count for nothing, and so do rows without
//! keys.
//!
//! Both functions are code of users: they may fail, take locks and read tables. They are called as hash functions of
//! users are.

use super::datum::{self, Repr, Value};
use super::{catalog, family, server};
use pgrx::pg_sys::{self, Datum, Oid};

/// The number of the support function for keys of a value.
pub const VALUE_FUNCTION: i16 = 4;
/// The number of the support function for keys of a query.
pub const QUERY_FUNCTION: i16 = 5;

/// The function for keys of a value that a family has for a type.
pub fn value_function(family: Oid, input: Oid) -> Option<Oid> {
    family::support_function(family, input, input, VALUE_FUNCTION)
}

/// Whether a function may be support function 4 for values of a type.
pub fn has_value_signature(function: Oid, input: Oid) -> bool {
    let (result, arguments) = catalog::signature(function);
    let takes = |argument: &Oid| *argument == input || catalog::is_binary_coercible(input, *argument);
    result == pg_sys::TEXTARRAYOID && arguments.len() == 1 && arguments.iter().all(takes)
}

/// Whether a function may be support function 5 for queries of a type.
pub fn has_query_signature(function: Oid, query: Oid) -> bool {
    let (result, arguments) = catalog::signature(function);
    let &[argument, strategy] = arguments.as_slice() else { return false };
    let takes = argument == query || catalog::is_binary_coercible(query, argument);
    result == pg_sys::TEXTARRAYOID && takes && strategy == pg_sys::INT4OID
}

/// A support function, prepared for calls. The lookup lives in the memory context that was current when it was made,
/// which must outlive it.
pub struct UserFunction {
    info: Box<pg_sys::FmgrInfo>,
    collation: Oid,
    /// The memory representation of the first argument.
    repr: Repr,
}

impl UserFunction {
    /// The function for keys of a value of this type; None if there is none of the right signature.
    pub fn of_values(family: Oid, input: Oid, collation: Oid) -> Option<Self> {
        let function = value_function(family, input)?;
        has_value_signature(function, input).then(|| Self::new(function, input, collation))
    }

    /// The function for keys of a query of type `query`; None if there is none of the right signature.
    pub fn of_queries(family: Oid, input: Oid, query: Oid, collation: Oid) -> Option<Self> {
        let function = family::support_function(family, input, query, QUERY_FUNCTION)?;
        has_query_signature(function, query).then(|| Self::new(function, query, collation))
    }

    fn new(function: Oid, input: Oid, collation: Oid) -> Self {
        let mut info = Box::<pg_sys::FmgrInfo>::default();
        // SAFETY: fills info, or raises an error for a missing function.
        unsafe { pg_sys::fmgr_info(function, &mut *info) };
        Self { info, collation, repr: Repr::of_type(input) }
    }

    /// The memory representation of the values that the function takes.
    pub fn repr(&self) -> Repr {
        self.repr
    }

    /// Calls `add` with each key of a value.
    pub fn each_key(&mut self, value: Value<'_>, mut add: impl FnMut(&[u8])) {
        let Some(keys) = self.call(value, None) else { return };
        datum::each_element(keys, None, |key| {
            if let Some(key) = key {
                key.with_bytes(&mut add);
            }
        });
    }

    /// The keys that a query demands: of each element of the outer vector, one key at least. None: nothing.
    pub fn demanded(&mut self, query: Value<'_>, strategy: i32) -> Option<Vec<Vec<Vec<u8>>>> {
        let keys = self.call(query, Some(strategy))?;
        let mut rows = Vec::new();
        datum::each_row(keys, |row| {
            let keys = row.iter().flatten().map(|key| key.with_bytes(<[u8]>::to_vec));
            rows.push(keys.collect::<Vec<_>>());
        });
        rows.retain(|row| !row.is_empty());
        Some(rows)
    }

    /// Calls the function; None for NULL, which a strict function also returns for a NULL argument: there is none. The
    /// function may not free the value, or change it.
    fn call<'a>(&mut self, value: Value<'a>, strategy: Option<i32>) -> Option<Value<'a>> {
        let second = strategy.map(|number| Datum::from(number as usize));
        let arguments = [Some(value.read_only()), second];
        let count = if second.is_some() { 2 } else { 1 };
        // SAFETY: the signature was compared: a value of the function's type, and for queries an integer. The result is
        // an array of text, in the current memory context, which outlives the use here: nothing keeps it.
        unsafe {
            let arguments = arguments.iter().flatten().take(count).copied();
            let result =
                server::call_function(&mut *self.info, self.collation, &arguments.collect::<Vec<_>>())?;
            Some(Value::new(result, Repr::Varlena))
        }
    }
}
