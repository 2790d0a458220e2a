//! A random table over random types, with random skip indexes, and the random things done to it.
use fastrand::Rng;
use pg_skip_tests::compare::sound;
use pg_skip_tests::session::Session;
use pg_skip_tests::values::{TYPES, Type, Value, copied};

/// A column and the values it was given.
pub struct Column {
    pub name: String,
    pub kind: &'static Type,
    /// What its rows hold, for questions that find something.
    pub pool: Vec<Value>,
    /// An index without a predicate on it.
    pub index: Option<String>,
}

/// A table under test.
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    pub rng: Rng,
    /// All statements so far: with them a failure can be played again.
    pub log: Vec<String>,
    indexes: usize,
    /// Only its own session sees it.
    pub temporary: bool,
    /// A transaction is open.
    pub open: bool,
}

impl Table {
    /// Makes a table of 1 to 5 columns, its indexes before or after the first rows.
    pub fn create(session: &mut Session, name: &str, mut rng: Rng) -> Self {
        let count = rng.usize(1..=5);
        let columns = (0..count).map(|number| Column::random(format!("c{number}"), &mut rng)).collect();
        let name = name.to_owned();
        let mut table =
            Self { name, columns, rng, log: Vec::new(), indexes: 0, temporary: false, open: false };
        let columns: Vec<_> = table.columns.iter().map(|c| format!("{} {}", c.name, c.kind.name)).collect();
        let persistence = table.pick(&["", "", "", "UNLOGGED", "TEMP"]);
        table.temporary = persistence == "TEMP";
        // Rows are wide so that few of them make many ranges; room on the page lets updates stay there (HOT).
        let (filler, fillfactor) = (table.pick(&["40", "300", "900"]), table.pick(&["40", "70", "100"]));
        table.run(
            session,
            &format!(
                "CREATE {persistence} TABLE {} (id int GENERATED ALWAYS AS IDENTITY, {},
                    filler text DEFAULT repeat('x', {filler})) WITH (fillfactor = {fillfactor})",
                table.name,
                columns.join(", ")
            ),
        );
        if table.rng.bool() {
            table.insert(session);
        }
        table.create_indexes(session);
        table
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        self.rng.choice(from).expect("something to pick").clone()
    }

    /// Runs and remembers a statement.
    #[track_caller]
    pub fn run(&mut self, session: &mut Session, sql: &str) {
        self.log.push(sql.into());
        session.run(sql);
    }

    fn create_indexes(&mut self, session: &mut Session) {
        let mut columns: Vec<usize> = (0..self.columns.len()).collect();
        self.rng.shuffle(&mut columns);
        // Some columns stay without an index; the others have one each, or one together.
        columns.truncate(columns.len().max(2) - usize::from(self.rng.u32(..4) == 0));
        if self.rng.bool() {
            self.create_index(session, &columns);
        } else {
            for column in columns {
                self.create_index(session, &[column]);
            }
        }
    }

    fn create_index(&mut self, session: &mut Session, columns: &[usize]) {
        let index = format!("{}_skip{}", self.name, self.indexes);
        self.indexes += 1;
        let partial = self.rng.u32(..8) == 0;
        let mut elements = Vec::new();
        for &column in columns {
            let Column { name, kind, .. } = &mut self.columns[column];
            let mut element = name.clone();
            // A rate of the column's own needs its operator class named.
            if kind.cast == kind.name && ["int4", "int8", "uuid", "text", "numeric"].contains(&kind.cast) {
                match self.rng.u32(..4) {
                    0 => element += &format!(" {}_skip_ops (false_positive_rate = 0.003)", kind.cast),
                    1 => element += &format!(" {}_skip_ops", kind.cast),
                    _ => {}
                }
            }
            elements.push(element);
            if !partial {
                self.columns[column].index = Some(index.clone());
            }
        }
        let mut options = vec![format!("pages_per_range = {}", self.pick(&[1, 1, 1, 2, 3, 4, 8, 16, 128]))];
        if self.rng.bool() {
            let rate = self.pick(&["0.2", "0.1", "0.03", "0.01", "1e-3", "1e-4", "1e-6", "1e-9"]);
            options.push(format!("false_positive_rate = {rate}"));
        }
        if self.rng.bool() {
            options.push(format!("autosummarize = {}", self.pick(&["on", "off", "background"])));
        }
        if self.rng.bool() {
            options.push(format!("delta_limit = {}", self.pick(&[64, 128, 4096])));
        }
        let predicate = if partial { "WHERE id % 5 <> 0" } else { "" };
        let (table, elements, options) = (self.name.clone(), elements.join(", "), options.join(", "));
        self.run(
            session,
            &format!("CREATE INDEX {index} ON {table} USING skip ({elements}) WITH ({options}) {predicate}"),
        );
    }

    /// A new value for a column, or one that it has had before.
    fn value(&mut self, column: usize) -> Value {
        let Column { kind, pool, .. } = &mut self.columns[column];
        if pool.len() >= 40 || (!pool.is_empty() && self.rng.bool()) {
            return self.rng.choice(pool.iter()).expect("not empty").clone();
        }
        let value = kind.value(&mut self.rng);
        pool.push(value.clone());
        value
    }

    fn names(&self) -> String {
        self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn insert(&mut self, session: &mut Session) {
        let count = self.pick(&[1, 3, 40, 120]);
        let mut rows = Vec::new();
        for _ in 0..count {
            let values: Vec<_> = (0..self.columns.len())
                .map(|column| {
                    let value = self.value(column);
                    self.columns[column].kind.constant(&value)
                })
                .collect();
            rows.push(format!("({})", values.join(", ")));
        }
        let sql = format!("INSERT INTO {} ({}) VALUES {}", self.name, self.names(), rows.join(", "));
        self.run(session, &sql);
    }

    fn copy(&mut self, session: &mut Session) {
        let count = self.pick(&[30, 200, 500]);
        let mut text = String::new();
        for _ in 0..count {
            let values: Vec<_> = (0..self.columns.len()).map(|column| copied(&self.value(column))).collect();
            text += &(values.join("\t") + "\n");
        }
        let sql = format!("COPY {} ({}) FROM STDIN", self.name, self.names());
        session.copy(&sql, &mut text.as_bytes());
        self.log.push(format!("{sql};\n{text}\\."));
    }

    fn update(&mut self, session: &mut Session) {
        let column = self.rng.usize(..self.columns.len());
        let value = self.value(column);
        let value = self.columns[column].kind.constant(&value);
        let set = match self.rng.u32(..4) {
            0 => "filler = repeat('y', 300)".into(),
            1 => "filler = NULL".into(),
            _ => format!("{} = {value}", self.columns[column].name),
        };
        let rows = self.some_rows();
        let sql = format!("UPDATE {} SET {set} WHERE {rows}", self.name);
        self.run(session, &sql);
    }

    fn delete(&mut self, session: &mut Session) {
        let rows = self.some_rows();
        let sql = format!("DELETE FROM {} WHERE {rows}", self.name);
        self.run(session, &sql);
    }

    fn some_rows(&mut self) -> String {
        match self.rng.u32(..4) {
            0 => format!("id < {}", self.rng.u32(..200)),
            _ => {
                let divisor = self.rng.u32(2..30);
                format!("id % {divisor} = {}", self.rng.u32(..divisor))
            }
        }
    }

    /// One change of rows.
    fn change(&mut self, session: &mut Session) {
        match self.rng.u32(..10) {
            0..=2 => self.insert(session),
            3..=4 => self.copy(session),
            5..=7 => self.update(session),
            _ => self.delete(session),
        }
    }

    /// Opens a transaction and leaves it open, with changes of which a savepoint takes some back.
    fn begin(&mut self, session: &mut Session) {
        self.run(session, "BEGIN");
        self.open = true;
        self.change(session);
        if self.rng.bool() {
            self.run(session, "SAVEPOINT s");
            self.change(session);
            self.change(session);
            let end = self.pick(&["ROLLBACK TO s", "RELEASE s"]);
            self.run(session, end);
            self.change(session);
        }
    }

    /// Does one thing to the table, whatever it is.
    pub fn step(&mut self, session: &mut Session) {
        if self.open {
            let end = self.pick(&["COMMIT", "ROLLBACK"]);
            self.run(session, end);
            self.open = false;
            return;
        }
        let name = self.name.clone();
        match self.rng.u32(..40) {
            0..=3 => self.begin(session),
            4..=7 => self.run(session, &format!("VACUUM {name}")),
            8 => self.run(session, &format!("VACUUM (FREEZE, ANALYZE) {name}")),
            9 => self.run(session, &format!("VACUUM (INDEX_CLEANUP off) {name}")),
            10 => self.run(session, &format!("VACUUM FULL {name}")),
            11 => self.run(session, &format!("ANALYZE {name}")),
            12 => self.run(session, &format!("REINDEX TABLE {name}")),
            13 if self.rng.bool() => self.run(session, &format!("TRUNCATE {name}")),
            14 => self.add_column(session),
            15..=18 => self.on_indexes(session, "SELECT skip_summarize('INDEX')"),
            19 => self.on_indexes(session, "REINDEX INDEX INDEX"),
            20 => self.recreate_indexes(session),
            _ => self.change(session),
        }
    }

    fn add_column(&mut self, session: &mut Session) {
        if self.columns.len() >= 7 {
            return;
        }
        let number = self.columns.len();
        let mut column = Column::random(format!("c{number}"), &mut self.rng);
        // The default is kept in a catalog, which has no TOAST table for it.
        let short = |value: &Value| value.as_ref().is_none_or(|text| text.len() < 1000);
        let value = Some(column.kind.value(&mut self.rng)).filter(short).flatten();
        let default = column.kind.constant(&value);
        let sql = format!(
            "ALTER TABLE {} ADD COLUMN {} {} DEFAULT {default}",
            self.name, column.name, column.kind.name
        );
        column.pool.push(value);
        self.columns.push(column);
        self.run(session, &sql);
        if self.rng.bool() {
            self.create_index(session, &[number]);
        }
    }

    fn recreate_indexes(&mut self, session: &mut Session) {
        self.on_indexes(session, "DROP INDEX INDEX");
        for column in &mut self.columns {
            column.index = None;
        }
        self.create_indexes(session);
    }

    /// The skip indexes of the table.
    fn indexes(&self, session: &mut Session) -> Vec<String> {
        session.column(&format!(
            "SELECT indexrelid::regclass FROM pg_index JOIN pg_class c ON c.oid = indexrelid
             WHERE indrelid = '{}'::regclass ORDER BY 1",
            self.name
        ))
    }

    /// Runs a statement with the name of each index for INDEX.
    pub fn on_indexes(&mut self, session: &mut Session, sql: &str) {
        let (start, end) = sql.rsplit_once("INDEX").expect("a place for the name");
        for index in self.indexes(session) {
            self.run(session, &format!("{start}{index}{end}"));
        }
    }

    /// Fails if the verifier finds a fault in an index.
    pub fn verify(&mut self, session: &mut Session) {
        for index in self.indexes(session) {
            sound(session, &index);
        }
    }
}

impl Column {
    fn random(name: String, rng: &mut Rng) -> Self {
        let kind = rng.choice(TYPES.iter()).expect("there are types");
        Self { name, kind, pool: Vec::new(), index: None }
    }
}
