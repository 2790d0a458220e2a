//! Descriptions of conditions for messages: their text, their columns and their operators.

use super::expr::{Comparison, Expr, ExprKind};
use super::index::Index;
use super::table::Table;
use crate::pg::list::list;
use crate::pg::text::of_server;
use crate::pg::{OpenRel, boundary, catalog, compat, lock, operator_class, relation, server, types};
use pgrx::{is_a, pg_sys};
use std::ffi::c_void;

impl Table<'_> {
    /// Names of the table's columns in an expression, in order.
    pub fn columns_of(&self, expr: Expr<'_>) -> Vec<String> {
        let table = self.oid();
        let name = |number: i16| {
            // SAFETY: a catalog lookup that returns NULL for a missing column.
            unsafe { of_server(pg_sys::get_attname(table, number, true)) }
        };
        self.attributes_of(expr).into_iter().map(name).collect()
    }

    /// A condition as SQL, with names of tables if it joins the table to others; the names of the table's columns if it
    /// has no form in SQL at this stage of planning.
    pub fn condition_text(&self, expr: Expr<'_>) -> String {
        // SAFETY: a valid expression of this planner run. The copy is written as SQL in the context of the tables of
        // the query; the server gives all variables that the copy has, or a node that it cannot write.
        unsafe {
            let mut has_unnamed_fields = false;
            let copy = writable(expr.raw(), (&raw mut has_unnamed_fields).cast());
            let kinds = pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_INCLUDE_WINDOWFUNCS;
            let inside: Vec<_> = list::<pg_sys::Node>(pg_sys::pull_var_clause(copy, kinds as i32)).collect();
            if has_unnamed_fields || inside.iter().any(|&node| !is_a(node, pg_sys::NodeTag::T_Var)) {
                return self.columns_of(expr).join(", ");
            }
            let of_others =
                |&node: &*mut pg_sys::Node| (*node.cast::<pg_sys::Var>()).varno as u32 != self.rel().relid;
            let (tables, used) = ((*(*self.root).parse).rtable, pg_sys::pull_varnos(self.root, copy));
            let mut plan = pg_sys::PlannedStmt { rtable: tables, ..Default::default() };
            plan.type_ = pg_sys::NodeTag::T_PlannedStmt;
            let names = pg_sys::select_rtable_names_for_explain(tables, used);
            let context = pg_sys::deparse_context_for_plan_tree(&mut plan, names);
            let has_names = inside.iter().any(of_others);
            of_server(pg_sys::deparse_expression(copy, context, has_names, false))
        }
    }

    /// As [`Table::condition_text`], of a comparison with its sides swapped; None if it is none, or cannot be swapped.
    pub fn swapped_text(&self, expr: Expr<'_>) -> Option<String> {
        // SAFETY: a node's tag tells its type; only the copy is changed, and it has a commutator.
        unsafe {
            if !is_a(expr.raw(), pg_sys::NodeTag::T_OpExpr) {
                return None;
            }
            let ExprKind::Operator(comparison) = expr.kind() else { return None };
            comparison.commutator()?;
            let copy: *mut pg_sys::OpExpr = pg_sys::copyObjectImpl(expr.raw().cast_const().cast()).cast();
            pg_sys::CommuteOpExpr(copy);
            Some(self.condition_text(Expr::new(copy.cast())))
        }
    }

    fn attributes_of(&self, expr: Expr<'_>) -> Vec<i16> {
        let mut found = Vec::new();
        // SAFETY: a valid expression. The members of the set are attribute numbers plus an offset, so that none is
        // negative.
        unsafe {
            let mut set = std::ptr::null_mut();
            pg_sys::pull_varattnos(expr.raw(), self.rel().relid, &mut set);
            let mut member = -1;
            loop {
                member = pg_sys::bms_next_member(set, member);
                if member < 0 {
                    return found;
                }
                found.push((member + pg_sys::FirstLowInvalidHeapAttributeNumber) as i16);
            }
        }
    }

    /// The index column that an expression contains.
    pub fn column_inside(&self, index: &Index<'_>, expr: Expr<'_>) -> Option<u16> {
        let inside = self.attributes_of(expr);
        (0..index.columns()).find(|&c| index.attribute(c).is_some_and(|number| inside.contains(&number)))
    }

    /// The name of an index column, for messages.
    pub fn index_column_name(&self, index: &Index<'_>, column: u16) -> String {
        OpenRel::index(index.oid(), lock::Mode::None).rel().column_name(usize::from(column))
    }

    /// The skip indexes of the table, usable or not.
    pub fn skip_indexes(&self) -> Vec<pg_sys::Oid> {
        let method = catalog::access_method_oid("skip");
        let is_skip = |&index: &pg_sys::Oid| relation::kind_and_method(index).map(|(_, of, _)| of) == method;
        self.all_indexes().into_iter().filter(is_skip).collect()
    }

    /// The reason why the planner may not use an index of the table; None if it may.
    pub fn why_unusable(&self, index: pg_sys::Oid) -> Option<&'static str> {
        if self.indexes().iter().any(|usable| usable.oid() == index) {
            return None;
        }
        // SAFETY: an index of the table, which is locked; it is closed again below.
        unsafe {
            let guard = OpenRel::index(index, lock::Mode::AccessShare);
            let open = guard.rel();
            if catalog::access_method_oid("skip") != Some((*(*open.raw()).rd_rel).relam) {
                return Some("The index is not a skip index.");
            }
            if !open.is_valid_index() {
                return Some(
                    "The index is not valid: CREATE INDEX CONCURRENTLY has not finished, or has failed.",
                );
            }
            if !server::RelationGetIndexPredicate(open.raw()).is_null() {
                return Some("The index is partial, and the query's conditions do not imply its predicate.");
            }
        }
        Some(
            "pg_skip.ignore_indexes also names the index, or the index is newer than the transaction's snapshot.",
        )
    }
}

/// A copy of an expression that the server can write as SQL without a plan: variables have the names of their tables'
/// columns, parameters are numbers, and what an outer join may replace by NULL is the expression itself.
///
/// # Safety
/// A valid expression, or NULL. The context points to a `bool`, which becomes true if there is a field of a record
/// whose type only the plan tells.
unsafe extern "C-unwind" fn writable(node: *mut pg_sys::Node, context: *mut c_void) -> *mut pg_sys::Node {
    boundary::callback(|| {
        // SAFETY: as the caller says; a node's tag tells its type. Only copies are changed.
        unsafe {
            if node.is_null() {
                return node;
            }
            match (*node).type_ {
                pg_sys::NodeTag::T_Var => {
                    let copy: *mut pg_sys::Var = pg_sys::copyObjectImpl(node.cast_const().cast()).cast();
                    ((*copy).varnosyn, (*copy).varattnosyn) = (0, 0);
                    copy.cast()
                }
                // The server looks for the plan that computes the value.
                pg_sys::NodeTag::T_Param => {
                    let copy: *mut pg_sys::Param = pg_sys::copyObjectImpl(node.cast_const().cast()).cast();
                    (*copy).paramkind = pg_sys::ParamKind::PARAM_EXTERN;
                    copy.cast()
                }
                pg_sys::NodeTag::T_FieldSelect
                    if pg_sys::exprType((*node.cast::<pg_sys::FieldSelect>()).arg.cast())
                        == pg_sys::RECORDOID =>
                {
                    *context.cast::<bool>() = true;
                    node
                }
                pg_sys::NodeTag::T_PlaceHolderVar => {
                    let inner = (*node.cast::<pg_sys::PlaceHolderVar>()).phexpr;
                    writable(inner.cast(), context)
                }
                _ => compat::mutated(node, writable, context),
            }
        }
    })
}

/// The operator classes of skip indexes that have an operator, in words; None if there are none.
pub fn classes_with(operator: pg_sys::Oid) -> Option<String> {
    let classes = operator_class::with_operator(operator, catalog::access_method_oid("skip")?);
    let (last, others) = classes.split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} or {last}", others.join(", ")) })
}

impl Comparison<'_> {
    /// The operator with its types, in the format of regoperator.
    pub fn operator_text(&self) -> String {
        // SAFETY: a catalog lookup; a palloc'd string.
        unsafe { of_server(pg_sys::format_operator(self.operator)) }
    }

    /// The operator classes of skip indexes that have the operator, in words; None if there are none.
    pub fn classes_text(&self) -> Option<String> {
        classes_with(self.operator)
    }

    /// Whether the operator's name is `=`.
    pub fn is_called_equal(&self) -> bool {
        // SAFETY: a catalog lookup; NULL or a palloc'd string.
        unsafe { of_server(pg_sys::get_opname(self.operator)) == "=" }
    }

    /// The collation's name.
    pub fn collation_text(&self) -> String {
        collation_text(self.collation)
    }
}

impl Index<'_> {
    /// The name of a column's collation.
    pub fn collation_text(&self, column: u16) -> String {
        collation_text(self.collation(column))
    }

    /// The name of a column's type, for a cast.
    pub fn type_text(&self, column: u16) -> String {
        types::display_name(self.input_type(column))
    }
}

impl Expr<'_> {
    /// If the server itself has cast an expression, because of the type of what it is compared with: the type to which
    /// it was cast.
    pub fn implicit_cast(self) -> Option<String> {
        // SAFETY: a node's tag tells its type.
        let form = unsafe {
            match (*self.raw()).type_ {
                pg_sys::NodeTag::T_FuncExpr => (*self.raw().cast::<pg_sys::FuncExpr>()).funcformat,
                pg_sys::NodeTag::T_RelabelType => (*self.raw().cast::<pg_sys::RelabelType>()).relabelformat,
                pg_sys::NodeTag::T_CoerceViaIO => (*self.raw().cast::<pg_sys::CoerceViaIO>()).coerceformat,
                _ => return None,
            }
        };
        let is_implicit = form == pg_sys::CoercionForm::COERCE_IMPLICIT_CAST;
        is_implicit.then(|| types::display_name(self.type_of()))
    }
}

fn collation_text(collation: pg_sys::Oid) -> String {
    // SAFETY: a catalog lookup; NULL or a palloc'd string.
    unsafe { of_server(pg_sys::get_collation_name(collation)) }
}
