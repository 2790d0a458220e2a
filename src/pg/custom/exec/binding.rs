//! Preparation of the served conditions when the node begins.
//!
//! The values of keys are in a slot of the node, which takes the place of a join's outer row. A condition's key becomes
//! a column of this slot. Therefore conditions are prepared only once, even if keys change.

use super::lists::{Check, Elements, Hash, List};
use crate::pg::list::list;
use crate::pg::{catalog, memory, server, types};
use pgrx::{is_a, pg_sys};

/// The most columns of the slot, and the most keys among which the one is searched that a condition refers to: as many
/// as a table may have columns (MaxHeapAttributeNumber). The server evaluates further keys itself, for each row.
const MOST_COLUMNS: usize = 1600;

/// A condition `left operator ANY (array)` for which the scan makes a hash table of the array's elements.
pub(in crate::pg::custom) struct HashedList {
    left: *mut pg_sys::Node,
    array: *mut pg_sys::Node,
    /// The hash functions of the two sides.
    of_left: pg_sys::Oid,
    of_element: pg_sys::Oid,
}

impl HashedList {
    /// None if the scan makes no hash table for the condition.
    ///
    /// # Safety
    /// A valid expression, while it is planned or run.
    pub(in crate::pg::custom) unsafe fn of(node: *mut pg_sys::ScalarArrayOpExpr) -> Option<Self> {
        // SAFETY: the node has two arguments, the second an array. The left side is evaluated twice, so it must be free
        // of side effects.
        unsafe {
            let mut args = list::<pg_sys::Node>((*node).args);
            let (left, array) = (args.next()?, args.next()?);
            if !(*node).useOr || is_a(array, pg_sys::NodeTag::T_Const) {
                return None; // the server has a hash table for these
            }
            let (mut of_left, mut of_element) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
            let collation = (*node).inputcollid;
            let is_hashable = pg_sys::get_op_hash_functions((*node).opno, &mut of_left, &mut of_element)
                && ![left, array].iter().any(|&side| {
                    let side = pg_sys::exprType(side.cast());
                    types::hashes_against_collation(side, collation) || types::has_ranges_in_users_order(side)
                })
                && pg_sys::op_hashjoinable((*node).opno, pg_sys::exprType(left.cast()))
                // Older minor versions do not look at what ranges are made of.
                && catalog::has_hash(pg_sys::exprType(left.cast()))
                && pg_sys::op_strict((*node).opno)
                && pg_sys::func_strict(of_left)
                && pg_sys::func_strict(of_element)
                && !pg_sys::contain_volatile_functions(left)
                && !pg_sys::contain_subplans(left);
            is_hashable.then_some(Self { left, array, of_left, of_element })
        }
    }
}

/// The slot's columns while conditions are being prepared.
pub(super) struct Binding<'k> {
    pub(super) keys: &'k [*mut pg_sys::Node],
    /// For each key its column in the slot, if a condition refers to it.
    pub(super) columns: Vec<Option<usize>>,
    /// Types of the slot's columns, with their modifiers.
    pub(super) types: Vec<(pg_sys::Oid, i32)>,
    pub(super) planstate: *mut pg_sys::PlanState,
}

impl Binding<'_> {
    /// Adds a column to the slot; returns an expression for its value. None if the slot has all the columns that it may
    /// have: the server numbers columns with 16 bits.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn column(
        &mut self,
        kind: pg_sys::Oid,
        typmod: i32,
        collation: pg_sys::Oid,
    ) -> Option<(usize, *mut pg_sys::Node)> {
        if self.types.len() >= MOST_COLUMNS {
            return None;
        }
        self.types.push((kind, typmod));
        Some((self.types.len() - 1, self.value_of(self.types.len() - 1, collation)))
    }

    pub(super) fn value_of(&self, column: usize, collation: pg_sys::Oid) -> *mut pg_sys::Node {
        let (kind, typmod) = self.types[column];
        let number = (column + 1) as i16; // at most MOST_COLUMNS
        // SAFETY: a palloc'd node.
        unsafe { pg_sys::makeVar(pg_sys::OUTER_VAR, number, kind, typmod, collation, 0).cast() }
    }

    /// The number of the key that equals an expression.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn key(&self, node: *mut pg_sys::Node) -> Option<usize> {
        memory::check_for_interrupts();
        // SAFETY: both are expressions of the plan, and are only read.
        self.keys.iter().take(MOST_COLUMNS).position(|&key| unsafe { pg_sys::equal(key.cast(), node.cast()) })
    }

    /// The replacement of an argument of a comparison: the slot column of the key that it is, unless evaluating the key
    /// is trivial.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn argument(&mut self, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
        // SAFETY: an expression of the plan; a node's tag tells its type. It is only read.
        unsafe {
            let mut plain = node;
            while is_a(plain, pg_sys::NodeTag::T_RelabelType) {
                plain = (*plain.cast::<pg_sys::RelabelType>()).arg.cast();
            }
            let is_cheap = [pg_sys::NodeTag::T_Var, pg_sys::NodeTag::T_Const, pg_sys::NodeTag::T_Param];
            if is_cheap.iter().any(|&tag| is_a(plain, tag)) {
                return node;
            }
            let Some(key) = self.key(node) else { return node };
            let collation = pg_sys::exprCollation(node);
            if let Some(column) = self.columns[key] {
                return self.value_of(column, collation);
            }
            let (kind, typmod) = (pg_sys::exprType(node), pg_sys::exprTypmod(node));
            let Some((column, value)) = self.column(kind, typmod, collation) else { return node };
            self.columns[key] = Some(column);
            value
        }
    }

    /// The condition with keys replaced by values: a new node, or the same node if there is nothing to replace.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn bound(&mut self, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
        // SAFETY: a node's tag tells its type; a copy's list of arguments is replaced as a whole.
        unsafe {
            match (*node).type_ {
                pg_sys::NodeTag::T_BoolExpr => {
                    pg_sys::check_stack_depth(); // conditions within others are not replaced
                    let args = (*node.cast::<pg_sys::BoolExpr>()).args;
                    match self.arguments(args, Self::bound) {
                        Some(args) => {
                            let copy = copy_of(node).cast::<pg_sys::BoolExpr>();
                            (*copy).args = args;
                            copy.cast()
                        }
                        None => node,
                    }
                }
                // IS DISTINCT FROM is the same struct with a different tag.
                pg_sys::NodeTag::T_OpExpr | pg_sys::NodeTag::T_DistinctExpr => {
                    let args = (*node.cast::<pg_sys::OpExpr>()).args;
                    match self.arguments(args, Self::argument) {
                        Some(args) => {
                            let copy = copy_of(node).cast::<pg_sys::OpExpr>();
                            (*copy).args = args;
                            copy.cast()
                        }
                        None => node,
                    }
                }
                pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                    let args = (*node.cast::<pg_sys::ScalarArrayOpExpr>()).args;
                    match self.arguments(args, Self::argument) {
                        Some(args) => {
                            let copy = copy_of(node).cast::<pg_sys::ScalarArrayOpExpr>();
                            (*copy).args = args;
                            copy.cast()
                        }
                        None => node,
                    }
                }
                _ => node,
            }
        }
    }

    /// A list of arguments with keys replaced; None if there is nothing to replace.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn arguments(
        &mut self,
        args: *mut pg_sys::List,
        replace: unsafe fn(&mut Self, *mut pg_sys::Node) -> *mut pg_sys::Node,
    ) -> Option<*mut pg_sys::List> {
        // Mostly there is nothing to replace, and no list is made.
        let mut new: Option<*mut pg_sys::List> = None;
        // SAFETY: the list holds expressions; its copy has the same number of them.
        unsafe {
            for (place, arg) in list::<pg_sys::Node>(args).enumerate() {
                let replaced = replace(self, arg);
                if replaced != arg {
                    let new = *new.get_or_insert_with(|| pg_sys::list_copy(args));
                    (*(*new).elements.add(place)).ptr_value = replaced.cast();
                }
            }
        }
        new
    }

    /// The check of a condition that contains a list of keys; None if the server should check the condition.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn check(&mut self, node: *mut pg_sys::Node) -> Option<Check> {
        // SAFETY: a node's tag tells its type.
        unsafe {
            if is_a(node, pg_sys::NodeTag::T_ScalarArrayOpExpr) {
                return self.list(node.cast()).map(Check::List);
            }
            if !is_a(node, pg_sys::NodeTag::T_BoolExpr) {
                return None;
            }
            pg_sys::check_stack_depth();
            let node = node.cast::<pg_sys::BoolExpr>();
            if (*node).boolop == pg_sys::BoolExprType::NOT_EXPR {
                return None; // NOT must tell unknown from false
            }
            let parts: Vec<_> = list::<pg_sys::Node>((*node).args).collect();
            let checks: Vec<_> = parts.iter().map(|&part| self.check(part)).collect();
            if checks.iter().all(Option::is_none) {
                return None;
            }
            let checks = checks.into_iter().zip(parts);
            let checks =
                checks.map(|(check, part)| check.unwrap_or_else(|| Check::Server(self.server(part))));
            let checks = checks.collect();
            let is_and = (*node).boolop == pg_sys::BoolExprType::AND_EXPR;
            Some(if is_and { Check::All(checks) } else { Check::Any(checks) })
        }
    }

    /// The state of a condition that the server checks.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn server(&mut self, node: *mut pg_sys::Node) -> *mut pg_sys::ExprState {
        // SAFETY: a list of one condition.
        unsafe {
            let bound = self.bound(node);
            server::ExecInitQual(pg_sys::lappend(std::ptr::null_mut(), bound.cast()), self.planstate)
        }
    }

    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn list(&mut self, node: *mut pg_sys::ScalarArrayOpExpr) -> Option<List> {
        // SAFETY: the node of a plan, which has two arguments, the second an array.
        unsafe {
            let HashedList { left, array, of_left, of_element } = HashedList::of(node)?;
            let key = self.key(array)?;
            let element = pg_sys::get_base_element_type(pg_sys::exprType(array));
            if element == pg_sys::InvalidOid {
                return None;
            }
            let collation = pg_sys::exprCollation(array);
            let (column, value) = self.column(element, -1, collation)?;
            let equals = pg_sys::make_opclause(
                (*node).opno,
                pg_sys::BOOLOID,
                false,
                left.cast(),
                value.cast(),
                pg_sys::InvalidOid,
                (*node).inputcollid,
            );
            (*equals.cast::<pg_sys::OpExpr>()).opfuncid = (*node).opfuncid;
            Some(List {
                key,
                left: server::ExecInitExpr(left.cast(), self.planstate),
                left_hash: Hash::new(of_left, (*node).inputcollid),
                element_hash: Hash::new(of_element, (*node).inputcollid),
                equals: server::ExecInitQual(
                    pg_sys::lappend(std::ptr::null_mut(), equals.cast()),
                    self.planstate,
                ),
                column,
                whole: self.server(node.cast()),
                elements: Elements::Unknown,
            })
        }
    }

    /// The slot for the values, all of them NULL at first; NULL if no condition refers to a value.
    ///
    /// # Safety
    /// As [`Served::new`].
    pub(super) unsafe fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        if self.types.is_empty() {
            return std::ptr::null_mut();
        }
        // SAFETY: the descriptor has one column for each type; the slot lives in the query's memory and pins nothing.
        unsafe {
            let desc = pg_sys::CreateTemplateTupleDesc(self.types.len() as i32);
            for (number, &(kind, typmod)) in (1..).zip(&self.types) {
                pg_sys::TupleDescInitEntry(desc, number, std::ptr::null(), kind, typmod, 0);
            }
            let slot = pg_sys::MakeSingleTupleTableSlot(desc, &raw const pg_sys::TTSOpsVirtual);
            for column in 0..self.types.len() {
                *(*slot).tts_values.add(column) = pg_sys::Datum::null();
                *(*slot).tts_isnull.add(column) = true;
            }
            pg_sys::ExecStoreVirtualTuple(slot)
        }
    }
}

/// # Safety
/// A valid node.
unsafe fn copy_of(node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: a node of the plan, which the copy does not change.
    unsafe { pg_sys::copyObjectImpl(node.cast_const().cast()).cast() }
}
