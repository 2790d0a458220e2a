//! Large maps are divided by key, and merged one part of the keys at a time. The parts are made small here, so that
//! small tables have many.
use crate::registry::on_shared;
use crate::shared::{self, Database};
use fastrand::Rng;
use pg_skip_tests::both_ways::{self, Case, Way};
use pg_skip_tests::compare::sound;
use pg_skip_tests::explain::executed;
use pg_skip_tests::seed;
use pg_skip_tests::session::Session;
use std::fs;

const TABLE: &str =
    "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, n int) WITH (fillfactor = 70);
    SET pg_skip.key_part_pages = 1; SET pg_skip.merge_pages = 2";

/// One key, lists of keys that are in few and in all parts, present and absent ones, and NULLs.
fn conditions(session: &mut Session, rng: &mut Rng, rows: u32) {
    let mut keys = |count: usize, most: u32| {
        let keys: Vec<String> = (0..count).map(|_| rng.u32(..most).to_string()).collect();
        keys.join(", ")
    };
    for condition in [
        format!("k = {}", keys(1, rows)),
        format!("k = {}", keys(1, rows * 3)),
        format!("k IN ({})", keys(2, rows * 2)),
        format!("k IN ({})", keys(12, rows * 2)),
        format!("k = ANY ('{{{}}}'::int[])", keys(300, rows * 2)),
        format!("k = {} AND n IN ({})", keys(1, rows), keys(3, 60)),
        format!("k IN ({}) OR n = {}", keys(5, rows), keys(1, 60)),
        "n IS NULL".into(),
        "n IS NOT NULL AND k < 5".into(),
        "k IS NULL".into(),
    ] {
        let sql = format!("SELECT * FROM t WHERE {condition}");
        let skips = both_ways::same(session, &Way::skip_scan(), &Case::using(&sql));
        assert!(skips, "no Skip Index Scan for {condition}");
        both_ways::same(session, &Way::bitmap(), &Case::using(&sql));
    }
}

fn insert(session: &mut Session, first: u32, count: u32) {
    session.run(&format!(
        "INSERT INTO t (k, n) SELECT i, nullif(i % 50, 0) FROM generate_series({first}, {first} + {count} - 1) i"
    ));
}

/// The depths of the key parts of a column's maps, and the number of maps.
fn parts(session: &mut Session) -> (String, f64) {
    let of_maps = "FROM skip_index_segments('t_skip') WHERE kind = 'map' AND attnum = 1";
    let depths =
        format!("SELECT string_agg(DISTINCT split_part(coalesce(key_part, '1/1'), '/', 2), ' ') {of_maps}");
    (session.one(&depths), session.number(&format!("SELECT count(*) {of_maps}")))
}

on_shared!(a_build_divides_by_key);
fn a_build_divides_by_key(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    session.run(TABLE);
    insert(&mut session, 0, 60_000);
    let create = "CREATE INDEX t_skip ON t USING skip (k, n) WITH (layout = map, pages_per_range = 1)";
    session.run(create);
    let (depths, count) = parts(&mut session);
    assert!(count >= 16.0 && depths == count.to_string(), "{count} maps, of parts {depths}");
    let info = "SELECT segments, summarized = ranges FROM skip_index_info('t_skip') WHERE attnum = 1";
    assert_eq!(session.rows(info), [[Some("1".to_owned()), Some("t".to_owned())]]);
    conditions(&mut session, &mut rng, 60_000);
    sound(&mut session, "t_skip");
    // Earlier builds refuse the directory.
    session.run("CHECKPOINT");
    let file = shared::server().data().join(session.one("SELECT pg_relation_filepath('t_skip')"));
    let page = fs::read(file).expect("the index")[8192..2 * 8192].to_vec();
    assert_eq!((&page[8188..8190], &page[8190..8192]), (&[4, 0][..], &[0x02, 0xfa][..]), "version and kind");
    // Keys that come later are added, and all of it becomes one again, part by part.
    session.run("UPDATE t SET k = k + 100000, n = NULL WHERE id % 3 = 0");
    conditions(&mut session, &mut rng, 160_000);
    session.run("VACUUM t");
    session.run("SELECT skip_summarize('t_skip')");
    conditions(&mut session, &mut rng, 160_000);
    sound(&mut session, "t_skip");
    // The next maps are whole, and those of another depth are merged with them.
    session.run("SET pg_skip.key_part_pages = 4");
    insert(&mut session, 200_000, 20_000);
    session.run("VACUUM t");
    conditions(&mut session, &mut rng, 220_000);
    sound(&mut session, "t_skip");
    session.run("DELETE FROM t WHERE id > 9000");
    session.run("VACUUM t");
    insert(&mut session, 300_000, 5000);
    session.run("VACUUM t");
    conditions(&mut session, &mut rng, 310_000);
    sound(&mut session, "t_skip");
}

on_shared!(a_growing_index_is_divided_by_key);
/// At every moment some keys are merged farther than others.
fn a_growing_index_is_divided_by_key(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    session.run(TABLE);
    session.run(
        "CREATE INDEX t_skip ON t USING skip (k, n)
             WITH (layout = map, pages_per_range = 1, delta_limit = 8192)",
    );
    let (mut rows, mut mixed) = (0, 0);
    while rows < 90_000 {
        let count = rng.u32(500..2500);
        insert(&mut session, rows, count);
        rows += count;
        let (depths, _) = parts(&mut session);
        mixed += u32::from(depths.contains(' '));
        if rng.u32(..4) == 0 {
            session.run(&format!("UPDATE t SET k = k + 1000000 WHERE id % 211 = {}", rng.u32(..211)));
        }
        if rng.u32(..3) == 0 {
            conditions(&mut session, &mut rng, rows);
        }
    }
    println!("{mixed} times there were maps of several depths");
    assert!(mixed > 10, "merges that had come half way");
    sound(&mut session, "t_skip");
    session.run("VACUUM t");
    let (depths, count) = parts(&mut session);
    // A power of two near the number of pages, as the last merge estimated it; that may be one before VACUUM.
    let is_fine = depths.contains("32") || depths.contains("64");
    assert!(is_fine && count >= 32.0, "{count} maps, depths {depths}");
    conditions(&mut session, &mut rng, rows);
    sound(&mut session, "t_skip");
}

on_shared!(pages_of_a_lookup);
/// A lookup reads each page once: the meta page, the directory, and a data page if its guess is right. A directory of
/// several pages needs no second look at the meta page if it is as planning has read it.
fn pages_of_a_lookup(database: &Database) {
    let mut session = database.session();
    session.run(
        "SET pg_skip.key_part_pages = 1; CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 150000) i",
    );
    // 32 key parts of two or three pages for each column; a page of the directory has 254 entries.
    for (columns, expected) in [(1, 2 + 1), (9, 3 + 1)] {
        session.run("DROP INDEX IF EXISTS t_skip");
        let columns = vec!["k"; columns].join(", ");
        let options = "(layout = map, pages_per_range = 1)";
        session.run(&format!("CREATE INDEX t_skip ON t USING skip ({columns}) WITH {options}"));
        assert_eq!(parts(&mut session).0, "32");
        Way::skip_scan().set(&mut session);
        let of_key = |key| {
            let node = executed(&mut session, &format!("SELECT * FROM t WHERE k = {key}"));
            node.number("Index Pages Read")
        };
        let mut pages: Vec<u64> = (-20..-1).map(of_key).collect();
        pages.sort_unstable();
        assert!(pages[0] == expected && pages[pages.len() / 2] == expected, "{columns}: {pages:?}");
    }
}
