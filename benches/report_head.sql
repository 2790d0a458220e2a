-- Prints the head of docs/benchmarks.md: what was measured, how, and where.
\pset null ''

SELECT format($page$
The table of [benches/twenty_million.sql](../benches/twenty_million.sql): %s rows, %s pages, %s MB.
Everything here was measured in one run of `make bench`, %s, revision %s.
[results/benchmarks.json](results/benchmarks.json) has the same figures.

- Machine: %s, %s processors, %s GB of memory, %s.$page$,
              to_char(bench.context('rows')::bigint, 'FM999,999,999'),
              to_char(bench.context('table_pages')::bigint, 'FM999,999,999'),
              to_char(bench.context('table_bytes')::bigint / 1048576.0, 'FM999,990'),
              bench.context('date'), bench.context('revision'), bench.context('processor'),
              bench.context('processors'), bench.context('memory_gb'), bench.context('system'));
SELECT format($page$- %s, pg_skip %s. Settings: `%s`;
  everything else is PostgreSQL's default, but for the parallel scans.
- One client; table and index were read into shared buffers before the queries.
- skip: default options (on `trace_id` that is a map by single pages); "filters": `layout = filters`.
  The planner takes Skip Index Scans by itself. "Through bitmap scans": the same index with
  `pg_skip.enable_scan = off`.
- BRIN: `*_bloom_ops (n_distinct_per_range = n, false_positive_rate = …)`, `pages_per_range = 32`,
  where n is what the ranges hold: %s of `trace_id`, %s of `device_id` (BRIN's least is 16). "Default options":
  `*_bloom_ops` alone.$page$,
              bench.context('server'), bench.context('pg_skip'), bench.context('settings'), bench.context('distinct'),
              bench.context('clustered_distinct'));
SELECT $page$- contrib/bloom has operator classes for `integer` and `text` alone. For `trace_id` the index is on
  `trace_id::text`, and the queries are `WHERE trace_id::text = …`. Of the default 80 bits for each row 8 are set, not
  the default 2, so that it reads fewer rows in vain.$page$
WHERE EXISTS (SELECT FROM bench.result WHERE variant = 'bloom');
SELECT format($page$- ClickHouse: %s, by chdb, in the process of its client. The rows are in one part, in the order of
  the table; the index has `GRANULARITY 1`, one filter for 8,192 rows. `max_threads = 1`, and its
  cache of query conditions is off. Size and build are those of the index alone.$page$, version)
FROM bench.context('clickhouse') AS version WHERE version IS NOT NULL;
SELECT format($page$- Queries: `SELECT *`; in each round the median over up to %s, up to 20 lists of 100
  absent keys and up to 5 of 1,000 present ones, parsing and planning included. If the first query
  takes more than two seconds, only this one counts. Sequential scans were switched off for them; "chosen" says how
  the planner reads the table when nothing is switched off.
- %s. %s: medians of %s rounds. All other figures: medians of %s rounds. Least
  and greatest stand in brackets.%s
- Consult: the node of the plan that reads the index, by EXPLAIN (ANALYZE, BUFFERS). A Skip Index Scan reads the table
  as well: its pages are those of the index, its time is that of the whole node. Pages are of 8 kB.$page$,
              CASE WHEN turns THEN '2,000 absent and 200 present keys' ELSE '200 single keys' END,
              format(CASE WHEN turns THEN 'Builds (commit included) and queries: medians of %s rounds'
                     ELSE 'Builds: medians of %s, commit included' END, bench.context('runs')),
              CASE WHEN bench.context('plannings') IS NULL THEN 'Appends' ELSE E'Appends and\n  inserts' END,
              coalesce(bench.context('append_rounds'), bench.context('rounds')),
              bench.context('rounds'),
              CASE WHEN turns THEN E' In each round the indexes took turns, in an order by chance,\n'
                  '  and the queries of one kind were repeated for two seconds, because the speed of a shared machine '
                  'changes.'
                  ELSE '' END)
FROM (SELECT coalesce(bench.context('order') = 'turns', false) AS turns) AS earlier;
SELECT format($page$- Lookups of `trace_id` by btree, skip and filters are measured otherwise. Each has a table
  of its own, with the same rows, and in each round they took %s turns, in an order by chance. A turn is 250 single
  keys, or five lists of 100, or one of 1,000, the same keys for each; its figure is the median over them, that of the
  round the median over its turns.
- Appends under hash and contrib/bloom: medians of %s rounds.$page$, bench.context('turns'), bench.context('rounds'))
WHERE bench.context('turns') IS NOT NULL;
SELECT format('- Left out: %s.', value) FROM bench.context WHERE name LIKE 'left_out %' ORDER BY name;
