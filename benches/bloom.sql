-- Measuring the type bloom, on the server. Loaded into the throw-away database by bloom.sh.

CREATE SCHEMA bloom_bench;

CREATE TABLE bloom_bench.result (name text, ms float8);

-- Measured over SQL: false positives among values that were never added, and the rate that is expected.
CREATE TABLE bloom_bench.rate (policy text, built_at float8, keys bigint, measured float8, expected float8);

-- Runs a query to its end and keeps the milliseconds it took.
CREATE PROCEDURE bloom_bench.keep(name text, query text)
LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    EXECUTE query;
    INSERT INTO bloom_bench.result VALUES (name, 1000 * extract(epoch FROM clock_timestamp() - began));
END $$;

CREATE FUNCTION bloom_bench.ms(name text) RETURNS float8
LANGUAGE sql STABLE
RETURN (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY r.ms) FROM bloom_bench.result AS r WHERE r.name = ms.name);

-- The fraction of the values asked, none of which was added, for which a filter answers "maybe". Each filter is asked
-- for different values, because a small filter answers "maybe" much more often for the few values whose probes
-- coincide.
CREATE FUNCTION bloom_bench.absent(filter bloom, number integer, asked integer) RETURNS float8
LANGUAGE sql STABLE
RETURN (SELECT count(*) / asked::float8 FROM generate_series(1, asked) AS i
        WHERE filter @> md5(number || ' absent ' || i)::uuid);
