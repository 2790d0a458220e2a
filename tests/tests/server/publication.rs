//! The order in which entries of the directory are added and removed while an index is maintained. Readers of maps rely
//! on it, because they read the directory page by page, without a lock (`src/pages/map`). So do inserts while
//! segments are replaced (`src/pages/upkeep/rescan.rs`).
//!
//! The server writes an image of the page with each WAL record (`wal_consistency_checking`), and `pg_waldump` saves
//! them: so every state of the directory and of the meta page is at hand, in order.
use crate::rebuild::FAILING;
use crate::registry::alone;
use crate::shared;
use crate::wal::waldump;
use libtest_mimic::Completion;
use pg_skip_tests::compare::sound;
use pg_skip_tests::server::{Server, install};
use pg_skip_tests::session::Session;
use std::collections::BTreeMap;
use std::fs;

/// A segment, an open stretch or a rescan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: u8,
    column: u8,
    /// Of 64 parts of the keys, those that it has.
    keys: u64,
    first_range: u32,
    width: u32,
    id: u64,
}

/// The keys of the part with this code.
fn keys_of(code: u8) -> u64 {
    let depth = code.max(1).ilog2();
    let finest = 64 >> depth;
    u64::MAX >> (64 - finest) << ((u32::from(code.max(1)) - (1 << depth)) * finest)
}

const FILTERS: u8 = 1;
const MAP: u8 = 4;
const ADDITION: u8 = 5;
const OPEN: u8 = 6;
const RESCAN: u8 = 8;

impl Entry {
    fn overlaps(&self, other: &Self) -> bool {
        let end = |entry: &Self| entry.first_range + entry.width;
        self.column == other.column
            && self.keys & other.keys != 0
            && self.first_range < end(other)
            && other.first_range < end(self)
    }

    fn is_segment(&self) -> bool {
        matches!(self.kind, FILTERS | MAP | ADDITION)
    }

    /// Whether it belongs to a column with maps.
    fn is_of_maps(&self) -> bool {
        matches!(self.kind, MAP | ADDITION | OPEN)
    }

    /// Whether it is a rescan that replaces a segment.
    fn replaces(&self, segment: &Self) -> bool {
        self.kind == RESCAN && segment.is_segment() && self.overlaps(segment)
    }
}

alone!(entries_come_and_go_in_order);
fn entries_come_and_go_in_order() -> Completion {
    if install().version < 16 {
        return Completion::ignored_with("pg_waldump of this server does not save pages");
    }
    let server = Server::start(&[
        "wal_keep_size=1GB",
        "checkpoint_timeout=1h",
        "wal_consistency_checking=generic",
        "pg_skip.key_part_pages=2",
    ]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    let (start, end, file) = maintain(&mut session);
    drop(session);
    let images = server.data().join("images");
    let mut command = waldump(&server, &start, &end);
    command.args(["-R", &file, "-q"]).arg("--save-fullpage").arg(&images);
    let output = command.output().expect("pg_waldump");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Their names begin with where they are in WAL.
    let mut names: Vec<_> = fs::read_dir(&images).expect("images").map(|name| name.unwrap().path()).collect();
    names.sort();
    let mut history = History::default();
    for name in &names {
        let parts: Vec<&str> = name.file_name().and_then(|name| name.to_str()).unwrap().split('.').collect();
        let block = parts[4].split('_').next().and_then(|block| block.parse().ok()).expect("a block number");
        history.follow(parts[0], block, &fs::read(name).expect("an image"));
    }
    let History { generations, came, gone, replaced, .. } = history;
    println!("{} images: {generations} generations, {came} entries came, {gone} went", names.len());
    println!("{replaced:?} segments of each kind were replaced in rescans");
    assert!(generations > 20 && came > 40 && gone > 20, "too little happened");
    assert!(replaced.get(&FILTERS) > Some(&5) && replaced.get(&MAP) > Some(&3), "too few rescans");
    server.finish();
    Completion::Completed
}

/// Everything that changes the directory: builds, folds, merges of maps and of additions, stretches that are opened and
/// closed in part, rebuilds in whole and in part, a table that is cut short. Returns where its WAL begins and ends, and
/// the file of the index.
fn maintain(session: &mut Session) -> (String, String, String) {
    session.run(FAILING);
    session.run(
        "CREATE TABLE t (k int, d int, pad text DEFAULT repeat('x', 50)) WITH (fillfactor = 80);
         INSERT INTO t SELECT i, i / 10 FROM generate_series(1, 12000) i;
         CREATE INDEX t_skip ON t USING skip (same(k), d, (k + 1) int4_skip_ops (layout = filters))
             WITH (layout = map, pages_per_range = 1, autosummarize = off, delta_limit = 1048576)",
    );
    let at = "SELECT pg_current_wal_insert_lsn()";
    let start = session.one(at);
    session.run("INSERT INTO t SELECT i, i / 10 FROM generate_series(12001, 13000) i");
    session.run("INSERT INTO broken SELECT generate_series(12100, 12700, 5)");
    let summarize = "SELECT skip_summarize('t_skip')";
    session.run(summarize);
    // Of the stretch that is open, the middle is closed, then the rest.
    for part in ["k BETWEEN 12300 AND 12450", "k > 12600", "true"] {
        session.run(&format!("DELETE FROM broken WHERE {part}"));
        session.run(summarize);
    }
    // The table ends in the middle of a map, before an addition to it. Later all but a few pages are cut off.
    let tail = "ctid >= format('(%s,0)', (pg_relation_size('t') / 8192 * 0.8)::int)::tid";
    session.run(&format!("UPDATE t SET d = d + 20000 WHERE {tail} AND k % 5 = 0"));
    session.run(summarize);
    cut(session, 0.7);
    for round in 0..8 {
        session.run(&format!("UPDATE t SET d = d + 10000, k = k + 100000 WHERE k % 41 = {round}"));
        session.run("INSERT INTO t SELECT 50000 + i, i FROM generate_series(1, 150) i");
        session.run(summarize);
        session.run("VACUUM (TRUNCATE off) t");
    }
    cut(session, 0.1);
    for (round, pages) in [40, 90, -1].into_iter().enumerate() {
        session.run("SET pg_skip.vacuum_rebuild_pages = 0");
        for part in 1..=3 {
            session.run(&format!("UPDATE t SET k = k + 1000000 * {part} + {round}, d = d + 10000"));
            session.run("VACUUM (TRUNCATE off) t");
        }
        session.run(&format!("SET pg_skip.vacuum_rebuild_pages = {pages}"));
        for _ in 0..2 {
            session.run("VACUUM (TRUNCATE off) t");
        }
        session.run("SELECT skip_summarize('t_skip')");
        sound(session, "t_skip");
    }
    let file = session.one(
        "SELECT '1663/' || oid || '/' || pg_relation_filenode('t_skip')
         FROM pg_database WHERE datname = current_database()",
    );
    let end = session.one(at);
    session.run("CREATE TABLE flushed ()"); // a commit writes all WAL before it
    (start, end, file)
}

/// Leaves a part of the table, and lets it grow again.
fn cut(session: &mut Session, part: f64) {
    let end = session.one(&format!("SELECT (pg_relation_size('t') / 8192 * {part})::int"));
    session.run(&format!("DELETE FROM t WHERE ctid >= '({end},0)'"));
    session.run("VACUUM t");
    session.run("SELECT skip_summarize('t_skip')");
    session.run("INSERT INTO t SELECT 70000 + i, i FROM generate_series(1, 1000) i");
    session.run("VACUUM t");
    sound(session, "t_skip");
}

/// The directory, image by image.
#[derive(Default)]
struct History {
    /// The entries of each slot: by block and slot.
    slots: BTreeMap<(u32, usize), Option<Entry>>,
    generation: u64,
    /// Whether the generation was raised after the last entry came.
    is_raised: bool,
    /// Open stretches and rescans that came since the generation was raised.
    opened: Vec<Entry>,
    /// Whether the generation was raised after the last segment went.
    is_raised_since_gone: bool,
    /// How many segments of each kind went during a rescan of their ranges.
    replaced: BTreeMap<u8, u32>,
    generations: u32,
    came: u32,
    gone: u32,
}

impl History {
    fn follow(&mut self, lsn: &str, block: u32, page: &[u8]) {
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
        let kind = u16::from_le_bytes(page[8190..8192].try_into().unwrap());
        if kind == 0xFA01 && long(24 + 32) > self.generation {
            (self.generation, self.is_raised, self.is_raised_since_gone) = (long(24 + 32), true, true);
            self.opened.clear();
            self.generations += 1;
        }
        if kind != 0xFA02 {
            return;
        }
        for slot in 0..word(24 + 4) as usize {
            let at = 24 + 8 + 32 * slot;
            let is_followed = page[at] == FILTERS || (MAP..=RESCAN).contains(&page[at]);
            let entry = is_followed.then(|| Entry {
                kind: page[at],
                column: page[at + 2],
                keys: keys_of(page[at + 3]),
                first_range: word(at + 4),
                width: word(at + 8),
                id: long(at + 24),
            });
            let before = self.slots.insert((block, slot), entry).flatten();
            if before != entry {
                before.into_iter().for_each(|gone| self.check_gone(lsn, &gone));
                entry.into_iter().for_each(|came| self.check_came(lsn, &came));
            }
        }
    }

    fn check_gone(&mut self, lsn: &str, gone: &Entry) {
        self.gone += 1;
        if gone.is_of_maps() {
            self.check_gone_of_maps(lsn, gone);
        }
        if gone.is_segment() {
            self.is_raised_since_gone = false;
            let live = || self.slots.values().flatten();
            if let Some(rescan) = live().find(|entry| entry.replaces(gone)) {
                let is_new = |entry: &&Entry| entry.is_segment() && entry.id >= rescan.id;
                let covers = |range: u32| {
                    let one = Entry { first_range: range, width: 1, ..*gone };
                    let new = live().filter(is_new).filter(|entry| entry.overlaps(&one));
                    gone.keys & !new.fold(0, |keys, entry| keys | entry.keys) == 0
                };
                let is_covered = (gone.first_range..gone.first_range + gone.width).all(covers);
                assert!(gone.id >= rescan.id || is_covered, "{lsn}: {gone:?} went, and is not replaced");
                *self.replaced.entry(gone.kind).or_default() += 1;
            }
        }
        if gone.kind == RESCAN && gone.width > 0 {
            // An insert that finds no rescan must find no segment that was replaced either.
            let of_it = || self.slots.values().flatten().filter(|entry| gone.replaces(entry));
            let old = of_it().find(|entry| entry.id < gone.id && entry.kind != ADDITION);
            let new = of_it().find(|entry| entry.id >= gone.id);
            assert!(old.is_none() || new.is_none(), "{lsn}: {gone:?} went before {old:?}; there is {new:?}");
            assert!(
                self.is_raised_since_gone,
                "{lsn}: {gone:?} went, and no generation raised since a segment did"
            );
        }
    }

    /// Whoever has missed what replaces the entry must notice that the generation rose.
    fn check_gone_of_maps(&self, lsn: &str, gone: &Entry) {
        assert!(
            self.is_raised,
            "{lsn}: {gone:?} was taken out, and no generation raised since the last entry came"
        );
        // What an addition holds is still somewhere, as long as there is a map that would rule it out.
        let live = || self.slots.values().flatten().filter(|entry| entry.overlaps(gone));
        let newer = live().filter(|entry| entry.is_segment() && entry.id > gone.id);
        let is_replaced = newer.fold(0, |keys, entry| keys | entry.keys) == u64::MAX;
        let is_needed = live().any(|entry| entry.kind == MAP);
        assert!(
            gone.kind != ADDITION || is_replaced || !is_needed,
            "{lsn}: {gone:?} was taken out from above a map"
        );
    }

    /// Whoever sees a map must also see the stretches in it that are open. And before the table is read for new
    /// segments, inserts must know of it.
    fn check_came(&mut self, lsn: &str, came: &Entry) {
        self.came += 1;
        let is_late = |open: &&Entry| match open.kind {
            RESCAN => open.replaces(came),
            _ => came.kind == MAP && open.overlaps(came),
        };
        let late = self.opened.iter().find(is_late);
        assert!(late.is_none(), "{lsn}: {came:?} was published, and no generation raised since {late:?} was");
        if matches!(came.kind, OPEN | RESCAN) {
            self.opened.push(*came);
        }
        self.is_raised &= !came.is_of_maps();
    }
}
