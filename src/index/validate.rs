//! amvalidate: whether an operator class has what the access method needs.
//!
//! - strategy 1, a search operator `(left, right) returns boolean`, for the class's own type at least;
//! - support 1, `(type, bigint) returns bigint`, for every type on either side of an operator: without it a key
//!   of that type could not be hashed;
//! - support 2, optional: `(internal) returns void`;
//! - support 3, optional: `(internal) returns integer`. It names the way in which a value becomes several keys. Then
//!   the class may have operators of other strategies, and needs no support 1;
//! - support 4, instead of 3: `(type) returns text[]`, and support 5, `(query type, integer) returns text[]`, for the
//!   type on the right of every operator: users' own keys, likewise.
//!
//! Problems are reported as INFO, as core's access methods do.

use crate::pg::catalog::{self, FamilyMember};
use crate::pg::clause::Strategy;
use crate::pg::error::report;
use crate::pg::key_kind;
use crate::pg::operator_class::{self, OperatorClass};
use crate::pg::types;
use crate::pg::user_keys;
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys};
use std::collections::BTreeSet;

const EQUAL: i16 = Strategy::Equal as i16;
const HASH: i16 = 1;
const OPTIONS: i16 = 2;
const KEYS: i16 = key_kind::NUMBER;
const VALUE: i16 = user_keys::VALUE_FUNCTION;
const QUERY: i16 = user_keys::QUERY_FUNCTION;

/// Checks an operator class and its family.
pub fn validate(class: pg_sys::Oid) -> bool {
    let Some(class) = operator_class::by_oid(class) else { return false };
    let (operators, functions) = (catalog::operators(class.family), catalog::functions(class.family));
    let mut sound = true;
    let mut complain = |problem: String| {
        sound = false;
        let message = format!("operator class \"{}\" of access method skip {problem}", class.name);
        report(PgLogLevel::INFO, PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION, message, None, None);
    };
    functions.iter().for_each(|function| check_function(function, &mut complain));
    let has_keys = functions.iter().any(|function| [KEYS, VALUE].contains(&function.number));
    operators.iter().for_each(|operator| check_operator(operator, has_keys, &mut complain));
    check_complete(&class, &operators, &functions, &mut complain);
    sound
}

fn check_function(function: &FamilyMember, complain: &mut impl FnMut(String)) {
    let (result, arguments) = catalog::signature(function.object);
    let is_valid = match function.number {
        HASH => {
            let takes = |argument: &pg_sys::Oid| accepts(*argument, function.left);
            result == pg_sys::INT8OID
                && arguments.len() == 2
                && arguments.first().is_some_and(takes)
                && arguments.get(1) == Some(&pg_sys::INT8OID)
        }
        KEYS => key_kind::has_right_signature(function.object),
        VALUE => user_keys::has_value_signature(function.object, function.left),
        QUERY => user_keys::has_query_signature(function.object, function.right),
        OPTIONS => result == pg_sys::VOIDOID && arguments == [pg_sys::INTERNALOID],
        _ => return complain(format!("has a support function with invalid number {}", function.number)),
    };
    if !is_valid {
        complain(format!("has support function {} with a wrong signature", function.number));
    }
    if function.left != function.right && function.number != QUERY {
        complain(format!("has support function {} for two different types", function.number));
    }
}

/// Whether a function's argument takes values of a type: its type is the same, one with the same storage, or a
/// polymorphic one. Core's hash functions of a few types are declared for a wider type (date's for integer).
fn accepts(argument: pg_sys::Oid, input: pg_sys::Oid) -> bool {
    argument == input || catalog::is_binary_coercible(input, argument) || is_core_stand_in(argument, input)
}

/// As in core's hashvalidate: hash functions that serve a type of the same representation.
fn is_core_stand_in(argument: pg_sys::Oid, input: pg_sys::Oid) -> bool {
    matches!(
        (argument, input),
        (pg_sys::INT4OID, pg_sys::DATEOID | pg_sys::XIDOID | pg_sys::CIDOID)
            | (pg_sys::INT8OID, pg_sys::XID8OID | pg_sys::TIMESTAMPTZOID | pg_sys::TIMESTAMPOID)
            | (pg_sys::TIMESTAMPOID, pg_sys::TIMESTAMPTZOID)
            | (pg_sys::CHAROID, pg_sys::BOOLOID)
            | (pg_sys::INTERNALOID, pg_sys::BYTEAOID)
    )
}

fn check_operator(operator: &FamilyMember, has_keys: bool, complain: &mut impl FnMut(String)) {
    let is_known =
        operator.number == EQUAL || has_keys && (EQUAL..=Strategy::MOST).contains(&operator.number);
    if !is_known {
        complain(format!("has an operator with invalid strategy number {}", operator.number));
    }
    if !operator.is_search {
        complain("has an ordering operator, which is not supported".into());
    }
    let types = catalog::operator_types(operator.object);
    if types != Some((operator.left, operator.right, pg_sys::BOOLOID)) {
        let (left, right) = (types::display_name(operator.left), types::display_name(operator.right));
        complain(format!("has an operator with a wrong signature for types {left} and {right}"));
    }
}

fn check_complete(
    class: &OperatorClass,
    operators: &[FamilyMember],
    functions: &[FamilyMember],
    complain: &mut impl FnMut(String),
) {
    let has = |number| {
        move |f: &FamilyMember| f.number == number && f.left == class.input && f.right == class.input
    };
    if functions.iter().any(has(VALUE)) {
        for operator in operators.iter().filter(|operator| operator.left == class.input) {
            let right = operator.right;
            if !functions.iter().any(|f| f.number == QUERY && f.left == class.input && f.right == right) {
                complain(format!(
                    "lacks support function {QUERY} for queries of type {}",
                    types::display_name(right)
                ));
            }
        }
    }
    if functions.iter().any(has(KEYS)) || functions.iter().any(has(VALUE)) {
        if !operators.iter().any(|o| o.left == class.input) {
            complain(format!("lacks an operator for type {}", types::display_name(class.input)));
        }
        return;
    }
    if !operators.iter().any(|o| o.left == class.input && o.right == class.input) {
        complain(format!("lacks its operator for type {}", types::display_name(class.input)));
    }
    let mut types: BTreeSet<u32> =
        operators.iter().flat_map(|o| [o.left.to_u32(), o.right.to_u32()]).collect();
    types.insert(class.input.to_u32());
    for oid in types.into_iter().map(pg_sys::Oid::from) {
        if !functions.iter().any(|f| f.number == HASH && f.left == oid && f.right == oid) {
            complain(format!("lacks the hash function of type {}", types::display_name(oid)));
        }
    }
}
