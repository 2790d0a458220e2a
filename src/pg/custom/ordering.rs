//! `ORDER BY`: the order that a query wants of a table, and an index column whose bounds can give it.
//!
//! Bounds are bounds of order keys, and these have the order of the default btree operator class of the column's type
//! ([`skip_bounds::order`]). So a query's order is that of the bounds if its operator family is the one of that class
//! and, for strings, its collation is that of the index column.

use super::super::datum::Value;
use super::super::list::list;
use super::super::{Rel, compat, types};
use super::index::Index;
use super::table::Table;
use crate::pg::key_kind::KeyKind;
use pgrx::pg_sys;
use skip_bounds::Bounds;
use skip_bounds::ordered::SortOrder;
use std::ops::Range;

/// The number of the function of a btree operator class that compares two values (BTORDER_PROC).
const COMPARE: i16 = 1;

/// Tells whether a range, or one of several, is to be read.
pub type IsWanted<'w> = &'w dyn Fn(&Range<u32>) -> bool;
/// Finds out the bounds of the ranges of a group in the index, of those that are to be read.
type RangesOf = dyn Fn(Rel<'_>, u32, IsWanted<'_>) -> Vec<(u32, Bounds)>;

/// What an index column knows of the order of a table's rows.
pub struct OrderedColumn {
    /// The bounds of groups of ranges, by the numbers of the groups.
    pub groups: Vec<Bounds>,
    /// The bounds of a part of what some ranges hold, beside the bounds that their groups have of them.
    pub delta_bounds: Vec<(u32, Bounds)>,
    /// The bounds of those ranges of a group that are to be read, with their numbers. A range may be in several groups.
    pub ranges_of: Box<RangesOf>,
    /// Heap blocks per range.
    pub pages_per_range: u32,
    /// Whether values with the same order key are equal.
    pub is_exact: bool,
    /// The order key of a value; None if it is damaged.
    pub key: Box<dyn Fn(Value<'_>) -> Option<u64>>,
}

/// The order in which a plan returns the rows of a table: that of one of its columns.
#[derive(Clone, Copy)]
pub(super) struct SortColumn {
    /// The index with the bounds, and its column (0-based).
    pub index: pg_sys::Oid,
    pub column: u16,
    /// The number of the table's column.
    pub attribute: i16,
    /// The operator by which the server would sort: `<`, or `>` if the order descends.
    pub operator: pg_sys::Oid,
    /// The function that compares two values, as a btree does.
    pub compare: pg_sys::Oid,
    pub collation: pg_sys::Oid,
    pub descends: bool,
    pub nulls_first: bool,
}

impl SortColumn {
    /// As a list of integers.
    pub fn encode(&self) -> [i32; 8] {
        let oid = |oid: pg_sys::Oid| oid.to_u32().cast_signed();
        [
            oid(self.index),
            self.column.into(),
            self.attribute.into(),
            oid(self.operator),
            oid(self.compare),
            oid(self.collation),
            self.descends.into(),
            self.nulls_first.into(),
        ]
    }

    /// From a list of integers; None if the list is empty.
    pub fn decode(numbers: &[i32]) -> Option<Self> {
        let &[index, column, attribute, operator, compare, collation, descends, nulls_first] = numbers else {
            return None;
        };
        let oid = |number: i32| pg_sys::Oid::from(number.cast_unsigned());
        Some(Self {
            index: oid(index),
            column: u16::try_from(column).ok()?,
            attribute: i16::try_from(attribute).ok()?,
            operator: oid(operator),
            compare: oid(compare),
            collation: oid(collation),
            descends: descends != 0,
            nulls_first: nulls_first != 0,
        })
    }

    /// The order, for keys that are exact or not.
    pub fn order(&self, is_exact: bool) -> SortOrder {
        SortOrder { descends: self.descends, nulls_first: self.nulls_first, is_exact }
    }
}

/// The order that a query wants, which a column of an index can give.
#[derive(Clone, Copy)]
pub struct WantedOrder {
    /// The number of the index among the table's indexes, and its column (0-based).
    pub index: usize,
    pub column: u16,
    pub(super) sort: SortColumn,
    pub(super) pathkey: *mut pg_sys::PathKey,
}

/// Why an index column cannot give an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOrder {
    /// The index keeps no bounds of the column; operator classes with this operator would.
    HasNoBounds(pg_sys::Oid),
    /// The bounds are in another order.
    IsOther,
    /// The bounds are those of an enum, and do not tell the place of all labels.
    IsOfLabels,
    /// The index is partial, and the scan returns rows that it leaves out.
    LeavesRowsOut,
}

impl WantedOrder {
    /// The order, for keys that are exact or not.
    pub fn order(&self, is_exact: bool) -> SortOrder {
        self.sort.order(is_exact)
    }
}

impl Table<'_> {
    /// Whether the query wants an order.
    pub fn wants_order(&self) -> bool {
        // SAFETY: the planner's state, which lives for 'a.
        unsafe { !(*self.root).query_pathkeys.is_null() }
    }

    /// The order that the query wants, from each index column whose bounds may have it. If the query sorts by several
    /// expressions, it is the order of the first. `order` has the numbers of the table's indexes, preferred ones first.
    pub fn wanted_orders<'t>(&'t self, order: &'t [usize]) -> impl Iterator<Item = WantedOrder> + 't {
        // SAFETY: the planner's state, which lives for 'a. Its sort keys are canonical when paths are made.
        let pathkey = unsafe { list::<pg_sys::PathKey>((*self.root).query_pathkeys).next() };
        pathkey.into_iter().flat_map(move |pathkey| {
            order.iter().flat_map(move |&number| {
                let index = self.indexes()[number];
                let has_bounds =
                    (0..index.columns()).filter(move |&column| index.kind(column) == KeyKind::Order);
                // SAFETY: the sort key is one of the planner's.
                has_bounds.filter_map(move |column| unsafe { self.order_of(pathkey, number, column)?.ok() })
            })
        })
    }

    /// What the query sorts by, as SQL writes it, and whether an index column can give that order; None if the query
    /// does not sort by the column in the first place.
    pub fn sorted_by(&self, number: usize, column: u16) -> Option<(String, Result<WantedOrder, NoOrder>)> {
        // SAFETY: as for wanted_orders().
        unsafe {
            let pathkey = list::<pg_sys::PathKey>((*self.root).sort_pathkeys).next()?;
            let found = self.order_of(pathkey, number, column)?;
            let (descends, nulls_first) = (compat::descends(&*pathkey), (*pathkey).pk_nulls_first);
            let direction = if descends { " DESC" } else { "" };
            let nulls = match nulls_first {
                first if first == descends => "",
                true => " NULLS FIRST",
                false => " NULLS LAST",
            };
            let name = self.index_column_name(&self.indexes()[number], column);
            Some((format!("ORDER BY {name}{direction}{nulls}"), found))
        }
    }

    /// Whether an index column can give the order of a sort key; None if that is not the order of the column.
    ///
    /// # Safety
    /// `pathkey` is one of the planner's.
    unsafe fn order_of(
        &self,
        pathkey: *mut pg_sys::PathKey,
        number: usize,
        column: u16,
    ) -> Option<Result<WantedOrder, NoOrder>> {
        let index = self.indexes()[number];
        let attribute = index.attribute(column)?;
        // SAFETY: a sort key refers to its class, whose members are expressions of the query. The variable is made in
        // the planner's memory.
        unsafe {
            let class = (*pathkey).pk_eclass;
            let family = (*pathkey).pk_opfamily;
            let variable = self.variable(attribute);
            let member = pg_sys::find_ec_member_matching_expr(class, variable.cast(), self.rel().relids);
            let of = member.as_ref()?.em_datatype;
            let descends = compat::descends(&*pathkey);
            let strategy =
                if descends { pg_sys::BTGreaterStrategyNumber } else { pg_sys::BTLessStrategyNumber };
            let operator = pg_sys::get_opfamily_member(family, of, of, strategy as i16);
            let compare = pg_sys::get_opfamily_proc(family, of, of, COMPARE);
            if index.kind(column) != KeyKind::Order {
                return Some(Err(NoOrder::HasNoBounds(operator)));
            }
            if types::btree_family(index.input_type(column)) != Some(family)
                || !index.has_collation(column, (*class).ec_collation)
                || operator == pg_sys::InvalidOid
                || compare == pg_sys::InvalidOid
            {
                return Some(Err(NoOrder::IsOther));
            }
            if index.input_type(column) == pg_sys::ANYENUMOID {
                return Some(Err(NoOrder::IsOfLabels));
            }
            if !self.has_all_rows(&index) {
                return Some(Err(NoOrder::LeavesRowsOut));
            }
            let sort = SortColumn {
                index: index.oid(),
                column,
                attribute,
                operator,
                compare,
                collation: (*class).ec_collation,
                descends,
                nulls_first: (*pathkey).pk_nulls_first,
            };
            Some(Ok(WantedOrder { index: number, column, sort, pathkey }))
        }
    }

    /// Whether an index has all rows that a scan of the table returns. Rows that a partial index leaves out are not
    /// within the bounds, but in the ranges. The server counts an index as usable also where a join's condition implies
    /// its predicate: such rows would be returned out of order.
    fn has_all_rows(&self, index: &Index<'_>) -> bool {
        // SAFETY: lists of the planner, which the function only reads.
        unsafe {
            let predicate = (*index.raw()).indpred;
            predicate.is_null() || pg_sys::predicate_implied_by(predicate, self.rel().baserestrictinfo, false)
        }
    }

    /// A variable for a column of the table.
    fn variable(&self, attribute: i16) -> *mut pg_sys::Var {
        let (mut kind, mut modifier, mut collation) = (pg_sys::InvalidOid, 0, pg_sys::InvalidOid);
        // SAFETY: a catalog lookup, and a palloc'd node.
        unsafe {
            pg_sys::get_atttypetypmodcoll(self.oid(), attribute, &mut kind, &mut modifier, &mut collation);
            pg_sys::makeVar(self.rel().relid as _, attribute, kind, modifier, collation, 0)
        }
    }

    /// The rows of this table after which the query probably ends; None if it may need all.
    pub fn rows_wanted(&self) -> Option<f64> {
        // SAFETY: the planner's state, which lives for 'a; a set of relations, which is complete before paths are made.
        unsafe {
            let root = &*self.root;
            let is_alone = pg_sys::bms_membership(root.all_baserels) == pg_sys::BMS_Membership::BMS_SINGLETON;
            (root.limit_tuples > 0.0).then_some(if is_alone { root.limit_tuples } else { 1.0 })
        }
    }

    /// Number of pages that must be read again to fetch this number of rows, if `window` blocks of the table are read
    /// between the time when a row is read and the time when it is fetched: none, if these blocks stay in memory.
    pub fn pages_fetched_again(&self, window: f64, rows: f64) -> f64 {
        // SAFETY: a plain global.
        let stays = unsafe { window <= f64::from(pg_sys::NBuffers) / 4.0 };
        if stays { 0.0 } else { self.pages_fetched(rows) }
    }

    /// Rows that the table's own conditions leave, by the planner's estimate.
    pub fn rows_left(&self) -> f64 {
        self.rel().rows.max(1.0)
    }
}
