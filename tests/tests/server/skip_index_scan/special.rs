//! Scans and tables of special kinds: samples, triggers, generated columns, parents alone, tables without rows or
//! without filters.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same, skips};

const TABLE: &str = "
    CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 300));
    INSERT INTO t SELECT i, i / 5, i FROM generate_series(1, 2000) i;
    CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 2)";

on_shared!(samples);
fn samples(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    for sample in ["BERNOULLI (60) REPEATABLE (7)", "SYSTEM (60) REPEATABLE (7)", "BERNOULLI (100)"] {
        for condition in ["k = 77", "k IN (1, 77, 200)", "k = 7 OR v = '1999'"] {
            let sql = format!("SELECT id FROM t TABLESAMPLE {sample} WHERE {condition}");
            let used = same(&mut session, &Way::skip_scan(), &Case::any(&sql));
            assert!(!used, "a sample is no Skip Index Scan: {sql}");
        }
    }
}

on_shared!(triggers);
fn triggers(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(
        "CREATE TABLE log (what text);
         CREATE FUNCTION before_change() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO log VALUES (format('%s %s', TG_OP, OLD.id));
                IF OLD.id % 5 = 0 THEN RETURN NULL; END IF;
                IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
                NEW.k := NEW.k + 1000;
                -- It asks by a Skip Index Scan of its own, while another is under way.
                NEW.v := (SELECT count(*) FROM t WHERE k = OLD.k);
                RETURN NEW;
            END $$;
         CREATE FUNCTION after_change() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO log SELECT format('%s rows, %s keys', count(*), count(DISTINCT k)) FROM gone;
                RETURN NULL;
            END $$;
         CREATE TRIGGER one BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION before_change();
         CREATE TRIGGER two AFTER UPDATE ON t REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION after_change();
         CREATE TRIGGER three AFTER DELETE ON t REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION after_change()",
    );
    for condition in
        ["k = 77", "k IN (7, 8, 1007)", "k = 7 OR v = '1999'", "k = 99999", "v IS NOT NULL AND k = 3"]
    {
        for change in ["UPDATE t SET v = 'changed'", "UPDATE t SET k = 7", "DELETE FROM t"] {
            let case = Case {
                after: "SELECT what FROM log; SELECT id, k, v FROM t WHERE k > 1000 OR v = 'changed';
                        SELECT count(*), sum(k), sum(length(v)) FROM t"
                    .into(),
                ..Case::using(format!("{change} WHERE {condition} RETURNING id, k, v"))
            };
            assert!(same(&mut session, &Way::skip_scan(), &case));
        }
    }
}

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

on_shared!(empty_and_unsummarized);
fn empty_and_unsummarized(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 4, autosummarize = off)",
    );
    for step in [
        "SELECT 1",
        "INSERT INTO t SELECT i, i / 5 FROM generate_series(1, 3000) i",
        "SELECT skip_summarize('t_skip')",
        "INSERT INTO t SELECT i, i / 5 FROM generate_series(3001, 3500) i",
        "DELETE FROM t WHERE id > 1000",
        "VACUUM t",
        "DELETE FROM t",
        "VACUUM t",
        "INSERT INTO t SELECT i, NULL FROM generate_series(1, 100) i",
        "TRUNCATE t",
    ] {
        session.run(step);
        for condition in ["k = 7", "k = 500", "k = 9999", "k IN (1, 650, 699)", "k IS NULL", "k IS NOT NULL"]
        {
            for way in [Way::skip_scan(), Way::skip_scan().parallel()] {
                let sql = format!("SELECT id, k FROM t WHERE {condition}");
                assert!(same(&mut session, &way, &Case::using(&sql)), "{sql} after {step}");
            }
        }
        let plan = session.plan("SELECT * FROM t WHERE (k = 7) IS TRUE");
        assert!(!skips(&plan), "no index serves this:\n{plan}");
    }
}
