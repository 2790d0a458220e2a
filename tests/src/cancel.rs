//! Statements that another session cancels: whatever the machine's speed, a statement that takes long enough is cut
//! off.
use crate::session::{Session, describe};
use std::time::Duration;

/// Runs statements and cancels them from `other` once `after` is over, again and again until they end. Returns whether
/// they were cut off. Any other error is a failure.
#[track_caller]
pub fn cancelled(session: &mut Session, other: &mut Session, sql: &str, after: Duration) -> bool {
    let pid = session.one("SELECT pg_backend_pid()");
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| session.try_rows(sql));
        std::thread::sleep(after);
        while !running.is_finished() {
            other.run(&format!("SELECT pg_cancel_backend({pid})"));
            std::thread::sleep(Duration::from_millis(1));
        }
        running.join().expect("a thread that only asks")
    });
    // The last signal may come only now.
    while session.try_rows("SELECT 1").is_err() {}
    match outcome {
        Ok(_) => false,
        Err(error) if error.code().is_some_and(|code| code.code() == "57014") => true,
        Err(error) => panic!("{}\nstatement: {sql}", describe(&error)),
    }
}
