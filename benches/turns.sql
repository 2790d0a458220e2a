-- Lookups in turns, for bench.sh. Loaded after lib.sql.
--
-- The speed of a shared machine can change by half within a tenth of a second, and for minutes. Two kinds of index that
-- are measured one after the other then differ by what the machine did meanwhile. Here each has a table of its own,
-- with the same rows in the same order, and is asked for the same keys in a turn of some milliseconds, then the next
-- kind.

-- The table that has the index of a kind: events_skip for skip.
CREATE FUNCTION bench.table_of(subject text, variant text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN split_part(subject, '.', 1) || '_' || CASE variant WHEN 'skip_bitmap' THEN 'skip' ELSE variant END;

-- Asks all kinds of index in turn, in an order by chance, for single keys and for lists, and keeps of each kind:
--   absent_ms, present_ms, list_ms, present_list_ms     the median over the turns of the median over a turn's queries
--   absent_ratio, present_ratio, …                      the median over the turns of that time divided by the time of
--                                                       the first kind in the same turn
CREATE PROCEDURE bench.measure_in_turns(subject text, variants text[], turns integer)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    asked   record;
    kind    text;
    queries text[];
    total   bigint;
BEGIN
    CREATE TEMP TABLE turn (turn integer, variant text, ms float8) ON COMMIT DROP;
    CREATE TEMP TABLE query (variant text, number bigint, query text) ON COMMIT DROP;
    FOR asked IN
        SELECT *
        FROM (VALUES ('absent', 'absent', 1, 250), ('present', 'present', 1, 250),
                     ('list', 'absent', 100, 5), ('present_list', 'present', 1000, 1))
             AS v (metric, kind, keys_each, queries_each)
    LOOP
        TRUNCATE turn, query;
        INSERT INTO query
        SELECT v, number - 1, q
        FROM unnest(variants) AS v,
             unnest(bench.queries(subject, asked.kind, asked.keys_each, '', bench.table_of(subject, v)))
             WITH ORDINALITY AS of_variant (q, number);
        SELECT count(DISTINCT number) INTO total FROM query;
        -- Small tables, of trials, have too few keys for a list.
        CONTINUE WHEN total = 0;
        FOR turn IN 0 .. turns - 1 LOOP
            FOR kind IN SELECT v FROM unnest(variants) AS v ORDER BY random() LOOP
                PERFORM set_config('pg_skip.enable_scan',
                                   CASE kind WHEN 'skip_bitmap' THEN 'off' ELSE 'on' END, true);
                -- The next queries, from the first one again behind the last.
                SELECT array_agg(query ORDER BY i) INTO queries
                FROM generate_series(0, asked.queries_each - 1) AS i
                     JOIN query AS q ON q.variant = kind AND q.number = (turn * asked.queries_each + i) % total;
                INSERT INTO turn VALUES (turn, kind, bench.query_ms(queries));
            END LOOP;
        END LOOP;
        INSERT INTO bench.result
        SELECT subject, t.variant, asked.metric || m.suffix,
               bench.median(array_agg(CASE m.suffix WHEN '_ms' THEN t.ms ELSE t.ms / first.ms END))
        FROM turn AS t
             JOIN turn AS first ON first.turn = t.turn AND first.variant = variants[1],
             (VALUES ('_ms'), ('_ratio')) AS m (suffix)
        GROUP BY t.variant, m.suffix;
    END LOOP;
END $$;
