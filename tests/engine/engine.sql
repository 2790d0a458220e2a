-- The functions of engine.c; ENGINE stands for the library's path.

CREATE FUNCTION engine_partial_step(internal, oid, anyelement) RETURNS internal LANGUAGE c AS 'ENGINE';
CREATE FUNCTION engine_partial_step(internal, oid, anyelement, double precision) RETURNS internal
    LANGUAGE c AS 'ENGINE';
CREATE FUNCTION engine_partial_step(internal, oid, anyelement, double precision, bigint) RETURNS internal
    LANGUAGE c AS 'ENGINE';
CREATE FUNCTION engine_partial_step(internal, oid, anyelement, double precision, bigint, text) RETURNS internal
    LANGUAGE c AS 'ENGINE';
CREATE FUNCTION engine_partial_final(internal) RETURNS bytea LANGUAGE c AS 'ENGINE';
CREATE AGGREGATE engine_partial(oid, anyelement) (
    SFUNC = engine_partial_step, STYPE = internal, FINALFUNC = engine_partial_final);
CREATE AGGREGATE engine_partial(oid, anyelement, double precision) (
    SFUNC = engine_partial_step, STYPE = internal, FINALFUNC = engine_partial_final);
CREATE AGGREGATE engine_partial(oid, anyelement, double precision, bigint) (
    SFUNC = engine_partial_step, STYPE = internal, FINALFUNC = engine_partial_final);
CREATE AGGREGATE engine_partial(oid, anyelement, double precision, bigint, text) (
    SFUNC = engine_partial_step, STYPE = internal, FINALFUNC = engine_partial_final);
CREATE FUNCTION engine_partial_typed_step(internal, oid, anyelement) RETURNS internal LANGUAGE c AS 'ENGINE';
CREATE AGGREGATE engine_partial_typed(oid, anyelement) (
    SFUNC = engine_partial_typed_step, STYPE = internal, FINALFUNC = engine_partial_final);
CREATE FUNCTION engine_combine_step(internal, oid, bytea) RETURNS internal LANGUAGE c AS 'ENGINE';
CREATE FUNCTION engine_combine_final(internal) RETURNS bloom LANGUAGE c AS 'ENGINE';
CREATE AGGREGATE engine_combine(oid, bytea) (
    SFUNC = engine_combine_step, STYPE = internal, FINALFUNC = engine_combine_final);
