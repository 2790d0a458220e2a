//! What packages are made of: META.json, and the SQL objects of an older version with the library of today.
use crate::registry::{alone, on_shared};
use crate::shared::{Database, server};
use libtest_mimic::Completion;
use pg_skip_tests::server::install;
use pg_skip_tests::session::Session;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

on_shared!(metadata);
/// META.json has the version of Cargo.toml, and names files that are there.
fn metadata(database: &Database) {
    let mut session = database.session();
    let text = fs::read_to_string(root().join("META.json")).expect("META.json");
    let mut at = |path: &str| {
        session.column(&format!("SELECT jsonb_path_query($meta${text}$meta$, 'strict {path}') #>> '{{}}'"))
    };
    assert_eq!(at("$.version"), [VERSION]);
    assert_eq!(at("$.provides.*.version"), [VERSION]);
    assert_eq!(at("$.name"), ["pg_skip"]);
    for required in ["abstract", "maintainer", "license"] {
        assert_eq!(at(&format!("$.{required}")).len(), 1, "{required}");
    }
    assert_eq!(at("$.\"meta-spec\".version"), ["1.0.0"]);
    for file in at("$.provides.*.file").into_iter().chain(at("$.provides.*.docfile")) {
        assert!(root().join(&file).is_file(), "META.json names {file}");
    }
}

on_shared!(versions);
fn versions(database: &Database) {
    let mut session = database.session();
    let row = session.rows("SELECT library, extension FROM skip_version()");
    assert_eq!(row, [[VERSION; 2].map(|version| Some(version.to_owned()))]);
}

/// Scripts in the server's directory of extensions, for as long as this lives.
struct Scripts(Vec<PathBuf>);

impl Drop for Scripts {
    fn drop(&mut self) {
        for script in &self.0 {
            let _ = fs::remove_file(script);
        }
    }
}

on_shared!(sql_of_0_1_0);
/// The SQL objects of 0.1.0, with the library of today: all of them can be made, and work, before ALTER EXTENSION
/// UPDATE and after it. They are in tests/data as an installation of 0.1.0 had them.
fn sql_of_0_1_0(database: &Database) -> Completion {
    let output = install().command("pg_config").arg("--sharedir").output().expect("pg_config");
    let directory = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("extension");
    // Another version, beside which the one of today can be.
    let old = format!("{VERSION}.old");
    let scripts = Scripts(
        [&old, &format!("{old}--{VERSION}")].map(|end| directory.join(format!("pg_skip--{end}.sql"))).into(),
    );
    let golden = fs::read_to_string(root().join("tests/data/pg_skip--0.1.0.sql")).expect("the SQL of 0.1.0");
    for (script, text) in scripts.0.iter().zip([golden, upgrade()]) {
        if let Err(error) = fs::write(script, text) {
            return Completion::ignored_with(format!("cannot write to {}: {error}", directory.display()));
        }
    }
    let name = format!("{}_old", database.name);
    database.session().run(&format!("CREATE DATABASE {name} TEMPLATE template0"));
    let mut session = server().connect(&name);
    session.run(&format!("CREATE EXTENSION pg_skip VERSION '{old}'"));
    use_all(&mut session, "before");
    let before = objects(&mut session);
    session.run("ALTER EXTENSION pg_skip UPDATE");
    let row = session.rows("SELECT library, extension FROM skip_version()");
    assert_eq!(row, [[VERSION; 2].map(|version| Some(version.to_owned()))]);
    use_all(&mut session, "after");
    assert!(session.rows("SELECT * FROM skip_index_verify('before_skip')").is_empty());
    // An update has every object that a new installation has, and keeps those that users may refer to.
    let after = objects(&mut session);
    assert!(before.is_subset(&after), "gone: {:?}", before.difference(&after));
    if VERSION != "0.1.0" {
        assert_eq!(after, objects(&mut database.session()), "an update and a new installation");
    }
    Completion::Completed
}

/// What leads from the SQL of 0.1.0 to that of today: the upgrade scripts in sql/, in the order of their versions.
fn upgrade() -> String {
    let scripts = fs::read_dir(root().join("sql")).expect("sql").flatten().map(|entry| entry.path());
    let is_upgrade = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().matches("--").count() == 2)
    };
    let mut scripts: Vec<PathBuf> = scripts.filter(is_upgrade).collect();
    scripts.sort();
    scripts.into_iter().map(|script| fs::read_to_string(script).expect("an upgrade script")).collect()
}

/// The extension's objects, as the server describes them.
fn objects(session: &mut Session) -> BTreeSet<String> {
    let objects = session.column(
        "SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
         WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_skip')
         AND refclassid = 'pg_extension'::regclass AND deptype = 'e'",
    );
    objects.into_iter().collect()
}

/// Makes tables of this name, an index of every kind, values of the type bloom, and calls the functions.
fn use_all(session: &mut Session, name: &str) {
    session.run(&format!(
        "CREATE TABLE {name} AS SELECT md5(i::text)::uuid AS k, i / 10 AS n, 'w' || i || ' some words' AS line,
             ARRAY[i] AS tags, jsonb_build_object('a', i) AS data, repeat('x', 200) AS pad
             FROM generate_series(1, 5000) AS i;
         CREATE INDEX {name}_skip ON {name} USING skip (k, n, tags array_element_skip_ops, data jsonb_path_skip_ops,
             line text_ngram_skip_ops) WITH (pages_per_range = 1);
         CREATE INDEX {name}_filters ON {name} USING skip (n, line text_token_skip_ops, pad text_prefix_skip_ops)
             WITH (layout = filters);
         INSERT INTO {name} SELECT * FROM {name} WHERE n = 7;
         ANALYZE {name}"
    ));
    let conditions =
        ["k = md5('77')::uuid", "n = 7", "tags @> '{77}'", "data ->> 'a' = '77'", "line LIKE '%w77 %'"];
    for (condition, rows) in conditions.into_iter().zip(["2", "20", "2", "2", "2"]) {
        session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
        let query = format!("SELECT count(*) FROM {name} WHERE {condition}");
        let plan = session.plan(&query);
        assert!(plan.contains("Skip Index Scan"), "{condition}:\n{plan}");
        assert_eq!(session.one(&query), rows, "{condition}");
    }
    for call in [
        "skip_summarize('T_skip')",
        "skip_index_info('T_skip')",
        "skip_index_segments('T_skip')",
        "skip_matching_ranges('T_skip', 'n', 7)",
        "skip_matching_ranges('T_skip', 'n', '7')",
        "skip_range_map('T_skip', 'n', 7)",
        "skip_range_map('T_skip', 'n', '7')",
        "skip_index_verify('T_skip')",
        "skip_index_verify('T_filters')",
        "skip_advise('T')",
        "pg_skip_stats",
    ] {
        let from = call.replace('T', name);
        // NULL is as good a result as another; that the columns fit is what is looked at.
        session.rows(&format!("SELECT * FROM {from}"));
    }
    session.run("SELECT pg_skip_stats_reset()");
    let bloom = format!("SELECT bloom_agg(k) @> md5('77')::uuid FROM {name}");
    assert_eq!(session.one(&bloom), "t");
    assert_eq!(
        session.one(&format!("SELECT line @@@ 'w77' FROM {name} WHERE k = md5('77')::uuid LIMIT 1")),
        "t"
    );
}

alone!(released_scripts_never_change);
/// The script that checks the rule accepts the tree, and refuses one in which a released script has changed.
fn released_scripts_never_change() {
    let check = |tree: &Path| {
        let mut command = std::process::Command::new("bash");
        command.arg(root().join("pgrx-config/released.sh")).arg(tree).output().expect("bash")
    };
    assert!(check(&root()).status.success(), "{:?}", check(&root()));
    let tree = std::env::temp_dir().join(format!("pg_skip-{}-released", std::process::id()));
    let sql = tree.join("sql");
    fs::create_dir_all(&sql).expect("a directory");
    let put = |path: PathBuf, text: &str| fs::write(path, text).expect("a file");
    put(tree.join("Cargo.toml"), "version = \"0.2.0\"\n");
    // The sum of "one\n".
    let listed = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806  pg_skip--0.1.0.sql\n";
    put(sql.join("released.sha256"), listed);
    put(sql.join("pg_skip--0.1.0.sql"), "one\n");
    let mut seen = vec![check(&tree).status.success()];
    put(sql.join("pg_skip--0.1.0--0.2.0.sql"), "two\n");
    seen.push(check(&tree).status.success());
    put(sql.join("pg_skip--0.1.0.sql"), "changed\n");
    seen.push(check(&tree).status.success());
    put(sql.join("pg_skip--0.1.0.sql"), "one\n");
    put(sql.join("pg_skip--0.1.1.sql"), "not listed\n");
    seen.push(check(&tree).status.success());
    let _ = fs::remove_dir_all(&tree);
    // Without a way to 0.2.0, with one, with a change, with a script that is not listed.
    assert_eq!(seen, [false, true, false, false]);
}
