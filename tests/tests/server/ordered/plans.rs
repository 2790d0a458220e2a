//! When a scan in order is planned, what it reads, and what EXPLAIN says of it.
use super::{in_order, is_in_order, log, same_order};
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same, skips};
use pg_skip_tests::explain::{executed, skip_scan};
use pg_skip_tests::session::Session;

/// The first lines of a plan chosen by cost.
fn chosen(session: &mut Session, statement: &str) -> String {
    session.run("SET max_parallel_workers_per_gather = 0");
    session.plan(statement)
}

on_shared!(stops_early);
/// On rough order few ranges are read, and the plan is chosen; it loses to a btree, and on a table without order.
fn stops_early(database: &Database) {
    let mut session = database.session();
    log(&mut session, 20_000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops, tenant)
            WITH (pages_per_range = 2);
         ANALYZE t",
    );
    for (order, most) in [
        ("at DESC LIMIT 20", 8),
        ("at LIMIT 20", 8),
        ("at DESC NULLS LAST LIMIT 20 OFFSET 30", 10),
        ("n NULLS LAST LIMIT 5", 8),
        ("n DESC NULLS LAST LIMIT 5", 8),
        // NULLs are in one of 20 ranges or so.
        ("n DESC LIMIT 500", 120),
        ("at DESC, id LIMIT 20", 8),
    ] {
        let statement = format!("SELECT id, at, n FROM t ORDER BY {order}");
        let plan = chosen(&mut session, &statement);
        assert!(plan.contains("Order By:") && !plan.contains("->  Sort"), "{plan}");
        let node = executed(&mut session, &statement);
        let (read, never) = (node.number("Ranges Scanned"), node.number("Ranges Never Read"));
        assert!(read <= most && read + never == node.number("Ranges Total"), "{statement}: {read} {never}");
        // Meta page, directory, delta, summaries, and one or two pages of bounds.
        assert!(node.number("Index Pages Read") <= 12, "{statement}: {node:?}");
        let expected = node.number("Ranges Expected");
        assert!(
            expected <= 3 * read && read <= 3 * expected,
            "{statement}: {expected} expected, {read} read"
        );
    }
    for (condition, most) in
        [("tenant = 7", 150), ("tenant = 7 AND at < '2024-01-03'", 60), ("id % 2 = 0", 10)]
    {
        let statement = format!("SELECT id, at FROM t WHERE {condition} ORDER BY at DESC LIMIT 10");
        let plan = chosen(&mut session, &statement);
        assert!(plan.contains("Order By: at DESC"), "{plan}");
        let node = executed(&mut session, &statement);
        assert!(node.number("Ranges Scanned") <= most, "{statement}: {node:?}");
        same_order(&mut session, &format!("SELECT at FROM t WHERE {condition} ORDER BY at DESC LIMIT 10"));
    }
    // A btree is better, if there is one.
    session.run("CREATE INDEX t_btree ON t (at); ANALYZE t");
    let plan = chosen(&mut session, "SELECT * FROM t ORDER BY at DESC LIMIT 20");
    assert!(plan.contains("t_btree"), "{plan}");
    session.run("DROP INDEX t_btree");
    let plan = chosen(&mut session, "SELECT * FROM t ORDER BY at DESC");
    assert!(!plan.contains("Index Cond"), "{plan}");
}

on_shared!(bounds_of_ruled_out_ranges_are_not_read);
/// In a table without order, ranges from everywhere may have the first row. Of these, only the bounds of those are read
/// that the condition leaves.
fn bounds_of_ruled_out_ranges_are_not_read(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, u uuid, filler text DEFAULT repeat('x', 1900));
         INSERT INTO t SELECT i, md5(i::text)::uuid FROM generate_series(1, 20000) i;
         CREATE INDEX t_skip ON t USING skip (k, u uuid_minmax_skip_ops) WITH (pages_per_range = 1, layout = map);
         ANALYZE t",
    );
    let statement = |condition: &str| format!("SELECT k FROM t WHERE {condition} ORDER BY u LIMIT 3");
    let mut pages = |condition: &str| {
        same_order(&mut session, &statement(condition));
        in_order().set(&mut session);
        let node = executed(&mut session, &statement(condition));
        session.run("RESET ALL");
        assert!(node.text("Order By").contains('u'), "{node:?}");
        node.number("Index Pages Read")
    };
    // There are ten pages of bounds. For the key some four others are read, and for the order three.
    for (condition, most) in [("k = 42", 10), ("k IN (42, 43)", 10), ("k IN (42, 15000)", 11)] {
        let read = pages(condition);
        assert!(read <= most, "{condition}: {read} pages");
    }
    pages("k > 0");
}

on_shared!(no_order);
fn no_order(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v int, filler text DEFAULT repeat('x', 100));
         INSERT INTO t (v) SELECT (i::bigint * 7919 * 7919 % 1000003) FROM generate_series(1, 60000) i;
         CREATE INDEX t_v ON t USING skip (v int4_minmax_skip_ops);
         ANALYZE t",
    );
    for statement in [
        "SELECT * FROM t ORDER BY v LIMIT 10",
        "SELECT * FROM t ORDER BY v DESC LIMIT 200",
        "SELECT * FROM t WHERE id > 5 ORDER BY v DESC LIMIT 100",
    ] {
        let plan = chosen(&mut session, statement);
        assert!(plan.contains("Seq Scan") && !plan.contains("Order By:"), "{plan}");
    }
    same_order(&mut session, "SELECT v FROM t ORDER BY v LIMIT 1000 OFFSET 3");
    // What must not be kept in memory goes to a sort.
    let little = in_order().with("work_mem", "64kB");
    for statement in ["SELECT v FROM t ORDER BY v", "SELECT v FROM t ORDER BY v DESC OFFSET 59990"] {
        let case = Case { ordered: true, ..Case::using(statement) };
        same(&mut session, &little, &case);
    }
}

on_shared!(spilled);
/// Rows beyond work_mem: in one sort, in two, of values behind pointers, and with NULLs.
fn spilled(database: &Database) {
    let mut session = database.session();
    log(&mut session, 30_000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops,
                code COLLATE \"C\" text_minmax_skip_ops) WITH (pages_per_range = 2, autosummarize = off);
         UPDATE t SET at = at + interval '3 days', n = -n WHERE id % 3 = 0;
         INSERT INTO t (at, n, code) SELECT at, n, code FROM t WHERE id % 2 = 0 OR n IS NULL;
         ANALYZE t",
    );
    let little = in_order().with("work_mem", "64kB");
    for order in ["at", "at DESC", "n", "n DESC", "n NULLS FIRST", "n DESC NULLS LAST"] {
        for limit in ["", "LIMIT 100", "LIMIT 3 OFFSET 9000", "OFFSET 40000"] {
            let column = order.split(' ').next().expect("a column");
            let statement = format!("SELECT {column} FROM t ORDER BY {order} {limit}");
            let case = Case { ordered: true, ..Case::using(statement) };
            same(&mut session, &little, &case);
        }
    }
    for order in ["code COLLATE \"C\"", "code COLLATE \"C\" DESC"] {
        for limit in ["", "LIMIT 100", "LIMIT 3 OFFSET 9000"] {
            let statement = format!("SELECT code FROM t ORDER BY {order} {limit}");
            is_in_order(&mut session, &statement);
            let case = Case { ordered: true, ..Case::using(statement) };
            same(&mut session, &little, &case);
        }
    }
    // The same rows again and again.
    let again = "SELECT o.n, s.at, s.id FROM generate_series(1, 4) o (n),
        LATERAL (SELECT at, id FROM t WHERE id <> o.n ORDER BY at DESC, id LIMIT 700) s ORDER BY o.n, s.at, s.id";
    same(&mut session, &little.with("enable_sort", "on"), &Case { ordered: true, ..Case::any(again) });
}

on_shared!(sorts_that_start_over_keep_no_memory);
/// A scan whose rows are too many for memory starts over for each row of a join.
fn sorts_that_start_over_keep_no_memory(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i AS id, timestamptz '2026-01-01' + i * 7919 % 5000 * interval '1 hour' AS at
             FROM generate_series(1, 5000) i;
         CREATE INDEX ON t USING skip (at timestamptz_minmax_skip_ops) WITH (pages_per_range = 1); ANALYZE t",
    );
    let way =
        in_order().with("work_mem", "64kB").with("enable_material", "off").with("enable_nestloop", "on");
    way.set(&mut session);
    let query = "SELECT at FROM generate_series(1, 600) g LEFT JOIN
        (SELECT at FROM t ORDER BY at OFFSET 4000 LIMIT 1) s ON true";
    let plan = session.plan(query);
    assert!(skips(&plan) && plan.contains("Nested Loop") && !plan.contains("Materialize"), "{plan}");
    session.run(&format!("BEGIN; DECLARE c CURSOR FOR {query}"));
    let used = "SELECT sum(used_bytes) FROM pg_backend_memory_contexts WHERE name = 'pg_skip order'";
    session.run("MOVE 50 FROM c");
    let before = session.number(used);
    session.run("MOVE 500 FROM c");
    let after = session.number(used);
    session.run("COMMIT");
    // A descriptor of two columns has more than 200 bytes.
    assert!(before > 0.0 && after < before + 50_000.0, "{before} bytes, {after} after 500 more sorts");
}

on_shared!(explained);
fn explained(database: &Database) {
    let mut session = database.session();
    log(&mut session, 3000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops,
                code COLLATE \"C\" text_minmax_skip_ops) WITH (pages_per_range = 2);
         ANALYZE t",
    );
    in_order().set(&mut session);
    for (order, shown) in [
        ("at", "at"),
        ("at DESC", "at DESC"),
        ("at DESC NULLS LAST", "at DESC NULLS LAST"),
        ("n NULLS FIRST", "n NULLS FIRST"),
        ("code COLLATE \"C\"", "code COLLATE \"C\""),
    ] {
        let statement = format!("SELECT id FROM t ORDER BY {order} LIMIT 5");
        let node = skip_scan(&mut session, "", &statement);
        assert_eq!(node.text("Order By"), shown);
        assert!(!node.has("Ranges Never Read") && !node.has("Index Cond"));
    }
    let node = skip_scan(&mut session, "VERBOSE,", "SELECT id FROM t AS logs ORDER BY at LIMIT 5");
    assert_eq!(node.text("Order By"), "logs.at");
    let node = executed(&mut session, "SELECT id FROM t WHERE n > 250 AND id % 2 = 0 ORDER BY at LIMIT 5");
    assert!(node.text("Index Cond").contains("n > 250") && node.text("Filter").contains("id % 2"));
    assert!(node.number("Rows Removed by Filter") > 3 && node.number("Ranges Skipped") > 50);
    assert_eq!(node.rows(), 5.0);
}

on_shared!(other_orders);
/// Orders that are not those of the bounds.
fn other_orders(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text COLLATE \"C\", n int, b bpchar COLLATE \"C\",
            r regclass, filler text DEFAULT repeat('x', 300));
         INSERT INTO t (v, n, b) SELECT chr(65 + i % 60) || i, i - 700, chr(65 + i % 60) || i
            FROM generate_series(1, 2000) i;
         CREATE INDEX t_v ON t USING skip (v text_minmax_skip_ops, n int4_minmax_skip_ops, b bpchar_minmax_skip_ops)
            WITH (pages_per_range = 1);
         CREATE INDEX t_lower ON t USING skip (lower(v) text_minmax_skip_ops);
         CREATE INDEX t_part ON t USING skip (id int4_minmax_skip_ops) WHERE n > 0;
         ANALYZE t",
    );
    in_order().set(&mut session);
    for order in [
        "v COLLATE \"en-x-icu\"",
        "v USING ~<~",
        "n::oid",
        "n::text",
        "v::bpchar",
        "b::text COLLATE \"C\"",
        "-n",
        "lower(v)",
        "id",
        "random()",
        "n + 0",
        "filler, n",
    ] {
        let plan = session.plan(&format!("SELECT id FROM t ORDER BY {order} LIMIT 5"));
        assert!(!plan.contains("Order By:"), "{order}:\n{plan}");
    }
    session.run("RESET ALL");
    for order in ["v", "v COLLATE \"C\" DESC", "n", "n USING >", "n USING <", "b", "v::varchar", "n::int"] {
        let statement = format!("SELECT n FROM t ORDER BY {order} LIMIT 5");
        is_in_order(&mut session, &statement);
        same_order(&mut session, &statement);
    }
    let partial = "SELECT n FROM t WHERE n > 0 ORDER BY id DESC LIMIT 5";
    is_in_order(&mut session, partial);
    same_order(&mut session, partial);
}

on_shared!(forced);
/// An index that is forced may be used for the order.
fn forced(database: &Database) {
    let mut session = database.session();
    log(&mut session, 2000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops) WITH (pages_per_range = 2);
         CREATE INDEX t_btree ON t (at); ANALYZE t; SET pg_skip.force_indexes = 't_at'",
    );
    let plan = session.plan("SELECT id FROM t ORDER BY at DESC LIMIT 5");
    assert!(plan.contains("Order By: at DESC"), "{plan}");
    let plan = session.plan("SELECT id FROM t WHERE id = 3 ORDER BY at DESC");
    assert!(plan.contains("Order By: at DESC"), "{plan}");
    assert_eq!(session.error("SELECT id FROM t WHERE id = 3").code().code(), "55000");
    session.run("RESET pg_skip.force_indexes; SET pg_skip.enable_scan = off; DROP INDEX t_btree");
    let plan = session.plan("SELECT id FROM t ORDER BY at DESC LIMIT 5");
    assert!(!plan.contains("Order By:"), "{plan}");
    session.run("SET pg_skip.force_indexes = 't_at'");
    assert_eq!(session.error("SELECT id FROM t ORDER BY at LIMIT 5").code().code(), "55000");
    session.run("RESET ALL; SET pg_skip.plan_probe_pages = 0");
    Way::skip_scan().with("enable_sort", "off").set(&mut session);
    let node = executed(&mut session, "SELECT id FROM t ORDER BY at DESC LIMIT 5");
    assert_eq!(node.text("Ranges Expected Exactly"), "false");
}

on_shared!(partial_index_under_a_join);
/// The bounds of a partial index are not those of the rows that it leaves out. A scan of the table alone must exclude
/// these rows; it is not enough that a join does.
fn partial_index_under_a_join(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (ts int, k int, filler text DEFAULT repeat('x', 400));
         INSERT INTO t (ts, k) SELECT CASE WHEN i % 3 = 0 THEN 5000 - i ELSE i END, CASE WHEN i % 3 <> 0 THEN i END
            FROM generate_series(1, 3000) i;
         CREATE INDEX t_ts ON t USING skip (ts int4_minmax_skip_ops) WITH (pages_per_range = 1) WHERE k IS NOT NULL;
         CREATE TABLE u AS SELECT i AS ts, i AS k FROM generate_series(1, 5000) i; ANALYZE t; ANALYZE u",
    );
    let merge = in_order().with("enable_hashjoin", "off").with("enable_nestloop", "off");
    let joined = "SELECT t.ts, u.k FROM t JOIN u ON t.k = u.k AND t.ts = u.ts ORDER BY t.ts";
    let alone = "SELECT ts FROM t WHERE k IS NOT NULL ORDER BY ts";
    for (statement, is_by_index) in [(joined, false), (alone, true)] {
        merge.set(&mut session);
        let plan = session.plan(statement);
        session.run("RESET ALL");
        assert_eq!(plan.contains("Order By:"), is_by_index, "{plan}");
        same(&mut session, &merge, &Case { ordered: true, ..Case::any(statement) });
    }
}

on_shared!(given_up_columns);
/// A column whose keys could not be made for a while gives no order. Another index may give it; one that is forced is
/// refused. VACUUM does not read its ranges again and again.
fn given_up_columns(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE OPERATOR CLASS mine FOR TYPE int4 USING skip AS OPERATOR 1 =, FUNCTION 1 hashint4extended(int4, int8);
         ALTER OPERATOR FAMILY mine USING skip ADD OPERATOR 11 < (int4, int4), OPERATOR 14 > (int4, int4),
             FUNCTION 3 (int4, int4) skip_minmax_keys(internal);
         CREATE TABLE t (id int, v int, filler text DEFAULT repeat('x', 400)) WITH (autovacuum_enabled = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i;
         CREATE INDEX t_v ON t USING skip (v mine) WITH (pages_per_range = 1); ANALYZE t",
    );
    let query = "SELECT v FROM t ORDER BY v DESC LIMIT 5";
    is_in_order(&mut session, query);
    session.run("ALTER OPERATOR FAMILY mine USING skip DROP FUNCTION 3 (int4, int4)");
    database.session().run("INSERT INTO t SELECT i, 5000 - i FROM generate_series(3001, 6000) i");
    session
        .run("ALTER OPERATOR FAMILY mine USING skip ADD FUNCTION 3 (int4, int4) skip_minmax_keys(internal)");
    let mut session = database.session();
    session.run("ANALYZE t; SET pg_skip.force_indexes = 't_v'");
    let error = session.error(query);
    assert_eq!(error.code().code(), "55000", "{error:?}");
    session.run("RESET pg_skip.force_indexes");
    same(&mut session, &in_order(), &Case { ordered: true, ..Case::any(query) });
    in_order().set(&mut session);
    let plan = session.plan(query);
    assert!(!plan.contains("Order By:"), "{plan}");
    session.run("RESET ALL");
    session.run("CREATE INDEX t_w ON t USING skip (v int4_minmax_skip_ops) WITH (pages_per_range = 1)");
    is_in_order(&mut session, query);
    same_order(&mut session, query);
    session.run("DROP INDEX t_w; SELECT skip_summarize('t_v')");
    let read = |session: &mut Session| {
        session.run("SELECT pg_stat_force_next_flush()");
        let hits = "SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = 't'";
        session.number(hits)
    };
    let before = read(&mut session);
    session.run("SELECT skip_summarize('t_v')");
    let blocks = read(&mut session) - before;
    println!("{blocks} blocks read");
    assert!(blocks < 100.0, "{blocks} blocks of the table were read although no range could be closed");
    session.run("REINDEX INDEX t_v");
    is_in_order(&mut session, query);
    same_order(&mut session, query);
}
