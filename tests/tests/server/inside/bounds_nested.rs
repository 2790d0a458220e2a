//! Bounds of values that consist of others, and of other types whose order is not that of their bytes: arrays, ranges,
//! multiranges, enums, documents and so on. Each operator, over tables with a history, compared with a plain scan.
use super::bounds_types::{of, of_type, ordered};
use super::skips_many;
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::session::Session;

ordered!(Bits, "bit(24)", &["000000000000000000000000", "111111111111111111111111"], |n, _| format!(
    "{:024b}",
    n.max(0) * 31
));
ordered!(VarBits, "varbit", &["", "0", "1", "00000000", "000000000"], |n, rng| {
    let bits = format!("{:016b}{:064b}", n.max(0), rng.u64(..));
    bits[..rng.usize(..=bits.len())].to_owned()
});
ordered!(Tid, "tid", &["(0,0)", "(4294967295,65535)"], |n, rng| format!("({},{})", n.max(0), rng.u16(..9)));
ordered!(OidVector, "oidvector", &[""], |n, rng| {
    let more = ["", " 7", " 7 7", " 4294967295"][rng.usize(..4)];
    format!("{}{more}", n.max(0))
});
ordered!(TsVector, "tsvector", &[""], |n, rng| {
    let words: Vec<_> =
        (0..n.max(0) / 9 + rng.i64(..2)).map(|word| format!("w{word}:{}", word + 1)).collect();
    words.join(" ")
});
ordered!(TsQuery, "tsquery", &[""], |n, rng| {
    let words: Vec<_> = (0..n.max(0) / 9 + rng.i64(..2)).map(|word| format!("w{word}")).collect();
    words.join([" & ", " | ", " <-> "][rng.usize(..3)])
});
const DOCUMENTS: &[&str] =
    &["null", "true", "false", "\"a\"", "[]", "{}", "[null]", "[[]]", "\"\"", "0", "1e-400"];
ordered!(Documents, "jsonb", DOCUMENTS, |n, rng| {
    let count = n.max(0) / 16;
    let numbers: Vec<_> = (0..count).map(|i| i.to_string()).collect();
    match rng.u32(..5) {
        0 => format!("[{}]", numbers.join(", ")),
        1 => {
            let pairs: Vec<_> = numbers.iter().map(|i| format!("\"k{i}\": {}", rng.u32(..3))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        2 => format!("{}.{:02}", n, rng.u32(..100)),
        3 => format!("-{}e{}", n.max(0), rng.i32(-30..30)),
        _ => format!("\"w{n}\""),
    }
});

/// An array of elements, which may be NULL; of several dimensions, and with other lower bounds.
fn array(element: &str, rng: &mut Rng) -> String {
    let is_number = element.len() < 20 && element.parse::<f64>().is_ok();
    let rest = if is_number {
        ["", ", NULL", ", 0", ", 0, 0", ", 1"][rng.usize(..5)]
    } else {
        ["", ", NULL"][rng.usize(..2)]
    };
    let all = format!("{{\"{element}\"{rest}}}");
    match rng.u32(..12) {
        0 => format!("{{{all}, {all}}}"),
        1 => format!("[5:{}]={all}", 5 + rest.matches(',').count()),
        2 => format!("{{NULL, {}", &all[1..]),
        _ => all,
    }
}
const ARRAYS: &[&str] = &["{}", "{NULL}", "{NULL,NULL}"];
ordered!(SmallIntegers, "int2[]", ARRAYS, |n, rng| array(&n.clamp(-32768, 32767).to_string(), rng));
ordered!(ArrayOfIntegers, "int8[]", ARRAYS, |n, rng| array(&(n * 1_000_000_007).to_string(), rng));
ordered!(Numerics, "numeric[]", ARRAYS, |n, rng| array(&format!("{n}.5"), rng));
ordered!(Booleans, "bool[]", ARRAYS, |n, rng| array(if n % 40 == 0 { "t" } else { "f" }, rng));
ordered!(Days, "date[]", ARRAYS, |n, rng| array(&day(n), rng));
ordered!(Uuids, "uuid[]", ARRAYS, |n, rng| array(&format!("{:032x}", n.max(0)), rng));
ordered!(Names, "name[]", ARRAYS, |n, rng| array(&format!("w{:05}", n.max(0)), rng));
ordered!(Texts, "text[]", ARRAYS, |n, rng| {
    let word = format!("w{:05}{}", n.max(0), ["", " ", "longer than the key has room"][rng.usize(..3)]);
    array(&word[..rng.usize(1..=word.len())], rng)
});

fn day(n: i64) -> String {
    format!("{}-{:02}-{:02}", 2020 + n.div_euclid(336), n.rem_euclid(336) / 28 + 1, n.rem_euclid(28) + 1)
}

/// A range of two bounds, in the order of the arguments.
fn range(lower: &str, upper: &str, rng: &mut Rng) -> String {
    match rng.u32(..12) {
        0 => "empty".to_owned(),
        1 => format!("(,{upper}]"),
        2 => format!("{}{lower},)", ["(", "["][rng.usize(..2)]),
        _ => format!("{}\"{lower}\",\"{upper}\"{}", ["(", "["][rng.usize(..2)], [")", "]"][rng.usize(..2)]),
    }
}
/// A multirange of up to three ranges of such bounds.
fn ranges(bound: impl Fn(i64) -> String, n: i64, rng: &mut Rng) -> String {
    let all: Vec<_> = (0..rng.i64(..4))
        .map(|i| range(&bound(n + 10 * i), &bound(n + 10 * i + rng.i64(1..9)), rng))
        .collect();
    format!("{{{}}}", all.join(", "))
}
const RANGES: &[&str] = &["empty", "(,)"];
const MULTIRANGES: &[&str] = &["{}", "{(,)}", "{empty}"];
ordered!(IntegerRange, "int4range", RANGES, |n, rng| range(&n.to_string(), &(n + 3).to_string(), rng));
ordered!(BigRange, "int8range", RANGES, |n, rng| range(
    &(n << 33).to_string(),
    &((n + 3) << 33).to_string(),
    rng
));
ordered!(NumericRange, "numrange", RANGES, |n, rng| range(&n.to_string(), &format!("{}.75", n + 1), rng));
ordered!(DayRange, "daterange", RANGES, |n, rng| range(&day(n), &day(n + 5), rng));
ordered!(TimeRange, "tsrange", RANGES, |n, rng| range(&day(n), &format!("{} 12:00", day(n)), rng));
ordered!(PointRange, "tstzrange", RANGES, |n, rng| range(
    &format!("{} 01:00+{:02}", day(n), rng.u32(..13)),
    &format!("{} 12:00-01", day(n + 1)),
    rng
));
ordered!(TextRange, "bounds_text_range", RANGES, |n, rng| {
    let tail = ["", "a", "longer than the key has room"][rng.usize(..3)];
    range(&format!("w{:05}{tail}", n.max(0)), &format!("w{:05}", n.max(0) + 2), rng)
});
ordered!(IntegerRanges, "int4multirange", MULTIRANGES, |n, rng| ranges(|n| n.to_string(), n, rng));
ordered!(BigRanges, "int8multirange", MULTIRANGES, |n, rng| ranges(|n| (n << 33).to_string(), n, rng));
ordered!(NumericRanges, "nummultirange", MULTIRANGES, |n, rng| ranges(|n| format!("{n}.25"), n, rng));
ordered!(PointRanges, "tstzmultirange", MULTIRANGES, |n, rng| ranges(
    |n| format!("{} 03:00+00", day(n)),
    n,
    rng
));

/// Labels in the order of the enum, of which the odd ones are added last, in front of others.
const LABELS: usize = 200;
ordered!(Labels, "bounds_label", &["l000", "l199"], |n, _| format!("l{:03}", n.clamp(0, 199)));

on_shared!(bits = of_type("bit(24)", "bit", of::<Bits>()));
on_shared!(varbits = of_type("varbit", "varbit", of::<VarBits>()));
on_shared!(tid = of_type("tid", "tid", of::<Tid>()));
on_shared!(oidvector = of_type("oidvector", "oidvector", of::<OidVector>()));
on_shared!(tsvector = of_type("tsvector", "tsvector", of::<TsVector>()));
on_shared!(tsquery = of_type("tsquery", "tsquery", of::<TsQuery>()));
on_shared!(documents = of_type("jsonb", "jsonb", of::<Documents>()));
on_shared!(int2_array = of_type("int2[]", "array", of::<SmallIntegers>()));
on_shared!(int8_array = of_type("int8[]", "array", of::<ArrayOfIntegers>()));
on_shared!(numeric_array = of_type("numeric[]", "array", of::<Numerics>()));
on_shared!(bool_array = of_type("bool[]", "array", of::<Booleans>()));
on_shared!(date_array = of_type("date[]", "array", of::<Days>()));
on_shared!(uuid_array = of_type("uuid[]", "array", of::<Uuids>()));
on_shared!(name_array = of_type("name[]", "array", of::<Names>()));
on_shared!(text_array = of_type("text[] COLLATE \"C\"", "array", of::<Texts>()));
on_shared!(int4range = of_type("int4range", "range", of::<IntegerRange>()));
on_shared!(int8range = of_type("int8range", "range", of::<BigRange>()));
on_shared!(numrange = of_type("numrange", "range", of::<NumericRange>()));
on_shared!(daterange = of_type("daterange", "range", of::<DayRange>()));
on_shared!(tsrange = of_type("tsrange", "range", of::<TimeRange>()));
on_shared!(tstzrange = of_type("tstzrange", "range", of::<PointRange>()));
on_shared!(int4multirange = of_type("int4multirange", "multirange", of::<IntegerRanges>()));
on_shared!(int8multirange = of_type("int8multirange", "multirange", of::<BigRanges>()));
on_shared!(nummultirange = of_type("nummultirange", "multirange", of::<NumericRanges>()));
on_shared!(tstzmultirange = of_type("tstzmultirange", "multirange", of::<PointRanges>()));

on_shared!(text_range);
/// A range type of a user, of text.
fn text_range(database: &Database) {
    let create = "CREATE TYPE bounds_text_range AS RANGE (subtype = text, collation = \"C\")";
    database.session().run(create);
    of_type(database, "bounds_text_range", "range", of::<TextRange>());
}

on_shared!(labels);
/// An enum. Labels that were added in front of others have OIDs that are not in order.
fn labels(database: &Database) {
    create_labels(&mut database.session());
    of_type(database, "bounds_label", "enum", of::<Labels>());
}

fn create_labels(session: &mut Session) {
    let even: Vec<_> = (0..LABELS).filter(|n| n % 10 != 5).map(|n| format!("'l{n:03}'")).collect();
    session.run(&format!("CREATE TYPE bounds_label AS ENUM ({})", even.join(", ")));
    for n in (5..LABELS).step_by(10) {
        session.run(&format!("ALTER TYPE bounds_label ADD VALUE 'l{n:03}' BEFORE 'l{:03}'", n + 1));
    }
    let odd =
        "SELECT count(*) FROM pg_enum WHERE enumtypid = 'bounds_label'::regtype AND oid::bigint % 2 = 1";
    assert_eq!(session.number(odd), 20.0);
}

on_shared!(few_ranges);
/// Comparisons leave few ranges, for each kind of values that consist of others.
fn few_ranges(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE bounds_step AS ENUM ('created', 'paid', 'packed', 'sent', 'returned');
         CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, step bounds_step, during tstzrange, often tstzmultirange,
            path int[], flags bit(16), document jsonb, filler text DEFAULT repeat('x', 300));
         INSERT INTO t (step, during, often, path, flags, document)
            SELECT (enum_range(NULL::bounds_step))[i / 2001 + 1], tstzrange(at, at + '1 hour'),
                tstzmultirange(tstzrange(at, at + '1 hour')), ARRAY[i / 10, i % 7], i::bit(16), to_jsonb(i)
            FROM generate_series(1, 10000) i,
                LATERAL (SELECT timestamptz '2026-01-01 00:00+00' + i * '1 min'::interval) v (at);
         CREATE INDEX t_bounds ON t USING skip (step enum_minmax_skip_ops, during range_minmax_skip_ops,
            often multirange_minmax_skip_ops, path array_minmax_skip_ops, flags bit_minmax_skip_ops,
            document jsonb_minmax_skip_ops) WITH (pages_per_range = 1);
         ANALYZE t",
    );
    for predicate in [
        "step = 'packed'",
        "step > 'sent'",
        "step IN ('created', 'returned')",
        "during < tstzrange('2026-01-01 03:00+00', NULL)",
        "during >= tstzrange('2026-01-07 03:00+00', NULL)",
        "during = tstzrange('2026-01-05 03:00+00', '2026-01-05 04:00+00')",
        "often >= tstzmultirange(tstzrange('2026-01-07 03:00+00', NULL))",
        "path BETWEEN '{500}' AND '{510,3}'",
        "path = '{777,3}'",
        "flags < B'0000000011111111'",
        "document > '9900'",
        "document = '4711'",
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        same(&mut session, &Way::skip_scan(), &Case::using(&statement));
        Way::skip_scan().set(&mut session);
        skips_many(&mut session, &statement);
        session.run("RESET ALL");
        compare::same(&mut session, "t", &Question::using("t_bounds", predicate));
    }
    // A label between others, in rows and in queries.
    session.run("ALTER TYPE bounds_step ADD VALUE 'checked' BEFORE 'sent'");
    session.run("UPDATE t SET step = 'checked' WHERE id % 1000 = 77");
    for predicate in
        ["step = 'checked'", "step < 'checked'", "step > 'packed' AND step < 'sent'", "step >= 'checked'"]
    {
        same(&mut session, &Way::skip_scan(), &Case::any(format!("SELECT id FROM t WHERE {predicate}")));
        compare::same(&mut session, "t", &Question::any(predicate));
    }
    sound(&mut session, "t_bounds");
    for column in ["step", "during", "path", "document"] {
        same(
            &mut session,
            &Way::skip_scan(),
            &Case::any(format!("SELECT id FROM t ORDER BY {column}, id LIMIT 10")),
        );
    }
}

on_shared!(arrays_without_elements);
/// Vectors of the server's own are arrays with a dimension even if they have no element.
fn arrays_without_elements(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v int2[], w int2vector, x oidvector,
            filler text DEFAULT repeat('x', 300));
         INSERT INTO t (v, w, x) SELECT ARRAY[i / 100], (i / 100)::text::int2vector, (i / 100)::text::oidvector
            FROM generate_series(1, 2000) i;
         INSERT INTO t (v, w, x) VALUES (''::int2vector::int2[], '', '');
         CREATE INDEX t_bounds ON t USING skip (v array_minmax_skip_ops, w array_minmax_skip_ops,
            x oidvector_minmax_skip_ops) WITH (pages_per_range = 1);
         UPDATE t SET v = ''::int2vector::int2[], w = '', x = '' WHERE id % 500 = 7;
         INSERT INTO t (v, w, x) VALUES (''::int2vector::int2[], '', '')",
    );
    for predicate in [
        "v = '{}'",
        "v < '{1}'",
        "v > '{18,5}'",
        "v = ''::int2vector::int2[]",
        "x = ''",
        "x < '1'",
        "x > '18'",
    ] {
        same(&mut session, &Way::skip_scan(), &Case::any(format!("SELECT id FROM t WHERE {predicate}")));
        compare::same(&mut session, "t", &Question::any(predicate));
    }
    for order in ["v, id", "v DESC, id", "x, id"] {
        let statement = format!("SELECT id FROM t ORDER BY {order} LIMIT 20");
        same(&mut session, &Way::skip_scan(), &Case::any(statement));
    }
    sound(&mut session, "t_bounds");
}

on_shared!(no_order_of_labels);
/// Bounds of an enum are not offered for an order, and EXPLAIN's helpers say why.
fn no_order_of_labels(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE bounds_step AS ENUM ('created', 'paid', 'sent');
         CREATE TABLE t (id int, step bounds_step, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, (enum_range(NULL::bounds_step))[1 + i / 7000] FROM generate_series(1, 20000) i;
         CREATE INDEX t_bounds ON t USING skip (step enum_minmax_skip_ops); ANALYZE t",
    );
    let query = "SELECT * FROM t ORDER BY step LIMIT 5";
    let plan = session.column(&format!("EXPLAIN (COSTS off) {query}")).join("\n");
    assert!(!plan.contains("Order By"), "{plan}");
    let why = format!("SELECT reason FROM skip_explain($${query}$$) WHERE NOT used");
    assert!(session.column(&why).iter().any(|why| why.contains("labels that were put between others")));
}

on_shared!(refused);
/// Values whose parts have no bounds, and ranges in another order than that of their type.
fn refused(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE pair AS (a int, b int);
         CREATE TYPE mood AS ENUM ('low', 'high');
         CREATE TYPE pattern_range AS RANGE (subtype = text, subtype_opclass = text_pattern_ops);
         CREATE TYPE any_text_range AS RANGE (subtype = text, collation = \"en-x-icu\");
         CREATE TABLE t (pairs pair[], moods mood[], patterns pattern_range, words any_text_range, texts text[],
            x point[])",
    );
    for (indexed, has) in [
        ("pairs array_minmax_skip_ops", "pair[]"),
        ("moods array_minmax_skip_ops", "mood[]"),
        ("patterns range_minmax_skip_ops", "pattern_range"),
        ("words range_minmax_skip_ops", "only under collations that compare bytes"),
        ("texts COLLATE \"en-x-icu\" array_minmax_skip_ops", "only under collations that compare bytes"),
        ("x array_minmax_skip_ops", "has no bounds of values of type point[]"),
    ] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({indexed})"));
        assert_eq!(error.code().code(), "0A000", "{indexed}: {error:?}");
        assert!(error.message().contains(has), "{indexed}: {error:?}");
    }
}
