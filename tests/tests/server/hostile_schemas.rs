//! A schema of a user who wants the rights of a superuser: whoever may create objects in a database may also install
//! pg_skip in it, and the server then runs the extension's script as a superuser. No function or operator of the user
//! may be called by it, or become a part of an object of the extension.
use crate::registry::on_shared;
use crate::shared::{Database, server};
use pg_skip_tests::session::Session;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Types that the extension's scripts have operators for. A call with two different ones has often no operator of the
/// server for exactly these, so that one of the user is nearer.
const TYPES: [&str; 10] = [
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "numeric",
    "text",
    "name",
    "\"char\"",
    "oid",
];
const OPERATORS: [&str; 9] = ["+", "-", "*", "/", "=", "<>", "<", ">", "||"];
/// The most arguments of a call in the scripts.
const MOST_ARGUMENTS: usize = 6;

/// What stands before a parenthesis in the extension's scripts.
fn called() -> BTreeSet<String> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql");
    let mut names = BTreeSet::new();
    for script in fs::read_dir(scripts).expect("sql").flatten() {
        let text = fs::read_to_string(script.path()).expect("a script");
        for (at, _) in text.match_indices('(') {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let before = text[..at].trim_end();
            let name = &before[before.rfind(|c| !is_part(c)).map_or(0, |end| end + 1)..];
            names.insert(name.to_ascii_lowercase());
        }
    }
    names
}

/// Functions and operators that fail, in the schema `hostile`, beside all of the server's that the scripts call.
/// Returns their number.
fn lay_traps(session: &mut Session) -> usize {
    session.run(
        "CREATE FUNCTION hostile.trap() RETURNS text LANGUAGE plpgsql AS
            $$BEGIN RAISE EXCEPTION 'a function of a user was called by %', current_user; END$$",
    );
    let body = "LANGUAGE sql VOLATILE AS $$SELECT hostile.trap()";
    let there: BTreeSet<String> = session
        .column("SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace")
        .into_iter()
        .collect();
    let mut traps = 0;
    for name in called().intersection(&there) {
        for count in 1..=MOST_ARGUMENTS {
            let types = vec!["text"; count].join(", ");
            session.run(&format!("CREATE FUNCTION hostile.\"{name}\"({types}) RETURNS text {body}$$"));
            traps += 1;
        }
    }
    for (left, right) in TYPES.iter().flat_map(|left| TYPES.iter().map(move |right| (left, right))) {
        session.run(&format!(
            "CREATE FUNCTION hostile.trap({left}, {right}) RETURNS {left} {body}::{left}$$;
             CREATE FUNCTION hostile.is_trap({left}, {right}) RETURNS boolean {body}::boolean$$"
        ));
        for operator in OPERATORS {
            let function = if "=<>".contains(operator) { "is_trap" } else { "trap" };
            session.run(&format!(
                "CREATE OPERATOR hostile.{operator} (LEFTARG = {left}, RIGHTARG = {right},
                    FUNCTION = hostile.{function})"
            ));
            traps += 1;
        }
    }
    traps
}

on_shared!(an_installation_calls_nothing_of_users);
/// The extension is made by a user, in a schema of that user.
fn an_installation_calls_nothing_of_users(database: &Database) {
    let (name, user) = (format!("{}_hostile", database.name), format!("{}_mallory", database.name));
    database.session().run(&format!("CREATE DATABASE {name} TEMPLATE template0"));
    let mut session = server().connect(&name);
    session.run(&format!(
        "CREATE ROLE {user}; GRANT CREATE ON DATABASE {name} TO {user}; SET ROLE {user}; CREATE SCHEMA hostile"
    ));
    let traps = lay_traps(&mut session);
    assert!(traps > 900, "{traps} traps");
    session.run("CREATE EXTENSION pg_skip SCHEMA hostile");
    session.run("RESET ROLE");
    session.run("CREATE TABLE t (k int); CREATE INDEX t_skip ON t USING skip (k)");
    for view in session.column(
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e'
         WHERE c.relkind = 'v'",
    ) {
        assert_eq!(session.rows(&format!("SELECT * FROM {view}")).len(), 1, "{view}");
    }
    // Whatever is not executed here.
    let used = session.column(
        "WITH extension AS (SELECT oid FROM pg_extension WHERE extname = 'pg_skip'),
             its AS (SELECT classid, objid FROM pg_depend d, extension e
                     WHERE d.refobjid = e.oid AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e')
         SELECT pg_describe_object(d.classid, d.objid, 0) || ' uses ' || p.oid::regprocedure
         FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid AND d.refclassid = 'pg_proc'::regclass
         WHERE p.pronamespace = 'hostile'::regnamespace AND (d.refclassid, p.oid) NOT IN (TABLE its)
            AND p.oid <> 'hostile.trap()'::regprocedure AND d.classid <> 'pg_operator'::regclass
         UNION ALL
         SELECT pg_describe_object(d.classid, d.objid, 0) || ' uses ' || o.oid::regoperator
         FROM pg_depend d JOIN pg_operator o ON o.oid = d.refobjid AND d.refclassid = 'pg_operator'::regclass
         WHERE o.oprnamespace = 'hostile'::regnamespace AND (d.refclassid, o.oid) NOT IN (TABLE its)",
    );
    assert!(used.is_empty(), "{used:?}");
    drop(session);
    let mut session = database.session();
    session.run(&format!("DROP DATABASE {name}"));
    session.run(&format!("DROP ROLE {user}"));
}
