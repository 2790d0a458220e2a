//! Beside another extension with a planner hook, before it and after it in the chain: both do their work.
use crate::registry::alone;
use libtest_mimic::Completion;
use pg_skip_tests::server::Server;

alone!(hooks_are_chained);
/// pg_stat_statements counts plans in its planner hook. Not every server that is tested has it.
fn hooks_are_chained() -> Completion {
    let libraries = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'";
    let plain = Server::start(&[]);
    if plain.connect("postgres").one(libraries) != "1" {
        return Completion::ignored_with("this server has no pg_stat_statements");
    }
    plain.finish();
    // pg_skip is loaded on first use in the last: then it comes last, too.
    for preload in ["pg_stat_statements,pg_skip", "pg_skip,pg_stat_statements", "pg_stat_statements"] {
        let preload = format!("shared_preload_libraries={preload}");
        let server = Server::start(&[&preload, "pg_stat_statements.track_planning=on"]);
        let mut session = server.connect("postgres");
        session.run(
            "CREATE EXTENSION pg_skip; CREATE EXTENSION pg_stat_statements;
             CREATE TABLE t AS SELECT md5(i::text)::uuid AS k FROM generate_series(1, 20000) i;
             CREATE INDEX ON t USING skip (k) WITH (pages_per_range = 2); ANALYZE t;
             SET enable_seqscan = off; SET enable_bitmapscan = off",
        );
        let query = "SELECT count(*) FROM t WHERE k = md5('5')::uuid";
        assert!(session.plan(query).contains("Skip Index Scan"), "{preload}");
        session.run("SELECT pg_stat_statements_reset()");
        assert_eq!(session.one(query), "1", "{preload}");
        assert_eq!(session.one(query), "1", "{preload}");
        let counted = "SELECT plans || ' ' || calls FROM pg_stat_statements
            WHERE query LIKE 'SELECT count(*) FROM t WHERE%'";
        assert_eq!(session.one(counted), "2 2", "{preload}");
        drop(session);
        server.finish();
    }
    Completion::Completed
}
