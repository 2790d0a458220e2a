//! Damaged pages: the server never crashes, no query gives fewer rows, the error names the index and its remedy, the
//! verifier finds it, and REINDEX mends it.
//!
//! Every block of an index, whatever its kind, is damaged in every way: each case has a copy of the index of its own,
//! so that one restart serves them all. The server has data checksums off: what is found, the extension finds.
use crate::registry::alone;
use crate::shared;
use fastrand::Rng;
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: usize = 8192;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    /// One bit of the part of the page that is in use.
    Flip,
    /// A stretch of random bytes that begins in such a part.
    Garbage,
    /// All of the page random, header and all.
    Noise,
    /// A page of zeros, as a lost write leaves it.
    Zero,
    /// Another page of the same index, intact in itself.
    Swap,
    /// The page of another index of the same shape, intact in itself.
    Foreign,
    /// The file ends before this page.
    Truncate,
}

const DAMAGES: [Damage; 6] =
    [Damage::Flip, Damage::Garbage, Damage::Noise, Damage::Zero, Damage::Swap, Damage::Truncate];

/// One table with one damaged index.
struct Case {
    table: String,
    damage: Damage,
    block: usize,
    /// The block is part of a segment in use.
    live: bool,
    file: PathBuf,
}

alone!(no_crash_and_no_row_lost = damaged(&DAMAGES, "a, b"));
alone!(pages_of_another_index = damaged(&[Damage::Zero, Damage::Foreign], "a, b"));
alone!(pages_of_bounds = damaged(&DAMAGES, "a int4_minmax_skip_ops, b"));
fn damaged(kinds: &[Damage], columns: &str) {
    let server = Server::start(&["full_page_writes=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    make(&mut session, "model", 1, columns);
    let blocks = session.number("SELECT pg_relation_size('model_skip') / 8192") as usize;
    let mut rng = Rng::with_seed(seed());
    // Every block in every way where there are few; at random where there are many.
    let mut chosen: Vec<(usize, Damage)> =
        (0..blocks).flat_map(|block| kinds.iter().map(move |&damage| (block, damage))).collect();
    rng.shuffle(&mut chosen);
    // Zeros first, to learn what is free; meta and its neighbours always among the others.
    chosen.sort_by_key(|&(block, damage)| (damage != Damage::Zero, block > 2));
    chosen.truncate(cases(90));
    let cases: Vec<Case> = (chosen.into_iter().enumerate())
        .map(|(number, (block, damage))| {
            let table = format!("t{number}");
            make(&mut session, &table, number as u32 + 2, columns);
            let file = session.one(&format!("SELECT pg_relation_filepath('{table}_skip')"));
            let live = session.one(&format!(
                "SELECT count(*) > 0 FROM skip_index_segments('{table}_skip')
                 WHERE {block} BETWEEN first_block AND first_block + blocks - 1"
            ));
            Case { table, damage, block, live: live == "t", file: server.data().join(file) }
        })
        .collect();
    let foreign = server.data().join(session.one("SELECT pg_relation_filepath('model_skip')"));
    drop(session);
    server.stop();
    // A block that was reserved, and never written, is free.
    let mut free: BTreeSet<usize> =
        cases.iter().filter(|case| is_zero(case)).map(|case| case.block).collect();
    // What a page is replaced with may be what it was: the same rows make the same filters.
    let cases: Vec<Case> = cases.into_iter().filter(|case| damage(case, &foreign, &mut rng)).collect();
    server.restart();
    // The cases are alike but for the damage: a block that one does not miss is free in all.
    let mut tally = BTreeMap::new();
    let mut problems = Vec::new();
    let mut session = server.connect("skip_template");
    for case in &cases {
        let problem = examine(&mut session, case, &mut free, &mut tally);
        problems.extend(problem.map(|text| format!("{:?} of block {}: {text}", case.damage, case.block)));
        if session.0.is_closed() {
            panic!("{:?} of block {} crashed the server\n{}", case.damage, case.block, server.log_end());
        }
    }
    println!("{} damaged indexes of {blocks} blocks: {tally:?}", cases.len());
    assert!(problems.is_empty(), "seed {}\n{}", seed(), problems.join("\n"));
    drop(session);
    server.finish();
}

/// A table with an index that has every kind of page: segments of two builds, and a delta that is not folded in.
fn make(session: &mut Session, name: &str, salt: u32, columns: &str) {
    session.run(&format!(
        "CREATE TABLE {name} (id int, a int, b text, filler text DEFAULT repeat('x', 700)) WITH (fillfactor = 60);
         INSERT INTO {name} SELECT i, i, CASE WHEN i % 3 > 0 THEN md5('{salt} ' || i) END
         FROM generate_series(1, 400) i;
         CREATE INDEX {name}_skip ON {name} USING skip ({columns})
            WITH (pages_per_range = 2, autosummarize = off, delta_limit = 4096);
         INSERT INTO {name} SELECT i, i, i FROM generate_series(401, 700) i;
         SELECT skip_summarize('{name}_skip');
         UPDATE {name} SET a = a + 1000, b = b || 'x' WHERE id % 9 = 0"
    ));
}

fn is_zero(case: &Case) -> bool {
    let bytes = fs::read(&case.file).expect("the index's file");
    bytes.chunks(PAGE).nth(case.block).is_some_and(|page| page.iter().all(|&byte| byte == 0))
}

/// Damages the file; false if that changes nothing.
fn damage(case: &Case, foreign: &Path, rng: &mut Rng) -> bool {
    let sound = fs::read(&case.file).expect("the index's file");
    let mut bytes = sound.clone();
    let (from, count) = (case.block * PAGE, bytes.len() / PAGE);
    assert!(case.block < count, "{} has {count} blocks", case.table);
    let page = &mut bytes[from..from + PAGE];
    let word = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
    // Past the header, of which PostgreSQL checks some itself; the hole in the middle holds nothing.
    let (lower, special) = (word(12).clamp(24, PAGE), word(16).clamp(24, PAGE - 1));
    let used: Vec<usize> = (24..lower).chain(special..PAGE).collect();
    let at = *rng.choice(&used).expect("not empty");
    match case.damage {
        Damage::Flip => page[at] ^= 1 << rng.u32(..8),
        Damage::Garbage => {
            let before = page[at];
            let length = rng.usize(1..200).min(PAGE - at);
            page[at..at + length].fill_with(|| rng.u8(..));
            page[at] = !before; // different at least there
        }
        Damage::Noise => page.fill_with(|| rng.u8(..)),
        Damage::Zero => page.fill(0),
        Damage::Swap => {
            let other = (case.block + 1 + rng.usize(..count.max(2) - 1)) % count;
            let other = bytes[other * PAGE..(other + 1) * PAGE].to_vec();
            bytes[from..from + PAGE].copy_from_slice(&other);
        }
        Damage::Foreign => {
            let foreign = fs::read(foreign).expect("the other index's file");
            let at = from.min(foreign.len() - PAGE);
            page.copy_from_slice(&foreign[at..at + PAGE]);
        }
        Damage::Truncate => bytes.truncate(from),
    }
    fs::write(&case.file, &bytes).expect("writing the index's file");
    bytes != sound
}

/// Asks for rows by the damaged index, writes, verifies, mends: what is wrong with that.
fn examine(
    session: &mut Session,
    case: &Case,
    free: &mut BTreeSet<usize>,
    tally: &mut BTreeMap<String, usize>,
) -> Option<String> {
    let table = &case.table;
    let mut count = |what: &str| *tally.entry(what.into()).or_default() += 1;
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = on");
    let by = [
        "SET pg_skip.enable_scan = on; SET enable_bitmapscan = off",
        "SET pg_skip.enable_scan = off; SET enable_bitmapscan = on",
    ];
    let mut conditions: Vec<String> = [
        "b IS NULL",
        "a IN (1, 2, 3, 444, 1009, 9999)",
        "a = ANY ('{5, 6, 500}') AND b IS NOT NULL",
        "a = -1",
        "a IS NULL",
    ]
    .map(str::to_owned)
    .into();
    for row in session.rows(&format!("SELECT a, quote_literal(b) FROM {table} WHERE (id % 37 = 1) IS TRUE")) {
        conditions.extend(row[0].iter().map(|a| format!("a = {a}")));
        conditions.extend(row[1].iter().map(|b| format!("b = {b}")));
    }
    let mut seen = false;
    for (condition, by) in conditions.iter().flat_map(|condition| by.map(|by| (condition, by))) {
        session.run(by);
        let select = format!("SELECT id FROM {table} WHERE {condition} ORDER BY id");
        // Planning counts on what the index says, but can do without; the scan cannot.
        if let Err(error) = session.try_rows(&format!("EXPLAIN {select}")) {
            return Some(format!("EXPLAIN of {condition}, {by}: {error:?}"));
        }
        match session.try_rows(&select) {
            Ok(rows) => {
                let plain = format!("SELECT id FROM {table} WHERE ({condition}) IS TRUE ORDER BY id");
                let expected = session.rows(&plain);
                if rows != expected {
                    return Some(format!("{condition}, {by}, gives {rows:?} instead of {expected:?}"));
                }
            }
            Err(error) => {
                seen = true;
                if let Some(problem) = unfit(&error, case) {
                    return Some(problem);
                }
            }
        }
    }
    count(if seen { "refused to answer" } else { "right all the same" });
    // The verifier sees it even where no question came across it.
    match session.try_rows(&format!("SELECT block, problem FROM skip_index_verify('{table}_skip')")) {
        Ok(rows) if !rows.is_empty() => count("found by the verifier"),
        // A free block holds nothing that its loss would take away.
        Ok(_) if !case.live && !seen && (free.contains(&case.block) || case.damage == Damage::Zero) => {
            free.insert(case.block);
            count("free");
        }
        Ok(_) => return Some(format!("not found by skip_index_verify (live: {})", case.live)),
        Err(error) => {
            count("found by the verifier, as an error");
            if let Some(problem) = unfit(&error, case) {
                return Some(format!("skip_index_verify: {problem}"));
            }
        }
    }
    // Whatever changes the index now may refuse, but not lose rows, and not crash.
    for sql in [
        format!("INSERT INTO {table} VALUES (2000, 2000, 'new')"),
        format!("UPDATE {table} SET a = 2001 WHERE (id = 5) IS TRUE"),
        format!("SELECT skip_summarize('{table}_skip')"),
        format!("SELECT * FROM skip_index_info('{table}_skip')"),
        format!("SELECT * FROM skip_index_segments('{table}_skip')"),
        format!("VACUUM {table}"),
    ] {
        if let Some(problem) = session.try_rows(&sql).err().and_then(|error| unfit(&error, case)) {
            return Some(format!("{sql}: {problem}"));
        }
    }
    for id in [2000, 2001, 100] {
        let plain = session.rows(&format!("SELECT id FROM {table} WHERE (a = {id}) IS TRUE"));
        if let Ok(rows) = session.try_rows(&format!("SELECT id FROM {table} WHERE a = {id}"))
            && rows != plain
        {
            return Some(format!("after changes a = {id} gives {rows:?} instead of {plain:?}"));
        }
    }
    session.run(&format!("REINDEX INDEX {table}_skip"));
    let left = session.rows(&format!("SELECT block, problem FROM skip_index_verify('{table}_skip')"));
    (!left.is_empty()).then(|| format!("after REINDEX: {left:?}"))
}

/// What is wrong with an error about a damaged page.
fn unfit(error: &postgres::Error, case: &Case) -> Option<String> {
    let Some(db) = error.as_db_error() else { return Some(format!("not an answer: {error:?}")) };
    let (code, message) = (db.code().code(), db.message());
    let index = format!("{}_skip", case.table);
    let hint = db.hint().unwrap_or_default();
    let good = code == "XX002" && message.contains(&index) && hint.to_uppercase().contains("REINDEX");
    // Which block it is may stand in the message or its detail.
    let named = message.contains("block") || db.detail().is_some_and(|detail| detail.contains("block"));
    (!good || !named).then(|| format!("an unfit error: {db:?}"))
}

alone!(what_the_server_cannot_read);
/// Pages that the server itself finds invalid, by their header or its own checksums, and a file that is too short, or
/// empty: the error is the extension's, with its hint, and planning does without the index.
fn what_the_server_cannot_read() {
    let server = Server::start(&[]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    type Change = fn(&mut Vec<u8>);
    let damages: [(&str, Change); 6] = [
        ("header of block 0", |bytes| bytes[12..20].fill(0xee)),
        ("header of block 1", |bytes| bytes[PAGE + 12..PAGE + 20].fill(0xee)),
        ("all headers", |bytes| bytes.chunks_mut(PAGE).for_each(|page| page[12..20].fill(0xee))),
        ("no byte left", Vec::clear),
        ("half a page left", |bytes| bytes.truncate(PAGE / 2)),
        // No field of the header, so that only the server's checksum, if it is there, tells.
        ("a bit of each page", |bytes| bytes.chunks_mut(PAGE).for_each(|page| page[100] ^= 4)),
    ];
    let tables: Vec<String> = (0..2 * damages.len()).map(|number| format!("t{number}")).collect();
    for (number, table) in tables.iter().enumerate() {
        make(&mut session, table, number as u32, "a, b");
    }
    let path = |session: &mut Session, table: &str| {
        server.data().join(session.one(&format!("SELECT pg_relation_filepath('{table}_skip')")))
    };
    let files: Vec<PathBuf> = tables.iter().map(|table| path(&mut session, table)).collect();
    drop(session);
    server.stop();
    for (checksums, round) in [(false, 0), (true, 1)] {
        if checksums {
            let mut enable = server.client("pg_checksums");
            pg_skip_tests::server::must(enable.args(["--enable", "--no-sync", "-D"]).arg(server.data()));
        }
        let mine = |number: usize| number + round * damages.len();
        for (number, (_, damage)) in damages.iter().enumerate() {
            let mut bytes = fs::read(&files[mine(number)]).expect("the index's file");
            damage(&mut bytes);
            fs::write(&files[mine(number)], bytes).expect("writing the index's file");
        }
        server.restart();
        let mut session = server.connect("skip_template");
        for (number, (what, _)) in damages.iter().enumerate() {
            let table = &tables[mine(number)];
            unread(&mut session, table, &format!("{what}, with checksums: {checksums}"));
        }
        drop(session);
        server.stop();
    }
}

#[track_caller]
fn unread(session: &mut Session, table: &str, what: &str) {
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
    let query = format!("SELECT id FROM {table} WHERE a = 77");
    let plan = session.plan(&query);
    let file = PathBuf::new();
    let case = Case { table: table.into(), damage: Damage::Noise, block: 0, live: true, file };
    for sql in [
        query,
        format!("SELECT * FROM skip_index_info('{table}_skip')"),
        format!("SELECT skip_matching_ranges('{table}_skip', 'a', 77)"),
        format!("SELECT skip_summarize('{table}_skip')"),
    ] {
        match session.try_rows(&sql) {
            Ok(rows) => panic!("{what}: {sql} gives {rows:?}\n{plan}"),
            Err(error) => {
                let problem = unfit(&error, &case);
                assert!(problem.is_none(), "{what}: {sql}: {problem:?}\n{plan}");
            }
        }
    }
    // Writing may do without the damaged page.
    if let Err(error) = session.try_rows(&format!("INSERT INTO {table} VALUES (77, 77, 'new')")) {
        assert_eq!(unfit(&error, &case), None, "{what}: INSERT");
    }
    let found = session.rows(&format!("SELECT block, problem FROM skip_index_verify('{table}_skip')"));
    assert!(!found.is_empty(), "{what}: skip_index_verify");
    // Queries can do without the index, and it can be built anew while the table is used.
    session.run(&format!("SET pg_skip.ignore_indexes = '{table}_skip'"));
    let query = format!("SELECT id FROM {table} WHERE a = 77 AND b IS NOT NULL ORDER BY 1");
    assert_eq!(session.column(&query)[0], "77", "{what}: without the index");
    session.run("RESET pg_skip.ignore_indexes");
    session.run(&format!("REINDEX INDEX CONCURRENTLY {table}_skip"));
    assert_eq!(session.rows(&format!("SELECT * FROM skip_index_verify('{table}_skip')")).len(), 0);
    assert_eq!(session.column(&query)[0], "77", "{what}: after REINDEX");
}

alone!(a_value_that_cannot_be_read);
/// A value out of line is lost. Its block range stays open, with a warning; inserts of other rows, VACUUM and
/// skip_summarize go on.
fn a_value_that_cannot_be_read() {
    let server = Server::start(&["autovacuum=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(
        "CREATE TABLE t (id int, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
         CREATE INDEX t_skip ON t USING skip (v) WITH (pages_per_range = 1, autosummarize = on);
         INSERT INTO t SELECT i, CASE WHEN i = 100 THEN repeat('v', 5000) ELSE 'v' || i END
             FROM generate_series(1, 120) i;
         CHECKPOINT",
    );
    let of_values = "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 't'";
    let file = server.data().join(session.one(of_values));
    drop(session);
    server.stop();
    let bytes = fs::metadata(&file).expect("the file of the values").len();
    fs::write(&file, vec![0; bytes as usize]).expect("writing the file of the values");
    server.restart();
    goes_on_without_a_value(&server, "XX001");
    server.finish();
}

alone!(a_compressed_value_that_is_damaged);
fn a_compressed_value_that_is_damaged() {
    compressed("XX001", |value| value[4..16].fill(0xff));
}

alone!(a_compressed_value_with_a_damaged_header);
/// The two upper bits of the length are the compression method: there is none with number 3.
fn a_compressed_value_with_a_damaged_header() {
    compressed("XX000", |value| value[3] |= 0xc0);
}

/// A value that is compressed in its row is damaged, so that reading it ends with `code`. Its block range stays open,
/// with a warning; inserts of other rows, VACUUM and skip_summarize go on. `damage` is given the bytes from the value's
/// length on, which stands before what is compressed.
fn compressed(code: &str, damage: fn(&mut [u8])) {
    const LENGTH: u32 = 5000;
    let server = Server::start(&["autovacuum=off", "default_toast_compression=pglz"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(&format!(
        "CREATE TABLE t (id int, v text); ALTER TABLE t ALTER v SET STORAGE MAIN;
         CREATE INDEX t_skip ON t USING skip (v) WITH (pages_per_range = 1, autosummarize = on);
         INSERT INTO t SELECT i, CASE WHEN i = 100 THEN repeat('v', {LENGTH}) ELSE 'v' || i END
             FROM generate_series(1, 120) i;
         CHECKPOINT"
    ));
    let file = server.data().join(session.one("SELECT pg_relation_filepath('t')"));
    drop(session);
    server.stop();
    let mut bytes = fs::read(&file).expect("the table's file");
    let at = bytes.windows(4).position(|window| window == LENGTH.to_le_bytes()).expect("the value");
    damage(&mut bytes[at..]);
    fs::write(&file, bytes).expect("writing the table's file");
    server.restart();
    goes_on_without_a_value(&server, code);
    server.finish();
}

/// The value of row 100 cannot be read: reading it ends with this code.
fn goes_on_without_a_value(server: &Server, code: &str) {
    let (mut session, heard) = server.connect_hearing("skip_template");
    assert_eq!(session.error("SELECT max(v) FROM t").code().code(), code);
    for change in [
        "INSERT INTO t SELECT i, 'v' || i FROM generate_series(121, 5000) i",
        "VACUUM t",
        "SELECT skip_summarize('t_skip')",
    ] {
        heard.lock().unwrap().clear();
        session.run(change);
        let told = heard.lock().unwrap().concat();
        assert!(told.contains("could not be updated for a row in block 0"), "{change}: {told}");
    }
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
    assert_eq!(session.one("SELECT id FROM t WHERE v = 'v4711'"), "4711");
    let summarized = "SELECT ranges - summarized <= 2 FROM skip_index_info('t_skip')";
    assert_eq!(session.one(summarized), "t");
    session.run("DELETE FROM t WHERE id = 100");
    session.run("VACUUM t");
}
