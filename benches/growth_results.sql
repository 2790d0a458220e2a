-- What growth.sh measured, as medians with their spread, and as JSON. Loaded after growth.sql.

CREATE VIEW bench.growth AS
SELECT variant, title, v.place AS kind_place, min(m.place) AS place, moment, metric,
       bench.median(array_agg(grown) FILTER (WHERE grown IS NOT NULL)) AS grown,
       bench.median(array_agg(fresh) FILTER (WHERE fresh IS NOT NULL)) AS fresh,
       CASE WHEN count(grown) > 1 THEN format(' (%s to %s)', bench.number(min(grown)), bench.number(max(grown)))
            ELSE '' END AS spread,
       min(grown) AS grown_least, max(grown) AS grown_greatest,
       min(fresh) AS fresh_least, max(fresh) AS fresh_greatest,
       greatest(count(grown), count(fresh)) AS runs
FROM bench.moment AS m JOIN bench.variant AS v USING (variant)
GROUP BY variant, title, v.place, moment, metric;

-- Bytes of a new index of maps for each row of the table, at the largest size measured.
CREATE FUNCTION bench.bytes_per_row() RETURNS float8
LANGUAGE sql STABLE
RETURN (SELECT fresh / split_part(moment, ' ', 1)::float8 / 1e6 FROM bench.growth
        WHERE variant = 'skip' AND metric = 'bytes' AND moment LIKE '% million' ORDER BY place DESC LIMIT 1);

-- Pages that a lookup reads in tables of other sizes, as growth_curve.rs computes them.
CREATE TABLE bench.curve (
    rows          numeric NOT NULL,
    pages_new     integer NOT NULL,
    segments      numeric NOT NULL,
    segments_most integer,
    bound         integer NOT NULL,
    pages         numeric NOT NULL,
    pages_most    integer
);

-- All of it, a line for each. rows is the size of the table at moments of growth, and null at others.
CREATE FUNCTION bench.growth_as_json() RETURNS text
LANGUAGE sql STABLE
RETURN (
    WITH lines (part, place, line) AS (
             SELECT 'context', row_number() OVER (ORDER BY name), to_json(name) || ': ' || to_json(value)
             FROM bench.context
             UNION ALL
             SELECT 'results', row_number() OVER (ORDER BY kind_place, place, metric), row_to_json(f)::text
             FROM (SELECT variant, title, kind_place, place, moment,
                          (substring(moment FROM '^([0-9.]+) million$')::numeric * 1000000)::bigint AS rows, metric,
                          grown, grown_least, grown_greatest, fresh, fresh_least, fresh_greatest, runs
                   FROM bench.growth) AS f
             UNION ALL
             SELECT 'latency', row_number() OVER (ORDER BY kind, place), row_to_json(l)::text
             FROM (SELECT variant, place, kind, count(*) AS statements,
                          percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS median,
                          percentile_cont(0.999) WITHIN GROUP (ORDER BY ms) AS "99.9 %", max(ms) AS worst
                   FROM bench.latency JOIN bench.variant USING (variant)
                   GROUP BY variant, place, kind) AS l
             UNION ALL
             SELECT 'curve', row_number() OVER (ORDER BY rows), row_to_json(c)::text FROM bench.curve AS c
         ),
         parts AS (
             SELECT part, string_agg('    ' || line, E',\n' ORDER BY place) AS lines FROM lines GROUP BY part
         )
    SELECT format(E'{\n  "context": {\n%s\n  },\n', (SELECT lines FROM parts WHERE part = 'context'))
           || string_agg(format(E'  "%s": [\n%s\n  ]', part, lines), E',\n' ORDER BY part) || E'\n}'
    FROM parts WHERE part <> 'context');
