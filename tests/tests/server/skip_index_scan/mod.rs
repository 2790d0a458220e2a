//! The Skip Index Scan: a statement with it gives the same results as without it, EXPLAIN shows correct numbers of it,
//! and the planner chooses it where it helps.
mod blocked;
mod buffers;
mod bytes_on_pages;
mod changes;
mod choice;
mod collations;
mod columns;
mod conditions;
mod counters;
mod cursors;
mod explained;
mod failures;
mod formats;
mod gathers;
mod generated;
mod hooks;
mod isolation;
mod keys;
mod known_pages;
mod lists;
mod planned;
mod prepared;
mod pruning;
mod queries;
mod refusals;
mod security;
mod serializable;
mod settings;
mod snapshots;
mod tables;
mod triggers;
mod unsummarized;
mod walked_rows;

use pg_skip_tests::session::Session;

/// Two thousand rows, five of a key.
pub const TABLE: &str = "
    CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 300));
    INSERT INTO t SELECT i, i / 5, i FROM generate_series(1, 2000) i;
    CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 2)";

/// Random keys, and others that rule out half of the ranges or nearly all.
pub fn table_of_uuids(session: &mut Session) {
    session.run(
        "CREATE TABLE t AS SELECT i AS id, md5(i::text)::uuid AS u, i % 2 = 0 AS b, i / 500 AS stretch,
             repeat('x', 100) AS filler FROM generate_series(1, 30000) i;
         CREATE INDEX t_u ON t USING skip (u);
         CREATE INDEX t_b ON t USING skip (b, stretch) WITH (pages_per_range = 6)",
    );
    session.run("VACUUM ANALYZE t");
}
