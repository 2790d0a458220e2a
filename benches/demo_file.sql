-- What demo_file.sh does on the server: guesses types, asks skip_advise, measures lookups. Loaded after lib.sql.

CREATE SCHEMA demo;

-- The columns of the file, in order.
CREATE TABLE demo.col (
    place  integer PRIMARY KEY,
    name   text NOT NULL,
    type   text NOT NULL DEFAULT 'text'
);

-- The types that are guessed, in the order in which they are tried, and how their values are written. A number that
-- begins with a zero is no number: post codes and serial numbers are written so.
CREATE TABLE demo.type (
    place   integer PRIMARY KEY,
    name    text NOT NULL,
    pattern text NOT NULL
);
INSERT INTO demo.type VALUES
    (1, 'boolean', '^([tTfF]|true|false|TRUE|FALSE|True|False|yes|no|YES|NO|Yes|No)$'),
    (2, 'integer', '^(0|-?[1-9][0-9]{0,8})$'),
    (3, 'bigint', '^(0|-?[1-9][0-9]{0,17})$'),
    (4, 'numeric', '^-?(0|[1-9][0-9]{0,200})(\.[0-9]{1,200})?([eE][-+]?[0-9]{1,2})?$'),
    (5, 'uuid', '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'),
    (6, 'timestamptz', '^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?'
                       || ' ?(Z|UTC|[-+][0-9]{2}(:?[0-9]{2})?)?)?$');

-- Whether all values of a column of the table staging are of a type; false if there are none.
CREATE FUNCTION demo.is_of_type(col text, wanted demo.type, sample integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    is_so boolean;
BEGIN
    EXECUTE format('SELECT count(v) > 0 AND count(v) = count(CASE WHEN v ~ %L THEN v::%s END)
                    FROM (SELECT %I AS v FROM staging LIMIT %s) AS s',
                   wanted.pattern, wanted.name, col, coalesce(sample::text, 'ALL'))
    INTO is_so;
    RETURN is_so;
EXCEPTION
    WHEN data_exception THEN    -- for example the thirtieth of February
        RETURN false;
END $$;

-- Chooses the type of each column: by the first rows, then by all. Then makes the table data of the table staging, with
-- the rows in the order of the file: a scan that begins where the last one has ended would change it.
CREATE PROCEDURE demo.make_table()
LANGUAGE plpgsql SET synchronize_seqscans = off AS $$
DECLARE
    part   record;
    wanted demo.type;
BEGIN
    FOR part IN SELECT place, name FROM demo.col ORDER BY place LOOP
        FOR wanted IN SELECT * FROM demo.type ORDER BY place LOOP
            IF demo.is_of_type(part.name, wanted, 1000) AND demo.is_of_type(part.name, wanted, NULL) THEN
                UPDATE demo.col AS c SET type = wanted.name WHERE c.place = part.place;
                EXIT;
            END IF;
        END LOOP;
    END LOOP;
    EXECUTE (SELECT format('CREATE TABLE data AS SELECT %s FROM staging',
                           string_agg(format('%I::%s AS %1$I', name, type), ', ' ORDER BY place))
             FROM demo.col);
    DROP TABLE staging;
END $$;

-- What skip_advise says, and what is built of it.
CREATE TABLE demo.advice (
    place        integer PRIMARY KEY,
    name         text NOT NULL,
    method       text NOT NULL,
    index_bytes  bigint,
    table_pages  float8,
    reason       text NOT NULL,
    statement    text
);

-- Values of a column as literals: some that are in the table, or some that are not.
CREATE FUNCTION demo.literals(col text, present boolean, wanted integer) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    type   text := (SELECT c.type FROM demo.col AS c WHERE c.name = col);
    made   text;
    result text[];
BEGIN
    IF present THEN
        -- From rows at equal distances.
        EXECUTE format('SELECT array_agg(v::text) FROM (
                            SELECT v FROM (SELECT %1$I AS v, row_number() OVER () AS n FROM data
                                           WHERE %1$I IS NOT NULL) AS rows_in_order,
                                          (SELECT greatest(1, count(%1$I) / %2$s) AS distance FROM data) AS d
                            WHERE n %% distance = distance / 2
                            LIMIT %2$s) AS s', col, wanted)
        INTO result;
    ELSE
        made := CASE type
            WHEN 'uuid' THEN 'gen_random_uuid()'
            WHEN 'text' THEN 'md5(random()::text)'
            WHEN 'timestamptz' THEN format('(SELECT max(%I) FROM data) + i * interval ''1.000001 second''', col)
            WHEN 'integer' THEN format('(SELECT max(%I) FROM data)::bigint + i', col)
            WHEN 'bigint' THEN format('(SELECT max(%I) FROM data) + i', col)
            WHEN 'numeric' THEN format('(SELECT max(%I) FROM data) + i', col)
        END;
        IF made IS NOT NULL THEN
            EXECUTE format('SELECT array_agg((%s)::text) FROM generate_series(1, %s) AS i', made, wanted) INTO result;
        END IF;
    END IF;
    RETURN result;
END $$;

-- The queries whose times are compared; they stay the same with and without the index.
CREATE TABLE demo.query (
    name    text NOT NULL,
    present boolean NOT NULL,
    texts   text[] NOT NULL
);

CREATE PROCEDURE demo.choose_queries(col text, wanted integer DEFAULT 5)
LANGUAGE sql AS $$
    INSERT INTO demo.query
    SELECT col, p, array_agg(format('SELECT * FROM data WHERE %I = %L', col, literal))
    FROM unnest(ARRAY[true, false]) AS p, unnest(demo.literals(col, p, wanted)) AS literal
    GROUP BY p
$$;

-- Milliseconds and pages of a lookup, medians; indexed is false before the column's index is built.
CREATE TABLE demo.look_up (
    name    text NOT NULL,
    present boolean NOT NULL,
    indexed boolean NOT NULL,
    ms      float8,
    pages   float8
);

CREATE PROCEDURE demo.measure(col text, indexed boolean)
LANGUAGE sql AS $$
    INSERT INTO demo.look_up
    SELECT name, present, indexed, bench.query_ms(texts, 5), (bench.explain(texts, 5)).pages
    FROM demo.query
    WHERE name = col
$$;

-- Size of each index, and seconds that it took to build.
CREATE TABLE demo.built (
    name    text NOT NULL,
    bytes   bigint NOT NULL,
    seconds float8 NOT NULL
);
