//! Every prefix of the WAL of maintenance is a state from which a promoted server goes on rightly.
//!
//! A server with an index is stopped and its data are copied. Then it changes the table and maintains the index. A
//! record of the index is picked from the WAL of this. A server starts from the copy, replays WAL up to this record and
//! is promoted. It has what a standby has when its primary is lost at this record, or a server after a crash of the
//! operating system: nothing but what is in WAL. The index must be sound there. It must stay so while rows come, and
//! when the next maintenance takes up what was cut off.
use crate::registry::alone;
use crate::shared;
use crate::wal::{dumped, field, lsn, position};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::compare::sound;
use pg_skip_tests::server::{Server, install};
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The table as it is copied. Its pages have room for rows that move among summarized ranges, some of which the delta
/// holds already. Values of `b` that are long are out of line.
const BASE: &str = "CREATE TABLE t (id int, a int, b text) WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 4000) i;
    CREATE INDEX t_skip ON t USING skip (a, b)
        WITH (pages_per_range = 2, autosummarize = off, delta_limit = 1048576);
    UPDATE t SET a = a + 100000, b = 'u' || b WHERE id % 13 = 0";

/// The table before it grows by inserts, which merge segments in steps of few pages, and fold a short delta.
const GROWING: &str = "CREATE TABLE t (id int, a int, b text) WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 2000) i;
    CREATE INDEX t_skip ON t USING skip (a, b) WITH (pages_per_range = 1, delta_limit = 8192)";

/// Maps whose high rate is reset: as the table grows, new maps get longer fingerprints.
const OF_FORMS: &str = "CREATE TABLE t (id int, a int, b text) WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 2000) i;
    CREATE INDEX t_skip ON t USING skip (a, b)
        WITH (pages_per_range = 1, layout = map, delta_limit = 8192, false_positive_rate = 0.2);
    ALTER INDEX t_skip RESET (false_positive_rate)";

/// A table whose layouts are chosen only when it grows. Maps tell parts of its ranges apart.
const CHOOSING: &str = "CREATE TABLE t (id int, a int, b text) WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    CREATE INDEX t_skip ON t USING skip (a int4_skip_ops (pages_per_range = 1), b text_skip_ops (pages_per_range = 2))
        WITH (pages_per_range = 4, delta_limit = 8192)";

/// Maps that are divided by key as finely as can be.
const DIVIDED: &str = "CREATE TABLE t (id int, a int, b text) WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    ALTER DATABASE skip_template SET pg_skip.key_part_pages = 1;
    ALTER DATABASE skip_template SET pg_skip.merge_pages = 1;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 9000) i;
    CREATE INDEX t_skip ON t USING skip (a, b) WITH (pages_per_range = 1, layout = map, delta_limit = 8192)";

/// A map that is divided by key, to which another one comes.
const TO_SUMMARIZE: &str = "CREATE TABLE t (id int, a int, b text) WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    ALTER DATABASE skip_template SET pg_skip.key_part_pages = 1;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 9000) i;
    CREATE INDEX t_skip ON t USING skip (a, b) WITH (pages_per_range = 1, layout = map, autosummarize = off)";

/// Bounds beside an ordinary column of the same values.
const BOUNDED: &str = "CREATE TABLE t (id int, a int, b text COLLATE \"C\") WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 4000) i;
    CREATE INDEX t_skip ON t USING skip (a int4_minmax_skip_ops, b text_minmax_skip_ops, id)
        WITH (pages_per_range = 1, autosummarize = off, delta_limit = 1048576);
    UPDATE t SET a = a + 100000, b = 'u' || b WHERE id % 13 = 0";

/// The same, before it grows by inserts.
const BOUNDED_GROWING: &str = "CREATE TABLE t (id int, a int, b text COLLATE \"C\") WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 2000) i;
    CREATE INDEX t_skip ON t USING skip (a int4_minmax_skip_ops, b text_minmax_skip_ops, id)
        WITH (pages_per_range = 1, delta_limit = 8192)";

/// So many ranges that there is a page of summaries: a row fills half of a block.
const BOUNDED_WIDELY: &str =
    "CREATE TABLE t (id int, a int, b text COLLATE \"C\", filler text DEFAULT repeat('x', 3500))
        WITH (fillfactor = 60);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL, ALTER COLUMN filler SET STORAGE PLAIN;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 800) i;
    CREATE INDEX t_skip ON t USING skip (a int4_minmax_skip_ops, b text_minmax_skip_ops, id)
        WITH (pages_per_range = 1, autosummarize = off, delta_limit = 1048576);
    UPDATE t SET a = a + 100000, b = 'u' || b WHERE id % 13 = 0";

/// A table whose index is mostly free once VACUUM has rebuilt its maps. The delta has a page behind them.
const SPARSE: &str = "CREATE TABLE t (id int, a int, b text);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 20000) i;
    CREATE INDEX t_skip ON t USING skip (a, b) WITH (pages_per_range = 1, layout = map, autosummarize = off);
    DELETE FROM t WHERE id % 10 NOT IN (0, 3);
    UPDATE t SET a = -a WHERE id % 1000 = 0";

/// A queue. Its maps are not divided by key, so the delta's spare pages and free blocks lie between larger segments.
const QUEUE: &str = "CREATE TABLE t (id int, a int, b text);
    ALTER TABLE t ALTER COLUMN b SET STORAGE EXTERNAL;
    ALTER DATABASE skip_template SET pg_skip.key_part_pages = 1000;
    ALTER DATABASE skip_template SET pg_skip.merge_pages = 32;
    INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 16000) i;
    CREATE INDEX t_skip ON t USING skip (a, b) WITH (pages_per_range = 1, layout = map)";

alone!(every_prefix_of_maintenance);
fn every_prefix_of_maintenance() {
    every_prefix(BASE, maintain, 18);
}

alone!(every_prefix_of_growth);
fn every_prefix_of_growth() {
    every_prefix(GROWING, grow, 8);
}

alone!(every_prefix_of_growth_of_forms);
/// The meta page says how new maps are made before any of them is there.
fn every_prefix_of_growth_of_forms() {
    every_prefix(OF_FORMS, grow_into_forms, 16);
}

alone!(every_prefix_with_a_choice);
fn every_prefix_with_a_choice() {
    every_prefix(CHOOSING, grow, 8);
}

alone!(every_prefix_with_key_parts);
fn every_prefix_with_key_parts() {
    every_prefix(DIVIDED, divide, 8);
}

alone!(every_prefix_of_a_divided_summary);
/// The maps of the key parts of new ranges are published one after another. If only some are, these ranges must not
/// become a part of a merged map, which would exclude them for the other keys.
fn every_prefix_of_a_divided_summary() {
    every_prefix(TO_SUMMARIZE, summarize_divided, 12);
}

alone!(every_prefix_of_cutting_off);
/// The directory forgets the blocks before they are cut off: after its record and no more, the file is as long as it
/// was, and nothing refers to its end.
fn every_prefix_of_cutting_off() {
    every_prefix(SPARSE, cut_off, 40);
}

alone!(every_prefix_of_a_queue);
/// Segments move into the delta's spare pages before the end is cut off, while nobody else uses the table.
fn every_prefix_of_a_queue() {
    every_prefix(QUEUE, queue, 20);
}

alone!(every_prefix_of_maintenance_of_bounds);
fn every_prefix_of_maintenance_of_bounds() {
    every_prefix(BOUNDED, maintain, 8);
}

alone!(every_prefix_of_maintenance_of_wide_bounds);
/// The summary of a page never excludes what the page has.
fn every_prefix_of_maintenance_of_wide_bounds() {
    every_prefix(BOUNDED_WIDELY, fold_only, 16);
}

alone!(every_prefix_of_growth_of_bounds);
fn every_prefix_of_growth_of_bounds() {
    every_prefix(BOUNDED_GROWING, grow, 4);
}

/// Promotes copies of the server at this number of records of the WAL of `change`, at equal distances.
fn every_prefix(base: &str, change: fn(&Server) -> Maintained, states: usize) {
    // Without full pages changes are replayed as such, and each page is then compared with the primary's.
    let primary = Server::start(&[
        "wal_keep_size=1GB",
        "checkpoint_timeout=1h",
        "full_page_writes=off",
        "wal_consistency_checking=generic",
        "pg_skip.merge_pages=2",
        "pg_skip.key_part_pages=3",
    ]);
    shared::prepare(&primary);
    primary.connect("skip_template").run(base);
    primary.stop();
    let base = primary.copy(&[]);
    primary.restart();
    let maintained = change(&primary);
    primary.stop();
    let records = ends(&records(&primary, &maintained));
    let sample = sample(&records, cases(states));
    println!("{} of {} states", sample.len(), records.len());
    for record in sample {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let promoted = promoted(&base, &primary, lsn(record));
            let is_early = position(lsn(record)) < position(&maintained.rebuilt);
            go_on(&mut promoted.connect("skip_template"), is_early);
            promoted.finish();
        }));
        if let Err(panic) = outcome {
            panic!("{}\npromoted after the record {record}", shared::message(&*panic));
        }
    }
}

/// Where the WAL of maintenance begins and ends, and the file of the index.
struct Maintained {
    start: String,
    /// Where updates of all rows begin, after which filters and maps are rebuilt.
    rebuilt: String,
    end: String,
    file: String,
}

/// Changes the table and maintains the index, so that the delta is folded, ranges are summarized, left open and closed,
/// segments are merged and their blocks used again, filters and maps are rebuilt in part and as a whole, and ranges
/// behind the table's end are forgotten.
fn maintain(server: &Server) -> Maintained {
    let mut session = server.connect("skip_template");
    let mut other = server.connect("skip_template");
    let at = "SELECT pg_current_wal_insert_lsn()";
    let start = session.one(at);
    session.run("INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(4001, 6000) i");
    // Whether the transaction's long value stays is not known yet: its range is left open.
    other.run("BEGIN; INSERT INTO t SELECT 0, 0, repeat('long', 3000)");
    session.run("SELECT skip_summarize('t_skip')");
    other.run("COMMIT");
    let summarized = "SELECT min(summarized - ranges) FROM skip_index_info('t_skip')";
    assert!(session.number(summarized) < 0.0, "all ranges are summarized");
    for sql in [
        "INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(6001, 8000) i",
        "UPDATE t SET a = a + 100000, b = 'u' || b WHERE id % 13 = 1",
        "SELECT skip_summarize('t_skip')",
        "UPDATE t SET a = a + 100000, b = 'u' || b WHERE id % 13 = 2",
    ] {
        session.run(sql);
    }
    let rebuilt = session.one(at);
    for sql in [
        "SET pg_skip.vacuum_rebuild_pages = 0",
        "UPDATE t SET a = a + 200000, b = 'v' || right(b, -1)",
        "VACUUM t",
        "UPDATE t SET a = a + 300000, b = 'w' || right(b, -1)",
        "VACUUM t",
        "UPDATE t SET a = a + 400000, b = 'x' || right(b, -1)",
        "VACUUM t",
        "SET pg_skip.vacuum_rebuild_pages = 30",
        "VACUUM t",
        "SELECT skip_summarize('t_skip')",
        // Less than half of the table remains, and so of the segments.
        "DELETE FROM t WHERE ctid > '(34,0)'",
        "VACUUM t",
        "INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(8001, 8100) i",
        "VACUUM t",
    ] {
        session.run(sql);
    }
    let behind = "SELECT max(max_width - ranges) FROM skip_index_info('t_skip')";
    assert!(session.number(behind) <= 0.0, "a segment goes on behind the table's end");
    let file = file(&mut session);
    Maintained { start, rebuilt, end: session.one(at), file }
}

/// Folds a delta.
fn fold_only(server: &Server) -> Maintained {
    let mut session = server.connect("skip_template");
    let at = "SELECT pg_current_wal_insert_lsn()";
    let start = session.one(at);
    session.run("SELECT skip_summarize('t_skip')");
    let end = session.one(at);
    // The deltas of new primaries find pages that were used before.
    Maintained { rebuilt: start.clone(), start, end, file: file(&mut session) }
}

/// Summarizes many ranges at once, so that their map is divided by key.
fn summarize_divided(server: &Server) -> Maintained {
    server
        .connect("skip_template")
        .run("INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(9001, 39000) i");
    let maintained = fold_only(server);
    let parts = "SELECT count(DISTINCT key_part) FROM skip_index_segments('t_skip') WHERE attnum = 1";
    assert!(server.connect("skip_template").number(parts) >= 4.0, "maps are not divided by key");
    maintained
}

/// Cuts off the end of the index, which was left free while somebody used the table.
fn cut_off(server: &Server) -> Maintained {
    let mut session = server.connect("skip_template");
    let mut other = server.connect("skip_template");
    other.run("BEGIN; LOCK TABLE t IN ACCESS SHARE MODE");
    session.run("VACUUM t");
    other.run("COMMIT");
    let (at, size) = ("SELECT pg_current_wal_insert_lsn()", "SELECT pg_relation_size('t_skip')");
    let (start, before) = (session.one(at), session.number(size));
    session.run("VACUUM t");
    let after = session.number(size);
    assert!(after < before / 2.0, "{before} bytes, {after} after VACUUM");
    Maintained { rebuilt: start.clone(), start, end: session.one(at), file: file(&mut session) }
}

/// Rows come and go until VACUUM moves segments and cuts off the end while it has locked the table.
fn queue(server: &Server) -> Maintained {
    let mut session = server.connect("skip_template");
    // pg_waldump reads no more of a running server.
    let at = "SELECT pg_current_wal_flush_lsn()";
    for round in 1..=9 {
        session.run(&format!(
            "DELETE FROM t WHERE id <= {round} * 1600;
             INSERT INTO t SELECT i, i, 'b' || i
             FROM generate_series(14401 + {round} * 1600, 16000 + {round} * 1600) i"
        ));
        let before = session.one(at);
        session.run("VACUUM t");
        let end = session.one(at);
        let locks = dumped(server, &before, &end, ["-r", "Standby"]);
        let Some(lock) = locks.iter().find(|record| record.contains("LOCK")) else { continue };
        let start = lsn(lock).to_owned();
        let alone = Maintained { rebuilt: start.clone(), start, end, file: file(&mut session) };
        let records = records(server, &alone);
        let of = |kind: &str| records.iter().filter(|record| record.contains(kind)).count();
        let (pages, cuts) = (of("desc: FPI"), of("TRUNCATE"));
        println!("round {round}: {} records, {pages} pages of segments, cut off {cuts} times", records.len());
        if pages > 0 && cuts > 0 {
            return alone;
        }
    }
    panic!("VACUUM never moved a segment while it had locked the table");
}

/// Inserts rows, so that segments are merged in steps, and changes rows of those that are being merged.
fn grow(server: &Server) -> Maintained {
    let mut session = server.connect("skip_template");
    let at = "SELECT pg_current_wal_insert_lsn()";
    let start = session.one(at);
    for round in 0..40 {
        let first = 2001 + 700 * round;
        session.run(&format!(
            "INSERT INTO t SELECT i, i, 'b' || i FROM generate_series({first}, {first} + 699) i"
        ));
        session.run(&format!("UPDATE t SET a = a + 100000, b = 'u' || b WHERE id % 41 = {round}"));
    }
    let (file, end) = (file(&mut session), session.one(at));
    // The delta may have pages already that are used again.
    Maintained { rebuilt: start.clone(), start, end, file }
}

/// Grows the table until each column has maps of several forms.
fn grow_into_forms(server: &Server) -> Maintained {
    let maintained = grow(server);
    let forms = "SELECT min(forms) FROM (
        SELECT count(DISTINCT fingerprint_bits) AS forms FROM skip_index_segments('t_skip') GROUP BY attnum) AS each";
    assert!(server.connect("skip_template").number(forms) >= 2.0, "forms of the maps of a column");
    maintained
}

/// Grows the table while its maps are merged key part by key part, rebuilds them, cuts the table short and lets it grow
/// again.
fn divide(server: &Server) -> Maintained {
    let mut session = server.connect("skip_template");
    let at = "SELECT pg_current_wal_insert_lsn()";
    let start = session.one(at);
    let mut next = 9001;
    let mut grow = |session: &mut Session, rounds: u32| {
        for _ in 0..rounds {
            let last = next + 899;
            session
                .run(&format!("INSERT INTO t SELECT i, i, 'b' || i FROM generate_series({next}, {last}) i"));
            session.run(&format!("UPDATE t SET a = a + 100000, b = 'u' || b WHERE id % 41 = {next} % 41"));
            next = last + 1;
        }
    };
    grow(&mut session, 8);
    session.run("SELECT skip_summarize('t_skip')");
    grow(&mut session, 4);
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    session.run("UPDATE t SET a = a + 200000, b = 'v' || right(b, -1) WHERE id % 3 > 0");
    session.run("VACUUM t");
    grow(&mut session, 4);
    session.run("DELETE FROM t WHERE ctid > '(140,0)'");
    session.run("VACUUM t");
    grow(&mut session, 10);
    session.run("DELETE FROM t WHERE ctid > '(60,0)'");
    session.run("VACUUM t");
    session.run("VACUUM t");
    grow(&mut session, 6);
    session.run("VACUUM t");
    let parts = "SELECT count(DISTINCT key_part) FROM skip_index_segments('t_skip')";
    assert!(session.number(parts) >= 8.0, "maps are not divided by key");
    let (file, end) = (file(&mut session), session.one(at));
    Maintained { rebuilt: start.clone(), start, end, file }
}

fn file(session: &mut Session) -> String {
    session.one(
        "SELECT '1663/' || oid || '/' || pg_relation_filenode('t_skip')
         FROM pg_database WHERE datname = current_database()",
    )
}

/// The records of the index, as pg_waldump describes them: of its blocks, and those that cut its file off.
fn records(server: &Server, maintained: &Maintained) -> Vec<String> {
    let Maintained { start, end, file, .. } = maintained;
    let path = format!("TRUNCATE base/{} ", file.trim_start_matches("1663/"));
    let mut records = dumped(server, start, end, ["-R", file]);
    let cuts = dumped(server, start, end, ["-r", "Storage"]);
    records.extend(cuts.into_iter().filter(|record| record.contains(&path)));
    records.sort_by_key(|record| position(lsn(record)));
    records
}

/// The records at which a prefix may end: all, but of those by which a transaction adds row after row to one page of
/// the delta the last.
fn ends(records: &[String]) -> Vec<String> {
    let place = |record: &String| {
        let block = record.contains(" blk ").then(|| field(record, " blk ").to_owned());
        (field(record, "tx:").to_owned(), block)
    };
    let alike = |one: &String, next: &String| place(one) == place(next) && place(one).0 != "0";
    records.chunk_by(alike).filter_map(|alike| alike.last().cloned()).collect()
}

/// The first, the last, one that leaves a new page at the end of the file unwritten, and others at random places that
/// are spread evenly.
fn sample(records: &[String], count: usize) -> Vec<&String> {
    let mut rng = Rng::with_seed(seed());
    let last = records.len() - 1;
    let count = count.clamp(1, last);
    let mut places: BTreeSet<usize> =
        (0..count).map(|part| rng.usize(part * last / count..(part + 1) * last / count)).collect();
    places.extend([0, last]);
    places.extend(half_written(records));
    places.into_iter().map(|place| &records[place]).collect()
}

/// The record after which only the last page of a segment is missing. Of all segments of several pages it is the one
/// that lies farthest behind in the file, so its pages are new ones.
fn half_written(records: &[String]) -> Option<usize> {
    let new_page = |record: &str| {
        let block = || field(record, " blk ").parse::<u32>().expect("a block number");
        record.contains("desc: FPI").then(block)
    };
    let pairs = records.windows(2).enumerate().filter_map(|(place, pair)| {
        let block = new_page(&pair[0])?;
        (new_page(&pair[1]) == Some(block + 1)).then_some((block, Reverse(place)))
    });
    let place = pairs.max().map(|(_, Reverse(place))| place);
    assert!(place.is_some() || records.len() < 60, "no segment of several pages");
    place
}

/// A server that has replayed the primary's WAL up to a record, that one too, and is a primary now.
fn promoted(base: &Server, primary: &Server, lsn: &str) -> Server {
    let restore = format!("restore_command=cp '{}/%f' '%p'", primary.data().join("pg_wal").display());
    let target = format!("recovery_target_lsn={lsn}");
    // Before it is promoted it takes no sessions.
    let promoted = base.copy(&[&restore, &target, "recovery_target_action=promote", "hot_standby=off"]);
    let signal = promoted.data().join("recovery.signal");
    fs::write(&signal, "").expect("recovery.signal");
    install().own(&signal);
    promoted.restart();
    promoted
}

/// What happens on a new primary. If `is_early`, too few pages were in the delta before to be used again now.
fn go_on(session: &mut Session, is_early: bool) {
    let size = "SELECT pg_relation_size('t_skip')";
    Way::skip_scan().set(session);
    right(session);
    let before = session.number(size);
    session.run("UPDATE t SET a = a + 1000000, b = 'p' || left(b, 8) WHERE id % 2 = 0");
    session.run("INSERT INTO t SELECT i, i, 'q' || i FROM generate_series(9001, 9100) i");
    assert!(!is_early || session.number(size) > before, "the delta has added no pages to the file");
    right(session);
    session.run("SELECT skip_summarize('t_skip')");
    right(session);
    session.run("VACUUM t");
    sound(session, "t_skip");
}

/// Fails unless the index is sound, and finds some of the rows, all of which `sound` has looked up in its pages.
fn right(session: &mut Session) {
    sound(session, "t_skip");
    for column in ["a", "b"] {
        let lookups = format!(
            "SELECT key, rows, found
             FROM (SELECT {column} AS key, count(*) AS rows FROM t WHERE id % 200 IN (0, 13) GROUP BY 1) AS keys,
                 LATERAL (SELECT count(*) AS found FROM t WHERE {column} = key) AS lookup
             WHERE rows <> found"
        );
        let plan = session.plan(&lookups);
        assert!(skips(&plan), "no Skip Index Scan:\n{plan}");
        let wrong = session.rows(&lookups);
        assert!(wrong.is_empty(), "{column}, its rows, and those found by the index: {wrong:?}");
    }
}
