//! Scans in order while others write and maintain, in old snapshots, and on a standby.
use super::{in_order, is_in_order, limit, log};
use crate::concurrency::SideBySide;
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database};
use crate::standby::{catch_up, replicated};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same, same_within};
use pg_skip_tests::compare::sound;
use pg_skip_tests::seed;
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::time::Duration;

fn question(rng: &mut Rng) -> Case {
    let condition = match rng.u32(..4) {
        0 => format!("WHERE n > {}", rng.i32(-200..500)),
        1 => "WHERE id % 3 = 1".to_owned(),
        _ => String::new(),
    };
    let order = ["n", "n DESC", "n NULLS FIRST", "n DESC NULLS LAST", "at", "at DESC"][rng.usize(..6)];
    let limit = limit(rng);
    Case {
        ordered: true,
        ..Case::using(format!("SELECT n, at, id FROM t {condition} ORDER BY {order}, id {limit}"))
    }
}

on_shared!(writers);
/// The rows are those of the snapshot, whatever others write meanwhile.
fn writers(database: &Database) {
    let mut session = database.session();
    log(&mut session, 3000);
    session.run(
        "CREATE INDEX t_n ON t USING skip (n int4_minmax_skip_ops, at timestamptz_minmax_skip_ops)
         WITH (pages_per_range = 1, delta_limit = 64)",
    );
    let write = |rng: &mut Rng| {
        let (id, n) = (rng.u32(1..4000), rng.i32(-500..800));
        match rng.u32(..6) {
            0 => format!("INSERT INTO t (n, at) SELECT {n} + i, now() FROM generate_series(1, 30) i"),
            1 => format!("DELETE FROM t WHERE id = {id}"),
            2 => format!("BEGIN; UPDATE t SET n = {n} WHERE id = {id}; ROLLBACK"),
            3 => format!("UPDATE t SET at = now() WHERE id = {id}"),
            _ => format!("UPDATE t SET n = {n} * 3 WHERE id = {id}"),
        }
    };
    let ask = |session: &mut Session, rng: &mut Rng| {
        same_within(session, &in_order(), &question(rng));
    };
    let maintenance = &["VACUUM t", "SELECT skip_summarize('t_n')"];
    SideBySide { database, duration: Duration::from_secs(10), write, ask, maintenance, maintainers: 1 }.run();
    sound(&mut session, "t_n");
    let mut rng = Rng::with_seed(seed());
    (0..30).for_each(|_| {
        same(&mut session, &in_order(), &question(&mut rng));
    });
}

alone!(old_snapshots_while_bounds_are_rebuilt);
/// A cursor goes on in its snapshot, while the bounds that rows now gone have left too wide are found again, and while
/// the rows of the snapshot get other values, and go.
fn old_snapshots_while_bounds_are_rebuilt() {
    // On a server of its own: transactions of other tests would keep rows from being removed.
    let server = Server::start(&["autovacuum=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    // More ranges than a page has bounds of: the cursor reads the second page late.
    log(&mut session, 12_000);
    session.run("ALTER TABLE t ALTER COLUMN code TYPE text COLLATE \"C\"");
    session.run(
        "CREATE INDEX t_n ON t
         USING skip (n int4_minmax_skip_ops, at timestamptz_minmax_skip_ops, code text_minmax_skip_ops)
         WITH (pages_per_range = 1)",
    );
    let mut reader = server.connect("skip_template");
    let mut rng = Rng::with_seed(seed());
    let last = "SELECT max(segment_id) FROM skip_index_segments('t_n')";
    let mut rebuilds = 0;
    for (round, order) in
        ["n", "n DESC", "at DESC", "code", "code DESC", "n DESC NULLS LAST", "at", "n NULLS FIRST"]
            .into_iter()
            .enumerate()
    {
        // Rows that are gone leave bounds too wide.
        for widened in [
            "n = 90000 - n, at = at + interval '9 years', code = 'z' || code",
            "n = 90000 - n, at = at - interval '9 years', code = substr(code, 2)",
        ] {
            session.run(&format!("UPDATE t SET {widened} WHERE id % 100 = {round}"));
            session.run("SET pg_skip.vacuum_rebuild_pages = 0");
            session.run("VACUUM t");
            session.run("RESET pg_skip.vacuum_rebuild_pages");
        }
        let condition = ["", "WHERE id % 3 = 1", "WHERE n > 100 OR n IS NULL"][rng.usize(..3)];
        let statement = format!("SELECT id, n, at, code FROM t {condition} ORDER BY {order}, id");
        is_in_order(&mut reader, &format!("{statement} LIMIT 10"));
        let memory = if round % 2 == 0 { "64kB" } else { "4MB" };
        reader.run(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {}", Way::plain().local()));
        let wanted = reader.rows(&statement);
        reader.run(&format!(
            "{} SET LOCAL work_mem = '{memory}'; SET LOCAL cursor_tuple_fraction = 0.001;
             DECLARE c NO SCROLL CURSOR FOR {statement}",
            in_order().local()
        ));
        let mut found = reader.rows(&format!("FETCH {} FROM c", rng.u32(0..60)));
        for step in 0..3 {
            let before = session.one(last);
            session.run("VACUUM t");
            // Later it may be that other changes are folded.
            rebuilds += usize::from(step == 0 && session.one(last) != before);
            found.extend(reader.rows(&format!("FETCH {} FROM c", rng.u32(1..200))));
            session.run(&format!(
                "UPDATE t SET n = n + 1, at = at + interval '3 min', code = code || 'b' WHERE id % 9 = {step};
                 DELETE FROM t WHERE id % 199 = 3 * {round} + {step};
                 INSERT INTO t (n, at, code) SELECT i * 60, '2024-02-02', 'a new row' FROM generate_series(1, 4) i"
            ));
        }
        found.extend(reader.rows("FETCH ALL FROM c"));
        assert!(found == wanted, "{statement}: {} rows instead of {}, or others", found.len(), wanted.len());
        reader.run("COMMIT");
    }
    assert!(rebuilds >= 6, "bounds were found again {rebuilds} times");
    sound(&mut session, "t_n");
    server.finish();
}

alone!(standby);
/// A standby answers as the primary does, also in a snapshot from before changes that it has replayed.
fn standby() {
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1", "hot_standby_feedback=on"]);
    let mut session = primary.connect("skip_template");
    log(&mut session, 3000);
    session.run(
        "CREATE INDEX t_n ON t USING skip (n int4_minmax_skip_ops, at timestamptz_minmax_skip_ops)
         WITH (pages_per_range = 1, delta_limit = 64)",
    );
    let mut reader = standby.connect("skip_template");
    catch_up(&mut session, &mut reader);
    let mut rng = Rng::with_seed(seed());
    for round in 0..6 {
        reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t");
        session.run(&format!(
            "INSERT INTO t (n, at) SELECT {round} * 100 + i, '2024-01-01' FROM generate_series(1, 300) i;
             UPDATE t SET n = n * 2, at = at + interval '1 month' WHERE id % 7 = {round};
             DELETE FROM t WHERE id % 50 = {round}"
        ));
        if round % 2 == 0 {
            session.run("SELECT skip_summarize('t_n')");
        }
        let ask = |session: &mut Session, rng: &mut Rng| {
            (0..12).for_each(|_| {
                same_within(session, &in_order(), &question(rng));
            });
        };
        ask(&mut reader, &mut rng);
        reader.run("COMMIT");
        catch_up(&mut session, &mut reader);
        reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        ask(&mut reader, &mut rng);
        reader.run("COMMIT");
    }
    drop(reader);
    drop(session);
    standby.finish();
}
