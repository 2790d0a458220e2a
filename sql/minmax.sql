-- The operator classes whose columns have bounds: the least and the greatest value of each block range.
--
-- They have the operators 11 `<`, 12 `<=`, 1 `=`, 13 `>=` and 14 `>`, and the support function 3, which says that a
-- value's key is where it stands in the order of its type. None is the default of its type, and none has options.
--
-- Runs in the extension's schema, after the access method was created.

CREATE FUNCTION skip_minmax_keys(internal)
    RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'skip_minmax_keys_wrapper';
COMMENT ON FUNCTION skip_minmax_keys(internal) IS
    'support function 3 of skip operator classes: the key of a value is its place in the order of its type';

CREATE OPERATOR FAMILY integer_minmax_skip_ops USING skip;
COMMENT ON OPERATOR FAMILY integer_minmax_skip_ops USING skip IS
    'order of smallint, integer and bigint, in any combination';

CREATE OPERATOR CLASS int2_minmax_skip_ops
    FOR TYPE int2 USING skip FAMILY integer_minmax_skip_ops AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR CLASS int2_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of smallint: <, <=, =, >=, >';

CREATE OPERATOR CLASS int4_minmax_skip_ops
    FOR TYPE int4 USING skip FAMILY integer_minmax_skip_ops AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR CLASS int4_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of integer: <, <=, =, >=, >';

CREATE OPERATOR CLASS int8_minmax_skip_ops
    FOR TYPE int8 USING skip FAMILY integer_minmax_skip_ops AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR CLASS int8_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of bigint: <, <=, =, >=, >';

ALTER OPERATOR FAMILY integer_minmax_skip_ops USING skip ADD
    OPERATOR 11 pg_catalog.< (int2, int4),
    OPERATOR 12 pg_catalog.<= (int2, int4),
    OPERATOR 1 pg_catalog.= (int2, int4),
    OPERATOR 13 pg_catalog.>= (int2, int4),
    OPERATOR 14 pg_catalog.> (int2, int4),
    OPERATOR 11 pg_catalog.< (int2, int8),
    OPERATOR 12 pg_catalog.<= (int2, int8),
    OPERATOR 1 pg_catalog.= (int2, int8),
    OPERATOR 13 pg_catalog.>= (int2, int8),
    OPERATOR 14 pg_catalog.> (int2, int8),
    OPERATOR 11 pg_catalog.< (int4, int2),
    OPERATOR 12 pg_catalog.<= (int4, int2),
    OPERATOR 1 pg_catalog.= (int4, int2),
    OPERATOR 13 pg_catalog.>= (int4, int2),
    OPERATOR 14 pg_catalog.> (int4, int2),
    OPERATOR 11 pg_catalog.< (int4, int8),
    OPERATOR 12 pg_catalog.<= (int4, int8),
    OPERATOR 1 pg_catalog.= (int4, int8),
    OPERATOR 13 pg_catalog.>= (int4, int8),
    OPERATOR 14 pg_catalog.> (int4, int8),
    OPERATOR 11 pg_catalog.< (int8, int2),
    OPERATOR 12 pg_catalog.<= (int8, int2),
    OPERATOR 1 pg_catalog.= (int8, int2),
    OPERATOR 13 pg_catalog.>= (int8, int2),
    OPERATOR 14 pg_catalog.> (int8, int2),
    OPERATOR 11 pg_catalog.< (int8, int4),
    OPERATOR 12 pg_catalog.<= (int8, int4),
    OPERATOR 1 pg_catalog.= (int8, int4),
    OPERATOR 13 pg_catalog.>= (int8, int4),
    OPERATOR 14 pg_catalog.> (int8, int4);

CREATE OPERATOR FAMILY float_minmax_skip_ops USING skip;
COMMENT ON OPERATOR FAMILY float_minmax_skip_ops USING skip IS
    'order of real and double precision, in any combination';

CREATE OPERATOR CLASS float4_minmax_skip_ops
    FOR TYPE float4 USING skip FAMILY float_minmax_skip_ops AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR CLASS float4_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of real: <, <=, =, >=, >';

CREATE OPERATOR CLASS float8_minmax_skip_ops
    FOR TYPE float8 USING skip FAMILY float_minmax_skip_ops AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR CLASS float8_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of double precision: <, <=, =, >=, >';

ALTER OPERATOR FAMILY float_minmax_skip_ops USING skip ADD
    OPERATOR 11 pg_catalog.< (float4, float8),
    OPERATOR 12 pg_catalog.<= (float4, float8),
    OPERATOR 1 pg_catalog.= (float4, float8),
    OPERATOR 13 pg_catalog.>= (float4, float8),
    OPERATOR 14 pg_catalog.> (float4, float8),
    OPERATOR 11 pg_catalog.< (float8, float4),
    OPERATOR 12 pg_catalog.<= (float8, float4),
    OPERATOR 1 pg_catalog.= (float8, float4),
    OPERATOR 13 pg_catalog.>= (float8, float4),
    OPERATOR 14 pg_catalog.> (float8, float4);

CREATE OPERATOR CLASS numeric_minmax_skip_ops
    FOR TYPE numeric USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY numeric_minmax_skip_ops USING skip IS
    'order of numeric';
COMMENT ON OPERATOR CLASS numeric_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of numeric: <, <=, =, >=, >';

CREATE OPERATOR CLASS money_minmax_skip_ops
    FOR TYPE money USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY money_minmax_skip_ops USING skip IS
    'order of money';
COMMENT ON OPERATOR CLASS money_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of money: <, <=, =, >=, >';

CREATE OPERATOR CLASS date_minmax_skip_ops
    FOR TYPE date USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY date_minmax_skip_ops USING skip IS
    'order of date';
COMMENT ON OPERATOR CLASS date_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of date: <, <=, =, >=, >';

ALTER OPERATOR FAMILY date_minmax_skip_ops USING skip ADD
    OPERATOR 11 pg_catalog.< (date, timestamp),
    OPERATOR 12 pg_catalog.<= (date, timestamp),
    OPERATOR 1 pg_catalog.= (date, timestamp),
    OPERATOR 13 pg_catalog.>= (date, timestamp),
    OPERATOR 14 pg_catalog.> (date, timestamp),
    OPERATOR 11 pg_catalog.< (date, timestamptz),
    OPERATOR 12 pg_catalog.<= (date, timestamptz),
    OPERATOR 1 pg_catalog.= (date, timestamptz),
    OPERATOR 13 pg_catalog.>= (date, timestamptz),
    OPERATOR 14 pg_catalog.> (date, timestamptz);

CREATE OPERATOR CLASS time_minmax_skip_ops
    FOR TYPE time USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY time_minmax_skip_ops USING skip IS
    'order of time';
COMMENT ON OPERATOR CLASS time_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of time: <, <=, =, >=, >';

CREATE OPERATOR CLASS timetz_minmax_skip_ops
    FOR TYPE timetz USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY timetz_minmax_skip_ops USING skip IS
    'order of time with time zone';
COMMENT ON OPERATOR CLASS timetz_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of time with time zone: <, <=, =, >=, >';

CREATE OPERATOR CLASS timestamp_minmax_skip_ops
    FOR TYPE timestamp USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY timestamp_minmax_skip_ops USING skip IS
    'order of timestamp';
COMMENT ON OPERATOR CLASS timestamp_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of timestamp: <, <=, =, >=, >';

ALTER OPERATOR FAMILY timestamp_minmax_skip_ops USING skip ADD
    OPERATOR 11 pg_catalog.< (timestamp, date),
    OPERATOR 12 pg_catalog.<= (timestamp, date),
    OPERATOR 1 pg_catalog.= (timestamp, date),
    OPERATOR 13 pg_catalog.>= (timestamp, date),
    OPERATOR 14 pg_catalog.> (timestamp, date),
    OPERATOR 11 pg_catalog.< (timestamp, timestamptz),
    OPERATOR 12 pg_catalog.<= (timestamp, timestamptz),
    OPERATOR 1 pg_catalog.= (timestamp, timestamptz),
    OPERATOR 13 pg_catalog.>= (timestamp, timestamptz),
    OPERATOR 14 pg_catalog.> (timestamp, timestamptz);

CREATE OPERATOR CLASS timestamptz_minmax_skip_ops
    FOR TYPE timestamptz USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY timestamptz_minmax_skip_ops USING skip IS
    'order of timestamp with time zone';
COMMENT ON OPERATOR CLASS timestamptz_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of timestamp with time zone: <, <=, =, >=, >';

ALTER OPERATOR FAMILY timestamptz_minmax_skip_ops USING skip ADD
    OPERATOR 11 pg_catalog.< (timestamptz, date),
    OPERATOR 12 pg_catalog.<= (timestamptz, date),
    OPERATOR 1 pg_catalog.= (timestamptz, date),
    OPERATOR 13 pg_catalog.>= (timestamptz, date),
    OPERATOR 14 pg_catalog.> (timestamptz, date),
    OPERATOR 11 pg_catalog.< (timestamptz, timestamp),
    OPERATOR 12 pg_catalog.<= (timestamptz, timestamp),
    OPERATOR 1 pg_catalog.= (timestamptz, timestamp),
    OPERATOR 13 pg_catalog.>= (timestamptz, timestamp),
    OPERATOR 14 pg_catalog.> (timestamptz, timestamp);

CREATE OPERATOR CLASS interval_minmax_skip_ops
    FOR TYPE interval USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY interval_minmax_skip_ops USING skip IS
    'order of interval';
COMMENT ON OPERATOR CLASS interval_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of interval: <, <=, =, >=, >';

CREATE OPERATOR CLASS oid_minmax_skip_ops
    FOR TYPE oid USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY oid_minmax_skip_ops USING skip IS
    'order of oid';
COMMENT ON OPERATOR CLASS oid_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of oid: <, <=, =, >=, >';

CREATE OPERATOR CLASS xid8_minmax_skip_ops
    FOR TYPE xid8 USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY xid8_minmax_skip_ops USING skip IS
    'order of xid8';
COMMENT ON OPERATOR CLASS xid8_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of xid8: <, <=, =, >=, >';

CREATE OPERATOR CLASS pg_lsn_minmax_skip_ops
    FOR TYPE pg_lsn USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY pg_lsn_minmax_skip_ops USING skip IS
    'order of pg_lsn';
COMMENT ON OPERATOR CLASS pg_lsn_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of pg_lsn: <, <=, =, >=, >';

CREATE OPERATOR CLASS bool_minmax_skip_ops
    FOR TYPE bool USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY bool_minmax_skip_ops USING skip IS
    'order of boolean';
COMMENT ON OPERATOR CLASS bool_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of boolean: <, <=, =, >=, >';

CREATE OPERATOR CLASS char_minmax_skip_ops
    FOR TYPE "char" USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY char_minmax_skip_ops USING skip IS
    'order of "char"';
COMMENT ON OPERATOR CLASS char_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of "char": <, <=, =, >=, >';

CREATE OPERATOR CLASS uuid_minmax_skip_ops
    FOR TYPE uuid USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY uuid_minmax_skip_ops USING skip IS
    'order of uuid';
COMMENT ON OPERATOR CLASS uuid_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of uuid: <, <=, =, >=, >';

CREATE OPERATOR CLASS macaddr_minmax_skip_ops
    FOR TYPE macaddr USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY macaddr_minmax_skip_ops USING skip IS
    'order of macaddr';
COMMENT ON OPERATOR CLASS macaddr_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of macaddr: <, <=, =, >=, >';

CREATE OPERATOR CLASS macaddr8_minmax_skip_ops
    FOR TYPE macaddr8 USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY macaddr8_minmax_skip_ops USING skip IS
    'order of macaddr8';
COMMENT ON OPERATOR CLASS macaddr8_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of macaddr8: <, <=, =, >=, >';

CREATE OPERATOR CLASS inet_minmax_skip_ops
    FOR TYPE inet USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY inet_minmax_skip_ops USING skip IS
    'order of inet and cidr';
COMMENT ON OPERATOR CLASS inet_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of inet and cidr: <, <=, =, >=, >';

CREATE OPERATOR CLASS bytea_minmax_skip_ops
    FOR TYPE bytea USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY bytea_minmax_skip_ops USING skip IS
    'order of bytea';
COMMENT ON OPERATOR CLASS bytea_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of bytea: <, <=, =, >=, >';

CREATE OPERATOR CLASS text_minmax_skip_ops
    FOR TYPE text USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY text_minmax_skip_ops USING skip IS
    'order of text and varchar, under collations that compare bytes';
COMMENT ON OPERATOR CLASS text_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of text and varchar, under collations that compare bytes: <, <=, =, >=, >';

CREATE OPERATOR CLASS bpchar_minmax_skip_ops
    FOR TYPE bpchar USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY bpchar_minmax_skip_ops USING skip IS
    'order of character(n), under collations that compare bytes';
COMMENT ON OPERATOR CLASS bpchar_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of character(n), under collations that compare bytes: <, <=, =, >=, >';

CREATE OPERATOR CLASS name_minmax_skip_ops
    FOR TYPE name USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY name_minmax_skip_ops USING skip IS
    'order of name, under collations that compare bytes';
COMMENT ON OPERATOR CLASS name_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of name, under collations that compare bytes: <, <=, =, >=, >';

CREATE OPERATOR CLASS bit_minmax_skip_ops
    FOR TYPE bit USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY bit_minmax_skip_ops USING skip IS
    'order of bit';
COMMENT ON OPERATOR CLASS bit_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of bit: <, <=, =, >=, >';

CREATE OPERATOR CLASS varbit_minmax_skip_ops
    FOR TYPE varbit USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY varbit_minmax_skip_ops USING skip IS
    'order of bit varying';
COMMENT ON OPERATOR CLASS varbit_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of bit varying: <, <=, =, >=, >';

CREATE OPERATOR CLASS enum_minmax_skip_ops
    FOR TYPE anyenum USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY enum_minmax_skip_ops USING skip IS
    'order of enums';
COMMENT ON OPERATOR CLASS enum_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of enums: <, <=, =, >=, >';

CREATE OPERATOR CLASS array_minmax_skip_ops
    FOR TYPE anyarray USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY array_minmax_skip_ops USING skip IS
    'order of arrays whose elements have bounds';
COMMENT ON OPERATOR CLASS array_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of arrays whose elements have bounds: <, <=, =, >=, >';

CREATE OPERATOR CLASS range_minmax_skip_ops
    FOR TYPE anyrange USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY range_minmax_skip_ops USING skip IS
    'order of ranges whose bounds have an order';
COMMENT ON OPERATOR CLASS range_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of ranges whose bounds have an order: <, <=, =, >=, >';

CREATE OPERATOR CLASS multirange_minmax_skip_ops
    FOR TYPE anymultirange USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY multirange_minmax_skip_ops USING skip IS
    'order of multiranges whose bounds have an order';
COMMENT ON OPERATOR CLASS multirange_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of multiranges whose bounds have an order: <, <=, =, >=, >';

CREATE OPERATOR CLASS jsonb_minmax_skip_ops
    FOR TYPE jsonb USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY jsonb_minmax_skip_ops USING skip IS
    'order of jsonb';
COMMENT ON OPERATOR CLASS jsonb_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of jsonb: <, <=, =, >=, >';

CREATE OPERATOR CLASS tid_minmax_skip_ops
    FOR TYPE tid USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY tid_minmax_skip_ops USING skip IS
    'order of tid';
COMMENT ON OPERATOR CLASS tid_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of tid: <, <=, =, >=, >';

CREATE OPERATOR CLASS oidvector_minmax_skip_ops
    FOR TYPE oidvector USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY oidvector_minmax_skip_ops USING skip IS
    'order of oidvector';
COMMENT ON OPERATOR CLASS oidvector_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of oidvector: <, <=, =, >=, >';

CREATE OPERATOR CLASS tsvector_minmax_skip_ops
    FOR TYPE tsvector USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY tsvector_minmax_skip_ops USING skip IS
    'order of tsvector';
COMMENT ON OPERATOR CLASS tsvector_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of tsvector: <, <=, =, >=, >';

CREATE OPERATOR CLASS tsquery_minmax_skip_ops
    FOR TYPE tsquery USING skip AS
    OPERATOR 11 pg_catalog.<,
    OPERATOR 12 pg_catalog.<=,
    OPERATOR 1 pg_catalog.=,
    OPERATOR 13 pg_catalog.>=,
    OPERATOR 14 pg_catalog.>,
    FUNCTION 3 skip_minmax_keys(internal);
COMMENT ON OPERATOR FAMILY tsquery_minmax_skip_ops USING skip IS
    'order of tsquery';
COMMENT ON OPERATOR CLASS tsquery_minmax_skip_ops USING skip IS
    'skip operator class of the bounds of tsquery: <, <=, =, >=, >';
