-- What inside.sh and inside_sweep.sh measure, on the server. Loaded after lib.sql.
--
-- lines      log lines of some 250 bytes, each with a time in rough order, the path of a request, a jsonb of eight
--            attributes and an array of tags
-- documents  the tsvectors of the same lines
-- changes    the files of a real project's history, each time with its path; filled by inside.sh
-- flags      arrays of 20 tags out of 200, which so stand in nearly every block range; for inside_sweep.sh
--
-- Row i is computed from i, so the contents of all rows are known if the number of rows is known.

CREATE EXTENSION IF NOT EXISTS pg_trgm;

CREATE TABLE lines (
    id         bigint      NOT NULL,
    at         timestamptz NOT NULL,
    line       text        NOT NULL,
    path       text        NOT NULL,
    attributes jsonb       NOT NULL,
    tags       text[]      NOT NULL
);
CREATE TABLE documents (
    id    bigint   NOT NULL,
    words tsvector NOT NULL
);
CREATE TABLE changes (
    id   bigint      NOT NULL,
    at   timestamptz NOT NULL,
    path text        NOT NULL
);
CREATE TABLE flags (
    id   bigint NOT NULL,
    tags text[] NOT NULL
);

-- A number from 0 to below - 1 that looks random, the same each time.
CREATE FUNCTION bench.chance(i bigint, salt bigint, below bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (hashint8extended(i, salt) & 9223372036854775807) % below;

-- One of some words.
CREATE FUNCTION bench.one_of(i bigint, salt bigint, words text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN words[1 + bench.chance(i, salt, cardinality(words))];

CREATE FUNCTION line_rows(first bigint, last bigint) RETURNS SETOF lines
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT i, at,
           format('%s %s [%s-exec-%s] shop.%s.Handler - %s for user %s in %s ms, %s bytes to 10.%s.%s.%s, order %s, '
                  'request %s, trace %s',
                  to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), level, service, bench.chance(i, 11, 64), service,
                  bench.one_of(i, 12, ARRAY['payment accepted by the ledger', 'cart written to the cache',
                      'stock reserved in warehouse', 'address was checked against the directory',
                      'mail with the invoice queued', 'login with a second factor', 'coupon applied to basket',
                      'search answered from the replica', 'label printed at the counter',
                      'refund waits for approval', 'picture resized for the catalogue', 'session token renewed']),
                  person, took, bench.chance(i, 13, 90000), bench.chance(i, 14, 4), bench.chance(i, 15, 256),
                  bench.chance(i, 16, 256), item, md5('request ' || i)::uuid, md5('trace ' || i)),
           '/api/v1/' || bench.one_of(i, 17, ARRAY['orders', 'carts', 'stock', 'people', 'mail', 'labels']) || '/'
               || lpad(item::text, 8, '0') || '/' || bench.one_of(i, 18, ARRAY['items', 'state', 'history', '']),
           jsonb_build_object('service', service, 'host', 'web-' || bench.chance(i, 19, 300),
                              'region', bench.one_of(i, 20, ARRAY['eu-1', 'eu-2', 'us-1', 'us-2', 'ap-1', 'sa-1']),
                              'user', person, 'session', substr(md5('session ' || i), 1, 16), 'status', status,
                              'took', took, 'version', 'v3.' || i / 200000),
           ARRAY['service:' || service, 'team:' || bench.chance(i, 21, 40), 'order:' || item,
                 CASE WHEN bench.chance(i, 22, 5) > 0 THEN 'env:live' ELSE 'env:test' END]
    FROM generate_series(first, last) AS i,
         LATERAL (SELECT timestamptz '2026-01-01 00:00Z' + i * interval '10 ms'
                             + bench.chance(i, 1, 20000) * interval '1 ms' AS at,
                         (ARRAY['ERROR', 'WARN', 'WARN'])[1 + bench.chance(i, 2, 60)] AS other,
                         bench.one_of(i, 3, ARRAY['checkout', 'ledger', 'catalogue', 'login', 'mail', 'warehouse',
                                                  'search', 'pictures', 'coupons', 'labels', 'returns', 'people'])
                             AS service,
                         bench.chance(i, 4, 200000) AS person, bench.chance(i, 5, 3000) AS took,
                         bench.chance(i, 6, 1000000) AS item,
                         (ARRAY[500, 404, 404, 301])[1 + bench.chance(i, 7, 40)] AS odd) AS parts,
         LATERAL (SELECT coalesce(other, 'INFO') AS level, coalesce(odd, 200) AS status) AS named;
END;

CREATE FUNCTION document_rows(first bigint, last bigint) RETURNS SETOF documents
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT id, to_tsvector('simple', line) FROM line_rows(first, last);
END;

CREATE FUNCTION flag_rows(first bigint, last bigint) RETURNS SETOF flags
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT i, (SELECT array_agg('flag:' || bench.chance(i, 40 + n, 200)) FROM generate_series(1, 20) AS n)
    FROM generate_series(first, last) AS i;
END;

-- The kinds of index: on what, and for which class of searches. GIN of the words or fragments of long texts is slow: it
-- takes many times as long to build as all others together.
CREATE TABLE bench.kind (
    place      serial PRIMARY KEY,
    tab        text NOT NULL,
    class      text NOT NULL,
    variant    text NOT NULL,
    definition text NOT NULL,
    is_slow    boolean NOT NULL GENERATED ALWAYS AS
        (variant = 'GIN' AND (tab, class) IN (('lines', 'fragments'), ('documents', 'lexemes'))) STORED
);
INSERT INTO bench.kind (tab, class, variant, definition) VALUES
    ('lines', 'tags', 'skip', 'skip (tags array_element_skip_ops)'),
    ('lines', 'tags', 'GIN', 'gin (tags)'),
    ('lines', 'attributes', 'skip', 'skip (attributes jsonb_path_skip_ops)'),
    ('lines', 'attributes', 'GIN', 'gin (attributes jsonb_path_ops)'),
    ('lines', 'words', 'skip', 'skip (line text_token_skip_ops)'),
    ('lines', 'fragments', 'skip', 'skip (line text_ngram_skip_ops)'),
    ('lines', 'fragments', 'GIN', 'gin (line gin_trgm_ops)'),
    ('lines', 'prefixes', 'skip', 'skip (path text_prefix_skip_ops (length = 24))'),
    ('lines', 'prefixes', 'btree', 'btree (path text_pattern_ops)'),
    ('lines', 'times', 'skip', 'skip (at timestamptz_minmax_skip_ops)'),
    ('lines', 'times', 'BRIN', 'brin (at)'),
    ('lines', 'times', 'btree', 'btree (at)'),
    ('documents', 'lexemes', 'skip', 'skip (words tsvector_skip_ops)'),
    ('documents', 'lexemes', 'GIN', 'gin (words)'),
    ('flags', 'tags', 'skip', 'skip (tags array_element_skip_ops)'),
    ('changes', 'words', 'skip', 'skip (path text_token_skip_ops)'),
    ('changes', 'fragments', 'skip', 'skip (path text_ngram_skip_ops)'),
    ('changes', 'fragments', 'GIN', 'gin (path gin_trgm_ops)'),
    ('changes', 'prefixes', 'skip', 'skip (path text_prefix_skip_ops (length = 20))'),
    ('changes', 'prefixes', 'btree', 'btree (path text_pattern_ops)');

-- What is looked up. what is present, absent, frequent, newest, or what a condition is called.
CREATE TABLE bench.search (
    tab    text    NOT NULL,
    class  text    NOT NULL,
    what   text    NOT NULL,
    number integer NOT NULL,
    query  text    NOT NULL
);

-- The searches in lines and documents of so many rows.
CREATE PROCEDURE bench.choose_searches(rows bigint, count integer)
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO bench.search
    SELECT tab, class, what, number, query
    FROM generate_series(1, count) AS number,
         LATERAL (SELECT 1 + bench.chance(number, 77, rows) AS i) AS chosen,
         LATERAL (SELECT * FROM line_rows(i, i)) AS logged,
         LATERAL (SELECT md5('trace ' || i) AS trace, md5('absent ' || i) AS absent,
                         'SELECT * FROM lines WHERE ' AS lines, 'SELECT * FROM documents WHERE ' AS documents) AS names,
         LATERAL (VALUES
             ('lines', 'tags', 'present', lines || format('tags @> %L', ARRAY[logged.tags[3]])),
             ('lines', 'tags', 'absent', lines || format('tags @> %L', ARRAY['order:x' || i])),
             ('flags', 'tags', 'absent', format('SELECT * FROM flags WHERE tags @> %L', ARRAY['flag:x' || i])),
             ('lines', 'attributes', 'present',
              lines || format('attributes @> %L', jsonb_build_object('session', logged.attributes -> 'session'))),
             ('lines', 'attributes', 'absent',
              lines || format('attributes @> %L', jsonb_build_object('session', substr(absent, 1, 16)))),
             ('lines', 'words', 'present', lines || format('line @@@ %L', trace)),
             ('lines', 'words', 'absent', lines || format('line @@@ %L', absent)),
             ('lines', 'fragments', 'present', lines || format('line LIKE %L', '%' || substr(trace, 9, 12) || '%')),
             ('lines', 'fragments', 'absent', lines || format('line LIKE %L', '%' || substr(absent, 9, 12) || '%')),
             ('lines', 'prefixes', 'present', lines || format('path LIKE %L', substr(logged.path, 1, 24) || '%')),
             ('lines', 'prefixes', 'absent',
              lines || format('path LIKE %L', substr(logged.path, 1, 11) || 'x' || substr(absent, 1, 12) || '%')),
             ('lines', 'times', 'present',
              lines || format('at BETWEEN %L AND %L', logged.at, logged.at + interval '1 second')),
             ('lines', 'times', 'absent',
              lines || format('at BETWEEN %L AND %L', logged.at - interval '9 years', logged.at - interval '8 years')),
             ('documents', 'lexemes', 'present',
              documents || format('words @@ plainto_tsquery(''simple'', %L)', trace)),
             ('documents', 'lexemes', 'absent',
              documents || format('words @@ plainto_tsquery(''simple'', %L)', absent))
         ) AS search (tab, class, what, query);
    INSERT INTO bench.search VALUES
        ('lines', 'tags', 'frequent', 1, $$SELECT count(*) FROM lines WHERE tags @> '{env:test}'$$),
        ('lines', 'attributes', 'frequent', 1, $$SELECT count(*) FROM lines WHERE attributes @> '{"status": 500}'$$),
        ('lines', 'words', 'frequent', 1, $$SELECT count(*) FROM lines WHERE line @@@ 'ERROR'$$),
        ('lines', 'fragments', 'frequent', 1, $$SELECT count(*) FROM lines WHERE line LIKE '%coupon applied%'$$),
        ('lines', 'prefixes', 'frequent', 1, $$SELECT count(*) FROM lines WHERE path LIKE '/api/v1/orders/%'$$),
        ('lines', 'times', 'frequent', 1,
         format('SELECT count(*) FROM lines WHERE at >= timestamptz ''2026-01-01 00:00Z'' + %L',
                rows * interval '9 ms')),
        ('lines', 'times', 'newest', 1, 'SELECT * FROM lines ORDER BY at DESC LIMIT 50'),
        ('documents', 'lexemes', 'frequent', 1,
         $$SELECT count(*) FROM documents WHERE words @@ to_tsquery('simple', 'error')$$);
END;

-- The searches in changes: parts of paths of random rows, and the same with letters that are not there.
CREATE PROCEDURE bench.choose_searches_of_changes(count integer)
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO bench.search
    SELECT 'changes', class, what, number, 'SELECT * FROM changes WHERE ' || condition
    FROM (SELECT row_number() OVER () AS number, path
          FROM (SELECT path FROM changes WHERE length(path) >= 24
                ORDER BY hashint8extended(id, 5) LIMIT count) AS picked)
             AS chosen,
         LATERAL (SELECT substring(path FROM '([[:alnum:]]+)[^[:alnum:]]*[[:alnum:]]*$') AS word,
                         right(path, 14) AS ending, left(path, 20) AS beginning) AS parts,
         LATERAL (VALUES
             ('words', 'present', format('path @@@ %L', word)),
             ('words', 'absent', format('path @@@ %L', word || 'xq')),
             ('fragments', 'present', format('path LIKE %L', '%' || ending || '%')),
             ('fragments', 'absent', format('path LIKE %L', '%' || reverse(ending) || '%')),
             ('prefixes', 'present', format('path LIKE %L', beginning || '%')),
             ('prefixes', 'absent',
              format('path LIKE %L', left(beginning, 12) || reverse(right(beginning, 8)) || 'q%'))
         ) AS search (class, what, condition);
END;

-- Runs the searches of a class with the index that is there. Nothing is switched off: bench.choice tells what the
-- planner takes.
CREATE PROCEDURE bench.measure_searches(in_tab text, in_class text, in_variant text, most integer, max_seconds float8)
LANGUAGE plpgsql AS $$
DECLARE
    of_subject text := in_tab || '.' || in_class;
    asked      record;
BEGIN
    FOR asked IN SELECT what, array_agg(query ORDER BY number) AS queries FROM bench.search
                  WHERE (tab, class) = (in_tab, in_class) GROUP BY what LOOP
        INSERT INTO bench.result
        VALUES (of_subject, in_variant, asked.what || '_ms', bench.query_ms(asked.queries[:most], max_seconds));
        DELETE FROM bench.choice AS c WHERE (c.subject, c.variant, c.kind) = (of_subject, in_variant, asked.what);
        INSERT INTO bench.choice VALUES (of_subject, in_variant, asked.what, bench.chosen(asked.queries[1]));
    END LOOP;
END $$;

-- Seconds until the background worker of an index has summarized all but a small batch of its ranges.
CREATE PROCEDURE bench.wait_for_worker(index regclass, INOUT seconds float8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    WHILE (SELECT max(ranges - summarized) FROM skip_index_info(index)) > 64 LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
    seconds := extract(epoch FROM clock_timestamp() - began);
END $$;
