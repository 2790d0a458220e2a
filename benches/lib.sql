-- Measuring, on the server. Loaded into the throw-away database of the demo and the benchmarks.

\ir results.sql
CREATE EXTENSION IF NOT EXISTS pg_prewarm;

-- Keys to look for, as literals: kind is absent or present.
CREATE TABLE bench.key (
    subject text    NOT NULL,
    kind    text    NOT NULL,
    number  integer NOT NULL,
    literal text    NOT NULL
);

-- The queries that look for one key each, or for lists of keys, on a subject "table.column". A cast is put behind the
-- column, for an index on the expression. Another table with the same rows may be named.
CREATE FUNCTION bench.queries(subject text, kind text, keys_each integer DEFAULT 1, "cast" text DEFAULT '',
                              "table" text DEFAULT NULL)
RETURNS text[]
LANGUAGE sql STABLE
RETURN (
    SELECT array_agg(format(
               CASE WHEN keys_each = 1 THEN 'SELECT * FROM %I WHERE %I%s = %s'
                    ELSE 'SELECT * FROM %I WHERE %I%s IN (%s)' END,
               coalesce("table", split_part(subject, '.', 1)), split_part(subject, '.', 2), "cast", keys)
               ORDER BY part)
    FROM (SELECT (number - 1) / keys_each AS part, string_agg(quote_literal(literal), ', ') AS keys
          FROM bench.key AS k
          WHERE k.subject = queries.subject AND k.kind = queries.kind
          GROUP BY part
          HAVING count(*) = keys_each) AS lists);

-- The cast that contrib/bloom needs for a column: it has operator classes for integer and text alone.
CREATE FUNCTION bench.bloom_cast(subject text) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT CASE WHEN atttypid IN ('integer'::regtype, 'text'::regtype) THEN '' ELSE '::text' END
        FROM pg_attribute
        WHERE attrelid = split_part(subject, '.', 1)::regclass AND attname = split_part(subject, '.', 2));

-- Milliseconds of a whole query (parsing, planning and running it): the median over the queries, each run once, one
-- after another, until max_seconds have passed but at least three. The first is run once more before, unmeasured; it
-- is the only one that counts if it takes longer than max_seconds. All are run again until min_seconds have passed:
-- the speed of a shared machine can change by half within a tenth of a second, which 2,000 fast queries take.
CREATE FUNCTION bench.query_ms(queries text[], max_seconds float8 DEFAULT 10, min_seconds float8 DEFAULT 0)
RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
    query   text;
    started timestamptz;
    began   timestamptz;
    ms      float8[];
BEGIN
    started := clock_timestamp();
    EXECUTE queries[1];
    IF clock_timestamp() > started + max_seconds * interval '1 second' THEN
        RETURN 1000 * extract(epoch FROM clock_timestamp() - started)::float8;
    END IF;
    started := clock_timestamp();
    LOOP
        FOREACH query IN ARRAY queries LOOP
            began := clock_timestamp();
            EXECUTE query;
            ms := ms || 1000 * extract(epoch FROM clock_timestamp() - began)::float8;
            EXIT WHEN cardinality(ms) >= 3 AND clock_timestamp() > started + max_seconds * interval '1 second';
        END LOOP;
        EXIT WHEN clock_timestamp() > started + least(min_seconds, max_seconds) * interval '1 second';
    END LOOP;
    RETURN bench.median(ms);
END $$;

-- Medians of what EXPLAIN (ANALYZE, BUFFERS) says of the queries, chosen as above:
--   consult_ms, consult_pages   time of the node that reads the index, and the pages that it read. A Skip Index Scan
--                               reads the table too: its time is that of the whole node, its pages are those of the
--                               index
--   pages                       all pages that were read, by the planner too
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
        node := jsonb_path_query_first(plan, '$.** ? (exists(@."Index Name") || exists(@."Skip Indexes"))');
        ms := ms || (node ->> 'Actual Total Time')::float8 * (node ->> 'Actual Loops')::float8;
        consult := consult || coalesce((node ->> 'Index Pages Read')::float8,
                                       (node ->> 'Shared Hit Blocks')::float8
                                       + (node ->> 'Shared Read Blocks')::float8);
        whole := whole || (plan ->> 'Shared Hit Blocks')::float8 + (plan ->> 'Shared Read Blocks')::float8
                 + coalesce((planning ->> 'Shared Hit Blocks')::float8
                           + (planning ->> 'Shared Read Blocks')::float8, 0);
        EXIT WHEN cardinality(whole) >= 3 AND clock_timestamp() > started + max_seconds * interval '1 second';
    END LOOP;
    consult_ms := bench.median(ms);
    consult_pages := bench.median(consult);
    pages := bench.median(whole);
END $$;

-- The node that reads the table in the plan of a query, when nothing is switched off but what bench.measure says.
CREATE FUNCTION bench.chosen(query text) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = on AS $$
DECLARE
    answer json;
    node   jsonb;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO answer;
    node := jsonb_path_query_first(answer::jsonb, '$.** ? (exists(@."Relation Name"))');
    RETURN coalesce(node ->> 'Custom Plan Provider', node ->> 'Node Type');
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

-- Seconds that a statement takes in a transaction that is then undone.
CREATE PROCEDURE bench.timed_and_undone(statement text, INOUT seconds float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz;
BEGIN
    CHECKPOINT;
    COMMIT;
    began := clock_timestamp();
    EXECUTE statement;
    seconds := extract(epoch FROM clock_timestamp() - began);
    ROLLBACK;
END $$;

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
        FROM (SELECT %2$I AS v FROM %1$I TABLESAMPLE bernoulli (least(100, 2000.0 * $2 / $3))
              ORDER BY random() LIMIT $2) AS chosen
        $sql$, tab, col)
        USING subject, present, greatest(1, (SELECT reltuples FROM pg_class WHERE oid = tab::regclass));
END $$;

-- Distinct values of a column in a BRIN range of 32 pages, at most, and at least the 16 that BRIN's bloom filters are
-- made for; from the table's first 3200 pages.
CREATE FUNCTION bench.distinct_in_range(subject text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    most integer;
BEGIN
    EXECUTE format($sql$
        SELECT max(n) FROM (SELECT count(DISTINCT %I) AS n FROM %I WHERE ctid < '(3200,0)'
                            GROUP BY trunc((ctid::text::point)[0] / 32)) AS ranges
        $sql$, split_part(subject, '.', 2), split_part(subject, '.', 1)) INTO most;
    RETURN greatest(most, 16);
END $$;

-- Runs the queries of a subject with the index that is there and keeps the figures in bench.result. Sequential scans
-- are off, because the planner would take one rather than BRIN; bench.choice tells what it does when they are not.
-- Without timed, it keeps plans and pages alone: bench.measure_in_turns keeps the times.
CREATE PROCEDURE bench.measure(subject text, variant text, list_size integer, max_seconds float8 DEFAULT 10,
                               timed boolean DEFAULT true)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    -- The operator classes of contrib/bloom are for integer and text: the query has the index's expression.
    "cast"  text := CASE variant WHEN 'bloom' THEN bench.bloom_cast(subject) ELSE '' END;
    absent  text[] := bench.queries(subject, 'absent', 1, "cast");
    present text[] := (bench.queries(subject, 'present', 1, "cast"))[:200];
    lists   text[] := CASE WHEN list_size > 0 THEN bench.queries(subject, 'absent', list_size, "cast") END;
    -- BRIN would read the whole table for such a list, and contrib/bloom its whole index for each key.
    present_lists text[] := CASE WHEN timed AND list_size > 0 AND variant NOT LIKE 'brin%' AND variant <> 'bloom'
        THEN bench.queries(subject, 'present', 10 * list_size) END;
    seen    record;
BEGIN
    IF variant = 'skip_bitmap' THEN
        SET LOCAL pg_skip.enable_scan = off;
    END IF;
    IF variant <> 'none' THEN
        INSERT INTO bench.choice
        SELECT subject, variant, kind, bench.chosen(query)
        FROM (VALUES ('absent', absent[1]), ('present', present[1]), ('list', lists[1])) AS v (kind, query)
        WHERE query IS NOT NULL;
    END IF;
    seen := bench.explain(absent, max_seconds);
    INSERT INTO bench.result VALUES
        (subject, variant, 'absent_pages', seen.pages),
        (subject, variant, 'consult_ms', seen.consult_ms),
        (subject, variant, 'consult_pages', seen.consult_pages);
    seen := bench.explain(present, max_seconds);
    INSERT INTO bench.result VALUES (subject, variant, 'present_pages', seen.pages);
    IF timed THEN
        INSERT INTO bench.result VALUES
            (subject, variant, 'absent_ms', bench.query_ms(absent, max_seconds, max_seconds)),
            (subject, variant, 'present_ms', bench.query_ms(present, max_seconds, max_seconds));
        IF list_size > 0 THEN
            INSERT INTO bench.result
            VALUES (subject, variant, 'list_ms', bench.query_ms(lists, max_seconds, max_seconds));
        END IF;
    END IF;
    IF list_size > 0 AND variant <> 'bloom' THEN
        seen := bench.explain(lists, max_seconds);
        INSERT INTO bench.result VALUES (subject, variant, 'list_pages', seen.pages);
    END IF;
    IF present_lists IS NOT NULL THEN
        INSERT INTO bench.result VALUES (subject, variant, 'present_list_ms',
                bench.query_ms(present_lists, max_seconds, max_seconds));
    END IF;
END $$;

-- Keeps the microseconds that it takes to plan a query, as EXPLAIN's summary tells them: without parsing the query,
-- setting up its plan or printing it. One figure for each batch of plannings. With the index of skip, batches with Skip
-- Index Scans and without take turns. A first batch does not count.
CREATE PROCEDURE bench.measure_planning(subject text, variant text, query text, batches integer DEFAULT 20,
                                        plannings integer DEFAULT 1000)
LANGUAGE plpgsql AS $$
DECLARE
    statement text := 'EXPLAIN (SUMMARY, COSTS OFF, FORMAT JSON) ' || query;
    kind      text;
    answer    json;
    ms        float8;
BEGIN
    FOR batch IN 0 .. batches LOOP
        FOREACH kind IN ARRAY CASE variant WHEN 'skip' THEN ARRAY['skip', 'skip_bitmap'] ELSE ARRAY[variant] END LOOP
            PERFORM set_config('pg_skip.enable_scan', CASE kind WHEN 'skip_bitmap' THEN 'off' ELSE 'on' END, true);
            ms := 0;
            FOR planning IN 1 .. plannings LOOP
                EXECUTE statement INTO answer;
                ms := ms + (answer -> 0 ->> 'Planning Time')::float8;
            END LOOP;
            IF batch > 0 THEN
                INSERT INTO bench.result VALUES (subject, kind, 'plan_us', 1000 * ms / plannings);
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Runs a query with two parallel workers and without, in turn, as Skip Index Scans of bench_index and without that
-- index, and keeps the times. The first round does not count: it looks whether the plans are what they should be.
CREATE PROCEDURE bench.measure_parallel(subject text, query text, runs integer)
LANGUAGE plpgsql AS $$
DECLARE
    variant text;
    workers integer;
    began   timestamptz;
    ms      float8;
    answer  json;
BEGIN
    FOR run IN 0 .. runs LOOP
        FOREACH variant IN ARRAY ARRAY['none', 'skip'] LOOP
            FOREACH workers IN ARRAY ARRAY[0, 2] LOOP
                PERFORM set_config('pg_skip.ignore_indexes',
                            CASE variant WHEN 'none' THEN 'bench_index' ELSE '' END, true),
                        set_config('pg_skip.force_indexes',
                            CASE variant WHEN 'skip' THEN 'bench_index' ELSE '' END, true),
                        set_config('max_parallel_workers_per_gather', workers::text, true),
                        -- Small tables, of trials, get workers too.
                        set_config('parallel_setup_cost', '0', true),
                        set_config('min_parallel_table_scan_size', '0', true);
                IF run = 0 THEN
                    EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO answer;
                    IF jsonb_path_exists(answer::jsonb, '$.** ? (exists(@."Skip Indexes"))') <> (variant = 'skip')
                       OR jsonb_path_exists(answer::jsonb, '$.** ? (exists(@."Workers Launched"))')
                           <> (workers > 0) THEN
                        RAISE 'not the plan to be measured' USING DETAIL = answer::text;
                    END IF;
                    IF workers > 0 THEN
                        INSERT INTO bench.result
                        SELECT subject, variant, 'workers', n::float8
                        FROM jsonb_path_query_first(answer::jsonb, '$.**."Workers Launched"') AS n;
                    END IF;
                ELSE
                    began := clock_timestamp();
                    EXECUTE query;
                    ms := 1000 * extract(epoch FROM clock_timestamp() - began)::float8;
                    INSERT INTO bench.result
                    VALUES (subject, variant, CASE workers WHEN 0 THEN 'serial_ms' ELSE 'parallel_ms' END, ms);
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
