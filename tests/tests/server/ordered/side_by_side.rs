//! Scans in order while others write and maintain, in old snapshots, and on a standby.
use super::{in_order, limit, log};
use crate::concurrency::SideBySide;
use crate::registry::{alone, on_shared};
use crate::shared::Database;
use crate::standby::{catch_up, replicated};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, same, same_within};
use pg_skip_tests::compare::sound;
use pg_skip_tests::seed;
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
