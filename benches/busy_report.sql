-- Prints the tables of docs/busy-tables.md from what busy.sh measured. Loaded after lib.sql.
\pset null ''

-- How many times as long a lookup takes as with a btree.
CREATE FUNCTION bench.times_btree(rate text, variant text, metric text) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT to_char(bench.median(array_agg(value) FILTER (WHERE r.variant = 'btree'))
                       / bench.median(array_agg(value) FILTER (WHERE r.variant = times_btree.variant)), 'FM990.00')
        FROM bench.result AS r WHERE (r.subject, r.metric) = (rate, times_btree.metric));

\qecho '## Lookups a second'
\qecho
\qecho '| rows inserted a second | | `trace_id`, of fixed width | time, times the btree''s | `request`, behind a text | times the btree''s | pages that a lookup of `trace_id` reads | rows that came a second |'
\qecho '|---|---|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s | %s | %s |', bench.number(rate::float8), title,
              bench.figure(rate, variant, 'look_up_tps', ''), bench.times_btree(rate, variant, 'look_up_tps'),
              bench.figure(rate, variant, 'look_up_text_tps', ''), bench.times_btree(rate, variant, 'look_up_text_tps'),
              bench.figure(rate, variant, 'pages', ''), bench.figure(rate, variant, 'insert_tps', ''))
FROM (SELECT DISTINCT subject AS rate, variant FROM bench.result WHERE metric = 'look_up_tps') AS r
JOIN bench.variant AS v USING (variant)
ORDER BY rate::integer, v.place;

SELECT count(*) > 0 AS has_cold FROM bench.result WHERE metric = 'cold_ms' \gset
\if :has_cold
\qecho
\qecho '## Nothing in memory'
SELECT format($page$
The server was restarted and the machine's page cache dropped. Then two clients inserted rows, %s a second in all.
The time of a lookup of `trace_id` is the average of the first 200 of one client.$page$,
              bench.number(min(subject)::float8))
FROM bench.result WHERE metric = 'cold_ms';
\qecho
\qecho '| | a lookup |'
\qecho '|---|---|'
SELECT format('| %s | %s |', title, bench.figure(subject, variant, 'cold_ms', 'ms'))
FROM (SELECT DISTINCT subject, variant FROM bench.result WHERE metric = 'cold_ms') AS r
JOIN bench.variant AS v USING (variant)
ORDER BY v.place;
\endif
