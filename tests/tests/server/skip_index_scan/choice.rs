//! What the planner chooses by itself: the Skip Index Scan where it reads little, something else where that is better.
use super::{TABLE, table_of_uuids};
use crate::plans::{ABSENT, big};
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, reads_all, same, skips};
use pg_skip_tests::explain::{executed, skip_scan};
use pg_skip_tests::session::Session;

on_shared!(chosen_or_not);
fn chosen_or_not(database: &Database) {
    let mut session = database.session();
    big(&mut session);
    let mut fresh = database.session();
    // The very first query of a session, before which nothing has loaded the extension.
    let plan = fresh.plan(&format!("SELECT * FROM big WHERE u = {ABSENT}"));
    assert!(skips(&plan), "the first query of a session:\n{plan}");
    for workers in ["0", "2"] {
        session.run(&format!("SET max_parallel_workers_per_gather = {workers}"));
        by_value(&mut session);
    }
    session.run("RESET max_parallel_workers_per_gather");
    with_unknown_keys(&mut session);
    estimates(&mut session);
    beside_btrees(&mut session);
}

/// The plan of a query about `big` by itself.
#[track_caller]
fn plan(session: &mut Session, predicate: &str) -> String {
    session.plan(&format!("SELECT * FROM big WHERE {predicate}"))
}

fn by_value(session: &mut Session) {
    for predicate in [
        format!("u = {ABSENT}"),
        "u = md5('77')::uuid".into(),
        "u IN (md5('77')::uuid, md5('299999')::uuid)".into(),
        format!("u IN ({})", keys(|i| format!("'00000000-0000-0000-0000-0000000{i:05}'"))),
        format!("u IN ({})", keys(|i| format!("md5('{}')::uuid", 77 + i / 20))),
        "stretch = 77".into(),
        "stretch IN (77, 200)".into(),
        "stretch = 77 AND everywhere = 3".into(),
        "stretch = 77 OR u = md5('1')::uuid".into(),
        "u IS NULL".into(),
        format!("u = {ABSENT} AND id > 5"),
    ] {
        let plan = plan(session, &predicate);
        assert!(skips(&plan), "a Skip Index Scan serves {predicate} best:\n{plan}");
    }
    for predicate in
        ["everywhere = 3", "everywhere IN (1, 2)", "u IS NOT NULL", "stretch IS NOT NULL", "id = 7"]
    {
        let plan = plan(session, predicate);
        assert!(reads_all(&plan), "{predicate} is in every range:\n{plan}");
    }
}

/// A hundred keys for an IN list.
fn keys(key: impl Fn(usize) -> String) -> String {
    (0..100).map(key).collect::<Vec<_>>().join(", ")
}

fn with_unknown_keys(session: &mut Session) {
    session.run(
        "CREATE TABLE few (u uuid); INSERT INTO few SELECT md5(i::text)::uuid FROM generate_series(1, 3) i; ANALYZE few;
         CREATE TABLE many (u uuid); INSERT INTO many SELECT md5(i::text)::uuid FROM generate_series(1, 50000) i;
         ANALYZE many",
    );
    let plan = session.plan("SELECT big.id FROM few JOIN big USING (u)");
    assert!(plan.contains("Nested Loop") && skips(&plan), "three keys from another table:\n{plan}");
    let plan = session.plan("SELECT big.id FROM many JOIN big USING (u)");
    assert!(!plan.contains("Nested Loop"), "fifty thousand keys:\n{plan}");
    let node = executed(session, "SELECT big.id FROM few JOIN big USING (u)");
    assert_eq!(node.rows(), 3.0, "{node:?}");
    session
        .run("PREPARE one(uuid) AS SELECT * FROM big WHERE u = $1; SET plan_cache_mode = force_generic_plan");
    let plan = session.plan(&format!("EXECUTE one({ABSENT})"));
    assert!(skips(&plan) && plan.contains("(average)"), "a generic plan:\n{plan}");
    session.run("RESET plan_cache_mode");
    // A value from an InitPlan or a stable function is not known either, or only guessed.
    for key in ["(SELECT u FROM few LIMIT 1)", "current_setting('big.key', true)::uuid"] {
        let plan = session.plan(&format!("SELECT * FROM big WHERE u = {key}"));
        assert!(skips(&plan), "{key}:\n{plan}");
    }
    session.run("SET plan_cache_mode = auto");
    for execution in 0..8 {
        let plan = session.plan(&format!("EXECUTE one(md5('{execution}')::uuid)"));
        assert!(skips(&plan), "execution {execution}:\n{plan}");
    }
    session.run("RESET plan_cache_mode");
}

/// What is expected is near what happens.
fn estimates(session: &mut Session) {
    // The bitmap scan's estimate has used up most of what planning may read: what it was told is known, though.
    let list = format!("u IN ({})", keys(|i| format!("md5('{i}')::uuid")));
    let node = executed(session, &format!("SELECT * FROM big WHERE {list}"));
    assert_eq!(node.text("Ranges Expected Exactly"), "true", "{node:?}");
    assert_eq!(node.number("Ranges Expected"), node.number("Ranges Scanned"), "{node:?}");
    for (predicate, most) in
        [(format!("u = {ABSENT}"), 2), ("u = md5('77')::uuid".into(), 3), ("stretch = 77".into(), 12)]
    {
        let sql = format!("SELECT * FROM big WHERE {predicate}");
        let (planned, node) = (skip_scan(session, "", &sql), executed(session, &sql));
        assert_eq!(planned.number("Ranges Expected"), node.number("Ranges Scanned"), "{node:?}");
        let (scanned, total) = (node.number("Ranges Scanned"), node.number("Ranges Total"));
        assert!(scanned <= most && scanned * 50 <= total, "{predicate}: {node:?}");
        let pages = node.number("Index Pages Read");
        assert!(pages <= 64, "{predicate} takes {pages} index pages");
        let cost = |node: &str| node.parse::<f64>().expect("a cost");
        let (startup, total) = (cost(planned.text("Startup Cost")), cost(planned.text("Total Cost")));
        assert!(startup <= total, "{planned:?}");
        let whole = session.plan("SELECT * FROM big WHERE (id = 1) IS TRUE");
        let (_, rest) = whole.split_once("..").expect("a cost");
        let whole = cost(rest.split(' ').next().expect("a cost"));
        assert!(total < whole / 5.0, "{predicate} is estimated at {total}, reading all at {whole}");
    }
}

/// Where a btree is better it is taken; where it has to help, it can.
fn beside_btrees(session: &mut Session) {
    session.run("CREATE INDEX big_id ON big (id)");
    let both = format!("u = {ABSENT} OR id = 77");
    let found = plan(session, &both);
    assert!(
        found.contains("BitmapOr") && found.contains("big_id") && found.contains("big_skip"),
        "{both}:\n{found}"
    );
    let found = plan(session, "id = 77");
    assert!(found.contains("Index Scan using big_id"), "{found}");
    session.run("CREATE INDEX big_u ON big (u)");
    let found = plan(session, "u = md5('77')::uuid");
    assert!(found.contains("Index Scan using big_u"), "{found}");
    // The planner has seen that this key is nowhere, so a Skip Index Scan has nothing left to read.
    let found = plan(session, &format!("u = {ABSENT}"));
    assert!(found.contains("Index Scan using big_u") || found.contains("Ranges Expected: 0 of"), "{found}");
    let found = plan(session, "stretch = 77");
    assert!(skips(&found), "{found}");
    session.run("DROP INDEX big_id, big_u");
}

on_shared!(tablesample_reads_its_own_pages);
fn tablesample_reads_its_own_pages(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    for sample in ["BERNOULLI (60) REPEATABLE (7)", "SYSTEM (60) REPEATABLE (7)", "BERNOULLI (100)"] {
        for condition in ["k = 77", "k IN (1, 77, 200)", "k = 7 OR v = '1999'"] {
            let sql = format!("SELECT id FROM t TABLESAMPLE {sample} WHERE {condition}");
            let used = same(&mut session, &Way::skip_scan(), &Case::any(&sql));
            assert!(!used, "a sample is no Skip Index Scan: {sql}");
        }
    }
}

on_shared!(useless_conditions_are_left_out);
/// A condition that rules nothing out is checked on rows, not looked up, while another rules out nearly all.
fn useless_conditions_are_left_out(database: &Database) {
    let mut session = database.session();
    // With a map, u alone leaves one page, and no other condition is worth a lookup.
    session.run("SET pg_skip.default_layout = filters");
    table_of_uuids(&mut session);
    let key = "u = md5('77')::uuid";
    for useless in ["b", "stretch IS NOT NULL", "b IN (true, false)", "NOT b"] {
        let node = skip_scan(&mut session, "", &format!("SELECT id FROM t WHERE {key} AND {useless}"));
        assert!(!node.text("Skip Indexes").contains("t_b"), "{useless} is looked up");
        assert!(node.has("Filter"), "{useless} is not checked");
    }
    let node = skip_scan(&mut session, "", &format!("SELECT id FROM t WHERE {key} AND stretch = 0"));
    assert!(node.text("Skip Indexes").contains("t_b"), "stretch = 0 rules out nearly all, with fewer pages");
    assert_eq!(session.one(&format!("SELECT id FROM t WHERE NOT b AND {key}")), "77");
    // A forced index is asked all the same.
    session.run("SET pg_skip.force_indexes = 't_u, t_b'");
    let node = skip_scan(&mut session, "", &format!("SELECT id FROM t WHERE {key} AND b"));
    assert!(node.text("Skip Indexes").contains("t_b"));
}

on_shared!(lists_that_are_not_hashed);
/// The scan checks `LIKE ANY` pattern by pattern, as a sequential scan does. So where it rules hardly anything out, it
/// costs about as much.
fn lists_that_are_not_hashed(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE l AS SELECT i AS id, i % 100 AS tenant, 'word' || i % 50 || ' took ' || i || ' ms' AS line
             FROM generate_series(1, 50000) i;
         CREATE INDEX ON l USING skip (line text_ngram_skip_ops)",
    );
    session.run("VACUUM ANALYZE l");
    let patterns = keys(|i| format!("'%zzzz{i}%'"));
    let everywhere =
        format!("SELECT id FROM l WHERE tenant = 7 AND line LIKE ANY (ARRAY[{patterns}, '%took%'])");
    let cost = |session: &mut Session, setting: &str| {
        session.run(setting);
        let plan = session.plan(&everywhere);
        let total = plan.split("..").nth(1).and_then(|rest| rest.split(' ').next()).map(str::parse::<f64>);
        session.run("RESET ALL");
        (total.expect("a cost").expect("a number"), plan)
    };
    let (by_index, plan) = cost(&mut session, "SET enable_seqscan = off; SET enable_bitmapscan = off");
    assert!(skips(&plan), "{plan}");
    let (without, plan) = cost(&mut session, "SET pg_skip.enable_scan = off; SET enable_bitmapscan = off");
    assert!(reads_all(&plan), "{plan}");
    assert!(by_index > without * 0.8, "cost {by_index} with the index, {without} without");
    let plan = session.plan(&format!("SELECT id FROM l WHERE line LIKE ANY (ARRAY[{patterns}])"));
    assert!(skips(&plan), "no pattern is in any range:\n{plan}");
}

on_shared!(unknown_parts_of_values);
/// The server guesses the same fraction of rows for any part of a value that it does not know. By that guess every
/// range of these tables has a row. Such parts are mostly rare, so the index is asked nevertheless.
fn unknown_parts_of_values(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE parts AS SELECT i AS id, ARRAY['tag:' || i, 'all'] AS tags,
                jsonb_build_object('session', md5(i::text), 'region', 'eu') AS attributes,
                '/files/' || md5(i::text) || '.txt' AS path, to_char(i, '000000') || ' took word' || i || ' ms' AS line,
                to_tsvector('simple', 'word' || i) AS document, 'p' || md5(i::text) AS prefixed
             FROM generate_series(1, 20000) i;
         CREATE INDEX ON parts USING skip (tags array_element_skip_ops, attributes jsonb_path_skip_ops,
             path text_ngram_skip_ops, line text_token_skip_ops, document tsvector_skip_ops,
             prefixed text_prefix_skip_ops (length = 6)) WITH (pages_per_range = 16);
         SET plan_cache_mode = force_generic_plan; SET max_parallel_workers_per_gather = 0",
    );
    session.run("VACUUM ANALYZE parts");
    for (kind, value, predicate) in [
        ("text[]", "ARRAY['tag:77']", "tags && {}"),
        ("text[]", "ARRAY['tag:77']", "tags @> {}"),
        ("text", "'tag:77'", "{} = ANY (tags)"),
        ("jsonb", "jsonb_build_object('session', md5('77'))", "attributes @> {}"),
        ("text", "md5('77')", "attributes ->> 'session' = {}"),
        ("text", "'%' || md5('77') || '%'", "path LIKE {}"),
        ("text", "md5('77')", "path ~ {}"),
        ("text", "'word77'", "line @@@ {}"),
        ("tsquery", "'word77'::tsquery", "document @@ {}"),
        ("text", "'p' || md5('77')", "prefixed ^@ {}"),
    ] {
        let sql = |value| format!("SELECT id FROM parts WHERE {}", predicate.replace("{}", value));
        session.run(&format!("DEALLOCATE ALL; PREPARE part({kind}) AS {}", sql("$1")));
        for query in [format!("EXECUTE part({value})"), sql(&format!("(SELECT {value} LIMIT 1)"))] {
            let plan = session.plan(&query);
            assert!(skips(&plan) && plan.contains("(average)"), "{query}:\n{plan}");
            let [few, all] = ranges_expected(&plan);
            assert!(0 < few && few < all, "{few} of {all} ranges:\n{plan}");
            assert_eq!(session.column(&query), ["77"], "{query}");
        }
    }
    // For a value that is known there is no guess.
    session.run("SET plan_cache_mode = force_custom_plan");
    session
        .run("DEALLOCATE ALL; PREPARE part(text) AS SELECT id FROM parts WHERE attributes ->> 'region' = $1");
    let plan = session.plan("EXECUTE part('eu')");
    assert!(reads_all(&plan), "the value is in every range:\n{plan}");
    let plan = session.plan("EXECUTE part('us')");
    assert!(skips(&plan) && !plan.contains("(average)"), "{plan}");
}

/// The two numbers of `Ranges Expected: 5 of 100`.
fn ranges_expected(plan: &str) -> [u64; 2] {
    let (_, of) = plan.split_once("Ranges Expected: ").expect("the ranges");
    let mut numbers = of.split_whitespace().filter_map(|word| word.parse().ok());
    std::array::from_fn(|_| numbers.next().expect("a number"))
}

on_shared!(inner_sides_need_no_bitmap);
/// A bitmap scan that reads the same pages takes longer, because of its bitmap: on the inner side of a nested loop it
/// is made anew for each row. The server rounds the number of rows that it is expected to read, here 1.36.
fn inner_sides_need_no_bitmap(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i AS id, i % 100 AS tenant, repeat('x', 500) AS filler
             FROM generate_series(1, 100000) i;
         CREATE INDEX t_id ON t USING skip (id) WITH (false_positive_rate = 0.00005);
         CREATE TABLE few AS SELECT i * 500 AS id FROM generate_series(1, 100) i",
    );
    session.run("VACUUM ANALYZE t, few");
    for query in
        ["SELECT * FROM few JOIN t USING (id)", "SELECT * FROM few JOIN t USING (id) WHERE tenant = 7"]
    {
        let plan = session.plan(query);
        assert!(plan.contains("Nested Loop") && skips(&plan) && !plan.contains("Bitmap"), "{plan}");
    }
}
