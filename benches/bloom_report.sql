-- The tables of docs/bloom-benchmarks.md, from what bloom.sh measured. Markdown, by psql.
\pset tuples_only on
\pset format unaligned
\qecho '## Aggregates over the whole table'
\qecho
\qecho '| query | time | times count |'
\qecho '|---|---|---|'
SELECT format('| %s | %s ms | %s |', what, to_char(bloom_bench.ms(name), 'FM999,990'),
              to_char(bloom_bench.ms(name) / bloom_bench.ms(base), 'FM990.00'))
FROM (VALUES (1, 'count', 'count', '`count(trace_id)`'),
             (2, 'agg', 'count', '`bloom_agg(trace_id)`: the planner''s guess, folded'),
             (3, 'expected', 'count', format('`bloom_agg(trace_id, 0.01, %s)`', :rows)),
             (4, 'rocksdb', 'count', '`bloom_agg(trace_id, 0.01, NULL, ''rocksdb'')`'),
             (5, 'hll', 'count', '`hll_add_agg(hll_hash_bytea(uuid_send(trace_id)))`'),
             (6, 'distinct', 'count', '`count(DISTINCT trace_id)`, work_mem 1 GB *'),
             (7, 'count_2', 'count_2', '`count(trace_id)`, two processes'),
             (8, 'agg_2', 'count_2', '`bloom_agg(trace_id)`, two processes')) AS v (place, name, base, what)
WHERE bloom_bench.ms(name) IS NOT NULL
ORDER BY place;
\qecho
\qecho '## Targets'
\qecho
\qecho '| bloom_agg(uuid), default settings, against | target | measured | met |'
\qecho '|---|---|---|---|'
SELECT format('| %s | at most %s | %s | %s |', what, bound, to_char(measured, 'FM990.00'),
              CASE WHEN measured <= bound THEN 'yes' ELSE '**no**' END)
FROM (VALUES (1, 'count', 2.2, bloom_bench.ms('agg') / bloom_bench.ms('count')),
             (2, 'count(DISTINCT), which has 1 GB of work_mem', 0.4,
              bloom_bench.ms('agg') / bloom_bench.ms('distinct')),
             (3, 'itself, two processes: one', 0.6, bloom_bench.ms('agg_2') / bloom_bench.ms('agg')))
     AS v (place, what, bound, measured)
ORDER BY place;
\qecho
\qecho '## A million groups'
\qecho
SELECT format('Twenty keys each. `count`: %s ms *; `bloom_agg`: %s ms * (both with 64 MB of work_mem, spilling). '
              'The values are %s bytes in the table, %s of them the filter''s bits: %s beyond it.',
              to_char(bloom_bench.ms('groups_count'), 'FM999,990'), to_char(bloom_bench.ms('groups_agg'), 'FM999,990'),
              round(avg(pg_column_size(b)), 1), round(avg(bits / 8), 1), round(avg(pg_column_size(b) - bits / 8), 1))
FROM (SELECT b FROM groups LIMIT 10000) AS g, bloom_info(b);
\qecho
\qecho '## Asking'
\qecho
\qecho '| all rows, against a filter of five million of the keys | time, median of 5 | more than without, for each row |'
\qecho '|---|---|---|'
SELECT format('| %s | %s ms | %s |', what, to_char(bloom_bench.ms(name), 'FM999,990'),
              CASE name WHEN 'scan' THEN ''
                  ELSE to_char((bloom_bench.ms(name) - bloom_bench.ms('scan')) * 1e6 / :rows, 'FM990') || ' ns' END)
FROM (VALUES (1, 'scan', 'no filter, another condition'),
             (2, 'ask_skip', '`@>`, policy skip'),
             (3, 'ask_rocksdb', '`@>`, policy rocksdb')) AS v (place, name, what)
ORDER BY place;
\qecho
SELECT format('Which of %s filters of a million keys each, %s MB in all, one key may be in: %s ms, cached. '
              'To fetch them: %s ms. Medians of 21.',
              count(*), round(sum(octet_length(b::bytea)) / 1e6), to_char(bloom_bench.ms('parts_asked'), 'FM990.00'),
              to_char(bloom_bench.ms('parts_whole'), 'FM990.0'))
FROM parts;
\qecho
\qecho 'Lookups in memory, without SQL, in a filter of 6 MB, against the crates `fastbloom` (plain filters) and'
\qecho '`sbbf-rs` (split blocks of 32 bytes): [asking.rs](../crates/skip_value/benches/asking.rs). *Back to back*:'
\qecho 'the CPU may look up several keys at a time. *One by one*: the key to look up depends on the answer of the'
\qecho 'lookup before. A lookup of `sbbf-rs` reads one block and has no branch, which makes it the fastest back to'
\qecho 'back. Medians of 15 rounds in which all took turns.'
\qecho
SELECT :'asking';
\qecho
\qecho '## False-positive rates'
\qecho
\qecho 'Measured over SQL with values that were never added. Expected: of the bits as they are set.'
\qecho 'Small filters are measured in large numbers: 20,000 of ten keys, 1,000 of a thousand, 10 of a hundred thousand.'
\qecho 'The smallest filter of policy rocksdb has 512 bits, which at 0.01 let two of a million through'
\qecho 'if it has ten keys: too few to measure, hence 0.3.'
\qecho
\qecho '| policy | keys | built at | measured | expected | ratio |'
\qecho '|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s |', policy, to_char(keys, 'FM999,999,999'), built_at,
              to_char(measured, 'FM0.000000'),
              to_char(expected, 'FM0.000000'), to_char(measured / expected, 'FM0.000'))
FROM bloom_bench.rate
ORDER BY policy DESC, keys;
