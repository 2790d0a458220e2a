//! Expressions of an index that fail while ranges are summarized: the ranges stay open, and nothing else happens.
use crate::registry::on_shared;
use crate::shared::{Database, wait_until};
use pg_skip_tests::compare::{Question, same, sound};

/// Rows of which 14 fill a block, in an index on an expression, of which nothing is summarized.
const TABLE: &str =
    "CREATE FUNCTION f(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN k; END';
    CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, filler text DEFAULT repeat('x', 500));
    CREATE INDEX t_skip ON t USING skip (public.f(k))
        WITH (pages_per_range = 4, layout = filters, autosummarize = off)";

on_shared!(while_a_transaction_commits);
/// A deferred trigger inserts rows, and the inserts summarize ranges for which the expression fails.
fn while_a_transaction_commits(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(
        "INSERT INTO t (k) SELECT generate_series(1, 2000); ALTER INDEX t_skip SET (autosummarize = on);
         CREATE OR REPLACE FUNCTION f(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
            'BEGIN IF k <= 2000 THEN RAISE ''no''; END IF; RETURN k; END';
         CREATE TABLE fires (first int);
         CREATE FUNCTION insert_more() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO t (k) SELECT generate_series(NEW.first, NEW.first + 499); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON fires DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION insert_more()",
    );
    let mut other = database.session();
    other.run("BEGIN; INSERT INTO fires VALUES (3001); COMMIT");
    assert_eq!(session.number("SELECT count(*) FROM t"), 2500.0);
    session.run(
        "CREATE OR REPLACE FUNCTION f(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN k; END';
         SELECT skip_summarize('t_skip')",
    );
    for key in [1, 1999, 3001, 3499, 9999] {
        same(&mut session, "t", &Question::any(format!("f(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(memory);
/// The expression fails in each of 1,000 blocks. It notes in sequences, which no rollback undoes, how much memory the
/// session has at the first failure and at the last.
fn memory(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(
        "INSERT INTO t (k) SELECT generate_series(1, 14000); CREATE SEQUENCE first_bytes; CREATE SEQUENCE last_bytes;
         SELECT setval('first_bytes', 1);
         CREATE OR REPLACE FUNCTION f(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
            DECLARE bytes bigint := (SELECT sum(total_bytes) FROM pg_catalog.pg_backend_memory_contexts);
            BEGIN
                IF (SELECT last_value FROM public.first_bytes) = 1 THEN
                    PERFORM pg_catalog.setval('public.first_bytes', bytes);
                END IF;
                PERFORM pg_catalog.setval('public.last_bytes', bytes);
                RAISE 'no';
            END $$;
         SELECT skip_summarize('t_skip')",
    );
    let growth = session.number("SELECT b.last_value - a.last_value FROM first_bytes AS a, last_bytes AS b");
    assert!(session.number("SELECT last_value FROM first_bytes") > 1.0, "the expression was not evaluated");
    assert!(growth < 500_000.0, "{growth} bytes more after 1,000 failures");
}

on_shared!(progress);
/// VACUUM goes on after the expression has failed, and the view of its progress shows so.
fn progress(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(
        "INSERT INTO t (k) SELECT generate_series(1, 1000);
         CREATE OR REPLACE FUNCTION f(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
            BEGIN
                IF k = 1 THEN RAISE 'no'; END IF;
                IF k = 500 THEN
                    PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7);
                END IF;
                RETURN k;
            END $$",
    );
    let mut holder = database.session();
    holder.run("SELECT pg_advisory_lock(7)");
    let vacuum = std::thread::spawn(move || {
        session.run("VACUUM t");
        session
    });
    wait_until("VACUUM waits", || {
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        holder.number(waits) > 0.0
    });
    let shown = "SELECT phase, heap_blks_total > 0, relid = 't'::regclass FROM pg_stat_progress_vacuum
        WHERE datname = current_database()";
    let shown = holder.rows(shown);
    holder.run("SELECT pg_advisory_unlock(7)");
    let mut session = vacuum.join().expect("VACUUM");
    let expected = ["cleaning up indexes", "t", "t"].map(|text| Some(text.to_owned()));
    assert_eq!(shown, [expected.to_vec()]);
    session.run(
        "CREATE OR REPLACE FUNCTION f(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN k; END'",
    );
    for key in [1, 500, 999] {
        same(&mut session, "t", &Question::any(format!("f(k) = {key}")));
    }
}
