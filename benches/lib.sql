-- Measuring, on the server. Loaded into the throw-away database by demo.sh, bench.sh and sweep.sh.

CREATE SCHEMA bench;
CREATE EXTENSION IF NOT EXISTS pg_prewarm;

-- The kinds of index compared, in the order of the tables.
CREATE TABLE bench.variant (
    variant text PRIMARY KEY,
    place   integer NOT NULL,
    title   text NOT NULL
);
INSERT INTO bench.variant VALUES
    ('none',     1, 'no index'),
    ('btree',    2, 'btree'),
    ('brin',     3, 'BRIN bloom, 32 pages, 1 %'),
    ('brin_on',  4, 'BRIN bloom, autosummarize on'),
    ('skip_off', 5, 'skip, autosummarize off'),
    ('skip',     6, 'skip, default options');

-- Every figure measured: subject is a table's column, variant a kind of index, value NULL where there is none.
CREATE TABLE bench.result (
    subject text   NOT NULL,
    variant text   NOT NULL,
    metric  text   NOT NULL,
    value   float8
);

-- Keys to look for, as literals: kind is absent or present.
CREATE TABLE bench.key (
    subject text    NOT NULL,
    kind    text    NOT NULL,
    number  integer NOT NULL,
    literal text    NOT NULL
);

CREATE FUNCTION bench.median(numbers float8[]) RETURNS float8
LANGUAGE sql IMMUTABLE
RETURN (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM unnest(numbers) AS n);

-- The queries that look for one key each, or for lists of keys, on a subject "table.column".
CREATE FUNCTION bench.queries(subject text, kind text, keys_each integer DEFAULT 1) RETURNS text[]
LANGUAGE sql STABLE
RETURN (
    SELECT array_agg(format(
               CASE WHEN keys_each = 1 THEN 'SELECT * FROM %I WHERE %I = %s' ELSE 'SELECT * FROM %I WHERE %I IN (%s)' END,
               split_part(subject, '.', 1), split_part(subject, '.', 2), keys) ORDER BY part)
    FROM (SELECT (number - 1) / keys_each AS part, string_agg(quote_literal(literal), ', ') AS keys
          FROM bench.key AS k
          WHERE k.subject = queries.subject AND k.kind = queries.kind
          GROUP BY part
          HAVING count(*) = keys_each) AS lists);

-- Milliseconds of a whole query (parsing, planning and running it): the median over the queries, each run once, one
-- after another, until max_seconds have passed but at least three. The first is run once more before, unmeasured.
CREATE FUNCTION bench.query_ms(queries text[], max_seconds float8 DEFAULT 10) RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
    query   text;
    started timestamptz;
    began   timestamptz;
    ms      float8[];
BEGIN
    EXECUTE queries[1];
    started := clock_timestamp();
    FOREACH query IN ARRAY queries LOOP
        began := clock_timestamp();
        EXECUTE query;
        ms := ms || 1000 * extract(epoch FROM clock_timestamp() - began)::float8;
        EXIT WHEN cardinality(ms) >= 3 AND clock_timestamp() > started + max_seconds * interval '1 second';
    END LOOP;
    RETURN bench.median(ms);
END $$;

-- Medians of what EXPLAIN (ANALYZE, BUFFERS) says of the queries, chosen as above:
--   consult_ms, consult_pages   the node that reads the index: its own time, the pages it touched
--   pages                       all pages touched, by the planner too
CREATE FUNCTION bench.explain(queries text[], max_seconds float8 DEFAULT 10,
                              OUT consult_ms float8, OUT consult_pages float8, OUT pages float8)
LANGUAGE plpgsql AS $$
DECLARE
    query    text;
    started  timestamptz;
    answer   json;
    plan     jsonb;
    planning jsonb;
    node     jsonb;
    ms       float8[];
    consult  float8[];
    whole    float8[];
BEGIN
    EXECUTE queries[1];
    started := clock_timestamp();
    FOREACH query IN ARRAY queries LOOP
        EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO answer;
        plan := answer::jsonb -> 0 -> 'Plan';
        planning := answer::jsonb -> 0 -> 'Planning';
        node := jsonb_path_query_first(plan, '$.** ? (exists(@."Index Name"))');
        ms := ms || (node ->> 'Actual Total Time')::float8 * (node ->> 'Actual Loops')::float8;
        consult := consult || (node ->> 'Shared Hit Blocks')::float8 + (node ->> 'Shared Read Blocks')::float8;
        whole := whole || (plan ->> 'Shared Hit Blocks')::float8 + (plan ->> 'Shared Read Blocks')::float8
                 + coalesce((planning ->> 'Shared Hit Blocks')::float8 + (planning ->> 'Shared Read Blocks')::float8, 0);
        EXIT WHEN cardinality(whole) >= 3 AND clock_timestamp() > started + max_seconds * interval '1 second';
    END LOOP;
    consult_ms := bench.median(ms);
    consult_pages := bench.median(consult);
    pages := bench.median(whole);
END $$;

-- Whether the planner takes an index for the query when nothing is forced.
CREATE FUNCTION bench.takes_index(query text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = on AS $$
DECLARE
    answer json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO answer;
    RETURN jsonb_path_exists(answer::jsonb, '$.** ? (exists(@."Index Name"))');
END $$;

-- Seconds that a statement takes, its commit included, with a checkpoint's work out of its way.
CREATE PROCEDURE bench.timed(statement text, INOUT seconds float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz;
BEGIN
    CHECKPOINT;
    COMMIT;
    began := clock_timestamp();
    EXECUTE statement;
    COMMIT;
    seconds := extract(epoch FROM clock_timestamp() - began);
END $$;

-- Figures as people read them.
CREATE FUNCTION bench.number(n float8) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN abs(n) >= 100 OR n = round(n) THEN to_char(n, 'FM999,999,999,999')
    WHEN abs(n) >= 10 THEN to_char(n, 'FM990.0')
    WHEN abs(n) >= 1 THEN to_char(n, 'FM990.00')
    ELSE to_char(n, 'FM0.000')
END;

-- The medians of what was measured, a row for each subject and variant.
CREATE VIEW bench.summary AS
SELECT subject, place, variant, title,
       bench.median(array_agg(value) FILTER (WHERE metric = 'bytes')) AS bytes,
       bench.median(array_agg(value) FILTER (WHERE metric = 'build_s')) AS build_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'absent_ms')) AS absent_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'absent_pages')) AS absent_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'consult_ms')) AS consult_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'consult_pages')) AS consult_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_ms')) AS present_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_pages')) AS present_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'list_ms')) AS list_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'list_pages')) AS list_pages,
       bench.median(array_agg(value) FILTER (WHERE metric = 'append_s')) AS append_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'summarize_s')) AS summarize_s,
       CASE min(value) FILTER (WHERE metric = 'chosen') WHEN 1 THEN 'yes' WHEN 0 THEN 'no' ELSE '' END AS chosen
FROM bench.result JOIN bench.variant USING (variant)
GROUP BY subject, place, variant, title
ORDER BY subject, place;

-- A figure with its unit; nothing where there is no figure.
CREATE FUNCTION bench.in_unit(n float8, unit text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN coalesce(bench.number(n) || ' ' || unit, '');

-- Fills bench.key for a subject: present keys are taken from random rows; absent ones are made of nothing that the
-- column holds (random uuids, integers above the greatest, random hexadecimal text).
CREATE PROCEDURE bench.choose_keys(subject text, absent integer, present integer)
LANGUAGE plpgsql AS $$
DECLARE
    tab   text := split_part(subject, '.', 1);
    col   text := split_part(subject, '.', 2);
    kind  text;
    maker text;
BEGIN
    SELECT format_type(atttypid, NULL) INTO kind FROM pg_attribute WHERE attrelid = tab::regclass AND attname = col;
    maker := CASE kind
        WHEN 'uuid' THEN 'gen_random_uuid()'
        WHEN 'integer' THEN format('(SELECT max(%I) FROM %I) + i', col, tab)
        ELSE $sql$substr(md5(random()::text) || md5(random()::text), 1, 40)$sql$
    END;
    EXECUTE format('INSERT INTO bench.key SELECT $1, ''absent'', i, (%s)::text FROM generate_series(1, $2) AS i', maker)
        USING subject, absent;
    EXECUTE format($sql$
        INSERT INTO bench.key
        SELECT $1, 'present', row_number() OVER (), v::text
        FROM (SELECT %2$I AS v FROM %1$I TABLESAMPLE bernoulli (least(100, 2000.0 * $2 / $3)) ORDER BY random() LIMIT $2) AS chosen
        $sql$, tab, col)
        USING subject, present, greatest(1, (SELECT reltuples FROM pg_class WHERE oid = tab::regclass));
END $$;

-- Runs the queries of a subject with the index that is there and keeps the figures in bench.result. Sequential scans
-- are off, because the planner would take one rather than BRIN; "chosen" tells what it does when nothing is forced.
CREATE PROCEDURE bench.measure(subject text, variant text, list_size integer, max_seconds float8 DEFAULT 10)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    absent  text[] := bench.queries(subject, 'absent');
    present text[] := bench.queries(subject, 'present');
    lists   text[] := CASE WHEN list_size > 0 THEN bench.queries(subject, 'absent', list_size) END;
    seen    record;
BEGIN
    seen := bench.explain(absent, max_seconds);
    INSERT INTO bench.result VALUES
        (subject, variant, 'absent_ms', bench.query_ms(absent, max_seconds)),
        (subject, variant, 'absent_pages', seen.pages),
        (subject, variant, 'consult_ms', seen.consult_ms),
        (subject, variant, 'consult_pages', seen.consult_pages),
        (subject, variant, 'chosen', CASE WHEN variant <> 'none' THEN bench.takes_index(absent[1])::integer END);
    seen := bench.explain(present, max_seconds);
    INSERT INTO bench.result VALUES
        (subject, variant, 'present_ms', bench.query_ms(present, max_seconds)),
        (subject, variant, 'present_pages', seen.pages);
    IF list_size > 0 THEN
        seen := bench.explain(lists, max_seconds);
        INSERT INTO bench.result VALUES
            (subject, variant, 'list_ms', bench.query_ms(lists, max_seconds)),
            (subject, variant, 'list_pages', seen.pages);
    END IF;
END $$;
