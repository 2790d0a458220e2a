//! Maps that several processes build: they sort the pairs of different key parts, which come through shared temporary
//! files.
use crate::parallel_build::{Hearing, nothing_is_left, with_workers};
use crate::registry::on_shared;
use crate::shared::{Database, server, wait_until};
use pg_skip_tests::cancel::cancelled;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;
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

/// No process has left files that were shared in a build that `leader` led.
#[track_caller]
fn no_files(other: &mut Session, leader: &str) {
    let files = format!(
        "SELECT count(*) FROM pg_ls_dir('base/pgsql_tmp', true, false) f WHERE f LIKE 'pgsql\\_tmp{leader}.%.fileset'"
    );
    wait_until("shared files are removed", || other.one(&files) == "0");
}

on_shared!(ends_in_the_middle);
/// Whenever a build ends early, nothing is left of it.
fn ends_in_the_middle(database: &Database) {
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
