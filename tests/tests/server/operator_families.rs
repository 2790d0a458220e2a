//! What a session remembers of operator families: after each change, of its own or of another session, a query is
//! planned with the family as it is now.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::Session;

const FAMILY: &str = "
    CREATE OPERATOR FAMILY numbers USING skip;
    CREATE OPERATOR CLASS of_int4 FOR TYPE int4 USING skip FAMILY numbers AS
        OPERATOR 1 = (int4, int4), FUNCTION 1 hashint4extended(int4, int8);
    CREATE TABLE t (k int) WITH (autovacuum_enabled = off);
    INSERT INTO t SELECT generate_series(1, 2000);
    CREATE INDEX t_skip ON t USING skip (k of_int4) WITH (pages_per_range = 1)";
/// With these members, int4 columns can be compared with int8 keys.
const ADD: &str = "ALTER OPERATOR FAMILY numbers USING skip ADD
    OPERATOR 1 = (int4, int8), FUNCTION 1 (int8, int8) hashint8extended(int8, int8)";
const DROP: &str =
    "ALTER OPERATOR FAMILY numbers USING skip DROP OPERATOR 1 (int4, int8), FUNCTION 1 (int8, int8)";
const QUERY: &str = "SELECT k FROM t WHERE k = 1234::int8";

/// Whether the query asks the index. It always finds its row.
fn asks_the_index(session: &mut Session) -> bool {
    assert_eq!(session.column(QUERY), ["1234"]);
    session.plan(QUERY).contains("Skip Index Scan")
}

fn session(database: &Database) -> Session {
    let mut session = database.session();
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
    session
}

on_shared!(members_that_others_add_and_drop);
fn members_that_others_add_and_drop(database: &Database) {
    let (mut session, mut other) = (session(database), database.session());
    other.run(FAMILY);
    for _ in 0..3 {
        assert!(!asks_the_index(&mut session), "before");
        other.run(ADD);
        assert!(asks_the_index(&mut session), "added");
        other.run(DROP);
        assert!(!asks_the_index(&mut session), "dropped");
    }
}

on_shared!(members_that_are_taken_back);
/// Within a transaction, the session sees its own changes; after it, what was committed.
fn members_that_are_taken_back(database: &Database) {
    let mut session = session(database);
    session.run(FAMILY);
    assert!(!asks_the_index(&mut session), "before");
    session.run("BEGIN");
    session.run(ADD);
    assert!(asks_the_index(&mut session), "added");
    session.run("SAVEPOINT added");
    session.run(DROP);
    assert!(!asks_the_index(&mut session), "dropped");
    session.run("ROLLBACK TO added");
    assert!(asks_the_index(&mut session), "the drop was taken back");
    session.run("ROLLBACK");
    assert!(!asks_the_index(&mut session), "all was taken back");
}

on_shared!(members_of_a_prepared_statement);
/// A generic plan finds its row whether or not the family still has what the plan needs.
fn members_of_a_prepared_statement(database: &Database) {
    let (mut session, mut other) = (session(database), database.session());
    other.run(FAMILY);
    other.run(ADD);
    session.run(
        "SET plan_cache_mode = force_generic_plan; PREPARE by_key (int8) AS SELECT k FROM t WHERE k = $1",
    );
    let plan = session.plan("EXECUTE by_key (1234)");
    assert!(plan.contains("Skip Index Scan"), "the generic plan does not use the index:\n{plan}");
    for member_is_there in [true, false, true, false] {
        assert_eq!(session.column("EXECUTE by_key (1234)"), ["1234"], "member: {member_is_there}");
        other.run(if member_is_there { DROP } else { ADD });
    }
    assert_eq!(session.column("EXECUTE by_key (1234)"), ["1234"], "at the end");
}
