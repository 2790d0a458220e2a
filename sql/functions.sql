-- Maintenance and inspection of skip indexes.

CREATE FUNCTION skip_summarize(index regclass)
    RETURNS bigint
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_summarize_wrapper';
COMMENT ON FUNCTION skip_summarize(regclass) IS
    'summarizes the block ranges of a skip index that are not summarized yet, folds its delta, rebuilds filters and '
    'maps with many keys of deleted or updated rows, and bounds that have become too wide, and merges its segments; '
    'returns the number of ranges summarized by this call, and of open ranges closed, counted in each column; for a '
    'partitioned index, does this for the indexes of all partitions';

CREATE FUNCTION skip_index_info(
    index regclass,
    OUT index regclass,
    OUT attnum integer,
    OUT column_name text,
    OUT layout text,
    OUT layout_reason text,
    OUT pages_per_range integer,
    OUT ranges bigint,
    OUT summarized bigint,
    OUT segments integer,
    OUT min_width integer,
    OUT max_width integer,
    OUT filter_bits_min bigint,
    OUT filter_bits_max bigint,
    OUT num_probes integer,
    OUT fingerprint_bits integer,
    OUT additions bigint,
    OUT bytes bigint,
    OUT delta_entries bigint,
    OUT false_positive_rate double precision,
    OUT expected_false_positive_rate double precision,
    OUT pending_options text)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_index_info_wrapper';
COMMENT ON FUNCTION skip_index_info(regclass) IS
    'one row for each column of a skip index: layout (filters, map or bounds; auto as long as nothing is chosen), '
    'the facts it was chosen by, pages of its block ranges, number of block ranges and of summarized ranges, '
    'segments that a lookup of one key reads (maps of other keys not counted) and their widths in ranges, filter '
    'sizes in bits and number of probes, or fingerprint bits and number of additions of maps, bytes on disk, delta '
    'entries, target false-positive rate, false-positive rate expected from the fill of the filters or the pairs of '
    'the maps; options are those of new block ranges, options changed since the build are pending until REINDEX; a '
    'partitioned index stands for the indexes of all its partitions';

CREATE FUNCTION skip_index_segments(
    index regclass,
    OUT index regclass,
    OUT attnum integer,
    OUT kind text,
    OUT key_part text,
    OUT first_range bigint,
    OUT width integer,
    OUT filter_bits bigint,
    OUT num_probes integer,
    OUT fingerprint_bits integer,
    OUT pairs bigint,
    OUT first_block bigint,
    OUT blocks integer,
    OUT segment_id bigint,
    OUT open_ranges bigint,
    OUT fill double precision)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_index_segments_wrapper';
COMMENT ON FUNCTION skip_index_segments(regclass) IS
    'one row for each live segment of a skip index: kind (filters, map, bounds, or addition: a map of keys that came '
    'to ranges of other maps), the part of the keys that it has, for example 3/16 if it is the third of 16 maps into '
    'which a large map is divided by the keys'' hashes, NULL if it has all keys, block ranges covered, filter size in '
    'bits and number of probes, or fingerprint bits and pairs of key and range of a map, blocks of the index, number '
    'of ranges that are left open, fraction of the filter bits that are set; a partitioned index stands for the '
    'indexes of all its partitions';

CREATE FUNCTION skip_matching_ranges(index regclass, column_name name, value anyelement)
    RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_matching_ranges_wrapper';
COMMENT ON FUNCTION skip_matching_ranges(regclass, name, anyelement) IS
    'the block ranges of the table, numbered from 0, that may hold the value according to a skip index; each has '
    'pages_per_range blocks; a NULL value searches for NULL';

-- For literals of unknown type, such as '5b2c1a9e-...' for a uuid. It calls the same C function, which sees the type of
-- its argument.
CREATE FUNCTION skip_matching_ranges(index regclass, column_name name, value text)
    RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_matching_ranges_wrapper';
COMMENT ON FUNCTION skip_matching_ranges(regclass, name, text) IS
    'as skip_matching_ranges(regclass, name, anyelement), for a value given as text, which is converted to the type '
    'of the column';

-- A call with a "char" would match both text and anyelement: without this function it would be ambiguous.
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
    'draws the table from its first to its last block as a line of at most width characters, for a search for the '
    'value: "." block range is skipped, "o" is read but holds no visible row with the value, "#" holds a visible row '
    'with the value, "?" holds no such row, but is always read, because it is not summarized, or open; a NULL value '
    'searches for NULL';

CREATE FUNCTION skip_range_map(index regclass, column_name name, value text, width integer DEFAULT 64)
    RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_range_map_wrapper';
COMMENT ON FUNCTION skip_range_map(regclass, name, text, integer) IS
    'as skip_range_map(regclass, name, anyelement, integer), for a value given as text, which is converted to the '
    'type of the column';

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
    'checks every page of a skip index and looks up every row of the table in it; returns one row for each problem, '
    'none if the index is sound; a partitioned index stands for the indexes of all its partitions';

CREATE FUNCTION skip_advise(
    "table" regclass,
    "column" name DEFAULT NULL,
    OUT column_name text,
    OUT method text,
    OUT recommended boolean,
    OUT index_bytes bigint,
    OUT index_pages double precision,
    OUT table_pages double precision,
    OUT reason text,
    OUT statement text)
    RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_advise_wrapper';
COMMENT ON FUNCTION skip_advise(regclass, name) IS
    'which index serves lookups of single values of a column, or of each column, of a table: skip, btree, BRIN or '
    'none, and which operator classes of skip find parts of the values; with estimates from a sample of at most 1,024 '
    'pages of the index''s size in bytes and of the pages of the index and of the table that a lookup reads; the '
    'recommended one first, with the statement that creates it';

CREATE FUNCTION skip_library_version()
    RETURNS text
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_library_version_wrapper';
COMMENT ON FUNCTION skip_library_version() IS 'the version of the library of pg_skip that the server has loaded';

CREATE FUNCTION skip_version(OUT library text, OUT extension text)
    LANGUAGE sql STABLE PARALLEL SAFE
    BEGIN ATOMIC
        SELECT skip_library_version(),
               (SELECT extversion FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'pg_skip');
    END;
COMMENT ON FUNCTION skip_version() IS
    'the versions of the library that the server has loaded, and of the extension''s SQL objects in this database; if '
    'they differ, ALTER EXTENSION pg_skip UPDATE is due';

CREATE FUNCTION skip_explain(
    query text,
    OUT "table" regclass,
    OUT index regclass,
    OUT column_name text,
    OUT condition text,
    OUT used boolean,
    OUT reason text,
    OUT hint text)
    RETURNS SETOF record
    LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'skip_explain_wrapper';
COMMENT ON FUNCTION skip_explain(text) IS
    'which conditions of a query are looked up in skip indexes: one row for each skip index of its tables and each '
    'condition on a single table that tests a column of the index, whether the plan uses it, if not why, and what '
    'would help; the query is planned as by EXPLAIN, with the rights of the caller, and not run; on PostgreSQL 16 and '
    'later it may have parameters ($1)';
