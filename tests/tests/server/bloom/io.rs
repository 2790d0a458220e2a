//! A filter on its way: text, binary, bytea, COPY, dumps, replication; and bytes that are none.
use crate::registry::{alone, on_shared};
use crate::shared::{Database, server};
use libtest_mimic::Completion;
use pg_skip_tests::server::{Server, install};
use std::time::{Duration, Instant};

/// Filters of every policy, small and stored out of line, single and series.
const FILTERS: &str = "CREATE TABLE f (name text PRIMARY KEY, b bloom);
    INSERT INTO f SELECT policy || n, (SELECT bloom_agg(i, 0.01, NULL, policy) FROM generate_series(1, n) i)
    FROM unnest(ARRAY['skip', 'leveldb', 'clickhouse', 'rocksdb', 'skip(seed=77)']) policy,
    unnest(ARRAY[1, 50, 30000]) n;
    INSERT INTO f VALUES ('text', (SELECT bloom_agg(i::text) FROM generate_series(1, 50) i)), ('nothing', NULL);
    SET work_mem = '64kB';
    CREATE FUNCTION few() RETURNS SETOF int ROWS 1 LANGUAGE sql AS 'SELECT generate_series(1, 200000)';
    INSERT INTO f SELECT 'series', bloom_agg(i) FROM few() i;
    RESET work_mem";

on_shared!(round_trips);
fn round_trips(database: &Database) {
    let mut session = database.session();
    session.run(FILTERS);
    assert_eq!(session.one("SELECT count(*) FROM f WHERE b::text::bloom = b AND b::bytea::bloom = b"), "17");
    let same = "bloom_send(b) = b::bytea AND '\\x' || encode(b::bytea, 'hex') = b::text";
    assert_eq!(session.one(&format!("SELECT count(*) FROM f WHERE {same}")), "17");
    assert_eq!(session.one("SELECT count(*) FROM f WHERE upper(b::text)::bloom = b"), "17");
    // Binary parameters and results.
    let client = &mut session.0;
    let bytes: Vec<u8> =
        client.query_one("SELECT b::bytea FROM f WHERE name = 'skip50'", &[]).expect("a row").get(0);
    let found: bool = client
        .query_one("SELECT $1::bytea::bloom = b FROM f WHERE name = 'skip50'", &[&bytes])
        .expect("a row")
        .get(0);
    assert!(found);
    // As keys of groups and joins.
    assert_eq!(session.one("SELECT count(*) FROM (SELECT b FROM f UNION ALL SELECT b FROM f) s"), "36");
    assert_eq!(session.one("SELECT count(DISTINCT b::text) FROM f"), "17");
    assert_eq!(session.one("SELECT count(*) FROM (SELECT b FROM f GROUP BY b) s"), "18");
    session.run("SET enable_mergejoin = off; SET enable_nestloop = off");
    assert_eq!(session.one("SELECT count(*) FROM f JOIN f g USING (b)"), "17");
    assert_eq!(session.one("SELECT count(*) FROM f JOIN f g ON f.b <> g.b"), "272");
}

on_shared!(too_little_memory);
/// A filter whose text does not fit in memory is an error of its session, not the end of the server.
fn too_little_memory(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE f AS SELECT bloom_empty('int', 50000000, 0.01) AS b");
    let pid = session.one("SELECT pg_backend_pid()");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    let kilobytes: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    // Enough for the value of 60 MB, not for its digits.
    let limit = (kilobytes << 10) + (110 << 20);
    let limited =
        install().command("/usr/bin/prlimit").args(["--pid", &pid, &format!("--as={limit}")]).status();
    assert!(limited.expect("prlimit").success());
    let error = session.error("SELECT length(b::text) FROM f");
    assert_eq!(error.code().code(), "53200", "{error:?}");
    assert!(error.detail().is_some_and(|detail| detail.contains("size 12")), "{error:?}");
    assert_eq!(session.one("SELECT count(*) FROM f"), "1");
}

on_shared!(invalid_policies_take_no_memory);
fn invalid_policies_take_no_memory(database: &Database) {
    let mut session = database.session();
    let resident = r"SELECT substring(pg_read_file('/proc/self/status') FROM 'VmRSS:\s*(\d+)')";
    let refuse = |call: &str| {
        format!(
            "DO $$ BEGIN FOR i IN 1..25 LOOP BEGIN
                PERFORM {call};
                RAISE 'not refused' USING ERRCODE = 'XX000';
             EXCEPTION WHEN invalid_parameter_value OR syntax_error THEN NULL; END; END LOOP; END $$"
        )
    };
    for call in [
        "bloom_empty('int', 1, NULL, repeat('x', 4000000) || i)",
        "bloom_import('', repeat('x', 4000000) || i, 'int')",
    ] {
        session.run(&refuse(call));
        let before = session.number(resident);
        session.run(&refuse(call));
        let more = session.number(resident) - before;
        assert!(more < 50_000.0, "{call}: {more} kB more");
    }
}

on_shared!(copies_and_dumps);
fn copies_and_dumps(database: &Database) {
    let mut session = database.session();
    session.run(FILTERS);
    let folder = server().data();
    for format in ["text", "csv", "binary"] {
        let file = folder.join(format!("{}_{format}", database.name));
        session.run(&format!(
            "COPY f TO '{0}' (FORMAT {format});
             CREATE TABLE {format}_copy (LIKE f);
             COPY {format}_copy FROM '{0}' (FORMAT {format})",
            file.display()
        ));
        assert_eq!(
            session.one(&format!("SELECT count(*) FROM f JOIN {format}_copy c USING (name) WHERE f.b = c.b")),
            "17"
        );
    }
    let dump = folder.join(format!("{}.dump", database.name));
    let mut command = server().client("pg_dump");
    let output = command.args(["-Fc", "-f"]).arg(&dump).arg(&database.name).output().expect("pg_dump");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let restored = format!("{}_restored", database.name);
    session.run(&format!("CREATE DATABASE {restored} TEMPLATE template0"));
    let mut command = server().client("pg_restore");
    let output = command.args(["-e", "-d", &restored]).arg(&dump).output().expect("pg_restore");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let texts = "SELECT name, b::text FROM f ORDER BY name";
    assert!(server().connect(&restored).rows(texts) == session.rows(texts));
}

alone!(replication);
/// Logical replication to another database.
fn replication() {
    let server = Server::start(&["wal_level=logical"]);
    let mut source = server.connect("postgres");
    source.run("CREATE DATABASE target");
    let mut target = server.connect("target");
    source.run("CREATE EXTENSION pg_skip");
    target.run("CREATE EXTENSION pg_skip; CREATE TABLE f (name text PRIMARY KEY, b bloom)");
    source.run("CREATE TABLE f (name text PRIMARY KEY, b bloom)");
    source.run("CREATE PUBLICATION p FOR TABLE f");
    source.run("SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
    let socket = source.one("SHOW unix_socket_directories");
    let port = source.one("SHOW port");
    let user = source.one("SELECT current_user");
    target.run(&format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={socket} port={port} user={user} dbname=postgres' PUBLICATION p
         WITH (create_slot = false, slot_name = s, binary = true)"
    ));
    source.run(
        "INSERT INTO f SELECT n::text, (SELECT bloom_agg(i) FROM generate_series(1, n) i)
         FROM unnest(ARRAY[1, 100, 90000]) n",
    );
    source.run("UPDATE f SET b = bloom_add(b, 1000000) WHERE name = '100'");
    let texts = "SELECT name, md5(b::text), b @> 1000000 FROM f ORDER BY name";
    let expected = source.rows(texts);
    let until = Instant::now() + Duration::from_secs(60);
    while target.rows(texts) != expected {
        assert!(Instant::now() < until, "{:?}\n{}", target.rows(texts), server.log_end());
        std::thread::sleep(Duration::from_millis(50));
    }
    target.run("ALTER SUBSCRIPTION s DISABLE");
    target.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)");
    target.run("DROP SUBSCRIPTION s");
    server.finish();
}

on_shared!(malformed);
/// Every kind of wrong bytes is an error with a reason.
fn malformed(database: &Database) {
    let mut session = database.session();
    let good = session.one("SELECT bloom_agg(i, 0.3) FROM generate_series(1, 4) i");
    assert!(good.len() < 64, "{good}");
    for text in ["", "x", "\\x", "\\x2", "\\x2g", "abc", "\\x21 05"] {
        let error = session.error(&format!("SELECT '{text}'::bloom"));
        assert_eq!(error.code().code(), "22P02", "{text}: {error}");
    }
    // Cut anywhere, longer by anything, and with any bit flipped.
    for length in (2..good.len()).step_by(2) {
        let code = session.error(&format!("SELECT '{}'::bloom", &good[..length])).code().clone();
        assert!(["22P02", "0A000"].contains(&code.code()), "{length}: {code:?}");
    }
    for tail in ["00", "ff", "0000000000000000"] {
        assert_eq!(session.error(&format!("SELECT '{good}{tail}'::bloom")).code().code(), "22P02");
    }
    let flipped = session.rows(&format!(
        "SELECT set_bit('{good}'::bloom::bytea, bit, 1 - get_bit('{good}'::bloom::bytea, bit))::text
         FROM generate_series(0, length('{good}'::bloom::bytea) * 8 - 1) bit"
    ));
    for row in flipped {
        let bytes = row[0].clone().expect("bytes");
        for cast in ["text", "bytea"] {
            let error = session.error(&format!("SELECT '{bytes}'::{cast}::bloom"));
            assert!(["22P02", "22P03", "0A000"].contains(&error.code().code()), "{bytes}: {error}");
            assert!(error.detail().is_some());
        }
    }
    // Well sealed, but of a version to come; the first byte tells.
    let error = session.error("SELECT '\\x4105145034485220d005822f2031448900a5812fb7f71c'::bloom");
    assert!(error.detail().is_some_and(|detail| detail.contains("version 2")), "{error:?}");
    // A header that claims much: no memory is taken for it.
    let error = session.error("SELECT '\\x2100001401050000000000000000ff01'::bloom");
    assert!(error.detail().is_some(), "{error:?}");
    // Binary input, by a COPY of one field.
    let mut copy = b"PGCOPY\n\xff\r\n\0".to_vec();
    copy.extend([0; 8]);
    copy.extend([0, 1, 0, 0, 0, 3, 0x21, 5, 20, 0xff, 0xff]);
    session.run("CREATE TABLE t (b bloom)");
    let result = (|| {
        let mut writer = session.0.copy_in("COPY t FROM STDIN (FORMAT binary)")?;
        std::io::Write::write_all(&mut writer, &copy).expect("copying");
        writer.finish()
    })();
    let error = result.expect_err("three bytes are no filter");
    assert_eq!(error.code().map(|code| code.code().to_owned()).as_deref(), Some("22P03"), "{error}");
}

on_shared!(types_of_keys);
/// Well sealed, but of keys that no filter has; and every type that filters can have comes back.
fn types_of_keys(database: &Database) {
    let mut session = database.session();
    for types in ["SELECT oid FROM pg_type", "SELECT 'information_schema._cardinal_number'::regtype"] {
        let round_trips = format!(
            "DO $$
             DECLARE t oid; b bloom; made int := 0;
             BEGIN
                 FOR t IN {types} LOOP
                     BEGIN
                         b := bloom_empty(t, 5);
                     EXCEPTION WHEN OTHERS THEN
                         CONTINUE;
                     END;
                     ASSERT b::text::bloom = b AND b::bytea::bloom = b, t::regtype::text;
                     made := made + 1;
                 END LOOP;
                 ASSERT made > 0;
             END $$"
        );
        session.run(&round_trips);
    }
    // A superuser's way to bytes that nobody would seal.
    session.run(
        "ALTER EXTENSION pg_skip DROP CAST (bytea AS bloom); DROP CAST (bytea AS bloom);
         CREATE CAST (bytea AS bloom) WITHOUT FUNCTION",
    );
    let short = |oid: &str| format!("'\\x2105{oid}0000000000000000'::bytea::bloom::text");
    // int4, int2, float4, varchar, cidr, regclass; any, record, cstring, unknown, anyarray, internal; json, point;
    // pg_class's rows.
    let oids = [
        "17", "15", "bc05", "9308", "8a05", "9d11", "e411", "c911", "e311", "c105", "e511", "e911", "72",
        "d804", "53",
    ];
    let mut wrong: Vec<String> = oids.iter().map(|oid| short(oid)).collect();
    // By name: pg_catalog.int8, and names with zero bytes.
    for name in ["0a70675f636174616c6f6704696e7438", "037000710174", "0170027400"] {
        wrong.push(format!("'\\x210004{name}010540{}'::bytea::bloom::text", "00".repeat(8)));
    }
    for text in wrong {
        let sealed = session.one(&format!("SELECT {text}"));
        for (read, code) in [("bloom_in", "22P02"), ("bloom_from_bytea", "22P03")] {
            let error = session.error(&format!("SELECT {read}('{sealed}')"));
            assert_eq!(error.code().code(), code, "{sealed}: {error}");
            assert!(error.detail().is_some(), "{sealed}: {error:?}");
        }
    }
    // numeric, text[], numrange, and a type that this server may not have.
    for oid in ["a40d", "f107", "c21e", "8f4e"] {
        let sealed = session.one(&format!("SELECT {}", short(oid)));
        assert_eq!(session.one(&format!("SELECT '{sealed}'::bloom::text")), sealed);
    }
}

on_shared!(soft_errors);
/// From 16 on, callers of input functions may want to go on after an error.
fn soft_errors(database: &Database) -> Completion {
    let version = install().version;
    if version < 16 {
        return Completion::ignored_with("this server raises all errors of input functions");
    }
    let mut session = database.session();
    let good = session.one("SELECT bloom_agg(i) FROM generate_series(1, 9) i");
    let flipped = good.replacen("00", "01", 1);
    for (text, is_valid, code) in [
        (good.as_str(), "t", ""),
        (&flipped, "f", "22P02"),
        ("\\x2", "f", "22P02"),
        ("", "f", "22P02"),
        ("\\x41", "f", "0A000"),
    ] {
        assert_eq!(session.one(&format!("SELECT pg_input_is_valid('{text}', 'bloom')")), is_valid, "{text}");
        let info = session.rows(&format!(
            "SELECT sql_error_code, message, detail, hint FROM pg_input_error_info('{text}', 'bloom')"
        ));
        let [own, message, detail, hint] = &info.concat()[..] else { panic!("{info:?}") };
        assert_eq!(own.as_deref().unwrap_or_default(), code, "{text}");
        let error = (!code.is_empty()).then(|| session.error(&format!("SELECT '{text}'::bloom")));
        let raised = error.as_ref();
        assert_eq!(message.as_deref(), raised.map(|raised| raised.message()), "{text}");
        assert_eq!(detail.as_deref(), raised.and_then(|raised| raised.detail()), "{text}");
        assert_eq!(hint.as_deref(), raised.and_then(|raised| raised.hint()), "{text}");
    }
    if version >= 17 {
        session.run("CREATE TABLE t (i int, b bloom)");
        let rows = format!("1\t{}\n2\t{}\n3\t{}\n", escape(&good), escape(&flipped), escape(&good));
        session.copy("COPY t FROM STDIN (ON_ERROR ignore)", &mut rows.as_bytes());
        assert_eq!(session.column("SELECT i FROM t WHERE b @> 9 ORDER BY i"), ["1", "3"]);
    }
    Completion::Completed
}

/// As COPY wants it.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
}

on_shared!(damaged_in_a_table);
/// A value that went bad in its table is an error when it is asked, never an answer; one of a later version may hold
/// all.
fn damaged_in_a_table(database: &Database) {
    let mut session = database.session();
    // The cast without a function is a superuser's way around all checks.
    session.run(
        "ALTER EXTENSION pg_skip DROP CAST (bytea AS bloom); DROP CAST (bytea AS bloom);
         CREATE CAST (bytea AS bloom) WITHOUT FUNCTION",
    );
    for (bytes, code) in
        [("\\x", "XX001"), ("\\x21", "XX001"), ("\\x210514ff", "XX001"), ("\\x21ff1400", "XX001")]
    {
        for question in ["@> 5", "| '{good}'", "= '{good}' OR bloom_cardinality('{bytes}'::bytea::bloom) > 0"]
        {
            let good = session.one("SELECT bloom_empty('int', 1)");
            let question = question.replace("{good}", &good).replace("{bytes}", bytes);
            let error = session.error(&format!("SELECT ('{bytes}'::bytea)::bloom {question}"));
            assert_eq!(error.code().code(), code, "{bytes} {question}: {error}");
        }
    }
    for later in ["\\x4105140000000000000000", "\\x3d05140000000000000000"] {
        assert_eq!(
            session.one(&format!("SELECT '{later}'::bytea::bloom @> 5")),
            "t",
            "what cannot be read may match"
        );
        assert_eq!(
            session.one(&format!("SELECT bloom_contains_any('{later}'::bytea::bloom, ARRAY[5])")),
            "t"
        );
        assert_eq!(
            session.error(&format!("SELECT bloom_info('{later}'::bytea::bloom)")).code().code(),
            "XX001"
        );
    }
}
