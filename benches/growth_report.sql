-- Prints the tables of docs/growth.md from what growth.sh measured.
\pset null ''

CREATE VIEW bench.growth AS
SELECT variant, title, v.place AS kind_place, min(m.place) AS place, moment, metric,
       bench.median(array_agg(grown) FILTER (WHERE grown IS NOT NULL)) AS grown,
       bench.median(array_agg(fresh) FILTER (WHERE fresh IS NOT NULL)) AS fresh,
       CASE WHEN count(grown) > 1 THEN format(' (%s to %s)', bench.number(min(grown)), bench.number(max(grown)))
            ELSE '' END AS spread
FROM bench.moment AS m JOIN bench.variant AS v USING (variant)
GROUP BY variant, title, v.place, moment, metric;

CREATE FUNCTION bench.beside(variant text, moment text, metric text, unit text DEFAULT '', divisor float8 DEFAULT 1)
RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT bench.number(grown / divisor) || unit || spread
               || coalesce('; fresh: ' || bench.number(fresh / divisor) || unit, '')
        FROM bench.growth AS g
        WHERE (g.variant, g.moment, g.metric) = (beside.variant, beside.moment, beside.metric));

\qecho '## The index while the table grows, and after updates'
\qecho
\qecho '| | rows | segments of a key | index pages, absent key | present key | absent key | present key | size | rate |'
\qecho '|---|---|---|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s | %s | %s | %s |', title, moment,
              bench.beside(variant, moment, 'segments'),
              bench.beside(variant, moment, 'absent_index_pages'),
              bench.beside(variant, moment, 'present_index_pages'),
              bench.beside(variant, moment, 'absent_ms', ' ms'), bench.beside(variant, moment, 'present_ms', ' ms'),
              bench.beside(variant, moment, 'bytes', ' MB', 1048576),
              (SELECT trim(to_char(grown::numeric, '9.9EEEE'))
                      || coalesce('; fresh: ' || trim(to_char(fresh::numeric, '9.9EEEE')), '')
               FROM bench.growth AS r WHERE (r.variant, r.moment, r.metric) = (g.variant, g.moment, 'rate')))
FROM (SELECT variant, title, kind_place, moment, min(place) AS place FROM bench.growth GROUP BY 1, 2, 3, 4) AS g
ORDER BY kind_place, place;

\qecho
\qecho '## How long inserts take'
\qecho
\qecho '| | rows of a statement | statements | median | 99.9 % | worst |'
\qecho '|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s ms | %s ms | %s ms |', title, kind, to_char(count(*), 'FM999,999,999'),
              bench.number(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms)),
              bench.number(percentile_cont(0.999) WITHIN GROUP (ORDER BY ms)), bench.number(max(ms)))
FROM bench.latency JOIN bench.variant USING (variant)
GROUP BY title, place, kind
ORDER BY kind, place;

-- Bytes of a new index of maps for each row of the table, at the largest size measured.
CREATE FUNCTION bench.bytes_per_row() RETURNS float8
LANGUAGE sql STABLE
RETURN (SELECT fresh / split_part(moment, ' ', 1)::float8 / 1e6 FROM bench.growth
        WHERE variant = 'skip' AND metric = 'bytes' AND moment LIKE '% million' ORDER BY place DESC LIMIT 1);
