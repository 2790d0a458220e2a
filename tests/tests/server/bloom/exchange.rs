//! Filters of other systems, byte for byte, over SQL: the golden vectors of the pure crate.
use super::aggregate::make_parallel;
use crate::registry::on_shared;
use crate::shared::Database;

macro_rules! vectors {
    ($name:literal) => {
        include_str!(concat!("../../../../crates/skip_filter/tests/vectors/", $name))
    };
}

fn filters(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| line.starts_with("filter")).map(|line| line.split('\t').collect())
}

/// Keys 0 to n - 1 as four little-endian bytes.
const NUMBERS: &str = "decode(lpad(to_hex(get_byte(int4send(i), 3)), 2, '0')
    || lpad(to_hex(get_byte(int4send(i), 2)), 2, '0')
    || lpad(to_hex(get_byte(int4send(i), 1)), 2, '0') || lpad(to_hex(get_byte(int4send(i), 0)), 2, '0'), 'hex')";

on_shared!(leveldb);
fn leveldb(database: &Database) {
    let mut session = database.session();
    let mut checked = 0;
    for row in filters(vectors!("leveldb.tsv")) {
        let (bits, keys, bytes, matching) = (row[1], row[2], row[3], row[4]);
        if keys == "0" {
            continue; // an aggregate of nothing is NULL
        }
        session.run("DROP TABLE IF EXISTS f");
        session.run(&format!(
            "CREATE TABLE f AS SELECT bloom_agg({NUMBERS}, NULL, NULL, 'leveldb(bits_per_key={bits})') AS b
             FROM generate_series(0, {keys} - 1) i"
        ));
        assert_eq!(
            session.one("SELECT encode(bloom_export(b), 'hex') FROM f"),
            bytes,
            "{bits} bits, {keys} keys"
        );
        assert_eq!(
            session.one(&format!("SELECT bloom_import('\\x{bytes}', 'leveldb', 'bytea') = b FROM f")),
            "t"
        );
        let found = session.one(&format!(
            "SELECT count(*) FROM f, generate_series(1000000000, 1000009999) i WHERE b @> {NUMBERS}"
        ));
        assert_eq!(found, matching, "{bits} bits, {keys} keys");
        checked += 1;
    }
    assert!(checked >= 48, "{checked}");
}

on_shared!(leveldb_many_keys);
/// LevelDB sizes a filter by its keys, though some of so many share its hash of 32 bits.
fn leveldb_many_keys(database: &Database) {
    const KEYS: usize = 300_000;
    let mut session = database.session();
    session.run(&format!(
        "CREATE TABLE t AS SELECT 'user' || i || '@example.org' AS k FROM generate_series(1, {KEYS}) i; ANALYZE t;
         SET work_mem = '64MB'"
    ));
    let query = "SELECT md5(b), octet_length(b) FROM
        (SELECT bloom_export(bloom_agg(k, NULL, NULL, 'leveldb(bits_per_key=10)')) AS b FROM t) s";
    let serial = session.rows(query);
    assert_eq!(serial[0][1].as_deref(), Some((KEYS * 10 / 8 + 1).to_string().as_str()));
    make_parallel(&mut session);
    assert!(session.plan(query).contains("Partial"));
    assert!(session.rows(query) == serial);
}

on_shared!(clickhouse);
fn clickhouse(database: &Database) {
    let mut session = database.session();
    let mut checked = 0;
    for row in filters(vectors!("clickhouse_bloom.tsv")) {
        let policy = format!("clickhouse(filter_size={}, filter_hashes={}, seed={})", row[1], row[2], row[3]);
        let keys: Vec<_> =
            row[4].split(',').map(|key| format!("('\\x{}'::bytea)", key.trim_matches('-'))).collect();
        let made =
            format!("(SELECT bloom_agg(k, NULL, NULL, '{policy}') FROM (VALUES {}) v (k))", keys.join(", "));
        // ClickHouse has whole words in memory, and writes so many bytes of them.
        let (words, stored) = (row[5], &row[5][..2 * row[1].parse::<usize>().expect("bytes")]);
        assert_eq!(session.one(&format!("SELECT encode(bloom_export({made}), 'hex')")), stored, "{policy}");
        for bytes in [words, stored] {
            let imported = format!("bloom_import('\\x{bytes}', '{policy}', 'bytea')");
            assert_eq!(session.one(&format!("SELECT {imported} = {made}")), "t");
            for key in &keys {
                assert_eq!(session.one(&format!("SELECT {imported} @> {key}")), "t");
            }
        }
        checked += 1;
    }
    assert_eq!(checked, 5);
}

on_shared!(rocksdb);
/// The vectors are of hashes; here the bytes come in and go out again, and what RocksDB's reader refuses is refused.
fn rocksdb(database: &Database) {
    let mut session = database.session();
    let mut checked = 0;
    for row in vectors!("rocksdb_fast_local.tsv").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = row.split('\t').collect();
        let probes: u8 = fields[0].parse().expect("probes");
        let whole = format!("{}ff00{probes:02x}0000", fields[3]);
        let imported = format!("bloom_import('\\x{whole}', 'rocksdb', 'bytea')");
        assert_eq!(session.one(&format!("SELECT encode(bloom_export({imported}), 'hex')")), whole);
        checked += 1;
    }
    assert_eq!(checked, 7);
}

on_shared!(key_bytes);
/// What an application has to hash to find a key.
fn key_bytes(database: &Database) {
    let mut session = database.session();
    for (value, bytes) in [
        ("'hello'::text", "68656c6c6f"),
        ("'hello'::varchar(9)", "68656c6c6f"),
        ("'hello'::char(9)", "68656c6c6f"),
        ("5", "0500000000000000"),
        ("(-2)::smallint", "feffffffffffffff"),
        ("1.5::real", "000000000000f83f"),
        ("'-0'::float8", "0000000000000000"),
        ("4294967295::oid", "ffffffff00000000"),
        ("true", "01"),
        ("'00010203-0405-0607-0809-0a0b0c0d0e0f'::uuid", "000102030405060708090a0b0c0d0e0f"),
        ("date '2000-01-02'", "0100000000000000"),
        ("timestamptz '2000-01-01 00:00:01Z'", "40420f0000000000"),
    ] {
        for policy in [
            "leveldb(bits_per_key=20)",
            "rocksdb(bits_per_key=20)",
            "clickhouse(filter_size=64, filter_hashes=5, seed=3)",
        ] {
            let exported = |key: &str| format!("bloom_export(bloom_agg({key}, NULL, NULL, '{policy}'))");
            let (own, plain) = (exported(value), exported(&format!("'\\x{bytes}'::bytea")));
            assert_eq!(session.one(&format!("SELECT {own} = {plain}")), "t", "{value} {policy}");
        }
    }
}

on_shared!(refused);
fn refused(database: &Database) {
    let mut session = database.session();
    for (bytes, policy) in [
        ("\\x", "leveldb"),
        ("\\x1f", "leveldb"),
        ("\\x00000000000000001f", "leveldb"),
        ("\\x0000000000000000", "skip"),
        ("\\x0000000000000000", "clickhouse"),
        ("\\x00", "clickhouse(filter_size=8, filter_hashes=3)"),
        ("\\xff00060000", "rocksdb"),
    ] {
        let error = session.error(&format!("SELECT bloom_import('{bytes}', '{policy}', 'text')"));
        assert_eq!(error.code().code(), "22P03", "{bytes} {policy}: {error}");
        // What has to be given is said only where something has.
        let hint = (policy == "clickhouse").then_some(
            "Give them as parameters of the policy: clickhouse(filter_size=…, filter_hashes=…, seed=…).",
        );
        assert_eq!(error.hint(), hint, "{bytes} {policy}");
    }
    assert_eq!(session.error("SELECT bloom_import('\\x00', 'cuckoo', 'text')").code().code(), "22023");
}
