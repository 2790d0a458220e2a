-- The operator classes of the access method `skip`: first the default class of each indexable type, then the classes
-- that find parts of values. Those of bounds are in minmax.sql.
--
-- An operator class of `skip` is made of
--
--   OPERATOR 1   `=`
--   FUNCTION 1   the type's extended hash function, (type, int8) returns int8: what is equal under `=` hashes equal.
--                A family has one for every type that stands on either side of its operators.
--   FUNCTION 3   only of classes with several keys for a value: names the way in which they are made. Such a class may
--                have other operators: 2 `@>`, 3 `&&`, 4 `?`, 5 `?|`, 6 `?&`, 7 `@?`, 8 `@@` of
--                a jsonpath, 11 `<`, 12 `<=`, 13 `>=`, 14 `>`, 21 `~~`, 22 `~~*`, 23 `~`, 24 `~*`, 25 `^@`, 26 `@@@`,
--                27 `@@@*`, 28 `=` that ignores case, 31 `@@` of a tsquery
--   FUNCTION 4, 5   only of classes that users or other extensions make: the keys of a value, and those that a
--                query asks for
--   FUNCTION 2   skip_opclass_options: the options of a column, such as uuid_skip_ops (false_positive_rate = 0.001)
--
-- The hash functions are those of the same type's `hash` operator class in PostgreSQL 15. Where later versions gave a
-- type a hash function of its own (bool, bytea, date, timestamptz, xid8), the older name is kept here: it exists in
-- every supported version and returns the same values.
--
-- Runs in the extension's schema, after the access method and skip_opclass_options(internal) were created.

-- Numbers

CREATE OPERATOR FAMILY integer_skip_ops USING skip;
COMMENT ON OPERATOR FAMILY integer_skip_ops USING skip IS
    'equality of smallint, integer and bigint, in any combination';

CREATE OPERATOR CLASS int2_skip_ops
    DEFAULT FOR TYPE int2 USING skip FAMILY integer_skip_ops AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashint2extended(int2, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR CLASS int2_skip_ops USING skip IS
    'default skip operator class of smallint';

CREATE OPERATOR CLASS int4_skip_ops
    DEFAULT FOR TYPE int4 USING skip FAMILY integer_skip_ops AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashint4extended(int4, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR CLASS int4_skip_ops USING skip IS
    'default skip operator class of integer';

CREATE OPERATOR CLASS int8_skip_ops
    DEFAULT FOR TYPE int8 USING skip FAMILY integer_skip_ops AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashint8extended(int8, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR CLASS int8_skip_ops USING skip IS
    'default skip operator class of bigint';

ALTER OPERATOR FAMILY integer_skip_ops USING skip ADD
    OPERATOR 1 pg_catalog.= (int2, int4),
    OPERATOR 1 pg_catalog.= (int2, int8),
    OPERATOR 1 pg_catalog.= (int4, int2),
    OPERATOR 1 pg_catalog.= (int4, int8),
    OPERATOR 1 pg_catalog.= (int8, int2),
    OPERATOR 1 pg_catalog.= (int8, int4);

CREATE OPERATOR FAMILY float_skip_ops USING skip;
COMMENT ON OPERATOR FAMILY float_skip_ops USING skip IS
    'equality of real and double precision, in any combination';

CREATE OPERATOR CLASS float4_skip_ops
    DEFAULT FOR TYPE float4 USING skip FAMILY float_skip_ops AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashfloat4extended(float4, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR CLASS float4_skip_ops USING skip IS
    'default skip operator class of real';

CREATE OPERATOR CLASS float8_skip_ops
    DEFAULT FOR TYPE float8 USING skip FAMILY float_skip_ops AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashfloat8extended(float8, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR CLASS float8_skip_ops USING skip IS
    'default skip operator class of double precision';

ALTER OPERATOR FAMILY float_skip_ops USING skip ADD
    OPERATOR 1 pg_catalog.= (float4, float8),
    OPERATOR 1 pg_catalog.= (float8, float4);

CREATE OPERATOR CLASS numeric_skip_ops
    DEFAULT FOR TYPE numeric USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hash_numeric_extended(numeric, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY numeric_skip_ops USING skip IS
    'equality of numeric';
COMMENT ON OPERATOR CLASS numeric_skip_ops USING skip IS
    'default skip operator class of numeric';

CREATE OPERATOR CLASS oid_skip_ops
    DEFAULT FOR TYPE oid USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashoidextended(oid, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY oid_skip_ops USING skip IS
    'equality of oid';
COMMENT ON OPERATOR CLASS oid_skip_ops USING skip IS
    'default skip operator class of oid';

CREATE OPERATOR CLASS xid8_skip_ops
    DEFAULT FOR TYPE xid8 USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashint8extended(int8, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY xid8_skip_ops USING skip IS
    'equality of xid8';
COMMENT ON OPERATOR CLASS xid8_skip_ops USING skip IS
    'default skip operator class of xid8';

CREATE OPERATOR CLASS pg_lsn_skip_ops
    DEFAULT FOR TYPE pg_lsn USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.pg_lsn_hash_extended(pg_lsn, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY pg_lsn_skip_ops USING skip IS
    'equality of pg_lsn';
COMMENT ON OPERATOR CLASS pg_lsn_skip_ops USING skip IS
    'default skip operator class of pg_lsn';

CREATE OPERATOR CLASS bool_skip_ops
    DEFAULT FOR TYPE bool USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashcharextended("char", int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY bool_skip_ops USING skip IS
    'equality of boolean';
COMMENT ON OPERATOR CLASS bool_skip_ops USING skip IS
    'default skip operator class of boolean';

-- Text and bytes. text_skip_ops serves varchar as well.

CREATE OPERATOR FAMILY text_skip_ops USING skip;
COMMENT ON OPERATOR FAMILY text_skip_ops USING skip IS
    'equality of text (and varchar) and name, in any combination';

CREATE OPERATOR CLASS text_skip_ops
    DEFAULT FOR TYPE text USING skip FAMILY text_skip_ops AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashtextextended(text, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR CLASS text_skip_ops USING skip IS
    'default skip operator class of text and varchar';

CREATE OPERATOR CLASS name_skip_ops
    DEFAULT FOR TYPE name USING skip FAMILY text_skip_ops AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashnameextended(name, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR CLASS name_skip_ops USING skip IS
    'default skip operator class of name';

ALTER OPERATOR FAMILY text_skip_ops USING skip ADD
    OPERATOR 1 pg_catalog.= (text, name),
    OPERATOR 1 pg_catalog.= (name, text);

CREATE OPERATOR CLASS bpchar_skip_ops
    DEFAULT FOR TYPE bpchar USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashbpcharextended(bpchar, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY bpchar_skip_ops USING skip IS
    'equality of character(n)';
COMMENT ON OPERATOR CLASS bpchar_skip_ops USING skip IS
    'default skip operator class of character(n)';

CREATE OPERATOR CLASS char_skip_ops
    DEFAULT FOR TYPE "char" USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashcharextended("char", int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY char_skip_ops USING skip IS
    'equality of "char"';
COMMENT ON OPERATOR CLASS char_skip_ops USING skip IS
    'default skip operator class of "char"';

CREATE OPERATOR CLASS bytea_skip_ops
    DEFAULT FOR TYPE bytea USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashvarlenaextended(internal, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY bytea_skip_ops USING skip IS
    'equality of bytea';
COMMENT ON OPERATOR CLASS bytea_skip_ops USING skip IS
    'default skip operator class of bytea';

CREATE OPERATOR CLASS uuid_skip_ops
    DEFAULT FOR TYPE uuid USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.uuid_hash_extended(uuid, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY uuid_skip_ops USING skip IS
    'equality of uuid';
COMMENT ON OPERATOR CLASS uuid_skip_ops USING skip IS
    'default skip operator class of uuid';

-- Dates and times

CREATE OPERATOR CLASS date_skip_ops
    DEFAULT FOR TYPE date USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashint4extended(int4, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY date_skip_ops USING skip IS
    'equality of date';
COMMENT ON OPERATOR CLASS date_skip_ops USING skip IS
    'default skip operator class of date';

CREATE OPERATOR CLASS time_skip_ops
    DEFAULT FOR TYPE time USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.time_hash_extended(time, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY time_skip_ops USING skip IS
    'equality of time';
COMMENT ON OPERATOR CLASS time_skip_ops USING skip IS
    'default skip operator class of time';

CREATE OPERATOR CLASS timetz_skip_ops
    DEFAULT FOR TYPE timetz USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.timetz_hash_extended(timetz, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY timetz_skip_ops USING skip IS
    'equality of time with time zone';
COMMENT ON OPERATOR CLASS timetz_skip_ops USING skip IS
    'default skip operator class of time with time zone';

CREATE OPERATOR CLASS timestamp_skip_ops
    DEFAULT FOR TYPE timestamp USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.timestamp_hash_extended(timestamp, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY timestamp_skip_ops USING skip IS
    'equality of timestamp';
COMMENT ON OPERATOR CLASS timestamp_skip_ops USING skip IS
    'default skip operator class of timestamp';

CREATE OPERATOR CLASS timestamptz_skip_ops
    DEFAULT FOR TYPE timestamptz USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.timestamp_hash_extended(timestamp, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY timestamptz_skip_ops USING skip IS
    'equality of timestamp with time zone';
COMMENT ON OPERATOR CLASS timestamptz_skip_ops USING skip IS
    'default skip operator class of timestamp with time zone';

CREATE OPERATOR CLASS interval_skip_ops
    DEFAULT FOR TYPE interval USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.interval_hash_extended(interval, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY interval_skip_ops USING skip IS
    'equality of interval';
COMMENT ON OPERATOR CLASS interval_skip_ops USING skip IS
    'default skip operator class of interval';

-- Network addresses. inet_skip_ops serves cidr as well.

CREATE OPERATOR CLASS inet_skip_ops
    DEFAULT FOR TYPE inet USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashinetextended(inet, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY inet_skip_ops USING skip IS
    'equality of inet and cidr';
COMMENT ON OPERATOR CLASS inet_skip_ops USING skip IS
    'default skip operator class of inet and cidr';

CREATE OPERATOR CLASS macaddr_skip_ops
    DEFAULT FOR TYPE macaddr USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashmacaddrextended(macaddr, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY macaddr_skip_ops USING skip IS
    'equality of macaddr';
COMMENT ON OPERATOR CLASS macaddr_skip_ops USING skip IS
    'default skip operator class of macaddr';

CREATE OPERATOR CLASS macaddr8_skip_ops
    DEFAULT FOR TYPE macaddr8 USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashmacaddr8extended(macaddr8, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY macaddr8_skip_ops USING skip IS
    'equality of macaddr8';
COMMENT ON OPERATOR CLASS macaddr8_skip_ops USING skip IS
    'default skip operator class of macaddr8';

-- Composed types. An array or range must have elements that can be hashed; arrays, ranges and multiranges are equal
-- as a whole by these classes. See below for classes that find parts of values.

CREATE OPERATOR CLASS jsonb_skip_ops
    DEFAULT FOR TYPE jsonb USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.jsonb_hash_extended(jsonb, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY jsonb_skip_ops USING skip IS
    'equality of jsonb';
COMMENT ON OPERATOR CLASS jsonb_skip_ops USING skip IS
    'default skip operator class of jsonb';

CREATE OPERATOR CLASS enum_skip_ops
    DEFAULT FOR TYPE anyenum USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hashenumextended(anyenum, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY enum_skip_ops USING skip IS
    'equality of any enum';
COMMENT ON OPERATOR CLASS enum_skip_ops USING skip IS
    'default skip operator class of any enum';

CREATE OPERATOR CLASS array_skip_ops
    DEFAULT FOR TYPE anyarray USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hash_array_extended(anyarray, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY array_skip_ops USING skip IS
    'equality of any array';
COMMENT ON OPERATOR CLASS array_skip_ops USING skip IS
    'default skip operator class of any array';

CREATE OPERATOR CLASS range_skip_ops
    DEFAULT FOR TYPE anyrange USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hash_range_extended(anyrange, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY range_skip_ops USING skip IS
    'equality of any range';
COMMENT ON OPERATOR CLASS range_skip_ops USING skip IS
    'default skip operator class of any range';

CREATE OPERATOR CLASS multirange_skip_ops
    DEFAULT FOR TYPE anymultirange USING skip AS
    OPERATOR 1 pg_catalog.=,
    FUNCTION 1 pg_catalog.hash_multirange_extended(anymultirange, int8),
    FUNCTION 2 skip_opclass_options(internal);
COMMENT ON OPERATOR FAMILY multirange_skip_ops USING skip IS
    'equality of any multirange';
COMMENT ON OPERATOR CLASS multirange_skip_ops USING skip IS
    'default skip operator class of any multirange';

-- Parts of values. Not the default of their types: they answer other questions than the classes above.

CREATE FUNCTION skip_array_element_keys(internal)
    RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_array_element_keys_wrapper';
COMMENT ON FUNCTION skip_array_element_keys(internal) IS
    'support function 3 of skip operator classes: each element of an array is a key';

CREATE OPERATOR CLASS array_element_skip_ops
    FOR TYPE anyarray USING skip AS
    OPERATOR 1 pg_catalog.=,
    OPERATOR 2 pg_catalog.@>,
    OPERATOR 3 pg_catalog.&&,
    FUNCTION 2 skip_opclass_options(internal),
    FUNCTION 3 skip_array_element_keys(internal);
COMMENT ON OPERATOR FAMILY array_element_skip_ops USING skip IS
    'elements of any array';
COMMENT ON OPERATOR CLASS array_element_skip_ops USING skip IS
    'skip operator class of the elements of any array: @>, &&, =, and value = ANY (column)';

CREATE FUNCTION skip_jsonb_path_keys(internal)
    RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_jsonb_path_keys_wrapper';
COMMENT ON FUNCTION skip_jsonb_path_keys(internal) IS
    'support function 3 of skip operator classes: each scalar of a jsonb document is a key, with its path';

CREATE OPERATOR CLASS jsonb_path_skip_ops
    FOR TYPE jsonb USING skip AS
    OPERATOR 1 pg_catalog.=,
    OPERATOR 2 pg_catalog.@>,
    OPERATOR 4 pg_catalog.? (jsonb, text),
    OPERATOR 5 pg_catalog.?| (jsonb, text[]),
    OPERATOR 6 pg_catalog.?& (jsonb, text[]),
    OPERATOR 7 pg_catalog.@? (jsonb, jsonpath),
    OPERATOR 8 pg_catalog.@@ (jsonb, jsonpath),
    FUNCTION 2 skip_opclass_options(internal),
    FUNCTION 3 skip_jsonb_path_keys(internal);
COMMENT ON OPERATOR FAMILY jsonb_path_skip_ops USING skip IS
    'insides of jsonb documents';
COMMENT ON OPERATOR CLASS jsonb_path_skip_ops USING skip IS
    'skip operator class of the insides of jsonb: @>, ?, ?|, ?&, @?, @@, =, and comparisons with ->>, #>>, -> and '
    'subscripts';

CREATE FUNCTION skip_tsvector_keys(internal)
    RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_tsvector_keys_wrapper';
COMMENT ON FUNCTION skip_tsvector_keys(internal) IS
    'support function 3 of skip operator classes: each lexeme of a tsvector is a key';

CREATE OPERATOR CLASS tsvector_skip_ops
    FOR TYPE tsvector USING skip AS
    OPERATOR 1 pg_catalog.=,
    OPERATOR 31 pg_catalog.@@ (tsvector, tsquery),
    FUNCTION 2 skip_opclass_options(internal),
    FUNCTION 3 skip_tsvector_keys(internal);
COMMENT ON OPERATOR FAMILY tsvector_skip_ops USING skip IS
    'lexemes of tsvector';
COMMENT ON OPERATOR CLASS tsvector_skip_ops USING skip IS
    'skip operator class of the lexemes of tsvector: @@ and =';

CREATE FUNCTION skip_has_words(value text, words text)
    RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_has_words_wrapper';
COMMENT ON FUNCTION skip_has_words(text, text) IS
    'whether a text has all words of another; a word is a longest run of ASCII letters, digits and characters that are '
    'not ASCII';

CREATE FUNCTION skip_has_words_in_any_case(value text, words text)
    RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_has_words_in_any_case_wrapper';
COMMENT ON FUNCTION skip_has_words_in_any_case(text, text) IS
    'as skip_has_words(text, text), whatever the case of letters';

CREATE OPERATOR @@@ (
    LEFTARG = text,
    RIGHTARG = text,
    FUNCTION = skip_has_words,
    RESTRICT = matchingsel,
    JOIN = matchingjoinsel);
COMMENT ON OPERATOR @@@ (text, text) IS
    'has all words';

CREATE OPERATOR @@@* (
    LEFTARG = text,
    RIGHTARG = text,
    FUNCTION = skip_has_words_in_any_case,
    RESTRICT = matchingsel,
    JOIN = matchingjoinsel);
COMMENT ON OPERATOR @@@* (text, text) IS
    'has all words, whatever their case';

CREATE FUNCTION skip_text_ngram_keys(internal)
    RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_text_ngram_keys_wrapper';
COMMENT ON FUNCTION skip_text_ngram_keys(internal) IS
    'support function 3 of skip operator classes: each run of n characters of a text is a key';

CREATE FUNCTION skip_text_ngram_options(internal)
    RETURNS void
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_text_ngram_options_wrapper';
COMMENT ON FUNCTION skip_text_ngram_options(internal) IS
    'support function 2 of text_ngram_skip_ops: options of a column';

CREATE OPERATOR CLASS text_ngram_skip_ops
    FOR TYPE text USING skip AS
    OPERATOR 1 pg_catalog.=,
    OPERATOR 21 pg_catalog.~~,
    OPERATOR 22 pg_catalog.~~*,
    OPERATOR 23 pg_catalog.~,
    OPERATOR 24 pg_catalog.~*,
    OPERATOR 25 pg_catalog.^@,
    OPERATOR 26 @@@,
    OPERATOR 27 @@@*,
    FUNCTION 2 skip_text_ngram_options(internal),
    FUNCTION 3 skip_text_ngram_keys(internal);
COMMENT ON OPERATOR FAMILY text_ngram_skip_ops USING skip IS
    'fragments of text';
COMMENT ON OPERATOR CLASS text_ngram_skip_ops USING skip IS
    'skip operator class of the fragments of text: LIKE, ILIKE, ~, ~*, ^@, @@@, @@@*, =; options n '
    'and fold_case';

CREATE FUNCTION skip_text_token_keys(internal)
    RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_text_token_keys_wrapper';
COMMENT ON FUNCTION skip_text_token_keys(internal) IS
    'support function 3 of skip operator classes: each word of a text is a key';

CREATE FUNCTION skip_text_token_options(internal)
    RETURNS void
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_text_token_options_wrapper';
COMMENT ON FUNCTION skip_text_token_options(internal) IS
    'support function 2 of text_token_skip_ops: options of a column';

CREATE OPERATOR CLASS text_token_skip_ops
    FOR TYPE text USING skip AS
    OPERATOR 1 pg_catalog.=,
    OPERATOR 21 pg_catalog.~~,
    OPERATOR 22 pg_catalog.~~*,
    OPERATOR 23 pg_catalog.~,
    OPERATOR 24 pg_catalog.~*,
    OPERATOR 25 pg_catalog.^@,
    OPERATOR 26 @@@,
    OPERATOR 27 @@@*,
    FUNCTION 2 skip_text_token_options(internal),
    FUNCTION 3 skip_text_token_keys(internal);
COMMENT ON OPERATOR FAMILY text_token_skip_ops USING skip IS
    'words of text';
COMMENT ON OPERATOR CLASS text_token_skip_ops USING skip IS
    'skip operator class of the words of text: @@@, @@@*, =, and LIKE, ILIKE, ~, ~*, ^@ as far as they have whole '
    'words; option fold_case';

CREATE FUNCTION skip_prefix_keys(internal)
    RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_prefix_keys_wrapper';
COMMENT ON FUNCTION skip_prefix_keys(internal) IS
    'support function 3 of skip operator classes: the first characters of a text, or bytes, are its key';

CREATE FUNCTION skip_text_prefix_options(internal)
    RETURNS void
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_text_prefix_options_wrapper';
COMMENT ON FUNCTION skip_text_prefix_options(internal) IS
    'support function 2 of text_prefix_skip_ops: options of a column';

CREATE FUNCTION skip_bytea_prefix_options(internal)
    RETURNS void
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_bytea_prefix_options_wrapper';
COMMENT ON FUNCTION skip_bytea_prefix_options(internal) IS
    'support function 2 of bytea_prefix_skip_ops: options of a column';

CREATE OPERATOR CLASS text_prefix_skip_ops
    FOR TYPE text USING skip AS
    OPERATOR 1 pg_catalog.=,
    OPERATOR 21 pg_catalog.~~,
    OPERATOR 22 pg_catalog.~~*,
    OPERATOR 23 pg_catalog.~,
    OPERATOR 24 pg_catalog.~*,
    OPERATOR 25 pg_catalog.^@,
    FUNCTION 2 skip_text_prefix_options(internal),
    FUNCTION 3 skip_prefix_keys(internal);
COMMENT ON OPERATOR FAMILY text_prefix_skip_ops USING skip IS
    'prefixes of text';
COMMENT ON OPERATOR CLASS text_prefix_skip_ops USING skip IS
    'skip operator class of the first characters of text: ^@, starts_with(), =, and LIKE, ILIKE, ~, ~* with a known '
    'start; options length and fold_case';

CREATE OPERATOR CLASS bytea_prefix_skip_ops
    FOR TYPE bytea USING skip AS
    OPERATOR 1 pg_catalog.=,
    OPERATOR 21 pg_catalog.~~,
    FUNCTION 2 skip_bytea_prefix_options(internal),
    FUNCTION 3 skip_prefix_keys(internal);
COMMENT ON OPERATOR FAMILY bytea_prefix_skip_ops USING skip IS
    'prefixes of bytea';
COMMENT ON OPERATOR CLASS bytea_prefix_skip_ops USING skip IS
    'skip operator class of the first bytes of bytea: =, and LIKE with a known start; option length';
