//! SERIALIZABLE: ranges that a Skip Index Scan has ruled out count as read. If each of two transactions inserts what
//! the other one did not find, they cannot both commit, however few pages of the table were read.
use super::blocked::{code, outcome};
use crate::build::WAITING;
use crate::registry::on_shared;
use crate::shared::{Database, wait_until};
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::session::Session;

const TABLES: &str = "
    CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, n int, filler text DEFAULT repeat('x', 300));
    INSERT INTO t (k, n) SELECT i, i % 40 FROM generate_series(1, 2000) i;
    CREATE INDEX t_skip ON t USING skip (k, n) WITH (pages_per_range = 1);
    CREATE TABLE other (k int); CREATE TABLE another (k int);
    CREATE TABLE p (id int, k int) PARTITION BY HASH (id);
    CREATE TABLE p_0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE p_1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    INSERT INTO p SELECT i, i FROM generate_series(1, 2000) i;
    CREATE INDEX p_skip ON p USING skip (k) WITH (pages_per_range = 1)";

/// A transaction that reads `query` by a Skip Index Scan; the numbers it reads.
#[track_caller]
fn begun(session: &mut Session, way: &Way, query: &str) -> Vec<String> {
    session.run(&format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {}", way.local()));
    let plan = session.plan(query);
    assert!(skips(&plan), "{query}\n{plan}");
    session.column(query)
}

/// Runs the changes and commits, one after the other: the SQLSTATEs of what fails.
fn finished(sessions: [(&mut Session, String); 2]) -> Vec<String> {
    let (mut codes, mut open) = (Vec::new(), Vec::new());
    for (session, change) in sessions {
        match outcome(session, &change) {
            Ok(_) => open.push(session),
            Err(code) => {
                codes.push(code);
                session.run("ROLLBACK");
            }
        }
    }
    codes.extend(
        open.into_iter().filter_map(|session| session.0.batch_execute("COMMIT").err()).map(|e| code(&e)),
    );
    codes
}

on_shared!(write_skew);
/// Both see that their key is not there; then each inserts the other's.
fn write_skew(database: &Database) {
    let (mut one, mut two) = (database.session(), database.session());
    one.run(TABLES);
    let solo = Way::skip_scan;
    let generic = solo().with("plan_cache_mode", "force_generic_plan");
    for (round, (query, way)) in [
        ("SELECT count(*) FROM t WHERE k = KEY", solo()),
        ("SELECT count(*) FROM t WHERE k IN (KEY, KEY + 1000000)", solo()),
        ("SELECT count(*) FROM t WHERE k = KEY AND n = 7", solo()),
        ("SELECT count(*) FROM t WHERE k = KEY OR k = -KEY", solo()),
        ("SELECT count(*) FROM (SELECT FROM t WHERE k = KEY LIMIT 1) q", solo()),
        ("SELECT count(*) FROM (VALUES (KEY)) v (k) JOIN t ON t.k = v.k", solo().nested_loop()),
        ("SELECT count(*) FROM t WHERE k = (SELECT KEY)", generic.clone()),
        ("SELECT EXISTS (SELECT FROM t WHERE k = KEY)::int", solo()),
        ("SELECT count(*) FROM t WHERE k = KEY", solo().parallel()),
        (
            "SELECT count(*) FROM t WHERE k = KEY OR k = -KEY",
            solo().parallel().with("parallel_leader_participation", "off"),
        ),
        ("SELECT count(*) FROM p WHERE k = KEY", solo()),
        ("SELECT count(*) FROM p WHERE k = KEY", solo().parallel()),
    ]
    .into_iter()
    .enumerate()
    {
        let table = if query.contains("FROM p") { "p" } else { "t" };
        // The same key twice, and one key each.
        for (first, second) in [(70000, 70000), (80000, 90000)] {
            let keys = [first + round, second + round];
            let ask = |key: usize| query.replace("KEY", &key.to_string());
            assert_eq!(begun(&mut one, &way, &ask(keys[0])), ["0"]);
            assert_eq!(begun(&mut two, &way, &ask(keys[1])), ["0"]);
            let insert = |key: usize| match table {
                "p" => format!("INSERT INTO p VALUES ({round}, {key})"),
                _ => format!("INSERT INTO t (k, n) VALUES ({key}, 7)"),
            };
            let codes = finished([(&mut one, insert(keys[1])), (&mut two, insert(keys[0]))]);
            assert_eq!(codes, ["40001"], "one of two must fail: {query}, {way:?}");
        }
    }
    // A plan that really runs in workers, where some ranges are read and the rest is ruled out.
    let way = solo().parallel().with("parallel_leader_participation", "off");
    let ask = |key: usize| format!("SELECT count(*) FROM t WHERE k = {key} OR n = 3");
    let before = one.column("SELECT count(*) FROM t WHERE n = 3");
    assert_eq!(begun(&mut one, &way, &ask(50001)), before);
    assert_eq!(begun(&mut two, &way, &ask(50002)), before);
    assert!(one.plan(&ask(50001)).contains("Gather"), "{}", one.plan(&ask(50001)));
    let insert = |key: usize| format!("INSERT INTO t (k) VALUES ({key})");
    assert_eq!(finished([(&mut one, insert(50002)), (&mut two, insert(50001))]), ["40001"]);
    // An UPDATE that brings a row under the other's condition conflicts too.
    let ask = |key: usize| format!("SELECT count(*) FROM t WHERE k = {key}");
    begun(&mut one, &solo(), &ask(50011));
    begun(&mut two, &solo(), &ask(50012));
    let update = |key: usize, id: usize| format!("UPDATE t SET k = {key} WHERE (id = {id}) IS TRUE");
    assert_eq!(finished([(&mut one, update(50012, 7)), (&mut two, update(50011, 8))]), ["40001"]);
}

on_shared!(write_skew_before_the_first_row);
/// A parallel scan knows the size of its table before the first row is requested. A row that comes to a new block
/// meanwhile must conflict.
fn write_skew_before_the_first_row(database: &Database) {
    let (mut one, mut two, mut holder) = (database.session(), database.session(), database.session());
    one.run(TABLES);
    // Workers may not take advisory locks.
    one.run(
        "CREATE FUNCTION waits() RETURNS boolean STABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
         BEGIN
            WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 5
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
            LOOP
                PERFORM pg_sleep(0.02);
            END LOOP;
            RETURN true;
         END $$",
    );
    // New rows come to new blocks.
    one.run("ALTER TABLE t SET (fillfactor = 10)");
    holder.run("SELECT pg_advisory_lock(5)");
    let way = Way::skip_scan().parallel().with("parallel_leader_participation", "off");
    let query = "SELECT count(*) FROM t WHERE (k = 70001 OR n = 3) AND waits()";
    one.run(&format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {}", way.local()));
    let plan = one.plan(query);
    let is_held_up = plan.contains("One-Time Filter: waits()") && plan.contains("Parallel Custom Scan");
    assert!(is_held_up && plan.contains("Gather"), "{plan}");
    let pid = one.one("SELECT pg_backend_pid()");
    let seen = std::thread::scope(|scope| {
        let reading = scope.spawn(|| one.column(query));
        let waits = format!(
            "SELECT count(*) > 0 FROM pg_stat_activity WHERE leader_pid = {pid} AND wait_event = 'PgSleep'"
        );
        wait_until("the reader waits", || holder.one(&waits) == "t");
        two.run("BEGIN ISOLATION LEVEL SERIALIZABLE");
        assert_eq!(two.one("SELECT count(*) FROM t WHERE k = 70002"), "0");
        two.run("INSERT INTO t (k, n) VALUES (70001, 7)");
        let written = outcome(&mut two, "COMMIT");
        holder.run("SELECT pg_advisory_unlock(5)");
        (reading.join().unwrap(), written)
    });
    let (read, written) = seen;
    assert!(written.is_ok(), "the first one commits: {written:?}");
    assert_eq!(read, ["50"], "the other transaction's rows are not seen");
    let inserted = outcome(&mut one, "INSERT INTO t (k, n) VALUES (70002, 7)").map(|_| ());
    let ended = inserted.and_then(|()| outcome(&mut one, "COMMIT").map(|_| ()));
    assert_eq!(ended, Err("40001".to_owned()));
}

on_shared!(no_skew_no_failure);
/// Where nothing is read that the other writes, both commit. The lock is the whole table's, as a sequential scan's:
/// any insert into it conflicts.
fn no_skew_no_failure(database: &Database) {
    let (mut one, mut two) = (database.session(), database.session());
    one.run(TABLES);
    let query = |key: u32| format!("SELECT count(*) FROM t WHERE k = {key}");
    for (writes, failures) in [
        (["INSERT INTO other VALUES (1)", "INSERT INTO another VALUES (1)"], 0),
        (["INSERT INTO other VALUES (1)", "INSERT INTO t (k) VALUES (60001)"], 0),
        (["SELECT 1", "INSERT INTO t (k) VALUES (60001)"], 0),
        (["SELECT 1", "SELECT 2"], 0),
        (["INSERT INTO t (k) VALUES (60003)", "INSERT INTO t (k) VALUES (60004)"], 1),
    ] {
        for way in [Way::skip_scan(), Way::plain()] {
            for (session, key) in [(&mut one, 60001), (&mut two, 60002)] {
                session.run(&format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {}", way.local()));
                session.rows(&query(key));
            }
            let codes = finished([(&mut one, writes[0].into()), (&mut two, writes[1].into())]);
            assert_eq!(codes, vec!["40001"; failures], "{writes:?}, {way:?}");
        }
    }
    // Each reads a table that the other does not write.
    begun(&mut one, &Way::skip_scan(), &query(1));
    begun(&mut two, &Way::skip_scan(), "SELECT count(*) FROM p WHERE k = 1");
    let codes = finished([
        (&mut one, "INSERT INTO other VALUES (2)".into()),
        (&mut two, "INSERT INTO p VALUES (1, 2)".into()),
    ]);
    assert!(codes.is_empty(), "{codes:?}");
}

on_shared!(read_only_anomaly);
/// PostgreSQL's read-only-anomaly-2: the reader that closes the cycle sees nothing but pruned ranges of one row.
fn read_only_anomaly(database: &Database) {
    let (mut one, mut two, mut three) = (database.session(), database.session(), database.session());
    one.run(
        "CREATE TABLE account (id text, balance numeric, filler text DEFAULT repeat('x', 7000));
         INSERT INTO account SELECT i, 0 FROM generate_series(1, 50) i;
         INSERT INTO account VALUES ('X', 0), ('Y', 0);
         CREATE INDEX account_skip ON account USING skip (id) WITH (pages_per_range = 1)",
    );
    let way = Way::skip_scan();
    let balances = "SELECT sum(balance) FROM account WHERE id IN ('X', 'Y')";
    assert_eq!(begun(&mut two, &way, balances), ["0"]);
    begun(&mut one, &way, "SELECT balance FROM account WHERE id = 'Y'");
    one.run("UPDATE account SET balance = 20 WHERE id = 'Y'; COMMIT");
    assert_eq!(begun(&mut three, &way, balances), ["20"]);
    three.run("COMMIT");
    let codes: Vec<_> = ["UPDATE account SET balance = -11 WHERE id = 'X'", "COMMIT"]
        .into_iter()
        .filter_map(|sql| outcome(&mut two, sql).err())
        .collect();
    assert!(codes.contains(&"40001".to_owned()), "{codes:?}");
}

on_shared!(before_the_index_is_asked);
/// A row is on its page, and its transaction waits before the row gets to the skip index. A scan rules the page out.
/// The insert checked for conflicts with readers of the table before.
fn before_the_index_is_asked(database: &Database) {
    let tables = "CREATE TABLE t (k int, n int) WITH (autovacuum_enabled = off);
         CREATE FUNCTION waited(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
         BEGIN
             IF k = -1 THEN PERFORM pg_advisory_xact_lock_shared(7); END IF;
             RETURN k;
         END $$;
         -- The index that was made first gets a row first.
         CREATE INDEX t_waited ON t (waited(k));
         CREATE INDEX t_skip ON t USING skip (n) WITH (pages_per_range = 1)";
    skew_while_an_insert_waits(database, tables);
}

on_shared!(within_aminsert);
/// As above; the insert waits in the skip index, after the server has checked for readers of that, too.
fn within_aminsert(database: &Database) {
    let tables = format!(
        "{WAITING};
         CREATE TABLE t (k int, n int) WITH (autovacuum_enabled = off);
         CREATE INDEX t_skip ON t USING skip (k waiting_ops, n) WITH (pages_per_range = 1)"
    );
    skew_while_an_insert_waits(database, &tables);
}

/// Both transactions see that a row is not there, then each inserts the other's. One waits between.
fn skew_while_an_insert_waits(database: &Database, tables: &str) {
    let (mut writer, mut reader, mut holder) = (database.session(), database.session(), database.session());
    holder.run(tables);
    holder.run("INSERT INTO t SELECT i, i FROM generate_series(1, 2000) i");
    let way = Way::skip_scan();
    for round in 0..3 {
        // The last page has room, and is summarized.
        holder.run("SELECT skip_summarize('t_skip')");
        holder.run("SELECT pg_advisory_lock(7)");
        let (one, other) = (70001 + 2 * round, 70002 + 2 * round);
        let ask = |n: u32| format!("SELECT count(*) FROM t WHERE n = {n}");
        assert_eq!(begun(&mut writer, &way, &ask(other)), ["0"]);
        let mut codes: Vec<String> = std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| outcome(&mut writer, &format!("INSERT INTO t VALUES (-1, {one})")).err());
            let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            wait_until("the insert waits", || holder.column(waits) == ["1"]);
            assert_eq!(begun(&mut reader, &way, &ask(one)), ["0"]);
            let second = outcome(&mut reader, &format!("INSERT INTO t VALUES (1, {other})")).err();
            holder.run("SELECT pg_advisory_unlock(7)");
            waiting.join().expect("the insert").into_iter().chain(second).collect()
        });
        for session in [&mut writer, &mut reader] {
            codes.extend(session.0.batch_execute("COMMIT").err().map(|error| code(&error)));
        }
        assert_eq!(codes, ["40001"], "round {round}: one of the two must fail");
        assert_eq!(holder.one(&format!("SELECT count(*) FROM t WHERE n IN ({one}, {other})")), "1");
    }
}
