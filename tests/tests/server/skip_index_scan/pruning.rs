//! A Skip Index Scan prunes the pages that it reads rows of, as the server's own scans do: otherwise each update of a
//! row that is found by its key alone would make the table longer, until VACUUM.
use crate::registry::alone;
use crate::shared::prepare;
use pg_skip_tests::both_ways::Way;
use pg_skip_tests::server::Server;

/// Updates of one row; a page has room for 24 versions of it.
const UPDATES: u32 = 400;

alone!(updates_of_one_row_stay_on_few_pages);
fn updates_of_one_row_stay_on_few_pages() {
    let server = Server::start(&["autovacuum=off"]);
    prepare(&server);
    let mut session = server.connect("skip_template");
    for (key, value) in [("id", "5"), ("u", "md5('5')::uuid"), ("name", "'name 5'")] {
        let grown = [Way::plain(), Way::skip_scan()].map(|way| {
            session.run("DROP TABLE IF EXISTS t");
            session.run(
                "CREATE TABLE t (id int NOT NULL, n int, u uuid, name text, filler text DEFAULT repeat('x', 250));
                 INSERT INTO t SELECT i, 0, md5(i::text)::uuid, 'name ' || i FROM generate_series(1, 2000) i;
                 CREATE INDEX t_skip ON t USING skip (id, u, name) WITH (pages_per_range = 1)",
            );
            way.set(&mut session);
            let before = session.number("SELECT pg_relation_size('t') / 8192");
            for _ in 0..UPDATES {
                session.run(&format!("UPDATE t SET n = n + 1 WHERE {key} = {value}"));
            }
            assert_eq!(session.one(&format!("SELECT n FROM t WHERE {key} = {value}")), UPDATES.to_string());
            session.number("SELECT pg_relation_size('t') / 8192") - before
        });
        let [plain, skip] = grown;
        assert!(skip <= plain + 1.0, "{key}: {skip} new pages, by sequential scans {plain}");
    }
    drop(session);
    server.finish();
}
