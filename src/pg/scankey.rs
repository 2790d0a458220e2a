//! Clauses from the executor's scan keys, and from the arguments of SQL functions.

use super::clause::{Clause, Match, Strategy, Values};
use super::datum::{Repr, Value};
use super::key_kind::KeyKind;
use super::{Rel, catalog, types};
use pgrx::pg_sys::Oid;
use pgrx::{AnyElement, FromDatum, PgSqlErrorCode, pg_sys};

/// Decodes the executor's scan keys. A key with an operator of an unknown strategy, or with one that may be true for
/// NULL, rules nothing out and is left out.
///
/// # Safety
/// `keys` points to `count` scan keys of the index. Their arguments, and the current memory context, live for `'a`.
pub(super) unsafe fn decode<'a>(keys: *const pg_sys::ScanKeyData, count: usize) -> Vec<Clause<Values<'a>>> {
    // SAFETY: there are `count` keys.
    (0..count).filter_map(|i| unsafe { decode_one(&*keys.add(i)) }).collect()
}

/// # Safety
/// As [`decode`].
unsafe fn decode_one<'a>(key: &pg_sys::ScanKeyData) -> Option<Clause<Values<'a>>> {
    let flags = key.sk_flags as u32;
    let has = |flag| flags & flag != 0;
    let how = match () {
        () if has(pg_sys::SK_SEARCHNULL) => Match::IsNull,
        () if has(pg_sys::SK_SEARCHNOTNULL) => Match::IsNotNull,
        () if has(pg_sys::SK_SEARCHARRAY) => Match::Array,
        () => Match::Value,
    };
    // InvalidOid as subtype means the operator class's input type. The executor always sets it, and core's own callers
    // that do not (catalog scans) never use this access method.
    let (column, key_type) = ((key.sk_attno - 1).max(0) as u16, key.sk_subtype);
    let value = (!has(pg_sys::SK_ISNULL)).then_some(key.sk_argument);
    let strategy = match how {
        Match::IsNull | Match::IsNotNull => Strategy::Equal,
        _ if !key.sk_func.fn_strict => return None,
        _ => Strategy::of_number(key.sk_strategy.into())?,
    };
    let clause = Clause { index: 0, column, key_type, strategy, path: 0, how, key: () };
    // SAFETY: an argument of the operator's right-hand type, or an array of that type.
    Some(unsafe { clause.evaluated(value) })
}

/// The argument of an SQL function as a value that can be compared with the column. A text is read as a literal of the
/// column's type, unless the column can be compared with texts. A domain is replaced by its base type: a value that a
/// domain forbids is in no row, and the domain's checks may be code of the table's owner. A literal of a type that
/// contains a domain is refused, because reading it would run the domain's checks with the rights of the caller.
pub fn argument(index: Rel, column: u16, value: AnyElement) -> AnyElement {
    let own = index.column_type(usize::from(column));
    if value.oid() != pg_sys::TEXTOID || key_type_of(index, column, value.oid()).is_some() {
        return value;
    }
    // SAFETY: a non-null text, and the input function of the column's type, which raises an error for an invalid
    // literal.
    unsafe {
        let own = pg_sys::getBaseType(own);
        if types::contains_domain(own) {
            let name = types::display_name(own);
            super::fail(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("cannot convert a literal to type {name}, which contains a domain"),
                Some(
                    "A domain's checks are code of its owner, and would run with the rights of the caller."
                        .into(),
                ),
                Some(format!("Cast the value yourself: '…'::{name}.")),
            )
        }
        let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        pg_sys::getTypeInputInfo(own, &mut function, &mut parameter);
        let text = pg_sys::text_to_cstring(value.datum().cast_mut_ptr());
        let read = pg_sys::OidInputFunctionCall(function, text, parameter, -1);
        AnyElement::from_polymorphic_datum(read, false, own).unwrap_or(value)
    }
}

/// The type as which the operator family compares a value of type `given` with the column; None if it cannot.
fn key_type_of(index: Rel, column: u16, given: Oid) -> Option<Oid> {
    let class = index.column_class(usize::from(column));
    // A value of a type with the column's representation (varchar for text), or of a type that a polymorphic operator
    // class accepts (any enum, any array), counts as a value of the column's type.
    let own = index.column_type(usize::from(column));
    if given == own || catalog::is_binary_coercible(given, class.input) {
        return Some(class.input);
    }
    // The type itself, or one with the same representation, if the family compares the column with it.
    let members = catalog::operators(class.family);
    let strategy = KeyKind::of_class(class.family, class.input).operator() as i16;
    let right = |fits: &dyn Fn(Oid) -> bool| {
        let is_asked = |m: &&catalog::FamilyMember| m.left == class.input && m.number == strategy;
        members.iter().filter(is_asked).find(|m| fits(m.right)).map(|member| member.right)
    };
    right(&|oid| oid == given).or_else(|| right(&|oid| catalog::is_binary_coercible(given, oid)))
}

/// The clause for a value that [`argument`] returned; None stands for IS NULL. The value is looked up by the operator
/// of [`KeyKind::operator`], or the first one that the operator family has.
pub fn clause_of_argument<'a>(index: Rel, column: u16, value: Option<&'a AnyElement>) -> Clause<Values<'a>> {
    let Some(value) = value else {
        let key_type = pg_sys::InvalidOid;
        let (strategy, how) = (Strategy::Equal, Match::IsNull);
        return Clause { index: 0, column, key_type, strategy, path: 0, how, key: Vec::new() };
    };
    let given = value.oid();
    let key_type = key_type_of(index, column, given).unwrap_or(given);
    // SAFETY: pgrx made the AnyElement from a non-null argument of type `given`, and lends it for the function call.
    let value = unsafe { Value::new(value.datum(), Repr::of_type(given)) };
    let strategy = strategy_of_argument(index, column, key_type);
    Clause { index: 0, column, key_type, strategy, path: 0, how: Match::Value, key: vec![value] }
}

/// The strategy by which a value of this type is looked up.
fn strategy_of_argument(index: Rel, column: u16, key_type: Oid) -> Strategy {
    let class = index.column_class(usize::from(column));
    let usual = KeyKind::of_class(class.family, class.input).operator();
    let members = catalog::operators(class.family);
    let fits = |m: &&catalog::FamilyMember| m.left == class.input && m.right == key_type;
    let mut numbers: Vec<i16> = members.iter().filter(fits).map(|member| member.number).collect();
    numbers.sort_unstable();
    if numbers.is_empty() || numbers.contains(&(usual as i16)) {
        return usual;
    }
    numbers.into_iter().find_map(|number| Strategy::of_number(number.into())).unwrap_or(usual)
}
