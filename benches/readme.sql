-- Prints README.md's comparison from what bench.sh measured.
\pset null ''

SELECT format('Measured on %s rows (%s MB, a random `uuid` column) in one run of `make bench`, %s: %s, one client,',
              to_char(:rows, 'FM999,999,999'), to_char(relpages / 128.0, 'FM999,990'), to_char(now(), 'YYYY-MM-DD'),
              split_part(version(), ' (', 1))
FROM pg_class WHERE oid = 'events'::regclass;
\qecho 'table and indexes in shared buffers; medians. BRIN has 32 pages a range and a false-positive rate of 1 %.'
\qecho
\qecho '| | index size | build | absent key | present key | list of 100 absent keys | append of 10 % |'
\qecho '|---|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s | %s |', title,
              bench.in_unit(bytes / 1048576, 'MB'), bench.in_unit(build_s, 's'), bench.in_unit(absent_ms, 'ms'),
              bench.in_unit(present_ms, 'ms'), bench.in_unit(list_ms, 'ms'),
              to_char(append_s / base, 'FM990.0') || ' times no index')
FROM bench.summary, (SELECT append_s AS base FROM bench.summary WHERE subject = :'subject' AND variant = 'none') AS none
WHERE subject = :'subject' AND variant IN ('btree', 'brin', 'skip', 'filters');
SELECT format('| no index | | | %s | | | 1 |', bench.in_unit(absent_ms, 'ms'))
FROM bench.summary WHERE subject = :'subject' AND variant = 'none';
