//! What a large statement leaves to the end of its transaction: the ranges of the table's end are summarized right
//! before the commit, and by nobody if the transaction ends in another way or the index is gone.
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::{Server, has_maps};
use pg_skip_tests::session::Session;

/// Rows of which 26 fill a block; a range is one block.
const TABLE: &str = "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, v text,
                                     filler text DEFAULT repeat('x', 270));
                     CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1)";

/// A statement that is large enough: 300 blocks.
fn large(first: u32) -> String {
    insert(first, 7800)
}

fn insert(first: u32, rows: u32) -> String {
    format!("INSERT INTO t (k, v) SELECT i, 'v' || i FROM generate_series({first}, {}) i", first + rows - 1)
}

/// Number of block ranges that are not summarized.
fn tail(session: &mut Session) -> f64 {
    session.number("SELECT max(ranges - summarized) FROM skip_index_info('t_skip')")
}

/// As [`tail`], of ranges with rows: COPY may leave empty blocks at the table's end, which it has added for more rows.
fn tail_with_rows(session: &mut Session) -> f64 {
    session.number(
        "SELECT count(DISTINCT (ctid::text::point)[0]) FROM t, skip_index_info('t_skip')
         WHERE attnum = 1 AND (ctid::text::point)[0] >= summarized",
    )
}

/// The most ranges that stay without a summary: a batch but for one, and the newest range.
const MOST_TAIL: f64 = 16.0;

fn is_right(session: &mut Session, keys: &[u32]) {
    for key in keys {
        same(session, "t", &Question::any(format!("k = {key}")));
        same(session, "t", &Question::any(format!("v = 'v{key}'")));
    }
    sound(session, "t_skip");
}

/// Begins a transaction with a statement that leaves many ranges without a summary. How many it leaves depends on where
/// its last batch has ended.
fn leave_a_tail(session: &mut Session) -> f64 {
    for more in 0..20 {
        session.run("BEGIN");
        session.run(&large(0));
        session.run(&insert(10_000, 7800 + more * 9 * 26));
        let left = tail(session);
        if left > MOST_TAIL {
            return left;
        }
        session.run("ROLLBACK");
    }
    panic!("no statement leaves more than {MOST_TAIL} ranges");
}

on_shared!(a_large_statement_summarizes_its_end);
fn a_large_statement_summarizes_its_end(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    leave_a_tail(&mut session);
    session.run("COMMIT");
    let after = tail(&mut session);
    assert!(after <= MOST_TAIL, "{after} ranges");
    is_right(&mut session, &[0, 7799, 10_000, 17_799, 20_000]);

    let mut rows = String::new();
    (20_000..27_800).for_each(|k| rows += &format!("{k}\tv{k}\n"));
    session.copy("COPY t (k, v) FROM STDIN", &mut rows.as_bytes());
    let after = tail_with_rows(&mut session);
    assert!(after <= MOST_TAIL, "{after} ranges behind a COPY");
    is_right(&mut session, &[20_000, 27_799]);
}

/// The most segments that a lookup meets.
fn segments(session: &mut Session) -> f64 {
    session.number("SELECT max(segments) FROM skip_index_info('t_skip')")
}

on_shared!(the_segments_of_a_large_statement_are_merged);
/// A large statement merges its segments once, before the commit. If it is rolled back, others merge them. A statement
/// after whose end nothing can be done, because an expression of the index is users' code, merges meanwhile.
fn the_segments_of_a_large_statement_are_merged(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    // 2,300 blocks, of which the index keeps as many segments as log8 of this number, and one more of maps.
    let kept = if has_maps() { 4.0 } else { 3.0 };
    session.run(&format!("BEGIN; {}", insert(0, 60_000)));
    let meanwhile = segments(&mut session);
    println!("{meanwhile} segments");
    assert!((2.0 * kept + 6.0..=40.0).contains(&meanwhile), "{meanwhile} segments before the commit");
    is_right(&mut session, &[0, 30_000, 59_999, 60_000]);
    session.run("COMMIT");
    let after = segments(&mut session);
    assert!(after <= kept, "{after} segments after the commit");
    is_right(&mut session, &[0, 30_000, 59_999, 60_000]);

    session.run(&format!("BEGIN; {}; ROLLBACK", insert(60_000, 40_000)));
    let (left, small) = (segments(&mut session), 26 * 17);
    assert!(left > 2.0 * kept, "{left} segments after a rollback");
    for batch in 0..4 {
        session.run(&insert(60_000 + batch * small, small));
    }
    let after = segments(&mut session);
    assert!(after <= 2.0 * kept + 5.0, "{after} segments after some inserts");
    is_right(&mut session, &[0, 59_999, 60_000, 60_100]);

    session.run(
        "CREATE FUNCTION same(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
         TRUNCATE t; DROP INDEX t_skip; CREATE INDEX t_skip ON t USING skip (same(k)) WITH (pages_per_range = 1)",
    );
    session.run(&format!("BEGIN; {}", insert(0, 60_000)));
    let meanwhile = segments(&mut session);
    assert!(meanwhile <= 2.0 * kept + 5.0, "{meanwhile} segments of an expression");
    session.run("COMMIT");
    same(&mut session, "t", &Question::any("same(k) = 59999"));
}

on_shared!(large_segments_are_merged_meanwhile);
/// Segments that cannot all be merged at once at the end are merged while the statement inserts.
fn large_segments_are_merged_meanwhile(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, tags int[]) WITH (autovacuum_enabled = off);
         CREATE INDEX t_skip ON t USING skip (tags array_element_skip_ops)
             WITH (pages_per_range = 1, layout = map, autosummarize = on);
         SET pg_skip.merge_pages = 1;
         BEGIN; INSERT INTO t SELECT i, ARRAY(SELECT i * 20 + j FROM generate_series(1, 20) j)
             FROM generate_series(1, 120000) i",
    );
    // 2,069 blocks, of which 1,024 are merged at the end: the bound of the number of segments of a map.
    let bound = 13.0;
    let meanwhile = segments(&mut session);
    assert!(meanwhile <= bound, "{meanwhile} segments before the commit");
    session.run("COMMIT");
    let after = segments(&mut session);
    assert!(after <= bound - 3.0, "{after} segments after the commit");
    for key in [21, 600_000, 1_200_020, 1_200_021] {
        same(&mut session, "t", &Question::any(format!("tags @> ARRAY[{key}]")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(without_autosummarize_nothing_is_done);
fn without_autosummarize_nothing_is_done(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run("ALTER INDEX t_skip SET (autosummarize = off)");
    session.run(&large(0));
    assert!(tail(&mut session) >= 300.0);
}

on_shared!(a_rollback_forgets_it);
fn a_rollback_forgets_it(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    let left = leave_a_tail(&mut session);
    session.run("ROLLBACK");
    // The next transaction has nothing to do with it.
    session.run("BEGIN; CREATE TABLE other (); COMMIT");
    assert_eq!(tail(&mut session), left);
    is_right(&mut session, &[0, 7799]);
    // The insert goes, the transaction stays.
    session.run(&format!("BEGIN; SAVEPOINT s; {}; ROLLBACK TO s; COMMIT", large(0)));
    is_right(&mut session, &[0, 7799]);
    session.run(&format!("BEGIN; SAVEPOINT s; {}; RELEASE s; COMMIT", large(0)));
    assert!(tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[0, 7799]);
}

on_shared!(an_index_that_is_gone_is_left_alone);
fn an_index_that_is_gone_is_left_alone(database: &Database) {
    for gone in [
        "DROP INDEX t_skip",
        "DROP TABLE t",
        "ALTER TABLE t ALTER k TYPE bigint",
        "TRUNCATE t",
        "REINDEX TABLE t",
    ] {
        let mut session = database.session();
        session.run("DROP TABLE IF EXISTS t");
        session.run(TABLE);
        session.run(&format!("BEGIN; {}; {gone}; COMMIT", large(0)));
        if !gone.starts_with("DROP") {
            is_right(&mut session, &[0, 5000]);
        }
        // Created in a subtransaction that was rolled back.
        session.run("DROP TABLE IF EXISTS t");
        session.run(&format!("BEGIN; SAVEPOINT s; {TABLE}; {}; ROLLBACK TO s; COMMIT", large(0)));
        // Created, filled and committed at once.
        session.run(&format!("BEGIN; {TABLE}; {}; COMMIT", large(0)));
        assert!(tail(&mut session) <= MOST_TAIL);
        is_right(&mut session, &[0, 7799]);
    }
}

on_shared!(a_commit_does_not_wait);
/// A rolled back subtransaction releases the lock of its insert. Who takes it meanwhile is not waited for.
fn a_commit_does_not_wait(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    session.run(TABLE);
    for locked in ["LOCK t IN ACCESS EXCLUSIVE MODE", "REINDEX INDEX t_skip"] {
        session.run(&format!("BEGIN; SAVEPOINT s; {}; ROLLBACK TO s", large(0)));
        other.run(&format!("BEGIN; {locked}"));
        session.run("SET lock_timeout = '20s'; COMMIT");
        other.run("ROLLBACK");
        is_right(&mut session, &[0, 7799]);
    }
}

on_shared!(temporary_tables);
fn temporary_tables(database: &Database) {
    let mut session = database.session();
    for on_commit in ["PRESERVE ROWS", "DELETE ROWS", "DROP"] {
        let table = TABLE.replace("CREATE TABLE t", "CREATE TEMP TABLE t");
        let table = table.replace("0));", &format!("0)) ON COMMIT {on_commit};"));
        session.run(&format!("BEGIN; {table}; {}; COMMIT", large(0)));
        if on_commit != "DROP" {
            is_right(&mut session, &[0, 7799]);
            session.run("DROP TABLE t");
        }
    }
}

on_shared!(values_out_of_line);
/// They are read with a snapshot.
fn values_out_of_line(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run("ALTER TABLE t ALTER v SET STORAGE EXTERNAL");
    let long = large(0).replace("'v' || i", "repeat('v' || i, 600)").replace("7799", "1999");
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        session.run(&format!("BEGIN ISOLATION LEVEL {isolation}; {long}; COMMIT"));
    }
    let after = tail(&mut session);
    assert!(after <= MOST_TAIL, "{after}");
    for key in [0, 1999, 2000] {
        same(&mut session, "t", &Question::any(format!("v = repeat('v{key}', 600)")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(code_of_users_does_not_run_in_a_commit);
/// A function could raise an error, or do what a committing transaction must not.
fn code_of_users_does_not_run_in_a_commit(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, v text, filler text DEFAULT repeat('x', 270));
         CREATE FUNCTION kept(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
         BEGIN
             IF current_setting('test.commits', true) = 'yes' THEN RAISE 'called in a commit'; END IF;
             RETURN k;
         END $$;
         CREATE INDEX t_skip ON t USING skip (kept(k), v) WITH (pages_per_range = 1)",
    );
    session.run(&format!("BEGIN; {}", large(0)));
    session.run("SET test.commits = yes; COMMIT");
    session.run("RESET test.commits");
    same(&mut session, "t", &Question::any("kept(k) = 7799"));
    sound(&mut session, "t_skip");
}

on_shared!(hash_functions_of_users_do_not_run_in_a_commit);
/// The server's own hash function of arrays calls that of their elements.
fn hash_functions_of_users_do_not_run_in_a_commit(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE own;
         CREATE FUNCTION own_in(cstring) RETURNS own IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
         CREATE FUNCTION own_out(own) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'int4out';
         CREATE TYPE own (INPUT = own_in, OUTPUT = own_out, LIKE = int4);
         CREATE CAST (own AS int) WITHOUT FUNCTION; CREATE CAST (int AS own) WITHOUT FUNCTION AS ASSIGNMENT;
         CREATE FUNCTION own_eq(own, own) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4eq';
         CREATE OPERATOR = (FUNCTION = own_eq, LEFTARG = own, RIGHTARG = own, HASHES);
         CREATE FUNCTION own_hash(own) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'hashint4';
         CREATE FUNCTION own_hash(own, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE plpgsql AS $$
         BEGIN
             IF current_setting('test.commits', true) = 'yes' THEN RAISE 'called in a commit'; END IF;
             RETURN hashint4extended($1::int, $2);
         END $$;
         CREATE OPERATOR CLASS own_ops DEFAULT FOR TYPE own USING hash AS
             OPERATOR 1 =, FUNCTION 1 own_hash(own), FUNCTION 2 own_hash(own, bigint);
         CREATE DOMAIN owns AS own[]",
    );
    for (of, value) in [("own[]", "ARRAY[{i}::own]"), ("owns", "ARRAY[{i}::own]")] {
        session.run(&format!(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, v {of}, filler text DEFAULT repeat('x', 270));
             CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1)"
        ));
        session.run(&format!("BEGIN; {}", large(0).replace("'v' || i", &value.replace("{i}", "i"))));
        session.run("SET test.commits = yes; COMMIT");
        // VACUUM does not fail either: it leaves the ranges open.
        session.run("VACUUM t");
        session.run("RESET test.commits");
        let value = value.replace("{i}", "7799");
        same(&mut session, "t", &Question::any(format!("v = {value}")));
        sound(&mut session, "t_skip");
        session.run("VACUUM t");
        same(&mut session, "t", &Question::any(format!("v = {value}")));
        sound(&mut session, "t_skip");
        session.run("DROP TABLE t");
    }
}

on_shared!(procedures_that_commit);
fn procedures_that_commit(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    let (one, two) = (large(0), large(10_000));
    session.run(&format!(
        "CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$
         BEGIN {one}; COMMIT; {two}; ROLLBACK; {two}; COMMIT; END $$;"
    ));
    session.run("CALL fill()");
    assert!(tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[0, 7799, 10_000, 17_799]);
}

alone!(prepared_transactions_forget_it);
fn prepared_transactions_forget_it() {
    let server = Server::start(&["max_prepared_transactions=2"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(TABLE);
    session.run(&format!("BEGIN; {}; PREPARE TRANSACTION 'p'", large(0)));
    let left = tail(&mut session);
    session.run("CREATE TABLE other ()");
    assert_eq!(tail(&mut session), left, "forgotten");
    session.run("COMMIT PREPARED 'p'");
    is_right(&mut session, &[0, 7799]);
    drop(session);
    server.finish();
}

alone!(without_wal);
/// With `wal_level = minimal`, what is done before the commit to a file of the same transaction is not in WAL, but
/// synced or logged afterwards.
fn without_wal() {
    for threshold in ["wal_skip_threshold=0", "wal_skip_threshold=1GB"] {
        let server = Server::start(&["wal_level=minimal", "max_wal_senders=0", threshold, "fsync=on"]);
        shared::prepare(&server);
        let mut session = server.connect("skip_template");
        let other = TABLE.replace("TABLE t", "TABLE u").replace("t_skip ON t", "u_skip ON u");
        session.run(&other);
        session.run(&large(0).replace("INTO t", "INTO u"));
        session.run("CHECKPOINT");
        session.run(&format!("BEGIN; {TABLE}; {}; COMMIT", large(0)));
        session.run(&format!("BEGIN; TRUNCATE u; {}; COMMIT", large(10_000).replace("INTO t", "INTO u")));
        drop(session);
        server.stop_immediately();
        server.restart();
        let mut session = server.connect("skip_template");
        assert!(tail(&mut session) <= MOST_TAIL);
        is_right(&mut session, &[0, 7799]);
        sound(&mut session, "u_skip");
        for key in [0, 10_000, 17_799] {
            same(&mut session, "u", &Question::any(format!("k = {key}")));
        }
        session.run(&large(20_000));
        is_right(&mut session, &[0, 7799, 20_000]);
        drop(session);
        server.finish();
    }
}
