-- Statistics of Skip Index Scans.

CREATE FUNCTION pg_skip_stats_counters(
    OUT indexrelid oid,
    OUT scans bigint,
    OUT ranges_checked bigint,
    OUT ranges_skipped bigint,
    OUT full_positives bigint,
    OUT true_positives bigint)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'pg_skip_stats_counters_wrapper';
COMMENT ON FUNCTION pg_skip_stats_counters() IS
    'the counters of pg_skip_stats, including those of dropped indexes; not meant to be called directly';

CREATE FUNCTION pg_skip_stats_state(OUT scope text, OUT is_full boolean, OUT stats_reset timestamptz)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'pg_skip_stats_state_wrapper';
COMMENT ON FUNCTION pg_skip_stats_state() IS
    'the state of pg_skip_stats: whether counters are kept for the server or the session, whether there is no room '
    'for further indexes, and the time of the last reset; not meant to be called directly';

-- An index without counters was never scanned: 0. If there is no room for further indexes, it may have been: NULL.
CREATE VIEW pg_skip_stats AS
SELECT n.nspname AS schemaname,
       t.relname AS tablename,
       i.relname AS indexname,
       i.oid AS indexrelid,
       coalesce(c.scans, k.zero) AS scans,
       coalesce(c.ranges_checked, k.zero) AS ranges_checked,
       coalesce(c.ranges_skipped, k.zero) AS ranges_skipped,
       coalesce(c.full_positives, k.zero) AS full_positives,
       coalesce(c.true_positives, k.zero) AS true_positives,
       f.false_positives::double precision / nullif(f.false_positives + c.ranges_skipped, 0)::double precision
           AS measured_false_positive_rate,
       s.scope,
       s.stats_reset
FROM pg_catalog.pg_class i
JOIN pg_catalog.pg_am a ON a.oid = i.relam AND a.amname = 'skip'
JOIN pg_catalog.pg_index x ON x.indexrelid = i.oid
JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace
CROSS JOIN pg_skip_stats_state() s
CROSS JOIN LATERAL (SELECT CASE WHEN NOT s.is_full THEN 0::bigint END AS zero) k
LEFT JOIN pg_skip_stats_counters() c ON c.indexrelid = i.oid
-- Not negative, even if a reset happens while a scan is being counted.
CROSS JOIN LATERAL (SELECT greatest(c.full_positives - c.true_positives, 0) AS false_positives) f
-- The counters tell how often conditions were true. Only roles that may read all rows, and monitors, may see them.
WHERE i.relkind = 'i'
  AND (pg_catalog.pg_has_role('pg_monitor', 'USAGE')
       OR pg_catalog.has_table_privilege(x.indrelid, 'SELECT') AND NOT pg_catalog.row_security_active(x.indrelid));
COMMENT ON VIEW pg_skip_stats IS
    'one row for each skip index of the database: number of Skip Index Scans, of block ranges looked up in '
    'it, of ranges skipped, of ranges read in full, and of ranges read in full that had a matching row, and the '
    'measured false-positive rate; counted since the server started or since the last reset, by all sessions or by '
    'this one: see column scope';
GRANT SELECT ON pg_skip_stats TO PUBLIC;

CREATE FUNCTION pg_skip_stats_reset()
    RETURNS void
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'pg_skip_stats_reset_wrapper';
COMMENT ON FUNCTION pg_skip_stats_reset() IS
    'sets all counters of pg_skip_stats to zero: those of all databases if scope is "server", else those of the '
    'session';
REVOKE ALL ON FUNCTION pg_skip_stats_reset() FROM PUBLIC;
