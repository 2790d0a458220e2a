//! EXPLAIN in each of its formats: the properties are there, under their names, and the whole can be parsed.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::Way;
use pg_skip_tests::explain::skip_scan;
use pg_skip_tests::session::{Session, lines};

fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int, k int, u uuid, \"Odd <&\"\"> name\" int, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, i / 3, md5(i::text)::uuid, i % 90 FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (k, u) WITH (pages_per_range = 1);
         CREATE INDEX \"T <&\"\"> odd\" ON t USING skip (\"Odd <&\"\"> name\") WITH (pages_per_range = 2)",
    );
    Way::skip_scan().set(session);
}

const QUERY: &str = "SELECT id FROM t WHERE k = 9 AND \"Odd <&\"\"> name\" = 27 AND id > 0";

/// `QUERY` by both indexes: one of them alone would be cheaper for so small a table.
const BOTH: &str = "SET pg_skip.force_indexes = 't_skip, \"T <&\"\"> odd\"'";

#[track_caller]
fn explained(session: &mut Session, options: &str, sql: &str) -> String {
    lines(&session.rows(&format!("EXPLAIN ({options}) {sql}")))
}

/// The one line that begins so, without its beginning.
#[track_caller]
fn line<'a>(plan: &'a str, start: &str) -> &'a str {
    let mut found = plan.lines().filter_map(|line| line.trim_start().strip_prefix(start));
    match (found.next(), found.next()) {
        (Some(rest), None) => rest,
        _ => panic!("one line expected that begins with {start:?}:\n{plan}"),
    }
}

on_shared!(explain_as_text);
fn explain_as_text(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(BOTH);
    let plan = explained(&mut session, "ANALYZE, TIMING off, SUMMARY off", QUERY);
    assert!(plan.starts_with("Custom Scan (Skip Index Scan) on t "), "{plan}");
    assert!(line(&plan, "Filter: ").contains("id > 0"), "{plan}");
    let indexes = line(&plan, "Skip Indexes: ");
    assert!(indexes.contains("t_skip") && indexes.contains("odd") && indexes.contains(", "), "{plan}");
    let condition = line(&plan, "Index Cond: ");
    assert!(
        condition.contains("k = 9") && condition.contains("= 27") && condition.contains(" AND "),
        "{plan}"
    );
    let blocks = session.one("SELECT pg_relation_size('t') / 8192");
    assert_eq!(line(&plan, "Ranges Expected: "), format!("1 of {blocks}"), "{plan}");
    assert_eq!(
        line(&plan, "Rows Removed by Index Recheck: ").parse::<u64>().map(|n| n > 5),
        Ok(true),
        "{plan}"
    );
    let skipped = blocks.parse::<u64>().expect("a number") - 1;
    let ranges = format!("{blocks}  Skipped: {skipped}  Scanned: 1  False Positives: 0  Unsummarized: 0");
    assert_eq!(line(&plan, "Ranges: "), ranges, "{plan}");
    assert_eq!(line(&plan, "Index Pages Read: ").parse::<u64>().map(|n| n > 0), Ok(true), "{plan}");
    // Without costs nothing is expected, and without ANALYZE nothing is counted.
    let plan = explained(&mut session, "COSTS off", QUERY);
    assert!(plan.contains("Skip Indexes: ") && plan.contains("Index Cond: "), "{plan}");
    for absent in ["Ranges", "Rows Removed", "Index Pages"] {
        assert!(!plan.contains(absent), "{plan}");
    }
    let plan = explained(&mut session, "COSTS on", QUERY);
    assert!(plan.contains("Ranges Expected: ") && !plan.contains("Ranges: "), "{plan}");
    assert!(!plan.contains("(average)"), "{plan}");
    session.run("RESET pg_skip.force_indexes");
    // VERBOSE names columns and tables in full.
    let plan = explained(&mut session, "VERBOSE, COSTS off", "SELECT id FROM t WHERE k = 7");
    assert!(plan.contains("on public.t") && line(&plan, "Index Cond: ").contains("t.k = 7"), "{plan}");
    // A key that comes at execution: its ranges are an average, and the condition shows the parameter.
    session.run("SET plan_cache_mode = force_generic_plan; PREPARE p(uuid) AS SELECT id FROM t WHERE u = $1");
    let plan = explained(&mut session, "COSTS on", "EXECUTE p(md5('7')::uuid)");
    assert!(line(&plan, "Ranges Expected: ").ends_with(" (average)"), "{plan}");
    assert!(line(&plan, "Index Cond: ").contains("u = $1"), "{plan}");
    let join = "SELECT t.id FROM generate_series(1, 2) v (k) JOIN t ON t.k = v.k";
    let plan = explained(&mut session, "COSTS off", join);
    // Which side of a join's clause comes first is the planner's affair.
    let condition = line(&plan, "Index Cond: ");
    assert!(["(k = v.k)", "(t.k = v.k)", "(v.k = k)", "(v.k = t.k)"].contains(&condition), "{plan}");
    // A part that is never executed has counted nothing.
    let never = "SELECT * FROM t a WHERE k = 7 AND EXISTS (SELECT FROM t b WHERE b.k = a.id AND a.id < 0)";
    let plan = explained(&mut session, "ANALYZE, COSTS off, TIMING off, SUMMARY off", never);
    assert!(plan.contains("Custom Scan (Skip Index Scan)"), "{plan}");
    for settings in ["GENERIC_PLAN", "SETTINGS", "WAL, ANALYZE", "MEMORY, SERIALIZE, ANALYZE"] {
        let version = pg_skip_tests::server::install().version;
        if (settings == "GENERIC_PLAN" && version < 16) || (settings.starts_with("MEMORY") && version < 17) {
            continue;
        }
        explained(&mut session, settings, "SELECT id FROM t WHERE k = 7");
    }
}

const PLANNED: [&str; 6] = [
    "Custom Plan Provider",
    "Skip Indexes",
    "Index Cond",
    "Ranges Expected",
    "Ranges Expected Of",
    "Ranges Expected Exactly",
];

const COUNTED: [&str; 7] = [
    "Rows Removed by Index Recheck",
    "Ranges Total",
    "Ranges Skipped",
    "Ranges Scanned",
    "Ranges False Positives",
    "Ranges Unsummarized",
    "Index Pages Read",
];

on_shared!(explain_for_programs);
fn explain_for_programs(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(BOTH);
    // JSON is parsed by the server.
    let node = skip_scan(&mut session, "ANALYZE,", QUERY);
    assert_eq!(
        (node.text("Node Type"), node.text("Custom Plan Provider")),
        ("Custom Scan", "Skip Index Scan")
    );
    for property in COUNTED.into_iter().chain(["Ranges Expected", "Ranges Expected Of"]) {
        node.number(property);
    }
    assert_eq!(node.text("Ranges Expected Exactly"), "true");
    let names = session.column(&format!("SELECT jsonb_array_elements_text('{}')", node.text("Skip Indexes")));
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().any(|name| name == "t_skip"), "{names:?}");
    assert!(names.iter().any(|name| name.contains("T <&")), "{names:?}");
    let planned = skip_scan(&mut session, "", QUERY);
    for property in PLANNED {
        planned.text(property);
    }
    for property in COUNTED {
        assert!(!planned.has(property), "{property} is counted without ANALYZE");
    }
    // YAML: one `Name: value` a line, and a list of the indexes.
    let yaml = explained(&mut session, "ANALYZE, FORMAT yaml", QUERY);
    for property in PLANNED.into_iter().chain(COUNTED) {
        line(&yaml, &format!("{property}:"));
    }
    assert_eq!(line(&yaml, "Custom Plan Provider: "), "\"Skip Index Scan\"", "{yaml}");
    assert_eq!(line(&yaml, "Ranges Scanned: "), "1", "{yaml}");
    assert_eq!(line(&yaml, "Ranges Expected Exactly: "), "true", "{yaml}");
    assert!(yaml.lines().any(|line| line.trim() == "- \"t_skip\""), "{yaml}");
    // XML: every element is closed in its turn, and odd names are escaped.
    let xml = explained(&mut session, "ANALYZE, FORMAT xml", QUERY);
    for property in PLANNED.into_iter().chain(COUNTED) {
        let tag = property.replace(' ', "-");
        assert!(xml.contains(&format!("<{tag}>")), "no {tag} in\n{xml}");
    }
    assert!(xml.contains("<Ranges-Scanned>1</Ranges-Scanned>"), "{xml}");
    assert!(xml.contains("<Item>t_skip</Item>"), "{xml}");
    well_formed(&xml);
}

/// Fails if an element is not closed, or a sign is not escaped.
#[track_caller]
fn well_formed(xml: &str) {
    let mut open = Vec::new();
    for part in xml.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("{part:?} is no element in\n{xml}"));
        assert!(!text.contains('>'), "{text:?} is not escaped in\n{xml}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{xml}"),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap_or_default()),
        }
    }
    assert!(open.is_empty(), "{open:?} not closed in\n{xml}");
}
