//! A statement run by a Skip Index Scan and by a plan that can use no index: both must do the same.
//!
//! Other than in `compare` the statement is the same on both sides, so that it can be anything: a join, an UPDATE, a
//! cursor. What the planner may use is set around it. Each side runs in a transaction that is rolled back.
use crate::session::{Row, Session, describe, lines};

/// Settings that leave the planner one way to go.
#[derive(Clone, Debug)]
pub struct Way(Vec<(&'static str, &'static str)>);

impl Way {
    /// A Skip Index Scan where there can be one, else a sequential scan.
    pub fn skip_scan() -> Self {
        Self(vec![
            ("pg_skip.enable_scan", "on"),
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_indexscan", "off"),
            ("enable_indexonlyscan", "off"),
            ("max_parallel_workers_per_gather", "0"),
        ])
    }

    /// Nothing but sequential scans.
    pub fn plain() -> Self {
        Self::skip_scan().with("pg_skip.enable_scan", "off").with("enable_seqscan", "on")
    }

    /// A bitmap scan where there can be one, else a sequential scan.
    pub fn bitmap() -> Self {
        Self::plain().with("enable_seqscan", "off").with("enable_bitmapscan", "on")
    }

    /// The same with one more setting, or another value of one.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.0.retain(|&(known, _)| known != name);
        self.0.push((name, value));
        self
    }

    /// By parallel plans, however small the table.
    #[must_use]
    pub fn parallel(self) -> Self {
        self.with("max_parallel_workers_per_gather", "2")
            .with("min_parallel_table_scan_size", "0")
            .with("parallel_setup_cost", "0")
            .with("parallel_tuple_cost", "0")
    }

    /// By nested loops wherever there is a join.
    #[must_use]
    pub fn nested_loop(self) -> Self {
        self.with("enable_hashjoin", "off").with("enable_mergejoin", "off").with("enable_material", "off")
    }

    /// Whether bitmap scans are switched off.
    fn is_without_bitmaps(&self) -> bool {
        self.0.contains(&("enable_bitmapscan", "off"))
    }

    /// The statements that set it, for the transaction.
    pub fn local(&self) -> String {
        self.0.iter().map(|(name, value)| format!("SET LOCAL {name} = '{value}'; ")).collect()
    }

    /// Sets it for the session.
    #[track_caller]
    pub fn set(&self, session: &mut Session) {
        let sql: String = self.0.iter().map(|(name, value)| format!("SET {name} = '{value}'; ")).collect();
        session.run(&sql);
    }
}

/// Whether a Skip Index Scan is in the plan.
pub fn skips(plan: &str) -> bool {
    plan.contains("Custom Scan (Skip Index Scan)")
}

/// Whether a whole table is read in the plan.
pub fn reads_all(plan: &str) -> bool {
    plan.contains("Seq Scan")
}

/// What is run both ways.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The statement that is compared.
    pub statement: String,
    /// Queries after it, in the same transaction and by the same way, that are compared too.
    pub after: String,
    /// The rows have an order of their own.
    pub ordered: bool,
    /// No table may be read but by a Skip Index Scan, or by a bitmap scan if the way has any.
    pub must: bool,
}

impl Case {
    /// A query for which the Skip Index Scan must be used.
    pub fn using(statement: impl Into<String>) -> Self {
        Self { statement: statement.into(), must: true, ..Self::default() }
    }

    /// A query that may use it.
    pub fn any(statement: impl Into<String>) -> Self {
        Self { statement: statement.into(), ..Self::default() }
    }
}

/// Runs a case both ways. Returns whether a Skip Index Scan was used, or what is wrong.
pub fn compare(session: &mut Session, way: &Way, case: &Case) -> Result<bool, String> {
    compare_in(session, TRANSACTION, way, case)
}

/// What a case runs in.
type Frame = [&'static str; 2];
const TRANSACTION: Frame = ["BEGIN", "ROLLBACK"];
const SUBTRANSACTION: Frame = ["SAVEPOINT asked", "ROLLBACK TO asked; RELEASE asked"];

fn compare_in(session: &mut Session, frame: Frame, way: &Way, case: &Case) -> Result<bool, String> {
    let skip = answers(session, frame, way, case);
    let plain = answers(session, frame, &Way::plain(), case);
    let told = |problem: String| {
        let problem: String = problem.chars().take(6000).collect();
        format!("{problem}\nway: {}\n{}; {}", way.local(), case.statement, case.after)
    };
    let (skip, plain) = match (skip, plain) {
        (Ok(skip), Ok(plain)) => (skip, plain),
        (Err(error), _) => return Err(told(error)),
        (_, Err(error)) => return Err(told(format!("without the Skip Index Scan: {error}"))),
    };
    let plan = lines(&skip[0]);
    if skip[1..] != plain[1..] {
        let rows = |answers: &[Vec<Row>]| {
            let text: Vec<_> = answers.iter().map(|rows| format!("{rows:?}")).collect();
            text.join("\n").chars().take(2000).collect::<String>()
        };
        return Err(told(format!(
            "the Skip Index Scan gives {}\na plain scan    {}\nplan: {plan}",
            rows(&skip[1..]),
            rows(&plain[1..])
        )));
    }
    let has_bitmap = way.is_without_bitmaps() && plan.contains("Bitmap Heap Scan");
    if case.must && (reads_all(&plan) || has_bitmap) {
        return Err(told(format!("a Skip Index Scan is possible but not used\nplan: {plan}")));
    }
    Ok(skips(&plan))
}

/// The plan and the answers, in order.
fn answers(
    session: &mut Session,
    [begin, end]: Frame,
    way: &Way,
    case: &Case,
) -> Result<Vec<Vec<Row>>, String> {
    let Case { statement, after, .. } = case;
    // Plans that functions keep know nothing of other settings.
    let sql = format!(
        "{begin}; DISCARD PLANS; {} EXPLAIN (COSTS off) {statement}; {statement}; {after}; {end}",
        way.local()
    );
    let mut answers = session.try_batches(&sql).map_err(|error| {
        session.run(end);
        describe(&error)
    })?;
    if !case.ordered {
        answers[1..].iter_mut().for_each(|rows| rows.sort());
    }
    Ok(answers)
}

/// Runs a case both ways and fails if they differ. Returns whether a Skip Index Scan was used.
#[track_caller]
pub fn same(session: &mut Session, way: &Way, case: &Case) -> bool {
    compare(session, way, case).unwrap_or_else(|problem| panic!("{problem}"))
}

/// The same inside the transaction that is open, and in its snapshot if it has one.
#[track_caller]
pub fn same_within(session: &mut Session, way: &Way, case: &Case) -> bool {
    compare_in(session, SUBTRANSACTION, way, case).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Runs a statement by Skip Index Scans alone. Returns its rows, and its plan from before that.
#[track_caller]
pub fn by_skip_scan(session: &mut Session, statement: &str) -> (Vec<Row>, String) {
    let case = Case { ordered: true, ..Case::using(statement) };
    let mut answers =
        answers(session, TRANSACTION, &Way::skip_scan(), &case).unwrap_or_else(|problem| panic!("{problem}"));
    let plan = lines(&answers[0]);
    assert!(skips(&plan), "no Skip Index Scan for {statement}:\n{plan}");
    (answers.remove(1), plan)
}
