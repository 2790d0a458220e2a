//! Fragments, words and starts of citext, by the classes of skip_create_operator_classes(), where citext is to be had.
use super::text_cases::{search_caseless, value};
use super::{Inside, live, skips_many};
use crate::registry::on_shared;
use crate::shared::Database;
use libtest_mimic::Completion;
use pg_skip_tests::both_ways::{Case, Way, same};

on_shared!(fragments = lives("v citext_ngram_skip_ops (n = 2, fold_case = on)"));
on_shared!(words = lives("v citext_token_skip_ops (fold_case = on)"));
on_shared!(unfolded = lives("v citext_ngram_skip_ops (n = 3)"));
fn lives(database: &Database, indexed: &'static str) -> Completion {
    let mut session = database.session();
    if session.number("SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'") == 0.0 {
        return Completion::ignored_with("this server has no citext");
    }
    session.run("CREATE EXTENSION citext; SELECT skip_create_operator_classes()");
    let valid = "SELECT bool_and(amvalidate(oid)) FROM pg_opclass WHERE opcname ~ '^citext_.*_skip_ops'";
    assert_eq!(session.one(valid), "t");
    let inside = Inside { name: "inside::citext", kind: "citext", indexed, value, search: search_caseless };
    live(&mut session, &inside, 0);
    if indexed.contains("fold_case") {
        session.run(&format!(
            "CREATE TABLE lines (id int, v citext, filler text DEFAULT repeat('x', 200));
             INSERT INTO lines SELECT i, 'Line ' || i || 'a is full' FROM generate_series(1, 2000) i;
             CREATE INDEX lines_v ON lines USING skip ({indexed}) WITH (pages_per_range = 2); ANALYZE lines"
        ));
        for predicate in [
            "v = 'LINE 1700A IS FULL'",
            "v LIKE '% 1700A %'",
            "v ILIKE '% 1700A %'",
            "v ~ 'line 1700A is'",
            "v ~* 'line 1700A is'",
        ] {
            let statement = format!("SELECT id FROM lines WHERE {predicate}");
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            assert_eq!(session.column(&statement), ["1700"], "{predicate}");
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
            session.run("RESET ALL");
        }
        let found = session.one("SELECT skip_range_map('lines_v', 'v', '% 1700A %'::citext)");
        assert_eq!(found.matches('#').count(), 1, "{found}");
    }
    Completion::Completed
}
