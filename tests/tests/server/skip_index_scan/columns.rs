//! Columns of all kinds: dropped, added later, generated, of composite types, out of line, of domains; and parents
//! alone.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same};

on_shared!(columns_of_all_kinds);
fn columns_of_all_kinds(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE DOMAIN code AS int CHECK (value >= 0);
         CREATE TYPE pair AS (a int, b text);
         CREATE TABLE t (gone text, id int, c code, g int GENERATED ALWAYS AS (id % 90) STORED, p pair, long text,
            arr int[], v varchar(20), ch char(5));
         ALTER TABLE t ALTER long SET STORAGE EXTERNAL;
         INSERT INTO t (gone, id, c, p, long, arr, v, ch)
            SELECT 'gone', i, i / 7, (i, i::text)::pair, repeat(i::text, 1000), ARRAY[i / 3, i], i / 2, i % 40
            FROM generate_series(1, 2000) i;
         ALTER TABLE t DROP COLUMN gone;
         ALTER TABLE t ADD COLUMN late int DEFAULT 5;
         INSERT INTO t (id, c, late) SELECT i, 3, i FROM generate_series(3000, 3100) i;
         CREATE INDEX t_skip ON t USING skip (c, g, long, arr, v, ch, late) WITH (pages_per_range = 1);
         CREATE TABLE child () INHERITS (t);
         INSERT INTO child (id, c, late) SELECT i, i % 9, 6 FROM generate_series(4000, 4500) i;
         CREATE INDEX child_skip ON child USING skip (c, late) WITH (pages_per_range = 1)",
    );
    for condition in [
        "c = 7",
        "c IN (7, 8::code)",
        "g = 7",
        "g = 7 AND c = 100",
        "long = repeat('77', 1000)",
        "arr = '{100,300}'",
        "arr IN ('{100,300}', '{100,301}')",
        "v = '77'",
        "v = '77'::varchar(2)",
        "ch = '7'",
        "ch = '7    '",
        "late = 5",
        "late = 3050",
        "late IN (5, 3050) AND long IS NULL",
        "p = (77, '77')::pair AND c = 11",
    ] {
        for list in ["t", "t.*", "length(long), p, (p).b", "ctid, xmin, tableoid::regclass, late"] {
            let sql = format!("SELECT {list} FROM ONLY t WHERE {condition}");
            assert!(same(&mut session, &Way::skip_scan(), &Case::using(sql)), "{condition}");
        }
    }
    for condition in ["c = 7", "late = 6", "late IN (5, 6) AND c = 3"] {
        same(
            &mut session,
            &Way::skip_scan(),
            &Case::using(format!("SELECT t.*, t FROM t WHERE {condition}")),
        );
    }
}
