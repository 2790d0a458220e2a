-- What inside_sweep.sh measures, on the server. Loaded after inside.sql.

-- One index of the sweep.
CREATE TABLE bench.sweep (
    place   integer PRIMARY KEY,
    subject text   NOT NULL,
    layout  text   NOT NULL,
    pages   text   NOT NULL,
    rate    text   NOT NULL,
    chosen  text   NOT NULL,
    build_s float8 NOT NULL,
    bytes   float8 NOT NULL,
    part    float8 NOT NULL
);
-- A kind of search with it: pages of a million that are read in vain, and milliseconds.
CREATE TABLE bench.sweep_search (
    place integer NOT NULL,
    what  text    NOT NULL,
    vain  float8  NOT NULL,
    ms    float8  NOT NULL
);

-- A definition with these options of the operator class besides those that it has.
CREATE FUNCTION bench.with_options(definition text, options text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN options = '' THEN definition
            WHEN definition LIKE '%))' THEN regexp_replace(definition, '\)\)$', ', ' || options || '))')
            ELSE regexp_replace(definition, '\)$', ' (' || options || '))') END;

-- A definition with this option of its operator class in place of the one that it has.
CREATE FUNCTION bench.with_length(definition text, length integer) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN regexp_replace(definition, 'length = [0-9]+', 'length = ' || length);

-- Searches for fragments of letters that are nowhere, of which a fragment of four has one key.
CREATE PROCEDURE bench.choose_sweep_searches(count integer)
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO bench.search
    SELECT 'lines', 'fragments', format('absent, %s letters', length), number,
           format('SELECT * FROM lines WHERE line LIKE %L', '%' || substr(letters, 1, length) || '%')
    FROM generate_series(1, count) AS number, unnest('{4,6,12}'::integer[]) AS length,
         LATERAL (SELECT string_agg(chr(103 + bench.chance(number, 100 + place, 20)::integer), '') AS letters
                  FROM generate_series(1, 12) AS place) AS word;
END;

-- The part of the ranges that a search reads in vain; all of them if its plan is another one.
CREATE FUNCTION bench.in_vain(query text) RETURNS float8
LANGUAGE plpgsql SET enable_bitmapscan = off AS $$
DECLARE
    answer json;
    node   jsonb;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || query INTO answer;
    node := jsonb_path_query_first(answer::jsonb, '$.** ? (exists(@."Ranges Total"))');
    RETURN coalesce((node ->> 'Ranges False Positives')::float8 / nullif((node ->> 'Ranges Total')::float8, 0), 1);
END $$;

CREATE PROCEDURE bench.measure_sweep(in_place integer, in_subject text, layout text, pages text, rate text,
                                     build_s float8)
LANGUAGE plpgsql AS $$
DECLARE
    search record;
BEGIN
    INSERT INTO bench.sweep
    SELECT in_place, in_subject, measure_sweep.layout, pages, rate,
           format('%s, %s page%s%s', i.layout, i.pages_per_range, CASE WHEN i.pages_per_range > 1 THEN 's' END,
                  ', rate ' || substring(i.layout_reason FROM 'rate (\S+) by default')), build_s,
           pg_relation_size('bench_index'),
           pg_relation_size('bench_index')::float8 / pg_relation_size(split_part(in_subject, '.', 1)::regclass)
    FROM skip_index_info('bench_index') AS i;
    FOR search IN SELECT what, array_agg(query ORDER BY number) AS queries FROM bench.search
                  WHERE tab || '.' || class = in_subject AND what NOT IN ('frequent', 'newest') GROUP BY what LOOP
        INSERT INTO bench.sweep_search
        SELECT in_place, search.what, 1e6 * (SELECT avg(bench.in_vain(query)) FROM unnest(search.queries) AS query),
               bench.query_ms(search.queries, 0.3);
    END LOOP;
END $$;
