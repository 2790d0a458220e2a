//! skip_advise about searches inside the values of a column: a row for each built-in operator class that makes keys of
//! parts of the values, with what an index of this class costs and what a search for one part reads.
//!
//! The sample is as that of [`super::advise`], but of keys in place of values, and of fewer ranges, because a text has
//! hundreds of fragments. Classes of users get no row: the functions of a class run with the rights of the caller.

use super::advise_sample::ColumnSample;
use crate::hash::keys::ColumnKeys;
use crate::pg::Rel;
use crate::pg::key_kind::KeyKind;
use crate::pg::query::{self, StoredVarlena};
use crate::pg::table_columns::{InsideClass, TableColumn};
use skip_scan::advice::{self, Candidate, ColumnFacts};

/// The most ranges of 16 pages that are sampled. Half a second's work for the fragments of long texts.
const MOST_RANGES: u32 = 32;
/// The bytes of values that are read in one of these ranges, of 128 kB. Compressed values may have many times that.
const MOST_BYTES: usize = 256 << 10;
/// The bytes of the largest value that is read.
const LARGE: usize = 1 << 20;

/// What an index with one operator class finds, and what it costs.
pub struct PartsAdvice {
    pub class: String,
    /// The class as a statement has it.
    pub class_in_sql: String,
    /// What it finds.
    pub what: &'static str,
    pub facts: ColumnFacts,
    pub candidate: Candidate,
    /// Whether a search asks for one part, so that the pages that it reads can be told.
    pub asks_for_one: bool,
    /// Whether values of the type are searched by such parts, rather than as a whole.
    pub is_usual: bool,
    pub is_worth_it: bool,
}

/// The advice about a column, by its operator classes.
pub fn advice(table: Rel, column: &TableColumn) -> Vec<PartsAdvice> {
    column.inside_classes.iter().filter_map(|class| of_class(table, column, class)).collect()
}

fn of_class(table: Rel, column: &TableColumn, class: &InsideClass) -> Option<PartsAdvice> {
    let (is_usual, what) = what_it_finds(class.kind)?;
    let mut keys = ColumnKeys::of_parts(class.kind, class.input, column.values)?;
    let facts = ColumnFacts { rate: class.kind.default_rate(), ..facts(table, column, &mut keys)? };
    let (candidate, is_worth_it) = advice::of_parts(&facts);
    Some(PartsAdvice {
        class: class.name.clone(),
        class_in_sql: class.in_sql.clone(),
        what,
        facts,
        candidate,
        asks_for_one: !class.kind.asks_for_several(),
        is_usual,
        is_worth_it,
    })
}

/// Whether values are mostly searched by the keys of a kind, and what such an index finds.
fn what_it_finds(kind: KeyKind) -> Option<(bool, &'static str)> {
    match kind {
        KeyKind::Elements => Some((true, "arrays by elements (@>, &&, value = ANY (column))")),
        KeyKind::Paths => Some((true, "documents by attributes (@>, ->> with =, ?, @?)")),
        KeyKind::Lexemes => Some((true, "documents by lexemes (@@)")),
        KeyKind::Fragments => Some((false, "texts by what stands in them (LIKE '%...%', ~)")),
        KeyKind::Words => Some((false, "texts by whole words (@@@)")),
        KeyKind::Prefix => Some((false, "values by their first characters (^@, LIKE 'abc%')")),
        KeyKind::Whole | KeyKind::Users | KeyKind::Order | KeyKind::Unknown => None,
    }
}

/// What a sample says of the keys. In each range values are read until they have [`MOST_BYTES`], and no value of more
/// than [`LARGE`]. The others are taken to have as many keys per byte. None if there are others only.
fn facts(table: Rel, column: &TableColumn, keys: &mut ColumnKeys) -> Option<ColumnFacts> {
    let (mut read, mut all) = (0.0, 0.0);
    let sample = ColumnSample::take(table.blocks(), MOST_RANGES, |blocks, add| {
        let (mut hashes, mut of_range) = (Vec::new(), 0);
        query::varlenas_in_blocks(
            table,
            column.place,
            blocks,
            |StoredVarlena { block, value, bytes, raw_bytes }| {
                all += f64::from(bytes);
                if of_range >= MOST_BYTES || raw_bytes > LARGE {
                    return;
                }
                of_range += raw_bytes;
                read += f64::from(bytes);
                // The keys of a damaged value are those that could be read.
                keys.each_key(value, |hash| hashes.push(hash));
                add(block, bytes, &mut hashes.drain(..));
            },
        );
    });
    if read == 0.0 && all > 0.0 {
        return None;
    }
    let (facts, times) = (sample.facts(), f64::max(all / f64::max(read, 1.0), 1.0));
    Some(ColumnFacts {
        rows: facts.rows * times,
        keys: facts.keys * times,
        pairs: facts.pairs * times,
        range_pairs: facts.range_pairs * times,
        ..facts
    })
}
