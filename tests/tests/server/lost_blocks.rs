//! Blocks of an index to which nothing refers, as a crash may leave them, are used again after a VACUUM.
use crate::registry::alone;
use crate::shared;
use crate::standby::{catch_up, replicated};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::fs::OpenOptions;

const PAGE: u64 = 8192;
/// More than all that the index needs.
const LOST: u64 = 400;
const PAGES: &str = "SELECT pg_relation_size('t_skip') / 8192";

/// Restarts the server with more blocks at the end of a table or an index. Returns the number of blocks before.
pub fn lengthened(server: &Server, mut session: Session, relation: &str, blocks: u64) -> u64 {
    let file = server.data().join(session.one(&format!("SELECT pg_relation_filepath('{relation}')")));
    let before = session.number(&format!("SELECT pg_relation_size('{relation}') / 8192")) as u64;
    drop(session);
    server.stop();
    let file = OpenOptions::new().write(true).open(file).expect("the index's file");
    file.set_len((before + blocks) * PAGE).expect("a longer file");
    server.restart();
    before
}

alone!(used_again);
/// The file was extended, and the server crashed before an entry of the directory named the new blocks. What came later
/// is behind them.
fn used_again() {
    let server = Server::start(&["autovacuum=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(
        "CREATE TABLE t (id int, k int) WITH (vacuum_truncate = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (autosummarize = off)",
    );
    let before = lengthened(&server, session, "t_skip", LOST);
    let mut session = server.connect("skip_template");
    session.run("UPDATE t SET k = -k WHERE id % 20 = 0");
    let grown = session.number(PAGES) as u64;
    assert!(
        grown > before + LOST,
        "{grown} pages: the entries of the updated rows are behind the lost blocks"
    );
    for round in 1..=3 {
        session.run("VACUUM t");
        session.run(&format!("INSERT INTO t SELECT i, i FROM generate_series({round}00001, {round}50000) i"));
        found(&mut session, round);
    }
    session.run("VACUUM t");
    let after = session.number(PAGES) as u64;
    println!("{before} pages, {grown} with lost ones, {after} at the end");
    // The delta is folded before lost blocks are found.
    assert!(after <= grown + 10, "lost blocks are not used: {after} pages, {grown} before");

    session.run("ALTER TABLE t RESET (vacuum_truncate)");
    session.run("VACUUM t");
    let cut = session.number(PAGES) as u64;
    assert!(cut < LOST, "{cut} pages are left of {after}");
    found(&mut session, 3);
    drop(session);
    server.finish();
}

alone!(at_the_end_of_the_file);
/// The lost blocks are at the end of the file, of which WAL does not tell: a standby's file ends before them, and would
/// after a promotion. An insert that then extends the file must not get a block that a free extent has.
fn at_the_end_of_the_file() {
    let (primary, standby) = replicated(&["autovacuum=off"]);
    let mut session = primary.connect("skip_template");
    session.run(
        "CREATE TABLE t (id int, k int) WITH (vacuum_truncate = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (autosummarize = off); CHECKPOINT",
    );
    lengthened(&primary, session, "t_skip", LOST);
    let (mut session, mut reader) = (primary.connect("skip_template"), standby.connect("skip_template"));
    session.run("VACUUM t");
    catch_up(&mut session, &mut reader);
    sound(&mut session, "t_skip");
    sound(&mut reader, "t_skip");
    drop(session);
    primary.stop_immediately();
    reader.run("SELECT pg_promote()");
    reader.run("UPDATE t SET k = -k WHERE id % 20 = 0");
    for round in 1..=2 {
        reader.run(&format!("INSERT INTO t SELECT i, i FROM generate_series({round}00001, {round}50000) i"));
        found(&mut reader, round);
        reader.run("VACUUM t");
        found(&mut reader, round);
    }
    drop(reader);
    standby.finish();
}

fn found(session: &mut Session, round: u32) {
    for key in ["7", "-20", "20", "-99980", "99999", &format!("{round}25000"), "450001"] {
        same(session, "t", &Question::using("t_skip", format!("k = {key}")));
    }
    sound(session, "t_skip");
}
