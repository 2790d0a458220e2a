//! The oracle: what an index scan finds must be what a plain scan finds.
//!
//! The plain scan's predicate is wrapped in `(…) IS TRUE`, which no index can serve and no rewriting undoes, and all
//! index scans are switched off for it besides: the two answers share nothing but the table.
use crate::session::{Row, Session, describe};
use postgres::SimpleQueryMessage;

const WITH_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = on; SET enable_indexscan = off;
    SET enable_indexonlyscan = off";
const WITHOUT_INDEX: &str =
    "SET enable_seqscan = on; SET enable_bitmapscan = off; SET enable_indexscan = off;
    SET enable_indexonlyscan = off";
const RESET: &str = "RESET enable_seqscan; RESET enable_bitmapscan; RESET enable_indexscan;
    RESET enable_indexonlyscan; RESET plan_cache_mode";

/// How the predicate reaches the planner.
#[derive(Clone, Debug)]
pub enum Form {
    /// As it stands.
    Plain,
    /// `predicate` has parameters `$1`, …: their types, their constants, and `auto`, `force_custom_plan` or
    /// `force_generic_plan`.
    Prepared(Vec<String>, Vec<String>, &'static str),
}

/// One question asked both ways.
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

/// Asks both ways about the rows of `table`, told apart by its column `id`: what differs, or None if all is well.
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
    let literal = substituted(question);
    let sql = format!("{WITH_INDEX}; {with}; {WITHOUT_INDEX}; {select} ({literal}) IS TRUE; {RESET}");
    let results = match batches(session, &sql) {
        Ok(results) => results,
        Err(error) => return Some(format!("{}\nquestion: {question:?}", describe(&error))),
    };
    let [plan, indexed, plain] = &results[..] else {
        return Some(format!("{} results of {sql}", results.len()));
    };
    if indexed != plain {
        return Some(format!(
            "{table}: the index gives {}\na plain scan   {}\nquestion: {question:?}\nplan: {}",
            text(indexed),
            text(plain),
            text(plan)
        ));
    }
    let unused = question.index.as_ref().filter(|index| !text(plan).contains(index.as_str()))?;
    // PostgreSQL itself keeps a new index from transactions older than a broken HOT chain that it met.
    let young =
        session.one(&format!("SELECT indcheckxmin FROM pg_index WHERE indexrelid = '{unused}'::regclass"));
    let problem = || format!("{unused} is not used\nquestion: {question:?}\nplan: {}", text(plan));
    (young == "f").then(problem)
}

/// Asks both ways and fails if the answers differ or the index was not used where it must be.
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

/// The predicate with its parameters replaced by their constants.
fn substituted(question: &Question) -> String {
    let mut text = question.predicate.clone();
    if let Form::Prepared(_, values, _) = &question.form {
        for (number, value) in values.iter().enumerate().rev() {
            text = text.replace(&format!("${}", number + 1), value);
        }
    }
    text
}

/// The rows of each statement that returns rows.
fn batches(session: &mut Session, sql: &str) -> Result<Vec<Vec<Row>>, postgres::Error> {
    let mut all: Vec<Vec<Row>> = Vec::new();
    for message in session.0.simple_query(sql)? {
        match message {
            SimpleQueryMessage::RowDescription(_) => all.push(Vec::new()),
            SimpleQueryMessage::Row(row) => {
                let row = (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect();
                all.last_mut().expect("rows come after their description").push(row);
            }
            _ => {}
        }
    }
    Ok(all)
}

fn text(rows: &[Row]) -> String {
    rows.iter().flatten().flatten().map(String::as_str).collect::<Vec<_>>().join("\n")
}
