-- What sweep.sh measures, on the server. Loaded after lib.sql and the table. A variant is
-- "layout/pages_per_range/rate".

CREATE PROCEDURE bench.add_variant(variant text)
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO bench.variant
    SELECT variant, 100 + (SELECT count(*) FROM bench.variant), replace(variant, '/', ' | ');
END;

-- The statement that creates a variant's index. Pages and rate are options of the column, as a map needs them.
CREATE FUNCTION bench.sweep_index(col text, variant text) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT format('CREATE INDEX bench_index ON events USING skip (%I %s_skip_ops (layout = %s%s%s))%s',
                      col, typname, part[1],
                      CASE WHEN part[1] = 'map' AND part[2] <> 'default' THEN ', pages_per_range = ' || part[2]
                           ELSE '' END,
                      CASE WHEN part[3] <> 'default' THEN ', false_positive_rate = ' || part[3] ELSE '' END,
                      CASE WHEN part[1] = 'filters' THEN format(' WITH (pages_per_range = %s)', part[2]) ELSE '' END)
        FROM string_to_array(variant, '/') AS part, pg_attribute JOIN pg_type AS t ON t.oid = atttypid
        WHERE attrelid = 'events'::regclass AND attname = col);

-- Means over the queries of pages read, by EXPLAIN (ANALYZE): of the index, and of the table in ranges that have the
-- key and in those that do not.
CREATE FUNCTION bench.pages_read(queries text[], pages_of_range integer,
                                 OUT index_pages float8, OUT table_pages float8, OUT vain_pages float8)
LANGUAGE plpgsql AS $$
DECLARE
    query  text;
    answer json;
    node   jsonb;
BEGIN
    index_pages := 0;
    table_pages := 0;
    vain_pages := 0;
    FOREACH query IN ARRAY queries LOOP
        EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO answer;
        node := jsonb_path_query_first(answer::jsonb, '$.** ? (exists(@."Skip Indexes"))');
        index_pages := index_pages + (node ->> 'Index Pages Read')::float8;
        table_pages := table_pages + pages_of_range * (node ->> 'Ranges Scanned')::float8;
        vain_pages := vain_pages + pages_of_range * (node ->> 'Ranges False Positives')::float8;
    END LOOP;
    index_pages := index_pages / cardinality(queries);
    table_pages := table_pages / cardinality(queries);
    vain_pages := vain_pages / cardinality(queries);
END $$;

-- Builds a variant's index, asks it for keys, and keeps the figures. Pages are counted in the first round alone: they
-- are the same in each.
CREATE PROCEDURE bench.sweep(col text, variant text)
LANGUAGE plpgsql AS $$
DECLARE
    subject text := 'events.' || col;
    absent  text[] := bench.queries(subject, 'absent');
    present text[] := bench.queries(subject, 'present');
    seconds float8;
    info    record;
    seen    record;
BEGIN
    CALL bench.timed(bench.sweep_index(col, variant), seconds);
    PERFORM pg_prewarm('bench_index');
    PERFORM set_config('pg_skip.force_indexes', 'bench_index', true),
            set_config('enable_bitmapscan', 'off', true);
    INSERT INTO bench.result VALUES
        (subject, variant, 'build_s', seconds),
        (subject, variant, 'bytes', pg_relation_size('bench_index')),
        (subject, variant, 'absent_ms', bench.query_ms(absent, 0.25)),
        (subject, variant, 'present_ms', bench.query_ms(present, 0.25));
    IF NOT EXISTS (SELECT FROM bench.result AS r
                   WHERE (r.subject, r.variant, r.metric) = ('events.' || col, sweep.variant, 'rate')) THEN
        SELECT * INTO info FROM skip_index_info('bench_index');
        seen := bench.pages_read(absent[:100], info.pages_per_range);
        INSERT INTO bench.result VALUES
            (subject, variant, 'pages_per_range', info.pages_per_range),
            -- A map without the option has the rate that its number of bits gives.
            (subject, variant, 'rate', CASE WHEN variant LIKE '%/default' THEN info.expected_false_positive_rate
                                            ELSE info.false_positive_rate END),
            (subject, variant, 'absent_index_pages', seen.index_pages),
            (subject, variant, 'absent_vain_pages', seen.vain_pages);
        seen := bench.pages_read(present[:100], info.pages_per_range);
        INSERT INTO bench.result VALUES
            (subject, variant, 'present_index_pages', seen.index_pages),
            (subject, variant, 'present_table_pages', seen.table_pages),
            (subject, variant, 'present_vain_pages', seen.vain_pages);
    END IF;
    DROP INDEX bench_index;
END $$;
