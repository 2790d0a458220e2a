-- The type bloom: Bloom filters as values.

CREATE TYPE bloom;

CREATE FUNCTION bloom_in(cstring) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_in_wrapper';
COMMENT ON FUNCTION bloom_in(cstring) IS 'I/O';
CREATE FUNCTION bloom_out(bloom) RETURNS cstring
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_out_wrapper';
COMMENT ON FUNCTION bloom_out(bloom) IS 'I/O';
CREATE FUNCTION bloom_recv(internal) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_recv_wrapper';
COMMENT ON FUNCTION bloom_recv(internal) IS 'I/O';
CREATE FUNCTION bloom_send(bloom) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_send_wrapper';
COMMENT ON FUNCTION bloom_send(bloom) IS 'I/O';

-- Filters are hardly ever compressible.
CREATE TYPE bloom (
    INPUT = bloom_in,
    OUTPUT = bloom_out,
    RECEIVE = bloom_recv,
    SEND = bloom_send,
    INTERNALLENGTH = VARIABLE,
    STORAGE = external
);
COMMENT ON TYPE bloom IS
    'a Bloom filter of the values of one type: tells for any value that it was certainly not added, or that it may '
    'have been added';

-- Into bytea and back, with a checksum behind the value.

CREATE FUNCTION bloom_to_bytea(bloom) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_to_bytea_wrapper';
COMMENT ON FUNCTION bloom_to_bytea(bloom) IS 'casts a bloom filter to bytea: the whole value and a checksum';
CREATE FUNCTION bloom_from_bytea(bytea) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_from_bytea_wrapper';
COMMENT ON FUNCTION bloom_from_bytea(bytea) IS 'casts the result of bloom_to_bytea back to a bloom filter';
CREATE CAST (bloom AS bytea) WITH FUNCTION bloom_to_bytea(bloom) AS ASSIGNMENT;
COMMENT ON CAST (bloom AS bytea) IS 'the whole value and a checksum';
CREATE CAST (bytea AS bloom) WITH FUNCTION bloom_from_bytea(bytea) AS ASSIGNMENT;
COMMENT ON CAST (bytea AS bloom) IS 'the reverse of the cast to bytea';

-- Making filters.

CREATE FUNCTION bloom_empty(
    key_type regtype,
    expected bigint,
    rate double precision DEFAULT NULL,
    policy text DEFAULT 'skip')
    RETURNS bloom
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_empty_wrapper';
COMMENT ON FUNCTION bloom_empty(regtype, bigint, double precision, text) IS
    'returns a bloom filter without keys, for a key type, an expected number of distinct keys and a false-positive '
    'rate (0.01 unless the policy gives a size)';

CREATE FUNCTION bloom_add(filter bloom, value "any") RETURNS bloom
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_add_wrapper';
COMMENT ON FUNCTION bloom_add(bloom, "any") IS
    'returns the bloom filter with one more key; NULL is not a key. For many keys, the union (|) with a filter made '
    'by bloom_agg is faster';

-- Lookup. Values are "any", not anyelement, so that a literal of unknown type can be read as the filter's key type.

CREATE FUNCTION bloom_contains_sel(internal, oid, internal, integer) RETURNS double precision
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_contains_sel_wrapper';
COMMENT ON FUNCTION bloom_contains_sel(internal, oid, internal, integer) IS
    'restriction selectivity of @> and <@ with a bloom filter';

CREATE FUNCTION bloom_contains(filter bloom, value "any") RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 2 AS 'MODULE_PATHNAME', 'bloom_contains_wrapper';
COMMENT ON FUNCTION bloom_contains(bloom, "any") IS
    'tells whether a value may have been added to a bloom filter: false is certain, true is not';
CREATE FUNCTION bloom_is_contained(value "any", filter bloom) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 2 AS 'MODULE_PATHNAME', 'bloom_is_contained_wrapper';
COMMENT ON FUNCTION bloom_is_contained("any", bloom) IS
    'tells whether a value may have been added to a bloom filter: false is certain, true is not';
CREATE FUNCTION bloom_contains_any(filter bloom, elements anyarray) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 10 AS 'MODULE_PATHNAME', 'bloom_contains_any_wrapper';
COMMENT ON FUNCTION bloom_contains_any(bloom, anyarray) IS
    'tells whether any element of an array may have been added to a bloom filter: false is certain, true is not; '
    'NULL elements are ignored';

CREATE OPERATOR @> (
    LEFTARG = bloom, RIGHTARG = "any", FUNCTION = bloom_contains, COMMUTATOR = <@,
    RESTRICT = bloom_contains_sel, JOIN = matchingjoinsel
);
COMMENT ON OPERATOR @> (bloom, "any") IS 'filter may contain the value';
CREATE OPERATOR <@ (
    LEFTARG = "any", RIGHTARG = bloom, FUNCTION = bloom_is_contained, COMMUTATOR = @>,
    RESTRICT = bloom_contains_sel, JOIN = matchingjoinsel
);
COMMENT ON OPERATOR <@ ("any", bloom) IS 'value may be contained in the filter';

-- Combining filters.

CREATE FUNCTION bloom_union(bloom, bloom) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_union_wrapper';
COMMENT ON FUNCTION bloom_union(bloom, bloom) IS
    'returns the bloom filter of the keys of both filters; the filters must have the same type, collation, size, '
    'number of probes, policy and seed';
CREATE FUNCTION bloom_intersection(bloom, bloom) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_intersection_wrapper';
COMMENT ON FUNCTION bloom_intersection(bloom, bloom) IS
    'returns a bloom filter of the keys that are in both filters, with a higher false-positive rate than a filter '
    'made from these keys; the filters must agree as for bloom_union';
CREATE OPERATOR | (LEFTARG = bloom, RIGHTARG = bloom, FUNCTION = bloom_union, COMMUTATOR = |);
COMMENT ON OPERATOR | (bloom, bloom) IS 'union: keys of either filter';
CREATE OPERATOR & (LEFTARG = bloom, RIGHTARG = bloom, FUNCTION = bloom_intersection, COMMUTATOR = &);
COMMENT ON OPERATOR & (bloom, bloom) IS 'intersection: keys of both filters, with more false positives';

-- Equality, so that filters can be grouped and compared. Filters with the same type, shape and bits are equal.

CREATE FUNCTION bloom_eq(bloom, bloom) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_eq_wrapper';
COMMENT ON FUNCTION bloom_eq(bloom, bloom) IS 'tells whether two bloom filters have the same type, shape and bits';
CREATE FUNCTION bloom_ne(bloom, bloom) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_ne_wrapper';
COMMENT ON FUNCTION bloom_ne(bloom, bloom) IS 'tells whether two bloom filters differ in type, shape or bits';
CREATE FUNCTION bloom_hash(bloom) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_hash_wrapper';
COMMENT ON FUNCTION bloom_hash(bloom) IS 'hash of a bloom filter';
CREATE FUNCTION bloom_hash_extended(bloom, bigint) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_hash_extended_wrapper';
COMMENT ON FUNCTION bloom_hash_extended(bloom, bigint) IS 'hash of a bloom filter under a seed';
CREATE OPERATOR = (
    LEFTARG = bloom, RIGHTARG = bloom, FUNCTION = bloom_eq, COMMUTATOR = =, NEGATOR = <>,
    RESTRICT = eqsel, JOIN = eqjoinsel, HASHES
);
COMMENT ON OPERATOR = (bloom, bloom) IS 'same type, shape and bits';
CREATE OPERATOR <> (
    LEFTARG = bloom, RIGHTARG = bloom, FUNCTION = bloom_ne, COMMUTATOR = <>, NEGATOR = =,
    RESTRICT = neqsel, JOIN = neqjoinsel
);
COMMENT ON OPERATOR <> (bloom, bloom) IS 'another type, shape or bits';
CREATE OPERATOR CLASS bloom_ops DEFAULT FOR TYPE bloom USING hash AS
    OPERATOR 1 =,
    FUNCTION 1 bloom_hash(bloom),
    FUNCTION 2 bloom_hash_extended(bloom, bigint);
COMMENT ON OPERATOR CLASS bloom_ops USING hash IS 'grouping and joining of bloom filters by equality';
COMMENT ON OPERATOR FAMILY bloom_ops USING hash IS 'grouping and joining of bloom filters by equality';

-- Inspecting a filter.

CREATE FUNCTION bloom_cardinality(filter bloom) RETURNS double precision
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'bloom_cardinality_wrapper';
COMMENT ON FUNCTION bloom_cardinality(bloom) IS
    'estimates the number of distinct keys of a bloom filter from its set bits; infinite if all bits are set';
CREATE FUNCTION bloom_cardinality_bounds(filter bloom, OUT low double precision, OUT high double precision)
    RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE ROWS 1 COST 100
    AS 'MODULE_PATHNAME', 'bloom_cardinality_bounds_wrapper';
COMMENT ON FUNCTION bloom_cardinality_bounds(bloom) IS
    'bounds of bloom_cardinality: a 95 % confidence interval';
CREATE FUNCTION bloom_intersection_cardinality(
    a bloom,
    b bloom,
    OUT estimate double precision,
    OUT low double precision,
    OUT high double precision)
    RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE ROWS 1 COST 100
    AS 'MODULE_PATHNAME', 'bloom_intersection_cardinality_wrapper';
COMMENT ON FUNCTION bloom_intersection_cardinality(bloom, bloom) IS
    'estimates the number of distinct keys that are in both bloom filters by inclusion and exclusion, with the '
    'bounds of a 95 % confidence interval; the filters must have the same type and collation, size, number of probes, '
    'policy and seed';
CREATE FUNCTION bloom_false_positive_rate(filter bloom) RETURNS double precision
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'bloom_false_positive_rate_wrapper';
COMMENT ON FUNCTION bloom_false_positive_rate(bloom) IS
    'the false-positive rate of a bloom filter at its current fill';
CREATE FUNCTION bloom_info(
    filter bloom,
    OUT policy text,
    OUT key_type text,
    OUT key_collation text,
    OUT filters integer,
    OUT bits bigint,
    OUT probes integer,
    OUT seed text,
    OUT set_bits bigint,
    OUT fill double precision,
    OUT cardinality double precision,
    OUT cardinality_low double precision,
    OUT cardinality_high double precision,
    OUT false_positive_rate double precision,
    OUT bytes bigint,
    OUT promises_rate boolean)
    RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE ROWS 1 COST 200 AS 'MODULE_PATHNAME', 'bloom_info_wrapper';
COMMENT ON FUNCTION bloom_info(bloom) IS
    'the properties of a bloom filter: policy, type and collation of its keys, number of filters (more than one for '
    'a series), bits, probes per key, seed, set bits and their fraction, estimated number of keys with bounds, '
    'false-positive rate at the current fill, bytes of the value, and whether the policy promises its rate';

-- Other systems.

CREATE FUNCTION bloom_export(filter bloom) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_export_wrapper';
COMMENT ON FUNCTION bloom_export(bloom) IS
    'returns the bytes of the bloom filter in the format of its policy: that of LevelDB, ClickHouse or RocksDB, or, '
    'for policy skip, that of this extension';
CREATE FUNCTION bloom_import(filter bytea, policy text, key_type regtype) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_import_wrapper';
COMMENT ON FUNCTION bloom_import(bytea, text, regtype) IS
    'returns the bloom filter stored in bytes of the policy''s format, as bloom_export and other systems make them; '
    'its keys are taken to be the key bytes of the given type';

-- Aggregates.

CREATE FUNCTION bloom_agg_step(internal, anyelement) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_step_wrapper';
COMMENT ON FUNCTION bloom_agg_step(internal, anyelement) IS 'part of bloom_agg';
CREATE FUNCTION bloom_agg_step(internal, anyelement, double precision) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_step_wrapper';
COMMENT ON FUNCTION bloom_agg_step(internal, anyelement, double precision) IS 'part of bloom_agg';
CREATE FUNCTION bloom_agg_step(internal, anyelement, double precision, bigint) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_step_wrapper';
COMMENT ON FUNCTION bloom_agg_step(internal, anyelement, double precision, bigint) IS 'part of bloom_agg';
CREATE FUNCTION bloom_agg_step(internal, anyelement, double precision, bigint, text) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_step_wrapper';
COMMENT ON FUNCTION bloom_agg_step(internal, anyelement, double precision, bigint, text) IS 'part of bloom_agg';
CREATE FUNCTION bloom_agg_combine(internal, internal) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_combine_wrapper';
COMMENT ON FUNCTION bloom_agg_combine(internal, internal) IS 'part of bloom_agg';
CREATE FUNCTION bloom_agg_serialize(internal) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_serialize_wrapper';
COMMENT ON FUNCTION bloom_agg_serialize(internal) IS 'part of bloom_agg';
CREATE FUNCTION bloom_agg_deserialize(bytea, internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_deserialize_wrapper';
COMMENT ON FUNCTION bloom_agg_deserialize(bytea, internal) IS 'part of bloom_agg';
CREATE FUNCTION bloom_agg_final(internal) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_final_wrapper';
COMMENT ON FUNCTION bloom_agg_final(internal) IS 'part of bloom_agg';
CREATE FUNCTION bloom_union_agg_step(internal, bloom) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_union_agg_step_wrapper';
COMMENT ON FUNCTION bloom_union_agg_step(internal, bloom) IS 'part of bloom_union_agg';
CREATE FUNCTION bloom_union_agg_combine(internal, internal) RETURNS internal
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_union_agg_combine_wrapper';
COMMENT ON FUNCTION bloom_union_agg_combine(internal, internal) IS 'part of bloom_union_agg';
CREATE FUNCTION bloom_union_agg_serialize(internal) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_union_agg_serialize_wrapper';
COMMENT ON FUNCTION bloom_union_agg_serialize(internal) IS 'part of bloom_union_agg';
CREATE FUNCTION bloom_union_agg_deserialize(bytea, internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_union_agg_deserialize_wrapper';
COMMENT ON FUNCTION bloom_union_agg_deserialize(bytea, internal) IS 'part of bloom_union_agg';
CREATE FUNCTION bloom_union_agg_final(internal) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_union_agg_final_wrapper';
COMMENT ON FUNCTION bloom_union_agg_final(internal) IS 'part of bloom_union_agg';

CREATE AGGREGATE bloom_agg(value anyelement) (
    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
    FINALFUNC = bloom_agg_final,
    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_agg(anyelement) IS
    'the bloom filter of all values that are not NULL; false-positive rate 0.01, sized by the number of distinct '
    'values';
CREATE AGGREGATE bloom_agg(value anyelement, rate double precision) (
    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
    FINALFUNC = bloom_agg_final,
    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_agg(anyelement, double precision) IS
    'the bloom filter of all values that are not NULL; with a false-positive rate, sized by the number of distinct '
    'values';
CREATE AGGREGATE bloom_agg(value anyelement, rate double precision, expected bigint) (
    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
    FINALFUNC = bloom_agg_final,
    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_agg(anyelement, double precision, bigint) IS
    'the bloom filter of all values that are not NULL; with a false-positive rate, sized by an expected number of '
    'distinct values: such filters can be combined';
CREATE AGGREGATE bloom_agg(value anyelement, rate double precision, expected bigint, policy text) (
    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
    FINALFUNC = bloom_agg_final,
    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_agg(anyelement, double precision, bigint, text) IS
    'the bloom filter of all values that are not NULL; with a false-positive rate, an expected number of distinct '
    'values, and a filter policy such as leveldb(bits_per_key=10); NULL means that a parameter is not given';
-- The same aggregates for the most common types by name, with every number of arguments. An engine that distributes a
-- table over servers computes an aggregate in parts only if the type of its argument is named, and it calls the step
-- function without an expression that would tell the type. All of these aggregates make the same filters. The list also
-- has each type that would be cast implicitly to another listed type: without an aggregate of its own, a call would be
-- ambiguous, or the filter would have keys of the other type.

DO $types$
DECLARE
    type text;
    arguments text;
    names text;
    meaning text;
BEGIN
    FOREACH type IN ARRAY ARRAY[
        'smallint', 'integer', 'bigint', 'oid', 'real', 'double precision', 'numeric', 'boolean',
        'text', 'character', 'name', '"char"', 'bytea', 'uuid', 'inet',
        'date', 'time without time zone', 'time with time zone', 'timestamp without time zone',
        'timestamp with time zone', 'interval']
    LOOP
        FOR arguments, names, meaning IN VALUES
            ('', '', 'false-positive rate 0.01, sized by the number of distinct values'),
            (', double precision', ', rate double precision',
             'with a false-positive rate, sized by the number of distinct values'),
            (', double precision, bigint', ', rate double precision, expected bigint',
             'with a false-positive rate, sized by an expected number of distinct values: such filters can be '
             'combined'),
            (', double precision, bigint, text', ', rate double precision, expected bigint, policy text',
             'with a false-positive rate, an expected number of distinct values, and a filter policy such as '
             'leveldb(bits_per_key=10); NULL means that a parameter is not given')
        LOOP
            EXECUTE pg_catalog.format($sql$
                CREATE FUNCTION bloom_agg_step(internal, %1$s%2$s) RETURNS internal
                    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_agg_step_wrapper';
                COMMENT ON FUNCTION bloom_agg_step(internal, %1$s%2$s) IS 'part of bloom_agg';
                CREATE AGGREGATE bloom_agg(value %1$s%3$s) (
                    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
                    FINALFUNC = bloom_agg_final,
                    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize,
                    DESERIALFUNC = bloom_agg_deserialize,
                    PARALLEL = SAFE
                );
                COMMENT ON AGGREGATE bloom_agg(%1$s%2$s) IS %4$L;
                $sql$, type, arguments, names,
                'the bloom filter of all values that are not NULL; ' OPERATOR(pg_catalog.||) meaning);
        END LOOP;
    END LOOP;
END
$types$;

CREATE AGGREGATE bloom_union_agg(filter bloom) (
    SFUNC = bloom_union_agg_step, STYPE = internal,
    FINALFUNC = bloom_union_agg_final,
    COMBINEFUNC = bloom_union_agg_combine, SERIALFUNC = bloom_union_agg_serialize,
    DESERIALFUNC = bloom_union_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_union_agg(bloom) IS
    'the bloom filter of the keys of all filters; the filters must have the same type and collation, size, number of '
    'probes, policy and seed';
