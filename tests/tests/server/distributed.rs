//! docs/distributed.md, as far as its SQL needs more than one database: postgres_fdw, and the replica identity.
use crate::registry::on_shared;
use crate::shared::Database;
use libtest_mimic::Completion;
use pg_skip_tests::session::Session;
use std::fs;
use std::path::Path;

/// The SQL of a section of the page that is not run with the others.
fn section(heading: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/distributed.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).expect("the section");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let blocks = section.split("```sql ignore\n").skip(1);
    blocks.filter_map(|block| block.split_once("```")).map(|(sql, _)| sql).collect()
}

on_shared!(postgres_fdw);
/// The page's statements, with this server as the other one: the conditions are sent, and the plans there are scans of
/// skip indexes.
fn postgres_fdw(database: &Database) -> Completion {
    let mut session = database.session();
    if session.rows("SELECT FROM pg_available_extensions WHERE name = 'postgres_fdw'").is_empty() {
        return Completion::ignored_with("this server has no postgres_fdw");
    }
    session.run(
        "CREATE TABLE messages AS SELECT i::bigint AS id, i / 10 AS user_id, 'user ' || i / 10 || ' said ' || i AS line
             FROM generate_series(1, 20000) AS i;
         CREATE INDEX messages_skip ON messages USING skip (user_id, line text_token_skip_ops);
         ANALYZE messages",
    );
    let place = session.one("SHOW unix_socket_directories");
    let port = session.one("SHOW port");
    let sql = section("postgres_fdw")
        .replace("archive.example.com", &place)
        .replace("port '5432'", &format!("port '{port}'"))
        .replace("dbname 'app'", &format!("dbname '{}'", database.name))
        .replace("user 'reader'", "user 'postgres'");
    let (made, queries) = sql.split_once("EXPLAIN").expect("queries after the statements");
    session.run(made);
    let queries: Vec<&str> =
        queries.split("EXPLAIN").map(|query| query.trim_start_matches(" (VERBOSE) ").trim()).collect();
    let sent = ["user_id = 42", "line OPERATOR(public.@@@)", "user_id OPERATOR(public.<@)"];
    assert_eq!(queries.len(), sent.len());
    for (query, condition) in queries.iter().zip(sent) {
        let plan = verbose(&mut session, query);
        assert!(plan.contains("Remote SQL: ") && plan.contains(condition), "{query}\n{plan}");
        let near = query.replace("archived_messages", "messages");
        let sorted = |session: &mut Session, query: &str| {
            let mut ids = session.column(query.trim_end_matches(';'));
            ids.sort();
            ids
        };
        assert_eq!(sorted(&mut session, query), sorted(&mut session, &near), "{query}");
    }
    // What the remote server makes of the first two.
    for condition in ["user_id = 42", "line @@@ 'user 42'"] {
        let plan = session.plan(&format!("SELECT id FROM messages WHERE {condition}"));
        assert!(plan.contains("Skip Index Scan"), "{plan}");
    }
    // Without the option, the operator stays here.
    session.run("ALTER SERVER archive OPTIONS (DROP extensions)");
    let plan = verbose(&mut session, queries[1]);
    assert!(!plan.contains("@@@) "), "{plan}");
    Completion::Completed
}

fn verbose(session: &mut Session, query: &str) -> String {
    let plan = session.column(&format!("EXPLAIN (VERBOSE, COSTS off) {}", query.trim_end_matches(';')));
    plan.join("\n")
}

on_shared!(replica_identity);
fn replica_identity(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE logs_january (trace_id uuid NOT NULL);
         CREATE INDEX logs_january_trace_id_idx ON logs_january USING skip (trace_id)",
    );
    let sql = section("Replicas");
    let (statement, message) = sql.split_once("-- ERROR:  ").expect("an error");
    assert_eq!(session.error(statement.trim().trim_end_matches(';')).message(), message.trim());
}
