/*
 * Aggregates as a distributed engine computes them, for the tests of what pg_skip's aggregates must stand.
 *
 * engine_partial(aggregate, value, ...) computes a part of an aggregate and returns its serialized state.
 * engine_partial_typed(aggregate, value) does so, but tells the step function the type of its argument, as the server does.
 * engine_combine(aggregate, state) combines such states and returns the final value.
 *
 * What is unlike the server's own executor:
 * - Functions are looked up by OID for each row, in memory that is reset after the row.
 * - They are called without an expression: nothing says which types their arguments have but the function itself.
 * - The node that they are called in is that of the aggregate around them.
 * - Bytes that a state was deserialized from are gone before it is combined.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/syscache.h"

PG_MODULE_MAGIC;

typedef struct Part
{
	Oid			aggregate;
	Datum		state;
	bool		is_null;
} Part;

/* The catalog's row of an aggregate, copied. */
static FormData_pg_aggregate
form_of(Oid aggregate)
{
	FormData_pg_aggregate form;
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "%u is no aggregate", aggregate);
	form = *(Form_pg_aggregate) GETSTRUCT(tuple);
	ReleaseSysCache(tuple);
	return form;
}

/* Calls a function that is looked up for this one call, with an expression that says the type of its second argument if known. */
static Datum
call(FunctionCallInfo outer, Oid function, Oid type, int count, NullableDatum *arguments, bool *is_null)
{
	LOCAL_FCINFO(inner, FUNC_MAX_ARGS);
	FmgrInfo   *look_up = palloc(sizeof(FmgrInfo));
	Datum		result;

	fmgr_info(function, look_up);
	if (OidIsValid(type))
	{
		List	   *types = list_make2(makeNullConst(INTERNALOID, -1, InvalidOid), makeNullConst(type, -1, InvalidOid));

		fmgr_info_set_expr((Node *) makeFuncExpr(function, INTERNALOID, types, InvalidOid, outer->fncollation,
												 COERCE_EXPLICIT_CALL), look_up);
	}
	for (int i = 0; i < count; i++)
	{
		if (look_up->fn_strict && arguments[i].isnull)
		{
			*is_null = true;
			return (Datum) 0;
		}
	}
	InitFunctionCallInfoData(*inner, look_up, count, outer->fncollation, outer->context, NULL);
	for (int i = 0; i < count; i++)
		inner->args[i] = arguments[i];
	result = FunctionCallInvoke(inner);
	*is_null = inner->isnull;
	return result;
}

/* The state so far: argument 0, or a new one for the aggregate that argument 1 names. */
static Part *
part_of(FunctionCallInfo fcinfo)
{
	MemoryContext group;
	Part	   *part;

	if (!AggCheckCallContext(fcinfo, &group))
		elog(ERROR, "called outside of an aggregate");
	if (!PG_ARGISNULL(0))
		return (Part *) PG_GETARG_POINTER(0);
	part = MemoryContextAllocZero(group, sizeof(Part));
	part->aggregate = PG_GETARG_OID(1);
	part->is_null = true;
	return part;
}

static Datum
step(FunctionCallInfo fcinfo, Oid type)
{
	Part	   *part = part_of(fcinfo);
	NullableDatum arguments[FUNC_MAX_ARGS];

	arguments[0].value = part->state;
	arguments[0].isnull = part->is_null;
	for (int i = 2; i < PG_NARGS(); i++)
		arguments[i - 1] = fcinfo->args[i];
	part->state = call(fcinfo, form_of(part->aggregate).aggtransfn, type, PG_NARGS() - 1, arguments, &part->is_null);
	PG_RETURN_POINTER(part);
}

PG_FUNCTION_INFO_V1(engine_partial_step);
Datum
engine_partial_step(PG_FUNCTION_ARGS)
{
	return step(fcinfo, InvalidOid);
}

PG_FUNCTION_INFO_V1(engine_partial_typed_step);
Datum
engine_partial_typed_step(PG_FUNCTION_ARGS)
{
	return step(fcinfo, get_fn_expr_argtype(fcinfo->flinfo, 2));
}

PG_FUNCTION_INFO_V1(engine_partial_final);
Datum
engine_partial_final(PG_FUNCTION_ARGS)
{
	Part	   *part = PG_ARGISNULL(0) ? NULL : (Part *) PG_GETARG_POINTER(0);
	NullableDatum state;
	Datum		bytes;
	bool		is_null;

	if (part == NULL || part->is_null)
		PG_RETURN_NULL();
	state.value = part->state;
	state.isnull = false;
	bytes = call(fcinfo, form_of(part->aggregate).aggserialfn, InvalidOid, 1, &state, &is_null);
	if (is_null)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(bytes);
}

PG_FUNCTION_INFO_V1(engine_combine_step);
Datum
engine_combine_step(PG_FUNCTION_ARGS)
{
	Part	   *part = part_of(fcinfo);
	FormData_pg_aggregate form = form_of(part->aggregate);
	NullableDatum states[2];
	bytea	   *bytes;

	if (PG_ARGISNULL(2))
		PG_RETURN_POINTER(part);
	bytes = PG_GETARG_BYTEA_P_COPY(2);
	states[0].value = PointerGetDatum(bytes);
	states[0].isnull = false;
	states[1].value = (Datum) 0;
	states[1].isnull = false;
	states[1].value = call(fcinfo, form.aggdeserialfn, InvalidOid, 2, states, &states[1].isnull);
	memset(bytes, 0x7f, VARSIZE(bytes));
	pfree(bytes);
	states[0].value = part->state;
	states[0].isnull = part->is_null;
	part->state = call(fcinfo, form.aggcombinefn, InvalidOid, 2, states, &part->is_null);
	PG_RETURN_POINTER(part);
}

PG_FUNCTION_INFO_V1(engine_combine_final);
Datum
engine_combine_final(PG_FUNCTION_ARGS)
{
	Part	   *part = PG_ARGISNULL(0) ? NULL : (Part *) PG_GETARG_POINTER(0);
	NullableDatum state;
	Datum		result;
	bool		is_null;

	if (part == NULL || part->is_null)
		PG_RETURN_NULL();
	state.value = part->state;
	state.isnull = false;
	result = call(fcinfo, form_of(part->aggregate).aggfinalfn, InvalidOid, 1, &state, &is_null);
	if (is_null)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}
