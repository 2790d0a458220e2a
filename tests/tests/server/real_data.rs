//! A real history of file changes: keys that are there are found with the same rows, keys that are not give none.
use crate::registry::on_shared;
use crate::shared::Database;
use libtest_mimic::Completion;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const INDEX: &str =
    "CREATE INDEX changes_skip ON changes USING skip (blob_id, commit_id, path) WITH (pages_per_range = 4)";

/// The whole data set: where `PG_SKIP_DATA` says, or beside the sources.
fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/git_changes.tsv.xz");
    let named = std::env::var_os("PG_SKIP_DATA").map(PathBuf::from);
    named.or(Some(beside)).filter(|path| path.exists())
}

on_shared!(sample);
fn sample(database: &Database) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/git_changes_sample.tsv");
    let mut session = database.session();
    table(&mut session);
    // Half of it before the index is made, half after.
    let mut text = String::new();
    File::open(file).and_then(|mut file| file.read_to_string(&mut text)).expect("the sample");
    let (early, late) = text.split_at(text.len() / 2 + text[text.len() / 2..].find('\n').expect("lines") + 1);
    load(&mut session, &mut early.as_bytes());
    session.run(INDEX);
    load(&mut session, &mut late.as_bytes());
    ask(&mut session, 20);
    session.run("SELECT skip_summarize('changes_skip')");
    ask(&mut session, 20);
}

on_shared!(the_whole_data_set);
/// The whole data set is not part of the sources.
fn the_whole_data_set(database: &Database) -> Completion {
    let Some(file) = data() else {
        return Completion::ignored_with("no data set, which PG_SKIP_DATA would name");
    };
    let mut session = database.session();
    table(&mut session);
    session.run(INDEX);
    let mut xz = Command::new("xz").arg("-dc").arg(file).stdout(Stdio::piped()).spawn().expect("xz");
    let rows = load(&mut session, xz.stdout.as_mut().expect("its output"));
    assert!(xz.wait().is_ok_and(|status| status.success()), "xz");
    assert!(rows > 100_000, "{rows} rows");
    session.run("VACUUM ANALYZE changes");
    ask(&mut session, 1000);
    session.run("REINDEX INDEX changes_skip");
    ask(&mut session, 3000);
    let plan =
        session.plan("SELECT * FROM changes WHERE blob_id = '0123456789012345678901234567890123456789'");
    assert!(plan.contains("changes_skip"), "{plan}");
    Completion::Completed
}

fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE changes (id int GENERATED ALWAYS AS IDENTITY, at bigint, commit_id text, path text,
            blob_id text, kind \"char\")",
    );
}

fn load(session: &mut Session, from: &mut dyn Read) -> u64 {
    session.copy("COPY changes (at, commit_id, path, blob_id, kind) FROM STDIN", from)
}

/// Asks for the keys of every `step`th row, and for as many that are not there.
fn ask(session: &mut Session, step: usize) {
    for column in ["commit_id", "path", "blob_id"] {
        // What a plain join finds, for all keys at once; by the index then key by key.
        session.run("SET enable_bitmapscan = off; SET pg_skip.enable_scan = off");
        let expected = session.rows(&format!(
            "SELECT quote_literal({column}), count(*), sum(id) FROM changes
             WHERE {column} IN (SELECT {column} FROM changes WHERE id % {step} = 0) GROUP BY {column}"
        ));
        session.run("RESET pg_skip.enable_scan; SET enable_bitmapscan = on; SET enable_seqscan = off");
        assert!(expected.len() >= 30, "only {} keys", expected.len());
        for row in expected {
            let [Some(key), rest @ ..] = &row[..] else { panic!("a key in {row:?}") };
            let found =
                session.rows(&format!("SELECT count(*), sum(id) FROM changes WHERE {column} = {key}"));
            assert_eq!(found[0], rest, "{column} = {key}");
            let absent = format!("SELECT count(*) FROM changes WHERE {column} = md5({key}) || 'x'");
            assert_eq!(session.one(&absent), "0", "{absent}");
        }
        session.run("RESET enable_seqscan");
        for key in ["'x'", "''", "'src/Makefile'", "NULL"] {
            same(session, "changes", &Question::any(format!("{column} = {key}")));
        }
        // A deleted file has no blob.
        same(session, "changes", &Question::using("changes_skip", format!("{column} IS NULL")));
    }
    sound(session, "changes_skip");
}
