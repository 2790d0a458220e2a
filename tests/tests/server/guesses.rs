//! The lookup of one key in a map starts with a guess of the page that has it. A wrong guess must not lose a row,
//! however the keys are spread; right guesses are most where keys are near-unique.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::Way;
use pg_skip_tests::compare::sound;
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::Session;

/// The columns, and what their values are: each value unique; three values in a quarter of the table's pages each, the
/// others unique; each value in 50 pages, so that many guesses are wrong; half of the rows have one value.
const COLUMNS: [(&str, &str); 4] = [
    ("unique_key", "i"),
    ("three_frequent", "CASE WHEN i % 200 = 0 THEN -2000 - i / 200 % 3 ELSE i END"),
    ("repeated", "(i * 7919::bigint % 4000)::int"),
    ("half_one_value", "CASE WHEN i % 2 = 0 THEN -2000 ELSE i END"),
];

/// Asks for one key at a time, as the inner side of a join does, and compares with what a sequential scan counted.
fn every_key_has_its_rows(session: &mut Session, column: &str) {
    let counted = format!(
        "CREATE TEMP TABLE counted AS SELECT {column} AS k, count(*) AS n FROM t GROUP BY 1
         ORDER BY {column} > -2000, md5({column}::text) LIMIT 1500"
    );
    Way::plain().set(session);
    session.run(&counted);
    session.run("INSERT INTO counted SELECT -i, 0 FROM generate_series(1, 1500) i");
    Way::skip_scan().set(session);
    let found = format!("(SELECT count(*) FROM t WHERE t.{column} = counted.k)");
    let wrong = format!("SELECT count(*) FROM counted WHERE n <> {found}");
    let plan = session.rows(&format!("EXPLAIN {wrong}"));
    assert!(format!("{plan:?}").contains("Skip Index Scan"), "{plan:?}");
    assert_eq!(session.number(&wrong), 0.0, "keys of {column} with other rows");
    session.run("DROP TABLE counted");
}

on_shared!(guesses_lose_no_rows);
fn guesses_lose_no_rows(database: &Database) {
    let mut session = database.session();
    let (names, values): (Vec<&str>, Vec<&str>) = COLUMNS.iter().copied().unzip();
    session.run(&format!("CREATE TABLE t ({} int)", names.join(" int, ")));
    let insert = |session: &mut Session, first: u32, last: u32| {
        let values = values.join(", ");
        session.run(&format!("INSERT INTO t SELECT {values} FROM generate_series({first}, {last}) i"));
    };
    insert(&mut session, 1, 200_000);
    let columns = names.join(", ");
    session.run(&format!(
        "CREATE INDEX t_skip ON t USING skip ({columns}) WITH (layout = map, pages_per_range = 1)"
    ));
    names.iter().for_each(|column| every_key_has_its_rows(&mut session, column));
    // Segments of many sizes, and maps of key parts, among them parts of a few pages.
    for parts in ["32", "3"] {
        session.run(&format!("SET pg_skip.key_part_pages = {parts}"));
        for first in (200_001..260_000).step_by(4000) {
            insert(&mut session, first, first + 3999);
        }
        names.iter().for_each(|column| every_key_has_its_rows(&mut session, column));
        session.run("TRUNCATE t");
        insert(&mut session, 1, 100_000);
    }
    sound(&mut session, "t_skip");
}

on_shared!(guessed_fence_pages_lose_no_rows);
/// A map of more than a thousand data pages has several fence pages, of which one is guessed. Arrays of 20 elements
/// make it large.
fn guessed_fence_pages_lose_no_rows(database: &Database) {
    let mut session = database.session();
    session.run(
        "SET pg_skip.key_part_pages = 1000000;
         CREATE TABLE t AS SELECT i, array_agg(20 * i + n) AS k
         FROM generate_series(1, 150000) i, generate_series(0, 19) n GROUP BY i;
         CREATE INDEX t_skip ON t USING skip (k array_element_skip_ops)
             WITH (layout = map, pages_per_range = 1, false_positive_rate = 1e-9)",
    );
    let size = "SELECT count(*), min(blocks) > 1015 FROM skip_index_segments('t_skip') WHERE kind = 'map'";
    assert_eq!(session.rows(size), [[Some("1".to_owned()), Some("t".to_owned())]], "one large map");
    Way::skip_scan().set(&mut session);
    let wrong = "SELECT count(*) FROM generate_series(20, 3000019, 3457) AS key
                 WHERE (SELECT array_agg(i) FROM t WHERE k @> ARRAY[key]) IS DISTINCT FROM ARRAY[key / 20]";
    let plan = session.rows(&format!("EXPLAIN {wrong}"));
    assert!(format!("{plan:?}").contains("Skip Index Scan"), "{plan:?}");
    assert_eq!(session.number(wrong), 0.0, "keys without their rows");
    // The meta page, the directory, a fence page and a data page.
    let mut pages: Vec<u64> = (0..40)
        .map(|number| {
            let sql = format!("SELECT i FROM t WHERE k @> ARRAY[{}]", 20 + number * 70_000);
            executed(&mut session, &sql).number("Index Pages Read")
        })
        .collect();
    pages.sort_unstable();
    assert!(pages[0] == 4 && pages[35] == 4 && pages[39] <= 6, "{pages:?}");
}

on_shared!(most_guesses_are_right);
/// A lookup reads the meta page, the directory and a data page; if its guess is wrong, up to three more pages: the page
/// beside it, a fence page, and the data page.
fn most_guesses_are_right(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 150000) i");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (layout = map, pages_per_range = 1)");
    Way::skip_scan().set(&mut session);
    let mut pages: Vec<u64> = (0..60)
        .map(|number| {
            // Present and absent keys.
            let sql = format!("SELECT * FROM t WHERE k = {}", number * 5000);
            executed(&mut session, &sql).number("Index Pages Read")
        })
        .collect();
    pages.sort_unstable();
    assert!(pages[0] == 3 && pages[45] == 3 && pages[59] <= 6, "{pages:?}");
}
