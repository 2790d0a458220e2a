//! The pairs of maps in a build by several processes, between the table and the pages.
//!
//! Each process divides the pairs of the ranges that it collects by key, into the finest [key parts](KeyPart), and
//! writes those of each part into a file of its own ([`PairFiles`]). When all ranges are collected, a part of the map
//! is made of its files from all processes ([`make_part`]), by one process, while others make other parts.
//!
//! **Temporary files** take 8 bytes for each pair. A process needs some 16 kB of memory for each file that it writes:
//! 1 MB for a column, or half of that where `maintenance_work_mem` is small.

use super::super::contents::{ColumnContents, RangeContents};
use super::super::place_map::{SpillFile, each_pair};
use crate::pages::map::coding;
use crate::pages::meta::{MapForm, Meta};
use crate::pg::error::IndexResult;
use crate::pg::memory;
use crate::pg::shared_files::{NewFile, SharedFiles};
use skip_map::key_part::{KeyPart, MOST_DEPTH};
use skip_map::{Coding, Page, RunWriter, Sorter, Written};

/// Numbers that wait before they are written: 8 kB, a buffer of the server's files, and less with little memory.
const MOST_WAITING: usize = 1024;
const LEAST_WAITING: usize = 16;
/// Numbers that are read at once: a buffer of the server's files.
const READ_AT_ONCE: usize = 1024;

/// How the maps of a column are made in all processes.
#[derive(Clone, Copy)]
pub struct PairColumn {
    pub column: u16,
    pub form: MapForm,
    pub coding: Coding,
}

impl PairColumn {
    /// Of each column with maps how its map of the ranges below `end` is made.
    ///
    /// # Errors
    /// The meta page has an invalid number of fingerprint bits.
    pub fn all(meta: &Meta, end: u32) -> IndexResult<Vec<Self>> {
        let forms = meta.columns.iter().enumerate().filter_map(|(c, column)| Some((c as u16, column.map()?)));
        forms.map(|(column, form)| Ok(Self { column, form, coding: coding(form, end)? })).collect()
    }

    /// The depth of the key parts into which the pairs are divided.
    fn depth(&self) -> u8 {
        MOST_DEPTH.min(self.coding.fingerprint_bits())
    }

    fn file_name(&self, part: u8, process: u32) -> String {
        format!("{}.{part}.{process}", self.column)
    }
}

/// The pairs of one column that one process collects.
struct ColumnFiles<'a> {
    column: PairColumn,
    parts: Vec<WaitingNumbers<'a>>,
    /// Number of pairs, an upper bound of the number of distinct ones.
    pairs: u64,
}

/// The numbers of a part that are not in the file, which is created when there are too many of them.
#[derive(Default)]
struct WaitingNumbers<'a> {
    numbers: Vec<u64>,
    file: Option<NewFile<'a>>,
}

/// The pairs that one process collects.
pub struct PairFiles<'a> {
    files: SharedFiles<'a>,
    process: u32,
    columns: Vec<ColumnFiles<'a>>,
    most_waiting: usize,
}

impl<'a> PairFiles<'a> {
    /// For the process with this number, of `processes` that build together.
    pub fn new(files: SharedFiles<'a>, columns: &[PairColumn], process: u32, processes: u32) -> Self {
        let parts = 1usize << MOST_DEPTH;
        let shares = parts * columns.len().max(1) * processes.max(1) as usize;
        let most_waiting = memory::maintenance_work_mem() / 4 / shares / size_of::<u64>();
        let of_column = |&column: &PairColumn| ColumnFiles {
            parts: (0..1 << column.depth()).map(|_| WaitingNumbers::default()).collect(),
            column,
            pairs: 0,
        };
        Self {
            files,
            process,
            columns: columns.iter().map(of_column).collect(),
            most_waiting: most_waiting.clamp(LEAST_WAITING, MOST_WAITING),
        }
    }

    /// Takes the pairs of a range. Returns the contents of all columns; of those with maps only the state is left.
    pub fn take<'c>(&mut self, range: u32, columns: &'c [ColumnContents]) -> Vec<RangeContents<'c>> {
        let mut left: Vec<_> = columns.iter().map(ColumnContents::contents).collect();
        let Self { files, process, columns, most_waiting } = self;
        for column in columns {
            let Some(contents) = left.get_mut(usize::from(column.column.column)) else { continue };
            column.push(range, *contents, *most_waiting, (*files, *process));
            *contents = RangeContents { state: contents.state, part_ends: &[], hashes: &[] };
        }
        left
    }

    /// Ends all files. Returns the number of pairs of each column.
    pub fn finish(self) -> Vec<u64> {
        let Self { files, process, columns, .. } = self;
        let finish = |mut column: ColumnFiles<'a>| {
            for part in 0..column.parts.len() {
                column.write_out(part, (files, process));
            }
            column.parts.into_iter().filter_map(|part| part.file).for_each(NewFile::finish);
            column.pairs
        };
        columns.into_iter().map(finish).collect()
    }
}

impl<'a> ColumnFiles<'a> {
    fn push(
        &mut self,
        range: u32,
        contents: RangeContents<'_>,
        most_waiting: usize,
        of: (SharedFiles<'a>, u32),
    ) {
        let PairColumn { form, coding, .. } = self.column;
        let lower_bits = coding.fingerprint_bits() - self.column.depth();
        each_pair(form.parts, range, contents, |key, part_of_table| {
            let part = (coding.fingerprint(key) >> lower_bits) as usize;
            self.pairs += 1;
            let waiting = &mut self.parts[part].numbers;
            waiting.push(coding.number(key, part_of_table));
            if waiting.len() >= most_waiting {
                self.write_out(part, of);
            }
        });
    }

    /// Writes the numbers of a part that are waiting.
    #[cold]
    fn write_out(&mut self, part: usize, (files, process): (SharedFiles<'a>, u32)) {
        let WaitingNumbers { numbers, file } = &mut self.parts[part];
        if numbers.is_empty() {
            return;
        }
        let create = || files.create(&self.column.file_name(part as u8, process));
        file.get_or_insert_with(create).append(numbers);
        numbers.clear();
    }
}

/// Makes the pages of a part of a column's map from the files of all processes, and gives them to the `sink` in order.
/// Sorting takes about `memory` bytes.
///
/// # Errors
/// An error of the sink.
pub fn make_part(
    files: SharedFiles<'_>,
    column: &PairColumn,
    part: KeyPart,
    processes: u32,
    memory: usize,
    sink: &mut impl FnMut(&Page) -> IndexResult<()>,
) -> IndexResult<Written> {
    let mut run = RunWriter::new();
    let mut numbers = vec![0; READ_AT_ONCE];
    for finest in KeyPart::all(column.depth()).filter(|finest| part.keys().contains(finest.keys())) {
        let open = |process| files.open(&column.file_name(finest.number(), process));
        let finished: Vec<_> = (0..processes).filter_map(open).collect();
        let pairs = finished.iter().map(|file| file.count()).sum();
        let mut sorter = Sorter::of_part(column.coding, finest, memory, pairs, SpillFile::default());
        for mut file in finished {
            loop {
                let count = file.read(&mut numbers);
                for &number in &numbers[..count] {
                    let Ok(()) = sorter.push_number(number);
                }
                if count < numbers.len() {
                    break;
                }
            }
        }
        sorter.finish(|numbers| run.push_all(numbers, sink))?;
    }
    run.finish(sink)
}
