//! The other tables whose values a path of a table needs, by the query's join conditions.

use super::super::list::list;
use super::super::{boundary, server};
use super::document;
use super::expr::Expr;
use super::index::Index;
use super::table::{Qual, Table};
use pgrx::pg_sys;
use std::ffi::c_void;
use std::marker::PhantomData;

/// Other tables whose values a path needs.
#[derive(Clone, Copy)]
pub struct Outer<'a> {
    relids: pg_sys::Relids,
    planner: PhantomData<&'a ()>,
}

impl Outer<'_> {
    /// # Safety
    /// `relids` is a set of the planner, or NULL, which does not change for `'a`.
    pub(super) unsafe fn new(relids: pg_sys::Relids) -> Self {
        Self { relids, planner: PhantomData }
    }

    pub(super) fn raw(self) -> pg_sys::Relids {
        self.relids
    }

    pub fn is_empty(self) -> bool {
        self.relids.is_null()
    }
}

impl<'a> Table<'a> {
    /// The conditions of a path that gets the values of other tables.
    pub fn quals_with(&self, outer: Outer<'_>) -> Vec<Qual<'a>> {
        let mut quals = self.quals();
        // SAFETY: the planner makes (or finds) the struct for this set of tables.
        unsafe {
            let info = server::get_baserel_parampathinfo(self.root, self.rel, outer.raw());
            if !info.is_null() {
                quals.extend(self.usable((*info).ppi_clauses));
            }
        }
        quals
    }

    /// For each join condition that can be looked up in an index, the other tables whose values it needs. These are the
    /// query's join conditions and those implied by equalities. `is_wanted` tells whether a condition can be looked up.
    pub fn join_conditions(&self, is_wanted: &dyn Fn(&Self, Expr<'_>) -> bool) -> Vec<Outer<'a>> {
        let mut found: Vec<Outer<'a>> = Vec::new();
        // SAFETY: conditions of the planner; Relids are copied before they are changed.
        unsafe {
            for rinfo in self.joining(MemberKind::Column) {
                if !is_wanted(self, Expr::new((*rinfo).clause.cast())) {
                    continue;
                }
                let outer = pg_sys::bms_difference((*rinfo).clause_relids, self.rel().relids);
                let known = found.iter().any(|o| pg_sys::bms_equal(o.raw(), outer));
                if !outer.is_null() && !known {
                    found.push(Outer::new(outer));
                }
            }
        }
        found
    }

    /// The conditions that join the table to others, those that no index can look up included.
    pub fn join_exprs(&self) -> Vec<Expr<'a>> {
        let mut found: Vec<Expr<'a>> = Vec::new();
        for rinfo in self.joining(MemberKind::Inside) {
            // SAFETY: a condition of the planner for this table.
            let expr = unsafe {
                let is_usable = pg_sys::restriction_is_securely_promotable(rinfo, self.rel);
                is_usable.then(|| Expr::new((*rinfo).clause.cast()))
            };
            if let Some(expr) =
                expr.filter(|one| found.iter().all(|other| other.identity() != one.identity()))
            {
                found.push(expr);
            }
        }
        found
    }

    /// The conditions that join the table to others: those of the query, and those implied by equalities of such
    /// members with what other tables have.
    fn joining(&self, member: MemberKind) -> Vec<*mut pg_sys::RestrictInfo> {
        let rel = self.rel();
        if rel.joininfo.is_null() && !rel.has_eclass_joins {
            return Vec::new();
        }
        // SAFETY: lists of the planner.
        unsafe {
            let mut rinfos: Vec<*mut pg_sys::RestrictInfo> = list::<pg_sys::RestrictInfo>(rel.joininfo)
                .filter(|&rinfo| pg_sys::join_clause_is_movable_to(rinfo, self.rel))
                .collect();
            if rel.has_eclass_joins {
                for index in self.indexes() {
                    rinfos.extend(self.implied(index, member));
                }
            }
            rinfos
        }
    }

    /// # Safety
    /// `index` is one of the table's.
    unsafe fn implied(&self, index: &Index<'_>, member: MemberKind) -> Vec<*mut pg_sys::RestrictInfo> {
        let mut found = Vec::new();
        for column in 0..index.columns() {
            let mut wanted = WantedMember { table: self, index: *index, column, member, seen: Vec::new() };
            // The server stops at the first class that gives a condition: a column is in no more than one. Each part of
            // a document may be in another one.
            loop {
                // SAFETY: the callback gets a pointer to `wanted`, which outlives the call.
                let rinfos = unsafe {
                    pg_sys::generate_implied_equalities_for_column(
                        self.root,
                        self.rel,
                        Some(is_member_of_column),
                        (&raw mut wanted).cast(),
                        self.rel().lateral_referencers,
                    )
                };
                // SAFETY: a list of the planner.
                found.extend(unsafe { list::<pg_sys::RestrictInfo>(rinfos) });
                let is_only = member == MemberKind::Column && !index.has_paths(column);
                if rinfos.is_null() || is_only {
                    break;
                }
            }
        }
        found
    }

    /// The union of these sets of tables.
    pub fn union(&self, outer: &[Outer<'_>]) -> Outer<'a> {
        // SAFETY: bms_union makes a new set each time, in the planner's memory.
        unsafe {
            let none: pg_sys::Relids = std::ptr::null_mut();
            Outer::new(outer.iter().fold(none, |all, more| pg_sys::bms_union(all, more.relids)))
        }
    }

    /// Whether the set contains the table itself.
    pub fn needs_itself(&self, outer: Outer<'_>) -> bool {
        // SAFETY: a set of the planner.
        unsafe { pg_sys::bms_is_member(self.rel().relid as i32, outer.raw()) }
    }

    /// The expected number of runs of a path that needs other tables' values.
    pub fn loop_count(&self, outer: Outer<'_>) -> f64 {
        let mut least = f64::INFINITY;
        let mut member = -1;
        // SAFETY: members of a set of base relations are indexes into the planner's array; entries may be NULL.
        unsafe {
            loop {
                member = pg_sys::bms_next_member(outer.raw(), member);
                if member < 0 {
                    break;
                }
                if member >= (*self.root).simple_rel_array_size {
                    continue;
                }
                let other = *(*self.root).simple_rel_array.add(member as usize);
                if !other.is_null() && (*other).rows > 0.0 {
                    least = least.min((*other).rows);
                }
            }
        }
        if least.is_finite() { least.max(1.0) } else { 1.0 }
    }
}

/// Which members of equivalence classes are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberKind {
    /// An index's column, or a part of the documents in it: what the index can look up.
    Column,
    /// Any expression with such a column inside.
    Inside,
}

/// The members of equivalence classes that are asked for, of one column of an index.
struct WantedMember<'t, 'a> {
    table: &'t Table<'a>,
    index: Index<'a>,
    column: u16,
    member: MemberKind,
    /// The classes that had one.
    seen: Vec<*mut pg_sys::EquivalenceClass>,
}

/// Whether a member of an equivalence class is one that is asked for, and the class was not seen yet.
unsafe extern "C-unwind" fn is_member_of_column(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    class: *mut pg_sys::EquivalenceClass,
    member: *mut pg_sys::EquivalenceMember,
    wanted: *mut c_void,
) -> bool {
    boundary::callback(|| {
        // SAFETY: called from implied(), which passes a pointer to its WantedMember, and uses it after the call only.
        unsafe {
            let wanted = &mut *wanted.cast::<WantedMember<'_, '_>>();
            let WantedMember { table, index, column, seen, .. } = wanted;
            let expr = Expr::new((*member).em_expr.cast());
            let is_it = !seen.contains(&class)
                && match wanted.member {
                    MemberKind::Column => {
                        index.is_column(expr, *column) || document::is_part_of_column(expr, index, *column)
                    }
                    MemberKind::Inside => table.column_inside(index, expr) == Some(*column),
                };
            if is_it {
                seen.push(class);
            }
            is_it
        }
    })
}
