//! `old_snapshot_threshold` of 15 and 16: the server removes rows that an old snapshot sees. Then a query must fail as
//! a sequential scan does, and not find fewer rows.
use crate::registry::alone;
use crate::shared::prepare;
use libtest_mimic::Completion;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::server::{self, Server};
use pg_skip_tests::session::Session;
use std::time::Duration;

/// SQLSTATE snapshot_too_old.
const TOO_OLD: &str = "72000";
/// With a threshold of 0, a snapshot is too old after five seconds (SetOldSnapshotThresholdTimestamp's caller).
const UNTIL_TOO_OLD: Duration = Duration::from_secs(7);

alone!(removed_rows_are_missed_loudly);
fn removed_rows_are_missed_loudly() -> Completion {
    if server::install().version >= 17 {
        return Completion::ignored_with("this version does not have old_snapshot_threshold");
    }
    let server = Server::start(&["old_snapshot_threshold=0", "autovacuum=off"]);
    prepare(&server);
    let connect = || server.connect("skip_template");
    let mut writer = connect();
    writer.run(
        "CREATE TABLE t (k int, u uuid, at timestamptz, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, md5(i::text)::uuid, '2026-01-01'::timestamptz + i * interval '1 hour'
            FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (k, u, at timestamptz_minmax_skip_ops) WITH (pages_per_range = 1)",
    );
    let scan = Way::skip_scan();
    let bitmap = Way::bitmap();
    let queries = [
        ("SELECT count(*) FROM t WHERE k = 42", Way::plain()),
        ("SELECT count(*) FROM t WHERE k = 42", scan.clone()),
        ("SELECT count(*) FROM t WHERE k = 42", bitmap.clone()),
        ("SELECT count(*) FROM t WHERE u = md5('42')::uuid", scan.clone()),
        ("SELECT k FROM t ORDER BY at LIMIT 3", scan),
        ("SELECT count(*) FROM t WHERE at < '2026-01-02'", bitmap),
    ];
    // Of each query, one is asked after the rows are gone, another one after their keys are, too.
    let mut asked = [old_snapshots(&connect, &queries), old_snapshots(&connect, &queries)];
    writer.run("DELETE FROM t WHERE k <= 50");
    std::thread::sleep(UNTIL_TOO_OLD);
    writer.run("SELECT pg_current_xact_id()");
    for (sessions, removal) in asked.iter_mut().zip(["VACUUM t", "REINDEX INDEX t_skip"]) {
        writer.run(removal);
        assert_eq!(writer.one("SELECT count(*) FROM t WHERE k <= 50"), "0");
        for (session, (query, way)) in sessions.iter_mut().zip(&queries) {
            assert_eq!(session.error(query).code().code(), TOO_OLD, "{removal}, {query} {way:?}");
            session.run("ROLLBACK");
        }
    }
    // Newer snapshots are as good as ever.
    let mut new = connect();
    new.run(&Way::skip_scan().local().replace("LOCAL ", ""));
    assert_eq!(new.one("SELECT count(*) FROM t WHERE k IN (42, 52)"), "1");
    server.finish();
    Completion::Completed
}

/// A session for each query, whose snapshot is taken now, and which has no lock on the table.
fn old_snapshots(connect: &dyn Fn() -> Session, queries: &[(&str, Way)]) -> Vec<Session> {
    let begun = |(query, way): &(&str, Way)| {
        let mut session = connect();
        session.run(&format!("BEGIN; {}", way.local()));
        let plan = session.plan(query);
        assert!(way.local().contains("enable_scan = 'off'") || skips(&plan), "{plan}");
        session.run(&format!("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ; {}", way.local()));
        session.rows("SELECT count(*) FROM pg_class"); // takes the snapshot
        session
    };
    queries.iter().map(begun).collect()
}
