//! Merging: narrow segments that appends have made become as few as a build makes.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;

on_shared!(appended_table_is_merged);
/// A table grown by appends is looked up about as fast as one indexed afterwards, and its index is about as big.
fn appended_table_is_merged(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, u uuid)");
    session.run("CREATE INDEX t_skip ON t USING skip (u) WITH (pages_per_range = 2)");
    for round in 0..40 {
        let first = round * 4000;
        session.run(&format!(
            "INSERT INTO t SELECT i, md5(i::text)::uuid FROM generate_series({first}, {first} + 3999) i"
        ));
        if round % 3 == 0 {
            session.run(if round % 2 == 0 { "VACUUM t" } else { "SELECT skip_summarize('t_skip')" });
        }
    }
    session.run("SELECT skip_summarize('t_skip')");
    session.run("SELECT skip_summarize('t_skip')");
    let state =
        "SELECT segments, pg_relation_size('t_skip') / 8192, delta_entries FROM skip_index_info('t_skip')";
    let numbers = |session: &mut Session| -> Vec<f64> {
        let row = session.rows(state).remove(0);
        row.into_iter().map(|text| text.and_then(|text| text.parse().ok()).expect("a number")).collect()
    };
    let grown = numbers(&mut session);
    sound(&mut session, "t_skip");
    session.run("REINDEX INDEX t_skip");
    let fresh = numbers(&mut session);
    assert!(grown[0] <= fresh[0] + 6.0, "{} segments by appends, {} when built at once", grown[0], fresh[0]);
    assert!(
        grown[1] <= 3.0 * fresh[1] + 8.0,
        "{} blocks by appends, {} when built at once",
        grown[1],
        fresh[1]
    );
    assert_eq!(grown[2], 0.0, "the delta is folded in");
    for key in [0, 3999, 80000, 159_999, 160_000] {
        same(&mut session, "t", &Question::using("t_skip", format!("u = md5('{key}')::uuid")));
    }
}
