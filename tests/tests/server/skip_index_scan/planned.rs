//! The executor uses the answer that planning has found for the same key, unless something has changed since.
//!
//! EXPLAIN plans a query and leaves such an answer. A prepared statement that is not planned again then asks for the
//! same key, after whatever other sessions have done.
use crate::registry::{alone, on_shared};
use crate::shared::Database;
use crate::standby::{catch_up, replicated};
use fastrand::Rng;
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};

/// Half of each page is free, so that rows come into ranges that are summarized.
const TABLE: &str = "
    CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 150))
        WITH (autovacuum_enabled = off, fillfactor = 50);
    INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 5000) i";
const INDEX: &str = "CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 2)";
const MAPS: &str = "CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1, layout = map)";
const FILTERS: &str = "CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 2, layout = filters)";

/// A session whose statement `by_key` is planned once, and always by a Skip Index Scan.
fn with_statement(database: &Database) -> Session {
    prepared(database.session())
}

fn prepared(mut session: Session) -> Session {
    session.run(
        "SET plan_cache_mode = force_generic_plan; SET pg_skip.force_indexes = 't_skip';
         PREPARE by_key (int) AS SELECT id FROM t WHERE k = $1; EXECUTE by_key (-1)",
    );
    session
}

fn plan(session: &mut Session, key: i32) {
    session.run(&format!("EXPLAIN SELECT id FROM t WHERE k = {key}"));
}

on_shared!(an_answer_is_used_again);
/// Once, and only for its key; the index pages that it took are told as if the executor had read them.
fn an_answer_is_used_again(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(INDEX);
    let mut session = with_statement(database);
    let mut execute = |planned: Option<i32>| {
        if let Some(key) = planned {
            plan(&mut session, key);
        }
        let node = executed(&mut session, "EXECUTE by_key (7)");
        (
            node.number("Shared Hit Blocks") + node.number("Shared Read Blocks"),
            node.number("Index Pages Read"),
        )
    };
    execute(None);
    let (anew, pages) = execute(None);
    let (again, told) = execute(Some(7));
    assert!(again < anew, "{again} blocks read again, {anew} anew");
    assert_eq!(told, pages, "index pages");
    assert_eq!(execute(None), (anew, pages), "the second time");
    assert_eq!(execute(Some(8)), (anew, pages), "another key");
}

on_shared!(a_table_cut_off_and_grown_again);
/// The table has as many blocks as when the query was planned, but the last ones are new.
fn a_table_cut_off_and_grown_again(database: &Database) {
    let mut other = database.session();
    other.run(TABLE);
    other.run(INDEX);
    let mut session = with_statement(database);
    let blocks = "SELECT pg_relation_size('t') / 8192";
    let before = other.number(blocks);
    plan(&mut session, -5);
    other.run("DELETE FROM t WHERE id > 2500");
    other.run("VACUUM t");
    assert!(other.number(blocks) < before * 0.6, "the table was not cut off");
    other.run("INSERT INTO t SELECT i, -5 FROM generate_series(2501, 5000) i");
    assert_eq!(other.number(blocks), before, "blocks");
    assert_eq!(session.column("EXECUTE by_key (-5)").len(), 2500);
}

on_shared!(changes_since_planning_0 = changes(0, INDEX));
on_shared!(changes_since_planning_1 = changes(1, INDEX));
on_shared!(changes_since_planning_of_maps = changes(2, MAPS));
on_shared!(changes_since_planning_of_filters = changes(3, FILTERS));
/// Rows that came between planning and execution, or since the last execution, are found.
fn changes(database: &Database, number: u64, index: &str) {
    let mut other = database.session();
    other.run(TABLE);
    other.run(index);
    let mut session = with_statement(database);
    let mut rng = Rng::with_seed(seed() ^ (number + 0x706c_616e));
    for round in 0..cases(400) {
        let key = rng.i32(0..30);
        // Without an answer of planning, the statement uses what the session remembers of the index.
        if rng.bool() {
            plan(&mut session, key);
        }
        let changes: Vec<String> = (0..rng.usize(..3)).map(|_| change(&mut rng, key, round)).collect();
        changes.iter().for_each(|change| other.run(change));
        let found = sorted(session.column(&format!("EXECUTE by_key ({key})")));
        let there = format!("SELECT id FROM t WHERE k + 0 = {key}");
        assert_eq!(found, sorted(other.column(&there)), "round {round}, key {key}, after {changes:?}");
    }
    pg_skip_tests::compare::sound(&mut other, "t_skip");
}

alone!(changes_on_a_standby);
/// A standby replays the changes between planning and execution.
fn changes_on_a_standby() {
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1"]);
    let mut other = primary.connect("skip_template");
    other.run(TABLE);
    let mut rng = Rng::with_seed(seed() ^ 0x7374_616e);
    for index in [MAPS, FILTERS] {
        other.run("DROP INDEX IF EXISTS t_skip");
        other.run(index);
        let mut session = standby.connect("skip_template");
        catch_up(&mut other, &mut session);
        let (mut session, mut plain) = (prepared(session), standby.connect("skip_template"));
        for round in 0..cases(150) {
            let key = rng.i32(0..30);
            if rng.bool() {
                plan(&mut session, key);
            }
            let changes: Vec<String> = (0..rng.usize(1..3)).map(|_| change(&mut rng, key, round)).collect();
            changes.iter().for_each(|change| other.run(change));
            catch_up(&mut other, &mut session);
            let found = sorted(session.column(&format!("EXECUTE by_key ({key})")));
            let there = sorted(plain.column(&format!("SELECT id FROM t WHERE k + 0 = {key}")));
            assert_eq!(found, there, "round {round}, key {key}, after {changes:?}, {index}");
        }
    }
    standby.finish();
    primary.finish();
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort_unstable();
    ids
}

/// Most changes touch the key. The row gets it in a block where it was not before, or where it is already.
fn change(rng: &mut Rng, key: i32, round: usize) -> String {
    let id = rng.i32(1..5000);
    match rng.u32(..14) {
        0..=4 => format!("UPDATE t SET k = {key} WHERE id = {id}"),
        5 => format!("UPDATE t SET k = {key} WHERE k = {} ", rng.i32(30..1000)),
        6 => format!("UPDATE t SET k = id % 1000 WHERE k = {key}"),
        7 => format!("BEGIN; UPDATE t SET k = {key} WHERE id = {id}; ROLLBACK"),
        8 => format!("INSERT INTO t SELECT {}, {key} FROM generate_series(1, 3)", 10_000 + round),
        9 => format!("DELETE FROM t WHERE k = {key} AND id % 2 = 0"),
        10 => "VACUUM t".into(),
        11 => "SELECT skip_summarize('t_skip')".into(),
        // What was added since planning is moved from the delta into segments.
        12 => format!("UPDATE t SET k = {key} WHERE id = {id}; SELECT skip_summarize('t_skip')"),
        _ => "REINDEX INDEX t_skip".into(),
    }
}

on_shared!(new_files_within_a_transaction);
/// The index gets a new file, and its old one again, while the session remembers what is in it.
fn new_files_within_a_transaction(database: &Database) {
    let mut other = database.session();
    other.run(TABLE);
    other.run(INDEX);
    let mut session = with_statement(database);
    session.run("BEGIN");
    session.run("SAVEPOINT before");
    let steps = [
        ("REINDEX INDEX t_skip", 5),
        ("UPDATE t SET k = 7 WHERE id <= 10", 14),
        ("REINDEX INDEX t_skip", 14),
        ("ROLLBACK TO before", 5),
        ("TRUNCATE t", 0),
        ("INSERT INTO t SELECT i, 7 FROM generate_series(1, 3000) i", 3000),
        ("ROLLBACK TO before", 5),
        ("ALTER INDEX t_skip SET (false_positive_rate = 0.05)", 5),
        ("UPDATE t SET k = 7 WHERE id BETWEEN 3001 AND 3006", 11),
        ("ROLLBACK", 5),
    ];
    for is_planned in [true, false] {
        if !is_planned {
            session.run("BEGIN");
            session.run("SAVEPOINT before");
        }
        for (number, (step, rows)) in steps.iter().enumerate() {
            // The steps look up other columns.
            session.run("RESET pg_skip.force_indexes");
            session.run(step);
            session.run("SET pg_skip.force_indexes = 't_skip'");
            if is_planned {
                plan(&mut session, 7);
            }
            for time in 0..2 {
                let found = session.column("EXECUTE by_key (7)").len();
                assert_eq!(found, *rows, "time {time} after step {number}, {step}; planned: {is_planned}");
            }
        }
    }
}

on_shared!(a_layout_chosen_since);
/// The index of an empty table has no layout. It is chosen while a session remembers the index without it.
fn a_layout_chosen_since(database: &Database) {
    let mut other = database.session();
    other.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 150))
            WITH (autovacuum_enabled = off, fillfactor = 50);
         CREATE INDEX t_skip ON t USING skip (k)",
    );
    let mut planning = with_statement(database);
    let mut executing = with_statement(database);
    let steps = [
        ("SELECT", 0),
        ("INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i", 1),
        ("SELECT skip_summarize('t_skip')", 1),
        ("UPDATE t SET k = 7 WHERE id BETWEEN 1001 AND 1020", 21),
        ("VACUUM t", 21),
        ("INSERT INTO t SELECT i, 7 FROM generate_series(3001, 3100) i", 121),
        ("SELECT skip_summarize('t_skip')", 121),
        ("UPDATE t SET k = id WHERE id > 1010", 11),
    ];
    for (step, rows) in steps {
        other.run(step);
        plan(&mut planning, 7);
        for session in [&mut planning, &mut executing] {
            for time in 0..2 {
                assert_eq!(session.column("EXECUTE by_key (7)").len(), rows, "time {time} after {step}");
            }
        }
    }
}

on_shared!(a_column_given_up_since);
/// Inserts make no entries any more for a column whose keys could not be made for a while. What a session remembers of
/// the index would rule their rows out.
fn a_column_given_up_since(database: &Database) {
    let mut other = database.session();
    other.run(
        "CREATE OPERATOR CLASS mine FOR TYPE int4 USING skip AS OPERATOR 1 =, FUNCTION 1 hashint4extended(int4, int8);
         ALTER OPERATOR FAMILY mine USING skip ADD FUNCTION 3 (int4, int4) skip_minmax_keys(internal)",
    );
    other.run(TABLE);
    other.run("CREATE INDEX t_skip ON t USING skip (k mine) WITH (pages_per_range = 1)");
    let mut planning = with_statement(database);
    let mut executing = with_statement(database);
    for session in [&mut planning, &mut executing] {
        assert_eq!(session.column("EXECUTE by_key (-7)").len(), 0);
    }
    plan(&mut planning, -7);
    other.run("ALTER OPERATOR FAMILY mine USING skip DROP FUNCTION 3 (int4, int4)");
    database.session().run("UPDATE t SET k = -7 WHERE id BETWEEN 2001 AND 2010");
    other.run("ALTER OPERATOR FAMILY mine USING skip ADD FUNCTION 3 (int4, int4) skip_minmax_keys(internal)");
    for session in [&mut planning, &mut executing] {
        assert_eq!(session.column("EXECUTE by_key (-7)").len(), 10);
    }
}

on_shared!(segments_replaced_since);
/// VACUUM replaces full filters by larger ones after keys were looked up. In a few ranges the new ones have a key by
/// chance, and the old ones do not. An insert of the key there makes no entry: only the directory tells that the answer
/// of planning is out of date.
fn segments_replaced_since(database: &Database) {
    let mut other = database.session();
    other.run(TABLE);
    other.run(
        "CREATE INDEX t_skip ON t USING skip (k)
            WITH (pages_per_range = 2, false_positive_rate = 0.05, autosummarize = off, layout = filters)",
    );
    // Two thirds as many keys as rows; after that a key for each row. So the new filters have another size.
    other.run("UPDATE t SET k = id * 2 / 3");
    other.run("VACUUM t");
    other.run("REINDEX INDEX t_skip; SET pg_skip.vacuum_rebuild_pages = 0; UPDATE t SET k = 10000 + id");
    other.run("VACUUM t");
    // Each session remembers one answer.
    let mut sessions: Vec<(i32, Session)> = (-30..0).map(|key| (key, with_statement(database))).collect();
    sessions.iter_mut().for_each(|(key, session)| plan(session, *key));
    let ranges = |key: &i32| -> Vec<String> {
        database.session().column(&format!("SELECT skip_matching_ranges('t_skip', 'k', {key})"))
    };
    let old: Vec<_> = sessions.iter().map(|(key, _)| ranges(key)).collect();
    other.run("RESET pg_skip.vacuum_rebuild_pages");
    other.run("VACUUM t");
    let mut asked = 0;
    for ((key, session), old) in sessions.iter_mut().zip(old) {
        let Some(range) = ranges(key).into_iter().find(|range| !old.contains(range)) else { continue };
        let row = format!("(SELECT min(id) FROM t WHERE (ctid::text::point)[0]::int / 2 = {range})");
        other.run(&format!("UPDATE t SET k = {key} WHERE id = {row}"));
        assert_eq!(other.one("SELECT sum(delta_entries) FROM skip_index_info('t_skip')"), "0", "entries");
        assert_eq!(session.column(&format!("EXECUTE by_key ({key})")).len(), 1, "range {range}, {old:?}");
        asked += 1;
    }
    assert!(asked > 0, "no filter has another key by chance");
}
