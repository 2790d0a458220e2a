//! Comparisons of parts of jsonb documents: `column -> 'a' ->> 'b' = …`, `column #>> '{a,b}' IN (…)`,
//! `(column ->> 'n')::integer = …`, `column['a'] = …`.
//!
//! An expression is recognized by the server's function behind its operator, so that an operator of the same name does
//! not pass for it. The steps of a path must be constants.

use super::super::catalog;
use super::super::datum::{self, Repr, Value};
use super::super::list::list;
use super::expr::{Comparison, Expr};
use super::index::Index;
use crate::pg::clause::Strategy;
use pgrx::is_a;
use pgrx::pg_sys::{self, Oid};
use skip_jsonb::path::Step;

/// Documents that have a part, each with the steps from its root to the part.
type Documents<'a> = Vec<(Expr<'a>, Vec<Step>)>;

/// A part of a document that is compared with a value.
pub struct PartComparison<'a> {
    /// The documents that have the part, with the steps from the root: in `a -> 'b' ->> 'c'`, these are `a -> 'b'` and
    /// `a`. One of them may be an index column.
    pub documents: Documents<'a>,
    pub strategy: Strategy,
    /// The value, and its type; that of the elements if it is an array.
    pub key: Expr<'a>,
    pub key_type: Oid,
}

impl<'a> Comparison<'a> {
    /// The comparison as one of a part of a document on its left with a value on its right; None for any other.
    pub fn of_part(&self) -> Option<PartComparison<'a>> {
        let (strategy, documents) = part(self.left)?;
        let (_, key_type, _) = catalog::operator_types(self.operator)?;
        // SAFETY: a catalog lookup.
        let function = unsafe { pg_sys::get_opcode(self.operator) };
        let is_one_of = |oids: &[u32]| oids.iter().any(|&oid| function == Oid::from(oid));
        let is_served = match strategy {
            Strategy::TextAtPath => is_one_of(&[pg_sys::F_TEXTEQ]) && datum::is_deterministic(self.collation),
            Strategy::NumberAtPath => is_one_of(&NUMBERS_EQUAL),
            _ => is_one_of(&[pg_sys::F_JSONB_EQ, pg_sys::F_JSONB_CONTAINS]),
        };
        is_served.then_some(PartComparison { documents, strategy, key: self.right, key_type })
    }

    /// The comparison with its arguments swapped.
    pub fn turned(&self) -> Option<Self> {
        Some(Self { operator: self.commutator()?, left: self.right, right: self.left, ..*self })
    }
}

/// Equality of integers, in any combination, and of numeric.
const NUMBERS_EQUAL: [u32; 10] = [
    pg_sys::F_INT2EQ,
    pg_sys::F_INT24EQ,
    pg_sys::F_INT28EQ,
    pg_sys::F_INT42EQ,
    pg_sys::F_INT4EQ,
    pg_sys::F_INT48EQ,
    pg_sys::F_INT82EQ,
    pg_sys::F_INT84EQ,
    pg_sys::F_INT8EQ,
    pg_sys::F_NUMERIC_EQ,
];

/// The most steps to a part of a document that are followed: for each document on the way all steps are kept.
const MOST_STEPS: usize = 100;

/// Whether an expression is a part of the documents in an index column, so that a comparison with it may be served.
pub(super) fn is_part_of_column(expr: Expr<'_>, index: &Index<'_>, column: u16) -> bool {
    let is_its = |(document, _): &(Expr<'_>, Vec<Step>)| index.is_column(*document, column);
    index.has_paths(column) && part(expr).is_some_and(|(_, documents)| documents.iter().any(is_its))
}

impl Index<'_> {
    /// The name that documents in an index column have at their top if an expression, a part of them, is not NULL; None
    /// if it is no part, or if the first step to it may lead to an element of an array.
    pub fn name_within(&self, expr: Expr<'_>, column: u16) -> Option<Vec<u8>> {
        let (_, documents) = part(expr)?;
        let (_, steps) = documents.into_iter().find(|(document, _)| self.is_column(*document, column))?;
        match steps.into_iter().next()? {
            Step::Key(name) => Some(name),
            // What begins with a letter is no number.
            Step::Either(name) => name.first().is_some_and(u8::is_ascii_alphabetic).then_some(name),
            Step::Element => None,
        }
    }
}

/// What is asked about the part of a document that an expression is, and the documents with the steps to the part; None
/// if it is no part.
fn part(expr: Expr<'_>) -> Option<(Strategy, Documents<'_>)> {
    let (mut strategy, mut node) = (Strategy::DocumentAtPath, expr.raw());
    let mut documents = Documents::new();
    // SAFETY: an Expr's node lives as long as the planner's run, and so do its arguments; a node's tag tells its type.
    unsafe {
        if is_a(node, pg_sys::NodeTag::T_CoerceViaIO) {
            let cast = node.cast::<pg_sys::CoerceViaIO>();
            let numbers = [pg_sys::INT2OID, pg_sys::INT4OID, pg_sys::INT8OID, pg_sys::NUMERICOID];
            if !numbers.contains(&(*cast).resulttype) {
                return None;
            }
            (strategy, node) = (Strategy::NumberAtPath, (*cast).arg.cast());
        }
        while let Some((is_text, mut steps, document)) = step(node) {
            // The last step, which is met first, gives a text or a document, the others a document.
            let after = documents.last().map(|(_, after)| after);
            match (strategy, is_text) {
                (_, true) if after.is_some() => return None,
                (Strategy::NumberAtPath, false) if after.is_none() => return None,
                (Strategy::DocumentAtPath, true) => strategy = Strategy::TextAtPath,
                _ => {}
            }
            steps.extend(after.into_iter().flatten().cloned());
            if steps.len() > MOST_STEPS {
                return None;
            }
            documents.push((Expr::new(document), steps));
            node = document;
        }
    }
    (!documents.is_empty()).then_some((strategy, documents))
}

/// One operator, function or subscript: whether its result is a text, its steps, and the document that they begin at.
///
/// # Safety
/// A valid expression.
unsafe fn step(node: *mut pg_sys::Node) -> Option<(bool, Vec<Step>, *mut pg_sys::Node)> {
    // SAFETY: a node's tag tells its type, and its lists hold expressions.
    unsafe {
        let (function, args) = match (*node).type_ {
            pg_sys::NodeTag::T_OpExpr => {
                let operator = node.cast::<pg_sys::OpExpr>();
                (pg_sys::get_opcode((*operator).opno), (*operator).args)
            }
            pg_sys::NodeTag::T_FuncExpr => {
                let call = node.cast::<pg_sys::FuncExpr>();
                ((*call).funcid, (*call).args)
            }
            pg_sys::NodeTag::T_SubscriptingRef => return subscripts(node.cast()),
            _ => return None,
        };
        let args: Vec<*mut pg_sys::Node> = list(args).collect();
        let &[document, argument] = args.as_slice() else { return None };
        let (is_text, steps) = match function.to_u32() {
            pg_sys::F_JSONB_OBJECT_FIELD => (false, vec![Step::Key(text(argument)?)]),
            pg_sys::F_JSONB_OBJECT_FIELD_TEXT => (true, vec![Step::Key(text(argument)?)]),
            pg_sys::F_JSONB_ARRAY_ELEMENT => (false, vec![Step::Element]),
            pg_sys::F_JSONB_ARRAY_ELEMENT_TEXT => (true, vec![Step::Element]),
            pg_sys::F_JSONB_EXTRACT_PATH => (false, texts(argument)?),
            pg_sys::F_JSONB_EXTRACT_PATH_TEXT => (true, texts(argument)?),
            _ => return None,
        };
        Some((is_text, steps, document))
    }
}

/// # Safety
/// A valid expression.
unsafe fn subscripts(node: *mut pg_sys::SubscriptingRef) -> Option<(bool, Vec<Step>, *mut pg_sys::Node)> {
    // SAFETY: lists of expressions.
    unsafe {
        let is_read = (*node).refassgnexpr.is_null() && (*node).reflowerindexpr.is_null();
        if (*node).refcontainertype != pg_sys::JSONBOID || !is_read {
            return None;
        }
        let step = |subscript: *mut pg_sys::Node| match pg_sys::exprType(subscript) {
            // A number is also the name of an object's key.
            pg_sys::INT4OID => integer(subscript).map(|number| Step::Either(number.to_string().into_bytes())),
            _ => text(subscript).map(Step::Either),
        };
        let steps = list((*node).refupperindexpr).map(step).collect::<Option<_>>()?;
        Some((false, steps, (*node).refexpr.cast()))
    }
}

/// The value of a constant that is not NULL.
///
/// # Safety
/// A valid expression.
unsafe fn constant(node: *mut pg_sys::Node, kind: Oid) -> Option<pg_sys::Datum> {
    // SAFETY: a node's tag tells its type. A subscript may be NULL: the element of a slice that is left out.
    unsafe {
        if node.is_null() || !is_a(node, pg_sys::NodeTag::T_Const) {
            return None;
        }
        let node = node.cast::<pg_sys::Const>();
        (!(*node).constisnull && (*node).consttype == kind).then_some((*node).constvalue)
    }
}

/// # Safety
/// A valid expression.
unsafe fn text(node: *mut pg_sys::Node) -> Option<Vec<u8>> {
    // SAFETY: a text that is not NULL, which lives as long as the expression.
    unsafe {
        let value = constant(node, pg_sys::TEXTOID)?;
        Some(Value::new(value, Repr::Varlena).with_bytes(<[u8]>::to_vec))
    }
}

/// # Safety
/// A valid expression.
unsafe fn integer(node: *mut pg_sys::Node) -> Option<i32> {
    // SAFETY: an integer that is not NULL.
    unsafe { constant(node, pg_sys::INT4OID).map(|value| value.value() as i32) }
}

/// The elements of an array of texts, as steps; None if one is NULL.
///
/// # Safety
/// A valid expression.
unsafe fn texts(node: *mut pg_sys::Node) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    // SAFETY: an array of texts that is not NULL, which lives as long as the expression.
    unsafe {
        let array = Value::new(constant(node, pg_sys::TEXTARRAYOID)?, Repr::Varlena);
        datum::each_element(array, None, |element| {
            steps.push(element.map(|text| Step::Either(text.with_bytes(<[u8]>::to_vec))));
        })?;
    }
    steps.into_iter().collect()
}
