//! Statements by a Skip Index Scan that fire triggers, which ask by Skip Index Scans of their own.
use super::TABLE;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same};

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

on_shared!(while_a_transaction_commits);
/// A session whose first Skip Index Scan is that of a deferred trigger: what a session does once, it does then.
fn while_a_transaction_commits(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(
        "CREATE TABLE log (found bigint); CREATE TABLE fires (k int);
         CREATE FUNCTION look_up() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO log SELECT count(*) FROM t WHERE k = NEW.k; RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON fires DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION look_up()",
    );
    let mut fresh = database.session();
    fresh.run("SET pg_skip.force_indexes = 't_skip'");
    fresh.run("BEGIN; INSERT INTO fires VALUES (7), (99999); COMMIT");
    let expected = session.rows("SELECT count(*) FROM t WHERE k IN (7, 99999)");
    assert_ne!(expected, session.rows("SELECT 0::bigint"));
    assert_eq!(session.rows("SELECT sum(found)::bigint FROM log"), expected);
}
