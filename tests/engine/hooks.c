/*
 * Hooks that are there before those of pg_skip. The setting hooks.raise_in names the one that raises an error, which has
 * all fields that an error can have.
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "utils/guc.h"
#include "utils/selfuncs.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static char *raise_in = NULL;
static planner_hook_type next_planner = NULL;

static void
context(void *hook)
{
	errcontext("in the hook %s", (char *) hook);
}

static void
maybe_raise(char *hook)
{
	ErrorContextCallback callback = {.callback = context, .arg = hook, .previous = error_context_stack};

	if (raise_in == NULL || strcmp(raise_in, hook) != 0)
		return;
	error_context_stack = &callback;
	ereport(ERROR,
			(errcode(ERRCODE_TOO_MANY_COLUMNS),
			 errmsg("no good: %s", hook),
			 errdetail("a detail"),
			 errhint("a hint"),
			 internalerrquery("a query"),
			 internalerrposition(3),
			 err_generic_string(PG_DIAG_SCHEMA_NAME, "a schema"),
			 err_generic_string(PG_DIAG_TABLE_NAME, "a table"),
			 err_generic_string(PG_DIAG_COLUMN_NAME, "a column"),
			 err_generic_string(PG_DIAG_DATATYPE_NAME, "a type"),
			 err_generic_string(PG_DIAG_CONSTRAINT_NAME, "a constraint")));
}

static PlannedStmt *
planner_of_hooks(Query *query, const char *text, int options, ParamListInfo parameters)
{
	maybe_raise("planner");
	return next_planner ? next_planner(query, text, options, parameters)
		: standard_planner(query, text, options, parameters);
}

static void
paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	maybe_raise("paths");
}

static void
relation_info(PlannerInfo *root, Oid relation, bool inherits, RelOptInfo *rel)
{
	maybe_raise("relation_info");
}

static bool
relation_stats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber column, VariableStatData *data)
{
	maybe_raise("relation_stats");
	return false;
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int part, void *argument)
{
	maybe_raise("object_access");
}

void
_PG_init(void)
{
	DefineCustomStringVariable("hooks.raise_in", "The hook that raises an error.", NULL, &raise_in, "",
							   PGC_USERSET, 0, NULL, NULL, NULL);
	next_planner = planner_hook;
	planner_hook = planner_of_hooks;
	set_rel_pathlist_hook = paths;
	get_relation_info_hook = relation_info;
	get_relation_stats_hook = relation_stats;
	object_access_hook = object_access;
}
