//! The false-positive rate of columns whose values have several keys, where none is set, and where one is.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::Session;

/// Log lines with tags, attributes, words and a path; each has keys of its own, and some that are in all.
fn lines(session: &mut Session, rows: u32) {
    session.run(
        "CREATE TABLE t (id int, tags text[], data jsonb, line text, words tsvector, path text);
         SET pg_skip.default_layout = auto",
    );
    add_lines(session, 1, rows);
}

fn add_lines(session: &mut Session, first: u32, last: u32) {
    session.run(&format!(
        "INSERT INTO t SELECT i, ARRAY['all', 'n' || i], jsonb_build_object('user', 'u' || i, 'level', 'INFO'), line,
             to_tsvector('simple', line), '/' || md5(i::text)
         FROM (SELECT i, 'INFO request ' || md5(i::text) || ' of user' || i || ' took ' || i % 97 || ' ms' AS line
               FROM generate_series({first}, {last}) i) AS lines"
    ));
}

const COLUMNS: &str = "tags array_element_skip_ops, data jsonb_path_skip_ops, line text_token_skip_ops,
     line text_ngram_skip_ops, words tsvector_skip_ops, path text_prefix_skip_ops, id";

/// Of each column the layout and the rate.
fn chosen(session: &mut Session) -> Vec<String> {
    session.column(
        "SELECT concat_ws(' ', layout, false_positive_rate) FROM skip_index_info('t_skip') ORDER BY attnum",
    )
}

/// Of each column whether the reason says that the rate is a default.
fn is_default(session: &mut Session) -> Vec<String> {
    session.column(
        "SELECT layout_reason LIKE '%by default, as values have several keys' FROM skip_index_info('t_skip')
         ORDER BY attnum",
    )
}

const BY_KIND: [&str; 7] =
    ["map 0.001", "map 0.001", "map 0.001", "map 0.05", "map 0.001", "map 0.0001", "map 0.0001"];

on_shared!(each_kind_has_its_rate);
fn each_kind_has_its_rate(database: &Database) {
    let mut session = database.session();
    lines(&mut session, 20_000);
    session.run(&format!("CREATE INDEX t_skip ON t USING skip ({COLUMNS})"));
    assert_eq!(chosen(&mut session), BY_KIND);
    assert_eq!(is_default(&mut session), ["t", "t", "t", "t", "t", "f", "f"]);
    // The map has about this rate. It is a power of two below, and the sample is a part of the table.
    for (column, rate, expected) in rates(&mut session).into_iter().take(5) {
        assert!(expected < 1.3 * rate && expected > rate / 4.0, "column {column}: {expected} for {rate}");
    }
    let by_rows = rates(&mut session)[6].2;
    assert!(by_rows < 1e-6, "{by_rows}: a column of one key for each row has its rate by the number of rows");
}

/// Of each column its number, its rate, and that which its segments have.
fn rates(session: &mut Session) -> Vec<(usize, f64, f64)> {
    let rows = session.column(
        "SELECT concat_ws(' ', false_positive_rate, expected_false_positive_rate) FROM skip_index_info('t_skip')
         ORDER BY attnum",
    );
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).expect("a number");
    rows.iter()
        .enumerate()
        .map(|(column, row)| {
            let mut words = row.split(' ');
            (column, number(words.next()), number(words.next()))
        })
        .collect()
}

on_shared!(a_rate_that_is_set_holds);
fn a_rate_that_is_set_holds(database: &Database) {
    let mut session = database.session();
    lines(&mut session, 3000);
    for (column, with, layout, is_default) in [
        ("line text_ngram_skip_ops (false_positive_rate = 0.0001)", "", "map 0.0001", "f"),
        ("line text_ngram_skip_ops (false_positive_rate = 0.05)", "", "map 0.05", "f"),
        ("line text_ngram_skip_ops (false_positive_rate = 0.1)", "", "filters 0.1", "f"),
        ("line text_ngram_skip_ops", "WITH (false_positive_rate = 0.01)", "map 0.01", "f"),
        ("line text_ngram_skip_ops (layout = filters)", "", "filters 0.05", "f"),
        ("tags array_element_skip_ops (layout = filters)", "", "filters 0.001", "f"),
        ("tags array_element_skip_ops (layout = map)", "", "map 0.001", "t"),
    ] {
        session.run(&format!("CREATE INDEX t_skip ON t USING skip ({column}) {with}"));
        assert_eq!(chosen(&mut session), [layout], "{column} {with}");
        if !layout.starts_with("filters") {
            assert_eq!(self::is_default(&mut session), [is_default], "{column} {with}");
        }
        session.run("DROP INDEX t_skip");
    }
    // A smaller rate makes a larger index.
    session.run(
        "CREATE INDEX t_skip ON t USING skip (line text_ngram_skip_ops);
         CREATE INDEX t_fine ON t USING skip (line text_ngram_skip_ops (false_positive_rate = 0.0001))",
    );
    let share = session.number("SELECT pg_relation_size('t_skip')::float8 / pg_relation_size('t_fine')");
    assert!(share < 0.75, "{share}");
    session.run("ALTER INDEX t_fine SET (false_positive_rate = 0.05)");
    assert_eq!(
        session.one("SELECT coalesce(pending_options, 'none') FROM skip_index_info('t_fine')"),
        "none"
    );
}

on_shared!(chosen_with_the_first_range);
/// The rate is chosen with the layout, when inserts fill the first range.
fn chosen_with_the_first_range(database: &Database) {
    let mut session = database.session();
    lines(&mut session, 0);
    session.run(&format!("CREATE INDEX t_skip ON t USING skip ({COLUMNS}) WITH (autosummarize = on)"));
    assert!(chosen(&mut session).iter().all(|column| column.starts_with("auto ")));
    add_lines(&mut session, 1, 6000);
    assert_eq!(chosen(&mut session), BY_KIND);
    assert_eq!(session.one("SELECT count(*) FROM t WHERE line LIKE '%user4711 took%'"), "1");
}
