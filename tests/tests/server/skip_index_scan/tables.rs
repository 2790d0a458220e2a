//! The tables that the generated statements are about: one by itself, three kinds of partitions, a family by
//! inheritance. All have the same columns, each column its own way of clustering, and several skip indexes of different
//! ranges; a history between the questions leaves tails without filters, deltas, and dead rows.
use fastrand::Rng;
use pg_skip_tests::session::Session;

/// The tables that statements name.
pub const TABLES: [&str; 5] = ["whole", "hashed", "ranged", "listed", "family"];

/// The tables that hold the rows.
const LEAVES: [&str; 15] = [
    "whole",
    "hashed_0",
    "hashed_1",
    "hashed_2",
    "ranged_a",
    "ranged_b",
    "ranged_c_true",
    "ranged_c_other",
    "ranged_d",
    "listed_a",
    "listed_b",
    "listed_c",
    "family",
    "family_one",
    "family_two",
];

const COLUMNS: &str = "id int, k int, n bigint, s smallint, t text, u uuid, b boolean, filler text";

/// The order of the columns differs among partitions, and one has had a column more.
const MAKE: &str = "
    CREATE FUNCTION mix(i int, salt int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE sql AS
        'SELECT abs(hashint8(i::bigint * 1000 + salt) / 2)';
    CREATE TABLE whole (COLUMNS) WITH (fillfactor = 80);
    CREATE TABLE hashed (COLUMNS) PARTITION BY HASH (id);
    CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 3, REMAINDER 0);
    CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 3, REMAINDER 1);
    CREATE TABLE hashed_2 PARTITION OF hashed FOR VALUES WITH (MODULUS 3, REMAINDER 2);
    CREATE TABLE ranged (COLUMNS) PARTITION BY RANGE (id);
    CREATE TABLE ranged_a PARTITION OF ranged FOR VALUES FROM (MINVALUE) TO (700);
    CREATE TABLE ranged_b (filler text, gone int, b boolean, u uuid, t text, s smallint, n bigint, k int, id int);
    ALTER TABLE ranged_b DROP COLUMN gone;
    ALTER TABLE ranged ATTACH PARTITION ranged_b FOR VALUES FROM (700) TO (1500);
    CREATE TABLE ranged_c PARTITION OF ranged FOR VALUES FROM (1500) TO (5000) PARTITION BY LIST (b);
    CREATE TABLE ranged_c_true PARTITION OF ranged_c FOR VALUES IN (true);
    CREATE TABLE ranged_c_other PARTITION OF ranged_c DEFAULT;
    CREATE TABLE ranged_d PARTITION OF ranged DEFAULT;
    CREATE TABLE listed (COLUMNS) PARTITION BY LIST (s);
    CREATE TABLE listed_a PARTITION OF listed FOR VALUES IN (0, 1, 2, 3, 4, 5, 6);
    CREATE TABLE listed_b PARTITION OF listed FOR VALUES IN (7, 8, 9, 10, 11, 12, NULL);
    CREATE TABLE listed_c PARTITION OF listed DEFAULT;
    CREATE TABLE family (COLUMNS);
    CREATE TABLE family_one (extra int, COLUMNS) INHERITS (family);
    CREATE TABLE family_two (COLUMNS, extra text) INHERITS (family)";

/// For each table a view, and functions that PostgreSQL can and cannot inline.
const AROUND: &str = "
    CREATE VIEW v_NAMED AS SELECT * FROM NAMED WHERE n IS NOT NULL;
    CREATE FUNCTION inlined_NAMED(key int) RETURNS SETOF NAMED STABLE LANGUAGE sql AS
        'SELECT * FROM NAMED WHERE k = key';
    CREATE FUNCTION looped_NAMED(first int, last int) RETURNS TABLE (key int, ids int[]) LANGUAGE plpgsql AS $$
        BEGIN
            FOR key IN first .. last LOOP
                ids := (SELECT array_agg(id ORDER BY id) FROM NAMED WHERE k = key);
                RETURN NEXT;
            END LOOP;
        END $$;
    CREATE FUNCTION fetched_NAMED(key text) RETURNS SETOF int LANGUAGE plpgsql AS $$
        DECLARE
            matches CURSOR (wanted text) FOR SELECT id FROM NAMED WHERE t = wanted OR lower(t) = wanted ORDER BY id;
        BEGIN
            FOR match IN matches (key) LOOP
                RETURN NEXT match.id;
            END LOOP;
        END $$;";

/// The tables and what has happened to them.
pub struct Tables {
    pub rng: Rng,
    /// All statements so far: with them a failure can be played again.
    pub log: Vec<String>,
    next_id: u32,
}

impl Tables {
    /// Makes the tables anew, with rows and indexes.
    pub fn create(session: &mut Session, rng: Rng) -> Self {
        let mut tables = Self { rng, log: Vec::new(), next_id: 0 };
        tables.run(
            session,
            "DROP SCHEMA IF EXISTS made CASCADE; CREATE SCHEMA made; SET search_path = made, public",
        );
        tables.run(session, &MAKE.replace("COLUMNS", COLUMNS));
        for table in TABLES {
            tables.run(session, &AROUND.replace("NAMED", table));
            tables.insert(session, table, 400);
        }
        for leaf in LEAVES {
            tables.index(session, leaf);
        }
        for table in TABLES {
            let count = tables.rng.u32(100..400);
            tables.insert(session, table, count);
        }
        for table in TABLES {
            tables.run(session, &format!("ANALYZE {table}"));
        }
        tables
    }

    /// Runs and remembers a statement.
    #[track_caller]
    fn run(&mut self, session: &mut Session, sql: &str) {
        self.log.push(sql.into());
        session.run(sql);
    }

    /// Every column is in an index, `s` in a partial one only.
    fn index(&mut self, session: &mut Session, leaf: &str) {
        for (name, elements, predicate) in [
            ("kt", "k, t", ""),
            ("u", "u", ""),
            ("nb", "n, b", ""),
            ("s", "s", "WHERE b"),
            ("ex", "lower(t), (k % 10)", ""),
        ] {
            let pages = self.pick(&[1, 1, 2, 3, 4, 6]);
            let rate = self.pick(&["0.2", "0.05", "0.01", "1e-4"]);
            let automatic = self.pick(&["on", "off", "off"]);
            self.run(
                session,
                &format!(
                    "CREATE INDEX {leaf}_{name} ON {leaf} USING skip ({elements})
                     WITH (pages_per_range = {pages}, false_positive_rate = {rate}, autosummarize = {automatic})
                     {predicate}"
                ),
            );
        }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        self.rng.choice(from).expect("something to pick").clone()
    }

    /// Rows of new ids; `k` climbs slowly, `b` comes in stretches, the others are scattered.
    fn insert(&mut self, session: &mut Session, table: &str, count: u32) {
        let (first, salt) = (self.next_id, self.rng.u32(..99));
        self.next_id += count;
        let last = self.next_id - 1;
        // The ids of all tables are taken from one sequence, so that a table's keys are spread over all values.
        let into = if table == "family" { self.pick(&["family", "family_one", "family_two"]) } else { table };
        self.run(
            session,
            &format!(
                "INSERT INTO {into} (id, k, n, s, t, u, b, filler)
                 SELECT i, i / 8 % 200 + mix(i, {salt}) % 4,
                    CASE WHEN mix(i, {salt} + 1) % 7 > 0 THEN mix(i, {salt} + 1) % 300 END,
                    mix(i, {salt} + 2) % 20,
                    CASE WHEN mix(i, {salt} + 3) % 9 > 0 THEN
                        CASE WHEN mix(i, {salt} + 4) % 3 > 0 THEN 'w' ELSE 'W' END || mix(i, {salt} + 3) % 120 END,
                    CASE WHEN mix(i, {salt} + 5) % 30 > 0 THEN md5((mix(i, {salt} + 5) % 250)::text)::uuid END,
                    CASE i / 90 % 3 WHEN 0 THEN mix(i, {salt}) % 60 = 0 WHEN 1 THEN true END,
                    repeat('x', 400)
                 FROM generate_series({first}, {last}) i"
            ),
        );
    }

    fn some_rows(&mut self) -> String {
        let divisor = self.rng.u32(7..60);
        format!("id % {divisor} = {}", self.rng.u32(..divisor))
    }

    /// Does one thing to one table.
    pub fn step(&mut self, session: &mut Session) {
        let (table, leaf, rows) = (self.pick(&TABLES), self.pick(&LEAVES), self.some_rows());
        let key = self.rng.u32(..200);
        match self.rng.u32(..16) {
            0..=2 => {
                let count = self.rng.u32(1..120);
                self.insert(session, table, count);
            }
            3 => self.run(session, &format!("UPDATE {table} SET k = {key} WHERE {rows}")),
            4 => self
                .run(session, &format!("UPDATE {table} SET n = {key}, t = 'w{key}', b = NOT b WHERE {rows}")),
            5 => self.run(session, &format!("UPDATE {table} SET s = {key} % 20, u = NULL WHERE {rows}")),
            6..=7 => self.run(session, &format!("DELETE FROM {table} WHERE {rows}")),
            8 => self
                .run(session, &format!("BEGIN; UPDATE {table} SET k = 7, t = 'W7' WHERE {rows}; ROLLBACK")),
            9..=10 => self.run(session, &format!("VACUUM {table}")),
            11 => self.run(session, &format!("VACUUM (ANALYZE, FREEZE) {leaf}")),
            12 => self.run(session, &format!("REINDEX INDEX {leaf}_nb")),
            13 => {
                self.run(
                    session,
                    &format!(
                        "DROP INDEX {}",
                        ["kt", "u", "nb", "s", "ex"].map(|name| format!("{leaf}_{name}")).join(", ")
                    ),
                );
                self.index(session, leaf);
            }
            _ => {
                for index in ["kt", "u", "nb"] {
                    self.run(session, &format!("SELECT skip_summarize('{leaf}_{index}')"));
                }
            }
        }
    }
}
