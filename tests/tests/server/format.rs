//! The on-disk format is frozen: index files that earlier builds wrote (`tests/data/format_*.idx`) are put in the
//! place of a new one over the same rows, and must be read, verified and written as its own.
//!
//! - `format_1.idx`: one checksum over all of a page;
//! - `format_2.idx`: segment pages are checked in quarters;
//! - `format_2_maps.idx`: maps instead of filters, which lie on pages of the same format;
//! - `format_3.idx`: the meta page of an index whose maps tell parts of ranges apart, beside filters and a layout that
//!   was chosen by a sample;
//! - `format_3_to_choose.idx`: the meta page of an index whose layout is not chosen yet, because no range is complete;
//! - `format_5.idx`: bounds of two columns, beside filters and a map.
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

/// An index file of an earlier build.
struct Golden {
    name: &'static str,
    /// The columns and options with which the index was made.
    index: &'static str,
    /// Setting pg_skip.default_layout, as the index was made under.
    default_layout: &'static str,
    /// Format versions of the meta page, of directory pages and of segment pages.
    versions: (u16, u16, u16),
    /// How the keys of each column are made: the numbers of canonical forms.
    canons: [u16; 4],
    pages_per_range: u32,
    /// Number of ranges that are summarized.
    watermark: u32,
    /// Of each column the layout, the number of probes, and of how many ranges, or parts of ranges, how many are
    /// summarized, as skip_index_info tells them.
    columns: &'static str,
}

/// Segments of two filter sizes, or maps by single pages.
const BY_PAGE: &str =
    "(a, b, c, d) WITH (pages_per_range = 1, false_positive_rate = 0.01, autosummarize = off)";

/// An integer, bytes, bytes, the type's own hash.
const HASHED: [u16; 4] = [1, 4, 4, 5];

const FILTERS_1: Golden = Golden {
    name: "format_1.idx",
    index: BY_PAGE,
    default_layout: "filters",
    versions: (1, 1, 1),
    canons: HASHED,
    pages_per_range: 1,
    watermark: 42,
    columns: "filters 5 42/42, filters 5 42/42, filters 5 42/42, filters 5 42/42",
};
const FILTERS_2: Golden = Golden { name: "format_2.idx", versions: (1, 1, 2), ..FILTERS_1 };
const MAPS_2: Golden = Golden {
    name: "format_2_maps.idx",
    default_layout: "map",
    columns: "map 42/42, map 42/42, map 42/42, map 42/42",
    ..FILTERS_2
};
const PARTS_3: Golden = Golden {
    name: "format_3.idx",
    index: "(a int8_skip_ops (pages_per_range = 1, layout = map), b text_skip_ops (layout = filters), c,
             d numeric_skip_ops (pages_per_range = 2, layout = map))
        WITH (pages_per_range = 4, false_positive_rate = 0.01, autosummarize = off)",
    default_layout: "auto",
    versions: (3, 1, 2),
    canons: HASHED,
    pages_per_range: 4,
    watermark: 11,
    columns: "map 42/42, filters 5 11/11, map 11/11, map 21/21",
};
const TO_CHOOSE_3: Golden = Golden {
    name: "format_3_to_choose.idx",
    index: "(a int8_skip_ops (pages_per_range = 1), b text_skip_ops (layout = filters),
             c uuid_skip_ops (layout = map), d numeric_skip_ops (false_positive_rate = 0.001))
        WITH (pages_per_range = 64, false_positive_rate = 0.01, autosummarize = off)",
    default_layout: "auto",
    versions: (3, 1, 2),
    canons: HASHED,
    pages_per_range: 64,
    watermark: 0,
    columns: "auto 0/1, filters 5 0/1, map 0/1, auto 0/1",
};

const BOUNDS_5: Golden = Golden {
    name: "format_5.idx",
    index: "(a int8_minmax_skip_ops, b text_skip_ops (layout = filters), c uuid_skip_ops (layout = map),
             d numeric_minmax_skip_ops)
        WITH (pages_per_range = 1, false_positive_rate = 0.01, autosummarize = off)",
    default_layout: "auto",
    versions: (5, 5, 2),
    // The order of integers, bytes, bytes, the order of numeric.
    canons: [0x301, 4, 4, 0x303],
    pages_per_range: 1,
    watermark: 42,
    columns: "bounds 42/42, filters 5 42/42, map 42/42, bounds 42/42",
};

alone!(index_of_version_1 = index_of_an_earlier_build(&FILTERS_1));
alone!(index_of_version_2 = index_of_an_earlier_build(&FILTERS_2));
alone!(maps_of_version_2 = index_of_an_earlier_build(&MAPS_2));
alone!(parts_of_version_3 = index_of_an_earlier_build(&PARTS_3));
alone!(to_choose_of_version_3 = index_of_an_earlier_build(&TO_CHOOSE_3));
alone!(bounds_of_version_5 = index_of_an_earlier_build(&BOUNDS_5));
fn index_of_an_earlier_build(golden: &Golden) {
    let layout = format!("pg_skip.default_layout={}", golden.default_layout);
    let server = Server::start(&["full_page_writes=off", &layout]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    make(&mut session, golden.index);
    let file = server.data().join(session.one("SELECT pg_relation_filepath('golden_skip')"));
    session.run("CHECKPOINT");
    drop(session);
    server.stop();
    if let Some(target) = std::env::var_os("PG_SKIP_WRITE_FORMAT") {
        fs::copy(&file, target).expect("a copy of the index file");
    }
    let bytes = fs::read(Path::new(DATA).join(golden.name)).expect("the golden file");
    check_bytes(&bytes, golden);
    fs::write(&file, &bytes).expect("the golden file in place");
    server.restart();
    let mut session = server.connect("skip_template");
    let info = "FROM skip_index_info('golden_skip')";
    let columns = session.one(&format!(
        "SELECT string_agg(concat_ws(' ', layout, num_probes, summarized || '/' || ranges), ', ' ORDER BY attnum)
         {info}"
    ));
    assert_eq!(columns, golden.columns);
    let entries = session.number(&format!("SELECT max(delta_entries) {info}"));
    assert_eq!(entries > 0.0, golden.watermark > 0, "the delta is part of the format");
    ask(&mut session);
    sound(&mut session, "golden_skip");
    session.run("INSERT INTO golden SELECT i, i, i::text, NULL, i / 7.0 FROM generate_series(5001, 6000) i");
    session.run("SELECT skip_summarize('golden_skip')");
    let summarized = session.number(&format!("SELECT min(summarized) {info}"));
    assert!(summarized >= 1.0, "the ranges that are complete are summarized");
    ask(&mut session);
    sound(&mut session, "golden_skip");
    drop(session);
    server.finish();
}

/// The same rows in the same blocks every time: ranges of two sizes of filters, a delta, NULLs, every kind of hash.
fn make(session: &mut Session, index: &str) {
    session.run(&format!(
        "CREATE TABLE golden (id int, a bigint, b text, c uuid, d numeric, filler text DEFAULT repeat('x', 200));
         INSERT INTO golden SELECT i, i % 50, 'b' || i, NULL, i / 7.0 FROM generate_series(1, 600) i;
         INSERT INTO golden SELECT i, i, 'b' || i, md5(i::text)::uuid, i / 7.0 FROM generate_series(601, 1200) i;
         CREATE INDEX golden_skip ON golden USING skip {index};
         INSERT INTO golden SELECT i, i, 'late' || i, md5(i::text)::uuid, i / 7.0 FROM generate_series(1201, 1203) i"
    ));
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
        same(session, "golden", &Question::any(format!("a >= {id} AND d < {id} / 7.0 + 3")));
    }
    same(session, "golden", &Question::any("c IS NULL"));
    same(session, "golden", &Question::any("c IS NOT NULL"));
}

/// What stands where, read without the extension's code: offsets as src/pages/meta/mod.rs and the pages of skip_segment
/// document them.
fn check_bytes(file: &[u8], golden: &Golden) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let half = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap());
    assert_eq!(file.len() % 8192, 0, "the file is made of pages");
    assert_eq!(&file[24..28], b"SKIP", "magic");
    assert_eq!((half(28), half(30)), (1, 4), "hash scheme and columns");
    let sizes = (golden.pages_per_range, golden.watermark);
    assert_eq!((word(40), word(44)), sizes, "pages per range and watermark");
    assert_eq!(word(48), 1, "the directory's first block");
    let canons: Vec<u16> = (0..4).map(|column| half(24 + 72 + 16 * column)).collect();
    assert_eq!(canons, golden.canons, "how the keys of each column are made");
    let (meta, directory, segment) = golden.versions;
    let pages = [(0, 0xFA01, meta), (1, 0xFA02, directory), (2, 0xFA03, segment)];
    // An index of which nothing is summarized has no segments.
    for &(block, kind, version) in &pages[..if golden.watermark == 0 { 2 } else { 3 }] {
        let end = (block + 1) * 8192;
        assert_eq!(
            (half(end - 4), half(end - 2)),
            (version, kind),
            "format version and kind of block {block}"
        );
    }
}
