//! Aggregates as a distributed engine computes them (`tests/engine`): step functions looked up anew for each row, without an
//! expression; states as bytea from one database to another.
use crate::shared::{self, Database, on_shared};
use libtest_mimic::Trial;
use pg_skip_tests::server::{install, must};
use pg_skip_tests::session::Session;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

pub fn trials() -> Vec<Trial> {
    vec![on_shared("bloom::engine_states_own_what_they_refer_to", owning)]
}

/// The engine's library, built for the server under test.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("engine/engine.c");
    let library = shared::server().data().join("engine.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wno-unused-function", "-o"];
    let headers = install().headers.clone();
    must(Command::new(compiler).args(flags).arg(&library).arg("-I").arg(headers).arg(source));
    install().own(&library);
    library
});

/// Makes the engine's functions.
fn prepare(session: &mut Session) {
    let sql = include_str!("../../../engine/engine.sql");
    session.run(&sql.replace("ENGINE", LIBRARY.to_str().expect("a path in UTF-8")));
}

/// A statement with a table of partial states `s`, each of the rows with one `part`.
fn combined(aggregate: &str, states: &str) -> String {
    format!("SELECT engine_combine('{aggregate}'::regprocedure, state) FROM ({states}) AS s (state)")
}

/// States, options and bytes of parts are used after the memory is gone that functions were looked up in.
fn owning(database: &Database) {
    let mut session = database.session();
    prepare(&mut session);
    session.run(
        "CREATE TABLE t AS SELECT i, i % 11 AS part, md5(i::text)::uuid AS k FROM generate_series(1, 30000) i; ANALYZE t",
    );
    for memory in ["4MB", "64kB"] {
        session.run(&format!("SET work_mem = '{memory}'"));
        for group in ["", "GROUP BY part", "GROUP BY part, i % 50"] {
            let states = format!(
                "SELECT engine_partial_typed('bloom_agg(anyelement)'::regprocedure, k) FROM t {group}"
            );
            session.run(&format!(
                "CREATE TABLE f AS {}",
                combined("bloom_agg(anyelement)", &format!("{states} ORDER BY 1"))
            ));
            let lost = session.one("SELECT count(*) FROM t, f AS f (b) WHERE (b @> k) IS NOT TRUE");
            assert_eq!(lost, "0", "{memory} {group}");
            if memory == "4MB" {
                let whole = session.one("SELECT bloom_agg(k) = (TABLE f) FROM t");
                assert_eq!(whole, "t", "{group}");
            }
            session.run("DROP TABLE f");
        }
    }
}
