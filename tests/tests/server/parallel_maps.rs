//! Maps that several processes build: they sort the pairs of different key parts, which come through shared temporary
//! files.
use crate::parallel_build::{Hearing, with_workers};
use crate::parallel_failures::nothing_is_left;
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database, server, wait_until};
use libtest_mimic::Completion;
use pg_skip_tests::cancel::cancelled;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::{Server, install};
use pg_skip_tests::session::Session;
use std::fs;
use std::time::{Duration, Instant};

/// Two columns with maps of some hundred pages; the pairs of a key part take more than the memory for sorting.
const TABLE: &str =
    "CREATE TABLE t AS SELECT i AS id, 'v' || i % 1000 AS v FROM generate_series(1, 300000) i;
    SET maintenance_work_mem = '1MB'; SET pg_skip.key_part_pages = 4; SET pg_skip.default_layout = map";
const INDEX: &str = "CREATE INDEX t_skip ON t USING skip (id, v) WITH (pages_per_range = 1)";

#[track_caller]
fn right(session: &mut Session) {
    for key in [1, 150_000, 299_999, 300_001] {
        same(session, "t", &Question::using("t_skip", format!("id = {key}")));
        same(session, "t", &Question::using("t_skip", format!("v = 'v{}'", key % 1000)));
    }
    sound(session, "t_skip");
}

on_shared!(all_make_parts);
fn all_make_parts(database: &Database) {
    let mut hearing = Hearing::new(server(), &database.name);
    hearing.session.run(TABLE);
    for workers in [1, 3] {
        with_workers(&mut hearing.session, workers);
        wait_until("all processes make parts", || {
            hearing.session.run("DROP INDEX IF EXISTS t_skip");
            let [_, _, _, theirs, parts] = hearing.builds_with_parts(INDEX)[0];
            assert!(parts >= 32, "{parts} key parts");
            theirs > 0 && theirs < parts
        });
        right(&mut hearing.session);
    }
}

on_shared!(beside_other_columns);
/// An index of columns of all kinds, in which each place of a column with maps has another number among those columns.
fn beside_other_columns(database: &Database) {
    let mut hearing = Hearing::new(server(), &database.name);
    hearing.session.run(TABLE);
    hearing.session.run(
        "SET maintenance_work_mem = '16MB'; ALTER TABLE t ADD n int;
         UPDATE t SET n = CASE WHEN id % 3 > 0 THEN id / 100 END;
         DELETE FROM t WHERE id BETWEEN 100000 AND 120000",
    );
    hearing.session.run("VACUUM t");
    let index =
        "CREATE INDEX t_skip ON t USING skip (n int4_minmax_skip_ops, id int4_skip_ops (layout = map),
        v text_skip_ops (layout = filters), n int4_skip_ops (layout = map), v text_ngram_skip_ops)
        WITH (pages_per_range = 4)";
    let mut made = Vec::new();
    for workers in [0, 2] {
        with_workers(&mut hearing.session, workers);
        wait_until("all processes make parts", || {
            hearing.session.run("DROP INDEX IF EXISTS t_skip");
            let builds = hearing.builds_with_parts(index);
            let [_, _, _, theirs, parts] = builds.first().copied().unwrap_or_default();
            workers == 0 || theirs > 0 && theirs < parts
        });
        made.push(hearing.session.rows(
            "SELECT attnum, kind, key_part, first_range, width, open_ranges, filter_bits
             FROM skip_index_segments('t_skip') ORDER BY 1, 2, 3, 4",
        ));
        let session = &mut hearing.session;
        for predicate in ["id = 77", "v = 'v77'", "n = 1077", "n IS NULL AND id = 3", "v LIKE '%v99%'"] {
            same(session, "t", &Question::using("t_skip", predicate));
        }
        same(session, "t", &Question::any("n BETWEEN 7 AND 8"));
        sound(session, "t_skip");
    }
    assert_eq!(made[0], made[1]);
    assert!(made[0].len() > 20, "the maps are not divided: {made:?}");
}

on_shared!(tell_of_ranges_that_are_too_large);
/// Whichever process meets a range with too many values: the user is told of it.
fn tell_of_ranges_that_are_too_large(database: &Database) {
    let mut hearing = Hearing::new(server(), &database.name);
    hearing.session.run(
        "CREATE TABLE t (id int, v text); ALTER TABLE t ALTER v SET STORAGE main;
         INSERT INTO t SELECT i, CASE WHEN i BETWEEN 3000 AND 3060
            THEN (SELECT string_agg(md5(i::text || j), ' ') FROM generate_series(1, 2000) j)
            ELSE repeat('x', 500) END FROM generate_series(1, 6000) i;
         SET maintenance_work_mem = '1MB'; SET pg_skip.default_layout = map",
    );
    with_workers(&mut hearing.session, 3);
    for _ in 0..4 {
        hearing.session.run("DROP INDEX IF EXISTS t_skip");
        hearing.heard.lock().unwrap().clear();
        let index = "CREATE INDEX t_skip ON t USING skip (v text_ngram_skip_ops) WITH (pages_per_range = 4)";
        hearing.session.run(index);
        hearing.session.rows("SELECT 1");
        let heard = std::mem::take(&mut *hearing.heard.lock().unwrap());
        assert!(hearing.session.number("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')") > 0.0);
        let has_told = heard.iter().any(|message| message.contains("more distinct values"));
        assert!(has_told, "{heard:?}");
    }
}

/// No process has left files that were shared in a build that `leader` led.
#[track_caller]
fn no_files(other: &mut Session, leader: &str) {
    let files = format!(
        "SELECT count(*) FROM pg_ls_dir('base/pgsql_tmp', true, false) f WHERE f LIKE 'pgsql\\_tmp{leader}.%.fileset'"
    );
    wait_until("shared files are removed", || other.one(&files) == "0");
}

on_shared!(a_build_that_fails_leaves_nothing);
/// Whenever a build ends early, nothing is left of it.
fn a_build_that_fails_leaves_nothing(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    session.run(TABLE);
    with_workers(&mut session, 2);
    let leader = session.one("SELECT pg_backend_pid()");
    let begun = Instant::now();
    session.run(INDEX);
    let whole = begun.elapsed();
    session.run("DROP INDEX t_skip");
    // The parts are made in the second half.
    let moments: Vec<Duration> = (4..16).map(|sixteenths| whole * sixteenths / 16).collect();
    for &after in &moments {
        if !cancelled(&mut session, &mut other, INDEX, after) {
            session.run("DROP INDEX t_skip");
        }
        nothing_is_left(&mut other);
        no_files(&mut other, &leader);
    }
    for after in moments {
        let outcome = std::thread::scope(|scope| {
            let building = scope.spawn(|| session.try_rows(INDEX));
            std::thread::sleep(after);
            other.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE backend_type = 'parallel worker' AND datname = current_database() LIMIT 1",
            );
            building.join().expect("the build")
        });
        match outcome {
            Ok(_) => session.run("DROP INDEX t_skip"),
            Err(error) => {
                assert_eq!(error.code().expect("an error of the server").code(), "57P01", "{error:?}")
            }
        }
        nothing_is_left(&mut other);
        no_files(&mut other, &leader);
    }
    session.run("SET temp_file_limit = '300kB'");
    let error = session.error(INDEX);
    assert_eq!(error.code().code(), "53400", "{error:?}");
    nothing_is_left(&mut other);
    no_files(&mut other, &leader);
    session.run("RESET temp_file_limit");
    session.run(INDEX);
    no_files(&mut other, &leader);
    right(&mut session);
}

alone!(workers_that_cannot_start);
/// The server launches workers, but the system allows it no more processes. The build fails, and does not wait.
fn workers_that_cannot_start() -> Completion {
    let server = Server::start(&[]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(TABLE);
    with_workers(&mut session, 2);
    let file = fs::read_to_string(server.data().join("postmaster.pid")).expect("the server's process");
    let process = file.lines().next().unwrap_or_default();
    let limit = |processes: &str| {
        let mut command = install().command("/usr/bin/prlimit");
        let limited = command.args(["--pid", process, &format!("--nproc={processes}:")]).output();
        limited.is_ok_and(|output| output.status.success())
    };
    if !limit("1") {
        return Completion::ignored_with("processes cannot be limited here");
    }
    session.run("SET statement_timeout = '60s'");
    let built = session.try_rows(INDEX);
    assert!(limit("4096"), "the limit stays");
    let Err(error) = built else {
        return Completion::ignored_with("a limit of processes has no effect here");
    };
    let message = error.as_db_error().map(|error| error.message());
    assert_eq!(message, Some("parallel worker failed to initialize"));
    session.run("SET max_parallel_maintenance_workers = 0");
    session.run(INDEX);
    right(&mut session);
    drop(session);
    server.finish();
    Completion::Completed
}
