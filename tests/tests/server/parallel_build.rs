//! CREATE INDEX and REINDEX with parallel workers: the same index as without, and builds that must not have workers.
use crate::registry::{alone, on_shared};
use crate::shared::{Database, prepare, server, wait_until};
use libtest_mimic::Completion;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::{Row, Session};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sets the number of workers for builds on `t`, whatever its size.
pub fn with_workers(session: &mut Session, workers: u32) {
    session.run(&format!(
        "ALTER TABLE t SET (parallel_workers = {workers}); SET max_parallel_maintenance_workers = {workers}"
    ));
}

/// A session that hears how many workers took part in builds.
pub struct Hearing {
    pub session: Session,
    pub heard: Arc<Mutex<Vec<String>>>,
}

impl Hearing {
    pub fn new(server: &Server, database: &str) -> Self {
        let (mut session, heard) = server.connect_hearing(database);
        session.run("SET client_min_messages = debug1");
        Self { session, heard }
    }

    /// Runs a command. Returns the numbers of workers, of ranges that they collected, and of all ranges, for each index
    /// that was built by several processes.
    #[track_caller]
    pub fn builds(&mut self, sql: &str) -> Vec<[u64; 3]> {
        let first = |all: [u64; 5]| [all[0], all[1], all[2]];
        self.builds_with_parts(sql).into_iter().map(first).collect()
    }

    /// As `builds`, and the numbers of key parts that workers made, and of all.
    #[track_caller]
    pub fn builds_with_parts(&mut self, sql: &str) -> Vec<[u64; 5]> {
        self.heard.lock().unwrap().clear();
        self.session.run(sql);
        self.session.rows("SELECT 1");
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        let told = heard.iter().filter(|message| message.contains("parallel workers collected"));
        told.map(|message| {
            let mut numbers = message.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
            std::array::from_fn(|_| numbers.next().expect("five numbers"))
        })
        .collect()
    }

    /// Builds the index of a command until workers and leader have both collected some ranges.
    #[track_caller]
    fn build_together(&mut self, sql: &str) {
        wait_until("all processes collect ranges", || {
            self.session.run("DROP INDEX IF EXISTS t_skip");
            let builds = self.builds(sql);
            let [workers, theirs, all] = *builds.first().unwrap_or_else(|| panic!("no workers: {sql}"));
            workers > 0 && theirs > 0 && theirs < all
        });
    }
}

/// Less than so many pairs of [`TABLE`] are missing because keys have the same fingerprint. Each value of `k` is on 12
/// pages. So if two values that are on the same pages have the same fingerprint, up to 12 pairs are missing. That was
/// so in 0.7 % of 20,000 builds with random seeds, and in none twice. A page that is left out has more than 400 pairs.
/// A key like `id % 1000` could not be compared so: of 1,000 values that are all in each of 55 ranges, two had the same
/// fingerprint in one of 1,000 builds.
const MISSING_BY_CHANCE: f64 = 30.0;

/// A table with all that the collector must deal with: NULLs, values out of line, rows that are gone or were updated.
pub const TABLE: &str = "
    CREATE TABLE t (id int, k int, v text, big text);
    ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, i % 5000, CASE WHEN i % 9 > 0 THEN 'v' || i END,
        CASE WHEN i % 500 = 0 THEN repeat(md5(i::text), 200) ELSE 'big' || i % 77 END
    FROM generate_series(1, 60000) i;
    UPDATE t SET k = -k WHERE id % 101 = 0;
    DELETE FROM t WHERE id BETWEEN 20000 AND 21000;
    ANALYZE t";

/// What a build makes of a table: all that is the same for every seed; and the number of pairs, which is smaller where
/// two keys of a range have the same fingerprint.
fn made(session: &mut Session) -> ((Vec<Row>, String), f64) {
    let segments = session.rows(
        "SELECT attnum, kind, first_range, width, filter_bits, num_probes, segment_id, open_ranges, key_part,
            CASE WHEN kind = 'filters' THEN first_block END, CASE WHEN kind = 'filters' THEN blocks END
         FROM skip_index_segments('t_skip') ORDER BY attnum, kind, first_range, key_part",
    );
    let rows = session.one("SELECT reltuples FROM pg_class WHERE relname = 't'");
    let pairs = session.number("SELECT coalesce(sum(pairs), 0) FROM skip_index_segments('t_skip')");
    ((segments, rows), pairs)
}

on_shared!(like_a_serial_build);
fn like_a_serial_build(database: &Database) {
    // Transactions of other databases hold this one's horizon, now and then. A snapshot holds it all the time, so that
    // the same rows are dead, or only recently dead, in each build.
    let mut old = database.session();
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    let mut hearing = Hearing::new(server(), &database.name);
    hearing.session.run(TABLE);
    // Maps of some 20 pages are divided by key into 8 to 16 parts.
    hearing.session.run("SET pg_skip.key_part_pages = 1");
    for (columns, options, predicates) in [
        ("id, k, v", "pages_per_range = 1", vec!["id = 30303", "k = -101", "v = 'v59999'", "v IS NULL"]),
        (
            "id, v, big",
            "pages_per_range = 4",
            vec!["id = 7", "big = 'big76'", "big = repeat(md5('500'), 200)"],
        ),
        ("(k + 1), v", "pages_per_range = 3", vec!["k + 1 = 4243", "v = 'v1'"]),
        (
            "big, (id * 7 % 60013)",
            "pages_per_range = 7",
            vec!["id * 7 % 60013 = 999", "big = repeat(md5('1000'), 200)"],
        ),
        // Maps that tell apart the single pages of a range.
        ("id, big, v", "", vec!["id = 30303", "big = 'big3'", "v = 'v59999'", "v IS NULL"]),
        ("id) WITH (pages_per_range = 2) WHERE (v IS NOT NULL", "", vec!["v IS NOT NULL AND id = 31001"]),
    ] {
        for layout in ["filters", "map"] {
            let command = match options {
                "" => format!("CREATE INDEX t_skip ON t USING skip ({columns})"),
                _ => format!("CREATE INDEX t_skip ON t USING skip ({columns}) WITH ({options})"),
            };
            hearing
                .session
                .run(&format!("SET pg_skip.default_layout = {layout}; DROP INDEX IF EXISTS t_skip"));
            with_workers(&mut hearing.session, 0);
            assert_eq!(hearing.builds(&command), [[0u64; 3]; 0], "{command}");
            let serial = made(&mut hearing.session);
            with_workers(&mut hearing.session, 3);
            hearing.build_together(&command);
            let session = &mut hearing.session;
            let parallel = made(session);
            assert_eq!(parallel.0, serial.0, "{layout}: {command}");
            assert!(
                (parallel.1 - serial.1).abs() < MISSING_BY_CHANCE,
                "{} pairs, serial {}: {layout}: {command}: {parallel:?} {serial:?}",
                parallel.1,
                serial.1
            );
            let is_divided = parallel.0.0.iter().any(|row| row[8].is_some());
            assert_eq!(is_divided, layout == "map", "{command}");
            for predicate in &predicates {
                same(session, "t", &Question::using("t_skip", *predicate));
            }
            for key in (0..60000).step_by(2999) {
                same(session, "t", &Question::any(format!("id = {key}")));
                same(session, "t", &Question::any(format!("v = 'v{key}'")));
            }
            sound(session, "t_skip");
        }
    }
}

on_shared!(all_commands_that_build);
fn all_commands_that_build(database: &Database) {
    let mut hearing = Hearing::new(server(), &database.name);
    hearing.session.run(TABLE);
    with_workers(&mut hearing.session, 2);
    hearing.session.run("SET maintenance_work_mem = '1GB'");
    let check = |hearing: &mut Hearing, command: &str, builds: usize| {
        let built = hearing.builds(command).len();
        assert_eq!(built, builds, "{command}: so many builds had workers");
        same(&mut hearing.session, "t", &Question::using("t_skip", "id = 41001"));
        same(&mut hearing.session, "t", &Question::using("t_skip", "id = -1"));
        sound(&mut hearing.session, "t_skip");
    };
    for (command, builds) in [
        ("CREATE INDEX t_skip ON t USING skip (id, k) WITH (pages_per_range = 2)", 1),
        ("REINDEX INDEX t_skip", 1),
        ("REINDEX INDEX CONCURRENTLY t_skip", 1),
        ("REINDEX TABLE t", 1),
        ("DROP INDEX t_skip", 0),
        ("CREATE INDEX CONCURRENTLY t_skip ON t USING skip (id, k) WITH (pages_per_range = 2)", 1),
        ("VACUUM FULL t", 1),
        ("ALTER TABLE t ALTER k TYPE bigint", 1),
        ("ALTER TABLE t SET UNLOGGED", 1),
        ("REINDEX INDEX t_skip", 1),
        ("REINDEX INDEX CONCURRENTLY t_skip", 1),
        ("ALTER TABLE t SET LOGGED", 1),
        // In a transaction that has changed the table, whose id its workers must know.
        ("BEGIN; UPDATE t SET k = 1 WHERE id = 5; REINDEX INDEX t_skip; COMMIT", 1),
        (
            "BEGIN; CREATE TABLE u AS TABLE t; DROP TABLE t; ALTER TABLE u RENAME TO t;
             ALTER TABLE t SET (parallel_workers = 2);
             CREATE INDEX t_skip ON t USING skip (id, k) WITH (pages_per_range = 2); COMMIT",
            1,
        ),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t; REINDEX INDEX t_skip; COMMIT", 1),
    ] {
        if command.starts_with("DROP") {
            hearing.session.run(command);
        } else {
            check(&mut hearing, command, builds);
        }
    }
    // An empty table has nothing to divide.
    assert_eq!(hearing.builds("TRUNCATE t"), [[0u64; 3]; 0]);
    assert_eq!(hearing.builds("REINDEX TABLE t"), [[0u64; 3]; 0]);
}

on_shared!(builds_without_workers);
/// What may not run in workers, or not have any.
fn builds_without_workers(database: &Database) {
    let mut hearing = Hearing::new(server(), &database.name);
    hearing.session.run(TABLE);
    hearing.session.run(
        "CREATE FUNCTION unsafe(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + pg_backend_pid() * 0';
         CREATE FUNCTION restricted(int) RETURNS int IMMUTABLE PARALLEL RESTRICTED LANGUAGE plpgsql
         AS 'BEGIN RETURN $1; END';
         CREATE FUNCTION safe(int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
         CREATE FUNCTION unsafe_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1 + $2';
         CREATE OPERATOR CLASS unsafe_ops FOR TYPE int USING skip AS OPERATOR 1 =, FUNCTION 1 unsafe_hash(int, bigint);
         CREATE FUNCTION safe_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
         AS 'SELECT $1 + $2';
         CREATE OPERATOR CLASS safe_ops FOR TYPE int USING skip AS OPERATOR 1 =, FUNCTION 1 safe_hash(int, bigint);
         CREATE TYPE pair AS (a int, b int);
         CREATE FUNCTION pair_eq(pair, pair) RETURNS bool IMMUTABLE PARALLEL SAFE LANGUAGE sql
         AS 'SELECT ($1).a = ($2).a AND ($1).b = ($2).b';
         CREATE FUNCTION pair_hash(pair) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE sql AS 'SELECT hashint4(($1).a)';
         CREATE FUNCTION pair_hash(pair, bigint) RETURNS bigint IMMUTABLE LANGUAGE sql
         AS 'SELECT hashint4extended(($1).a, $2)';
         CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    );
    with_workers(&mut hearing.session, 2);
    let make =
        |what: &str| format!("CREATE INDEX t_skip ON t USING skip ({what}) WITH (pages_per_range = 2)");
    for (what, has_workers) in [
        ("id", true),
        ("unsafe(id)", false),
        ("restricted(id)", false),
        ("safe(id)", true),
        ("id unsafe_ops", false),
        ("id safe_ops", true),
        ("id) WHERE (unsafe(id) > 5", false),
        ("id) WHERE (safe(id) > 5", true),
    ] {
        // The closing parenthesis of a predicate comes before the options.
        let command = if what.contains("WHERE") {
            format!(
                "CREATE INDEX t_skip ON t USING skip ({})",
                what.replace(") WHERE", ") WITH (pages_per_range = 2) WHERE")
            )
        } else {
            make(what)
        };
        assert_eq!(!hearing.builds(&command).is_empty(), has_workers, "{command}");
        sound(&mut hearing.session, "t_skip");
        hearing.session.run("DROP INDEX t_skip");
    }
    // Settings.
    for (set, has_workers) in [
        ("SET max_parallel_maintenance_workers = 0", false),
        ("SET max_parallel_workers = 0", false),
        ("SET max_parallel_workers = 1", true),
        // Not enough memory in each process for the values that such a range may have.
        ("SET maintenance_work_mem = '1MB'; SET pg_skip.default_layout = map", true),
    ] {
        hearing.session.run(set);
        if has_workers {
            // Other tests may have so many workers that one more would be above the limit.
            wait_until(set, || {
                hearing.session.run("DROP INDEX IF EXISTS t_skip");
                !hearing.builds(&make("id")).is_empty()
            });
        } else {
            assert_eq!(hearing.builds(&make("id")), [[0u64; 3]; 0], "{set}");
        }
        same(&mut hearing.session, "t", &Question::using("t_skip", "id = 41001"));
        hearing.session.run("DROP INDEX t_skip; RESET ALL; SET client_min_messages = debug1");
    }
    hearing.session.run("SET maintenance_work_mem = '1MB'");
    assert_eq!(
        hearing.builds("CREATE INDEX t_skip ON t USING skip (id) WITH (pages_per_range = 128)"),
        [[0u64; 3]; 0]
    );
    // Workers cannot read a temporary table.
    let builds = hearing.builds(
        "CREATE TEMP TABLE own AS TABLE t; ALTER TABLE own SET (parallel_workers = 2);
         CREATE INDEX own_skip ON own USING skip (id) WITH (pages_per_range = 2)",
    );
    assert_eq!(builds, [[0u64; 3]; 0]);
    same(&mut hearing.session, "own", &Question::using("own_skip", "id = 41001"));
}

/// A function that makes the leader slow, so that workers collect ranges, and raises an error with everything that an
/// error can have, at row 40000 or later, in a worker if test.place is 'worker', else in the leader.
pub const POISON: &str = "
    CREATE FUNCTION poison(k int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
    BEGIN
        IF (pg_backend_pid() = current_setting('test.leader')::int) = (current_setting('test.place') = 'leader') THEN
            IF k > 40000 THEN
                RAISE EXCEPTION 'no good: %', current_setting('test.place') USING ERRCODE = 'P7777',
                    DETAIL = 'a detail', HINT = 'a hint',
                    SCHEMA = 'a schema', TABLE = 'a table', COLUMN = 'a column', DATATYPE = 'a type',
                    CONSTRAINT = 'a constraint';
            END IF;
        ELSIF k % 20 = 0 THEN
            PERFORM pg_sleep(0.001);
        END IF;
        RETURN k;
    END $$;
    CREATE FUNCTION late_poison(k int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
    BEGIN
        IF pg_backend_pid() <> current_setting('test.leader')::int THEN
            PERFORM pg_sleep(2);
            RAISE EXCEPTION 'late' USING ERRCODE = 'P7777', CONSTRAINT = 'a constraint';
        ELSIF k % 20 = 0 AND k <= 2000 THEN
            PERFORM pg_sleep(0.001);
        END IF;
        RETURN k;
    END $$;
    CREATE FUNCTION slow(k int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS
        'BEGIN IF k % 20 = 0 THEN PERFORM pg_sleep(0.001); END IF; RETURN k; END'";

/// Makes the session's process the leader of POISON.
pub fn lead(session: &mut Session) {
    session.run("SELECT set_config('test.leader', pg_backend_pid()::text, false)");
}

on_shared!(late_ranges_wait_in_little_memory);
/// The first chunk takes longer than all others together: what comes after it fills the leader's memory, and then the
/// queues.
fn late_ranges_wait_in_little_memory(database: &Database) {
    let mut hearing = Hearing::new(server(), &database.name);
    hearing.session.run(
        "CREATE FUNCTION late(k int, here text) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
         BEGIN
            IF k % 20 = 0 AND current_setting('test.leader') <> 'none' THEN
                IF k % 40 = 0 AND k <= 1000 THEN PERFORM pg_sleep(0.1); END IF;
                IF k % 500 = 0 AND (pg_backend_pid() = current_setting('test.leader')::int) = (here = 'leader') THEN
                    PERFORM pg_sleep(0.001);
                END IF;
            END IF;
            RETURN k;
         END $$;
         CREATE TABLE t (id int); INSERT INTO t SELECT generate_series(1, 400000);
         SET maintenance_work_mem = '1MB'; SET pg_skip.key_part_pages = 40",
    );
    with_workers(&mut hearing.session, 3);
    // Each of the processes may have the first chunk.
    for layout in ["filters", "map"] {
        for here in ["leader", "worker"] {
            lead(&mut hearing.session);
            let builds = hearing.builds(&format!(
                "CREATE INDEX t_skip ON t USING skip (late(id, '{here}')) WITH (pages_per_range = 1, layout = {layout})"
            ));
            let [workers, theirs, all] = builds[0];
            assert!(workers > 0 && theirs > 0 && theirs < all, "{builds:?}");
            hearing.session.run("SET test.leader = 'none'"); // scans need not be slow
            assert_eq!(
                hearing.session.one(
                    "SELECT sum(width) FROM skip_index_segments('t_skip')
                         WHERE kind <> 'addition' AND (key_part IS NULL OR key_part LIKE '1/%')"
                ),
                all.to_string()
            );
            for key in [1, 999, 1000, 200_000, 399_999, 400_000, 400_001] {
                same(
                    &mut hearing.session,
                    "t",
                    &Question::using("t_skip", format!("late(id, '{here}') = {key}")),
                );
            }
            hearing.session.run("DROP INDEX t_skip");
        }
    }
}

on_shared!(progress_of_all);
fn progress_of_all(database: &Database) {
    let (mut session, mut watcher) = (database.session(), database.session());
    session.run(TABLE);
    session.run(POISON);
    with_workers(&mut session, 2);
    let make = "CREATE INDEX t_skip ON t USING skip (slow(id)) WITH (pages_per_range = 2)";
    let seen = std::thread::scope(|scope| {
        let build = scope.spawn(|| session.run(make));
        let mut seen = Vec::new();
        while !build.is_finished() {
            seen.extend(watcher.rows(
                "SELECT blocks_done, blocks_total, (SELECT count(*) FROM pg_stat_activity w WHERE w.leader_pid = p.pid
                    AND w.query LIKE 'CREATE INDEX%')
                 FROM pg_stat_progress_create_index p WHERE datname = current_database()
                    AND phase = 'building index: summarizing block ranges'",
            ));
            std::thread::sleep(Duration::from_millis(5));
        }
        seen
    });
    let number = |row: &Row, i: usize| row[i].as_ref().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let done: Vec<u64> = seen.iter().map(|row| number(row, 0)).collect();
    assert!(done.is_sorted(), "blocks done: {done:?}");
    assert!(seen.iter().all(|row| number(row, 0) <= number(row, 1)), "{seen:?}");
    assert!(done.iter().any(|&done| done > 0), "{seen:?}");
    assert!(seen.iter().any(|row| number(row, 2) > 0), "workers have the leader's query: {seen:?}");
}

alone!(usage_of_workers_is_counted);
/// What workers read is counted as read by the command.
fn usage_of_workers_is_counted() -> Completion {
    let available = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
    if server().connect("postgres").one(available) == "0" {
        return Completion::ignored_with("this server has no pg_stat_statements");
    }
    let settings = ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_utility=on"];
    let server = Server::start(&settings);
    prepare(&server);
    let mut hearing = Hearing::new(&server, "skip_template");
    hearing.session.run("CREATE EXTENSION pg_stat_statements");
    hearing.session.run(TABLE);
    with_workers(&mut hearing.session, 2);
    hearing.build_together("CREATE INDEX t_skip ON t USING skip (id) WITH (pages_per_range = 2)");
    let counted = hearing.session.one(
        "SELECT min((shared_blks_hit + shared_blks_read) / calls) >= pg_relation_size('t') / 8192
         FROM pg_stat_statements WHERE query LIKE 'CREATE INDEX t_skip%'",
    );
    assert_eq!(counted, "t", "fewer blocks were counted than the table has");
    drop(hearing);
    server.stop();
    Completion::Completed
}
