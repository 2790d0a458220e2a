//! Who may call what: every function and view of the extension that tells of a table, or changes something, against
//! every kind of role.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::server::install;
use pg_skip_tests::session::Session;
use std::collections::BTreeSet;

/// Makes the roles of one list: what each is to the table and to the server, and what its name ends with. The superuser
/// is the server's own.
macro_rules! roles {
    ($($(#[$what:meta])* $role:ident = $end:expr,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Role {
            $($(#[$what])* $role,)*
        }
        use Role::*;

        const ROLES: &[Role] = &[$($role),*];

        /// What the role's name ends with; two may be one role, before and after row security.
        fn end(role: Role) -> Option<&'static str> {
            match role {
                $($role => $end,)*
            }
        }
    };
}

roles! {
    Superuser = None,
    /// Of the table, not restrained by row security.
    Owner = Some("owner"),
    /// With SELECT on the table.
    Reader = Some("reader"),
    /// With SELECT on the indexed column only.
    ColumnReader = Some("column_reader"),
    /// A member of pg_monitor, without any right to the table.
    Monitor = Some("monitor"),
    /// With MAINTAIN on the table, and nothing else.
    Maintainer = Some("maintainer"),
    Nobody = Some("nobody"),
    /// The owner, with FORCE ROW LEVEL SECURITY.
    ForcedOwner = Some("owner"),
    /// With SELECT, where row security hides rows.
    HiddenReader = Some("reader"),
    /// With SELECT and BYPASSRLS, where row security hides rows from others.
    BypassReader = Some("bypass"),
    /// A monitor, with SELECT, where row security hides rows.
    HiddenMonitor = Some("monitor_reader"),
    /// The superuser, with FORCE ROW LEVEL SECURITY.
    ForcedSuperuser = None,
}

/// Those who may read all rows of the table.
const READERS: &[Role] = &[Superuser, Owner, Reader, BypassReader, ForcedSuperuser];
/// Those who may see how an index is, too.
const LOOKERS: &[Role] = &[Superuser, Owner, Reader, BypassReader, ForcedSuperuser, Monitor, HiddenMonitor];
/// Those with SELECT: row security hides rows from some of them.
const SELECTERS: &[Role] =
    &[Superuser, Owner, Reader, ForcedOwner, HiddenReader, BypassReader, HiddenMonitor, ForcedSuperuser];
const KEEPERS: &[Role] = &[Superuser, Owner, Maintainer, ForcedOwner, ForcedSuperuser];
const SUPERUSERS: &[Role] = &[Superuser, ForcedSuperuser];

/// The function, a query that calls it, who may.
const CALLS: [(&str, &str, &[Role]); 16] = [
    ("skip_version()", "SELECT * FROM skip_version()", ROLES),
    ("skip_library_version()", "SELECT skip_library_version()", ROLES),
    ("skip_advise(regclass,name)", "SELECT skip_advise('t', 'k')", SELECTERS),
    ("skip_summarize(regclass)", "SELECT skip_summarize('t_skip')", KEEPERS),
    ("skip_index_verify(regclass)", "SELECT * FROM skip_index_verify('t_skip')", KEEPERS),
    ("skip_index_info(regclass)", "SELECT * FROM skip_index_info('t_skip')", LOOKERS),
    ("skip_index_segments(regclass)", "SELECT * FROM skip_index_segments('t_skip')", LOOKERS),
    (
        "skip_matching_ranges(regclass,name,anyelement)",
        "SELECT skip_matching_ranges('t_skip', 'k', 7::int)",
        READERS,
    ),
    ("skip_matching_ranges(regclass,name,text)", "SELECT skip_matching_ranges('t_skip', 'k', '7')", READERS),
    (
        "skip_range_map(regclass,name,anyelement,integer)",
        "SELECT skip_range_map('t_skip', 'k', 7::int)",
        READERS,
    ),
    ("skip_range_map(regclass,name,text,integer)", "SELECT skip_range_map('t_skip', 'k', '7')", READERS),
    (
        "skip_matching_ranges(regclass,name,\"char\")",
        "SELECT skip_matching_ranges('t_skip', 'c', 'x'::\"char\")",
        READERS,
    ),
    (
        "skip_range_map(regclass,name,\"char\",integer)",
        "SELECT skip_range_map('t_skip', 'c', 'x'::\"char\")",
        READERS,
    ),
    ("skip_explain(text)", "SELECT * FROM skip_explain('SELECT ctid FROM t WHERE k = 7')", SELECTERS),
    ("pg_skip_stats_reset()", "SELECT pg_skip_stats_reset()", SUPERUSERS),
    ("skip_create_operator_classes()", "SELECT skip_create_operator_classes()", SUPERUSERS),
];

/// Queries that nobody is refused, and who sees a row of the index in them.
const VIEWS: [(&str, &str, &[Role]); 3] = [
    ("pg_skip_stats", "SELECT 1 FROM pg_skip_stats WHERE indexname = 't_skip'", LOOKERS),
    (
        "pg_skip_stats_counters()",
        "SELECT 1 FROM pg_skip_stats_counters() WHERE indexrelid = 't_skip'::regclass",
        LOOKERS,
    ),
    ("pg_skip_stats_state()", "SELECT 1 FROM pg_skip_stats_state()", ROLES),
];

struct Roles {
    /// The test's database, which its roles are named after.
    name: String,
}

impl Roles {
    fn of(&self, role: Role) -> String {
        end(role).map_or("postgres".into(), |end| format!("{}_{end}", self.name))
    }

    fn all(&self) -> Vec<String> {
        let all: BTreeSet<String> = ROLES.iter().map(|&role| self.of(role)).collect();
        all.into_iter().filter(|role| role != "postgres").collect()
    }

    fn make(&self, session: &mut Session) {
        for role in self.all() {
            session.run(&format!("CREATE ROLE {role}"));
        }
        session.run(&format!(
            "ALTER ROLE {} BYPASSRLS; GRANT pg_monitor TO {}, {}",
            self.of(BypassReader),
            self.of(Monitor),
            self.of(HiddenMonitor)
        ));
    }

    /// The rights of each to the table `t`, and its row security as the role sees it.
    fn grant(&self, session: &mut Session) {
        let [owner, reader, bypass, both] =
            [Owner, Reader, BypassReader, HiddenMonitor].map(|role| self.of(role));
        session.run(&format!(
            "ALTER TABLE t OWNER TO {owner}; CREATE POLICY p ON t USING (k <> 7);
             GRANT SELECT ON t TO {reader}, {bypass}, {both};
             GRANT SELECT (k) ON t TO {}",
            self.of(ColumnReader)
        ));
        if install().version >= 17 {
            session.run(&format!("GRANT MAINTAIN ON t TO {}", self.of(Maintainer)));
        }
    }

    /// Becomes the role, with row security as it is there.
    fn enter(&self, session: &mut Session, role: Role) {
        let security = match role {
            HiddenReader | BypassReader | HiddenMonitor => "ENABLE ROW LEVEL SECURITY, NO FORCE",
            ForcedOwner | ForcedSuperuser => "ENABLE ROW LEVEL SECURITY, FORCE",
            _ => "DISABLE ROW LEVEL SECURITY, NO FORCE",
        };
        session.run(&format!(
            "RESET ROLE; ALTER TABLE t {security} ROW LEVEL SECURITY; SET ROLE {}",
            self.of(role)
        ));
    }

    fn drop(&self, session: &mut Session) {
        session.run("RESET ROLE");
        let all = self.all().join(", ");
        session.run(&format!("REASSIGN OWNED BY {all} TO postgres; DROP OWNED BY {all}; DROP ROLE {all}"));
    }
}

/// Whether the role may; MAINTAIN is there from 17 on, and is not needed for what everybody may.
fn may(role: Role, allowed: &[Role]) -> bool {
    let is_there = role != Maintainer || install().version >= 17 || allowed.len() == ROLES.len();
    allowed.contains(&role) && is_there
}

on_shared!(every_function_against_every_role);
fn every_function_against_every_role(database: &Database) {
    let mut session = database.session();
    let roles = Roles { name: database.name.clone() };
    roles.make(&mut session);
    session.run(
        "CREATE TABLE t (k int, c \"char\" DEFAULT 'x', other text DEFAULT repeat('x', 500));
         INSERT INTO t SELECT i FROM generate_series(1, 300) i;
         CREATE INDEX t_skip ON t USING skip (k, c) WITH (pages_per_range = 1);
         SET enable_seqscan = off; SET pg_skip.force_indexes = 't_skip'",
    );
    session.run("SELECT count(*) FROM t WHERE k = 7; RESET pg_skip.force_indexes");
    roles.grant(&mut session);
    let mut problems = Vec::new();
    for &role in ROLES {
        for (function, call, allowed) in CALLS {
            roles.enter(&mut session, role);
            let outcome = session.try_rows(call);
            let code = outcome.as_ref().err().and_then(|error| error.code()).map(|code| code.code());
            let expected = if may(role, allowed) { None } else { Some("42501") };
            if code != expected {
                problems.push(format!("{role:?} calls {function}: {outcome:?}"));
            }
        }
        // The last call may have set the counters to zero.
        session.run("RESET ROLE; SET pg_skip.force_indexes = 't_skip'");
        session.run("ALTER TABLE t NO FORCE ROW LEVEL SECURITY; SELECT count(*) FROM t WHERE k = 7");
        session.run("RESET pg_skip.force_indexes");
        for (view, query, shown) in VIEWS {
            roles.enter(&mut session, role);
            let rows = session.rows(query).len();
            if rows != usize::from(shown.contains(&role)) {
                problems.push(format!("{role:?} sees {rows} rows of {view}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    roles.drop(&mut session);
    nothing_is_left_out(&mut session);
}

/// A new function that takes an index, or one that not everybody may call, must be in the tables above.
fn nothing_is_left_out(session: &mut Session) {
    session.run("SET search_path = public");
    let there = session.column(
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid
         AND d.classid = 'pg_proc'::regclass
         JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass AND e.extname = 'pg_skip'
         WHERE 'regclass'::regtype = ANY (p.proargtypes) OR p.proacl IS NOT NULL OR p.proname LIKE 'pg\\_skip%'
         OR p.proname LIKE '%version' OR p.proname = 'skip_explain'
         UNION
         SELECT c.oid::regclass::text FROM pg_class c JOIN pg_depend d ON d.objid = c.oid
         AND d.classid = 'pg_class'::regclass
         JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
         AND e.extname = 'pg_skip'",
    );
    let known: BTreeSet<&str> = CALLS.iter().chain(&VIEWS).map(|(name, ..)| *name).collect();
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    assert_eq!(there, known);
}

on_shared!(partitioned_indexes);
/// Of a partitioned index, the rights to the partitioned table count: they reach all rows.
fn partitioned_indexes(database: &Database) {
    let mut session = database.session();
    let roles = Roles { name: database.name.clone() };
    roles.make(&mut session);
    session.run(
        "CREATE TABLE t (k int) PARTITION BY RANGE (k);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100);
         CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (200);
         INSERT INTO t SELECT generate_series(1, 199); CREATE INDEX t_skip ON t USING skip (k)",
    );
    roles.grant(&mut session);
    let mut problems = Vec::new();
    for &role in ROLES {
        for (function, call, allowed) in CALLS {
            if !function.contains("regclass") || function.contains("name") {
                continue;
            }
            roles.enter(&mut session, role);
            let outcome = session.try_rows(call);
            if outcome.is_ok() != may(role, allowed) {
                problems.push(format!("{role:?} calls {function}: {outcome:?}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    roles.drop(&mut session);
}

on_shared!(row_security);
/// Which ranges a value may be in tells of rows that row security hides.
fn row_security(database: &Database) {
    let mut session = database.session();
    let role = &database.name;
    session.run(&format!(
        "CREATE TABLE t (id int, a int); INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i;
         CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 1);
         CREATE ROLE {role}; GRANT SELECT ON t TO {role}"
    ));
    let ask = "SELECT skip_matching_ranges('t_skip', 'a', 77)";
    let as_role = |session: &mut Session| {
        session.run(&format!("SET ROLE {role}"));
        let answer = session.try_rows(ask);
        session.run("RESET ROLE");
        answer.map_err(|error| error.code().map(|code| code.code().to_owned()).unwrap_or_default())
    };
    assert!(as_role(&mut session).is_ok_and(|rows| !rows.is_empty()), "without row security");
    session.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY");
    assert_eq!(as_role(&mut session).err().as_deref(), Some("42501"), "with row security");
    session.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
