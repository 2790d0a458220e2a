//! Bounds of dates and times that are compared with values of another of these types, around the changes of clocks.
//! The server compares them in the session's time zone.
use super::skips_many;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::Way;
use pg_skip_tests::compare::sound;
use pg_skip_tests::session::Session;

/// Time zones, and days around changes of their clocks: by an hour at night and at midnight, by a day, by some minutes,
/// and by more than a day, which no place on Earth does.
const ZONES: [(&str, &str, &str); 9] = [
    ("UTC", "2025-03-29", "2025-04-01"),
    ("Europe/Berlin", "2025-03-29", "2025-04-01"),
    ("Europe/Berlin", "2025-10-25", "2025-10-28"),
    ("America/Asuncion", "2024-03-23", "2024-03-26"),
    ("America/Asuncion", "2023-09-30", "2023-10-03"),
    ("Pacific/Apia", "2011-12-28", "2012-01-02"),
    ("Asia/Manila", "1844-12-29", "1845-01-02"),
    ("Africa/Monrovia", "1972-01-06", "1972-01-09"),
    ("FOO+100BAR+60,M3.2.0,M11.1.0", "2025-03-05", "2025-03-15"),
];

const COLUMNS: [&str; 3] = ["date", "timestamp", "timestamptz"];

/// A row for each twenty minutes, two on a page, and the infinities.
fn table(session: &mut Session, (zone, from, to): (&str, &str, &str)) {
    session.run(&format!(
        "SET timezone = '{zone}'; DROP TABLE IF EXISTS t;
         CREATE TABLE t (\"date\" date, \"timestamp\" timestamp, \"timestamptz\" timestamptz,
                         filler text DEFAULT repeat('x', 3000));
         ALTER TABLE t ALTER filler SET STORAGE plain;
         INSERT INTO t SELECT p::date, p::timestamp, p
             FROM generate_series('{from} 00:00'::timestamptz, '{to} 00:00', '20 minutes') p;
         -- Local times that the clock leaves out, too.
         INSERT INTO t SELECT p::date, p, p
             FROM generate_series('{from} 00:00'::timestamp, '{to} 00:00', '20 minutes') p;
         INSERT INTO t VALUES ('infinity', 'infinity', 'infinity'), ('-infinity', '-infinity', '-infinity');
         CREATE INDEX t_skip ON t USING skip (\"date\" date_minmax_skip_ops, \"timestamp\" timestamp_minmax_skip_ops,
             \"timestamptz\" timestamptz_minmax_skip_ops) WITH (pages_per_range = 1);
         ANALYZE t"
    ));
}

/// The numbers of rows for which a comparison holds with each of some values.
fn counts(session: &mut Session, column: &str, operator: &str, kind: &str, values: &[String]) -> Vec<String> {
    let count =
        |value: &String| format!("SELECT count(*) FROM t WHERE \"{column}\" {operator} '{value}'::{kind}");
    let all: Vec<String> = values.iter().map(count).collect();
    session.column(&all.join(" UNION ALL "))
}

fn around_changes(database: &Database, part: usize) {
    let mut session = database.session();
    for (number, zone) in ZONES.into_iter().enumerate().filter(|(number, _)| number % 3 == part) {
        table(&mut session, zone);
        // Local times, points in time, and what no row has.
        let mut values = session.column(
            "SELECT CASE n % 14 WHEN 3 THEN l::text ELSE (p AT TIME ZONE 'UTC')::text || 'Z' END
             FROM (SELECT \"timestamp\" AS l, \"timestamptz\" AS p, row_number() OVER () AS n FROM t) s
             WHERE n % 7 = 3 AND isfinite(p)",
        );
        let more =
            ["infinity", "-infinity", "1500-02-03 04:05:06", "5000-02-03", "4713-02-03 BC", "294270-01-01"];
        values.extend(more.map(str::to_owned));
        for column in COLUMNS {
            for kind in COLUMNS.into_iter().filter(|&kind| kind != column) {
                for operator in ["<", "<=", "=", ">=", ">"] {
                    Way::plain().set(&mut session);
                    session.run(&format!("SET timezone = '{}'", zone.0));
                    let expected = counts(&mut session, column, operator, kind, &values);
                    for way in [Way::skip_scan(), Way::bitmap()] {
                        way.set(&mut session);
                        session.run(&format!("SET timezone = '{}'", zone.0));
                        let found = counts(&mut session, column, operator, kind, &values);
                        let wrong = (0..values.len()).find(|&i| expected[i] != found[i]);
                        let told = wrong.map(|i| (&values[i], &expected[i], &found[i]));
                        assert_eq!(told, None, "{column} {operator} {kind} in {zone:?}, number {number}");
                    }
                }
            }
        }
        sound(&mut session, "t_skip");
    }
}

on_shared!(around_changes_0 = around_changes(0));
on_shared!(around_changes_1 = around_changes(1));
on_shared!(around_changes_2 = around_changes(2));

on_shared!(what_is_skipped);
/// Whatever the types, most of the table is skipped, and a prepared statement takes the time zone that is set now.
fn what_is_skipped(database: &Database) {
    let mut session = database.session();
    table(&mut session, ("Europe/Berlin", "2025-10-20", "2025-10-30"));
    Way::skip_scan().set(&mut session);
    session.run("SET timezone = 'Europe/Berlin'");
    for (column, kind) in
        COLUMNS.into_iter().flat_map(|column| COLUMNS.map(|kind| (column, kind))).filter(|(c, k)| c != k)
    {
        for predicate in ["> '2025-10-28 12:00'", "< '2025-10-22 12:00'", "= '2025-10-23'"] {
            let predicate = format!("SELECT * FROM t WHERE \"{column}\" {predicate}::{kind}");
            skips_many(&mut session, &predicate);
        }
    }
    skips_many(&mut session, "SELECT * FROM t WHERE \"timestamp\" > now() - interval '1 hour'");
    skips_many(&mut session, "SELECT * FROM t WHERE \"timestamptz\" >= current_date");
    session.run(
        "SET plan_cache_mode = force_generic_plan;
         PREPARE p(timestamptz) AS SELECT count(*) FROM t WHERE \"timestamp\" >= $1",
    );
    let mut counts = Vec::new();
    for zone in ["Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC"] {
        session.run(&format!("SET timezone = '{zone}'"));
        let found = session.one("EXECUTE p('2025-10-25 00:00Z')");
        let plain = "SELECT count(*) FROM t WHERE (\"timestamp\" >= timestamptz '2025-10-25 00:00Z') IS TRUE";
        assert_eq!(found, session.one(plain), "{zone}");
        counts.push(found);
    }
    counts.dedup();
    assert_eq!(counts.len(), 4, "each time zone has another number of rows");
}

on_shared!(the_time_zone_changes_during_a_query);
/// A function sets the time zone for each row, and a subquery starts over for that row without new keys: it must search
/// in the new time zone.
fn the_time_zone_changes_during_a_query(database: &Database) {
    let mut session = database.session();
    table(&mut session, ("UTC", "2025-10-20", "2025-10-30"));
    let query = "SELECT zone || ' ' || (SELECT count(*) FROM t
                     WHERE \"timestamp\" >= timestamptz '2025-10-25 00:00Z' AND zone IS NOT NULL)
                 FROM (SELECT set_config('timezone', name, false) AS zone
                       FROM unnest('{UTC,Asia/Tokyo,America/New_York}'::text[]) AS name OFFSET 0) AS zones";
    let mut answers = Vec::new();
    for (way, has_scan) in [(Way::plain(), false), (Way::skip_scan(), true)] {
        way.set(&mut session);
        session.run("SET timezone = 'UTC'");
        let plan = session.plan(query);
        assert!(plan.contains("SubPlan") && plan.contains("Skip Index Scan") == has_scan, "{plan}");
        answers.push(session.column(query));
    }
    assert_eq!(answers[0], answers[1]);
    let mut counts: Vec<&str> =
        answers[0].iter().filter_map(|answer| answer.split(' ').next_back()).collect();
    counts.sort_unstable();
    counts.dedup();
    assert_eq!(counts.len(), 3, "each time zone has another number of rows: {answers:?}");
}
