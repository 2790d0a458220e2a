//! A Skip Index Scan of a large table leaves the cache to others, as a sequential scan does: it reads through a ring of
//! buffers.
use crate::registry::alone;
use libtest_mimic::Completion;
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;

/// Pages of 8 rows; four of five ranges have one of the values that are asked for.
fn table(session: &mut Session, name: &str, pages: u32) {
    session.run(&format!(
        "CREATE TABLE {name} (k int, pad text DEFAULT repeat('x', 900)) WITH (autovacuum_enabled = off);
         INSERT INTO {name} SELECT i / 32 % 5 FROM generate_series(0, {pages} * 8 - 1) i;
         CREATE INDEX ON {name} USING skip (k) WITH (pages_per_range = 4); ANALYZE {name}"
    ));
}

alone!(large_tables_leave_the_cache_alone);
fn large_tables_leave_the_cache_alone() -> Completion {
    // 1,024 buffers: a table is large from 256 on.
    let server = Server::start(&["shared_buffers=8MB"]);
    let mut session = server.connect("postgres");
    if session.one("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_buffercache'") != "1" {
        return Completion::ignored_with("this server has no pg_buffercache");
    }
    session.run("CREATE EXTENSION pg_skip; CREATE EXTENSION pg_buffercache");
    table(&mut session, "small", 200);
    table(&mut session, "large", 2_000);
    session.run("CHECKPOINT");
    drop(session);
    server.stop();
    server.restart();
    let mut session = server.connect("postgres");
    session.run(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0",
    );
    for (name, blocks, is_kept) in [("small", 160.0, true), ("large", 1_600.0, false)] {
        let query = format!("SELECT count(*) FROM {name} WHERE k IN (0, 1, 2, 3)");
        assert!(session.plan(&query).contains("Skip Index Scan"), "{}", session.plan(&query));
        assert_eq!(session.number(&query), blocks * 8.0);
        let cached = session.number(&format!(
            "SELECT count(*) FROM pg_buffercache
             WHERE relfilenode = pg_relation_filenode('{name}') AND relforknumber = 0"
        ));
        assert_eq!(cached >= blocks, is_kept, "{cached} pages of {name} are in the cache");
        assert!(is_kept || cached < blocks / 3.0, "{cached} pages of {name} are in the cache");
    }
    drop(session);
    server.finish();
    Completion::Completed
}
