//! CREATE INDEX with parallel workers that fails or is cancelled: nothing is left behind.
use crate::parallel_build::{POISON, TABLE, lead, with_workers};
use crate::registry::on_shared;
use crate::shared::{Database, wait_until};
use pg_skip_tests::cancel::cancelled;
use pg_skip_tests::compare::{Question, same};
use pg_skip_tests::session::{Session, fields};
use std::time::Duration;

/// Fails unless all workers leave, and the index is not there.
#[track_caller]
pub fn nothing_is_left(session: &mut Session) {
    assert_eq!(session.one("SELECT to_regclass('t_skip') IS NULL"), "t");
    let workers = "SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'parallel worker' AND datname = current_database()";
    wait_until("the workers leave", || session.one(workers) == "0");
}

on_shared!(errors_leave_nothing);
fn errors_leave_nothing(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(POISON);
    with_workers(&mut session, 2);
    lead(&mut session);
    let make = "CREATE INDEX t_skip ON t USING skip (poison(id), v) WITH (pages_per_range = 2)";
    let mut said = Vec::new();
    for place in ["leader", "worker"] {
        session.run(&format!("SET test.place = {place}"));
        let error = session.error(make);
        let all = fields(&error);
        assert_eq!(error.code().code(), "P7777", "{all}");
        let context = error.where_().expect("a context");
        assert!(context.contains("poison(integer) line 5 at RAISE"), "{all}");
        assert_eq!(context.ends_with("\nparallel worker"), place == "worker", "{all}");
        // A worker may name the function with its schema, since it looks it up under another search_path.
        said.push(all.replace("\nparallel worker", "").replace("public.", "").replace(place, "…"));
        nothing_is_left(&mut session);
        // Caught: the session goes on, and is not in parallel mode.
        session.run(&format!(
            "DO $$ BEGIN {make}; EXCEPTION WHEN SQLSTATE 'P7777' THEN INSERT INTO t VALUES (100000); END $$;
             DELETE FROM t WHERE id = 100000"
        ));
        nothing_is_left(&mut session);
    }
    assert_eq!(said[0], said[1], "an error of a worker has all fields");
    // The leader has nothing to do any more, and waits.
    let error = session.error(&make.replace("poison", "late_poison"));
    assert_eq!((error.code().code(), error.constraint()), ("P7777", Some("a constraint")), "{error:?}");
    let context = error.where_().expect("a context");
    assert!(context.contains("late_poison(integer)") && context.ends_with("\nparallel worker"), "{error:?}");
    nothing_is_left(&mut session);
    // In CREATE INDEX CONCURRENTLY, what is left is invalid, as with any index.
    let concurrently = make.replace("INDEX", "INDEX CONCURRENTLY");
    assert_eq!(session.error(&concurrently).code().code(), "P7777");
    assert_eq!(session.one("SELECT indisvalid FROM pg_index WHERE indexrelid = 't_skip'::regclass"), "f");
    session.run("DROP INDEX t_skip");
    nothing_is_left(&mut session);
    session.run(&make.replace("poison(id)", "id"));
    same(&mut session, "t", &Question::using("t_skip", "id = 41001"));
}

on_shared!(cancels_leave_nothing);
fn cancels_leave_nothing(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    session.run(TABLE);
    session.run(POISON);
    with_workers(&mut session, 2);
    let make = "CREATE INDEX t_skip ON t USING skip (slow(id)) WITH (pages_per_range = 2)";
    for milliseconds in [0, 5, 20, 100, 300] {
        if !cancelled(&mut session, &mut other, make, Duration::from_millis(milliseconds)) {
            session.run("DROP INDEX t_skip");
        }
        nothing_is_left(&mut other);
    }
    // A worker that is told to end, while the leader waits for it or works itself.
    for signal in ["pg_terminate_backend", "pg_cancel_backend"] {
        let kill = format!(
            "SELECT {signal}(pid) FROM pg_stat_activity
             WHERE backend_type = 'parallel worker' AND datname = current_database() AND query LIKE 'CREATE INDEX%'
             LIMIT 1"
        );
        let outcome = std::thread::scope(|scope| {
            let building = scope.spawn(|| session.try_rows(make));
            wait_until("a worker gets the signal", || {
                building.is_finished() || other.one(&format!("SELECT count(*) FROM ({kill}) k")) == "1"
            });
            building.join().expect("the build")
        });
        let error = outcome.expect_err("a build without its worker");
        let code = error.code().expect("an error of the server").code();
        assert!(["57P01", "57014"].contains(&code), "{signal}: {error:?}");
        nothing_is_left(&mut session);
    }
    session.run(&make.replace("slow(id)", "id"));
    same(&mut session, "t", &Question::using("t_skip", "id = 41001"));
}
