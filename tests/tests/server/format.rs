//! The on-disk format is frozen: index files that earlier builds wrote (`tests/data/format_*.idx`) are put in the
//! place of a new one over the same rows, and must be read, verified and written as its own.
//!
//! - `format_1.idx`: one checksum over all of a page;
//! - `format_2.idx`: segment pages are checked in quarters;
//! - `format_2_maps.idx`: maps instead of filters, which lie on pages of the same format.
//!
//! A change of the format that this test notices needs a new format version, a new file beside the old ones, and a way
//! for the old ones to be read or refused. `PG_SKIP_WRITE_FORMAT=file` writes a file.
use crate::registry::alone;
use crate::shared;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::fs;
use std::path::Path;

/// Directory of the golden files.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data");

alone!(index_of_version_1 = index_of_an_earlier_build("format_1.idx", 1, "filters"));
alone!(index_of_version_2 = index_of_an_earlier_build("format_2.idx", 2, "filters"));
alone!(maps_of_version_2 = index_of_an_earlier_build("format_2_maps.idx", 2, "map"));
/// `version` is that of the file's segment pages.
fn index_of_an_earlier_build(name: &str, version: u16, layout: &str) {
    let layout = format!("pg_skip.default_layout={layout}");
    let server = Server::start(&["full_page_writes=off", &layout]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    make(&mut session);
    let file = server.data().join(session.one("SELECT pg_relation_filepath('golden_skip')"));
    session.run("CHECKPOINT");
    drop(session);
    server.stop();
    if let Some(target) = std::env::var_os("PG_SKIP_WRITE_FORMAT") {
        fs::copy(&file, target).expect("a copy of the index file");
    }
    let golden = fs::read(Path::new(DATA).join(name)).expect("the golden file");
    check_bytes(&golden, version);
    fs::write(&file, &golden).expect("the golden file in place");
    server.restart();
    let mut session = server.connect("skip_template");
    let info = session
        .rows("SELECT ranges, summarized, num_probes, delta_entries FROM skip_index_info('golden_skip')");
    let number = |column: usize| info[0][column].clone().unwrap_or_default();
    assert_eq!(info.len(), 4, "four columns");
    let probes = if layout.ends_with("map") { "" } else { "5" };
    assert_eq!((number(0), number(1), number(2)), ("42".into(), "42".into(), probes.into()));
    assert_ne!(number(3), "0", "the delta is part of the format");
    ask(&mut session);
    sound(&mut session, "golden_skip");
    session.run("INSERT INTO golden SELECT i, i, i::text, NULL, i / 7.0 FROM generate_series(5001, 6000) i");
    session.run("SELECT skip_summarize('golden_skip')");
    ask(&mut session);
    sound(&mut session, "golden_skip");
    drop(session);
    server.finish();
}

/// The same rows in the same blocks every time: segments of two filter sizes, a delta, NULLs, every kind of hash.
fn make(session: &mut Session) {
    session.run(
        "CREATE TABLE golden (id int, a bigint, b text, c uuid, d numeric, filler text DEFAULT repeat('x', 200));
         INSERT INTO golden SELECT i, i % 50, 'b' || i, NULL, i / 7.0 FROM generate_series(1, 600) i;
         INSERT INTO golden SELECT i, i, 'b' || i, md5(i::text)::uuid, i / 7.0 FROM generate_series(601, 1200) i;
         CREATE INDEX golden_skip ON golden USING skip (a, b, c, d)
             WITH (pages_per_range = 1, false_positive_rate = 0.01, autosummarize = off);
         INSERT INTO golden SELECT i, i, 'late' || i, md5(i::text)::uuid, i / 7.0 FROM generate_series(1201, 1203) i",
    );
}

fn ask(session: &mut Session) {
    for id in [1, 17, 599, 600, 601, 900, 1200, 1201, 1203, 5500, 99999] {
        for predicate in [
            format!("a = {id}"),
            format!("b IN ('b{id}', 'late{id}')"),
            format!("c = md5('{id}')::uuid"),
            format!("d = {id} / 7.0"),
        ] {
            same(session, "golden", &Question::using("golden_skip", predicate));
        }
    }
    same(session, "golden", &Question::any("c IS NULL"));
    same(session, "golden", &Question::any("c IS NOT NULL"));
}

/// What stands where, read without the extension's code: offsets as src/pages/layout.rs and meta.rs document them.
fn check_bytes(file: &[u8], version: u16) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let half = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap());
    assert_eq!(file.len() % 8192, 0, "the file is made of pages");
    assert_eq!(&file[24..28], b"SKIP", "magic");
    assert_eq!((half(28), half(30)), (1, 4), "hash scheme and columns");
    assert_eq!((word(40), word(44)), (1, 42), "pages per range and watermark");
    assert_eq!(word(48), 1, "the directory's first block");
    let canons: Vec<u16> = (0..4).map(|column| half(24 + 72 + 16 * column)).collect();
    assert_eq!(canons, [1, 4, 4, 5], "integer, bytes, bytes, the type's own hash");
    for (block, kind, version) in [(0, 0xFA01, 1), (1, 0xFA02, 1), (2, 0xFA03, version)] {
        let end = (block + 1) * 8192;
        assert_eq!(
            (half(end - 4), half(end - 2)),
            (version, kind),
            "format version and kind of block {block}"
        );
    }
}
