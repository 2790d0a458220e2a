//! Segments move to the front of the index, and VACUUM cuts the end of the file off.
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database};
use crate::standby::{catch_up, replicated};
use crate::wal::{dumped, lsn, position};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::{Server, install, must};
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

alone!(free_blocks_are_given_back);
/// What rebuilding leaves free at the end of the index is given back to the file system, unless somebody uses the index
/// at the moment. A standby follows.
fn free_blocks_are_given_back() {
    let (primary, standby) = replicated(&[]);
    let (mut session, mut other) = (primary.connect("skip_template"), primary.connect("skip_template"));
    let mut reader = standby.connect("skip_template");
    session.run(
        "CREATE TABLE t (id int, k int, d int);
         INSERT INTO t SELECT i, i, i + 5 FROM generate_series(1, 200000) i;
         CREATE INDEX t_skip ON t USING skip (k, d)
             WITH (layout = map, pages_per_range = 1, autosummarize = off);
         DELETE FROM t WHERE id % 10 <> 0;
         -- Their entries go to a page behind all segments.
         UPDATE t SET k = -k WHERE id % 1000 = 0",
    );
    let pages = "SELECT pg_relation_size('t_skip') / 8192";
    let grown = session.number(pages);
    // Sessions that know the size of the index, and whose plan does not ask for it again.
    catch_up(&mut session, &mut reader);
    let prepared = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
        PREPARE p(int) AS SELECT count(*) FROM t WHERE k = $1";
    for known in [&mut other, &mut reader] {
        known.run(prepared);
        assert_eq!(known.one("EXECUTE p(199990)"), "1");
    }
    other.run("BEGIN; SET LOCAL enable_seqscan = off; SELECT count(*) FROM t WHERE k = 5");
    session.run("VACUUM t");
    assert!(session.number(pages) >= grown, "the file was cut off while somebody used it");
    other.run("COMMIT");
    session.run("VACUUM t");
    let after = session.number(pages);
    println!("{grown} pages, {after} after VACUUM");
    assert!(after < grown / 3.0, "{after} pages of {grown}");
    catch_up(&mut session, &mut reader);
    assert_eq!(reader.number(pages), after, "on the standby");
    for known in [&mut other, &mut reader] {
        assert_eq!(known.one("EXECUTE p(199990)"), "1");
        assert_eq!(known.one("EXECUTE p(199991)"), "0");
        known.run("RESET plan_cache_mode; RESET enable_seqscan");
    }
    for session in [&mut session, &mut reader] {
        found_after_delete(session);
    }
    // It grows again.
    session.run("INSERT INTO t SELECT i, i, i + 5 FROM generate_series(200001, 201000) i");
    session.run("VACUUM t");
    catch_up(&mut session, &mut reader);
    for session in [&mut session, &mut reader] {
        found_after_delete(session);
    }
    drop((session, other, reader));
    standby.finish();
    primary.finish();
}

alone!(cutting_off_waits_for_readers_of_a_standby);
/// VACUUM cuts off the index and the table in one transaction. A standby must lock them in the order in which readers
/// do. It locked the index first: a transaction that had read the table then waited for the index, and replay for the
/// table, and the reader's query ended with "deadlock detected".
fn cutting_off_waits_for_readers_of_a_standby() {
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1", "deadlock_timeout=200ms"]);
    let mut session = primary.connect("skip_template");
    let (mut reader, mut watcher) = (standby.connect("skip_template"), standby.connect("skip_template"));
    session.run(
        "CREATE TABLE t (id int, k int, d int) WITH (autovacuum_enabled = off);
         INSERT INTO t SELECT i, i, i + 5 FROM generate_series(1, 200000) i;
         CREATE INDEX t_skip ON t USING skip (k, d)
             WITH (layout = map, pages_per_range = 1, autosummarize = off);
         DELETE FROM t WHERE id % 10 <> 0 OR id > 100000",
    );
    catch_up(&mut session, &mut reader);
    let sizes = "SELECT pg_relation_size('t') || ' ' || pg_relation_size('t_skip')";
    let before = session.one(sizes);
    reader.run("BEGIN; LOCK TABLE t IN ACCESS SHARE MODE");
    session.run("VACUUM t");
    let after = session.one(sizes);
    println!("sizes of table and index: {before}, {after} after VACUUM");
    let is_cut = before.split(' ').zip(after.split(' ')).all(|(before, after)| {
        before.parse::<u64>().expect("a size") > after.parse::<u64>().expect("a size")
    });
    assert!(is_cut, "table and index must both be cut off: {before}, {after}");
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass";
    let end = Instant::now() + Duration::from_secs(60);
    while watcher.number(waits) == 0.0 {
        assert!(Instant::now() < end, "replay does not wait for the reader");
        session.run("SELECT pg_logical_emit_message(true, 'pg_skip', '')");
        std::thread::sleep(Duration::from_millis(10));
    }
    same(&mut reader, "t", &Question::using("t_skip", "k = 70"));
    reader.run("COMMIT");
    catch_up(&mut session, &mut reader);
    assert_eq!(reader.one(sizes), after, "on the standby");
    for session in [&mut session, &mut reader] {
        same(session, "t", &Question::using("t_skip", "k = 70"));
        sound(session, "t_skip");
    }
    drop((session, reader, watcher));
    standby.finish();
    primary.finish();
}

alone!(no_transaction_ids_are_left);
/// To cut off an index takes a transaction ID. Where none are left, VACUUM must not fail for want of one: it is what
/// the server asks for then.
fn no_transaction_ids_are_left() {
    // So long before an ID would be the oldest one again, the server gives out no more (SetTransactionIdLimit).
    const RESERVED: u64 = 3_000_000;
    const PER_PAGE: u64 = 32_768;
    const PAGES_A_SEGMENT: u64 = 32;
    let server = Server::start(&["wal_level=replica"]);
    shared::prepare(&server);
    let mut session = server.connect("postgres");
    let oldest = session.number("SELECT min(datfrozenxid::text::bigint) FROM pg_database") as u64;
    drop(session);
    server.stop();
    let next = oldest + (1 << 31) - 1 - RESERVED - 1000;
    must(install().command("pg_resetwal").args(["-x", &next.to_string(), "-D"]).arg(server.data()));
    let states = server.data().join(format!("pg_xact/{:04X}", next / PER_PAGE / PAGES_A_SEGMENT));
    std::fs::write(&states, vec![0; PAGES_A_SEGMENT as usize * 8192]).expect("the states of transactions");
    install().own(&states);
    server.restart();
    // The server now starts autovacuum by itself. It waits for these locks, so that two databases keep their age.
    let holding = ["template1", "postgres"].map(|database| {
        let mut session = server.connect(database);
        session.run("BEGIN; LOCK TABLE pg_catalog.pg_amop IN SHARE UPDATE EXCLUSIVE MODE");
        session
    });
    let (mut session, heard) = server.connect_hearing("skip_template");
    session.run(
        "CREATE TABLE t (id int, k int, d int);
         INSERT INTO t SELECT i, i, i + 5 FROM generate_series(1, 200000) i;
         CREATE INDEX t_skip ON t USING skip (k, d)
             WITH (layout = map, pages_per_range = 1, autosummarize = off);
         DELETE FROM t WHERE id % 10 <> 0",
    );
    let all = "DO $$ BEGIN LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";
    assert_eq!(session.error(all).code().code(), "54000");
    let pages = "SELECT pg_relation_size('t_skip') / 8192";
    let grown = session.number(pages);
    heard.lock().expect("what was heard").clear();
    session.run("VACUUM t");
    let warnings = heard.lock().expect("what was heard").clone();
    let has_tried = warnings.iter().any(|warning| warning.contains("could not finish the maintenance"));
    assert!(has_tried, "{warnings:?}");
    assert!(session.number(pages) >= grown, "the file was cut off without a transaction ID");
    found_after_delete(&mut session);
    session.run("VACUUM t");
    drop((session, holding));
    server.finish();
}

on_shared!(tables_that_are_not_cut_off);
/// Where VACUUM must not cut off the table, it does not cut off its indexes either: it takes no lock that a standby's
/// queries would have to wait for.
fn tables_that_are_not_cut_off(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, d int) WITH (autovacuum_enabled = off, vacuum_truncate = off);
         INSERT INTO t SELECT i, i, i + 5 FROM generate_series(1, 200000) i;
         CREATE INDEX t_skip ON t USING skip (k, d)
             WITH (layout = map, pages_per_range = 1, autosummarize = off);
         DELETE FROM t WHERE id % 10 <> 0",
    );
    let pages = "SELECT pg_relation_size('t_skip') / 8192";
    let grown = session.number(pages);
    session.run("VACUUM t");
    session.run("VACUUM t");
    assert!(session.number(pages) >= grown, "the file was cut off");
    found_after_delete(&mut session);
    if session.number("SHOW server_version_num") >= 180_000.0 {
        session.run("ALTER TABLE t RESET (vacuum_truncate); SET vacuum_truncate = off");
        session.run("VACUUM t");
        assert!(session.number(pages) >= grown, "the file was cut off");
        session.run("RESET vacuum_truncate");
    }
    session.run("ALTER TABLE t SET (vacuum_truncate = on)");
    session.run("VACUUM t");
    let after = session.number(pages);
    assert!(after < grown / 3.0, "{after} pages of {grown}");
    found_after_delete(&mut session);
}

fn found_after_delete(session: &mut Session) {
    for condition in
        ["k = 10", "k = 11", "k = -1000", "k = 1000", "d = 199995", "k = 200000", "k = 200500 AND d = 200505"]
    {
        same(session, "t", &Question::using("t_skip", condition));
    }
    sound(session, "t_skip");
}

alone!(the_index_of_a_queue_stays_small);
/// Rows come and go, and VACUUM follows. The index has one segment of each column and few free blocks, like a new one:
/// after each VACUUM, whether the column's map was rebuilt or has pairs of rows that are gone.
fn the_index_of_a_queue_stays_small() {
    let server = Server::start(&["autovacuum=off"]);
    let mut session = server.connect("postgres");
    session.run("CREATE EXTENSION pg_skip");
    session.run(
        "CREATE TABLE q (id int, k uuid, d int);
         INSERT INTO q SELECT i, md5('k' || i)::uuid, i / 100 FROM generate_series(1, 100000) i;
         CREATE INDEX q_skip ON q USING skip (k, d)",
    );
    let size =
        |session: &mut Session, index| session.number(&format!("SELECT pg_relation_size('{index}') / 8192"));
    let new = size(&mut session, "q_skip");
    let mut sizes = Vec::new();
    for round in 1..=9 {
        session.run(&format!(
            "DELETE FROM q WHERE id <= {round} * 10000;
             INSERT INTO q SELECT i, md5('k' || i)::uuid, i / 100
             FROM generate_series(90001 + {round} * 10000, 100000 + {round} * 10000) i"
        ));
        session.run("VACUUM q");
        sizes.push(size(&mut session, "q_skip"));
    }
    println!("{sizes:?} pages, a new index has {new}");
    // A map is rebuilt when a fifth of its pairs are of rows that are gone.
    assert!(sizes[1..].iter().all(|&pages| pages < 1.25 * new), "{sizes:?} pages, a new index has {new}");
    let segments = session.number("SELECT max(segments) FROM skip_index_info('q_skip')");
    assert!(segments <= 2.0, "{segments} segments");
    same(&mut session, "q", &Question::using("q_skip", "k = md5('k185000')::uuid OR d = 1850"));
    sound(&mut session, "q_skip");
    drop(session);
    server.finish();
}

alone!(the_table_is_locked_for_the_end_of_vacuum_only);
/// A standby keeps the locks until VACUUM commits. So they are taken when all indexes have been cleaned up.
fn the_table_is_locked_for_the_end_of_vacuum_only() {
    let server = Server::start(&["autovacuum=off"]);
    let mut session = server.connect("postgres");
    session.run("CREATE EXTENSION pg_skip");
    session.run(
        "CREATE TABLE t (a int, b int); INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i;
         CREATE INDEX t_first ON t USING skip (a) WITH (pages_per_range = 1, layout = map);
         CREATE INDEX t_second ON t USING skip (b) WITH (pages_per_range = 1, layout = map);
         DELETE FROM t WHERE a % 10 > 0",
    );
    let at = "SELECT pg_current_wal_flush_lsn()";
    let start = session.one(at);
    session.run("VACUUM t");
    let end = session.one(at);
    let of = |only: [&str; 2]| dumped(&server, &start, &end, only);
    let file = session.one(
        "SELECT '1663/' || oid || '/' || pg_relation_filenode('t_second')
         FROM pg_database WHERE datname = current_database()",
    );
    let table = session.one("SELECT 't'::regclass::oid");
    let is_lock = |record: &&String| record.contains("LOCK") && record.contains(&format!("rel {table}"));
    let (locks, pages) = (of(["-r", "Standby"]), of(["-R", &file]));
    let lock = locks.iter().find(is_lock).expect("the table was not locked");
    // The map that is rebuilt.
    let page = pages.iter().rev().find(|record| record.contains("desc: FPI")).expect("a page of a segment");
    assert!(position(lsn(lock)) > position(lsn(page)), "{lock} before {page}");
    let cuts = of(["-r", "Storage"]).iter().filter(|record| record.contains("TRUNCATE")).count();
    assert_eq!(cuts, 2, "both indexes are cut off");
    drop(session);
    server.finish();
}
