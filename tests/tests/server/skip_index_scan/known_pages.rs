//! Pages that a session has read before, in vain: whatever happens to their rows, nothing is lost.
use crate::registry::{alone, on_shared};
use crate::shared::{Database, together};
use crate::standby::{catch_up, replicated};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::explain::executed;
use pg_skip_tests::seed;
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A table of a few pages with room for changes, and an index that summarizes none of it.
fn create(session: &mut Session, kind: &str) {
    session.run(&format!(
        "CREATE {kind} TABLE t (id int, u uuid, i int, b bigint, v text) WITH (fillfactor = 60);
         CREATE INDEX t_skip ON t USING skip (u, i, b, v) WITH (autosummarize = off);
         INSERT INTO t SELECT n, md5(n::text)::uuid, n, n, 'value ' || n FROM generate_series(1, 400) n"
    ));
}

/// A condition for each type of column, on the value of row `number`.
fn conditions(number: u32) -> [String; 4] {
    [
        format!("u = md5('{number}')::uuid"),
        format!("i = {number}"),
        format!("b = {number}"),
        format!("v = 'value {number}'"),
    ]
}

/// The numbers of the rows with a value.
fn found(session: &mut Session, condition: &str) -> Vec<String> {
    session.column(&format!("SELECT id FROM t WHERE {condition} ORDER BY id"))
}

/// Looks absent values up until the session knows the pages.
fn learn(session: &mut Session) {
    for number in [900_001, 900_002, 900_003] {
        for condition in conditions(number) {
            assert_eq!(found(session, &condition), Vec::<String>::new(), "{condition}");
        }
    }
}

/// Compares lookups of rows with these numbers with those of a session that reads the whole table.
#[track_caller]
fn same(reader: &mut Session, other: &mut Session, numbers: &[u32], step: &str) {
    for condition in numbers.iter().flat_map(|&number| conditions(number)) {
        assert_eq!(found(reader, &condition), found(other, &condition), "{condition} after {step}");
    }
}

/// A session by Skip Index Scans, and one by sequential scans.
fn both(mut reader: Session, mut other: Session) -> (Session, Session) {
    Way::skip_scan().set(&mut reader);
    Way::plain().set(&mut other);
    (reader, other)
}

on_shared!(read_only_twice);
/// Rows are counted as they looked when the session got to know their page. So the count shows whether the page was
/// read again, after hint bits that no record is written for have told more of the rows.
fn read_only_twice(database: &Database) {
    let (mut reader, mut other) = both(database.session(), database.session());
    other.run(
        "CREATE TABLE t (id int, i int);
         CREATE INDEX t_skip ON t USING skip (i) WITH (autosummarize = off)",
    );
    // Hint bits are logged if they are the first change of a page since a checkpoint.
    other.run("CHECKPOINT");
    other.run("BEGIN; INSERT INTO t SELECT n, n FROM generate_series(1, 50) n; ROLLBACK");
    let removed = |session: &mut Session| {
        let node = executed(session, "SELECT id FROM t WHERE i = 1000");
        node.number("Rows Removed by Index Recheck")
    };
    assert_eq!([(); 2].map(|()| removed(&mut reader)), [50, 50]);
    assert_eq!(other.one("SELECT count(*) FROM t"), "0");
    assert_eq!(removed(&mut reader), 50, "the page is known");
    let mut third = database.session();
    Way::skip_scan().set(&mut third);
    assert_eq!([(); 3].map(|()| removed(&mut third)), [0; 3], "another session does not know it");
    other.run("INSERT INTO t VALUES (1000, 1000)");
    assert_eq!(found(&mut reader, "i = 1000"), ["1000"]);
}

on_shared!(changed_by_others);
fn changed_by_others(database: &Database) {
    for (round, kind) in ["", "UNLOGGED", ""].into_iter().enumerate() {
        let (mut reader, mut other) = both(database.session(), database.session());
        other.run("DROP TABLE IF EXISTS t");
        create(&mut other, kind);
        let mut rng = Rng::with_seed(seed() + round as u64);
        let plan = reader.plan("SELECT id FROM t WHERE i = 7");
        assert!(skips(&plan), "{plan}");
        learn(&mut reader);
        for _ in 0..120 {
            let (number, old) = (rng.u32(1..600), rng.u32(1..600));
            let row = format!("({number}, md5('{number}')::uuid, {number}, {number}, 'value {number}')");
            let set = format!("(id, u, i, b, v) = {row}");
            let step = match rng.u32(0..10) {
                0..3 => format!("INSERT INTO t VALUES {row}"),
                3 | 4 => format!("UPDATE t SET {set} WHERE id = {old}"),
                5 => format!("UPDATE t SET id = {number} WHERE id = {old}"),
                6 => format!("DELETE FROM t WHERE id = {old}"),
                7 => format!("BEGIN; INSERT INTO t VALUES {row}; ROLLBACK"),
                8 => "VACUUM t".to_owned(),
                _ => format!(
                    "BEGIN; TRUNCATE t; INSERT INTO t VALUES {row}; INSERT INTO t VALUES {row}; COMMIT"
                ),
            };
            // A statement at a time, as VACUUM wants it.
            step.split("; ").for_each(|statement| other.run(statement));
            let numbers = [number, old, rng.u32(1..600), 900_004];
            for _ in 0..3 {
                same(&mut reader, &mut other, &numbers, &step);
            }
        }
    }
}

on_shared!(changed_while_they_are_read);
/// A row whose insert was committed before a lookup began is found, while the pages are being learnt.
fn changed_while_they_are_read(database: &Database) {
    let (mut writer, first, second) = (database.session(), database.session(), database.session());
    create(&mut writer, "");
    let committed = AtomicU32::new(0);
    let is_over = AtomicBool::new(false);
    let read = |mut reader: Session, seed: u64| {
        let mut rng = Rng::with_seed(seed);
        Way::skip_scan().set(&mut reader);
        let mut lookups = 0;
        // The writer may fail.
        let end = Instant::now() + Duration::from_secs(60);
        while (!is_over.load(Ordering::Acquire) || lookups < 200) && Instant::now() < end {
            let newest = committed.load(Ordering::Acquire);
            let number = newest - rng.u32(0..=newest.min(20));
            if number > 0 {
                let condition = &conditions(1000 + number)[rng.usize(..4)];
                assert_eq!(found(&mut reader, condition), [(1000 + number).to_string()], "{condition}");
            }
            let absent = &conditions(900_001 + rng.u32(..1000))[rng.usize(..4)];
            assert_eq!(found(&mut reader, absent), Vec::<String>::new(), "{absent}");
            lookups += 1;
        }
    };
    together(vec![
        Box::new(|| read(first, seed())),
        Box::new(|| read(second, seed() + 1)),
        Box::new(|| {
            for number in 1..=1500 {
                let row = 1000 + number;
                writer.run(&format!(
                    "INSERT INTO t VALUES ({row}, md5('{row}')::uuid, {row}, {row}, 'value {row}')"
                ));
                committed.store(number, Ordering::Release);
            }
            is_over.store(true, Ordering::Release);
        }),
    ]);
}

on_shared!(changed_by_the_session_itself);
/// In its own transaction, in a subtransaction, and back again.
fn changed_by_the_session_itself(database: &Database) {
    for kind in ["", "TEMPORARY", "UNLOGGED"] {
        let mut session = database.session();
        session.run("DROP TABLE IF EXISTS t");
        create(&mut session, kind);
        Way::skip_scan().set(&mut session);
        learn(&mut session);
        session.run("BEGIN");
        learn(&mut session);
        let insert = |number: u32| {
            format!(
                "INSERT INTO t VALUES ({number}, md5('{number}')::uuid, {number}, {number}, 'value {number}')"
            )
        };
        let expect = |session: &mut Session, number: u32, is_there: bool| {
            for condition in conditions(number) {
                let rows = found(session, &condition);
                assert_eq!(rows == [number.to_string()], is_there, "{kind}: {condition}: {rows:?}");
            }
        };
        session.run(&insert(900_001));
        expect(&mut session, 900_001, true);
        session.run("SAVEPOINT a");
        session.run(&insert(900_002));
        expect(&mut session, 900_002, true);
        session.run("ROLLBACK TO a");
        expect(&mut session, 900_002, false);
        session.run(
            "UPDATE t SET (id, u, i, b, v) = (900003, md5('900003')::uuid, 900003, 900003, 'value 900003')
                     WHERE id = 900001",
        );
        expect(&mut session, 900_001, false);
        expect(&mut session, 900_003, true);
        session.run("ROLLBACK");
        expect(&mut session, 900_003, false);
        // The file is of this transaction: wal_level may let changes of it go unlogged.
        session.run("BEGIN; TRUNCATE t");
        session.run(&insert(1));
        learn(&mut session);
        session.run(&insert(900_001));
        expect(&mut session, 900_001, true);
        session.run("COMMIT");
        expect(&mut session, 900_001, true);
        expect(&mut session, 2, false);
    }
}

on_shared!(values_with_the_same_short_hash);
/// 65,536 rows have all short hashes: each absent value has that of some row.
fn values_with_the_same_short_hash(database: &Database) {
    let (mut reader, mut other) = both(database.session(), database.session());
    other.run(
        "CREATE TABLE t (id int, i int);
         CREATE INDEX t_skip ON t USING skip (i) WITH (autosummarize = off);
         INSERT INTO t SELECT n, 2 * n FROM generate_series(1, 65536) n",
    );
    for round in 0..3 {
        for number in (1..400).map(|n| n * 311 + round) {
            let condition = format!("i = {number}");
            assert_eq!(found(&mut reader, &condition), found(&mut other, &condition), "{condition}");
        }
    }
}

alone!(files_whose_changes_are_not_logged);
fn files_whose_changes_are_not_logged() {
    let server = Server::start(&["wal_level=minimal", "max_wal_senders=0"]);
    let mut session = server.connect("postgres");
    session.run("CREATE EXTENSION pg_skip");
    session.run("BEGIN");
    create(&mut session, "");
    Way::skip_scan().set(&mut session);
    learn(&mut session);
    session.run("INSERT INTO t VALUES (7, md5('900001')::uuid, 900001, 900001, 'value 900001')");
    for condition in conditions(900_001) {
        assert_eq!(found(&mut session, &condition), ["7"], "{condition}");
    }
    session.run("COMMIT");
    for condition in conditions(900_001) {
        assert_eq!(found(&mut session, &condition), ["7"], "{condition}");
    }
}

alone!(changed_by_replay);
fn changed_by_replay() {
    let (primary, standby) = replicated(&[]);
    let mut writer = primary.connect("skip_template");
    create(&mut writer, "");
    let mut reader = standby.connect("skip_template");
    catch_up(&mut writer, &mut reader);
    Way::skip_scan().set(&mut reader);
    for number in 900_010..900_030 {
        learn(&mut reader);
        writer.run(&format!(
            "INSERT INTO t VALUES ({number}, md5('{number}')::uuid, {number}, {number}, 'value {number}');
             UPDATE t SET id = id WHERE id = {number} - 900000"
        ));
        catch_up(&mut writer, &mut reader);
        for condition in conditions(number) {
            assert_eq!(found(&mut reader, &condition), [number.to_string()], "{condition}");
        }
    }
}
