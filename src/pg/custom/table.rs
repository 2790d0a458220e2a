//! A table while it is planned, as Skip Index Scan paths need it.

use super::super::list::{list, oids};
use super::super::{OpenRel, Rel, catalog, lock, plan_tree, planner, server, text};
use super::expr::{Expr, Leaf};
use super::index::Index;
use crate::pg::clause::{Clause, Values};
use pgrx::{is_a, pg_sys};
use std::cell::OnceCell;
use std::marker::PhantomData;

/// A table being planned that has skip indexes.
pub struct Table<'a> {
    pub(super) root: *mut pg_sys::PlannerInfo,
    pub(super) rel: *mut pg_sys::RelOptInfo,
    oid: pg_sys::Oid,
    indexes: Vec<Index<'a>>,
    /// The indexes that were opened, each once.
    opened: Vec<OnceCell<OpenRel>>,
    planner: PhantomData<&'a ()>,
}

/// A condition that a path enforces.
#[derive(Clone, Copy)]
pub struct Qual<'a> {
    rinfo: *mut pg_sys::RestrictInfo,
    pub expr: Expr<'a>,
}

impl Qual<'_> {
    pub(super) fn raw(self) -> *mut pg_sys::RestrictInfo {
        self.rinfo
    }
}

impl<'a> Table<'a> {
    /// The table, if it can be scanned partially and has an index whose amcostestimate is `ours`.
    ///
    /// # Safety
    /// The arguments are those that PostgreSQL passes to set_rel_pathlist_hook.
    pub(super) unsafe fn new(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        rte: *mut pg_sys::RangeTblEntry,
        ours: usize,
    ) -> Option<Self> {
        // SAFETY: the planner calls the hook with its structures for the table. They, and everything that they refer
        // to, live as long as the planner's run.
        unsafe {
            let table = &*rte;
            if table.rtekind != pg_sys::RTEKind::RTE_RELATION || table.inh || !table.tablesample.is_null() {
                return None;
            }
            let is_ours = |info: &*mut pg_sys::IndexOptInfo| {
                let info = &**info;
                info.amcostestimate.is_some_and(|f| f as usize == ours)
                    && !info.hypothetical
                    && (info.indpred.is_null() || info.predOK)
            };
            let indexes: Vec<Index<'a>> = list::<pg_sys::IndexOptInfo>((*rel).indexlist)
                .filter(is_ours)
                .map(|info| Index::new(info))
                .collect();
            let is_base = matches!(
                (*rel).reloptkind,
                pg_sys::RelOptKind::RELOPT_BASEREL | pg_sys::RelOptKind::RELOPT_OTHER_MEMBER_REL
            );
            if !is_base || pg_sys::is_dummy_rel(rel) {
                return None;
            }
            // WHERE CURRENT OF must become a TID scan.
            let mut quals = list::<pg_sys::RestrictInfo>((*rel).baserestrictinfo);
            if quals.any(|rinfo| is_a((*rinfo).clause.cast(), pg_sys::NodeTag::T_CurrentOfExpr)) {
                return None;
            }
            let opened = indexes.iter().map(|_| OnceCell::new()).collect();
            Some(Self { root, rel, oid: table.relid, indexes, opened, planner: PhantomData })
        }
    }

    /// The table for planning one of its paths.
    ///
    /// # Safety
    /// As [`Table::new`], for a table that it accepted.
    pub(super) unsafe fn of_path(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        ours: usize,
    ) -> Option<Self> {
        // SAFETY: the planner makes a plan of one of its paths: `rel` is one of its base relations, and
        // simple_rte_array has an entry for each of them.
        unsafe {
            let rte = *(*root).simple_rte_array.add((*rel).relid as usize);
            Self::new(root, rel, rte, ours)
        }
    }

    /// The table of an index, with this index only.
    ///
    /// # Safety
    /// `info` is an entry of the list of indexes that the planner has for one of its base relations, and `root` the
    /// planner's state. Both live for `'a`.
    pub(in crate::pg) unsafe fn of_index(
        root: *mut pg_sys::PlannerInfo,
        info: *mut pg_sys::IndexOptInfo,
    ) -> Self {
        // SAFETY: the entry refers to its base relation, for which simple_rte_array has an entry.
        let (rel, index, oid) = unsafe {
            let rel = (*info).rel;
            let rte = *(*root).simple_rte_array.add((*rel).relid as usize);
            (rel, Index::new(info), (*rte).relid)
        };
        Self { root, rel, oid, indexes: vec![index], opened: vec![OnceCell::new()], planner: PhantomData }
    }

    pub fn oid(&self) -> pg_sys::Oid {
        self.oid
    }

    /// The name that the query has for the table.
    pub fn alias(&self) -> String {
        // SAFETY: simple_rte_array has an entry for each of the planner's base relations.
        unsafe { plan_tree::alias_of(*(*self.root).simple_rte_array.add(self.rel().relid as usize)) }
    }

    pub(in crate::pg) fn rel(&self) -> &pg_sys::RelOptInfo {
        // SAFETY: the planner's structure for the table lives for 'a. Paths are added only while nothing is borrowed
        // from it.
        unsafe { &*self.rel }
    }

    /// The table's skip indexes.
    pub fn indexes(&self) -> &[Index<'a>] {
        &self.indexes
    }

    /// All indexes of the table, of any kind, usable or not.
    pub fn all_indexes(&self) -> Vec<pg_sys::Oid> {
        let table = OpenRel::table(self.oid, lock::Mode::None);
        // SAFETY: an open table; a list of OIDs.
        unsafe { oids(pg_sys::RelationGetIndexList(table.rel().raw())) }
    }

    /// The index's name, for messages.
    pub fn name_of(index: pg_sys::Oid) -> String {
        // SAFETY: a catalog lookup that gives NULL or a palloc'd string.
        unsafe {
            let name = pg_sys::get_rel_name(index);
            text::of_server(name)
        }
    }

    /// The index's name as SQL writes it.
    pub fn quoted_name_of(index: pg_sys::Oid) -> String {
        // SAFETY: a catalog lookup that gives NULL or a palloc'd string; that is quoted where it must be.
        unsafe {
            let name = pg_sys::get_rel_name(index);
            if name.is_null() { String::new() } else { text::of_server(pg_sys::quote_identifier(name)) }
        }
    }

    /// One of the table's indexes, open as long as this table lives; None if it is hypothetical. The planner has locked
    /// it, and has read the size of its file, which does not become smaller while the index is locked.
    pub fn open_index(&self, number: usize) -> Option<Rel<'_>> {
        let index = self.indexes[number];
        let open = || OpenRel::index(index.oid(), lock::Mode::None).known_to_have(index.blocks() as u32);
        (!index.is_hypothetical()).then(|| self.opened[number].get_or_init(open).rel())
    }

    /// The table's size in blocks, as the executor will find it.
    pub fn blocks(&self) -> u32 {
        // The planner has read the size from the file system, but assumes at least ten pages for a table that was never
        // vacuumed (table_block_relation_estimate_size).
        if self.rel().pages != 10 {
            self.rel().pages
        } else {
            OpenRel::table(self.oid, lock::Mode::None).rel().blocks()
        }
    }

    /// Rows of the table, by the planner's estimate.
    pub fn rows(&self) -> f64 {
        self.rel().tuples.max(1.0)
    }

    /// The conditions on the table alone that may be enforced before others.
    pub fn quals(&self) -> Vec<Qual<'a>> {
        // SAFETY: a list of the planner, for this table.
        unsafe { self.usable(self.rel().baserestrictinfo) }
    }

    /// The conditions on the table alone that a security barrier holds back.
    pub fn held_back(&self) -> Vec<Expr<'a>> {
        let usable = self.quals();
        let is_usable = |rinfo| usable.iter().any(|qual| qual.rinfo == rinfo);
        // SAFETY: a list of the planner, for this table.
        unsafe {
            list::<pg_sys::RestrictInfo>(self.rel().baserestrictinfo)
                .filter(|&rinfo| !is_usable(rinfo) && !(*rinfo).pseudoconstant)
                .map(|rinfo| Expr::new((*rinfo).clause.cast()))
                .collect()
        }
    }

    /// The conditions of a list that may be enforced before others: those that no security barrier holds back.
    ///
    /// # Safety
    /// `rinfos` is a list of RestrictInfo that lives as long as the table.
    pub(super) unsafe fn usable(&self, rinfos: *mut pg_sys::List) -> Vec<Qual<'a>> {
        // SAFETY: the planner keeps the conditions of a table, and those it makes a plan of, as long as its run.
        unsafe {
            list::<pg_sys::RestrictInfo>(rinfos)
                .filter(|&rinfo| {
                    !(*rinfo).pseudoconstant && pg_sys::restriction_is_securely_promotable(rinfo, self.rel)
                })
                .map(|rinfo| Qual { rinfo, expr: Expr::new((*rinfo).clause.cast()) })
                .collect()
        }
    }

    /// A boolean constant.
    pub fn constant_bool(&self, value: bool) -> Expr<'a> {
        // SAFETY: a palloc'd node in the planner's memory.
        unsafe { Expr::new(pg_sys::makeBoolConst(value, false)) }
    }

    /// A constant of type text.
    pub fn constant_text(&self, value: &[u8]) -> Expr<'a> {
        // SAFETY: palloc'd nodes and values in the planner's memory; the length is that of the bytes.
        unsafe {
            let text = pg_sys::cstring_to_text_with_len(value.as_ptr().cast(), value.len() as i32);
            let (kind, collation) = (pg_sys::TEXTOID, pg_sys::DEFAULT_COLLATION_OID);
            Expr::new(pg_sys::makeConst(kind, -1, collation, -1, text.into(), false, false).cast())
        }
    }

    /// Number of different pages that repeated runs fetch, by the server's own formula.
    pub fn pages_fetched(&self, pages: f64) -> f64 {
        // SAFETY: `root` is the planner's state, which lives for 'a; the function only reads it.
        unsafe { pg_sys::index_pages_fetched(pages, self.rel().pages, 0.0, self.root) }
    }

    /// Whether the expression can be an index column: constants and parameters cannot.
    pub fn may_be_column(&self, expr: Expr<'_>) -> bool {
        // SAFETY: an Expr's node lives as long as the planner's run.
        unsafe { !is_a(expr.raw(), pg_sys::NodeTag::T_Const) && !is_a(expr.raw(), pg_sys::NodeTag::T_Param) }
    }

    /// Whether the expression can be computed without the table's own row, with the same result throughout a scan.
    pub fn is_key(&self, expr: Expr<'_>) -> bool {
        if expr.is_constant() {
            return true;
        }
        // SAFETY: an Expr's node lives as long as the planner's run, which is that of `root`.
        unsafe {
            let used = pg_sys::pull_varnos(self.root, expr.raw());
            !pg_sys::bms_is_member(self.rel().relid as i32, used)
                && !pg_sys::contain_volatile_functions(expr.raw())
                && !pg_sys::contain_subplans(expr.raw())
        }
    }

    /// The clause with the value of its key expression, if the planner may compute that for an estimate.
    pub fn known_key(&self, clause: &Leaf<'_>) -> Option<Clause<Values<'_>>> {
        let value = match clause.key.key {
            None => None,
            Some(expr) => self.constant(expr)?,
        };
        // SAFETY: the right side of an operator of the column's family; constants live as long as the planner's state.
        Some(unsafe { clause.evaluated(value) })
    }

    fn constant(&self, expr: Expr<'_>) -> Option<Option<pg_sys::Datum>> {
        // SAFETY: an Expr's node lives as long as the planner's run, which is that of `root`; stable functions are
        // evaluated too.
        unsafe { planner::constant(self.root, expr.raw()) }
    }

    /// Fraction of the table's rows that satisfy an expression, by the planner's statistics.
    pub fn selectivity(&self, expr: Expr<'_>) -> f64 {
        // SAFETY: an Expr's node, or the condition that it is, lives as long as the planner's run, which is that of
        // `root`; other tables' values count as unknown constants.
        unsafe {
            server::clause_selectivity(
                self.root,
                self.condition_of(expr).map_or_else(|| expr.raw(), |rinfo| rinfo.cast()),
                self.rel().relid as i32,
                pg_sys::JoinType::JOIN_INNER,
                std::ptr::null_mut(),
            )
        }
    }

    /// The condition on the table that an expression is the whole of. The server has mostly computed its selectivity
    /// before, and keeps it there.
    fn condition_of(&self, expr: Expr<'_>) -> Option<*mut pg_sys::RestrictInfo> {
        // SAFETY: a list of the planner, for this table.
        unsafe {
            list::<pg_sys::RestrictInfo>(self.rel().baserestrictinfo)
                .find(|&rinfo| std::ptr::eq((*rinfo).clause.cast(), expr.raw()))
        }
    }

    /// The selectivity if the key were not known, which is the average over all keys.
    pub fn selectivity_of_unknown(&self, expr: Expr<'_>, key: Expr<'_>) -> f64 {
        // SAFETY: a comparison and one of its two arguments; a copy of the comparison gets a parameter of unknown value
        // instead.
        unsafe {
            if !is_a(key.raw(), pg_sys::NodeTag::T_Const) {
                return self.selectivity(expr);
            }
            let unknown = pg_sys::palloc0(size_of::<pg_sys::Param>()).cast::<pg_sys::Param>();
            (*unknown).xpr.type_ = pg_sys::NodeTag::T_Param;
            (*unknown).paramkind = pg_sys::ParamKind::PARAM_EXEC;
            (*unknown).paramid = -1;
            (*unknown).paramtype = pg_sys::exprType(key.raw());
            (*unknown).paramtypmod = pg_sys::exprTypmod(key.raw());
            (*unknown).paramcollid = pg_sys::exprCollation(key.raw());
            (*unknown).location = -1;
            self.selectivity(expr.with_argument(key, Expr::new(unknown.cast())))
        }
    }

    /// Whether the planner was given parameters. The query is planned for their values, and the plan may be used for
    /// others.
    pub fn has_parameters(&self) -> bool {
        // SAFETY: `root` is the planner's state, which lives for 'a.
        unsafe { planner::has_parameters(self.root) }
    }

    /// Number of elements of an array, by the planner's estimate.
    pub fn array_length(&self, array: Expr<'_>) -> f64 {
        // SAFETY: an Expr's node lives as long as the planner's run, which is that of `root`.
        unsafe { planner::array_length(self.root, array.raw()) }
    }

    /// The planner's cost of checking an expression on a row.
    pub fn cost_of(&self, expr: Expr<'_>) -> f64 {
        let mut cost = pg_sys::QualCost::default();
        // SAFETY: an Expr's node lives as long as the planner's run, which is that of `root`.
        unsafe { pg_sys::cost_qual_eval_node(&mut cost, expr.raw(), self.root) };
        cost.per_tuple
    }

    /// Correlation between the order of rows and that of the column's values, -1 to 1, by the planner's statistics; 0
    /// if unknown.
    pub fn correlation(&self, attribute: i16) -> f64 {
        catalog::correlation(self.oid, attribute).unwrap_or(0.0)
    }
}
