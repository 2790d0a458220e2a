//! The session's settings `pg_skip.*`, and the indexes that two of them name.

use super::{fail, relation};
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PgSqlErrorCode, pg_sys};
use std::ffi::CString;
use std::sync::Once;

/// Default of `pg_skip.plan_probe_pages`: some 100 keys in one wide segment, a millisecond or two.
const PLAN_PROBE_PAGES: i32 = 2048;

static ENABLE_SCAN: GucSetting<bool> = GucSetting::<bool>::new(true);
static PROBE_PAGES: GucSetting<i32> = GucSetting::<i32>::new(PLAN_PROBE_PAGES);
static FORCE_INDEXES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static IGNORE_INDEXES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static REGISTERED: Once = Once::new();

/// Defines the settings; once per process, when the library is loaded.
pub fn register() {
    REGISTERED.call_once(|| {
        let none = GucFlags::default();
        GucRegistry::define_bool_guc(
            c"pg_skip.enable_scan",
            c"Enables the planner's use of Skip Scan plans.",
            c"Bitmap scans of skip indexes stay possible when it is off.",
            &ENABLE_SCAN,
            GucContext::Userset,
            none,
        );
        GucRegistry::define_int_guc(
            c"pg_skip.plan_probe_pages",
            c"Sets how many pages of skip indexes the planning of one query may read.",
            c"Beyond it, and at 0, costs are estimated from averages.",
            &PROBE_PAGES,
            0,
            1_000_000,
            GucContext::Userset,
            none,
        );
        GucRegistry::define_string_guc(
            c"pg_skip.force_indexes",
            c"Names skip indexes that every query on their tables must use.",
            c"Separated by commas. A query that cannot use such an index on its table fails.",
            &FORCE_INDEXES,
            GucContext::Userset,
            none,
        );
        GucRegistry::define_string_guc(
            c"pg_skip.ignore_indexes",
            c"Names skip indexes that no query may use.",
            c"Separated by commas.",
            &IGNORE_INDEXES,
            GucContext::Userset,
            none,
        );
        // SAFETY: a static string.
        unsafe { pg_sys::MarkGUCPrefixReserved(c"pg_skip".as_ptr()) };
    });
}

/// Whether Skip Scans may be planned.
pub fn enable_scan() -> bool {
    ENABLE_SCAN.get()
}

/// Index pages that planning one query may read.
pub fn plan_probe_pages() -> u64 {
    u64::try_from(PROBE_PAGES.get()).unwrap_or(0)
}

/// The indexes that must be used, with their tables.
pub fn forced_indexes() -> Vec<(pg_sys::Oid, pg_sys::Oid)> {
    let named = named_indexes(&FORCE_INDEXES, "pg_skip.force_indexes");
    named.into_iter().filter_map(|index| Some((index, relation::table_of(index)?))).collect()
}

/// The indexes that must not be used.
pub fn ignored_indexes() -> Vec<pg_sys::Oid> {
    named_indexes(&IGNORE_INDEXES, "pg_skip.ignore_indexes")
}

fn named_indexes(setting: &GucSetting<Option<CString>>, name: &str) -> Vec<pg_sys::Oid> {
    // SAFETY: the setting's string is NUL-terminated or NULL. The look at its first byte spares every planning a copy.
    let is_empty = unsafe {
        let text = *setting.as_ptr();
        text.is_null() || *text == 0
    };
    if is_empty {
        return Vec::new();
    }
    let text = setting.get().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    let Some(names) = split_names(&text) else {
        fail(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("invalid list of index names in {name}"),
            Some(format!("The setting is \"{text}\".")),
            Some("Write names as in SQL, separated by commas: my_index, \"My Schema\".\"My Index\".".into()),
        )
    };
    names.iter().map(|parts| find_index(parts, name)).collect()
}

fn find_index(parts: &[String], setting: &str) -> pg_sys::Oid {
    let missing = || -> ! {
        fail(
            PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
            format!("index \"{}\" does not exist", parts.join(".")),
            Some(format!("It is named in {setting}.")),
            Some(format!("SET {setting} = '' takes all names out.")),
        )
    };
    let names: Option<Vec<CString>> = parts.iter().map(|part| CString::new(part.as_str()).ok()).collect();
    let (schema, index) = match names.as_deref() {
        Some([index]) => (std::ptr::null_mut(), index.as_ptr().cast_mut()),
        Some([schema, index]) => (schema.as_ptr().cast_mut(), index.as_ptr().cast_mut()),
        _ => missing(),
    };
    // SAFETY: NUL-terminated strings that outlive the look-up, which takes no lock and allows for a missing relation.
    let oid = unsafe {
        let range = pg_sys::makeRangeVar(schema, index, -1);
        pg_sys::RangeVarGetRelidExtended(
            range,
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    };
    if oid == pg_sys::InvalidOid { missing() } else { oid }
}

/// Splits `a, s.b, "C"."d"` into names and their parts as SQL reads identifiers; None for what it would not take.
fn split_names(text: &str) -> Option<Vec<Vec<String>>> {
    let mut names = vec![Vec::new()];
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (part, behind) = split_identifier(rest)?;
        names.last_mut()?.push(part);
        let behind = behind.trim_start();
        rest = match behind.chars().next() {
            None => break,
            Some('.') => behind[1..].trim_start(),
            Some(',') => {
                names.push(Vec::new());
                behind[1..].trim_start()
            }
            Some(_) => return None,
        };
        if rest.is_empty() {
            return None; // nothing behind a separator
        }
    }
    Some(names)
}

fn split_identifier(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut chars = quoted.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c != '"' {
                name.push(c);
            } else if chars.next_if(|&(_, next)| next == '"').is_some() {
                name.push('"');
            } else {
                return (!name.is_empty()).then_some((name, &quoted[at + 1..]));
            }
        }
        return None;
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_ascii_lowercase(), &text[end..]))
}
