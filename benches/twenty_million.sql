-- The table of the benchmarks: 20 million rows, 75 on a page, 266,667 pages, 2083 MB.
--
--   psql -f benches/twenty_million.sql                     the whole table
--   psql -v rows=200000 -f benches/twenty_million.sql      a smaller one of the same shape
--
-- trace_id     unique, in random order: a btree on this column is large, and BRIN minmax is of no use. Row i has the
--              value md5('trace ' || i)::uuid, so all keys are known if the number of rows is known
-- device_id    1000 values in runs of about 2000 neighbouring rows, blurred at their edges
--
-- A tuple is 24 bytes of header, 8 + 16 + 4 (+ 4 padding) + 8 of fixed columns and 1 + 32 of payload, 104 in all when
-- aligned; with its line pointer 108, so that 75 fit the 8168 bytes of a page.
\if :{?rows}
\else
    \set rows 20000000
\endif

CREATE TABLE events (
    id        bigint      NOT NULL,
    trace_id  uuid        NOT NULL,
    device_id integer     NOT NULL,
    ts        timestamptz NOT NULL,
    payload   text        NOT NULL
);

-- The rows from..upto of the table, so that it can also grow by more rows of the same kind.
CREATE FUNCTION event_rows(first bigint, last bigint) RETURNS SETOF events
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT i,
           md5('trace ' || i)::uuid,
           ((i + (random() * 200)::bigint) / 2000 % 1000)::integer,
           timestamptz '2026-01-01 00:00Z' + i * interval '10 milliseconds',
           md5(i::text)
    FROM generate_series(first, last) AS i;
END;

-- Twenty statements instead of one, so that progress shows.
SELECT format('INSERT INTO events SELECT * FROM event_rows(%s, %s)',
              part * :rows::bigint / 20 + 1, (part + 1) * :rows::bigint / 20)
FROM generate_series(0, 19) AS part
\gexec

VACUUM (FREEZE, ANALYZE) events;
