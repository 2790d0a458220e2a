-- Prints README.md's comparison from what bench.sh measured.
\pset null ''

SELECT format('Measured on %s rows (%s MB, a random `uuid` column) in one run of `make bench`, %s:',
              to_char(bench.context('rows')::bigint, 'FM999,999,999'),
              to_char(bench.context('table_bytes')::bigint / 1048576.0, 'FM999,990'), bench.context('date'));
SELECT format(E'%s, one client, table and indexes in shared buffers. ClickHouse runs in the process of\n'
              'its client (chdb), with one thread.', split_part(bench.context('server'), ' (', 1));
\qecho 'The figures are medians. [docs/benchmarks.md](docs/benchmarks.md) has the least and the greatest of the rounds:'
SELECT format('for %s %% of the figures, both are within a tenth of the median. Empty cells were not measured.',
              to_char(100 * avg((greatest(most / median - 1, 1 - least / median) <= 0.1)::integer), 'FM990'))
FROM (SELECT bench.median(array_agg(value)) AS median, min(value) AS least, max(value) AS most
      FROM bench.result
      WHERE subject = 'events.trace_id' AND metric IN ('build_s', 'absent_ms', 'present_ms', 'list_ms', 'append_s')
      AND variant IN ('none', 'btree', 'hash', 'brin_default', 'brin', 'brin_tuned', 'bloom', 'skip', 'filters',
                      'clickhouse', 'clickhouse_none')
      GROUP BY variant, metric HAVING bench.median(array_agg(value)) > 0) AS figure;
\qecho
\qecho '| | index size | build | absent key | present key | list of 100 absent keys | append of 10 % |'
\qecho '|---|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s | %s |', title,
              bench.in_unit(bytes / 1048576, 'MB'), bench.in_unit(build_s, 's'), bench.in_unit(absent_ms, 'ms'),
              bench.in_unit(present_ms, 'ms'), bench.in_unit(list_ms, 'ms'),
              to_char(append_s / base, 'FM990.0') || ' times no index')
FROM bench.summary, (SELECT append_s AS base FROM bench.summary
                     WHERE subject = 'events.trace_id' AND variant = 'none') AS none
WHERE subject = 'events.trace_id'
AND variant IN ('btree', 'hash', 'brin_default', 'brin', 'brin_tuned', 'bloom', 'skip', 'filters', 'clickhouse_none',
                'clickhouse');
SELECT format('| no index | | | %s | | | 1 |', bench.in_unit(absent_ms, 'ms'))
FROM bench.summary WHERE subject = 'events.trace_id' AND variant = 'none';
