-- Prints docs/benchmarks.md, but for its head, from what bench.sh measured.
\pset null ''
\set subject events.trace_id
\set clustered events.device_id
SELECT bench.context('rounds') AS rounds, bench.context('append') AS append, bench.context('updated') AS updated,
       bench.context('partitions') AS partitions
\gset

\qecho '## A random unique column: `trace_id uuid`'
\qecho
\qecho '| | size | build | absent key | consult | its pages | present key | IN, 100 absent keys | IN, 1,000 present keys | chosen |'
\qecho '|---|---|---|---|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |', title,
              bench.in_unit(bytes / 1048576, 'MB'), bench.figure(subject, variant, 'build_s', 's'),
              bench.figure(subject, variant, 'absent_ms', 'ms'), bench.figure(subject, variant, 'consult_ms', 'ms'),
              bench.number(consult_pages), bench.figure(subject, variant, 'present_ms', 'ms'),
              bench.figure(subject, variant, 'list_ms', 'ms'),
              bench.figure(subject, variant, 'present_list_ms', 'ms'), chosen)
FROM bench.summary
WHERE subject = :'subject' AND absent_ms IS NOT NULL;

\qecho
-- Not in earlier results.
SELECT format(E'%s\n\n| times the btree | absent key | present key | IN, 100 absent keys | IN, 1,000 present keys |\n'
              '|---|---|---|---|---|\n%s\n',
              E'Times of lookups divided by those of the btree in the same turn; medians of the turns of each round:',
              string_agg(format('| %s | %s | %s | %s | %s |', title,
                                bench.figure(subject, variant, 'absent_ratio', ''),
                                bench.figure(subject, variant, 'present_ratio', ''),
                                bench.figure(subject, variant, 'list_ratio', ''),
                                bench.figure(subject, variant, 'present_list_ratio', '')), E'\n' ORDER BY place))
FROM bench.summary
WHERE subject = :'subject' AND absent_ratio IS NOT NULL AND variant <> 'btree'
HAVING count(*) > 0 AND EXISTS (SELECT FROM bench.summary WHERE subject = :'subject' AND variant = 'btree');
SELECT format('With one parallel worker (`max_parallel_maintenance_workers = 1`), the build of skip took %s.',
              bench.figure(subject, variant, 'build_parallel_s', 's'))
FROM bench.summary
WHERE subject = :'subject' AND variant = 'skip';

\qecho
\qecho '## A clustered column of few values: `device_id integer`'
\qecho
SELECT format('Present keys have %s rows on average, in runs of about 2000. A hash index is not tried: it has a chain',
              to_char(bench.context('rows_of_device')::bigint, 'FM999,999'));
\qecho 'of pages for each device, and goes along it to add a row.'
\qecho
\qecho '| | size | build | absent key | its pages | present key | its pages | chosen |'
\qecho '|---|---|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s | %s | %s |', title,
              bench.in_unit(bytes / 1048576, 'MB'), bench.figure(subject, variant, 'build_s', 's'),
              bench.figure(subject, variant, 'absent_ms', 'ms'), bench.number(absent_pages),
              bench.figure(subject, variant, 'present_ms', 'ms'), bench.number(present_pages), chosen)
FROM bench.summary
WHERE subject = :'clustered' AND present_ms IS NOT NULL;

\qecho
\qecho '## Half of the table, with two parallel workers'
\qecho
SELECT format('`SELECT count(*)` of half of the devices, `max_parallel_workers_per_gather` 2 and 0 in turn; '
              'medians of %s.', :'rounds');
\qecho '`pg_skip.force_indexes` names the index, so that both are Skip Index Scans;'
\qecho 'it is ignored for the line without an index.'
\qecho
\qecho '| | one process | with workers | ratio | workers |'
\qecho '|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s |', title, bench.figure(subject, variant, 'serial_ms', 'ms'),
              bench.figure(subject, variant, 'parallel_ms', 'ms'), to_char(parallel_ms / serial_ms, 'FM0.00'), workers)
FROM bench.summary
WHERE subject = :'clustered' AND parallel_ms IS NOT NULL;

\qecho
-- Earlier results have the time of EXPLAIN itself.
SELECT bench.context('plannings') IS NULL AS by_explain \gset
\qecho '## Planning a query that cannot use the index'
\qecho
SELECT CASE WHEN :'by_explain'
            THEN '`EXPLAIN (COSTS OFF) SELECT * FROM events WHERE ts = …`, with an index on `trace_id` of each kind in '
                 'turn.'
            ELSE E'The planning time, as EXPLAIN tells it, of `SELECT * FROM events WHERE ts = …`, with an index on\n'
                 '`trace_id` of each kind in turn.' END;
SELECT format('Medians of %s rounds of 20 batches of 1,000 plannings.', :'rounds');
\qecho
\qecho '| | a planning | more than without an index |'
\qecho '|---|---|---|'
SELECT format('| %s | %s | %s |', CASE variant WHEN 'skip_bitmap' THEN 'skip, pg_skip.enable_scan = off' ELSE title END,
              bench.figure(subject, variant, 'plan_us', 'µs'), to_char(plan_us - base, 'FM990.0') || ' µs')
FROM bench.summary, (SELECT plan_us AS base FROM bench.summary WHERE subject = :'subject' AND variant = 'none') AS none
WHERE subject = :'subject' AND plan_us IS NOT NULL;

\qecho
SELECT format('## Planning over %s partitions', to_char(:partitions, 'FM999,999'));
\qecho
SELECT format('%s of a search for one key in a table of %s partitions, none of which can be',
              CASE WHEN :'by_explain' THEN '`EXPLAIN (COSTS OFF)`' ELSE 'The planning time, as EXPLAIN tells it,' END,
              to_char(:partitions, 'FM999,999'));
SELECT format('left out, with an index of each kind on all of them in turn. Medians of %s rounds of 5 batches '
              'of %s plannings.', :'rounds', coalesce(bench.context('plannings'), '3'));
SELECT 'The server may keep the files of all tables and indexes open (`max_files_per_process`).'
WHERE bench.context('settings') LIKE '%max_files_per_process%';
\qecho
\qecho '| | a planning | a partition, more than without an index |'
\qecho '|---|---|---|'
SELECT format('| %s | %s | %s |', CASE variant WHEN 'skip_bitmap' THEN 'skip, pg_skip.enable_scan = off' ELSE title END,
              bench.figure(subject, variant, 'plan_us', 'ms', 1000),
              to_char((plan_us - base) / :partitions, 'FM990.0') || ' µs')
FROM bench.summary,
     (SELECT plan_us AS base FROM bench.summary WHERE subject = 'partitions' AND variant = 'none') AS none
WHERE subject = 'partitions';
SELECT E'\nThese have 1,000 rows each, none of them summarized. The same with 3,000 rows, most of them summarized:\n\n'
       '| | a planning | a partition, more than without an index |\n|---|---|---|\n'
       || string_agg(format('| %s | %s | %s |',
                            CASE variant WHEN 'skip_bitmap' THEN 'skip, pg_skip.enable_scan = off' ELSE title END,
                            bench.figure(subject, variant, 'plan_us', 'ms', 1000),
                            to_char((plan_us - base) / :partitions, 'FM990.0') || ' µs'), E'\n' ORDER BY place)
FROM bench.summary,
     (SELECT plan_us AS base FROM bench.summary
      WHERE subject = 'summarized partitions' AND variant = 'none') AS none
WHERE subject = 'summarized partitions'
HAVING count(*) > 0;

\qecho
\qecho '## Prepared lookups'
\qecho
\qecho '`pgbench -M prepared`, eight clients, each time another of the keys that are there (benches/look_up.pgbench)'
\qecho 'or another of 1,000 lists of 1,000 such keys (benches/look_up_list.pgbench);'
SELECT format('transactions a second, medians of %s rounds in which the indexes took turns, '
              'their least and greatest behind them.', :'rounds');
\qecho
\qecho '| | plans as the server chooses | `plan_cache_mode = force_generic_plan` | lists of 1,000 keys |'
\qecho '|---|---|---|---|'
SELECT format('| %s | %s (%s) | %s (%s) | %s |', title, bench.number(round(tps_auto)), tps_auto_spread,
              bench.number(round(tps_generic)), tps_generic_spread,
              bench.figure(subject, variant, 'tps_lists', ''))
FROM bench.summary
WHERE subject = :'subject' AND tps_auto IS NOT NULL;

\qecho
\qecho '## Append'
\qecho
SELECT format('`INSERT … SELECT` of %s rows. For indexes that summarize later, what `brin_summarize_new_values` or',
              to_char(:append, 'FM999,999,999'));
\qecho '`skip_summarize` took right afterwards stands beside it. A btree whose predicate excludes all rows shows what'
\qecho 'any index costs an append.'
\qecho
\qecho '| | append | times no index | then summarize | both, times no index |'
\qecho '|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s |', title,
              bench.figure(subject, variant, 'append_s', 's'), to_char(append_s / base, 'FM990.00'),
              bench.figure(subject, variant, 'summarize_s', 's'),
              to_char((append_s + summarize_s) / base, 'FM990.00'))
FROM bench.summary, (SELECT append_s AS base FROM bench.summary WHERE subject = :'subject' AND variant = 'none') AS none
WHERE subject = :'subject' AND append_s IS NOT NULL;

\qecho
\qecho '## Inserts by eight clients, and updates'
\qecho
\qecho '`pgbench -M prepared`, eight clients, each transaction an INSERT of one row (benches/insert.pgbench),'
SELECT format('`synchronous_commit = off`; and an UPDATE of the first %s rows, without its commit.',
              to_char(:updated, 'FM999,999,999'));
\qecho
\qecho '| | inserts a second | times no index | update | times no index |'
\qecho '|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s |', title,
              bench.figure(subject, variant, 'insert_tps', ''), to_char(insert_tps / base_tps, 'FM990.00'),
              bench.figure(subject, variant, 'update_s', 's'), to_char(update_s / base_s, 'FM990.00'))
FROM bench.summary, (SELECT insert_tps AS base_tps, update_s AS base_s
                     FROM bench.summary WHERE subject = :'subject' AND variant = 'none') AS none
WHERE subject = :'subject' AND insert_tps IS NOT NULL;

\qecho
\qecho '## Nothing in memory'
\qecho
SELECT CASE WHEN EXISTS (SELECT FROM bench.result WHERE metric = 'cold_absent_ms')
            THEN 'The server was restarted and the page cache of the machine dropped before each query.'
            ELSE 'Not measured: `COLD=no`, or not run by root, who alone can drop the page cache of the machine.'
       END;
\qecho
\qecho '| | absent key | present key | IN, 1,000 present keys |'
\qecho '|---|---|---|---|'
SELECT format('| %s | %s | %s | %s |', title, bench.figure(subject, variant, 'cold_absent_ms', 'ms'),
              bench.figure(subject, variant, 'cold_present_ms', 'ms'),
              bench.figure(subject, variant, 'cold_present_list_ms', 'ms'))
FROM bench.summary
WHERE subject = :'subject' AND cold_absent_ms IS NOT NULL;

\qecho
\qecho '## Targets'
\qecho
\qecho '| skip, default options, against | target | measured | met |'
\qecho '|---|---|---|---|'
WITH figure AS (
         SELECT s.* FROM bench.summary AS s WHERE subject = :'subject'
     ),
     none AS (SELECT * FROM figure WHERE variant = 'none'),
     btree AS (SELECT * FROM figure WHERE variant = 'btree'),
     brin AS (SELECT * FROM figure WHERE variant = 'brin'),
     skip AS (SELECT * FROM figure WHERE variant = 'skip'),
     bitmap AS (SELECT * FROM figure WHERE variant = 'skip_bitmap'),
     skip_off AS (SELECT * FROM figure WHERE variant = 'skip_off'),
     filters AS (SELECT * FROM figure WHERE variant = 'filters'),
     brin_device AS (SELECT * FROM bench.summary WHERE subject = :'clustered' AND variant = 'brin'),
     skip_device AS (SELECT * FROM bench.summary WHERE subject = :'clustered' AND variant = 'skip'),
     -- Each target is a ratio, or a number of microseconds, that must not be exceeded.
     target (place, what, unit, bound, measured) AS (
         SELECT 1, 'whole query, absent key: BRIN''s', '', 1.0 / 50, skip.absent_ms / brin.absent_ms FROM skip, brin
         UNION ALL SELECT 2, 'whole query, absent key: the btree''s', '', 1.7,
             coalesce(skip.absent_ratio, skip.absent_ms / btree.absent_ms) FROM skip, btree
         UNION ALL SELECT 3, 'whole query, present key: the btree''s', '', 2,
             coalesce(skip.present_ratio, skip.present_ms / btree.present_ms) FROM skip, btree
         UNION ALL SELECT 4, 'whole query, list of 100 absent keys: BRIN''s', '', 1.0 / 50,
             skip.list_ms / brin.list_ms FROM skip, brin
         UNION ALL SELECT 5, 'whole query, list of 100 absent keys: the btree''s', '', 1.3,
             coalesce(skip.list_ratio, skip.list_ms / btree.list_ms) FROM skip, btree
         UNION ALL SELECT 6, 'whole query, list of 1,000 present keys: the btree''s', '', 2,
             coalesce(skip.present_list_ratio, skip.present_list_ms / btree.present_list_ms) FROM skip, btree
         UNION ALL SELECT 7, 'whole query, present device_id: BRIN''s', '', 1, s.present_ms / b.present_ms
             FROM skip_device AS s, brin_device AS b
         UNION ALL SELECT 8, 'prepared lookups by eight clients, time of one: the btree''s', '', 1 / 0.6,
             btree.tps_auto / skip.tps_auto FROM skip, btree
         UNION ALL SELECT 9, 'the same with generic plans', '', 1 / 0.6,
             btree.tps_generic / skip.tps_generic FROM skip, btree
         UNION ALL SELECT 10, 'prepared lists of 1,000 present keys by eight clients, time of one: the btree''s', '',
             1 / 0.6, btree.tps_lists / skip.tps_lists FROM skip, btree
         UNION ALL SELECT 11, 'nothing in memory, absent key: the btree''s', '', 1.5,
             skip.cold_absent_ms / btree.cold_absent_ms FROM skip, btree
         UNION ALL SELECT 12, 'nothing in memory, present key: the btree''s', '', 1.5,
             skip.cold_present_ms / btree.cold_present_ms FROM skip, btree
         UNION ALL SELECT 13, 'nothing in memory, list of 1,000 present keys: the btree''s', '', 1.5,
             skip.cold_present_list_ms / btree.cold_present_list_ms FROM skip, btree
         UNION ALL SELECT 14, 'half of the table with two workers: one process', '', 0.65,
             parallel_ms / serial_ms FROM skip_device
         UNION ALL SELECT 15, 'planning without use of the index, more than with BRIN', 'µs', 5,
             skip.plan_us - brin.plan_us FROM skip, brin
         UNION ALL SELECT 16, 'planning without use of the index, more than with `pg_skip.enable_scan = off`', 'µs', 5,
             skip.plan_us - bitmap.plan_us FROM skip, bitmap
         UNION ALL SELECT 17, 'bitmap scan, pages of the consult, absent key: BRIN''s', '', 1.0 / 50,
             bitmap.consult_pages / brin.consult_pages
             FROM bitmap, brin
         UNION ALL SELECT 18, 'bitmap scan, time of the consult, absent key: BRIN''s', '', 1.0 / 50,
             bitmap.consult_ms / brin.consult_ms
             FROM bitmap, brin
         UNION ALL SELECT 19, 'bitmap scan, whole query, absent key: BRIN''s', '', 1.0 / 20,
             bitmap.absent_ms / brin.absent_ms FROM bitmap, brin
         UNION ALL SELECT 20, 'size: the btree''s', '', 1.0 / 8, skip.bytes / btree.bytes FROM skip, btree
         UNION ALL SELECT 21, 'build: the btree''s', '', 1.0 / 7, skip.build_s / btree.build_s FROM skip, btree
         UNION ALL SELECT 22, 'build: BRIN''s', '', 1, skip.build_s / brin.build_s FROM skip, brin
         UNION ALL SELECT 23, 'build with a parallel worker: without', '', 0.6,
             skip.build_parallel_s / skip.build_s FROM skip
         UNION ALL SELECT 24, 'append, autosummarize off: no index', '', 1.08,
             skip_off.append_s / none.append_s FROM skip_off, none
         UNION ALL SELECT 25, 'append, autosummarize on: no index', '', 1.3,
             skip.append_s / none.append_s FROM skip, none
         UNION ALL SELECT 26, 'inserts by eight clients, time of one: no index', '', 1 / 0.97,
             none.insert_tps / skip.insert_tps FROM skip, none
         UNION ALL SELECT 27, 'update of old keys: no index', '', 1.2, skip.update_s / none.update_s FROM skip, none
         UNION ALL SELECT 28, 'filters: whole query, absent key: the btree''s', '', 3,
             coalesce(filters.absent_ratio, filters.absent_ms / btree.absent_ms) FROM filters, btree
         UNION ALL SELECT 29, 'filters: append, autosummarize on: no index', '', 1.2,
             filters.append_s / none.append_s FROM filters, none
         UNION ALL SELECT 30, 'planning a partition, more than without an index', 'µs', 10,
             (s.plan_us - n.plan_us) / :partitions FROM bench.summary AS s, bench.summary AS n
             WHERE (s.subject, s.variant, n.subject, n.variant) = ('partitions', 'skip', 'partitions', 'none')
         UNION ALL SELECT 31, 'filters: planning a partition, more than without an index', 'µs', 10,
             (s.plan_us - n.plan_us) / :partitions FROM bench.summary AS s, bench.summary AS n
             WHERE (s.subject, s.variant, n.subject, n.variant) = ('partitions', 'filters', 'partitions', 'none')
         UNION ALL SELECT t.place, t.what || 'planning a summarized partition, more than without an index', 'µs', 10,
             (s.plan_us - n.plan_us) / :partitions
             FROM (VALUES (32, '', 'skip'), (33, 'filters: ', 'filters')) AS t (place, what, variant)
             JOIN bench.summary AS s ON (s.subject, s.variant) = ('summarized partitions', t.variant)
             JOIN bench.summary AS n ON (n.subject, n.variant) = ('summarized partitions', 'none'))
SELECT format('| %s | %s | %s | %s |', what,
              CASE WHEN unit <> '' THEN 'below ' || bound || ' ' || unit
                   WHEN bound < 0.3 THEN 'at most 1/' || round(1 / bound)
                   ELSE 'at most ' || trim_scale(round(bound::numeric, 2)) END,
              CASE WHEN unit <> '' THEN to_char(measured, 'FM990.0') || ' ' || unit
                   WHEN bound < 0.3 AND measured < 1 THEN '1/' || to_char(1 / measured, 'FM9990.0')
                   ELSE to_char(measured, 'FM990.00') END,
              CASE WHEN measured <= bound THEN 'yes' ELSE '**no**' END)
FROM target
WHERE measured IS NOT NULL
ORDER BY place;
