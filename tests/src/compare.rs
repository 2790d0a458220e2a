//! The oracle: what an index finds, by a Skip Index Scan and by a bitmap scan, must be what a plain scan finds.
//!
//! The plain scan's predicate is wrapped in `(…) IS TRUE`, which no index can serve and no rewriting undoes, and all
//! index scans are switched off for it besides: the answers share nothing but the table.
use crate::session::{Session, describe, lines};

const BY_SKIP_SCAN: &str =
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off;
    SET enable_indexonlyscan = off; SET pg_skip.enable_scan = on";
const BY_BITMAP: &str = "SET enable_bitmapscan = on; SET pg_skip.enable_scan = off";
const WITHOUT_INDEX: &str = "SET enable_seqscan = on; SET enable_bitmapscan = off";
const RESET: &str = "RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexscan;
    RESET enable_indexonlyscan; RESET pg_skip.enable_scan; RESET plan_cache_mode";

/// How the predicate reaches the planner.
#[derive(Clone, Debug)]
pub enum Form {
    /// As it stands.
    Plain,
    /// `predicate` has parameters `$1`, …: their types, their constants, and `auto`, `force_custom_plan` or
    /// `force_generic_plan`.
    Prepared(Vec<String>, Vec<String>, &'static str),
}

/// One question asked with the index and without.
#[derive(Clone, Debug)]
pub struct Question {
    /// The condition, over the columns of the table.
    pub predicate: String,
    /// How it is put.
    pub form: Form,
    /// The index that the plan must name, where that is certain.
    pub index: Option<String>,
}

impl Question {
    /// A predicate as it stands, for which the index must be used.
    pub fn using(index: &str, predicate: impl Into<String>) -> Self {
        Self { predicate: predicate.into(), form: Form::Plain, index: Some(index.into()) }
    }

    /// A predicate as it stands, by whatever plan.
    pub fn any(predicate: impl Into<String>) -> Self {
        Self { predicate: predicate.into(), form: Form::Plain, index: None }
    }
}

/// Asks with the index and without about the rows of `table`, told apart by its column `id`. Returns what differs, or
/// None if all is well.
pub fn difference(session: &mut Session, table: &str, question: &Question) -> Option<String> {
    // Long values make long messages; their beginning says enough, as the case can be played again.
    put(session, table, question).map(|problem| problem.chars().take(6000).collect())
}

fn put(session: &mut Session, table: &str, question: &Question) -> Option<String> {
    let select = format!("SELECT coalesce(array_agg(id ORDER BY id)::text, '{{}}') FROM {table} WHERE ");
    let predicate = &question.predicate;
    let with = match &question.form {
        Form::Plain => format!("EXPLAIN {select} {predicate}; {select} {predicate}"),
        Form::Prepared(types, values, mode) => {
            let (types, values) = (types.join(", "), values.join(", "));
            format!(
                "SET plan_cache_mode = {mode}; PREPARE question({types}) AS {select} {predicate};
                 EXPLAIN EXECUTE question({values}); EXECUTE question({values}); DEALLOCATE question"
            )
        }
    };
    let literal = match &question.form {
        Form::Plain => predicate.clone(),
        Form::Prepared(_, values, _) => substituted(predicate, values),
    };
    let sql = format!(
        "{BY_SKIP_SCAN}; {with}; {BY_BITMAP}; {with}; {WITHOUT_INDEX}; {select} ({literal}) IS TRUE; {RESET}"
    );
    let results = match session.try_batches(&sql) {
        Ok(results) => results,
        Err(error) => return Some(format!("{}\nquestion: {question:?}", describe(&error))),
    };
    let [skip_plan, skip, bitmap_plan, bitmap, plain] = &results[..] else {
        return Some(format!("{} results of {sql}", results.len()));
    };
    for (plan, indexed) in [(skip_plan, skip), (bitmap_plan, bitmap)] {
        if indexed != plain {
            return Some(format!(
                "{table}: the index gives {}\na plain scan   {}\nquestion: {question:?}\nplan: {}",
                lines(indexed),
                lines(plain),
                lines(plan)
            ));
        }
    }
    let index = question.index.as_ref()?;
    let without = [skip_plan, bitmap_plan].into_iter().find(|plan| !lines(plan).contains(index.as_str()))?;
    // PostgreSQL itself keeps a new index from transactions older than a broken HOT chain that it met.
    let young =
        session.one(&format!("SELECT indcheckxmin FROM pg_index WHERE indexrelid = '{index}'::regclass"));
    let problem = || format!("{index} is not used\nquestion: {question:?}\nplan: {}", lines(without));
    (young == "f").then(problem)
}

/// Asks with the index and without, and fails if the answers differ or the index was not used where it must be.
#[track_caller]
pub fn same(session: &mut Session, table: &str, question: &Question) {
    if let Some(problem) = difference(session, table, question) {
        panic!("{problem}")
    }
}

/// Fails if the verifier finds a fault in an index.
#[track_caller]
pub fn sound(session: &mut Session, index: &str) {
    let problems = session.rows(&format!("SELECT block, problem FROM skip_index_verify('{index}') LIMIT 20"));
    assert!(problems.is_empty(), "skip_index_verify('{index}') reports {problems:?}");
}

/// A statement with its parameters `$1`, … replaced by their constants.
pub fn substituted(statement: &str, values: &[String]) -> String {
    let mut text = statement.to_owned();
    for (number, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!("${}", number + 1), value);
    }
    text
}
