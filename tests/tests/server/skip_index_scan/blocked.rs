//! Statements that have to wait for another session's lock.
use pg_skip_tests::session::{Row, Session};
use std::time::{Duration, Instant};

/// What a statement gave: the rows of its parts, or its SQLSTATE.
pub type Outcome = Result<Vec<Vec<Row>>, String>;

/// The outcome of statements that are to run to their end now.
pub fn outcome(session: &mut Session, sql: &str) -> Outcome {
    session.try_batches(sql).map_err(|error| code(&error))
}

/// The SQLSTATE of an error.
pub fn code(error: &postgres::Error) -> String {
    error.code().map_or_else(|| format!("{error:?}"), |code| code.code().to_owned())
}

/// Runs `sql`, which must be held up by a lock; once it is, runs `release`, and gives the outcome of `sql`.
#[track_caller]
pub fn blocked(session: &mut Session, sql: &str, watcher: &mut Session, release: impl FnOnce()) -> Outcome {
    let pid = session.one("SELECT pg_backend_pid()");
    let waiting = format!("SELECT cardinality(pg_blocking_pids({pid})) > 0");
    let end = Instant::now() + Duration::from_secs(30);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| outcome(session, sql));
        while watcher.one(&waiting) != "t" {
            // The lock's holder must let go, or the thread would be waited for in vain.
            if running.is_finished() || Instant::now() > end {
                release();
                panic!("this should wait for a lock: {sql}\n{:?}", running.join());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        release();
        running.join().expect("a thread that only asks")
    })
}
