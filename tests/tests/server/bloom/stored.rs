//! Filters that are stored out of line: for a few keys some parts of them are fetched, for many the filter, once;
//! answers are the same.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::Session;

/// Filters of every policy and of several lengths, single and series, of keys up to n. Compressed where the name says
/// so.
const FILTERS: &str = "
    CREATE TABLE f (name text, n int, b bloom);
    INSERT INTO f SELECT policy || n, n, (SELECT bloom_agg(i, 0.01, NULL, policy) FROM generate_series(1, n) i)
    FROM unnest(ARRAY['skip', 'leveldb', 'clickhouse', 'rocksdb', 'skip(seed=77)']) policy,
    unnest(ARRAY[50, 20000, 60000]) n;
    SET work_mem = '64kB';
    CREATE FUNCTION few() RETURNS SETOF int ROWS 1 LANGUAGE sql AS 'SELECT generate_series(1, 200000)';
    INSERT INTO f SELECT 'series', 200000, bloom_agg(i) FROM few() i;
    RESET work_mem;
    ALTER TABLE f ALTER b SET STORAGE extended;
    INSERT INTO f SELECT 'compressed', 3, bloom_empty('int', 200000) | bloom_agg(i, 0.01, 200000)
    FROM generate_series(1, 3) i;
    ALTER TABLE f ALTER b SET STORAGE external;
    CREATE TABLE k AS SELECT i FROM generate_series(1, 250000, 499) i";

on_shared!(filters_answer_alike);
fn filters_answer_alike(database: &Database) {
    let mut session = database.session();
    session.run(FILTERS);
    assert_eq!(session.one("SELECT count(*) FROM f WHERE pg_column_size(b) > 50000"), "6");
    assert_eq!(session.one("SELECT (bloom_info(b)).filters > 1 FROM f WHERE name = 'series'"), "t");
    assert_eq!(session.one("SELECT pg_column_size(b) < 20000 FROM f WHERE name = 'compressed'"), "t");
    for order in ["name, i", "i, name", "i, name DESC"] {
        let row = session.rows(&format!(
            "SELECT count(*), count(*) FILTER (WHERE is_in), count(*) FILTER (WHERE is_in <> b::bytea::bloom @> i),
                count(*) FILTER (WHERE i <= n AND NOT is_in)
             FROM (SELECT *, b @> i AS is_in FROM (SELECT * FROM f, k ORDER BY {order}) s) s"
        ));
        let row: Vec<f64> = row[0].iter().flatten().filter_map(|number| number.parse().ok()).collect();
        let &[all, found, other, lost] = &row[..] else { panic!("{row:?}") };
        assert_eq!((all, other, lost), (17.0 * 502.0, 0.0, 0.0), "ordered by {order}");
        assert!(found < all / 2.0, "{found} of {all}");
    }
    // Several at once: none, and one behind many that are not there.
    let absent = "(SELECT array_agg(-i) FROM generate_series(1, 40) i)";
    for (array, expected) in
        [(format!("{absent} || 3 || {absent}"), "f"), (format!("{absent} || -1 || {absent}"), "t")]
    {
        let sql = format!(
            "SELECT name FROM f WHERE bloom_contains_any(b, {array})
             IS DISTINCT FROM bloom_contains_any(b::bytea::bloom, {array})"
        );
        assert_eq!(session.column(&sql), Vec::<String>::new());
        let lost = format!("SELECT bool_or(NOT bloom_contains_any(b, {array})) FROM f");
        assert_eq!(session.one(&lost), expected);
    }
    for question in ["{} @> 'x'::text", "{} @> 7.5", "bloom_contains_any({}, ARRAY['x'])"] {
        let [stored, here] = ["b", "b::bytea::bloom"].map(|filter| {
            let asked = question.replace("{}", filter);
            let error = session.error(&format!("SELECT {asked} FROM f WHERE name = 'skip60000'"));
            (error.code().clone(), error.message().to_owned(), error.detail().map(str::to_owned))
        });
        assert_eq!(stored, here, "{question}");
    }
}

/// Buffers that executing a query takes, once its plan and its caches are there.
#[track_caller]
fn buffers(session: &mut Session, query: &str) -> f64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {query}");
    session.column(&explain);
    let plan = session.column(&explain).join("\n");
    let hits = plan.split("shared hit=").nth(1);
    let hits = hits.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    hits.and_then(|hits| hits.parse().ok()).unwrap_or_else(|| panic!("{plan}"))
}

on_shared!(filters_are_fetched_in_parts);
/// Each of many filters, asked for one key.
fn filters_are_fetched_in_parts(database: &Database) {
    let mut session = database.session();
    for policy in ["skip", "leveldb", "clickhouse", "rocksdb"] {
        session.run(&format!(
            "DROP TABLE IF EXISTS f; CREATE TABLE f (n int, b bloom);
             INSERT INTO f SELECT n, (SELECT bloom_agg(i, 0.01, 200000, '{policy}')
             FROM generate_series(n, n + 199999) i)
             FROM generate_series(1, 10) n"
        ));
        let whole = buffers(&mut session, "SELECT count(*) FROM f WHERE b::bytea::bloom @> -5");
        // No is said after two probes or so, yes after all of them.
        for (key, share) in [(-5, 3.0), (-6, 3.0), (77, 1.4)] {
            let parts = buffers(&mut session, &format!("SELECT count(*) FROM f WHERE b @> {key}"));
            assert!(parts * share < whole, "{parts} buffers in parts, {whole} as a whole: {key}, {policy}");
        }
        assert_eq!(
            session.one("SELECT count(*) FROM f WHERE b @> 77 AND bloom_contains_any(b, ARRAY[-5, 78])"),
            "10"
        );
    }
}

on_shared!(filters_are_fetched_once);
/// A filter that is asked for each of many rows: not fetched for each of them, and hardly more than once.
fn filters_are_fetched_once(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE f AS SELECT 1 AS n, bloom_agg(i) AS b FROM generate_series(1, 500000) i;
         CREATE TABLE t AS SELECT i FROM generate_series(1, 5000) i; ANALYZE",
    );
    let whole = buffers(&mut session, "SELECT count(*) FROM f WHERE b::bytea::bloom @> 5");
    let rows = buffers(&mut session, "SELECT count(*) FROM t WHERE i > 0");
    for query in [
        "SELECT count(*) FROM t WHERE (SELECT b FROM f) @> i",
        "SELECT count(*) FROM t, f WHERE b @> i",
        "SELECT count(*) FROM t WHERE i <@ (SELECT b FROM f WHERE n = 1)",
        "SELECT sum(bloom_contains_any(b, ARRAY[-1, -2, i])::int) FROM t, f",
    ] {
        assert_eq!(session.one(query), "5000");
        let taken = buffers(&mut session, query);
        assert!(taken < rows + 3.0 * whole, "{taken} buffers, of {whole} for the whole filter: {query}");
    }
}

on_shared!(filters_that_change);
/// A place in a query that has met a filter before meets it changed; a cursor goes on with the filter that it began
/// with.
fn filters_that_change(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE f AS SELECT bloom_agg(i, 0.01, 100000) AS b FROM generate_series(1, 40000) i");
    session.run(
        "CREATE FUNCTION changes() RETURNS void LANGUAGE plpgsql AS $$
        DECLARE v bloom;
        BEGIN
            FOR i IN 1 .. 100 LOOP
                UPDATE f SET b = bloom_add(b, -i);
                SELECT b INTO v FROM f;
                ASSERT v @> -i AND v @> i, format('%s is lost', -i);
                BEGIN
                    UPDATE f SET b = bloom_empty('int', 100000);
                    SELECT b INTO v FROM f;
                    ASSERT (v @> -i) = false, format('%s is in an empty filter', -i);
                    RAISE division_by_zero;
                EXCEPTION WHEN division_by_zero THEN
                    SELECT b INTO v FROM f;
                    ASSERT v @> -i, format('%s is lost by a rollback', -i);
                END;
            END LOOP;
        END$$;
        SELECT changes()",
    );
    let mut other = database.session();
    session.run("BEGIN; DECLARE c CURSOR FOR SELECT b @> i FROM f, generate_series(1, 40000) i");
    let mut found = 0;
    // The parts first, the whole of it later: what is still to be fetched has been replaced by then.
    for (rows, change) in [
        (3, "UPDATE f SET b = bloom_empty('int', 100000)"),
        (3, "VACUUM f"),
        (50, "DELETE FROM f"),
        (1000, "VACUUM f"),
    ] {
        found +=
            session.column(&format!("FETCH {rows} FROM c")).iter().filter(|&answer| answer == "t").count();
        other.run(change);
    }
    found += session.column("FETCH ALL FROM c").iter().filter(|&answer| answer == "t").count();
    assert_eq!(found, 40_000);
    session.run("COMMIT");
    assert_eq!(session.one("SELECT count(*) FROM f"), "0");
}
