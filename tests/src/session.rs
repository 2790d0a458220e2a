//! A connection whose every failure says which statement failed, and how, in full.
use postgres::error::{DbError, ErrorPosition};
use postgres::{Client, SimpleQueryMessage};

/// One row as text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// A connection speaking the simple protocol: statements in, text out.
pub struct Session(pub Client);

impl Session {
    /// Runs one statement, or several separated by semicolons (then in one transaction, as the protocol has it).
    #[track_caller]
    pub fn run(&mut self, sql: &str) {
        if let Err(error) = self.0.batch_execute(sql) {
            fail(sql, &error)
        }
    }

    /// The rows of a query.
    #[track_caller]
    pub fn rows(&mut self, sql: &str) -> Vec<Row> {
        self.try_rows(sql).unwrap_or_else(|error| fail(sql, &error))
    }

    /// The rows of a query, or its error.
    pub fn try_rows(&mut self, sql: &str) -> Result<Vec<Row>, postgres::Error> {
        Ok(self.try_batches(sql)?.concat())
    }

    /// The rows of each statement of several that returns rows, or the error of the first that fails.
    pub fn try_batches(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, postgres::Error> {
        let mut all: Vec<Vec<Row>> = Vec::new();
        for message in self.0.simple_query(sql)? {
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

    /// The first column of a query; NULL is `"NULL"`.
    #[track_caller]
    pub fn column(&mut self, sql: &str) -> Vec<String> {
        let first = |row: Row| row.into_iter().next().flatten().unwrap_or_else(|| "NULL".into());
        self.rows(sql).into_iter().map(first).collect()
    }

    /// The one value of a query of one row.
    #[track_caller]
    pub fn one(&mut self, sql: &str) -> String {
        let mut column = self.column(sql);
        assert_eq!(column.len(), 1, "one row expected of: {sql}");
        column.remove(0)
    }

    /// The one value of a query of one row, as a number.
    #[track_caller]
    pub fn number(&mut self, sql: &str) -> f64 {
        let text = self.one(sql);
        text.parse().unwrap_or_else(|_| panic!("a number expected of: {sql}\ngot {text:?}"))
    }

    /// The plan of a query, one string.
    #[track_caller]
    pub fn plan(&mut self, sql: &str) -> String {
        self.column(&format!("EXPLAIN {sql}")).join("\n")
    }

    /// The error of a statement that must fail.
    #[track_caller]
    pub fn error(&mut self, sql: &str) -> DbError {
        match self.0.simple_query(sql) {
            Ok(_) => panic!("this should have failed: {sql}"),
            Err(error) => error.as_db_error().unwrap_or_else(|| fail(sql, &error)).clone(),
        }
    }

    /// Copies `text` (COPY's text format) into a table.
    #[track_caller]
    pub fn copy(&mut self, sql: &str, text: &mut dyn std::io::Read) -> u64 {
        let result = (|| -> Result<u64, postgres::Error> {
            let mut writer = self.0.copy_in(sql)?;
            std::io::copy(text, &mut writer).expect("copying into the server");
            writer.finish()
        })();
        result.unwrap_or_else(|error| fail(sql, &error))
    }
}

/// Every field of an error, but where in a program it was raised.
pub fn fields(error: &DbError) -> String {
    let text =
        |name: &str, part: Option<&str>| part.map(|part| format!("\n{name}: {part}")).unwrap_or_default();
    let position = error.position().map(|position| match position {
        ErrorPosition::Original(at) => format!("{at}"),
        ErrorPosition::Internal { position, query } => format!("{position} of {query}"),
    });
    let mut all = format!("{} {}: {}", error.severity(), error.code().code(), error.message());
    for (name, part) in [
        ("DETAIL", error.detail()),
        ("HINT", error.hint()),
        ("POSITION", position.as_deref()),
        ("CONTEXT", error.where_()),
        ("SCHEMA NAME", error.schema()),
        ("TABLE NAME", error.table()),
        ("COLUMN NAME", error.column()),
        ("DATATYPE NAME", error.datatype()),
        ("CONSTRAINT NAME", error.constraint()),
        ("ROUTINE", error.routine()),
    ] {
        all.push_str(&text(name, part));
    }
    all
}

/// All that the server said of an error.
pub fn describe(error: &postgres::Error) -> String {
    let Some(db) = error.as_db_error() else { return format!("{error:?}") };
    let mut text = format!("{} {}: {}", db.severity(), db.code().code(), db.message());
    for (name, part) in [("DETAIL", db.detail()), ("HINT", db.hint()), ("CONTEXT", db.where_())] {
        if let Some(part) = part {
            text.push_str(&format!("\n{name}: {part}"));
        }
    }
    text
}

#[track_caller]
fn fail(sql: &str, error: &postgres::Error) -> ! {
    let shown: String = sql.chars().take(2000).collect();
    panic!("{}\nstatement: {shown}", describe(error))
}

/// All values of some rows, one a line.
pub fn lines(rows: &[Row]) -> String {
    rows.iter().flatten().flatten().map(String::as_str).collect::<Vec<_>>().join("\n")
}
