//! Row level security and security barriers: a function that tells what it is given is given no row that the plan
//! without Skip Index Scan would keep from it, and the rows are the same.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::explain::skip_scans;
use pg_skip_tests::session::{Row, Session};

/// A third of the rows belongs to the role; `spy` notes what it sees and finds it cheap to be asked first.
fn table(session: &mut Session, role: &str) {
    session.run(&format!(
        "CREATE ROLE {role};
         CREATE TABLE t (id int, owner text, k int, amount numeric, secret text, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, CASE i % 3 WHEN 0 THEN '{role}' ELSE 'other' END, i / 4 % 150, i / 4 % 150,
            CASE i % 3 WHEN 0 THEN 'own ' ELSE 'foreign ' END || i FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (k, owner, amount, secret) WITH (pages_per_range = 1);
         CREATE TABLE seen (secret text);
         CREATE FUNCTION spy(secret text) RETURNS boolean LANGUAGE plpgsql COST 0.000001 AS
            'BEGIN INSERT INTO seen VALUES (secret); RETURN true; END';
         GRANT SELECT, UPDATE, DELETE ON t TO {role}; GRANT INSERT ON seen TO {role}"
    ));
}

fn drop_role(session: &mut Session, role: &str) {
    session.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// Conditions, and whether a Skip Index Scan may serve them before the barrier has been passed.
const CONDITIONS: [(&str, bool); 9] = [
    ("k = 77 AND spy(secret)", true),
    ("spy(secret) AND k IN (5, 77, 149)", true),
    ("k = (SELECT 77) AND spy(secret)", true),
    ("spy(secret)", false),
    ("k = 77 OR spy(secret)", false),
    // Numbers of any length are not compared by a leakproof function.
    ("amount = 77 AND spy(secret)", false),
    ("amount = 77", false),
    ("secret = 'foreign 308'", true),
    ("secret = 'own 309' AND spy(secret)", true),
];

/// Asks as the role, both ways, for rows and for changes, and looks at what has been seen.
fn guarded(session: &mut Session, role: &str, from: &str) {
    let mut used = 0;
    for (condition, leakproof) in CONDITIONS {
        for statement in [
            format!("SELECT id, secret FROM {from} WHERE {condition}"),
            format!("UPDATE {from} SET k = k + 1 WHERE {condition} RETURNING id, secret"),
            format!("DELETE FROM {from} WHERE {condition} RETURNING id, secret"),
        ] {
            let (rows, plan) = as_role(session, role, &Way::skip_scan(), &statement);
            let (expected, _) = as_role(session, role, &Way::plain(), &statement);
            assert_eq!(rows, expected, "{statement}\n{plan}");
            assert!(!condition.starts_with("k = 77 AND") || !rows.is_empty(), "{statement} finds nothing");
            assert!(!leakproof || skips(&plan), "a Skip Index Scan is possible for {statement}:\n{plan}");
            used += usize::from(skips(&plan));
        }
        // The barrier's own condition may be served, this one not.
        session.run(&format!("BEGIN; SET LOCAL ROLE {role}; {}", Way::skip_scan().local()));
        let sql = format!("SELECT id FROM {from} WHERE {condition}");
        for node in skip_scans(session, "", &sql) {
            let served = node.text("Index Cond");
            assert!(!served.contains("amount"), "{served} is served before the barrier for {condition}");
            assert!(!served.contains("spy"), "{served} is no index condition");
        }
        session.run("ROLLBACK");
    }
    assert!(used >= 12, "only {used} statements used a Skip Index Scan");
}

/// The rows and the plan; fails if a row of another owner has been seen.
#[track_caller]
fn as_role(session: &mut Session, role: &str, way: &Way, statement: &str) -> (Vec<Row>, String) {
    session.run(&format!("BEGIN; SET LOCAL ROLE {role}; {}", way.local()));
    let plan = session.plan(statement);
    let mut rows = session.rows(statement);
    rows.sort();
    session.run("RESET ROLE");
    let seen = session.column("SELECT secret FROM seen WHERE secret LIKE 'foreign%' LIMIT 5");
    assert!(seen.is_empty(), "{statement} shows {seen:?} to a function of the user's\n{plan}");
    session.run("ROLLBACK");
    (rows, plan)
}

on_shared!(row_level_security);
fn row_level_security(database: &Database) {
    let (mut session, role) = (database.session(), &database.name);
    table(&mut session, role);
    session.run(
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON t USING (owner = current_user);
         CREATE TABLE watched (id int);
         CREATE FUNCTION watch(id int) RETURNS boolean LANGUAGE plpgsql COST 0.000001 SECURITY DEFINER AS
            'BEGIN INSERT INTO watched VALUES (id); RETURN id % 2 = 1; END'",
    );
    guarded(&mut session, role, "t");
    // A policy that is a function of unknown habits lets nothing of the query's own be asked before it.
    session.run("DROP POLICY own ON t; CREATE POLICY own ON t USING (watch(id) AND owner = current_user)");
    guarded(&mut session, role, "t");
    // The owner of the table is free of it, and of the barrier.
    let (rows, plan) =
        as_role(&mut session, "postgres", &Way::skip_scan(), "SELECT id FROM t WHERE amount = 77");
    assert!(skips(&plan) && rows.len() > 10, "{} rows by {plan}", rows.len());
    drop_role(&mut session, role);
}

on_shared!(security_barriers);
fn security_barriers(database: &Database) {
    let (mut session, role) = (database.session(), &database.name);
    table(&mut session, role);
    session.run(&format!(
        "REVOKE ALL ON t FROM {role};
         CREATE VIEW mine WITH (security_barrier) AS SELECT id, k, amount, secret FROM t WHERE owner = '{role}';
         CREATE VIEW mine_too WITH (security_barrier) AS SELECT * FROM mine WHERE id % 2 = 1;
         GRANT SELECT, UPDATE, DELETE ON mine, mine_too TO {role}"
    ));
    guarded(&mut session, role, "mine");
    guarded(&mut session, role, "mine_too");
    drop_role(&mut session, role);
}
