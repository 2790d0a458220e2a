-- Prints the tables of docs/benchmarks.md from what bench.sh measured.
\pset null ''

\qecho '## Size, build, queries'
\qecho
\qecho '| | size | build | absent key | consult | its pages | present key | IN, 100 absent keys | chosen |'
\qecho '|---|---|---|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s | %s | %s | %s |', title,
              bench.in_unit(bytes / 1048576, 'MB'), bench.in_unit(build_s, 's'), bench.in_unit(absent_ms, 'ms'),
              bench.in_unit(consult_ms, 'ms'), bench.number(consult_pages), bench.in_unit(present_ms, 'ms'),
              bench.in_unit(list_ms, 'ms'), chosen)
FROM bench.summary
WHERE subject = :'subject' AND absent_ms IS NOT NULL;

\qecho
\qecho '## Append'
\qecho
SELECT format('`INSERT … SELECT` of %s rows. For indexes that summarize later, what `brin_summarize_new_values` or', to_char(:append, 'FM999,999,999'));
\qecho '`skip_summarize` took right afterwards stands beside it.'
\qecho
\qecho '| | append | times no index | then summarize | both, times no index |'
\qecho '|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s |', title,
              bench.in_unit(append_s, 's'), to_char(append_s / base, 'FM990.00'), bench.in_unit(summarize_s, 's'),
              to_char((append_s + summarize_s) / base, 'FM990.00'))
FROM bench.summary, (SELECT append_s AS base FROM bench.summary WHERE subject = :'subject' AND variant = 'none') AS none
WHERE subject = :'subject' AND append_s IS NOT NULL;

\qecho
\qecho '## Targets'
\qecho
\qecho '| skip, default options, against | must be | is | |'
\qecho '|---|---|---|---|'
WITH none AS (SELECT * FROM bench.summary WHERE subject = :'subject' AND variant = 'none'),
     btree AS (SELECT * FROM bench.summary WHERE subject = :'subject' AND variant = 'btree'),
     brin AS (SELECT * FROM bench.summary WHERE subject = :'subject' AND variant = 'brin'),
     skip AS (SELECT * FROM bench.summary WHERE subject = :'subject' AND variant = 'skip'),
     skip_off AS (SELECT * FROM bench.summary WHERE subject = :'subject' AND variant = 'skip_off'),
     -- Each target is a ratio that must not be exceeded.
     target (place, what, bound, ratio) AS (
         SELECT 1, 'pages of the consult, absent key: BRIN''s', 1.0 / 50, skip.consult_pages / brin.consult_pages FROM skip, brin
         UNION ALL SELECT 2, 'time of the consult, absent key: BRIN''s', 1.0 / 50, skip.consult_ms / brin.consult_ms FROM skip, brin
         UNION ALL SELECT 3, 'whole query, absent key: BRIN''s', 1.0 / 20, skip.absent_ms / brin.absent_ms FROM skip, brin
         UNION ALL SELECT 4, 'size: the btree''s', 1.0 / 8, skip.bytes / btree.bytes FROM skip, btree
         UNION ALL SELECT 5, 'build: the btree''s', 1.0 / 4, skip.build_s / btree.build_s FROM skip, btree
         UNION ALL SELECT 6, 'build: BRIN''s', 1, skip.build_s / brin.build_s FROM skip, brin
         UNION ALL SELECT 7, 'append, autosummarize off: no index', 1.1, skip_off.append_s / none.append_s FROM skip_off, none
         UNION ALL SELECT 8, 'append, autosummarize on: no index', 1.3, skip.append_s / none.append_s FROM skip, none)
SELECT format('| %s | at most %s | %s | %s |', what,
              CASE WHEN bound < 1 THEN '1/' || round(1 / bound) ELSE to_char(bound, 'FM0.0') END,
              CASE WHEN bound < 1 AND ratio < 1 THEN '1/' || to_char(1 / ratio, 'FM9990.0') ELSE to_char(ratio, 'FM990.00') END,
              CASE WHEN ratio <= bound THEN 'met' ELSE '**not met**' END)
FROM target
ORDER BY place;
