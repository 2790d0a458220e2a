//! Pages that lose bits on disk while the server runs, between the planning of a query and its execution.
//!
//! Execution verifies what it reads of a page, whatever planning found. Here the page has left the cache since the
//! query was planned, and comes back damaged, into the very buffer that it was in. Only where the server can be told to
//! evict a page (from 17 on, with pg_buffercache).
use crate::registry::alone;
use crate::shared;
use libtest_mimic::Completion;
use pg_skip_tests::server::{Server, has_maps, install};
use pg_skip_tests::session::Session;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

const PAGE: u64 = 8192;

/// Bytes of a page's payload, one in each part that has a checksum of its own.
const DAMAGED: [u64; 4] = [1000, 3000, 5000, 7000];

const QUERY: &str = "SELECT count(*) FROM t WHERE k = md5('1234')::uuid";

alone!(between_planning_and_execution);
fn between_planning_and_execution() -> Completion {
    let server = Server::start(&["shared_buffers=2MB"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    let extensions = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_buffercache'";
    if install().version < 17 || session.one(extensions) != "1" {
        return Completion::ignored_with("this server cannot be told to evict a page");
    }
    session.run(
        "CREATE EXTENSION pg_buffercache;
         CREATE TABLE t AS SELECT md5(i::text)::uuid AS k, i FROM generate_series(1, 40000) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 2)",
    );
    session.run("VACUUM ANALYZE t");
    // Small enough to stay in the cache that it fills: the buffer of an evicted page is then the only free one.
    session.run("CREATE TABLE filler AS SELECT repeat('x', 800) FROM generate_series(1, 500)");
    session.run("CHECKPOINT");
    let file = server.data().join(session.one("SELECT pg_relation_filepath('t_skip')"));
    let blocks = session.number("SELECT pg_relation_size('t_skip') / 8192") as u64;
    let mut helper = server.connect("skip_template");
    let mut refused = 0;
    for block in 0..blocks {
        let mut planner = server.connect("skip_template");
        planner.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
        planner.run(&format!("PREPARE q AS {QUERY}"));
        assert!(planner.plan("EXECUTE q").contains("Skip Index Scan"), "{}", planner.plan("EXECUTE q"));
        // The executor would use planning's answer again, and not read the page.
        planner.plan("SELECT i FROM t WHERE k = md5('7')::uuid");
        (0..3).for_each(|_| helper.run("SELECT count(*) FROM filler"));
        rot(&mut helper, &file, block);
        let is_refused = planner.try_rows("EXECUTE q").is_err();
        assert_eq!(
            is_refused,
            is_refused_anew(&server),
            "block {block}: refused, where nothing was planned before"
        );
        refused += u32::from(is_refused);
        rot(&mut helper, &file, block); // the same bits again: it is sound
        assert_eq!(planner.one("EXECUTE q"), "1");
    }
    // Filters: a page for each probe. A map: the data page; a fence page is read only if the guess of it was wrong. The
    // bits that the meta page and the directory lose are in unused bytes.
    let least = if has_maps() { 1 } else { 2 };
    assert!(refused >= least, "{refused} of {blocks} pages were refused");
    drop((session, helper));
    server.finish();
    Completion::Completed
}

/// Flips bits of a page on disk, and evicts it.
fn rot(helper: &mut Session, file: &Path, block: u64) {
    let buffers = "pg_buffercache WHERE relfilenode = pg_relation_filenode('t_skip') AND relforknumber = 0";
    let evicted = helper.one(&format!(
        "SELECT count(pg_buffercache_evict(bufferid)) FROM {buffers} AND relblocknumber = {block}"
    ));
    assert!(["0", "1"].contains(&evicted.as_str()));
    let file = OpenOptions::new().read(true).write(true).open(file).expect("the index's file");
    for at in DAMAGED {
        let mut byte = [0];
        file.read_exact_at(&mut byte, block * PAGE + at).expect("a block");
        file.write_all_at(&[!byte[0]], block * PAGE + at).expect("a block");
    }
}

/// Whether a session that knows nothing refuses to answer.
fn is_refused_anew(server: &Server) -> bool {
    let mut session = server.connect("skip_template");
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
    session.try_rows(QUERY).is_err()
}
