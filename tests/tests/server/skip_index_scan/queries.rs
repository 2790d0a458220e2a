//! Random queries over `tables`: every shape in which a Skip Index Scan can stand in a plan.
use super::conditions::{Condition, Conditions};
use super::tables::TABLES;
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way};

/// A random query, and a way that suits it.
pub fn random(rng: &mut Rng) -> (Case, Way) {
    let case = Asker { rng }.query();
    let (way, strict) = way(rng);
    (Case { must: case.must && strict, ..case }, way)
}

/// How the planner is to find its Skip Index Scan, and whether nothing else is left to it.
pub fn way(rng: &mut Rng) -> (Way, bool) {
    let way = Way::skip_scan();
    match rng.u32(..20) {
        0..=7 => (way, true),
        8..=9 => (way.nested_loop(), true),
        10..=11 => (way.nested_loop().with("enable_material", "on").with("enable_memoize", "off"), true),
        12 => (way.nested_loop().with("enable_partitionwise_join", "on"), true),
        13 => (way.with("enable_hashjoin", "off").with("enable_nestloop", "off"), false),
        14..=15 => (way.parallel(), true),
        16 => (way.parallel().with("parallel_leader_participation", "off"), true),
        17 => (way.with("enable_bitmapscan", "on"), true),
        18 => (way.with("enable_seqscan", "on").with("enable_partitionwise_join", "on"), false),
        _ => (way.with("pg_skip.plan_probe_pages", "0"), true),
    }
}

/// A table with a condition on it: `table alias` and the condition.
struct Source {
    from: String,
    condition: Condition,
}

/// Makes conditions on tables.
pub struct Asker<'a> {
    pub rng: &'a mut Rng,
}

impl Asker<'_> {
    pub fn table(&mut self) -> &'static str {
        self.rng.choice(&TABLES).expect("tables")
    }

    pub fn condition(&mut self, alias: &str) -> Condition {
        let depth = self.rng.u32(..4);
        Conditions::new(self.rng, alias).tree(depth)
    }

    fn source(&mut self, alias: &str) -> Source {
        Source { from: format!("{} {alias}", self.table()), condition: self.condition(alias) }
    }

    fn query(&mut self) -> Case {
        match self.rng.u32(..36) {
            0..=11 => self.rows(),
            12..=13 => self.limited(),
            14..=15 => self.aggregated(),
            16..=18 => self.joined(),
            19..=20 => self.outer_joined(),
            21..=22 => self.semi_joined(),
            23..=25 => self.parameterised(),
            26..=27 => self.with_subplan(),
            28..=29 => self.with_cte(),
            30..=31 => self.set_operation(),
            32..=33 => self.locking(),
            _ => self.through_view_or_function(),
        }
    }

    fn rows(&mut self) -> Case {
        let Source { from, condition } = self.source("x");
        let list = *self
            .rng
            .choice(&[
                "x.id",
                "x.*",
                "x",
                "x.ctid, x.tableoid::regclass, x.xmin, x.cmin, x.id",
                "lower(x.t), x.k + 1, x.id, x.n IS NULL",
                "x::text, (x).k",
                "1",
                "DISTINCT x.k, x.b",
            ])
            .expect("lists");
        let more = *self
            .rng
            .choice(&["", "", "", "", " AND x IS NOT NULL", " AND x.ctid <> '(0,1)'", " AND x.id % 3 > 0"])
            .expect("conditions");
        let sql = format!("SELECT {list} FROM {from} WHERE ({}){more}", condition.sql);
        Case { must: condition.sure, ..Case::any(sql) }
    }

    fn limited(&mut self) -> Case {
        let Source { from, condition } = self.source("x");
        let (limit, offset) = (self.rng.u32(1..30), self.rng.u32(..8));
        let limits = format!("LIMIT {limit} OFFSET {offset}");
        let rest = format!("FROM {from} WHERE {}", condition.sql);
        let (sql, ordered) = match self.rng.u32(..4) {
            0 => (format!("SELECT x.id, x.t {rest} ORDER BY x.id {limits}"), true),
            1 => (format!("SELECT x.id, x.n {rest} ORDER BY x.n DESC NULLS LAST, x.id {limits}"), true),
            2 => (format!("SELECT DISTINCT ON (x.k) x.k, x.id {rest} ORDER BY x.k, x.id {limits}"), true),
            // Which rows these are is open, but not how many.
            _ => (format!("SELECT count(*) FROM (SELECT 1 {rest} {limits}) q"), false),
        };
        Case { ordered, must: condition.sure, ..Case::any(sql) }
    }

    fn aggregated(&mut self) -> Case {
        let Source { from, condition } = self.source("x");
        let rest = format!("FROM {from} WHERE {}", condition.sql);
        let sql = match self.rng.u32(..5) {
            0 => format!("SELECT count(*), sum(x.k), min(x.t), max(x.n), count(x.u) {rest}"),
            1 => format!("SELECT x.b, array_agg(x.id ORDER BY x.id) {rest} GROUP BY x.b HAVING count(*) > 1"),
            2 => format!("SELECT x.s, x.b, count(*) {rest} GROUP BY GROUPING SETS ((x.s), (x.b), ())"),
            3 => format!("SELECT x.id, row_number() OVER (PARTITION BY x.b ORDER BY x.k, x.id) {rest}"),
            _ => format!("SELECT x.s, count(DISTINCT x.k) FILTER (WHERE x.b), sum(x.n) {rest} GROUP BY x.s"),
        };
        Case { must: condition.sure, ..Case::any(sql) }
    }

    /// What joins of `x` and `y` are compared by: all of their rows in three numbers.
    const SUM: &'static str = "count(*), sum((coalesce(x.id, -1) * 7919 + coalesce(y.id, -1)) % 1000003),
        max(coalesce(x.k, 0) + coalesce(y.k, 0))";

    fn on(&mut self) -> &'static str {
        self.rng
            .choice(&[
                "x.k = y.k",
                "x.k = y.k",
                "x.n = y.n",
                "x.t = y.t",
                "x.u = y.u AND x.k = y.k",
                "x.k = y.n",
                "lower(x.t) = y.t",
                "x.k % 10 = y.s",
                "x.b AND x.s = y.s AND y.b",
            ])
            .expect("join conditions")
    }

    fn joined(&mut self) -> Case {
        let (x, y, on) = (self.source("x"), self.source("y"), self.on());
        let sql = format!(
            "SELECT {} FROM {} JOIN {} ON {on} WHERE ({}) AND ({})",
            Self::SUM,
            x.from,
            y.from,
            x.condition.sql,
            y.condition.sql
        );
        Case { must: x.condition.sure && y.condition.sure, ..Case::any(sql) }
    }

    fn outer_joined(&mut self) -> Case {
        let (x, y, on) = (self.source("x"), self.source("y"), self.on());
        let (left, right) = (&x.condition.sql, &y.condition.sql);
        let sum = Self::SUM;
        let (x_from, y_from) = (&x.from, &y.from);
        let sql = match self.rng.u32(..4) {
            0 => format!("SELECT {sum} FROM {x_from} LEFT JOIN {y_from} ON {on} AND ({right}) WHERE {left}"),
            1 => format!("SELECT {sum} FROM {y_from} RIGHT JOIN {x_from} ON {on} AND ({right}) WHERE {left}"),
            2 => format!(
                "SELECT {sum} FROM {x_from} LEFT JOIN {y_from} ON {on} AND ({right})
                 WHERE ({left}) AND (y.id IS NULL OR y.k = 7)"
            ),
            _ => format!(
                "SELECT {sum} FROM (SELECT * FROM {x_from} WHERE {left}) x
                 FULL JOIN (SELECT * FROM {y_from} WHERE {right}) y ON x.k = y.k"
            ),
        };
        Case { must: x.condition.sure && y.condition.sure, ..Case::any(sql) }
    }

    fn semi_joined(&mut self) -> Case {
        let (x, y, on) = (self.source("x"), self.source("y"), self.on());
        let (from, condition) = (&x.from, &x.condition.sql);
        let inner = format!("FROM {} WHERE ({})", y.from, y.condition.sql);
        let semi = match self.rng.u32(..5) {
            0 => format!("EXISTS (SELECT {inner} AND {on})"),
            1 => format!("NOT EXISTS (SELECT {inner} AND {on})"),
            2 => format!("x.k IN (SELECT y.k {inner})"),
            3 => format!("(x.n, x.k) IN (SELECT y.n, y.k {inner})"),
            _ => format!("x.n NOT IN (SELECT y.n {inner})"),
        };
        let sql = format!("SELECT x.id, x.k FROM {from} WHERE ({condition}) AND {semi}");
        Case { must: x.condition.sure && y.condition.sure, ..Case::any(sql) }
    }

    /// The table on the inner side of a nested loop, its key a parameter that changes with every outer row.
    fn parameterised(&mut self) -> Case {
        let table = self.table();
        let mut rest = self.condition("x").sql;
        if self.rng.bool() {
            rest = "true".into();
        }
        let keys: Vec<_> = (0..self.rng.u32(1..7)).map(|_| format!("({})", self.rng.u32(..220))).collect();
        let keys = keys.join(", ");
        let sql = match self.rng.u32(..6) {
            0 => format!(
                "SELECT v.k, x.id FROM (VALUES {keys}, (NULL)) v (k) LEFT JOIN {table} x ON x.k = v.k AND ({rest})"
            ),
            1 => format!("SELECT v.k, x.id FROM (VALUES {keys}) v (k) JOIN {table} x ON x.n = v.k WHERE {rest}"),
            2 => format!(
                "SELECT v.k, q.* FROM (VALUES {keys}) v (k),
                 LATERAL (SELECT x.id, x.t FROM {table} x WHERE x.k = v.k AND ({rest}) ORDER BY x.id LIMIT 3) q"
            ),
            3 => format!(
                "SELECT v.k, q.* FROM (VALUES {keys}) v (k)
                 LEFT JOIN LATERAL (SELECT count(*), min(x.id) FROM {table} x
                    WHERE x.t IN ('w' || v.k, 'W' || v.k / 2) AND ({rest})) q ON true"
            ),
            4 => format!(
                "SELECT v.k, x.id FROM (VALUES {keys}) v (k)
                 JOIN LATERAL (SELECT * FROM {table} x WHERE x.k = ANY (ARRAY[v.k, v.k + 50]) OFFSET 0) x ON {rest}"
            ),
            _ => format!(
                "SELECT o.id, x.id FROM (SELECT * FROM whole WHERE k = 17) o
                 JOIN {table} x ON (x.k, x.n) = (o.k, o.n) OR x.u = o.u WHERE {rest}"
            ),
        };
        Case { must: !sql.contains("OR x.u"), ..Case::any(sql) }
    }

    fn with_subplan(&mut self) -> Case {
        let x = self.source("x");
        let (table, condition) = (self.table(), &x.condition.sql);
        let from = format!("FROM {} WHERE {condition}", x.from);
        let sql = match self.rng.u32(..4) {
            0 => format!("SELECT x.id, (SELECT count(*) FROM {table} y WHERE y.k = x.k) {from}"),
            1 => {
                format!("SELECT x.id, ARRAY(SELECT y.id FROM {table} y WHERE y.n = x.n ORDER BY y.id) {from}")
            }
            2 => {
                format!("SELECT x.id, EXISTS (SELECT FROM {table} y WHERE y.u = x.u AND y.id <> x.id) {from}")
            }
            _ => format!(
                "SELECT x.id FROM {} WHERE ({condition}) AND x.k = (SELECT max(y.k) FROM {table} y WHERE y.t = x.t)",
                x.from
            ),
        };
        Case { must: x.condition.sure && !sql.contains("EXISTS"), ..Case::any(sql) }
    }

    fn with_cte(&mut self) -> Case {
        let x = self.source("x");
        let (table, key) = (self.table(), self.rng.u32(..200));
        let (from, condition) = (&x.from, &x.condition.sql);
        let cte = *self.rng.choice(&["MATERIALIZED", "NOT MATERIALIZED", ""]).expect("kinds");
        let sql = match self.rng.u32(..3) {
            0 => format!(
                "WITH c AS {cte} (SELECT * FROM {from} WHERE {condition})
                 SELECT {} FROM c x JOIN c y ON x.b = y.b AND x.k = y.k",
                Self::SUM
            ),
            1 => format!(
                "WITH c AS {cte} (SELECT x.k, count(*) FROM {from} WHERE {condition} GROUP BY x.k)
                 SELECT c.*, y.id FROM c JOIN {table} y ON y.k = c.k AND y.n = 7"
            ),
            _ => {
                let sql = format!(
                    "WITH RECURSIVE r (k, depth) AS (
                        SELECT {key}, 0 UNION SELECT y.k + 1, depth + 1 FROM r JOIN {table} y ON y.k = r.k
                        WHERE depth < 4)
                     SELECT k, depth FROM r"
                );
                return Case::using(sql);
            }
        };
        Case { must: x.condition.sure, ..Case::any(sql) }
    }

    fn set_operation(&mut self) -> Case {
        let (x, y) = (self.source("x"), self.source("y"));
        let word = *self
            .rng
            .choice(&["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
            .expect("operations");
        let sql = format!(
            "SELECT x.k, x.b FROM {} WHERE {} {word} SELECT y.k, y.b FROM {} WHERE {}",
            x.from, x.condition.sql, y.from, y.condition.sql
        );
        Case { must: x.condition.sure && y.condition.sure, ..Case::any(sql) }
    }

    fn locking(&mut self) -> Case {
        let x = self.source("x");
        let strength =
            *self.rng.choice(&["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]).expect("strengths");
        let wait = *self.rng.choice(&["", "SKIP LOCKED", "NOWAIT"]).expect("waits");
        let limit = if self.rng.bool() { "" } else { "LIMIT 5" };
        let (from, condition, lock) = (&x.from, &x.condition.sql, format!("FOR {strength}"));
        let sql = match self.rng.u32(..3) {
            0 => {
                format!("SELECT x.id, x.k FROM {from} WHERE {condition} ORDER BY x.id {limit} {lock} {wait}")
            }
            1 => format!(
                "SELECT x.id, y.id FROM {from} JOIN whole y ON x.k = y.k AND y.n = 9
                 WHERE {condition} {lock} OF x {wait}"
            ),
            _ => format!("SELECT count(*) FROM (SELECT 1 FROM {from} WHERE {condition} {lock} {wait}) q"),
        };
        Case { must: x.condition.sure, ..Case::any(sql) }
    }

    fn through_view_or_function(&mut self) -> Case {
        let (table, key) = (self.table(), self.rng.u32(..200));
        let condition = self.condition("x");
        match self.rng.u32(..4) {
            0 => {
                let sql = format!("SELECT x.* FROM v_{table} x WHERE {}", condition.sql);
                Case { must: true, ..Case::any(sql) } // the view's own condition can be served
            }
            1 => Case::using(format!("SELECT x.id FROM inlined_{table}({key}) x WHERE {}", condition.sql)),
            2 => Case::any(format!("SELECT * FROM looped_{table}({key}, {key} + 9)")),
            _ => Case::any(format!("SELECT fetched_{table}('w{}')", key % 120)),
        }
    }
}
