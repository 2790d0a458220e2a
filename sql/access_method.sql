-- The access method, and what every operator class of it shares.

CREATE FUNCTION skip_handler(internal)
    RETURNS index_am_handler
    LANGUAGE c STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_handler_wrapper';
COMMENT ON FUNCTION skip_handler(internal) IS
    'handler of the access method skip';

CREATE ACCESS METHOD skip TYPE INDEX HANDLER skip_handler;
COMMENT ON ACCESS METHOD skip IS
    'data-skipping index: a Bloom filter for each block range, stored bit-sliced, or a map from key to block ranges, '
    'or the least and the greatest value of each block range';

CREATE FUNCTION skip_opclass_options(internal)
    RETURNS void
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_opclass_options_wrapper';
COMMENT ON FUNCTION skip_opclass_options(internal) IS
    'operator class options of a skip index column: false_positive_rate, layout, pages_per_range';
