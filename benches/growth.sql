-- What growth.sh measures, on the server. Loaded after lib.sql.

-- How long inserts took: kind is how many rows a statement had.
CREATE UNLOGGED TABLE bench.latency (
    variant text    NOT NULL,
    kind    integer NOT NULL,
    ms      float4  NOT NULL
);

-- What was measured of an index: moment is the table's number of rows, in millions, or what has happened to it.
CREATE TABLE bench.moment (
    place   serial,
    variant text   NOT NULL,
    moment  text   NOT NULL,
    metric  text   NOT NULL,
    grown   float8,
    fresh   float8
);

-- Adds the rows first..last to events by statements of one row, of 1,000 and of 50,000 rows, each in a transaction of
-- its own, and keeps how long those of one row and of 1,000 took.
CREATE PROCEDURE bench.grow(variant text, first bigint, last bigint)
LANGUAGE plpgsql AS $$
DECLARE
    next  bigint := first;
    count bigint;
    step  integer := 0;
    began timestamptz;
    ms    float4[];
BEGIN
    WHILE next <= last LOOP
        -- 1,050 statements add 100,000 rows.
        count := CASE WHEN step % 1050 < 1000 THEN 1 WHEN step % 1050 < 1049 THEN 1000 ELSE 50000 END;
        count := least(count, last - next + 1);
        began := clock_timestamp();
        IF count = 1 THEN
            INSERT INTO events VALUES (next, md5('trace ' || next)::uuid, next / 2000 % 1000,
                                       timestamptz '2026-01-01 00:00Z' + next * interval '10 milliseconds',
                                       md5(next::text));
        ELSE
            INSERT INTO events SELECT * FROM event_rows(next, next + count - 1);
        END IF;
        COMMIT;
        ms := ms || (1000 * extract(epoch FROM clock_timestamp() - began))::float4;
        IF count IN (1, 1000) AND (count = 1000 OR step % 1050 = 999) THEN
            INSERT INTO bench.latency SELECT variant, count, n FROM unnest(ms) AS n;
            COMMIT;
            ms := NULL;
        ELSIF count > 1000 THEN
            ms := NULL;
        END IF;
        next := next + count;
        step := step + 1;
    END LOOP;
END $$;

-- The keys of the next measurement: absent ones, and ones of the rows 1 to rows.
CREATE PROCEDURE bench.choose_growing_keys(rows bigint, count integer)
LANGUAGE sql
BEGIN ATOMIC
    DELETE FROM bench.key;
    INSERT INTO bench.key
    SELECT 'events.trace_id', 'absent', i, gen_random_uuid()::text FROM generate_series(1, count) AS i;
    INSERT INTO bench.key
    SELECT 'events.trace_id', 'present', i, md5('trace ' || 1 + (random() * (rows - 1))::bigint)::uuid::text
    FROM generate_series(1, count) AS i;
END;

-- Measures the grown index and, if there is one, the fresh one beside it. The two take turns, runs times.
CREATE PROCEDURE bench.measure_growth(variant text, moment text, runs integer)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    has_fresh boolean := to_regclass('fresh_index') IS NOT NULL;
    is_skip   boolean := variant <> 'btree';
    kind      text;
    other     text;
    seen      record;
BEGIN
    INSERT INTO bench.moment (variant, moment, metric, grown, fresh)
    VALUES (variant, moment, 'bytes', pg_relation_size('bench_index'), pg_relation_size(to_regclass('fresh_index')));
    IF is_skip THEN
        INSERT INTO bench.moment (variant, moment, metric, grown, fresh)
        SELECT variant, moment, 'segments', (SELECT segments FROM skip_index_info('bench_index')),
               (SELECT segments FROM pg_class, skip_index_info(oid) WHERE relname = 'fresh_index');
        INSERT INTO bench.moment (variant, moment, metric, grown, fresh)
        SELECT variant, moment, 'rate', (SELECT expected_false_positive_rate FROM skip_index_info('bench_index')),
               (SELECT expected_false_positive_rate FROM pg_class, skip_index_info(oid) WHERE relname = 'fresh_index');
    END IF;
    FOR run IN 1 .. runs LOOP
        FOREACH kind IN ARRAY ARRAY['absent', 'present'] LOOP
            FOREACH other IN ARRAY ARRAY['fresh_index'] || CASE WHEN has_fresh THEN ARRAY['bench_index'] END LOOP
                PERFORM set_config('pg_skip.ignore_indexes', CASE WHEN has_fresh THEN other ELSE '' END, true);
                INSERT INTO bench.moment (variant, moment, metric, grown)
                SELECT variant, moment, kind || '_ms', ms
                FROM bench.query_ms(bench.queries('events.trace_id', kind), 3) AS ms
                WHERE other = 'fresh_index';
                INSERT INTO bench.moment (variant, moment, metric, fresh)
                SELECT variant, moment, kind || '_ms', ms
                FROM bench.query_ms(bench.queries('events.trace_id', kind), 3) AS ms
                WHERE other = 'bench_index';
                CONTINUE WHEN run > 1;
                seen := bench.explain(bench.queries('events.trace_id', kind), 3);
                INSERT INTO bench.moment (variant, moment, metric, grown, fresh)
                VALUES (variant, moment, kind || '_index_pages',
                        CASE other WHEN 'fresh_index' THEN seen.consult_pages END,
                        CASE other WHEN 'bench_index' THEN seen.consult_pages END);
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
