//! Bounds of ranges: each type and each operator, over tables with a history, compared with a plain scan.
use super::{Inside, Search, live};
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use std::cell::Cell;

thread_local! {
    /// Values drift with this number, so that ranges differ.
    pub static DRIFT: Cell<i64> = const { Cell::new(0) };
}

/// A number that drifts as rows come.
fn drifting(rng: &mut Rng) -> i64 {
    let drift = DRIFT.get() + 1;
    DRIFT.set(drift);
    drift / 4 + rng.i64(-3..=3) + if rng.u32(..40) == 0 { rng.i64(-300..=300) } else { 0 }
}

/// A type whose values have bounds.
pub trait Ordered {
    const TYPE: &'static str;
    /// A value for a row, as a constant.
    fn value(rng: &mut Rng) -> String;
    /// A value for a query, as a constant, and its type.
    fn asked(rng: &mut Rng) -> (String, &'static str) {
        (Self::value(rng), Self::TYPE)
    }
}

pub fn cast(
    rng: &mut Rng,
    special: &[&str],
    kind: &str,
    usual: impl FnOnce(i64, &mut Rng) -> String,
) -> String {
    let number = drifting(rng);
    match rng.choice(special).filter(|_| rng.u32(..15) == 0) {
        Some(special) => format!("'{special}'::{kind}"),
        None => format!("'{}'::{kind}", usual(number, rng)),
    }
}

macro_rules! ordered {
    ($name:ident, $kind:literal, $special:expr, $usual:expr) => {
        pub struct $name;
        impl $crate::inside::bounds_types::Ordered for $name {
            const TYPE: &'static str = $kind;
            fn value(rng: &mut Rng) -> String {
                $crate::inside::bounds_types::cast(rng, $special, $kind, $usual)
            }
        }
    };
}
pub(crate) use ordered;

pub struct Integers<const BYTES: usize>;
const INTEGERS: [(&str, i64, i64); 3] = [
    ("int2", i16::MIN as i64, i16::MAX as i64),
    ("int4", i32::MIN as i64, i32::MAX as i64),
    ("int8", i64::MIN, i64::MAX),
];
fn integer(rng: &mut Rng, (kind, least, most): (&'static str, i64, i64)) -> (String, &'static str) {
    let number = match rng.u32(..40) {
        0 => least,
        1 => most,
        _ => drifting(rng).clamp(least, most),
    };
    (format!("'{number}'::{kind}"), kind)
}
impl<const BYTES: usize> Ordered for Integers<BYTES> {
    const TYPE: &'static str = INTEGERS[BYTES.ilog2() as usize - 1].0;
    fn value(rng: &mut Rng) -> String {
        integer(rng, INTEGERS[BYTES.ilog2() as usize - 1]).0
    }
    /// Of any width.
    fn asked(rng: &mut Rng) -> (String, &'static str) {
        let kind = INTEGERS[rng.usize(..3)];
        integer(rng, kind)
    }
}

const FLOATS: &[&str] = &["NaN", "Infinity", "-Infinity", "-0", "0", "1e-37", "-1e37"];
pub struct Float4;
impl Ordered for Float4 {
    const TYPE: &'static str = "float4";
    fn value(rng: &mut Rng) -> String {
        cast(rng, FLOATS, "float4", |n, _| format!("{}", n as f32 / 3.0 - 20.0))
    }
    fn asked(rng: &mut Rng) -> (String, &'static str) {
        if rng.bool() { (Self::value(rng), "float4") } else { (Float8::value(rng), "float8") }
    }
}
pub struct Float8;
impl Ordered for Float8 {
    const TYPE: &'static str = "float8";
    fn value(rng: &mut Rng) -> String {
        cast(rng, FLOATS, "float8", |n, _| format!("{}", n as f64 / 3.0 - 20.0))
    }
    fn asked(rng: &mut Rng) -> (String, &'static str) {
        if rng.bool() { (Self::value(rng), "float8") } else { (Float4::value(rng), "float4") }
    }
}
ordered!(
    Numeric,
    "numeric",
    &["NaN", "Infinity", "-Infinity", "0", "-0.00", "1e-300", "-1e300", "1e12000", "-1e-12000", "9999.9999"],
    |n, rng| {
        let scale = [1.0, 0.001, 1e9][rng.usize(..3)];
        format!("{}", (n - 60) as f64 * scale)
    }
);
ordered!(Money, "money", &["-92233720368547758.08", "92233720368547758.07"], |n, _| format!(
    "{}.{:02}",
    n,
    n & 63
));
ordered!(Date, "date", &["infinity", "-infinity", "4713-01-01 BC"], |n, _| days(n));
ordered!(Time, "time", &["00:00", "24:00"], |n, _| clock(n));
ordered!(TimeTz, "timetz", &["00:00+14", "24:00-14"], |n, rng| format!(
    "{}{:+03}",
    clock(n),
    rng.i32(-12..=12)
));
ordered!(Timestamp, "timestamp", &["infinity", "-infinity"], |n, _| format!("{} {}", days(n), clock(n * 37)));
ordered!(TimestampTz, "timestamptz", &["infinity", "-infinity"], |n, rng| format!(
    "{} {}{:+03}",
    days(n),
    clock(n * 37),
    rng.i32(-12..=12)
));
ordered!(Interval, "interval", &["178000000 years", "-178000000 years", "0"], |n, rng| match rng.u32(..3) {
    0 => format!("{} months {} days", n / 30, n % 30),
    1 => format!("{} hours", n * 24),
    _ => format!("{n} days {} us", rng.i32(-5..=5)),
});
ordered!(Oid, "oid", &["0", "4294967295"], |n, _| n.max(0).to_string());
ordered!(Xid8, "xid8", &["0", "18446744073709551615"], |n, _| n.max(0).to_string());
ordered!(Lsn, "pg_lsn", &["0/0", "FFFFFFFF/FFFFFFFF"], |n, _| format!(
    "{:X}/{:X}",
    n.max(0) / 8,
    (n & 7) << 29
));
ordered!(Bool, "bool", &["t"], |n, _| (n % 40 == 0).to_string());
ordered!(Char, "\"char\"", &["", "\\377"], |n, _| char::from(b'0' + (n.rem_euclid(60) as u8))
    .to_string()
    .replace('\'', "x"));
ordered!(
    Uuid,
    "uuid",
    &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    |n, rng| { format!("00000000-0000-{:04x}-0000-{:012x}", n.max(0), rng.u64(..1 << 40)) }
);
ordered!(MacAddr, "macaddr", &["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"], |n, _| format!(
    "{:012x}",
    n.max(0) * 0x7f01
));
ordered!(MacAddr8, "macaddr8", &["00:00:00:00:00:00:00:00"], |n, _| format!(
    "{:016x}",
    n.max(0) * 0x7f_0102_0304
));
ordered!(Bytea, "bytea", &["", "\\x00", "\\xff", "\\xffffffffffffffffff"], |n, rng| {
    let bytes = format!("{:08x}{:016x}", n.max(0), rng.u64(..));
    format!("\\x{}", &bytes[..2 * rng.usize(1..12)])
});
ordered!(Inet, "inet", &["0.0.0.0/0", "255.255.255.255", "::/0", "::1", "ffff::/16"], |n, rng| {
    let (n, bits) = (n.max(0), rng.u32(8..=32));
    if rng.u32(..5) == 0 {
        format!("2001:db8:{n:x}::{:x}/{}", n & 15, bits * 4)
    } else {
        format!("10.{}.{}.7/{bits}", n / 8 % 256, n % 8 * 32)
    }
});
fn word(n: i64, rng: &mut Rng) -> String {
    let tail = ["", " ", "a", "ä", "longer than the key has room", "~"][rng.usize(..6)];
    let word = format!("w{:05}{tail}", n.max(0));
    word[..if word.is_ascii() { rng.usize(2..=word.len()) } else { word.len() }].to_owned()
}
pub struct Text;
impl Ordered for Text {
    const TYPE: &'static str = "text";
    fn value(rng: &mut Rng) -> String {
        cast(rng, &["", " ", "\u{10ffff}"], "text", word)
    }
}
ordered!(Blanked, "char(12)", &["", "  a", "\u{1}"], |n, rng| word(n, rng).chars().take(12).collect());
ordered!(Name, "name", &["", "\u{10ffff}"], word);

fn days(n: i64) -> String {
    let n = n.clamp(-300, 3000);
    format!("{}-{:02}-{:02}", 2020 + n.div_euclid(336), n.rem_euclid(336) / 28 + 1, n.rem_euclid(28) + 1)
}

fn clock(n: i64) -> String {
    let n = n.rem_euclid(1440);
    format!("{:02}:{:02}:{:02}.{n:06}", n / 60, n % 60, n % 60)
}

fn search<T: Ordered>(rng: &mut Rng) -> Search {
    let collate = match T::TYPE {
        "text" | "char(12)" | "text[]" => " COLLATE \"C\"",
        _ => "",
    };
    let (value, kind) = T::asked(rng);
    let mut other = || {
        let (value, kind) = T::asked(rng);
        (value, kind)
    };
    let ((one, of_one), (two, _)) = (other(), other());
    let same = if of_one == kind { one.clone() } else { value.clone() };
    let v = format!("v{collate}");
    // A list of arrays is an array of their elements.
    let cases = if T::TYPE.ends_with("[]") { 15 } else { 18 };
    let predicate = match rng.u32(..cases) {
        0 | 1 => format!("{v} < $1"),
        2 | 3 => format!("{v} <= $1"),
        4 | 5 => format!("{v} = $1"),
        6 | 7 => format!("{v} >= $1"),
        8 | 9 => format!("{v} > $1"),
        10 => format!("$1 > {v}"),
        11 => format!("{v} BETWEEN $1 AND {one}"),
        12 => format!("({v} > $1 AND {v} < {one} OR {v} = {two})"),
        13 => format!("({v}, id) {} ($1, 77)", ["<", "<=", ">", ">="][rng.usize(..4)]),
        14 => format!("($1, 77) {} ({v}, id)", ["<", "<=", ">", ">="][rng.usize(..4)]),
        15 => format!("{v} = ANY (ARRAY[{value}, {same}, NULL])"),
        16 => format!("{v} > ANY (ARRAY[{value}, {same}])"),
        _ => ["v IS NULL", "v IS NOT NULL"][rng.usize(..2)].to_owned(),
    };
    Search { predicate, kind: kind.to_owned(), value, is_served: true }
}

on_shared!(int2 = of_type("int2", "int2", of::<Integers<2>>()));
on_shared!(int4 = of_type("int4", "int4", of::<Integers<4>>()));
on_shared!(int8 = of_type("int8", "int8", of::<Integers<8>>()));
on_shared!(float4 = of_type("float4", "float4", of::<Float4>()));
on_shared!(float8 = of_type("float8", "float8", of::<Float8>()));
on_shared!(numeric = of_type("numeric", "numeric", of::<Numeric>()));
on_shared!(money = of_type("money", "money", of::<Money>()));
on_shared!(date = of_type("date", "date", of::<Date>()));
on_shared!(time = of_type("time", "time", of::<Time>()));
on_shared!(timetz = of_type("timetz", "timetz", of::<TimeTz>()));
on_shared!(timestamp = of_type("timestamp", "timestamp", of::<Timestamp>()));
on_shared!(timestamptz = of_type("timestamptz", "timestamptz", of::<TimestampTz>()));
on_shared!(interval = of_type("interval", "interval", of::<Interval>()));
on_shared!(oid = of_type("oid", "oid", of::<Oid>()));
on_shared!(xid8 = of_type("xid8", "xid8", of::<Xid8>()));
on_shared!(pg_lsn = of_type("pg_lsn", "pg_lsn", of::<Lsn>()));
on_shared!(boolean = of_type("bool", "bool", of::<Bool>()));
on_shared!(character = of_type("\"char\"", "char", of::<Char>()));
on_shared!(uuid = of_type("uuid", "uuid", of::<Uuid>()));
on_shared!(macaddr = of_type("macaddr", "macaddr", of::<MacAddr>()));
on_shared!(macaddr8 = of_type("macaddr8", "macaddr8", of::<MacAddr8>()));
on_shared!(bytea = of_type("bytea", "bytea", of::<Bytea>()));
on_shared!(inet = of_type("inet", "inet", of::<Inet>()));
on_shared!(text = of_type("text COLLATE \"C\"", "text", of::<Text>()));
on_shared!(varchar = of_type("varchar(40) COLLATE \"C\"", "text", of::<Text>()));
on_shared!(blanked = of_type("char(12) COLLATE \"C\"", "bpchar", of::<Blanked>()));
on_shared!(name = of_type("name", "name", of::<Name>()));
/// Tables with a history, of a column with bounds beside an ordinary one.
pub fn of_type(database: &Database, kind: &'static str, class: &str, Pair { value, search }: Pair) {
    DRIFT.set(0);
    let mut session = database.session();
    let indexed = format!("v {class}_minmax_skip_ops, id").leak();
    live(&mut session, &Inside { name: "inside::bounds", kind, indexed, value, search }, 0);
}

/// How rows and queries of a type are made.
pub struct Pair {
    value: fn(&mut Rng) -> String,
    search: fn(&mut Rng) -> Search,
}

pub fn of<T: Ordered>() -> Pair {
    Pair { value: T::value, search: search::<T> }
}
