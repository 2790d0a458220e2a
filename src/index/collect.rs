//! The summarizing scan: a block range becomes, for each indexed column, its distinct key hashes.
//!
//! It reads **every tuple version physically on the page**: live, in progress, recently dead (HOT-updated ones too) and
//! dead. A value that no snapshot sees costs at most a false positive; a missing one would lose rows for an old
//! snapshot, or for one on a standby. Therefore the scan reads pages itself: PostgreSQL's table_index_build_scan leaves
//! out dead tuples and HOT-updated recently dead ones.
//!
//! Some tuples cannot be hashed with certainty: those with an out-of-line value that may be removed at any time (in
//! dead or recently dead tuples, or in tuples inserted by another transaction that is in progress and may still fail),
//! and dead ones, or ones inserted by another transaction in progress, for which an expression or predicate would have
//! to run. Their range stays *open*, so that it matches every lookup, until the next maintenance.
//!
//! The fast way collects every tuple on a page: superfluous keys cost only false positives. The slow way leaves out the
//! rows of failed transactions, which no snapshot ever shows.
//!
//! The snapshot of VACUUM does not keep what others delete: a value out of line of a row that was live when its page
//! was read may be gone when it is wanted. VACUUM therefore reads such values in a subtransaction, and the range stays
//! open if the row was deleted meanwhile. Before PostgreSQL 17 no subtransaction is possible in a parallel VACUUM: such
//! ranges stay open. All other maintenance reads them in a subtransaction as well: one that is lost must not make
//! inserts of other rows fail. So it does with values that are compressed in their rows, which may be damaged; a
//! parallel VACUUM before 17 fails at such a value.
//!
//! CREATE INDEX fails if an expression or a user's hash function fails. Maintenance must not fail: the row belongs to
//! another user, or the function has changed. It therefore runs such code in subtransactions, and a range in which the
//! code fails stays open.

use super::contents::ColumnContents;
use crate::hash;
use crate::pages::meta::Meta;
use crate::pg::datum;
use crate::pg::evaluate::Evaluator;
use crate::pg::heap::{self, ColumnFinder, Field, Fields, HeapReader, Standing, Tuple};
use crate::pg::memory::{self, Scratch};
use crate::pg::{Rel, attempt, compat};
use pgrx::pg_sys;
use std::ops::Range;

/// Memory that a set of distinct hashes takes for each, in bytes, right after it has grown.
const BYTES_A_HASH: usize = 32;

/// Collects the contents of ranges, one range after another.
pub struct RangeCollector<'a> {
    heap: Rel<'a>,
    reader: HeapReader<'a>,
    finder: Option<ColumnFinder>,
    evaluator: Evaluator<'a>,
    scratch: Scratch,
    /// The contents of the range collected last, for each column.
    pub columns: Vec<ColumnContents>,
    most_hashes: usize,
    /// Whether a range had more distinct values than memory allows.
    pub overflowed: bool,
    /// Rows that look live, in all ranges collected so far.
    pub live_rows: f64,
    /// The first error in users' code, or in reading a damaged value, if [`RangeCollectorOptions::may_fail`] is set.
    pub failure: Option<Failure>,
    in_vacuum: bool,
    versions: Versions,
    may_fail: bool,
    /// Whether a stored value that cannot be read leaves the range open instead of ending the command.
    may_lose_values: bool,
}

/// A row for which users' code failed, or of which a value cannot be read.
pub struct Failure {
    pub block: u32,
    pub message: String,
}

/// Which of the tuple versions on a page are collected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// All.
    All,
    /// As All, but the slow way leaves out those that another transaction in progress has inserted: it inserts them
    /// into the index itself.
    Settled,
    /// Only those that some snapshot of this server may see: the rows that an index must have, not all that it may
    /// have. Equal values with different bytes are added where they can be made, since queries may look them up.
    Visible,
}

/// What is done with a tuple version.
enum Use {
    Hash,
    /// It cannot be hashed with certainty: the range is open.
    Open,
    Skip,
}

/// What was collected of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CollectedBlock {
    /// All tuples, or as many as an open range needs.
    All,
    /// Some tuples: others need the slow way.
    NeedsSlowWay,
    /// Some tuples: others have values that may be damaged.
    NeedsAttempt,
}

impl Versions {
    fn use_of(self, standing: Standing, has_external: bool, runs_user_code: bool) -> Use {
        let certain = |is_certain| if is_certain { Use::Hash } else { Use::Open };
        match standing {
            Standing::Usable => Use::Hash,
            Standing::Aborted => Use::Skip,
            Standing::RecentlyDead if !has_external => Use::Hash,
            _ if self == Versions::Visible => Use::Skip,
            Standing::Inserting => Use::Hash,
            Standing::InsertedByOther if self == Versions::Settled => Use::Skip,
            Standing::RecentlyDead => Use::Open,
            Standing::InsertedByOther | Standing::Dead => certain(!has_external && !runs_user_code),
        }
    }
}

/// Options of a collector.
pub struct RangeCollectorOptions {
    /// Read the table through a small ring of buffers.
    pub bulk: bool,
    /// Apply the cost limits of VACUUM.
    pub in_vacuum: bool,
    /// Bytes of memory for the distinct values of one range and column. A range whose values need more stays open.
    pub memory: usize,
    /// Which tuple versions are collected.
    pub versions: Versions,
    /// Whether an error in users' code, or a lost value, leaves the range open instead of ending the command.
    pub may_fail: bool,
}

/// Bytes of memory for the distinct hashes of a range in one column, and for what is not written yet of a column, each.
pub fn memory_of_column(meta: &Meta) -> usize {
    memory::maintenance_work_mem() / 2 / meta.columns.len().max(1)
}

/// Whether collecting for an index runs users' code: expressions, a predicate, or users' own hash functions.
pub fn runs_user_code(heap: Rel, index: Rel) -> bool {
    Evaluator::new(heap, index).plain_columns().is_none() || hash::is_of_users(index)
}

impl<'a> RangeCollector<'a> {
    /// A collector for an index of a table.
    pub fn new(heap: Rel<'a>, index: Rel<'a>, meta: &Meta, options: &RangeCollectorOptions) -> Self {
        let evaluator = Evaluator::new(heap, index);
        let may_fail = options.may_fail && runs_user_code(heap, index);
        // The fast way takes dead rows apart, too, which users' functions need not understand.
        let plain = evaluator.plain_columns().filter(|_| !hash::has_user_keys(index));
        let finder = plain.map(|columns| {
            let count = columns.iter().copied().max().unwrap_or(0);
            ColumnFinder::new(
                datum::column_layouts(heap, count),
                columns.into_iter().map(|c| c - 1).collect(),
            )
        });
        let has_all_keys = options.versions == Versions::Visible;
        let contents = |(c, keys)| ColumnContents::new(keys, meta, c, has_all_keys);
        Self {
            heap,
            reader: HeapReader::new(heap, options.bulk),
            finder,
            evaluator,
            scratch: Scratch::new(),
            columns: hash::column_keys(index, meta).into_iter().enumerate().map(contents).collect(),
            most_hashes: options.memory / BYTES_A_HASH,
            overflowed: false,
            live_rows: 0.0,
            failure: None,
            in_vacuum: options.in_vacuum,
            versions: options.versions,
            may_fail,
            may_lose_values: options.may_fail || options.in_vacuum,
        }
    }

    /// Collects these heap blocks as one range.
    pub fn collect(&mut self, blocks: Range<u32>) {
        self.columns.iter_mut().for_each(ColumnContents::begin);
        for block in blocks.clone() {
            if self.in_vacuum {
                compat::vacuum_delay_point()
            } else {
                memory::check_for_interrupts()
            }
            self.collect_block(block);
            self.scratch.reset();
            for column in &mut self.columns {
                self.overflowed |=
                    column.end_block(block - blocks.start, block + 1 == blocks.end, self.most_hashes);
            }
        }
    }

    fn collect_block(&mut self, block: u32) {
        let can_attempt = self.may_lose_values && attempt::is_possible();
        if self.versions != Versions::Visible && self.finder.is_some() {
            self.reader.load(block, None);
            let mut collected = self.or_open(block, false, |this| this.collect_plain(can_attempt));
            if collected == CollectedBlock::NeedsAttempt {
                collected = self.or_open(block, true, |this| this.collect_plain(false));
            }
            if collected == CollectedBlock::All {
                return;
            }
        }
        self.load_with_standings(block);
        let leaves_open =
            self.may_lose_values && !can_attempt && self.with_values_out_of_line().next().is_some();
        self.or_open(block, can_attempt, |this| this.collect_evaluated(block, leaves_open));
    }

    fn load_with_standings(&mut self, block: u32) {
        self.reader.load(block, Some(heap::dead_horizon(self.heap)));
    }

    /// The offset numbers, and the inserting transactions, of the tuples of the last loaded page that are live, or
    /// being deleted, and have values out of line.
    fn with_values_out_of_line(&self) -> impl Iterator<Item = (u16, u32)> {
        let reader = &self.reader;
        let has_values = move |tuple: &Tuple<'_>| {
            tuple.has_external() && matches!(reader.standing(tuple), Standing::Usable)
        };
        reader.tuples().filter(has_values).map(|tuple| (tuple.offset, tuple.xmin()))
    }

    /// Runs `collect` on a block. If users' code fails in it, or with `may_lose_values` a value cannot be read, the
    /// range is open, and the rest of the block is not collected.
    fn or_open(
        &mut self,
        block: u32,
        may_lose_values: bool,
        collect: impl FnOnce(&mut Self) -> CollectedBlock,
    ) -> CollectedBlock {
        let outcome = match (self.may_fail, may_lose_values) {
            (true, _) => attempt::attempt(|| collect(self)),
            (false, true) => attempt::attempt_to_read(|| collect(self)),
            (false, false) => return collect(self),
        };
        match outcome {
            Ok(collected) => collected,
            Err(failed) => {
                self.columns.iter_mut().for_each(|column| column.state.open = true);
                self.evaluator.restart_after_error();
                if !(self.in_vacuum && failed.is_data_corrupted() && self.has_lost_values(block)) {
                    self.failure.get_or_insert(Failure { block, message: failed.message });
                }
                CollectedBlock::All
            }
        }
    }

    /// Whether rows of a block with values out of line have been deleted since the block was read.
    fn has_lost_values(&mut self, block: u32) -> bool {
        let before: Vec<_> = self.with_values_out_of_line().collect();
        self.load_with_standings(block);
        let now: Vec<_> = self.with_values_out_of_line().collect();
        before.iter().any(|tuple| !now.contains(tuple))
    }

    /// The fast way: values are hashed from the tuples' bytes. Another way hashes all tuples of the block again; the
    /// hashes collected until then are kept. With `stops`, it stops at the first compressed value: it may be damaged,
    /// and most blocks have none, so that they need no subtransaction.
    fn collect_plain(&mut self, stops: bool) -> CollectedBlock {
        let Self { reader, finder, columns, scratch, most_hashes, live_rows, .. } = self;
        let Some(finder) = finder else { return CollectedBlock::NeedsSlowWay };
        let mut fields = [Field::Null; pg_sys::INDEX_MAX_KEYS as usize];
        let fields = &mut fields[..columns.len()];
        let mut live = 0;
        let collected = scratch.run(|| {
            for tuple in reader.tuples() {
                live += u32::from(tuple.looks_live());
                match finder.read(&tuple, fields) {
                    Fields::Read => {}
                    Fields::Short => return CollectedBlock::NeedsSlowWay,
                    Fields::Odd => {
                        columns.iter_mut().for_each(|column| column.state.open = true);
                        continue;
                    }
                }
                for (column, field) in columns.iter_mut().zip(fields.iter()) {
                    match field {
                        Field::Null => column.set_null(),
                        Field::External => return CollectedBlock::NeedsSlowWay,
                        Field::Compressed(_) if stops => return CollectedBlock::NeedsAttempt,
                        _ => column.add_field(field, *most_hashes),
                    }
                }
            }
            CollectedBlock::All
        });
        if collected == CollectedBlock::All {
            *live_rows += f64::from(live);
        }
        collected
    }

    /// The slow way: each tuple's visibility state is determined, then its index row is formed as the executor does.
    /// With `leaves_open`, no value out of line is read; the range is open instead.
    fn collect_evaluated(&mut self, block: u32, leaves_open: bool) -> CollectedBlock {
        let Self { reader, evaluator, columns, scratch, most_hashes, live_rows, finder, versions, .. } = self;
        let runs_user_code = finder.is_none();
        scratch.run(|| {
            for tuple in reader.tuples() {
                *live_rows += f64::from(u8::from(tuple.looks_live()));
                let has_external = tuple.has_external();
                match versions.use_of(reader.standing(&tuple), has_external, runs_user_code) {
                    Use::Skip => {}
                    Use::Hash if !(leaves_open && has_external) => {
                        let Some(row) = evaluator.form(&tuple, block) else { continue };
                        for (c, column) in columns.iter_mut().enumerate() {
                            column.add_row(&row, c, *most_hashes);
                            if *versions == Versions::Visible {
                                column.add_equal(&row, c);
                            }
                        }
                    }
                    Use::Hash | Use::Open => {
                        columns.iter_mut().for_each(|column| column.state.open = true);
                    }
                }
            }
        });
        CollectedBlock::All
    }
}
