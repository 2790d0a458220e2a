-- What was measured, and how it is written: tables in Markdown, and JSON. Loaded by lib.sql, and by the test that reads
-- docs/results again.

CREATE SCHEMA bench;

-- What the figures depend on: date, revision, versions, machine, settings, size of the table, parameters of the run.
CREATE TABLE bench.context (
    name  text PRIMARY KEY,
    value text NOT NULL
);

CREATE FUNCTION bench.context(name text) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT value FROM bench.context AS c WHERE c.name = context.name);

-- The kinds of index compared, in the order of the tables. skip_bitmap is the index of skip, used by bitmap scans.
CREATE TABLE bench.variant (
    variant text PRIMARY KEY,
    place   integer NOT NULL,
    title   text NOT NULL
);
INSERT INTO bench.variant VALUES
    ('none', 1, 'no index'),
    ('excluded', 2, 'a btree whose predicate excludes the rows'),
    ('btree', 3, 'btree'),
    ('hash', 4, 'hash'),
    ('brin_default', 5, 'BRIN bloom, default options'),
    ('brin', 6, 'BRIN bloom, 32 pages, 1 %'),
    ('brin_on', 7, 'BRIN bloom, 32 pages, 1 %, autosummarize on'),
    ('brin_tuned', 8, 'BRIN bloom, 32 pages, 0.01 %'),
    ('bloom', 9, 'contrib/bloom, 80 bits a row, 8 set'),
    ('skip_off', 10, 'skip, autosummarize off'),
    ('skip', 11, 'skip, default options'),
    ('skip_bitmap', 12, 'skip, through bitmap scans'),
    ('filters_off', 13, 'skip, filters, autosummarize off'),
    ('filters', 14, 'skip, filters'),
    ('clickhouse_none', 15, 'ClickHouse, no index'),
    ('clickhouse', 16, 'ClickHouse bloom_filter, 0.01 %');

-- Every figure measured: subject is a table's column, variant a kind of index, value NULL where there is none.
CREATE TABLE bench.result (
    subject text   NOT NULL,
    variant text   NOT NULL,
    metric  text   NOT NULL,
    value   float8
);

-- The node that reads the table in the plan that the planner makes of a kind of query when nothing is switched off.
CREATE TABLE bench.choice (
    subject text NOT NULL,
    variant text NOT NULL,
    kind    text NOT NULL,
    node    text NOT NULL
);

CREATE FUNCTION bench.median(numbers float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE
RETURN (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM unnest(numbers) AS n);

-- Figures as people read them.
CREATE FUNCTION bench.number(n float8) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN abs(n) >= 100 OR n = round(n) THEN to_char(n, 'FM999,999,999,999')
    WHEN abs(n) >= 10 THEN to_char(n, 'FM990.0')
    WHEN abs(n) >= 1 THEN to_char(n, 'FM990.00')
    ELSE to_char(n, 'FM0.000')
END;

-- A figure with its unit; nothing where there is no figure.
CREATE FUNCTION bench.in_unit(n float8, unit text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN coalesce(rtrim(bench.number(n) || ' ' || unit), '');

-- What was measured of a kind of index: the median, and the least and the greatest in brackets.
CREATE FUNCTION bench.figure(subject text, variant text, metric text, unit text, divisor float8 DEFAULT 1) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT bench.in_unit(bench.median(array_agg(n)), unit)
               || CASE WHEN min(n) < max(n) THEN format(' (%s to %s)', bench.number(min(n)), bench.number(max(n)))
                       ELSE '' END
        FROM (SELECT value / divisor AS n FROM bench.result AS r
              WHERE (r.subject, r.variant, r.metric) = (figure.subject, figure.variant, figure.metric)) AS v
        HAVING count(n) > 0);

-- The least and the greatest of values, in words.
CREATE FUNCTION bench.spread(figures float8[]) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN (SELECT bench.number(round(min(v))) || ' to ' || bench.number(round(max(v))) FROM unnest(figures) AS v);


-- The medians of what was measured, a row for each subject and variant.
CREATE VIEW bench.summary AS
SELECT subject, place, variant, title,
       bench.median(array_agg(value) FILTER (WHERE metric = 'bytes')) AS bytes,
       bench.median(array_agg(value) FILTER (WHERE metric = 'build_s')) AS build_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'build_parallel_s')) AS build_parallel_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'absent_ms')) AS absent_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'absent_pages')) AS absent_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'consult_ms')) AS consult_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'consult_pages')) AS consult_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_ms')) AS present_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_pages')) AS present_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'list_ms')) AS list_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'list_pages')) AS list_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_list_ms')) AS present_list_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'absent_ratio')) AS absent_ratio,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_ratio')) AS present_ratio,
       bench.median(array_agg(value) FILTER (WHERE metric = 'list_ratio')) AS list_ratio,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_list_ratio')) AS present_list_ratio,
       bench.median(array_agg(value) FILTER (WHERE metric = 'append_s')) AS append_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'update_s')) AS update_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'insert_tps')) AS insert_tps,
       bench.median(array_agg(value) FILTER (WHERE metric = 'cold_absent_ms')) AS cold_absent_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'cold_present_ms')) AS cold_present_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'cold_present_list_ms')) AS cold_present_list_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'summarize_s')) AS summarize_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'plan_us')) AS plan_us,
       bench.median(array_agg(value) FILTER (WHERE metric = 'tps_auto')) AS tps_auto,
       bench.median(array_agg(value) FILTER (WHERE metric = 'tps_force_generic_plan')) AS tps_generic,
       bench.median(array_agg(value) FILTER (WHERE metric = 'tps_lists')) AS tps_lists,
       bench.spread(array_agg(value) FILTER (WHERE metric = 'tps_auto')) AS tps_auto_spread,
       bench.spread(array_agg(value) FILTER (WHERE metric = 'tps_force_generic_plan')) AS tps_generic_spread,
       bench.median(array_agg(value) FILTER (WHERE metric = 'serial_ms')) AS serial_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'parallel_ms')) AS parallel_ms,
       min(value) FILTER (WHERE metric = 'workers') AS workers,
       (SELECT string_agg(DISTINCT node, ', ') FROM bench.choice AS c
        WHERE (c.subject, c.variant) = (r.subject, r.variant)) AS chosen
FROM bench.result AS r JOIN bench.variant USING (variant)
GROUP BY subject, place, variant, title
ORDER BY subject, place;

-- The results as JSON, a line for each: of all values of a subject, variant and metric the median, the least and the
-- greatest, and their number.
CREATE FUNCTION bench.as_json() RETURNS text
LANGUAGE sql STABLE
RETURN (
    WITH figure AS (
             SELECT subject, v.place, r.variant, v.title, metric, bench.median(array_agg(value)) AS median,
                    min(value) AS least, max(value) AS greatest, count(value) AS runs
             FROM bench.result AS r JOIN bench.variant AS v USING (variant)
             WHERE value IS NOT NULL
             GROUP BY subject, v.place, r.variant, v.title, metric
         ),
         lines (part, place, line) AS (
             SELECT 'context', row_number() OVER (ORDER BY name), to_json(name) || ': ' || to_json(value)
             FROM bench.context
             UNION ALL
             SELECT 'results', row_number() OVER (ORDER BY f.subject, f.place, f.metric),
                    row_to_json(f)::text
             FROM (SELECT subject, variant, title, metric, median, least, greatest, runs, place FROM figure) AS f
             UNION ALL
             SELECT 'choices', row_number() OVER (ORDER BY subject, variant, kind, node), row_to_json(c)::text
             FROM (SELECT DISTINCT subject, variant, kind, node FROM bench.choice) AS c
         ),
         part AS (
             SELECT part, string_agg('    ' || line, E',\n' ORDER BY place) AS lines FROM lines GROUP BY part
         )
    SELECT format(E'{\n  "context": {\n%s\n  },\n  "results": [\n%s\n  ],\n  "choices": [\n%s\n  ]\n}',
                  (SELECT lines FROM part WHERE part = 'context'), (SELECT lines FROM part WHERE part = 'results'),
                  (SELECT lines FROM part WHERE part = 'choices')));

-- Takes such results as if they had been measured here: least, median and greatest have the same median and spread.
CREATE PROCEDURE bench.load(results jsonb)
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO bench.context SELECT key, value FROM jsonb_each_text(results -> 'context');
    INSERT INTO bench.variant
    SELECT DISTINCT variant, place, title
    FROM jsonb_to_recordset(results -> 'results') AS r (variant text, place integer, title text)
    ON CONFLICT (variant) DO UPDATE SET place = excluded.place, title = excluded.title;
    INSERT INTO bench.result
    SELECT subject, variant, metric,
           unnest(CASE WHEN runs > 1 THEN ARRAY[least, median, greatest] ELSE ARRAY[median] END)
    FROM jsonb_to_recordset(results -> 'results')
         AS r (subject text, variant text, metric text, median float8, least float8, greatest float8, runs integer);
    INSERT INTO bench.choice
    SELECT * FROM jsonb_to_recordset(results -> 'choices') AS c (subject text, variant text, kind text, node text);
END;
