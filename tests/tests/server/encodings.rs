//! Databases whose encoding is not UTF-8: names and texts come out as they went in, and errors say what they mean.
use crate::registry::on_shared;
use crate::shared::{Database, server};
use pg_skip_tests::both_ways::Way;
use pg_skip_tests::session::Session;

/// A database of another encoding beside a test's own.
pub fn other(database: &Database, encoding: &str) -> Session {
    let name = format!("{}_other", database.name);
    let mut session = database.session();
    session.run(&format!("CREATE DATABASE {name} ENCODING {encoding} LOCALE 'C' TEMPLATE template0"));
    let mut session = server().connect(&name);
    session.run("CREATE EXTENSION pg_skip");
    session
}

on_shared!(latin1 = everything("LATIN1", "größe", "42.é"));
on_shared!(euc_jp = everything("EUC_JP", "大きさ", "値"));
on_shared!(sql_ascii = everything("SQL_ASCII", "größe", "42.é"));
fn everything(database: &Database, encoding: &str, name: &str, value: &str) {
    let mut session = other(database, encoding);
    session.run(&format!(
        r#"CREATE TYPE "art {name}" AS ENUM ('{value}', 'other');
           CREATE TABLE "tab {name}" ("spalte {name}" text, art "art {name}");
           INSERT INTO "tab {name}" SELECT '{value}' || i, '{value}' FROM generate_series(1, 3000) i;
           CREATE INDEX "index {name}" ON "tab {name}" USING skip ("spalte {name}", art) WITH (pages_per_range = 1)"#
    ));
    Way::skip_scan().set(&mut session);
    let sql = format!(r#"SELECT count(*) FROM "tab {name}" WHERE "spalte {name}" = '{value}77'"#);
    assert_eq!(session.one(&sql), "1");
    let plan = session.plan(&sql);
    assert!(plan.contains(&format!("index {name}")), "the index's name in EXPLAIN:\n{plan}");
    assert!(plan.contains(&format!("'{value}77'::text")), "the key in EXPLAIN:\n{plan}");
    let columns = session.column(&format!(r#"SELECT column_name FROM skip_index_info('"index {name}"')"#));
    assert_eq!(columns, [format!("spalte {name}"), "art".into()]);
    let ranges = format!(
        r#"SELECT count(*) FROM skip_matching_ranges('"index {name}"', 'spalte {name}', '{value}77'::text)"#
    );
    assert!(session.number(&ranges) >= 1.0);
    // Our own errors, with names in them, and a character that LATIN1 and EUC_JP do not have.
    let error = session
        .error(&format!(r#"SELECT skip_matching_ranges('"index {name}"', 'keine {name}', 'x'::text)"#));
    assert!(error.message().contains(&format!("keine {name}")), "{}", error.message());
    let error = session.error(&format!(r#"SELECT skip_summarize('"tab {name}"')"#));
    assert!(error.message().contains(&format!("tab {name}")), "{}", error.message());
    // Settings name indexes.
    session.run(&format!(r#"SET pg_skip.ignore_indexes = '"index {name}"'"#));
    let plan = session.plan(&sql);
    assert!(!plan.contains("Skip Index"), "an ignored index:\n{plan}");
    session.run(&format!(r#"RESET pg_skip.ignore_indexes; SET pg_skip.force_indexes = '"index {name}"'"#));
    let error = session.error(&format!(r#"SELECT * FROM "tab {name}""#));
    assert!(error.message().contains(&format!("index {name}")), "{}", error.message());
    session.run("RESET pg_skip.force_indexes");
    filters(&mut session, name, value);
}

fn filters(session: &mut Session, name: &str, value: &str) {
    let of_enum = format!(r#"(SELECT bloom_agg(art) FROM "tab {name}")"#);
    let key_type = session.one(&format!("SELECT key_type FROM bloom_info({of_enum})"));
    assert!(key_type.contains(&format!("art {name}")), "{key_type}");
    assert_eq!(session.one(&format!(r#"SELECT {of_enum} @> '{value}'::"art {name}""#)), "t");
    assert_eq!(session.one(&format!(r#"SELECT {of_enum} @> 'other'::"art {name}""#)), "f");
    let error = session.error(&format!("SELECT {of_enum} @> 1"));
    assert!(error.message().contains(&format!("art {name}")), "{}", error.message());
    for sql in [
        format!("SELECT bloom_agg(1, 0.01, 100, '{value}')"),
        format!("SELECT bloom_empty('int', 10, NULL, '{value}')"),
        format!("SELECT bloom_import('\\x00', '{value}', 'int'::regtype)"),
    ] {
        let error = session.error(&sql);
        assert_eq!(error.code().code(), "22023", "{sql}: {}", error.message());
        let said = format!("{} {}", error.message(), error.detail().unwrap_or_default());
        assert!(said.contains(value), "{sql}: {said}");
    }
}

on_shared!(bytes_without_meaning);
/// In SQL_ASCII a name is bytes: what is not UTF-8 goes through as well.
fn bytes_without_meaning(database: &Database) {
    let mut session = other(database, "SQL_ASCII");
    session.run(
        r"DO $$ BEGIN
            EXECUTE format('CREATE TABLE %I (a int)', 't' || convert_from('\xe9ff'::bytea, 'SQL_ASCII'));
            EXECUTE format('INSERT INTO %I SELECT generate_series(1, 3000)', 't' || convert_from('\xe9ff'::bytea,
            'SQL_ASCII'));
            EXECUTE format('CREATE INDEX %I ON %I USING skip (a)', 'i' || convert_from('\xe9ff'::bytea, 'SQL_ASCII'),
                           't' || convert_from('\xe9ff'::bytea, 'SQL_ASCII'));
            EXECUTE format('ALTER TABLE %I RENAME a TO %I', 't' || convert_from('\xe9ff'::bytea, 'SQL_ASCII'),
                           'a' || convert_from('\xe9ff'::bytea, 'SQL_ASCII'));
        END $$",
    );
    let index = "(SELECT oid::regclass FROM pg_class WHERE relkind = 'i' AND relname LIKE 'i%' AND relam =
                  (SELECT oid FROM pg_am WHERE amname = 'skip'))";
    let name =
        session.one(&format!("SELECT encode(column_name::bytea, 'hex') FROM skip_index_info({index})"));
    // The index keeps the column's name of when it was made.
    assert_eq!(name, "61");
    session.run(
        "DO $$ DECLARE message text; BEGIN
             PERFORM skip_summarize((SELECT oid::regclass FROM pg_class WHERE relname LIKE 't%' AND relkind = 'r'
                 AND relnamespace = 'public'::regnamespace));
         EXCEPTION WHEN OTHERS THEN
             GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
             PERFORM set_config('x.message', encode(message::bytea, 'hex'), false);
         END $$",
    );
    let said = session.one("SELECT current_setting('x.message')");
    assert!(said.contains("74e9ff"), "the table's name in the message: {said}");
}

on_shared!(errors_of_others);
/// An error that somebody else raises, with bytes of the database's encoding.
fn errors_of_others(database: &Database) {
    let mut session = other(database, "LATIN1");
    session.run("LOAD 'pg_skip'");
    let error = session.error("SELECT ('x' || chr(233))::int");
    assert_eq!(error.message(), "invalid input syntax for type integer: \"xé\"");
}
