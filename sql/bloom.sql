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
    'a Bloom filter of the values of one type: says for certain that a value was not added, or that it may have been';

-- Into bytea and back, with a checksum behind the value.

CREATE FUNCTION bloom_to_bytea(bloom) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_to_bytea_wrapper';
COMMENT ON FUNCTION bloom_to_bytea(bloom) IS 'the cast of a bloom filter to bytea: its whole value, and a checksum';
CREATE FUNCTION bloom_from_bytea(bytea) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_from_bytea_wrapper';
COMMENT ON FUNCTION bloom_from_bytea(bytea) IS 'the cast of bytea to a bloom filter: what bloom_to_bytea gave';
CREATE CAST (bloom AS bytea) WITH FUNCTION bloom_to_bytea(bloom) AS ASSIGNMENT;
COMMENT ON CAST (bloom AS bytea) IS 'the whole value, and a checksum';
CREATE CAST (bytea AS bloom) WITH FUNCTION bloom_from_bytea(bytea) AS ASSIGNMENT;
COMMENT ON CAST (bytea AS bloom) IS 'what the cast to bytea gave';

-- Making filters.

CREATE FUNCTION bloom_empty(
    key_type regtype,
    expected bigint,
    rate double precision DEFAULT NULL,
    policy text DEFAULT 'skip')
    RETURNS bloom
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_empty_wrapper';
COMMENT ON FUNCTION bloom_empty(regtype, bigint, double precision, text) IS
    'a bloom filter without keys, made for a type, an expected number of distinct keys and a false-positive rate (0.01 unless the policy says a size)';

CREATE FUNCTION bloom_add(filter bloom, value "any") RETURNS bloom
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_add_wrapper';
COMMENT ON FUNCTION bloom_add(bloom, "any") IS
    'the bloom filter with one more key; NULL is no key. To add many, | with a filter that bloom_agg made is faster';

-- Asking. Values are "any", not anyelement, so that a literal of unknown type can be read as the filter's.

CREATE FUNCTION bloom_contains_sel(internal, oid, internal, integer) RETURNS double precision
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_contains_sel_wrapper';
COMMENT ON FUNCTION bloom_contains_sel(internal, oid, internal, integer) IS
    'restriction selectivity of @> and <@ with a bloom filter';

CREATE FUNCTION bloom_contains(filter bloom, value "any") RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 2 AS 'MODULE_PATHNAME', 'bloom_contains_wrapper';
COMMENT ON FUNCTION bloom_contains(bloom, "any") IS
    'whether a value may have been added to a bloom filter: false is certain, true is not';
CREATE FUNCTION bloom_is_contained(value "any", filter bloom) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 2 AS 'MODULE_PATHNAME', 'bloom_is_contained_wrapper';
COMMENT ON FUNCTION bloom_is_contained("any", bloom) IS
    'whether a value may have been added to a bloom filter: false is certain, true is not';
CREATE FUNCTION bloom_contains_any(filter bloom, elements anyarray) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 10 AS 'MODULE_PATHNAME', 'bloom_contains_any_wrapper';
COMMENT ON FUNCTION bloom_contains_any(bloom, anyarray) IS
    'whether any element of an array may have been added to a bloom filter: false is certain, true is not; NULL elements are in no filter';

CREATE OPERATOR @> (
    LEFTARG = bloom, RIGHTARG = "any", FUNCTION = bloom_contains, COMMUTATOR = <@,
    RESTRICT = bloom_contains_sel, JOIN = matchingjoinsel
);
COMMENT ON OPERATOR @> (bloom, "any") IS 'may hold the value';
CREATE OPERATOR <@ (
    LEFTARG = "any", RIGHTARG = bloom, FUNCTION = bloom_is_contained, COMMUTATOR = @>,
    RESTRICT = bloom_contains_sel, JOIN = matchingjoinsel
);
COMMENT ON OPERATOR <@ ("any", bloom) IS 'may be in the filter';

-- Putting filters together.

CREATE FUNCTION bloom_union(bloom, bloom) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_union_wrapper';
COMMENT ON FUNCTION bloom_union(bloom, bloom) IS
    'the bloom filter of the keys of both; they must have the same type, size, probes and policy';
CREATE FUNCTION bloom_intersection(bloom, bloom) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_intersection_wrapper';
COMMENT ON FUNCTION bloom_intersection(bloom, bloom) IS
    'a bloom filter of the keys that are in both, and of more false ones than a filter made of these keys; they must have the same type, size, probes and policy';
CREATE OPERATOR | (LEFTARG = bloom, RIGHTARG = bloom, FUNCTION = bloom_union, COMMUTATOR = |);
COMMENT ON OPERATOR | (bloom, bloom) IS 'keys of both';
CREATE OPERATOR & (LEFTARG = bloom, RIGHTARG = bloom, FUNCTION = bloom_intersection, COMMUTATOR = &);
COMMENT ON OPERATOR & (bloom, bloom) IS 'keys that are in both, and more false ones';

-- Equality, so that filters can be grouped and compared. Equal is what has the same bits.

CREATE FUNCTION bloom_eq(bloom, bloom) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_eq_wrapper';
COMMENT ON FUNCTION bloom_eq(bloom, bloom) IS 'whether two bloom filters have the same type, shape and bits';
CREATE FUNCTION bloom_ne(bloom, bloom) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_ne_wrapper';
COMMENT ON FUNCTION bloom_ne(bloom, bloom) IS 'whether two bloom filters differ in type, shape or bits';
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

-- What a filter is.

CREATE FUNCTION bloom_cardinality(filter bloom) RETURNS double precision
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'bloom_cardinality_wrapper';
COMMENT ON FUNCTION bloom_cardinality(bloom) IS
    'the number of distinct keys of a bloom filter, as its set bits tell it; infinite if all are set';
CREATE FUNCTION bloom_cardinality_bounds(filter bloom, OUT low double precision, OUT high double precision)
    RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE ROWS 1 COST 100
    AS 'MODULE_PATHNAME', 'bloom_cardinality_bounds_wrapper';
COMMENT ON FUNCTION bloom_cardinality_bounds(bloom) IS
    'bounds of bloom_cardinality: 95 % of such intervals hold the true number';
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
    'the number of distinct keys that are in both bloom filters, by inclusion and exclusion, with bounds: 95 % of such intervals hold the true number; they must have the same type, size, probes and policy';
CREATE FUNCTION bloom_false_positive_rate(filter bloom) RETURNS double precision
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 100 AS 'MODULE_PATHNAME', 'bloom_false_positive_rate_wrapper';
COMMENT ON FUNCTION bloom_false_positive_rate(bloom) IS
    'the rate at which a bloom filter says yes for values that were never added, as full as it is now';
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
    'everything about a bloom filter: policy, type and collation of its keys, number of filters (more than one for a series), bits, probes a key, seed, set bits and their part, number of keys with bounds, false-positive rate as full as it is now, bytes of the value, and whether the policy promises its rate';

-- Other systems.

CREATE FUNCTION bloom_export(filter bloom) RETURNS bytea
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_export_wrapper';
COMMENT ON FUNCTION bloom_export(bloom) IS
    'the bloom filter as the system stores it that its policy comes from: LevelDB, ClickHouse, RocksDB';
CREATE FUNCTION bloom_import(filter bytea, policy text, key_type regtype) RETURNS bloom
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'bloom_import_wrapper';
COMMENT ON FUNCTION bloom_import(bytea, text, regtype) IS
    'the bloom filter that bytes of another system hold, whose keys are the key bytes of a type';

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
    'the bloom filter of all values that are not NULL; false-positive rate 0.01, sized by the number of distinct values';
CREATE AGGREGATE bloom_agg(value anyelement, rate double precision) (
    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
    FINALFUNC = bloom_agg_final,
    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_agg(anyelement, double precision) IS
    'the bloom filter of all values that are not NULL; with a false-positive rate, sized by the number of distinct values';
CREATE AGGREGATE bloom_agg(value anyelement, rate double precision, expected bigint) (
    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
    FINALFUNC = bloom_agg_final,
    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_agg(anyelement, double precision, bigint) IS
    'the bloom filter of all values that are not NULL; with a false-positive rate, sized by an expected number of distinct values: such filters can be put together';
CREATE AGGREGATE bloom_agg(value anyelement, rate double precision, expected bigint, policy text) (
    SFUNC = bloom_agg_step, STYPE = internal, SSPACE = 160,
    FINALFUNC = bloom_agg_final,
    COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
    PARALLEL = SAFE
);
COMMENT ON AGGREGATE bloom_agg(anyelement, double precision, bigint, text) IS
    'the bloom filter of all values that are not NULL; with a false-positive rate, an expected number of distinct values, and a filter policy such as leveldb(bits_per_key=10); NULL stands for what is not given';
-- The same for the most common types by name, in every number of arguments: an engine that distributes a table over servers
-- computes an aggregate in parts only if its argument's type is named, and calls its step function without an expression that
-- would tell the type. A filter is the same whichever of them made it. A type is here, too, if values of it would be cast to
-- another one that is here: else its own aggregate and that one's would be equally good, or filters would be of the other's keys.

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
             'with a false-positive rate, sized by an expected number of distinct values: such filters can be put together'),
            (', double precision, bigint, text', ', rate double precision, expected bigint, policy text',
             'with a false-positive rate, an expected number of distinct values, and a filter policy such as leveldb(bits_per_key=10); NULL stands for what is not given')
        LOOP
            EXECUTE format($sql$
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
                $sql$, type, arguments, names, 'the bloom filter of all values that are not NULL; ' || meaning);
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
    'the bloom filter of the keys of all filters; they must have the same type, size, probes and policy';
