//! The session's settings `pg_skip.*`, and the lists of indexes in two of them.

use super::error::report;
use super::options::IndexLayout;
use super::{boundary, catalog, relation, text};
use pgrx::{
    GucContext, GucFlags, GucRegistry, GucSetting, PgLogLevel, PgSqlErrorCode, PostgresGucEnum, pg_sys,
};
use skip_scan::names::IndexNames;
use std::ffi::{CString, c_char, c_void};
use std::sync::Once;

/// Default of `pg_skip.plan_probe_pages`: enough for some 100 keys in one wide segment, which take a millisecond or
/// two.
const PLAN_PROBE_PAGES: i32 = 2048;

/// Default of `pg_skip.merge_pages`: the module `pages::upkeep::growth` has the measurements.
const MERGE_PAGES: i32 = 32;

/// Default of `pg_skip.key_part_pages`. A map of this number of pages has one page of fences, and leaves half a page
/// unused at its end: a twentieth of its size. From 64 times this number of pages on, parts grow with the map. With
/// 128, an index of less than ten million rows has so few parts that it took up to 1.6 times the size of a new one
/// while it grew, with 32 up to 1.3.
const KEY_PART_PAGES: i32 = 32;

/// Default of `pg_skip.max_workers`, as that of autovacuum_max_workers. The server has 8 processes for all background
/// workers by default, those of parallel queries included.
const MAX_WORKERS: i32 = 3;

/// Largest value of `pg_skip.max_workers`: an insert that starts a worker looks for a free place among this number of
/// them.
const MOST_PLACES: i32 = 64;

static ENABLE_SCAN: GucSetting<bool> = GucSetting::<bool>::new(true);
static ENABLE_DISTINCT: GucSetting<bool> = GucSetting::<bool>::new(true);
static PROBE_PAGES: GucSetting<i32> = GucSetting::<i32>::new(PLAN_PROBE_PAGES);
static MERGE_PAGE_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(MERGE_PAGES);
static KEY_PART_PAGE_NUMBER: GucSetting<i32> = GucSetting::<i32>::new(KEY_PART_PAGES);
static VACUUM_REBUILD_PAGES: GucSetting<i32> = GucSetting::<i32>::new(-1);
static MOST_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(MAX_WORKERS);
static DEFAULT_LAYOUT: GucSetting<DefaultLayout> = GucSetting::<DefaultLayout>::new(DefaultLayout::Auto);
static FORCE_INDEXES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static IGNORE_INDEXES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static REGISTERED: Once = Once::new();

/// Defines the settings; called once per process, when the library is loaded.
pub fn register() {
    REGISTERED.call_once(|| {
        let flags = GucFlags::EXPLAIN;
        GucRegistry::define_bool_guc(
            c"pg_skip.enable_scan",
            c"Enables the planner's use of Skip Index Scan plans.",
            c"Bitmap scans of skip indexes are planned also when it is off.",
            &ENABLE_SCAN,
            GucContext::Userset,
            flags,
        );
        GucRegistry::define_bool_guc(
            c"pg_skip.enable_distinct",
            c"Enables the planner's use of the number of distinct values that a skip index knows.",
            c"It replaces the number that ANALYZE estimated for a column of a large table, where the two differ much.",
            &ENABLE_DISTINCT,
            GucContext::Userset,
            flags,
        );
        GucRegistry::define_int_guc(
            c"pg_skip.plan_probe_pages",
            c"Sets the maximum number of skip index pages that are read to plan one query.",
            c"Beyond this number, and if it is 0, costs are estimated from averages.",
            &PROBE_PAGES,
            0,
            1_000_000,
            GucContext::Userset,
            flags,
        );
        GucRegistry::define_int_guc(
            c"pg_skip.merge_pages",
            c"Sets the number of skip index pages that one insert may write at a time to merge segments of a column.",
            c"A larger merge is done in steps by several inserts, or by VACUUM. Lower values make the slowest insert faster; with very low ones a growing index has more segments.",
            &MERGE_PAGE_LIMIT,
            1,
            1_000_000,
            GucContext::Userset,
            flags,
        );
        GucRegistry::define_int_guc(
            c"pg_skip.key_part_pages",
            c"Sets the least number of pages of the maps into which a large map is divided by key.",
            c"This is meant for tests of pg_skip: with low values, small maps are divided too. It takes effect when a map is written.",
            &KEY_PART_PAGE_NUMBER,
            1,
            1_000_000,
            GucContext::Userset,
            flags,
        );
        GucRegistry::define_int_guc(
            c"pg_skip.vacuum_rebuild_pages",
            c"Sets the maximum number of pages of a table that VACUUM reads again to rebuild a column of a skip index.",
            c"If it is 0, VACUUM rebuilds nothing. If it is -1, VACUUM reads a quarter of the table, but at least 128 MB.",
            &VACUUM_REBUILD_PAGES,
            -1,
            i32::MAX,
            GucContext::Userset,
            flags,
        );
        GucRegistry::define_int_guc(
            c"pg_skip.max_workers",
            c"Sets the maximum number of background workers of skip indexes that run at a time.",
            c"They count for all databases. If this number is running, or it is 0, inserting sessions summarize.",
            &MOST_WORKERS,
            0,
            MOST_PLACES,
            GucContext::Sighup,
            flags,
        );
        GucRegistry::define_enum_guc(
            c"pg_skip.default_layout",
            c"Sets the layout of new skip indexes that do not set the option layout.",
            c"An index keeps its layout until it is rebuilt.",
            &DEFAULT_LAYOUT,
            GucContext::Userset,
            flags,
        );
        let lists = [
            (
                c"pg_skip.force_indexes",
                c"Lists the skip indexes that every query on their tables must use.",
                c"Index names are separated by commas. A query on the table of a listed index that cannot use the index fails.",
                &FORCE_INDEXES,
            ),
            (
                c"pg_skip.ignore_indexes",
                c"Lists the skip indexes that no query may use.",
                c"Index names are separated by commas.",
                &IGNORE_INDEXES,
            ),
        ];
        for (name, short, long, setting) in lists {
            // SAFETY: the hook is guarded and has the signature of a string setting's check hook.
            unsafe {
                let (user, check) = (GucContext::Userset, Some(check_names as _));
                GucRegistry::define_string_guc_with_hooks(
                    name, short, long, setting, user, flags, check, None, None,
                );
            }
        }
        // SAFETY: a static string.
        unsafe { pg_sys::MarkGUCPrefixReserved(c"pg_skip".as_ptr()) };
    });
}

/// [`IndexLayout`] with the names of the setting's values.
#[derive(Clone, Copy, PostgresGucEnum)]
enum DefaultLayout {
    #[name = c"filters"]
    Filters,
    #[name = c"map"]
    Map,
    #[name = c"auto"]
    Auto,
}

/// The layout of a new index whose options do not set one.
pub fn default_layout() -> IndexLayout {
    match DEFAULT_LAYOUT.get() {
        DefaultLayout::Filters => IndexLayout::Filters,
        DefaultLayout::Map => IndexLayout::Map,
        DefaultLayout::Auto => IndexLayout::Auto,
    }
}

/// Whether Skip Index Scans may be planned.
pub fn enable_scan() -> bool {
    ENABLE_SCAN.get()
}

/// Whether the planner may get the number of distinct values of a column from an index.
pub fn enable_distinct() -> bool {
    ENABLE_DISTINCT.get()
}

/// Index pages that planning one query may read.
pub fn plan_probe_pages() -> u64 {
    u64::try_from(PROBE_PAGES.get()).unwrap_or(0)
}

/// Index pages that one insert may write to merge segments.
pub fn merge_pages() -> u32 {
    u32::try_from(MERGE_PAGE_LIMIT.get()).unwrap_or(1)
}

/// The least number of pages of the maps into which a large map is divided by key.
pub fn key_part_pages() -> u32 {
    u32::try_from(KEY_PART_PAGE_NUMBER.get()).unwrap_or(1)
}

/// Pages of a table that VACUUM may read again to rebuild an index; None: a part of the table.
pub fn vacuum_rebuild_pages() -> Option<u32> {
    u32::try_from(VACUUM_REBUILD_PAGES.get()).ok()
}

/// Background workers that may run at a time, in all databases.
pub fn max_workers() -> u32 {
    u32::try_from(MOST_WORKERS.get()).unwrap_or(0)
}

/// The indexes that must be used.
pub fn forced_indexes() -> IndexNames {
    names_in(&FORCE_INDEXES)
}

/// The indexes that must not be used.
pub fn ignored_indexes() -> IndexNames {
    names_in(&IGNORE_INDEXES)
}

/// Whether a list contains an index, or the partitioned index that it is part of, or the index that it is a shard of. A
/// name without a schema matches any schema. It does not depend on the current search_path, because functions and
/// maintenance commands have their own.
pub fn is_listed(names: &IndexNames, index: pg_sys::Oid) -> bool {
    let is_named = |oid| {
        let Some((schema, name)) = catalog::qualified_name(oid) else { return false };
        names.names_index(&schema, &name, || Some(catalog::qualified_name(relation::table_of(oid)?)?.1))
    };
    !names.is_empty() && (is_named(index) || catalog::partition_ancestors(index).into_iter().any(is_named))
}

fn names_in(setting: &GucSetting<Option<CString>>) -> IndexNames {
    // SAFETY: the setting's string is NUL-terminated or NULL. Checking its first byte saves each planning a copy.
    let is_empty = unsafe {
        let text = *setting.as_ptr();
        text.is_null() || *text == 0
    };
    if is_empty {
        return IndexNames::default();
    }
    let text = setting.get().map(|text| text::of_bytes(text.to_bytes())).unwrap_or_default();
    IndexNames::parse(&text).unwrap_or_default() // the check hook accepts lists only
}

/// Refuses a text that is not a list of names; warns of names without an index, if the catalog can be read.
unsafe extern "C-unwind" fn check_names(
    new: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    boundary::callback(|| {
        // SAFETY: the server passes a NUL-terminated string, or NULL.
        let text = unsafe {
            if (*new).is_null() {
                return true;
            }
            text::of_server(*new)
        };
        let Some(names) = IndexNames::parse(&text) else { return false };
        // SAFETY: plain state of the process.
        let can_look = unsafe { pg_sys::IsTransactionState() && pg_sys::ParallelWorkerNumber < 0 };
        if can_look && catalog::current_database() != pg_sys::InvalidOid {
            for parts in names.iter().filter(|parts| !catalog::relation_named(parts)) {
                report(
                    PgLogLevel::WARNING,
                    PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
                    format!("index \"{}\" does not exist", parts.join(".")),
                    None,
                    Some("The setting takes effect when an index of that name exists.".into()),
                );
            }
        }
        true
    })
}
