-- Prints the tables of docs/options.md from what sweep.sh measured.
\pset null ''

-- A row for each index that was built; is_default tells whether it has the options of a map that sets none.
CREATE VIEW bench.sweep AS
SELECT subject, variant, split_part(variant, '/', 1) AS layout,
       min(value) FILTER (WHERE metric = 'pages_per_range') AS pages,
       min(value) FILTER (WHERE metric = 'rate') AS rate,
       variant LIKE '%/default/default' AS is_default,
       bench.median(array_agg(value) FILTER (WHERE metric = 'bytes')) AS bytes,
       bench.median(array_agg(value) FILTER (WHERE metric = 'build_s')) AS build_s,
       bench.median(array_agg(value) FILTER (WHERE metric = 'absent_ms')) AS absent_ms,
       bench.median(array_agg(value) FILTER (WHERE metric = 'present_ms')) AS present_ms,
       min(value) FILTER (WHERE metric = 'absent_index_pages') AS index_pages,
       min(value) FILTER (WHERE metric = 'absent_vain_pages') AS absent_vain,
       min(value) FILTER (WHERE metric = 'present_vain_pages') AS present_vain,
       min(value) FILTER (WHERE metric = 'present_table_pages') AS present_pages
FROM bench.result GROUP BY subject, variant;

-- The options of an index, in words.
CREATE FUNCTION bench.options(s bench.sweep) RETURNS text
LANGUAGE sql STABLE
RETURN format('%s, %s %s, %s', s.layout, s.pages, CASE s.pages WHEN 1 THEN 'page' ELSE 'pages' END,
              CASE WHEN s.is_default THEN 'defaults' ELSE trim_scale(s.rate::numeric)::text END);

-- The figures of one index.
CREATE FUNCTION bench.index_of(subject text, variant text) RETURNS bench.sweep
LANGUAGE sql STABLE
RETURN (SELECT s FROM bench.sweep AS s WHERE s.subject = index_of.subject AND s.variant = index_of.variant);

\qecho
SELECT format($page$Measured by `make sweep`, %s, revision %s, on the table of
[benches/twenty_million.sql](../benches/twenty_million.sql) with %s rows on %s pages (%s MB).
[results/options.json](results/options.json) has the same figures.

- Machine: %s, %s processors, %s GB of memory, %s.
- %s, pg_skip %s. Settings: `%s`.
- Skip Index Scans, table and index in shared buffers. Times are those of whole queries, parsing and planning included:
  medians of %s rounds, each the median over up to 400 absent or 200 present keys. Builds: medians of as many, commit
  included. The least and the greatest stand in brackets.
- "Read in vain": pages of the table in ranges that do not have the key; averages over 100 keys.$page$,
              bench.context('date'), bench.context('revision'),
              to_char(bench.context('rows')::bigint, 'FM999,999,999'),
              to_char(bench.context('table_pages')::bigint, 'FM999,999,999'),
              to_char(bench.context('table_bytes')::bigint / 1048576.0, 'FM999,990'),
              bench.context('processor'), bench.context('processors'), bench.context('memory_gb'),
              bench.context('system'), bench.context('server'), bench.context('pg_skip'), bench.context('settings'),
              bench.context('runs'));

\qecho
\qecho '### What to choose'
SELECT format($page$
- **Nothing, to begin with.** On the unique column the map that the defaults give takes %s. An absent key takes %s, a
  present one %s.
- **A higher `false_positive_rate` to save space.** With 0.0001 the same map takes %s, and a lookup reads %s pages in
  vain on average: an absent key takes %s. With 0.01 it takes %s, and reads %s pages in vain: %s. What is read in vain
  grows with the table.
- **Single pages for values that are in one row each.** At 0.0001 a map by single pages takes %s, one by 64 pages %s.
  But a present key takes %s with the first and %s with the second, because a range is read as a whole.$page$,
              bench.in_unit(d.bytes / 1048576, 'MB'), bench.in_unit(d.absent_ms, 'ms'),
              bench.in_unit(d.present_ms, 'ms'),
              bench.in_unit(low.bytes / 1048576, 'MB'), bench.number(low.absent_vain),
              bench.in_unit(low.absent_ms, 'ms'),
              bench.in_unit(high.bytes / 1048576, 'MB'), bench.number(high.absent_vain),
              bench.in_unit(high.absent_ms, 'ms'),
              bench.in_unit(low.bytes / 1048576, 'MB'), bench.in_unit(wide.bytes / 1048576, 'MB'),
              bench.in_unit(low.present_ms, 'ms'), bench.in_unit(wide.present_ms, 'ms'))
FROM bench.index_of('events.trace_id', 'map/default/default') AS d,
     bench.index_of('events.trace_id', 'map/1/0.0001') AS low,
     bench.index_of('events.trace_id', 'map/1/0.01') AS high,
     bench.index_of('events.trace_id', 'map/64/0.0001') AS wide;
SELECT format($page$- **Larger ranges for values in runs, to save space.** On the clustered column, a map at 0.0001
  takes %s by single pages, %s by 16 pages and %s by 64. For a present key %s, %s and %s pages of the table are read.
- **Filters to build faster.** On the unique column, filters by 16 pages at 0.0001 take %s, the map by 16 pages at this
  rate %s. They are built in %s, the map in %s. An absent key takes %s with filters and %s with the map, and reads %s
  and %s pages of the index; a present key takes %s and %s.$page$,
              bench.in_unit(narrow.bytes / 1048576, 'MB'), bench.in_unit(middle.bytes / 1048576, 'MB'),
              bench.in_unit(broad.bytes / 1048576, 'MB'), bench.number(round(narrow.present_pages)),
              bench.number(round(middle.present_pages)), bench.number(round(broad.present_pages)),
              bench.in_unit(f.bytes / 1048576, 'MB'), bench.in_unit(m.bytes / 1048576, 'MB'),
              bench.in_unit(f.build_s, 's'), bench.in_unit(m.build_s, 's'),
              bench.in_unit(f.absent_ms, 'ms'), bench.in_unit(m.absent_ms, 'ms'),
              bench.number(round(f.index_pages)), bench.number(round(m.index_pages)),
              bench.in_unit(f.present_ms, 'ms'), bench.in_unit(m.present_ms, 'ms'))
FROM bench.index_of('events.device_id', 'map/1/0.0001') AS narrow,
     bench.index_of('events.device_id', 'map/16/0.0001') AS middle,
     bench.index_of('events.device_id', 'map/64/0.0001') AS broad,
     bench.index_of('events.trace_id', 'filters/16/0.0001') AS f,
     bench.index_of('events.trace_id', 'map/16/0.0001') AS m;

\qecho
\qecho '### What was best'
\qecho
\qecho 'Of figures that are the same to two digits, that of the defaults is shown.'
\qecho
\qecho '| column | what | options | measured | map, defaults | filters, 16 pages, 0.0001 |'
\qecho '|---|---|---|---|---|---|'
WITH best AS (
    SELECT subject, w.place, w.what, bench.options(s) AS options, w.figure, w.unit,
           row_number() OVER (PARTITION BY subject, w.what
                              ORDER BY to_char(w.figure, '9.9EEEE')::float8, is_default DESC, layout DESC, pages,
                                       w.figure, rate DESC)
               AS rank
    FROM bench.sweep AS s,
         LATERAL (VALUES (1, 'smallest', bytes / 1048576, 'MB'), (2, 'fastest build', build_s, 's'),
                         (3, 'absent key', absent_ms, 'ms'), (4, 'present key', present_ms, 'ms'))
                 AS w (place, what, figure, unit)
)
SELECT format('| `%s` | %s | %s | %s | %s | %s |', split_part(subject, '.', 2), what, options,
              bench.in_unit(figure, unit),
              (SELECT bench.in_unit(CASE place WHEN 1 THEN (d).bytes / 1048576 WHEN 2 THEN (d).build_s
                                               WHEN 3 THEN (d).absent_ms ELSE (d).present_ms END, unit)
               FROM bench.index_of(subject, 'map/default/default') AS d),
              (SELECT bench.in_unit(CASE place WHEN 1 THEN (d).bytes / 1048576 WHEN 2 THEN (d).build_s
                                               WHEN 3 THEN (d).absent_ms ELSE (d).present_ms END, unit)
               FROM bench.index_of(subject, 'filters/16/0.0001') AS d))
FROM best WHERE rank = 1
ORDER BY subject DESC, place;

SELECT E'\n### ' || CASE s.subject
           WHEN 'events.trace_id' THEN 'A random unique column: `trace_id uuid`'
           ELSE 'A clustered column of few values: `device_id integer`' END || $page$

$page$ || format(E'| %s |\n|---|---|---|---|---|---|---|---|---|---|---|\n',
                 concat_ws(' | ', 'layout', 'pages_per_range', 'false_positive_rate', 'size', 'build', 'absent key',
                           'read in vain', 'present key', 'read in vain', 'table pages', 'index pages'))
       || string_agg(format('| %s | %s%s | %s%s | %s | %s | %s | %s | %s | %s | %s | %s |', layout, pages,
                            CASE WHEN is_default THEN ' (default)' END,
                            CASE WHEN rate >= 0.00001 THEN trim_scale(rate::numeric)::text
                                 ELSE trim(to_char(rate::numeric, '9.9EEEE')) END,
                            CASE WHEN is_default THEN ' (default)' END,
                            bench.in_unit(bytes / 1048576, 'MB'), bench.figure(subject, variant, 'build_s', 's'),
                            bench.figure(subject, variant, 'absent_ms', 'ms'), bench.number(absent_vain),
                            bench.figure(subject, variant, 'present_ms', 'ms'), bench.number(present_vain),
                            bench.number(present_pages), bench.number(index_pages)),
                     E'\n' ORDER BY layout DESC, is_default DESC, pages, rate DESC)
FROM bench.sweep AS s
GROUP BY s.subject
ORDER BY s.subject DESC;
