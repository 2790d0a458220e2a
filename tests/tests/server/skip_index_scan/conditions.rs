//! Random conditions over the columns of `tables`, of every form that an index may serve, and of some that none can.
use fastrand::Rng;

/// A column that is indexed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Column {
    K,
    N,
    S,
    T,
    U,
}

impl Column {
    const ALL: [Self; 5] = [Self::K, Self::N, Self::S, Self::T, Self::U];

    pub fn name(self) -> &'static str {
        match self {
            Self::K => "k",
            Self::N => "n",
            Self::S => "s",
            Self::T => "t",
            Self::U => "u",
        }
    }

    /// The type of constants for it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::K => "int",
            Self::N => "bigint",
            Self::S => "smallint",
            Self::T => "text",
            Self::U => "uuid",
        }
    }

    /// A value, mostly one that some row has; an expression that the planner folds.
    pub fn value(self, rng: &mut Rng) -> String {
        match self {
            Self::K => rng.u32(..220).to_string(),
            Self::N => rng.u32(..320).to_string(),
            Self::S => format!("{}::smallint", rng.u32(..22)),
            Self::T => format!("'{}{}'", if rng.bool() { "w" } else { "W" }, rng.u32(..130)),
            Self::U => format!("md5('{}')::uuid", rng.u32(..270)),
        }
    }
}

/// A condition, and what the planner must make of it.
#[derive(Clone, Debug)]
pub struct Condition {
    pub sql: String,
    /// Indexes serve it: a table of which this is the whole condition must be read by a Skip Index Scan.
    pub sure: bool,
}

impl Condition {
    fn sure(sql: String) -> Self {
        Self { sql, sure: true }
    }

    fn unsure(sql: String) -> Self {
        Self { sql, sure: false }
    }
}

/// Makes conditions on the table of an alias.
pub struct Conditions<'a> {
    pub rng: &'a mut Rng,
    pub alias: &'a str,
    /// Constants become parameters, which are noted here.
    pub parameters: Option<Vec<Column>>,
}

impl<'a> Conditions<'a> {
    pub fn new(rng: &'a mut Rng, alias: &'a str) -> Self {
        Self { rng, alias, parameters: None }
    }

    /// A tree of conditions.
    pub fn tree(&mut self, depth: u32) -> Condition {
        match self.rng.u32(..10) {
            0..=2 if depth > 0 => self.all(depth),
            3..=4 if depth > 0 => self.either(depth),
            5 if depth > 0 => {
                let inner = self.tree(depth - 1);
                Condition::unsure(format!("NOT ({})", inner.sql))
            }
            6 => self.useless(),
            _ => self.leaf(),
        }
    }

    fn several(&mut self, depth: u32) -> Vec<Condition> {
        (0..self.rng.usize(2..4)).map(|_| self.tree(depth - 1)).collect()
    }

    fn all(&mut self, depth: u32) -> Condition {
        let parts = self.several(depth);
        Condition { sql: join(&parts, " AND "), sure: parts.iter().any(|part| part.sure) }
    }

    fn either(&mut self, depth: u32) -> Condition {
        let parts = self.several(depth);
        Condition { sql: join(&parts, " OR "), sure: parts.iter().all(|part| part.sure) }
    }

    /// A constant, or a parameter that stands for one.
    fn constant(&mut self, column: Column) -> String {
        match &mut self.parameters {
            Some(parameters) => {
                parameters.push(column);
                format!("${}", parameters.len())
            }
            None => column.value(self.rng),
        }
    }

    fn constants(&mut self, column: Column, count: usize) -> String {
        (0..count).map(|_| self.constant(column)).collect::<Vec<_>>().join(", ")
    }

    /// One condition that an index serves, if it is `sure`.
    fn leaf(&mut self) -> Condition {
        let alias = self.alias;
        let column = *self.rng.choice(&Column::ALL).expect("columns");
        if column == Column::S {
            // Only the partial index has it; another has `b`.
            return Condition::sure(format!("{alias}.b AND {alias}.s = {}", self.constant(column)));
        }
        let name = format!("{alias}.{}", column.name());
        match self.rng.u32(..24) {
            0..=4 => Condition::sure(format!("{name} = {}", self.constant(column))),
            5 => Condition::sure(format!("{} = {name}", self.constant(column))),
            6..=8 => {
                let count = self.rng.usize(1..9);
                Condition::sure(format!("{name} IN ({})", self.constants(column, count)))
            }
            9 => {
                let count = self.rng.usize(1..40);
                let values = self.constants(column, count);
                Condition::sure(format!("{name} = ANY (ARRAY[{values}, NULL]::{}[])", column.kind()))
            }
            10 if column != Column::K => Condition::sure(format!("{name} IS NULL")),
            11 if column != Column::K => Condition::sure(format!("{name} IS NOT NULL")),
            12 => Condition::sure(format!("{name} IS NOT DISTINCT FROM {}", self.constant(column))),
            13 => Condition::sure(format!("NOT {name} <> {}", self.constant(column))),
            14..=15 => self.row_comparison(),
            16..=17 => self.boolean(),
            18 => self.expression(),
            19 => self.another_type(),
            20 => self.subquery(column),
            21 => Condition::sure(format!("{name} = (SELECT {})", self.constant(column))),
            22 => self.matched_array(column),
            _ => Condition::sure(format!(
                "({name} = {} OR {name} = {})",
                self.constant(column),
                self.constant(column)
            )),
        }
    }

    fn row_comparison(&mut self) -> Condition {
        let alias = self.alias;
        let pairs: Vec<_> = (0..self.rng.usize(1..4))
            .map(|_| format!("({}, {})", self.constant(Column::K), self.constant(Column::T)))
            .collect();
        Condition::sure(match &pairs[..] {
            [pair] => format!("({alias}.k, {alias}.t) = {pair}"),
            _ => format!("({alias}.k, {alias}.t) IN ({})", pairs.join(", ")),
        })
    }

    fn boolean(&mut self) -> Condition {
        let name = format!("{}.b", self.alias);
        let forms = [
            "b",
            "NOT b",
            "b IS TRUE",
            "b IS NOT TRUE",
            "b IS FALSE",
            "b IS NOT FALSE",
            "b IS UNKNOWN",
            "b IS NOT UNKNOWN",
            "b = true",
            "b = false",
            "b <> true",
            "b IN (true)",
            "b IS NULL",
        ];
        let form = *self.rng.choice(&forms).expect("forms");
        Condition::sure(form.replace('b', &name))
    }

    fn expression(&mut self) -> Condition {
        let alias = self.alias;
        Condition::sure(match self.rng.u32(..4) {
            0 => format!("{alias}.k % 10 = {}", self.rng.u32(..12)),
            1 => format!("({alias}.k % 10, lower({alias}.t)) = (3, 'w{}')", self.rng.u32(..130)),
            2 => format!("lower({alias}.t) IS NULL"),
            _ => format!("lower({alias}.t) IN ('w{}', 'w5', 'W6')", self.rng.u32(..130)),
        })
    }

    fn another_type(&mut self) -> Condition {
        let (alias, key) = (self.alias, self.rng.u32(..220));
        match self.rng.u32(..7) {
            0 => Condition::sure(format!("{alias}.k = {key}::bigint")),
            1 => Condition::sure(format!("{alias}.n = {key}::smallint")),
            2 => Condition::sure(format!("{alias}.n = ANY ('{{{key}, 7, NULL}}'::int[])")),
            3 => Condition::sure(format!("{alias}.t = 'w{}'::varchar", key % 120)),
            4 => Condition::sure(format!("{alias}.k = 5000000000")),
            5 => Condition::unsure(format!("{alias}.k = {key}.0")),
            _ => Condition::unsure(format!("{alias}.t = 'w{}'::name", key % 120)),
        }
    }

    /// A key, or many, that is known only when the query runs; the subquery itself can be served.
    fn subquery(&mut self, column: Column) -> Condition {
        let (name, key) = (column.name(), self.rng.u32(..220));
        let left = format!("{}.{name}", self.alias);
        Condition::sure(match self.rng.u32(..3) {
            0 => format!("{left} = (SELECT q.{name} FROM whole q WHERE q.k = {key} ORDER BY q.id LIMIT 1)"),
            1 => format!("{left} = ANY (ARRAY(SELECT q.{name} FROM hashed q WHERE q.k = {key}))"),
            _ => format!("{left} = (SELECT q.{name} FROM listed q WHERE q.k = 99999)"), // no row: NULL
        })
    }

    fn matched_array(&mut self, column: Column) -> Condition {
        let name = format!("{}.{}", self.alias, column.name());
        let (one, two) = (self.constant(column), self.constant(column));
        let array = format!("ARRAY[{one}, {two}]::{}[]", column.kind());
        match self.rng.u32(..4) {
            0 => Condition::unsure(format!("{name} = ALL ({array})")),
            1 => Condition::unsure(format!("{name} <> ALL ({array})")),
            2 => Condition::unsure(format!("{name} = ANY (NULLIF({array}, {array}))")),
            _ => Condition::sure(format!("{name} = ANY ({array})")),
        }
    }

    /// What no index serves, or none must.
    fn useless(&mut self) -> Condition {
        let alias = self.alias;
        let (key, id) = (self.rng.u32(..220), self.rng.u32(..2000));
        let word = format!("'w{}'", self.rng.u32(..120));
        Condition::unsure(match self.rng.u32(..16) {
            0 => format!("{alias}.k > {key}"),
            1 => format!("{alias}.n BETWEEN {key} AND {key} + 30"),
            2 => format!("{alias}.id < {id}"),
            3 => format!("{alias}.id = {id}"),
            4 => format!("{alias}.s = {key} % 20"),
            5 => format!("{alias}.t = {word} COLLATE \"POSIX\""),
            6 => format!("{alias}.t LIKE 'W1%'"),
            7 => format!("{alias}.k = (random() * 0)::int + {key}"),
            8 => format!("{alias}.k = {alias}.s"),
            9 => format!("{alias}.n IS DISTINCT FROM {key}"),
            10 => format!("({alias}.k, {alias}.n) < ({key}, 50)"),
            11 => format!("CASE WHEN {alias}.b THEN {alias}.k = {key} ELSE {alias}.t = {word} END"),
            12 => format!("coalesce({alias}.n, 0) = {key}"),
            13 => format!("{alias}.k = NULL"),
            14 => format!("({alias}.k = {key}) IS NOT FALSE"),
            _ => format!("{alias}.t IN ({word}, NULL) IS NOT TRUE"),
        })
    }
}

fn join(parts: &[Condition], word: &str) -> String {
    parts.iter().map(|part| format!("({})", part.sql)).collect::<Vec<_>>().join(word)
}
