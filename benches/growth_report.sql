-- Prints the tables of docs/growth.md from what growth.sh measured. Loaded after growth_results.sql.
\pset null ''

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

\qecho
\qecho '## Larger tables'
SELECT $page$
Up to 10^10 rows, the figures come from a simulation of the rules by which segments are merged, with the sizes measured
above; for more rows, from a formula ([growth_curve.rs](../crates/skip_segment/examples/growth_curve.rs)). Averages and
maxima are over the growth from the size in the line before. All segments that are being merged are counted, although a
lookup of a key that is merged already reads fewer.$page$;
\qecho
\qecho '| rows | pages, new index | segments, average | most | bound | pages, average | most |'
\qecho '|---|---|---|---|---|---|---|'
SELECT format('| 10^%s%s | %s | %s | %s | %s | %s | %s |', round(log(rows)),
              CASE WHEN segments_most IS NULL THEN ', by the formula' END, pages_new, segments, segments_most, bound,
              pages, pages_most)
FROM bench.curve
ORDER BY rows;
