-- Prints the figures at the head of README.md from what bench.sh measured.
\pset null ''

SELECT format('| %s rows with a random `uuid`, %s MB | index | CREATE INDEX | lookup of a key '
              '| time to append 10 %% of the rows |',
              to_char(bench.context('rows')::bigint, 'FM999,999,999'),
              to_char(bench.context('table_bytes')::bigint / 1048576.0, 'FM999,990'));
\qecho '|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s |',
              CASE variant WHEN 'skip' THEN 'pg_skip' WHEN 'none' THEN 'no index' ELSE title END,
              bench.in_unit(bytes / 1048576, 'MB'), bench.in_unit(build_s, 's'),
              bench.in_unit(coalesce(present_ms, absent_ms), 'ms'),
              to_char(append_s / base, 'FM990.0') || CASE variant WHEN 'none' THEN '' ELSE ' times no index' END)
FROM bench.summary, (SELECT append_s AS base FROM bench.summary
                     WHERE subject = 'events.trace_id' AND variant = 'none') AS none
WHERE subject = 'events.trace_id' AND variant IN ('skip', 'btree', 'none')
ORDER BY array_position('{skip,btree,none}', variant);
