//! The summarizing scan: a block range becomes, for each indexed column, its distinct key hashes.
//!
//! It takes **every tuple version physically on the page**: live, in progress, recently dead (HOT-updated ones
//! too) and dead. Values that nobody sees cost a false positive at most; a missing one would cost rows to an old
//! snapshot, or to a standby's. That is why the scan reads pages itself: PostgreSQL's table_index_build_scan
//! leaves out dead tuples and HOT-updated recently dead ones.
//!
//! Some tuples cannot be hashed for certain: those with a value stored out of line that may go any time (dead ones,
//! recently dead ones, and those that another transaction in progress inserted, which may yet fail), and dead or
//! foreign ones for which an expression or predicate would have to run. Their range stays *open*, matching everything,
//! until maintenance comes by again.

use crate::hash::{self, KeyHasher};
use crate::pages::meta::Meta;
use crate::pg::datum;
use crate::pg::evaluate::{Evaluator, IndexRow};
use crate::pg::heap::{self, ColumnFinder, Field, Fields, HeapReader, Standing};
use crate::pg::memory::{self, Scratch};
use crate::pg::{Rel, compat};
use pgrx::pg_sys;
use skip_core::{DistinctHashes, RangeState};

/// What one range holds in one column.
pub struct ColumnContents {
    pub state: RangeState,
    pub hashes: DistinctHashes,
    hasher: Option<KeyHasher>,
}

/// Collects ranges one after another.
pub struct Collector {
    heap: Rel,
    reader: HeapReader,
    finder: Option<ColumnFinder>,
    evaluator: Evaluator,
    scratch: Scratch,
    /// The columns' contents of the range collected last.
    pub columns: Vec<ColumnContents>,
    most_hashes: usize,
    /// Whether a range had more distinct values than memory allows.
    pub overflowed: bool,
    /// Rows that look live, in all ranges collected so far.
    pub live_rows: f64,
    in_vacuum: bool,
    visible_only: bool,
}

/// What a collector needs to know.
pub struct CollectorOptions {
    /// Read the table through a small ring of buffers.
    pub bulk: bool,
    /// Heed the cost limits of VACUUM.
    pub in_vacuum: bool,
    /// The most distinct values of one range and column that memory allows.
    pub most_hashes: usize,
    /// Only tuples that some snapshot here may see: what an index must have, not all that it may have.
    pub visible_only: bool,
}

impl Collector {
    /// A collector for an index of a table.
    pub fn new(heap: Rel, index: Rel, meta: &Meta, options: &CollectorOptions) -> Self {
        let evaluator = Evaluator::new(heap, index);
        let finder = evaluator.plain_columns().map(|columns| {
            let count = columns.iter().copied().max().unwrap_or(0);
            ColumnFinder::new(
                datum::column_layouts(heap, count),
                columns.into_iter().map(|c| c - 1).collect(),
            )
        });
        let contents =
            |hasher| ColumnContents { state: RangeState::default(), hashes: DistinctHashes::new(), hasher };
        Self {
            heap,
            reader: HeapReader::new(heap, options.bulk),
            finder,
            evaluator,
            scratch: Scratch::new(),
            columns: hash::column_hashers(index, meta).into_iter().map(contents).collect(),
            most_hashes: options.most_hashes,
            overflowed: false,
            live_rows: 0.0,
            in_vacuum: options.in_vacuum,
            visible_only: options.visible_only,
        }
    }

    /// Collects the heap blocks `from..to` as one range.
    pub fn collect(&mut self, from: u32, to: u32) {
        for column in &mut self.columns {
            column.state = RangeState { open: column.hasher.is_none(), ..RangeState::default() };
            column.hashes.clear();
        }
        for block in from..to {
            if self.in_vacuum {
                compat::vacuum_delay_point()
            } else {
                memory::check_for_interrupts()
            }
            if self.visible_only || !self.collect_plain(block) {
                self.collect_evaluated(block);
            }
            self.scratch.reset();
        }
        for column in &mut self.columns {
            if column.hashes.len() > self.most_hashes {
                column.hashes.clear();
                column.state.open = true;
                self.overflowed = true;
            }
        }
    }

    /// The fast way: values are hashed as they lie in the tuples. False when some tuple needs the other way; what
    /// was hashed before stays, and is hashed again then.
    fn collect_plain(&mut self, block: u32) -> bool {
        let Self { reader, finder, columns, scratch, most_hashes, live_rows, .. } = self;
        let Some(finder) = finder else { return false };
        reader.load(block, None);
        let mut fields = [Field::Null; pg_sys::INDEX_MAX_KEYS as usize];
        let fields = &mut fields[..columns.len()];
        let mut live = 0;
        let complete = scratch.run(|| {
            for tuple in reader.tuples() {
                live += u32::from(tuple.looks_live());
                match finder.read(&tuple, fields) {
                    Fields::Read => {}
                    Fields::Short => return false,
                    Fields::Odd => {
                        columns.iter_mut().for_each(|column| column.state.open = true);
                        continue;
                    }
                }
                for (column, field) in columns.iter_mut().zip(fields.iter()) {
                    match field {
                        Field::Null => column.state.nulls = true,
                        Field::External => return false,
                        _ => column.add_field(field, *most_hashes),
                    }
                }
            }
            true
        });
        if complete {
            *live_rows += f64::from(live);
        }
        complete
    }

    /// The slow way: each tuple's standing is looked at, then its index row is formed as the executor does.
    fn collect_evaluated(&mut self, block: u32) {
        self.reader.load(block, Some(heap::dead_horizon(self.heap)));
        let Self {
            reader, evaluator, columns, scratch, most_hashes, live_rows, finder, visible_only, ..
        } = self;
        let runs_user_code = finder.is_none();
        scratch.run(|| {
            for tuple in reader.tuples() {
                let usable = match reader.standing(&tuple) {
                    Standing::Usable => true,
                    Standing::Inserting => !*visible_only,
                    Standing::InsertedByOther => !tuple.has_external() && !runs_user_code && !*visible_only,
                    Standing::RecentlyDead => !tuple.has_external(),
                    Standing::Dead => !tuple.has_external() && !runs_user_code && !*visible_only,
                };
                *live_rows += f64::from(u8::from(tuple.looks_live()));
                if !usable && *visible_only {
                    continue;
                }
                if !usable {
                    columns.iter_mut().for_each(|column| column.state.open = true);
                } else if let Some(row) = evaluator.form(&tuple, block) {
                    columns
                        .iter_mut()
                        .enumerate()
                        .for_each(|(c, column)| column.add_row(&row, c, *most_hashes));
                }
            }
        });
    }
}

impl ColumnContents {
    fn add_field(&mut self, field: &Field<'_>, most_hashes: usize) {
        self.state.values = true;
        if self.hashes.len() <= most_hashes
            && let Some(hash) = self.hasher.as_mut().and_then(|hasher| hasher.hash_field(field))
        {
            self.hashes.insert(hash);
        }
    }

    fn add_row(&mut self, row: &IndexRow<'_>, c: usize, most_hashes: usize) {
        let Some(hasher) = &mut self.hasher else { return };
        match row.value(c, hasher.repr()) {
            None => self.state.nulls = true,
            Some(value) => {
                self.state.values = true;
                if self.hashes.len() <= most_hashes {
                    self.hashes.insert(hasher.hash(value));
                }
            }
        }
    }
}
