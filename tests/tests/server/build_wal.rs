//! Indexes as WAL alone makes them: on a standby, and after a crash, with no checkpoint since they were built.
use crate::parallel_build::{Hearing, TABLE, with_workers};
use crate::registry::alone;
use crate::shared::{self, together};
use crate::standby::{catch_up, replicated};
use fastrand::Rng;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::seed;
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// More rows than [`TABLE`] has: so many that one page has no room for the bounds of all ranges of one block.
const MORE: &str =
    "INSERT INTO t SELECT i, i % 5000, 'v' || i, 'big' || i % 77 FROM generate_series(60001, 100000) i;
    ANALYZE t";

/// Columns, options, and predicates that the index must be used for. Maps are divided by key; bounds take two pages.
const INDEXES: [(&str, &str, [&str; 2]); 3] = [
    ("k, v", "pages_per_range = 1, layout = map", ["k = -101", "v IS NULL"]),
    ("big", "pages_per_range = 2, layout = filters", ["big = 'big76'", "big = repeat(md5('500'), 200)"]),
    ("id int4_minmax_skip_ops", "pages_per_range = 1", ["id > 99900", "id BETWEEN 30000 AND 30010"]),
];

/// Checks the indexes of both tables, and their answers.
fn all_sound(session: &mut Session, tables: &[&str]) {
    for table in tables {
        for (number, (.., predicates)) in INDEXES.iter().enumerate() {
            let index = format!("{table}_skip_{number}");
            sound(session, &index);
            for &predicate in predicates {
                same(session, table, &Question::using(&index, predicate));
            }
        }
    }
}

alone!(standbys_and_crashes);
fn standbys_and_crashes() {
    let (primary, standby) = replicated(&["checkpoint_timeout=1h", "max_wal_size=4GB"]);
    let mut hearing = Hearing::new(&primary, "skip_template");
    hearing.session.run(TABLE);
    hearing.session.run(MORE);
    hearing.session.run("CREATE TABLE u AS TABLE t; ANALYZE u; SET pg_skip.key_part_pages = 1");
    with_workers(&mut hearing.session, 2);
    hearing.session.run("CHECKPOINT");
    // Builds of `t` have parallel workers, those of `u` have none: it has no number of workers, and is too small.
    for table in ["t", "u"] {
        for (number, (columns, options, _)) in INDEXES.iter().enumerate() {
            let index = format!("{table}_skip_{number}");
            let create = format!("CREATE INDEX {index} ON {table} USING skip ({columns}) WITH ({options})");
            for command in [create, format!("REINDEX INDEX CONCURRENTLY {index}")] {
                assert_eq!(hearing.builds(&command).len(), usize::from(table == "t"), "{command}");
            }
        }
    }
    let of = |index: &str, what: &str| format!("SELECT {what} FROM skip_index_segments('{index}')");
    assert!(hearing.session.number(&of("t_skip_0", "count(*)")) > 8.0, "maps are divided");
    assert!(
        hearing.session.number(&of("t_skip_2", "max(blocks)")) > 2.0,
        "two pages of bounds, and summaries"
    );
    let mut reader = standby.connect("skip_template");
    catch_up(&mut hearing.session, &mut reader);
    all_sound(&mut reader, &["t", "u"]);
    let sizes = "SELECT sum(pg_relation_size(indexrelid)) FROM pg_index
        WHERE indrelid IN ('t'::regclass, 'u'::regclass)";
    assert_eq!(reader.one(sizes), hearing.session.one(sizes), "sizes on the standby");
    drop(reader);
    drop(hearing);
    primary.stop_immediately();
    primary.restart();
    let mut session = primary.connect("skip_template");
    all_sound(&mut session, &["t", "u"]);
    session.run("INSERT INTO t SELECT i, i, i FROM generate_series(70001, 75000) i");
    session.run("VACUUM t");
    all_sound(&mut session, &["t", "u"]);
    drop(session);
    standby.finish();
    primary.finish();
}

alone!(killed_while_indexes_are_built);
/// A server that dies during a build has the indexes that were there before. What is left of a concurrent build harms
/// nobody, and can be built again.
fn killed_while_indexes_are_built() {
    let server = Server::start(&["wal_level=replica", "checkpoint_timeout=1h", "autovacuum=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(TABLE);
    session.run(MORE);
    session.run("ALTER DATABASE skip_template SET pg_skip.key_part_pages = 1");
    let definition = |number: usize| {
        let (columns, options, _) = INDEXES[number];
        format!("ON t USING skip ({columns}) WITH ({options})")
    };
    // Servers die within the time that a build of the index takes on this machine.
    let durations = [0, 1, 2].map(|n| {
        let start = Instant::now();
        session.run(&format!("CREATE INDEX t_skip_{n} {}", definition(n)));
        start.elapsed()
    });
    drop(session);
    let (cut_off, mut left) = (AtomicU32::new(0), 0);
    let mut rng = Rng::with_seed(seed());
    for round in 0..12 {
        let n = round % INDEXES.len();
        let command = match rng.u32(..4) {
            0 => format!("CREATE INDEX t_new {}", definition(n)),
            1 => format!("CREATE INDEX CONCURRENTLY t_new {}", definition(n)),
            2 => format!("REINDEX INDEX t_skip_{n}"),
            _ => format!("REINDEX INDEX CONCURRENTLY t_skip_{n}"),
        };
        let mut builder = server.connect("skip_template");
        with_workers(&mut builder, if rng.bool() { 2 } else { 0 });
        let (pause, is_killed) = (durations[n].mul_f64(rng.f64()), rng.bool());
        together(vec![
            Box::new(|| {
                let Err(error) = builder.try_rows(&command) else { return };
                let code = error.code().map(|code| code.code());
                // The last one: the leader noticed first that its worker is gone.
                let is_end = matches!(code, None | Some("57P01" | "57P02" | "57P03" | "55000"));
                assert!(is_end, "{command}: {error:?}");
                cut_off.fetch_add(1, Ordering::Relaxed);
            }),
            Box::new(|| {
                std::thread::sleep(pause);
                if is_killed { server.kill() } else { server.stop_immediately() }
            }),
        ]);
        server.restart();
        let mut session = server.connect("skip_template");
        session.run(&format!(
            "INSERT INTO t SELECT i, i, i FROM generate_series(1, 300) i WHERE i % 12 = {round}"
        ));
        session.run("VACUUM t");
        let unfinished = "SELECT indexrelid::regclass::text FROM pg_index
            WHERE indrelid = 't'::regclass AND (NOT indisvalid OR indexrelid = to_regclass('t_new'))";
        for index in session.column(unfinished) {
            left += 1;
            session.rows(&format!("SELECT * FROM skip_index_verify('{index}')"));
            // The server may have died before all pages were in WAL. Then nobody inserts into the index, and it is not
            // built, whichever of its pages are there.
            let ready = format!("SELECT indisready FROM pg_index WHERE indexrelid = '{index}'::regclass");
            let is_ready = session.one(&ready) == "t";
            let info = session.try_rows(&format!("SELECT * FROM skip_index_info('{index}')"));
            let code = info.as_ref().err().and_then(|error| error.code()).map(|code| code.code());
            assert_eq!(code, if is_ready { None } else { Some("55000") }, "{index}: {info:?}");
            session.run(&format!("REINDEX INDEX {index}"));
            sound(&mut session, &index);
            session.run(&format!("DROP INDEX {index}"));
        }
        all_sound(&mut session, &["t"]);
    }
    let cut_off = cut_off.into_inner();
    println!("{cut_off} builds cut off, {left} indexes left by builds");
    assert!(cut_off >= 2, "{cut_off} builds were cut off");
    server.finish();
}
