//! Indexes as WAL alone makes them: on a standby, and after a crash, with no checkpoint since they were built.
use crate::parallel_build::{Hearing, TABLE, with_workers};
use crate::registry::alone;
use crate::standby::{catch_up, replicated};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;

/// Columns, options, and predicates that the index must be used for. Maps are divided by key; bounds take two pages.
const INDEXES: [(&str, &str, [&str; 2]); 3] = [
    ("k, v", "pages_per_range = 1, layout = map", ["k = -101", "v IS NULL"]),
    ("big", "pages_per_range = 2, layout = filters", ["big = 'big76'", "big = repeat(md5('500'), 200)"]),
    ("id int4_minmax_skip_ops", "pages_per_range = 1", ["id > 59900", "id BETWEEN 30000 AND 30010"]),
];

/// Checks the indexes of both tables, and their answers.
fn all_sound(session: &mut Session) {
    for table in ["t", "u"] {
        for (number, (.., predicates)) in INDEXES.iter().enumerate() {
            let index = format!("{table}_skip_{number}");
            sound(session, &index);
            for &predicate in predicates {
                same(session, table, &Question::using(&index, predicate));
            }
        }
    }
}

alone!(standbys_and_crashes);
fn standbys_and_crashes() {
    let (primary, standby) = replicated(&["checkpoint_timeout=1h", "max_wal_size=4GB"]);
    let mut hearing = Hearing::new(&primary, "skip_template");
    hearing.session.run(TABLE);
    hearing.session.run("CREATE TABLE u AS TABLE t; ANALYZE u; SET pg_skip.key_part_pages = 1");
    with_workers(&mut hearing.session, 2);
    hearing.session.run("CHECKPOINT");
    // Builds of `t` have parallel workers, those of `u` have none: it has no number of workers, and is too small.
    for table in ["t", "u"] {
        for (number, (columns, options, _)) in INDEXES.iter().enumerate() {
            let index = format!("{table}_skip_{number}");
            let create = format!("CREATE INDEX {index} ON {table} USING skip ({columns}) WITH ({options})");
            for command in [create, format!("REINDEX INDEX CONCURRENTLY {index}")] {
                assert_eq!(hearing.builds(&command).len(), usize::from(table == "t"), "{command}");
            }
        }
    }
    let kinds = "SELECT string_agg(n::text, ' ' ORDER BY i) FROM generate_series(0, 2) i,
        LATERAL (SELECT count(*) AS n FROM skip_index_segments('t_skip_' || i)) AS of_index";
    println!("segments of the indexes: {}", hearing.session.one(kinds));
    let mut reader = standby.connect("skip_template");
    catch_up(&mut hearing.session, &mut reader);
    all_sound(&mut reader);
    let sizes = "SELECT sum(pg_relation_size(indexrelid)) FROM pg_index
        WHERE indrelid IN ('t'::regclass, 'u'::regclass)";
    assert_eq!(reader.one(sizes), hearing.session.one(sizes), "sizes on the standby");
    drop(reader);
    drop(hearing);
    primary.stop_immediately();
    primary.restart();
    let mut session = primary.connect("skip_template");
    all_sound(&mut session);
    session.run("INSERT INTO t SELECT i, i, i FROM generate_series(70001, 75000) i");
    session.run("VACUUM t");
    all_sound(&mut session);
    drop(session);
    standby.finish();
    primary.finish();
}
