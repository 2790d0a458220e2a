//! The entries that inserts add to the delta. A value that the segment of its range has already needs none. The hash
//! functions, the list of segments, and filters that many rows are inserted into are kept from row to row.

use crate::hash;
use crate::hash::keys::ColumnKeys;
use crate::pages::bounds;
use crate::pages::delta::{self, DeltaEntry};
use crate::pages::directory::{self, Live};
use crate::pages::entry::{Rescan, Segment};
use crate::pages::map::{self, Map};
use crate::pages::meta::{self, META_BLOCK, Meta, NO_CANON};
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment::{self, Group};
use crate::pg::datum::Value;
use crate::pg::error::{self, IndexResult};
use crate::pg::evaluate::IndexRow;
use crate::pg::lock;
use crate::pg::memory::{self, Scratch};
use crate::pg::{Rel, fail};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use skip_map::key_part::KeySet;

/// Consecutive rows whose values are looked up in the same 64 ranges before those ranges are read as a whole. Reading
/// them as a whole costs about as much as looking up some 400 values one by one.
const STREAK: u32 = 256;
/// The most memory for 64 ranges read as a whole, in bytes.
const MOST_GROUP_BYTES: u64 = 8 << 20;
/// The most keys of a value that are in memory at once, and entries: two megabytes.
const MOST_KEYS: usize = 1 << 16;
/// The most keys of a value that are looked up. Further ones become entries whether the filters have them or not: to
/// look up a million keys one by one takes minutes.
const MOST_LOOKUPS: usize = 1 << 12;

/// Finds the keys of rows that no segment has, and adds them to the delta. A statement's inserts keep it from row to
/// row. Nothing in it is needed for correctness: the watermark is read again for each row, and an old list of segments
/// is dropped when the generation has risen. Until then, each segment in the list is live, or its bits have been copied
/// into another segment, or its ranges match every lookup; or it is replaced by one that is made from the table, which
/// does not have its bits: then the list has a rescan of its ranges.
pub struct DeltaWriter {
    /// None for a column that this build makes no keys for: it was given up.
    keys: Vec<Option<ColumnKeys>>,
    known: KnownSegments,
}

/// What is known of the index's segments.
struct KnownSegments {
    meta: Meta,
    live: Live,
    /// For each column the 64 ranges that the last row was inserted into: segment, number of the group, number of rows
    /// so far, and the bits once there were enough rows.
    groups: Vec<Option<RecentGroup>>,
}

/// Entries for the delta that are not there yet, and the delta's pages.
#[derive(Default)]
struct Missing {
    entries: Vec<DeltaEntry>,
    pages: u64,
    /// Number of keys of the present value that were looked up.
    lookups: usize,
}

impl Missing {
    fn append(&mut self, index: Rel) -> IndexResult<()> {
        if !self.entries.is_empty() {
            self.pages = delta::append(index, &self.entries)?;
            self.entries.clear();
            lock::check_conflict_in(index);
        }
        Ok(())
    }
}

struct RecentGroup {
    segment: u64,
    number: u32,
    rows: u32,
    bits: Option<Group>,
}

impl DeltaWriter {
    /// A writer for the inserts of one statement into an index.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn new(index: Rel) -> IndexResult<Self> {
        let meta = Meta::read(index)?;
        let keys = hash::column_keys(index, &meta);
        give_up_columns(index, &meta, &keys)?;
        let groups = meta.columns.iter().map(|_| None).collect();
        let mut known = KnownSegments { meta, live: Live::default(), groups };
        known.read_segments(index)?;
        Ok(Self { keys, known })
    }

    /// Reads the segments again if some were retired since. `generation` is the lower half of the present one. It is
    /// called after a row's range was found below the watermark, so that all layouts are chosen by now: entries of the
    /// delta depend on the number of parts.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn refresh(&mut self, index: Rel, generation: u32) -> IndexResult<()> {
        let known = &mut self.known;
        if known.meta.generation as u32 != generation || known.meta.is_to_choose() {
            known.meta = Meta::read(index)?;
            known.read_segments(index)?;
        }
        Ok(())
    }

    /// Adds the keys of the row's values that the filters do not have yet to the delta. Returns the number of delta
    /// pages in use if there were any, else 0. The memory that hashing takes, for example for detoasted values, is
    /// freed afterwards. A value may have millions of keys: not all of them are in memory at once.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn append_missing(&mut self, index: Rel, row: &IndexRow<'_>, block: u32) -> IndexResult<u64> {
        Scratch::new().run(|| {
            let mut missing = Missing::default();
            let Self { keys, known } = self;
            for (column, keys) in keys.iter_mut().enumerate() {
                let Some(keys) = keys else { continue };
                let value = row.value(column, keys.repr());
                missing.lookups = 0;
                known.add_keys(index, (column, block), keys, value, &mut missing)?;
            }
            missing.append(index)?;
            Ok(missing.pages)
        })
    }
}

impl KnownSegments {
    fn read_segments(&mut self, index: Rel) -> IndexResult<()> {
        self.groups.iter_mut().for_each(|group| *group = None);
        // The directory must not have changed meanwhile: a segment that is replaced, and the rescan that replaces it,
        // are two entries (crate::pages::upkeep::rescan).
        let unchanged = |live| match Meta::read(index)?.generation == self.meta.generation {
            true => Ok(live),
            false => Err(Miss::Recycled(META_BLOCK)),
        };
        self.live = match directory::live(index, &self.meta, |_| KeySet::ALL).and_then(unchanged) {
            Ok(live) => live,
            Err(Miss::Damage(damage)) => return Err(damage),
            // The next row reads the segments again; until then every value counts as new.
            Err(Miss::Recycled(_)) => {
                self.meta.generation = self.meta.generation.wrapping_sub(1);
                Live::default()
            }
        };
        Ok(())
    }

    /// Looks up the keys of a value of a column, of a row in a block.
    fn add_keys(
        &mut self,
        index: Rel,
        (column, block): (usize, u32),
        keys: &mut ColumnKeys,
        value: Option<Value<'_>>,
        missing: &mut Missing,
    ) -> IndexResult<()> {
        let Some(value) = value else {
            return self.look_up(index, (column, block), &mut vec![None], missing);
        };
        let (mut hashes, mut outcome) = (Vec::new(), Ok(()));
        let is_sound = keys.each_key(value, |hash| {
            hashes.push(Some(hash));
            if hashes.len() >= MOST_KEYS && outcome.is_ok() {
                memory::check_for_interrupts();
                outcome = self.look_up(index, (column, block), &mut hashes, missing);
                if missing.entries.len() >= MOST_KEYS && outcome.is_ok() {
                    outcome = missing.append(index);
                }
            }
            if outcome.is_err() {
                hashes.clear();
            }
        });
        if !is_sound {
            fail_damaged(index, column);
        }
        outcome.and_then(|()| self.look_up(index, (column, block), &mut hashes, missing))
    }

    /// Adds the hashes that the filters do not have yet, and clears the list. Bits of a live segment are never removed,
    /// and merges copy them, so a value that a filter has stays in the index, except during a rescan.
    fn look_up(
        &mut self,
        index: Rel,
        (column, block): (usize, u32),
        hashes: &mut Vec<Option<u64>>,
        missing: &mut Missing,
    ) -> IndexResult<()> {
        hashes.sort_unstable();
        hashes.dedup();
        let column = column as u16;
        let part = block / self.meta.pages_per_part(column);
        for hash in hashes.drain(..) {
            let entry = DeltaEntry { part, column, hash };
            missing.lookups += 1;
            let range = block / self.meta.pages_per_range;
            if missing.lookups > MOST_LOOKUPS || !self.is_in_filter(index, &entry, range)? {
                missing.entries.push(entry);
            }
        }
        Ok(())
    }

    fn is_in_filter(&mut self, index: Rel, entry: &DeltaEntry, range: u32) -> IndexResult<bool> {
        let is_replaced = |rescan: &Rescan| {
            rescan.column == entry.column && (rescan.first_range..rescan.end_range()).contains(&range)
        };
        if self.live.rescans.iter().any(is_replaced) {
            return Ok(false);
        }
        let index = self.meta.bind(index);
        if self.live.of_column(entry.column).first().is_some_and(|s| s.map().is_some()) {
            return or_not_found(self.is_in_maps(index, entry, range));
        }
        let key = (entry.column, range);
        let at = self.live.segments.partition_point(|s| (s.column, s.first_range) <= key);
        let Some(segment) = at.checked_sub(1).map(|at| self.live.segments[at].segment) else {
            return Ok(false);
        };
        if segment.column != entry.column || range >= segment.end_range() {
            return Ok(false);
        }
        if segment.is_of_bounds() {
            return or_not_found(bounds::has_entry(index, &segment, range, entry.hash));
        }
        let found = match self.recent_group(index, &segment, range) {
            Ok(Some(group)) => Ok(group.has_entry(entry.hash, range - segment.first_range)),
            Ok(None) => segment::has_entry(index, &segment, range, entry.hash),
            Err(miss) => Err(miss),
        };
        or_not_found(found)
    }

    /// Whether a map or an addition has an entry's pair. For a value, the pair of [`map::VALUE_KEY`] must be there too:
    /// the value's own fingerprint may be that of NULL.
    fn is_in_maps(&self, index: Rel, entry: &DeltaEntry, range: u32) -> Fetch<bool> {
        let covers =
            |s: &Segment| s.column == entry.column && (s.first_range..s.end_range()).contains(&range);
        let has = |key| {
            let maps = self.live.of_column(entry.column).iter().filter(|s| covers(s) && s.keys.has(key));
            let mut maps = maps.map(|live| &live.segment).peekable();
            // A range without a map of the key matches, whatever additions have.
            let is_summarized = maps.peek().is_some();
            for segment in maps.chain(self.live.additions.iter().filter(|s| is_summarized && covers(s))) {
                if Map::of(index, segment)?.has(key, entry.part)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match entry.hash {
            None => has(map::NULL_KEY),
            Some(hash) => Ok(has(hash)? && has(map::VALUE_KEY)?),
        }
    }

    /// The bits of the 64 ranges around `range`, if many consecutive rows are inserted into them. CREATE INDEX
    /// CONCURRENTLY does so with the rows of ranges that were left open.
    fn recent_group(&mut self, index: Rel, segment: &Segment, range: u32) -> Fetch<Option<&Group>> {
        let number = (range - segment.first_range) / 64;
        let recent = &mut self.groups[usize::from(segment.column)];
        if recent.as_ref().is_none_or(|r| (r.segment, r.number) != (segment.id, number)) {
            *recent = Some(RecentGroup { segment: segment.id, number, rows: 0, bits: None });
        }
        let Some(recent) = recent else { return Ok(None) };
        recent.rows = recent.rows.saturating_add(1);
        let shape = segment.shape()?;
        if recent.bits.is_none() && recent.rows > STREAK && u64::from(shape.slices()) * 8 <= MOST_GROUP_BYTES
        {
            recent.bits = Some(Group::read(index, segment, &shape, number)?);
        }
        Ok(recent.bits.as_ref())
    }
}

/// Marks the columns that this build makes no keys for, or other keys than the build that made the index: they rule
/// nothing out until the index is rebuilt. The row that is inserted gets no entries for them. So nobody may look up
/// keys in them from now on, also not after the library or the operator class has become what it was when the index was
/// built.
fn give_up_columns(index: Rel, meta: &Meta, keys: &[Option<ColumnKeys>]) -> IndexResult<()> {
    let is_lost = |c: usize, canon: u16| canon != NO_CANON && keys.get(c).is_some_and(Option::is_none);
    let lost: Vec<usize> = (0..meta.columns.len()).filter(|&c| is_lost(c, meta.columns[c].canon)).collect();
    if lost.is_empty() {
        return Ok(());
    }
    meta::update(index, |meta| {
        for (_, column) in meta.columns.iter_mut().enumerate().filter(|(c, _)| lost.contains(c)) {
            column.canon = NO_CANON;
        }
    })?;
    for column in lost {
        error::report(
            PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            format!(
                "index \"{}\" is not used for column \"{}\" any more",
                index.name(),
                index.column_name(column)
            ),
            Some(
                "A row was inserted, and its keys are made differently than when the index was built.".into(),
            ),
            Some(format!("To rebuild the index from the table: REINDEX INDEX {};", index.qualified_name())),
        );
    }
    Ok(())
}

/// On a recycled page the entry counts as not found.
fn or_not_found(found: Fetch<bool>) -> IndexResult<bool> {
    match found {
        Ok(found) => Ok(found),
        Err(Miss::Recycled(_)) => Ok(false),
        Err(Miss::Damage(damage)) => Err(damage),
    }
}

fn fail_damaged(index: Rel, column: usize) -> ! {
    let name = index.column_name(column);
    let what = format!("the value of column \"{name}\" of index \"{}\" is damaged", index.name());
    let (detail, hint) =
        ("Its keys cannot be made.", "Find out where the value comes from, and write it anew.");
    fail(PgSqlErrorCode::ERRCODE_DATA_CORRUPTED, what, Some(detail.into()), Some(hint.into()))
}
