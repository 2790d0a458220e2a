-- The database that upgrade.sh upgrades: every kind of key and segment, with new, old and deleted rows, and questions
-- about them.
CREATE EXTENSION pg_skip;
SET TIME ZONE 'UTC';

CREATE TYPE mood AS ENUM ('calm', 'angry', 'sad');
CREATE DOMAIN code AS text;
CREATE COLLATION in_any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- An operator class with keys of its own, and one with a hash function of its own.
CREATE FUNCTION ends_value(value text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN ARRAY[right(value, 4)];
CREATE FUNCTION ends_query(query text, strategy integer) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN ARRAY[query];
-- Not in SQL: that would be put in the place of the operator.
CREATE FUNCTION ends_with(value text, ending text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS 'BEGIN RETURN right(value, 4) = ending; END';
CREATE OPERATOR ~~> (LEFTARG = text, RIGHTARG = text, FUNCTION = ends_with);
CREATE OPERATOR CLASS text_ends_skip_ops FOR TYPE text USING skip AS
    OPERATOR 2 ~~> (text, text), FUNCTION 4 ends_value(text), FUNCTION 5 (text, text) ends_query(text, integer);
CREATE FUNCTION parity_hash(value integer, seed bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN hashint8extended(value::bigint * 3, seed);
CREATE OPERATOR CLASS own_int4_skip_ops FOR TYPE integer USING skip AS
    OPERATOR 1 = (integer, integer), FUNCTION 1 parity_hash(integer, bigint), FUNCTION 2 skip_opclass_options(internal);

CREATE TABLE t (
    id bigint, trace uuid, n integer, own integer, amount numeric, price float8, line text, word varchar(40),
    fixed character(12), name name, b bytea, mood mood, code code, folded text COLLATE in_any_case, tags text[],
    doc jsonb, at timestamptz, day date, clock time, span int4range, address inet, mac macaddr, lsn pg_lsn,
    vector tsvector, flag boolean
);
CREATE FUNCTION rows_of(first integer, last integer) RETURNS SETOF t LANGUAGE sql BEGIN ATOMIC
    SELECT i, md5(i::text)::uuid, i / 30, i / 20, i / 10.0, i / 8.0,
           format('user %s opened /page/%s on Host-%s', i / 7, i % 977, i / 50), 'w' || i / 3, 'f' || i / 3,
           ('n' || i / 3)::name, decode(md5(i::text), 'hex'), (ARRAY['calm', 'angry', 'sad'])[1 + i / 9000]::mood,
           'c' || i / 5, 'Fold' || i / 5, ARRAY['tag' || i / 11, NULL, 'all'],
           jsonb_build_object('user', i / 13, 'path', 'p' || i / 17, 'all', true),
           timestamptz '2026-01-01 00:00Z' + i * interval '1 minute', date '2026-01-01' + i / 1000,
           time '00:00' + i * interval '3 seconds', int4range(i, i + 5), '10.0.0.0'::inet + i / 4,
           ('08:00:2b:' || to_char(i / 10000 % 100, 'FM00') || ':' || to_char(i / 100 % 100, 'FM00') || ':'
            || to_char(i % 100, 'FM00'))::macaddr, '0/0'::pg_lsn + i / 3,
           to_tsvector('simple', 'word' || i / 6 || ' other' || i / 19), CASE WHEN i % 3000 = 7 THEN true END
    FROM generate_series(first, last) AS i;
END;
INSERT INTO t SELECT * FROM rows_of(1, 20000);

CREATE INDEX whole_map ON t USING skip (
    trace, n, amount, price, line, word, fixed, name, b, mood, code, folded, doc, at, day, clock, span, address, mac,
    lsn, flag, tags) WITH (layout = map, pages_per_range = 1);
CREATE INDEX whole_filters ON t USING skip (
    trace, n, amount, price, line, word, fixed, name, b, mood, code, folded, doc, at, day, clock, span, address, mac,
    lsn, flag, tags) WITH (layout = filters, pages_per_range = 4);
CREATE INDEX inside ON t USING skip (
    tags array_element_skip_ops, doc jsonb_path_skip_ops, line text_ngram_skip_ops (fold_case = on),
    line text_token_skip_ops (fold_case = on), word text_prefix_skip_ops (length = 3), vector tsvector_skip_ops)
    WITH (pages_per_range = 2, autosummarize = on);
CREATE INDEX bounds ON t USING skip (
    id int8_minmax_skip_ops, at timestamptz_minmax_skip_ops, amount numeric_minmax_skip_ops, day date_minmax_skip_ops)
    WITH (pages_per_range = 2);
CREATE INDEX of_users ON t USING skip (line text_ends_skip_ops, own own_int4_skip_ops) WITH (pages_per_range = 1);
CREATE INDEX expressions ON t USING skip (lower(word), (n % 1000)) WITH (pages_per_range = 1);
CREATE INDEX partial ON t USING skip (n) WITH (pages_per_range = 1) WHERE mood = 'angry';

-- Rows in old ranges, which go through the delta, and ranges that nobody has summarized.
DELETE FROM t WHERE id BETWEEN 3001 AND 4000;
VACUUM t;
INSERT INTO t SELECT * FROM rows_of(20001, 20300);
UPDATE t SET trace = md5('new ' || id)::uuid, n = n + 100000, line = line || ' again' WHERE id % 400 = 3;
INSERT INTO t SELECT * FROM rows_of(20301, 27000);
INSERT INTO t (id) VALUES (0);

CREATE TABLE kept AS
SELECT bloom_agg(trace) AS trace, bloom_agg(n) AS n, bloom_agg(line) AS line, bloom_agg(fixed) AS fixed,
       bloom_agg(mood) AS mood, bloom_agg(folded) AS folded, bloom_agg(doc) AS doc, bloom_agg(amount) AS amount
FROM t;

-- What is asked: of each question an index that serves it.
CREATE TABLE question (number serial, index text, condition text);
INSERT INTO question (index, condition)
SELECT index, condition
FROM (VALUES ('whole_map'), ('whole_filters')) AS i (index), (VALUES
    ('trace = md5(''77'')::uuid'), ('trace = md5(''20150'')::uuid'), ('trace = md5(''new 403'')::uuid'),
    ('trace = md5(''3500'')::uuid'), ('n = 77'), ('n = 100013'), ('n IN (1, 2, 890)'), ('amount = 1500.50'),
    ('price = 12.5'), ('line = ''user 70 opened /page/496 on Host-9'''), ('word = ''w77'''), ('fixed = ''f77'''),
    ('name = ''n77'''), ('b = decode(md5(''77''), ''hex'')'), ('mood = ''sad'''), ('code = ''c77'''),
    ('folded = ''fOLD77'''), ('doc = ''{"user": 7, "path": "p5", "all": true}'''),
    ('at = ''2026-01-02 03:04Z'''), ('day = ''2026-01-05'''), ('clock = ''01:00:00'''), ('span = ''[77,82)'''),
    ('address = ''10.0.0.77'''), ('mac = ''08:00:2b:00:00:77'''), ('lsn = ''0/77'''), ('flag'), ('flag IS NULL'),
    ('tags = ''{tag7,NULL,all}'''), ('n IS NULL')) AS c (condition)
UNION ALL VALUES
    ('inside', 'tags @> ''{tag77}'''), ('inside', 'tags && ''{tag77,tag1900}'''),
    ('inside', '''tag2000'' = ANY (tags)'),
    ('inside', 'doc @> ''{"user": 77}'''), ('inside', 'doc ->> ''path'' = ''p1200'''), ('inside', 'doc ? ''user'''),
    ('inside', 'line LIKE ''%Host-88%'''), ('inside', 'line ILIKE ''%HOST-399%'''), ('inside', 'line ~* ''PAGE/496 '''),
    ('inside', 'line @@@* ''USER 2800'''), ('inside', 'word LIKE ''w88%'''),
    ('inside', 'vector @@ ''word77 & other24'''),
    ('bounds', 'id BETWEEN 100 AND 250'), ('bounds', 'at < ''2026-01-01 03:00Z'''), ('bounds', 'amount > 2699'),
    ('bounds', 'day = ''2026-01-14'''), ('bounds', 'id IS NULL OR id = 20150'),
    ('of_users', 'line ~~> ''t-88'''), ('of_users', 'own = 1007'),
    ('expressions', 'lower(word) = ''w77'''), ('expressions', 'n % 1000 = 77'),
    ('partial', 'mood = ''angry'' AND n = 400');

-- Whether an index gives the rows of a sequential scan, by a Skip Index Scan and by a bitmap scan. Returns what is
-- wrong.
CREATE FUNCTION wrong(question question) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    query text := 'SELECT md5(string_agg(t::text, chr(10) ORDER BY id)) FROM t WHERE ' || question.condition;
    plain text;
    found text;
    plan  text := '';
    line  text;
BEGIN
    PERFORM set_config('pg_skip.ignore_indexes',
                       'whole_map, whole_filters, inside, bounds, of_users, expressions, partial', true);
    EXECUTE query INTO plain;
    PERFORM set_config('pg_skip.ignore_indexes', '', true);
    PERFORM set_config('pg_skip.force_indexes', question.index, true);
    EXECUTE query INTO found;
    IF found IS DISTINCT FROM plain THEN RETURN 'rows of the Skip Index Scan'; END IF;
    PERFORM set_config('pg_skip.force_indexes', '', true);
    PERFORM set_config('pg_skip.enable_scan', 'off', true);
    PERFORM set_config('enable_seqscan', 'off', true);
    EXECUTE query INTO found;
    FOR line IN EXECUTE 'EXPLAIN ' || query LOOP plan := plan || line; END LOOP;
    PERFORM set_config('pg_skip.enable_scan', 'on', true);
    PERFORM set_config('enable_seqscan', 'on', true);
    IF found IS DISTINCT FROM plain THEN RETURN 'rows of ' || plan; END IF;
    IF plain IS NULL AND question.condition NOT LIKE '%3500%' THEN RETURN 'no row has it'; END IF;
    RETURN NULL;
END $$;

-- All that is wrong with the indexes and filters now.
CREATE VIEW problem AS
SELECT format('%s, %s: %s', index, condition, wrong(q)) AS problem FROM question AS q WHERE wrong(q) IS NOT NULL
UNION ALL
SELECT format('%s: %s', v.index, v.problem)
FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam, skip_index_verify(c.oid) AS v
WHERE a.amname = 'skip' AND c.relkind = 'i'
UNION ALL
SELECT 'a key is not in a filter: row ' || id
FROM t, kept
WHERE id BETWEEN 1 AND 27000 AND id NOT BETWEEN 3001 AND 4000
AND NOT (kept.trace @> t.trace AND kept.n @> t.n AND kept.line @> t.line AND kept.fixed @> t.fixed
         AND kept.mood @> t.mood AND kept.folded @> t.folded AND kept.doc @> t.doc AND kept.amount @> t.amount);
