//! A forced index that a query cannot use: the error says which condition it is, and why.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::Session;

fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE t (k int, amount numeric, name text COLLATE \"C\", at timestamptz, payload text);
         INSERT INTO t SELECT i, i, 'n' || i, now(), 'p' FROM generate_series(1, 500) i;
         CREATE INDEX t_skip ON t USING skip (k, amount, name, upper(payload)) WITH (pages_per_range = 1);
         CREATE INDEX t_part ON t USING skip (at) WHERE k > 10;
         CREATE INDEX t_btree ON t (k);
         SET pg_skip.force_indexes = 't_skip'",
    );
}

on_shared!(why_a_forced_index_is_not_used);
fn why_a_forced_index_is_not_used(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    // The condition; what the detail and the hint say.
    for (condition, told, hint) in [
        ("k = 7.5", vec!["on \"k\"", "=(numeric,numeric)", "casts \"k\" to numeric"], "its type, integer"),
        ("k::numeric = 7", vec!["on \"k\"", "an expression or a cast of \"k\""], "Compare the column itself"),
        (
            "amount = 7::float8",
            vec!["on \"amount\"", "an expression or a cast of \"amount\""],
            "Compare the column itself",
        ),
        (
            "k < 7",
            vec!["on \"k\"", "<(integer,integer)", "not in the operator class"],
            "int4_minmax_skip_ops",
        ),
        ("7 > k", vec!["on \"k\"", "(integer,integer)", "not in the operator class"], "int4_minmax_skip_ops"),
        ("k <> 7", vec!["<>(integer,integer)", "not an equality operator"], ""),
        ("k = k + 0", vec!["on \"k\"", "not the same for all rows"], ""),
        ("k = (random() * 10)::int", vec!["on \"k\"", "volatile"], ""),
        ("name LIKE 'n7%'", vec!["on \"name\"", "~~", "not in the operator class"], "text_ngram_skip_ops"),
        (
            "lower(name) = 'n7'",
            vec!["on \"name\"", "an expression or a cast of \"name\""],
            "index on the expression",
        ),
        (
            "lower(name) LIKE 'n7%'",
            vec!["on \"name\"", "an expression or a cast of \"name\""],
            "index on the expression",
        ),
        ("lower(payload) = 'p'", vec!["on \"payload\"", "does not test a column"], "=, IN or IS NULL"),
        ("at = now()", vec!["on \"at\"", "does not test a column of the index"], "=, IN or IS NULL"),
        ("k = 7 OR at = now()", vec!["the OR branch on \"at\"", "no skip index has the column"], ""),
        ("k IS DISTINCT FROM 7", vec!["IS DISTINCT FROM"], ""),
        ("k <> ALL ('{1,2}')", vec!["on \"k\"", "neither a comparison by equality"], ""),
        (
            "k + 1 = 7",
            vec!["on \"k\"", "an expression or a cast of \"k\""],
            "create an index on the expression",
        ),
        ("true", vec!["no condition on this table"], ""),
        (
            "at < now() AND k > 5 AND payload = 'p'",
            vec!["The condition on \"k\"", "\"at\"", "\"payload\""],
            "",
        ),
    ] {
        let error = session.error(&format!("SELECT count(*) FROM t WHERE {condition}"));
        assert_eq!(error.code().code(), "55000", "{condition}: {error:?}");
        let detail = error.detail().unwrap_or_default();
        for word in told {
            assert!(detail.contains(word), "{condition}: {word} is not in: {detail}");
        }
        assert!(error.hint().is_some_and(|given| given.contains(hint)), "{condition}: {error:?}");
    }
    // Subqueries' and parameters' values are keys; what is asked about them is told without trouble.
    session.run("SELECT count(*) FROM t WHERE k = (SELECT max(k) FROM t s WHERE s.k = 7)");
    let error = session.error("SELECT count(*) FROM t WHERE k < (SELECT 7 WHERE random() < 2)");
    assert!(error.detail().is_some_and(|detail| detail.contains("not in the operator class")), "{error:?}");
    session.run("SET plan_cache_mode = force_generic_plan; PREPARE q AS SELECT count(*) FROM t WHERE k > $1");
    assert!(
        session
            .error("EXECUTE q (7)")
            .detail()
            .is_some_and(|detail| detail.contains("not in the operator class"))
    );
    for (index, word) in [("t_part", "partial"), ("t_btree", "not a skip index")] {
        session.run(&format!("SET pg_skip.force_indexes = '{index}'"));
        let error = session.error("SELECT count(*) FROM t WHERE at = now()");
        assert!(error.detail().is_some_and(|detail| detail.contains(word)), "{index}: {error:?}");
    }
    session.run("SET pg_skip.force_indexes = 't_part'");
    assert_eq!(session.one("SELECT count(*) FROM t WHERE at = '2000-01-01' AND k > 11"), "0");
}

on_shared!(deep_conditions);
/// ANDs in ORs in ANDs: used where they are not too deep, right in any case, and never a crash.
fn deep_conditions(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(
        "RESET pg_skip.force_indexes; SET enable_seqscan = off; SET enable_bitmapscan = off;
         SET enable_indexscan = off",
    );
    // The outermost branch finds row 7; each level asks for another row.
    let nested_with = |levels: u32, outer: &str| {
        let mut condition = "k = 7".to_owned();
        for level in 0..levels {
            let (one, other) = (level + 8, level + 9);
            condition = format!("({outer} = {one} AND (amount = {other} OR ({condition})))");
        }
        format!("SELECT count(*) FROM t WHERE k = 7 AND amount = 7 OR k = 3 AND name = 'x' OR {condition}")
    };
    let nested = |levels: u32| nested_with(levels, "k");
    // An AND and an OR for each level. What stands in the ANDs is not in the index, so all levels are needed.
    let all_needed = |levels: u32| nested_with(levels, "length(payload)");
    for (levels, is_used) in [(3, true), (48, true), (52, false), (120, false)] {
        let plan = session.plan(&all_needed(levels));
        assert_eq!(plan.contains("Skip Index Scan"), is_used, "{levels} levels: {plan}");
        assert_eq!(session.one(&all_needed(levels)), "1", "{levels} levels");
    }
    for levels in [3, 40, 120, 400] {
        match session.try_rows(&nested(levels)) {
            Ok(rows) => assert_eq!(rows[0][0].as_deref(), Some("1"), "{levels} levels"),
            // The server's own limits: of its stack, of the parser's.
            Err(error) => {
                let code = error.code().map(|code| code.code()).unwrap_or_default();
                assert!(levels > 100 && ["54001", "42601"].contains(&code), "{levels} levels: {error:?}");
            }
        }
    }
}
