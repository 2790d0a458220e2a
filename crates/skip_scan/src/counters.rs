//! Counters of scans: a place for each (database, index), in words that may be shared by all backends.
//!
//! Owns the layout. Open addressing, atomics only, no locks:
//!
//! - A place is claimed by putting its key where none is, by compare-and-swap. Counters are only added to.
//! - A place that is given back keeps a mark, so that searches go on behind it. Two backends that claim places for the
//!   same key at that moment may get one each; so whoever reads adds up all places of a key.
//! - Counters of a place without a key are zero: they are zeroed before the key goes.
//!
//! ```text
//! line 0: magic and layout version | time of the last reset | scans turned away | time places were last given back
//! line n: key (database OID, index OID) | scans | checked | skipped | full positives | true positives
//! ```
//!
//! A line is eight words, a processor's cache line: scans of different indexes do not disturb one another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// What one scan adds to the counters of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Scans, each rescan that asked again too.
    pub scans: u64,
    /// Ranges asked that have a filter.
    pub checked: u64,
    /// Of those, the ranges ruled out.
    pub skipped: u64,
    /// Of those, the ranges scanned to their end.
    pub full_positives: u64,
    /// Of the full positives, the ranges in which a visible row satisfied the condition.
    pub true_positives: u64,
}

impl Counts {
    /// The counters in the order of their fields.
    pub fn to_array(self) -> [u64; 5] {
        [self.scans, self.checked, self.skipped, self.full_positives, self.true_positives]
    }

    fn from_array([scans, checked, skipped, full_positives, true_positives]: [u64; 5]) -> Self {
        Self { scans, checked, skipped, full_positives, true_positives }
    }

    fn add(&mut self, more: &Counts) {
        let (a, b) = (self.to_array(), more.to_array());
        *self = Self::from_array(std::array::from_fn(|i| a[i].saturating_add(b[i])));
    }
}

/// Words of a place: a cache line of 64 bytes.
const LINE: usize = 8;
/// Indexes that can be counted, those of all databases together, in 256 kB of shared memory.
pub const PLACES: usize = 4096;
/// Words of a table.
pub const WORDS: usize = LINE * (1 + PLACES);
/// Another one, and another name of the shared memory, with each change of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"pgskip\0\x01");

/// Words of the first line behind the magic number.
const RESET_AT: usize = 1;
const TURNED_AWAY: usize = 2;
const TIDIED_AT: usize = 3;

/// The key of a place that was never taken: no database has the OID 0.
const NEVER: u64 = 0;
/// The key of a place that was given back.
const GONE: u64 = u64::MAX;
/// How often claiming a place starts over because another backend was quicker.
const MOST_CLAIMS: usize = 8;

/// An index of a database.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The database's OID.
    pub database: u32,
    /// The index's OID in it.
    pub index: u32,
}

impl Key {
    fn word(self) -> u64 {
        u64::from(self.database) << 32 | u64::from(self.index)
    }

    fn of_word(word: u64) -> Option<Self> {
        let key = Self { database: (word >> 32) as u32, index: word as u32 };
        (word != NEVER && word != GONE).then_some(key)
    }
}

/// A table in words that live as long as the process.
#[derive(Clone, Copy)]
pub struct CounterTable(&'static [AtomicU64; WORDS]);

/// One line of the table.
type Place = [AtomicU64];

impl CounterTable {
    /// The table in these words, which are zero if they are new; None if another layout is in them.
    pub fn attach(words: &'static [AtomicU64; WORDS]) -> Option<Self> {
        match words[0].compare_exchange(0, MAGIC, SeqCst, SeqCst) {
            Ok(_) | Err(MAGIC) => Some(Self(words)),
            Err(_) => None,
        }
    }

    /// Adds to the counters of an index; nothing is counted when all places are taken.
    pub fn add(self, key: Key, counts: &Counts) {
        let Some(place) = self.place_of(key.word()) else {
            self.0[TURNED_AWAY].fetch_add(1, Relaxed);
            return;
        };
        for (counter, count) in place[1..].iter().zip(counts.to_array()) {
            counter.fetch_add(count, SeqCst);
        }
    }

    /// The counters of one database's indexes.
    pub fn of_database(self, database: u32) -> HashMap<u32, Counts> {
        let mut found: HashMap<u32, Counts> = HashMap::new();
        for place in self.places() {
            if let Some(key) = Key::of_word(place[0].load(SeqCst)).filter(|key| key.database == database) {
                found.entry(key.index).or_default().add(&counts_of(place));
            }
        }
        found
    }

    /// Whether no further index can be counted.
    pub fn is_full(self) -> bool {
        self.places().all(|place| Key::of_word(place[0].load(SeqCst)).is_some())
    }

    /// Zeroes all counters. Places stay taken.
    pub fn reset(self, now: i64) {
        for place in self.places() {
            zero(place);
        }
        self.0[RESET_AT].store(now as u64, SeqCst);
    }

    /// When the counters were last zeroed; None if never.
    pub fn reset_at(self) -> Option<i64> {
        Some(self.0[RESET_AT].load(SeqCst) as i64).filter(|&at| at != 0)
    }

    /// Whether places should be given back: scans were turned away, and nobody did so in the last `pause`
    /// microseconds. Of all who ask at that time, one is told to.
    pub fn wants_tidying(self, now: i64, pause: i64) -> bool {
        if self.0[TURNED_AWAY].load(Relaxed) == 0 {
            return false;
        }
        let last = self.0[TIDIED_AT].load(SeqCst);
        let is_due = now.saturating_sub(last as i64) > pause;
        is_due && self.0[TIDIED_AT].compare_exchange(last, now as u64, SeqCst, SeqCst).is_ok()
    }

    /// Gives back the places of indexes that are not there any more.
    pub fn tidy(self, is_there: impl Fn(Key) -> bool) {
        for place in self.places() {
            let word = place[0].load(SeqCst);
            if Key::of_word(word).is_some_and(|key| !is_there(key)) {
                zero(place);
                // If it is another's by now, somebody else was tidying too.
                let _ = place[0].compare_exchange(word, GONE, SeqCst, SeqCst);
            }
        }
        self.0[TURNED_AWAY].store(0, Relaxed);
    }

    fn places(self) -> impl Iterator<Item = &'static Place> {
        self.0[LINE..].chunks_exact(LINE)
    }

    /// The place of a key, claimed if it has none; None when all are taken.
    fn place_of(self, word: u64) -> Option<&'static Place> {
        for _ in 0..MOST_CLAIMS {
            let (place, found) = self.find(word)?;
            let is_ours = found == word || place[0].compare_exchange(found, word, SeqCst, SeqCst).is_ok();
            if is_ours {
                return Some(place);
            }
            // Another backend was quicker, perhaps for the same index.
        }
        None
    }

    /// The place of a key, or else the first one that is free, and the key that the place has now.
    fn find(self, word: u64) -> Option<(&'static Place, u64)> {
        let start = (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % PLACES;
        let (before, after) = self.0[LINE..].split_at(start * LINE);
        let mut free = None;
        for place in after.chunks_exact(LINE).chain(before.chunks_exact(LINE)) {
            let found = place[0].load(SeqCst);
            if found == word {
                return Some((place, found));
            }
            if found == NEVER || found == GONE {
                free = free.or(Some((place, found)));
            }
            if found == NEVER {
                break;
            }
        }
        free
    }
}

/// Read in the opposite order of being added to, so that no scan in the middle of it makes a part larger than its
/// whole.
fn counts_of(place: &Place) -> Counts {
    let mut counts = [0; 5];
    for (count, counter) in counts.iter_mut().zip(&place[1..]).rev() {
        *count = counter.load(SeqCst);
    }
    Counts::from_array(counts)
}

fn zero(place: &Place) {
    place[1..].iter().for_each(|counter| counter.store(0, SeqCst));
}
