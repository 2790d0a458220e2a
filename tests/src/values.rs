//! The supported types, each with the values that go wrong first and a maker of random ones.
use fastrand::Rng;

/// A value as PostgreSQL's input function reads it; `None` is NULL.
pub type Value = Option<String>;

/// One column type.
pub struct Type {
    /// The name in SQL, with its collation if it has one of its own.
    pub name: &'static str,
    /// The type to cast constants to.
    pub cast: &'static str,
    /// Values at the edges of the type.
    pub edges: &'static [&'static str],
    /// A random value, from few enough that some come twice.
    pub random: fn(&mut Rng) -> String,
    /// Types whose constants the index must be able to look up too.
    pub cross: &'static [&'static str],
    /// Whether there are arrays of it, so that `= ANY (array)` exists.
    pub in_array: bool,
}

impl Type {
    /// The edges, ten random values, and NULL.
    pub fn samples(&self, seed: u64) -> Vec<Value> {
        let mut rng = Rng::with_seed(seed);
        let edges = self.edges.iter().map(|edge| Some(edge.to_string()));
        let random = (0..10).map(|_| Some((self.random)(&mut rng)));
        edges.chain(random).chain([None]).collect()
    }

    /// An edge or a random value, sometimes NULL.
    pub fn value(&self, rng: &mut Rng) -> Value {
        match rng.u32(..10) {
            0 => None,
            1..=3 => Some(rng.choice(self.edges.iter()).expect("every type has edges").to_string()),
            _ => Some((self.random)(rng)),
        }
    }

    /// The value as a constant of this type.
    pub fn constant(&self, value: &Value) -> String {
        constant(value, self.cast)
    }
}

/// A value as an SQL constant of a type.
pub fn constant(value: &Value, cast: &str) -> String {
    match value {
        Some(text) => format!("'{}'::{cast}", text.replace('\'', "''")),
        None => format!("NULL::{cast}"),
    }
}

/// A value as COPY's text format has it.
pub fn copied(value: &Value) -> String {
    let Some(text) = value else { return "\\N".into() };
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

/// The SQL that must be run in a database before `TYPES` can be used there.
pub const PREPARE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', '');
    CREATE DOMAIN word AS text CHECK (length(value) < 100000);
    CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";

const fn plain(name: &'static str, edges: &'static [&'static str], random: fn(&mut Rng) -> String) -> Type {
    Type { name, cast: name, edges, random, cross: &[], in_array: true }
}

const fn crossing(kind: Type, cross: &'static [&'static str]) -> Type {
    Type { cross, ..kind }
}

const fn collated(name: &'static str, cast: &'static str) -> Type {
    Type { name, ..plain(cast, TEXTS, word) }
}

const fn alone(kind: Type) -> Type {
    Type { in_array: false, ..kind }
}

const INTS: &[&str] = &["0", "-1", "1", "32767", "-32768"];
const FLOATS: &[&str] = &["0", "-0", "NaN", "Infinity", "-Infinity", "1", "-1", "0.1", "1e-30", "3e38"];
const TEXTS: &[&str] = &["", " ", "a", "A", "a ", "it's", "\\", "NULL", "tab\tnewline\n", "İstanbul", "ß"];
const TIMES: &[&str] = &["00:00:00", "24:00:00", "23:59:59.999999", "00:00:00.000001"];
const STAMPS: &[&str] =
    &["infinity", "-infinity", "epoch", "2000-01-01", "4713-01-01 BC", "294276-12-31 23:59:59.999999"];

/// Every type with an operator class of its own, and some that borrow one.
pub const TYPES: &[Type] = &[
    plain("boolean", &["t", "f"], |rng| rng.bool().to_string()),
    plain("\"char\"", &["", "a", "A", "~", "\\377"], |rng| rng.alphabetic().to_string()),
    crossing(plain("int2", INTS, |rng| rng.i16(-50..50).to_string()), &["int4", "int8"]),
    crossing(plain("int4", &["0", "-1", "2147483647", "-2147483648"], small), &["int2", "int8"]),
    crossing(
        plain("int8", &["0", "-1", "9223372036854775807", "-9223372036854775808"], small),
        &["int2", "int4"],
    ),
    plain("oid", &["0", "1", "4294967295"], |rng| rng.u32(..99).to_string()),
    crossing(plain("float4", FLOATS, float), &["float8"]),
    crossing(plain("float8", FLOATS, float), &["float4"]),
    plain("numeric", &["0", "-0.00", "1", "1.0", "1.000", "NaN", "Infinity", "-Infinity", "1e400"], numeric),
    crossing(plain("text", TEXTS, word), &["varchar", "name"]),
    crossing(plain("varchar", TEXTS, word), &["text", "name"]),
    crossing(plain("name", &["", "a", "A", "a "], short), &["text", "varchar"]),
    plain("char(9)", &["", "a", "a  ", "A", "123456789"], short),
    plain("bytea", &["", "\\x00", "\\x0000", "\\xff"], |rng| format!("\\x{}", hex(rng))),
    plain("uuid", &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"], |rng| {
        format!("{:032x}", u128::from(rng.u32(..99)) << 64)
    }),
    plain("date", &["infinity", "-infinity", "epoch", "4713-01-01 BC", "5874897-12-31"], day),
    plain("time", TIMES, |rng| format!("{:02}:00", rng.u32(..24))),
    plain("timetz", &["00:00+00", "24:00+00", "12:00+00", "13:00+01", "00:00-12"], |rng| {
        format!("{:02}:00+{:02}", rng.u32(..24), rng.u32(..3))
    }),
    plain("timestamp", STAMPS, day),
    plain("timestamptz", STAMPS, |rng| format!("{} {:02}:00+{:02}", day(rng), rng.u32(..3), rng.u32(..3))),
    plain("interval", &["0", "1 month", "30 days", "720 hours", "-1 month 30 days"], |rng| {
        format!("{} hours", rng.i32(-50..50))
    }),
    plain("inet", &["0.0.0.0", "::", "10.1.2.3/32", "10.1.2.3", "10.1.2.3/8", "::ffff:10.1.2.3"], |rng| {
        format!("10.0.0.{}", rng.u8(..))
    }),
    plain("cidr", &["0.0.0.0/0", "10.0.0.0/8", "::/0"], |rng| format!("10.{}.0.0/16", rng.u8(..))),
    plain("macaddr", &["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"], |rng| {
        format!("08:00:2b:01:02:{:02x}", rng.u8(..))
    }),
    plain("macaddr8", &["00:00:00:00:00:00:00:00", "08:00:2b:ff:fe:01:02:03"], |rng| {
        format!("08:00:2b:01:02:03:04:{:02x}", rng.u8(..))
    }),
    plain("xid8", &["0", "3", "18446744073709551615"], small_positive),
    plain("pg_lsn", &["0/0", "FFFFFFFF/FFFFFFFF", "1/0", "0/1"], |rng| {
        format!("{:X}/{:X}", rng.u8(..3), rng.u8(..40))
    }),
    plain(
        "jsonb",
        &["null", "{}", "[]", "1", "1.0", "1.00", "\"\"", "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1.0}"],
        |rng| format!("{{\"k\": {}, \"t\": \"{}\"}}", rng.i32(..50), word(rng).replace(['\\', '"'], "")),
    ),
    plain("mood", &["", "sad"], |rng| rng.choice(["sad", "ok", "happy"]).expect("three").into()),
    alone(plain("int4[]", &["{}", "{NULL}", "{1,NULL}", "{{1,2},{3,4}}", "[0:1]={1,2}", "{1,2}"], ints)),
    alone(plain("text[]", &["{}", "{NULL}", "{\"\"}", "{\"NULL\"}"], |rng| format!("{{\"{}\"}}", hex(rng)))),
    alone(plain("float8[]", &["{0}", "{-0}", "{NaN}"], |rng| format!("{{{}}}", float(rng)))),
    plain("int4range", &["empty", "(,)", "[1,2)", "[1,1]", "(0,1]"], |rng| {
        format!("[{},100)", rng.i32(..90))
    }),
    plain("numrange", &["empty", "(,)", "[1.0,2)", "[1,2.00)"], |rng| format!("({},)", rng.i32(..90))),
    plain("tstzrange", &["empty", "(,)", "[2000-01-01,infinity)"], |rng| format!("[{},)", day(rng))),
    plain("word", TEXTS, word),
    collated("text COLLATE \"C\"", "text"),
    collated("text COLLATE \"nocase\"", "text"),
];

fn small(rng: &mut Rng) -> String {
    rng.i32(-60..60).to_string()
}

fn small_positive(rng: &mut Rng) -> String {
    rng.u32(..99).to_string()
}

fn float(rng: &mut Rng) -> String {
    (f64::from(rng.i32(-200..200)) / 8.0 + f64::from(rng.u32(..2)) / 10.0).to_string()
}

fn numeric(rng: &mut Rng) -> String {
    match rng.u32(..20) {
        0 => format!("1{}.5", "0".repeat(rng.usize(1000..9000))), // beyond the threshold of TOAST
        _ => format!("{}{}", float(rng), if rng.bool() { "" } else { "0e0" }),
    }
}

fn hex(rng: &mut Rng) -> String {
    match rng.u32(..20) {
        0 => (0..rng.usize(100..1500)).map(|_| format!("{:016x}", rng.u64(..))).collect(), // does not compress
        _ => format!("{:02x}", rng.u8(..)),
    }
}

fn short(rng: &mut Rng) -> String {
    format!("w{}", rng.u32(..99))
}

fn word(rng: &mut Rng) -> String {
    match rng.u32(..20) {
        0 => hex(rng) + &hex(rng),
        1 => "long and dull ".repeat(rng.usize(100..1500)), // compresses, in line or in the TOAST table
        2 => short(rng).to_uppercase(),
        _ => short(rng),
    }
}

fn day(rng: &mut Rng) -> String {
    format!("2024-{:02}-{:02}", rng.u32(1..13), rng.u32(1..29))
}

fn ints(rng: &mut Rng) -> String {
    let count = if rng.u32(..20) == 0 { 2000 } else { rng.usize(1..4) };
    let items: Vec<_> = (0..count).map(|_| rng.i32(..9).to_string()).collect();
    format!("{{{}}}", items.join(","))
}
