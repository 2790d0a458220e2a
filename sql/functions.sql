-- Maintenance of skip indexes, and looking into them.

CREATE FUNCTION skip_summarize(index regclass)
    RETURNS bigint
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_summarize_wrapper';
COMMENT ON FUNCTION skip_summarize(regclass) IS
    'summarize all block ranges of a skip index that are not summarized yet, fold its delta and merge its segments; returns the number of ranges newly summarized; of a partitioned index, those of all partitions';

CREATE FUNCTION skip_index_info(
    index regclass,
    OUT index regclass,
    OUT attnum integer,
    OUT column_name text,
    OUT pages_per_range integer,
    OUT ranges bigint,
    OUT summarized bigint,
    OUT segments integer,
    OUT min_width integer,
    OUT max_width integer,
    OUT filter_bits_min bigint,
    OUT filter_bits_max bigint,
    OUT hashes integer,
    OUT bytes bigint,
    OUT delta_entries bigint,
    OUT false_positive_rate double precision,
    OUT expected_false_positive_rate double precision,
    OUT pending_options text)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_index_info_wrapper';
COMMENT ON FUNCTION skip_index_info(regclass) IS
    'for each column of a skip index, or of the indexes of a partitioned one''s partitions: ranges of the table and how many are summarized, segments and their widths in ranges, filter sizes in bits, probes, bytes on disk, delta entries, the false-positive rate asked for and the one to expect from how full the filters are; options are those that the index was built with, and those set since are pending until REINDEX';

CREATE FUNCTION skip_index_segments(
    index regclass,
    OUT index regclass,
    OUT attnum integer,
    OUT first_range bigint,
    OUT width integer,
    OUT filter_bits bigint,
    OUT hashes integer,
    OUT first_block bigint,
    OUT blocks integer,
    OUT segment_id bigint,
    OUT open_ranges bigint,
    OUT fill double precision)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_index_segments_wrapper';
COMMENT ON FUNCTION skip_index_segments(regclass) IS
    'the live segments of a skip index, or of the indexes of a partitioned one''s partitions: ranges covered, filter size in bits, probes, blocks in the index, ranges without a filter, part of the filter bits that are set';

CREATE FUNCTION skip_matching_ranges(index regclass, column_name name, value anyelement)
    RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_matching_ranges_wrapper';
COMMENT ON FUNCTION skip_matching_ranges(regclass, name, anyelement) IS
    'the block ranges (numbers from 0, each pages_per_range blocks) in which a skip index cannot rule the value out; NULL asks for IS NULL';

-- Takes a literal, whose type nothing says: '5b2c1a9e-...' for a uuid. The same function in C, which sees the type it is given.
CREATE FUNCTION skip_matching_ranges(index regclass, column_name name, value text)
    RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_matching_ranges_wrapper';
COMMENT ON FUNCTION skip_matching_ranges(regclass, name, text) IS
    'the block ranges (numbers from 0, each pages_per_range blocks) in which a skip index cannot rule out the value that the text stands for in the column''s type; NULL asks for IS NULL';

-- A "char" can be taken for a text or as it is: without this one such a call would be ambiguous.
CREATE FUNCTION skip_matching_ranges(index regclass, column_name name, value "char")
    RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_matching_ranges_wrapper';
COMMENT ON FUNCTION skip_matching_ranges(regclass, name, "char") IS
    'as skip_matching_ranges(regclass, name, anyelement), for a value of type "char"';

CREATE FUNCTION skip_range_map(index regclass, column_name name, value anyelement, width integer DEFAULT 64)
    RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_range_map_wrapper';
COMMENT ON FUNCTION skip_range_map(regclass, name, anyelement, integer) IS
    'the table from its first to its last block as a line of at most width characters: "." skipped when looking for the value, "o" read in vain, "#" holds a visible row with the value, "?" without a filter, read in any case; NULL asks for IS NULL';

CREATE FUNCTION skip_range_map(index regclass, column_name name, value text, width integer DEFAULT 64)
    RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_range_map_wrapper';
COMMENT ON FUNCTION skip_range_map(regclass, name, text, integer) IS
    'as skip_range_map(regclass, name, anyelement, integer), for the value that the text stands for in the column''s type';

CREATE FUNCTION skip_range_map(index regclass, column_name name, value "char", width integer DEFAULT 64)
    RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_range_map_wrapper';
COMMENT ON FUNCTION skip_range_map(regclass, name, "char", integer) IS
    'as skip_range_map(regclass, name, anyelement, integer), for a value of type "char"';

CREATE FUNCTION skip_index_verify(index regclass, OUT index regclass, OUT block bigint, OUT problem text)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_index_verify_wrapper';
COMMENT ON FUNCTION skip_index_verify(regclass) IS
    'check every page of a skip index, or of the indexes of a partitioned one''s partitions, and look up every row of its table in it; no rows when all is sound';
