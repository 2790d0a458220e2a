//! Whether a column can be indexed. This is checked when the index is made, not at the first row, so that no index is
//! made that loses rows or can never be used.

use crate::hash::order::{self, NoOrderKeys};
use crate::pg::catalog::FamilyMember;
use crate::pg::key_kind::KeyKind;
use crate::pg::text_options::TextOptions;
use crate::pg::{Rel, catalog, datum, error::report, fail, relation::ColumnClass, types, user_keys};
use pgrx::pg_sys::Oid;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Raises an error for a column that cannot be indexed. `is_new` tells whether the index was not there before.
pub fn check(index: Rel, column: usize, is_new: bool) {
    let class = index.column_class(column);
    let values = types::base_type(index.column_type(column));
    check_equality(values, class, is_new);
    check_collation(values, class);
    let kind = KeyKind::of_column(index, column);
    // Bounds are not made of hashes.
    if types::is_pseudo(class.input) && kind != KeyKind::Order {
        check_parts(values, class);
        check_ranges(values);
    }
    if kind.cuts_text() {
        check_text(index, column, kind, class);
    }
    // An operator class may lack its hash function, and a hash function for any array or range does not imply one for
    // the elements.
    let hashable = match kind {
        KeyKind::Whole => {
            datum::hash_function_of(class.family, class.input).is_some()
                && (!types::is_pseudo(class.input) || catalog::extended_hash(values).is_some())
        }
        KeyKind::Elements => types::element(values).is_some() && catalog::extended_hash(values).is_some(),
        KeyKind::Paths => values == pgrx::pg_sys::JSONBOID,
        KeyKind::Lexemes => values == pgrx::pg_sys::TSVECTOROID,
        KeyKind::Users => return check_users(class),
        KeyKind::Fragments | KeyKind::Words | KeyKind::Prefix => true,
        KeyKind::Order => {
            check_order(index, column, class);
            true
        }
        KeyKind::Unknown => false,
    };
    if !hashable {
        fail(
            PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
            format!("could not identify an extended hash function for type {}", types::display_name(values)),
            Some(format!("Column \"{}\" of the index cannot be hashed.", index.column_name(column))),
            Some("Index an expression of a type that can be hashed, or use an operator class with support function 1.".into()),
        );
    }
}

/// Checks that the operator class has the type's own equality operator. For a type without an operator class the server
/// takes the class of a type with the same storage: citext, which has no class of its own, gets that of text. But its
/// `=` is not that of text: no condition on the column would ever use the index.
///
/// An index that is there keeps its class when ALTER TABLE changes the column's type to one with the same storage. It
/// is only warned of: TRUNCATE, VACUUM FULL and pg_upgrade, which build it anew, must not fail because of it.
fn check_equality(values: Oid, class: ColumnClass, is_new: bool) {
    if class.input == values || types::is_pseudo(class.input) {
        return;
    }
    let Some(equality) = types::own_equality(values) else { return };
    if catalog::is_in_family(equality, class.family) {
        return;
    }
    let (own, other) = (types::display_name(values), types::display_name(class.input));
    let cast = format!("index an expression that casts the column to {other}");
    let hint = match statement_for_class(values, equality) {
        Some(statement) => format!("{statement}; or {cast}."),
        None => format!(
            "Create an operator class for {own}, with a hash function that agrees with its operator =; or {cast}."
        ),
    };
    let message = format!("type {own} has no operator class of its own for access method \"skip\"");
    let detail = format!(
        "The operator class of type {other} does not have the operator = of type {own}: no query would use the index."
    );
    let code = PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT;
    if is_new && !catalog::is_binary_upgrade() {
        fail(code, message, Some(detail), Some(hint));
    }
    let hint = format!("Drop the index, and make another one. {hint}");
    report(PgLogLevel::WARNING, code, message, Some(detail), Some(hint));
}

/// The statement that makes an operator class for a type, if the type has an extended hash function.
fn statement_for_class(values: Oid, equality: Oid) -> Option<String> {
    let (family, input) = types::hash_class(values)?;
    let function = datum::extended_hash_of(family, input).filter(|_| input == values)?;
    Some(format!(
        "CREATE OPERATOR CLASS {}_skip_ops DEFAULT FOR TYPE {} USING skip AS OPERATOR 1 {}, FUNCTION 1 {}",
        types::qualified_name(values)?.1,
        types::display_name(values),
        catalog::operator_signature(equality),
        catalog::function_signature(function)
    ))
}

fn check_collation(values: Oid, class: ColumnClass) {
    if types::hashes_against_collation(values, class.collation) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            under_nondeterministic(values),
            Some("The type's hash function ignores the collation, so equal values would have different hashes.".into()),
            Some("Index the column cast to text.".into()),
        );
    }
}

/// Checks that an operator class that cuts text is one of a type of text, and that its pieces say something under the
/// collation.
fn check_text(index: Rel, column: usize, kind: KeyKind, class: ColumnClass) {
    if !kind.can_cut(class.input) {
        fail(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("values of type {} cannot be cut into parts", types::display_name(class.input)),
            Some("Support function 3 of the operator class is for another type.".into()),
            None,
        );
    }
    if TextOptions::of_column(index, column).is_none() {
        fail(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!(
                "the operator class of column \"{}\" does not say how text is cut",
                index.column_name(column)
            ),
            Some("Its support function 3 needs options that its support function 2 does not define.".into()),
            Some("Use the support functions 2 and 3 of the same operator class of this extension.".into()),
        );
    }
    if !datum::is_deterministic(class.collation) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            under_nondeterministic(class.input),
            Some("Under such a collation, equal texts may have no part in common: no query could use the index.".into()),
            Some("Index the column under a deterministic collation, and search under the same one.".into()),
        );
    }
}

/// Checks the function with which an operator class of users makes keys of values.
fn check_users(class: ColumnClass) {
    let function = user_keys::value_function(class.family, class.input);
    if !function.is_some_and(|function| user_keys::has_value_signature(function, class.input)) {
        let own = types::display_name(class.input);
        fail(
            PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION,
            format!("support function 4 of the operator class for type {own} has a wrong signature"),
            Some(format!("It must be a function ({own}) that returns text[].")),
            Some(
                "To see what is missing: SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = '…'.".into(),
            ),
        );
    }
}

/// Checks that the values of a column have order keys, and that these have the order of the operator class.
fn check_order(index: Rel, column: usize, class: ColumnClass) {
    let name = types::display_name(types::base_type(index.column_type(column)));
    match order::why_none(index, column) {
        None => {}
        Some(NoOrderKeys::OfType) => fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("access method \"skip\" has no bounds of values of type {name}"),
            Some("Bounds need an order of the values that can be told from their first bytes.".into()),
            Some("Index an expression of another type that has the order you search by.".into()),
        ),
        Some(NoOrderKeys::UnderCollation(collation)) => {
            let own = types::collation_name(collation).map_or_else(String::new, |(name, _)| name);
            fail(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!(
                    "access method \"skip\" has bounds of type {name} only under collations that compare bytes"
                ),
                Some(format!("Column \"{}\" of the index has collation {own}.", index.column_name(column))),
                Some("Index the column COLLATE \"C\", and compare it under the same collation.".into()),
            );
        }
    }
    // The operators of a class that users have made may have another order.
    let is_foreign = |member: &FamilyMember| !catalog::is_built_in(member.object);
    if catalog::operators(class.family).iter().any(is_foreign) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!(
                "the operator family of column \"{}\" contains user-defined operators",
                index.column_name(column)
            ),
            Some("Bounds are in the order of the server's own operators.".into()),
            Some(
                "Use an operator class of pg_skip whose operator family has no operators added to it.".into(),
            ),
        );
    }
}

/// Checks the parts that the values of an array, range or multirange type consist of.
fn check_parts(values: Oid, class: ColumnClass) {
    if types::is_hashed_with_blanks(values, class.collation) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            under_nondeterministic(values),
            Some("This version of PostgreSQL hashes the trailing blanks of character(n) in this type, but its operator = ignores them.".into()),
            Some("Index the column cast to a type of text, or upgrade PostgreSQL.".into()),
        );
    }
    if types::any_part(values, &types::is_row) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("access method \"skip\" does not support type {}, which contains rows", types::display_name(values)),
            Some("The hash of a row changes when a column is added to its type: the index would not find older rows.".into()),
            Some("Index an expression of the rows' columns, or use an operator class with a hash function of your own.".into()),
        );
    }
}

/// Checks the order of the bounds of ranges in values of a type.
fn check_ranges(values: Oid) {
    if types::has_ranges_in_users_order(values) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!(
                "access method \"skip\" does not support ranges of type {} with a user-defined order",
                types::display_name(values)
            ),
            Some("Ranges that this order finds equal may have different hashes.".into()),
            Some("Index the bounds as expressions, such as lower(column).".into()),
        );
    }
}

fn under_nondeterministic(values: Oid) -> String {
    let name = types::display_name(values);
    format!("access method \"skip\" does not support type {name} with nondeterministic collations")
}
