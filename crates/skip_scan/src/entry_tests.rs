//! Which of many tests an entry of the delta satisfies.
//!
//! A condition may have thousands of tests, and a delta hundreds of thousands of entries. So the tests are sorted once,
//! by column and key; an entry then takes one search, however many there are.

/// What a test asks of a column's value.
#[derive(Clone, Copy, Debug)]
pub enum EntryTest<'a> {
    /// Its hash is one of these.
    Keys(&'a [u64]),
    /// It is an order key in one of these spans, ends included, which ascend and do not overlap.
    Within(&'a [(u64, u64)]),
    /// It is NULL.
    IsNull,
    /// It is not NULL.
    IsNotNull,
}

/// The tests of one column, by number.
#[derive(Default)]
struct Column {
    /// Pairs of a hash and a test that asks for it, sorted.
    keys: Vec<(u64, u32)>,
    /// Spans, and a test that asks for them.
    within: Vec<(Vec<(u64, u64)>, u32)>,
    nulls: Vec<u32>,
    values: Vec<u32>,
}

/// Tests, numbered from 0, ready to be looked up.
#[derive(Default)]
pub struct EntryTests {
    columns: Vec<Column>,
}

impl EntryTests {
    /// Takes tests of columns, in the order of their numbers.
    pub fn new<'a>(tests: impl IntoIterator<Item = (u16, EntryTest<'a>)>) -> Self {
        let mut columns: Vec<Column> = Vec::new();
        for (number, (column, test)) in (0u32..).zip(tests) {
            let column = usize::from(column);
            if columns.len() <= column {
                columns.resize_with(column + 1, Column::default);
            }
            let of = &mut columns[column];
            match test {
                EntryTest::Keys(hashes) => of.keys.extend(hashes.iter().map(|&hash| (hash, number))),
                EntryTest::Within(spans) => of.within.push((spans.to_vec(), number)),
                EntryTest::IsNull => of.nulls.push(number),
                EntryTest::IsNotNull => of.values.push(number),
            }
        }
        for column in &mut columns {
            column.keys.sort_unstable();
            column.keys.dedup();
        }
        Self { columns }
    }

    /// The numbers of the tests that a value of a column satisfies, each once; None is NULL.
    pub fn satisfied(&self, column: u16, hash: Option<u64>) -> impl Iterator<Item = usize> {
        let column = self.columns.get(usize::from(column));
        let keys = column.zip(hash).map_or(&[][..], |(column, hash)| {
            let from = &column.keys[column.keys.partition_point(|&(key, _)| key < hash)..];
            &from[..from.iter().take_while(|&&(key, _)| key == hash).count()]
        });
        let others =
            column.map_or(&[][..], |column| if hash.is_some() { &column.values } else { &column.nulls });
        let within = column.zip(hash).map(|(column, hash)| {
            let has = move |spans: &[(u64, u64)]| {
                spans.get(spans.partition_point(|span| span.1 < hash)).is_some_and(|span| span.0 <= hash)
            };
            column.within.iter().filter(move |(spans, _)| has(spans)).map(|&(_, number)| number)
        });
        let keys = keys.iter().map(|&(_, number)| number);
        keys.chain(within.into_iter().flatten()).chain(others.iter().copied()).map(|number| number as usize)
    }
}
