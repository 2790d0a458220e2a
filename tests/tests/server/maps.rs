//! Maps instead of filters: the option, what is shared with filters in one index, additions, open stretches, sorting on
//! disk. The other tests run with filters as well: `PG_SKIP_LAYOUT=filters`.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{self, Case, Way};
use pg_skip_tests::compare;
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::Session;

/// Conditions on a table with the columns k, d and n, whose values are i, i / 100 and i % 50 or NULL for i from 1 on.
const CONDITIONS: [&str; 9] = [
    "k = 17",
    "k IN (3, 1900, 1999, 5000, -1)",
    "k = -5",
    "d = 7",
    "d = 7 AND k = 731",
    "n IS NULL",
    "n IS NOT NULL AND k = 40",
    "n = 13 AND d IN (1, 12)",
    "k = 12 OR d = 3 OR n = 49 AND k = 149",
];

fn all_conditions(session: &mut Session) {
    for condition in CONDITIONS {
        let sql = format!("SELECT * FROM t WHERE {condition}");
        for way in [Way::skip_scan(), Way::bitmap()] {
            both_ways::same(session, &way, &Case::any(&sql));
        }
    }
    compare::sound(session, "t_skip");
}

fn kinds(session: &mut Session) -> String {
    session.one("SELECT string_agg(DISTINCT kind, ' ' ORDER BY kind) FROM skip_index_segments('t_skip')")
}

on_shared!(filters_and_maps_in_one_index);
fn filters_and_maps_in_one_index(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 200));
         INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (layout = map), d, n int4_skip_ops (layout = map))
             WITH (layout = filters, pages_per_range = 2)",
    );
    let layouts = session.column("SELECT layout FROM skip_index_info('t_skip') ORDER BY attnum");
    assert_eq!(layouts, ["map", "filters", "map"]);
    all_conditions(&mut session);
    session.run("UPDATE t SET k = k + 10000, d = d + 1, n = NULL WHERE k % 40 = 0");
    session.run("INSERT INTO t SELECT i, i / 100, i % 50 FROM generate_series(1, 2000) i");
    all_conditions(&mut session);
    session.run("SELECT skip_summarize('t_skip')");
    all_conditions(&mut session);
    session.run("VACUUM t");
    all_conditions(&mut session);
    session.run("REINDEX INDEX t_skip");
    assert_eq!(kinds(&mut session), "filters map");
    all_conditions(&mut session);
}

on_shared!(the_option);
fn the_option(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (k int)");
    let error = session.error("CREATE INDEX ON t USING skip (k) WITH (layout = tree)");
    assert!(
        error.detail().is_some_and(|detail| detail.contains("\"auto\", \"filters\" and \"map\"")),
        "{error:?}"
    );
    let error = session.error("CREATE INDEX ON t USING skip (k int4_skip_ops (layout = ''))");
    assert!(
        error.detail().is_some_and(|detail| detail.contains("\"auto\", \"filters\" and \"map\"")),
        "{error:?}"
    );
    session.run(
        "INSERT INTO t SELECT generate_series(1, 100);
         CREATE INDEX t_skip ON t USING skip (k) WITH (layout = map)",
    );
    session.run("ALTER INDEX t_skip SET (layout = filters)");
    let pending = "SELECT layout || ', ' || pending_options FROM skip_index_info('t_skip')";
    assert_eq!(session.one(pending), "map, layout = filters");
    session.run("REINDEX INDEX t_skip");
    assert_eq!(session.one("SELECT layout FROM skip_index_info('t_skip')"), "filters");
    session
        .run("SET pg_skip.default_layout = map; DROP INDEX t_skip; CREATE INDEX t_skip ON t USING skip (k)");
    assert_eq!(session.one("SELECT layout FROM skip_index_info('t_skip')"), "map");
}

/// Layout and pages of the ranges of each column.
fn chosen(session: &mut Session) -> Vec<String> {
    session.column(
        "SELECT concat_ws(' ', layout, pages_per_range) FROM skip_index_info('t_skip') ORDER BY attnum",
    )
}

/// The layout that is chosen for a rate is the smaller one, and sizes lie close where the choice changes.
fn smaller_layout(session: &mut Session) {
    session.run("CREATE TABLE u AS SELECT i AS k FROM generate_series(1, 300000) i");
    for (rate, smaller) in [("0.2", "filters"), ("0.1", "filters"), ("0.05", "map"), ("0.001", "map")] {
        let [of_map, of_filters] = ["map", "filters"].map(|layout| {
            session.run(&format!(
                "DROP INDEX IF EXISTS u_skip; CREATE INDEX u_skip ON u USING skip (k)
                     WITH (layout = {layout}, pages_per_range = 8, false_positive_rate = {rate})"
            ));
            session.number("SELECT pg_relation_size('u_skip')")
        });
        println!("rate {rate}: a map takes {of_map} bytes, filters {of_filters}");
        assert_eq!(if of_map < of_filters { "map" } else { "filters" }, smaller, "rate {rate}");
        session.run(&format!(
            "DROP INDEX u_skip; CREATE INDEX u_skip ON u USING skip (k) WITH (false_positive_rate = {rate})"
        ));
        assert_eq!(session.one("SELECT layout FROM skip_index_info('u_skip')"), smaller, "rate {rate}");
    }
}

on_shared!(chosen_from_the_data);
fn chosen_from_the_data(database: &Database) {
    let mut session = database.session();
    // k is unique, d repeats on the pages of a range, n is a list of few values.
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 200));
         INSERT INTO t SELECT i, i * 7919 % 300, nullif(i % 50, 0) FROM generate_series(1, 6000) i;
         SET pg_skip.default_layout = auto; CREATE INDEX t_skip ON t USING skip (k, d, n)",
    );
    assert_eq!(chosen(&mut session), ["map 1", "map 16", "map 16"]);
    let reasons = session.column("SELECT layout_reason FROM skip_index_info('t_skip') ORDER BY attnum");
    assert!(reasons.iter().all(|reason| reason.contains("rows per page")), "{reasons:?}");
    all_conditions(&mut session);
    smaller_layout(&mut session);
    // A rate that makes filters the smaller ones, set for the index or for a column.
    session.run(
        "DROP INDEX t_skip;
         CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (false_positive_rate = 0.001), d, n)
         WITH (false_positive_rate = 0.1)",
    );
    assert_eq!(chosen(&mut session), ["map 1", "filters 16", "filters 16"]);
    all_conditions(&mut session);
    // Ranges that are set: of the index, and of a column.
    session.run(
        "DROP INDEX t_skip;
         CREATE INDEX t_skip ON t USING skip (k, d int4_skip_ops (pages_per_range = 2), n) WITH (pages_per_range = 8)",
    );
    assert_eq!(chosen(&mut session), ["map 8", "map 2", "map 8"]);
    all_conditions(&mut session);
    session.run(
        "DROP INDEX t_skip;
         CREATE INDEX t_skip ON t USING skip (k, d int4_skip_ops (pages_per_range = 24),
         n int4_skip_ops (layout = filters))",
    );
    assert_eq!(chosen(&mut session), ["map 1", "map 24", "filters 48"]);
    all_conditions(&mut session);
    let refused = |options: &str, with: &str| {
        format!("CREATE INDEX ON t USING skip (k, d int4_skip_ops ({options})) WITH ({with})")
    };
    for (options, with) in [
        ("pages_per_range = 3", "pages_per_range = 16"),
        ("pages_per_range = 2, layout = filters", "pages_per_range = 16"),
        ("pages_per_range = 1", "pages_per_range = 131072"),
    ] {
        let error = session.error(&refused(options, with));
        assert_eq!(error.code().code(), "22023", "{options}: {error:?}");
    }
}

on_shared!(chosen_with_the_first_range);
fn chosen_with_the_first_range(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 200));
         SET pg_skip.default_layout = auto; CREATE INDEX t_skip ON t USING skip (k, d, n)",
    );
    assert_eq!(chosen(&mut session), ["auto 16", "auto 16", "auto 16"]);
    assert!(session.one("SELECT min(layout_reason) FROM skip_index_info('t_skip')").contains("yet"));
    all_conditions(&mut session);
    session.run("INSERT INTO t SELECT i, i * 7919 % 300, nullif(i % 50, 0) FROM generate_series(1, 300) i");
    assert_eq!(chosen(&mut session), ["auto 16", "auto 16", "auto 16"]);
    all_conditions(&mut session);
    // Inserts summarize the first ranges, and so choose; rows that come into those go to the delta.
    for sql in [
        "INSERT INTO t SELECT i, i * 7919 % 300, nullif(i % 50, 0) FROM generate_series(301, 9000) i",
        "DELETE FROM t WHERE k % 5 = 1",
        "VACUUM (INDEX_CLEANUP off) t",
        "INSERT INTO t SELECT -i, i % 30, i % 50 FROM generate_series(1, 900) i",
    ] {
        session.run(sql);
    }
    assert_eq!(chosen(&mut session), ["map 1", "map 16", "map 16"]);
    assert_ne!(session.one("SELECT sum(delta_entries) FROM skip_index_info('t_skip')"), "0");
    all_conditions(&mut session);
    session.run("UPDATE t SET k = k + 20000, d = d + 1, n = NULL WHERE k % 40 = 0");
    session.run("VACUUM t");
    all_conditions(&mut session);
    // Truncated, rolled back, truncated: each time the choice is made anew.
    session.run("BEGIN; TRUNCATE t; INSERT INTO t SELECT i, i, i FROM generate_series(1, 3000) i; ROLLBACK");
    all_conditions(&mut session);
    session.run("TRUNCATE t");
    assert_eq!(chosen(&mut session), ["auto 16", "auto 16", "auto 16"]);
}

on_shared!(options_changed_before_the_choice);
fn options_changed_before_the_choice(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 200));
         SET pg_skip.default_layout = auto; CREATE INDEX t_skip ON t USING skip (k, d, n)",
    );
    session.run("ALTER INDEX t_skip SET (pages_per_range = 5, false_positive_rate = 0.1)");
    session.run("INSERT INTO t SELECT i, i * 7919 % 300, nullif(i % 50, 0) FROM generate_series(1, 6000) i");
    assert_eq!(chosen(&mut session), ["map 1", "map 16", "map 16"], "as the index was built");
    let pending = session.column("SELECT pending_options FROM skip_index_info('t_skip')");
    assert!(pending.iter().all(|options| options.contains("pages_per_range = 5")), "{pending:?}");
    all_conditions(&mut session);
    session.run("REINDEX INDEX t_skip");
    assert_eq!(chosen(&mut session), ["filters 5", "filters 5", "filters 5"]);
    all_conditions(&mut session);
    // Options that do not fit are refused at once, not by the next TRUNCATE.
    session.run(
        "DROP INDEX t_skip;
         CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (pages_per_range = 4), d, n)",
    );
    for options in ["pages_per_range = 10", "layout = filters"] {
        let error = session.error(&format!("ALTER INDEX t_skip SET ({options})"));
        assert_eq!(error.code().code(), "22023", "{options}: {error:?}");
    }
    session.run("SET pg_skip.default_layout = filters; TRUNCATE t");
    session.run("INSERT INTO t SELECT i, i, i FROM generate_series(1, 3000) i");
    assert_eq!(chosen(&mut session)[0], "map 4");
    all_conditions(&mut session);
}

on_shared!(a_part_of_a_range_gets_keys);
fn a_part_of_a_range_gets_keys(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 200)) WITH (fillfactor = 50);
         INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(1, 4000) i;
         CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (pages_per_range = 1),
         d int4_skip_ops (pages_per_range = 4), n)
             WITH (layout = map, pages_per_range = 16, autosummarize = off, delta_limit = 64)",
    );
    assert_eq!(chosen(&mut session), ["map 1", "map 4", "map 16"]);
    // A lookup finds the page of a key, the pages that it is updated on, and where it was.
    let ranges =
        "SELECT string_agg(r::text, ' ' ORDER BY r) FROM skip_matching_ranges('t_skip', 'k', 1000) r";
    let pages = |session: &mut Session| {
        session.one("SELECT string_agg(DISTINCT (ctid::text::point)[0]::text, ' ') FROM t WHERE k = 1000")
    };
    let before = pages(&mut session);
    assert_eq!(session.one(ranges), before);
    for round in 0..6 {
        session.run(&format!("UPDATE t SET k = k, d = d + 1, n = {round} WHERE k % 37 = {round}"));
        session.run(&format!("UPDATE t SET k = -k WHERE k % 41 = {round}"));
        all_conditions(&mut session);
        if round % 2 == 1 {
            session.run("SELECT skip_summarize('t_skip')");
            all_conditions(&mut session);
        }
    }
    for sql in ["VACUUM t", "DELETE FROM t WHERE k > 1500", "VACUUM t"] {
        session.run(sql);
    }
    all_conditions(&mut session);
    session.run("INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(1501, 5000) i");
    all_conditions(&mut session);
    session.run("SELECT skip_summarize('t_skip')");
    session.run("REINDEX INDEX CONCURRENTLY t_skip");
    all_conditions(&mut session);
}

on_shared!(additions_are_merged);
/// Updates all over the table become additions; these are merged with each other, and into the map below them.
fn additions_are_merged(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int) WITH (fillfactor = 50);
         INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(1, 40000) i;
         CREATE INDEX t_skip ON t USING skip (k, d, n)
             WITH (layout = map, pages_per_range = 1, delta_limit = 64, autosummarize = off)",
    );
    let additions = "SELECT max(additions) FROM skip_index_info('t_skip')";
    let mut most = 0.0f64;
    for round in 1..=12 {
        session.run(&format!("UPDATE t SET k = k + 100000 * {round} WHERE k % 97 = {round}"));
        session.run("SELECT skip_summarize('t_skip')");
        most = most.max(session.number(additions));
        let moved = 100_000 * round + round;
        let sql = format!("SELECT d FROM t WHERE k = {moved}");
        both_ways::same(&mut session, &Way::skip_scan(), &Case::using(&sql));
    }
    assert!((1.0..6.0).contains(&most), "{most} additions of a column");
    all_conditions(&mut session);
}

on_shared!(a_range_of_nulls_gets_a_value);
fn a_range_of_nulls_gets_a_value(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 100)) WITH (fillfactor = 50);
         INSERT INTO t SELECT i, i / 100, NULL FROM generate_series(1, 2000) i;
         CREATE INDEX t_skip ON t USING skip (k, d, n) WITH (layout = map, pages_per_range = 1)",
    );
    let without = executed(&mut session, "SELECT k FROM t WHERE n IS NOT NULL");
    assert_eq!(without.number("Ranges Scanned"), 0, "no range has a value: {without:?}");
    for step in ["UPDATE t SET n = 5 WHERE k = 777", "SELECT skip_summarize('t_skip')", "VACUUM t"] {
        session.run(step);
        for condition in ["n IS NOT NULL", "n = 5", "n IS NULL AND k = 778"] {
            let sql = format!("SELECT k FROM t WHERE {condition}");
            both_ways::same(&mut session, &Way::skip_scan(), &Case::using(&sql));
        }
        all_conditions(&mut session);
    }
}

on_shared!(open_stretches_are_closed);
/// Ranges in which an expression fails stay open, and match, until it does not fail any more.
fn open_stretches_are_closed(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 300));
         CREATE TABLE broken (k int);
         CREATE FUNCTION same(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
             BEGIN
                 IF EXISTS (SELECT FROM public.broken WHERE k = $1) THEN RAISE 'broken'; END IF;
                 RETURN $1;
             END $$;
         INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(1, 300) i;
         CREATE INDEX t_skip ON t USING skip (same(k), d, n)
             WITH (layout = map, pages_per_range = 1, autosummarize = off)",
    );
    session.run("INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(301, 900) i");
    session.run("INSERT INTO broken VALUES (350), (351), (700)");
    session.run("SELECT skip_summarize('t_skip')");
    let open = "SELECT sum(open_ranges) FROM skip_index_segments('t_skip') WHERE attnum = 1";
    let opened = session.number(open);
    assert!((2.0..=4.0).contains(&opened), "{opened} open ranges");
    // A query would evaluate the expression on the row of an open range for which it fails.
    let found = |session: &mut Session| {
        for k in [1, 299, 349, 350, 352, 699, 899] {
            let ranges = session.column(&format!("SELECT skip_matching_ranges('t_skip', 'same', {k})"));
            let range = session.one(&format!("SELECT (ctid::text::point)[0]::bigint FROM t WHERE k = {k}"));
            assert!(ranges.contains(&range), "{k} is in range {range}, not in {ranges:?}");
        }
    };
    found(&mut session);
    session.run("DELETE FROM broken WHERE k < 400");
    found(&mut session);
    session.run("SELECT skip_summarize('t_skip')");
    assert_eq!(session.number(open), 1.0, "the ranges of 350 and 351 are closed, that of 700 is not");
    session.run("DELETE FROM broken");
    session.run("VACUUM t");
    assert_eq!(session.number(open), 0.0);
    found(&mut session);
    all_conditions(&mut session);
}

on_shared!(sorted_on_disk);
/// With little memory pairs are sorted in a temporary file, into the same map.
fn sorted_on_disk(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int);
         INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(1, 150000) i",
    );
    let create = "CREATE INDEX t_skip ON t USING skip (k, d, n) WITH (layout = map, pages_per_range = 1)";
    let shape =
        "SELECT attnum, kind, width FROM skip_index_segments('t_skip') GROUP BY 1, 2, 3 ORDER BY attnum";
    // Each index has a seed of its own, so that other keys have the same fingerprint.
    let pairs = |session: &mut Session| {
        let sums = session
            .column("SELECT sum(pairs) FROM skip_index_segments('t_skip') GROUP BY attnum ORDER BY attnum");
        sums.iter().map(|sum| sum.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    session.run(create);
    let (in_memory, pairs_in_memory) = (session.rows(shape), pairs(&mut session));
    session.run("DROP INDEX t_skip; SET maintenance_work_mem = '1MB'; SET log_temp_files = 0");
    session.run(create);
    assert_eq!(session.rows(shape), in_memory);
    for (on_disk, in_memory) in pairs(&mut session).into_iter().zip(pairs_in_memory) {
        assert!((on_disk - in_memory).abs() <= 20.0, "{on_disk} pairs instead of {in_memory}");
    }
    all_conditions(&mut session);
    let files = "SELECT pg_stat_force_next_flush()";
    let _ = session.try_rows(files); // from 15 on
    let count = "SELECT temp_files FROM pg_stat_database WHERE datname = current_database()";
    assert!(session.number(count) > 0.0, "nothing was sorted on disk");
    session.run("RESET maintenance_work_mem; SET temp_file_limit = '1MB'; SET maintenance_work_mem = '1MB'");
    let error = session.error("REINDEX INDEX t_skip");
    assert_eq!(error.code().code(), "53400", "temp_file_limit is kept to: {error:?}");
    session.run("RESET ALL");
    all_conditions(&mut session);
}

on_shared!(a_key_that_is_missing_is_reported);
/// A function that says IMMUTABLE and is not: what it gives now is not in the index.
fn a_key_that_is_missing_is_reported(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION part(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
         CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 2000) i;
         CREATE INDEX t_skip ON t USING skip (part(k)) WITH (layout = map, pages_per_range = 1)",
    );
    compare::sound(&mut session, "t_skip");
    session.run(
        "CREATE OR REPLACE FUNCTION part(int) RETURNS int LANGUAGE plpgsql IMMUTABLE
         AS 'BEGIN RETURN -$1; END'",
    );
    let problems = session.column("SELECT problem FROM skip_index_verify('t_skip')");
    assert_eq!(problems.len(), 100, "as many as are reported");
    let is_lost = |problem: &String| problem.starts_with("a key of column 1 in block range");
    assert!(problems.iter().all(is_lost), "{problems:?}");
}

on_shared!(cut_short_and_grown_again);
fn cut_short_and_grown_again(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, d int, n int, pad text DEFAULT repeat('x', 100));
         INSERT INTO t SELECT i, i / 100, nullif(i % 50, 0) FROM generate_series(1, 6000) i;
         CREATE INDEX t_skip ON t USING skip (k, d, n) WITH (layout = map, pages_per_range = 1, delta_limit = 64);
         UPDATE t SET n = -1 WHERE k % 10 = 0",
    );
    session.run("SELECT skip_summarize('t_skip')");
    for (kept, to) in [(1000, 3000), (10, 8000), (0, 2500)] {
        session.run(&format!("DELETE FROM t WHERE k > {kept}"));
        session.run("VACUUM t");
        all_conditions(&mut session);
        session.run(&format!(
            "INSERT INTO t SELECT i, i / 100, i % 50 FROM generate_series({kept} + 1, {to}) i"
        ));
        all_conditions(&mut session);
        session.run("VACUUM t");
        all_conditions(&mut session);
    }
}

on_shared!(additions_past_the_end);
/// The table is cut short in the middle of a map. An addition that lies behind the cut stays as long as the map does:
/// rows that come there again may be in it and nowhere else. And verifying is not led astray by its ranges, which the
/// index has not summarized any more.
fn additions_past_the_end(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k bigint, pad text DEFAULT repeat('x', 200));
         INSERT INTO t SELECT generate_series(1, 200000);
         CREATE INDEX t_skip ON t USING skip (k)
             WITH (layout = map, pages_per_range = 1, autosummarize = off, false_positive_rate = 0.1);
         INSERT INTO t SELECT generate_series(300001, 315000)",
    );
    session.run("SELECT skip_summarize('t_skip')");
    // New rows into old ranges, all over the table: an addition over both maps.
    session.run("DELETE FROM t WHERE k % 70 = 0");
    session.run("VACUUM (TRUNCATE off) t");
    session.run(
        "INSERT INTO t SELECT 1000000 + i FROM generate_series(1, 3000) i; SELECT skip_summarize('t_skip')",
    );
    assert_eq!(kinds(&mut session), "addition map");
    compare::sound(&mut session, "t_skip");
    // Otherwise the addition would become part of the map.
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    let cut = session.one("SELECT (pg_relation_size('t') / 8192 * 0.66)::int");
    session.run(&format!("DELETE FROM t WHERE ctid >= '({cut},0)'"));
    session.run("VACUUM t");
    let is_behind = format!(
        "SELECT count(DISTINCT first_range) FROM skip_index_segments('t_skip') WHERE first_range + width > {cut} + 1"
    );
    for step in ["VACUUM t", "INSERT INTO t VALUES (-1)", "VACUUM t"] {
        session.run(step);
        let behind = session.one(&format!("{is_behind} AND kind = 'addition'"));
        let maps = session.one(&format!("{is_behind} AND kind = 'map'"));
        assert_eq!((maps.as_str(), behind.as_str()), ("1", "1"), "{step}");
        compare::sound(&mut session, "t_skip");
    }
    for key in [1, 70, 1_000_001, 1_000_300, 300_001, -1, 314_999] {
        let sql = format!("SELECT k FROM t WHERE k = {key}");
        both_ways::same(&mut session, &Way::skip_scan(), &Case::using(&sql));
    }
}
