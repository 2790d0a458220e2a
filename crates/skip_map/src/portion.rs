//! Runs become one a portion at a time: each time the next pages are written, without any state but those pages.
//!
//! The last number of the last page tells where the merge goes on. Its sources may then start anywhere before the first
//! number that comes behind it, for example where [`start_in`] says. When the last data page is written, the fence
//! pages can be made from the first numbers of the others.

use crate::coding::Coding;
use crate::malformed::Malformed;
use crate::merge::{MergeSource, merge};
use crate::page::Page;
use crate::source::NumberSource;
use crate::writer::RunWriter;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Number of data pages.
    pub pages: u32,
    /// Number of numbers on them.
    pub numbers: u64,
    /// Whether these were the last ones.
    pub is_last: bool,
}

/// Why a merge ends early.
enum Stop<E> {
    Enough,
    Failed(E),
}

impl<E: From<Malformed>> From<Malformed> for Stop<E> {
    fn from(malformed: Malformed) -> Self {
        Self::Failed(malformed.into())
    }
}

/// A source whose errors end the merge.
struct Failing<S>(S);

impl<S: NumberSource> NumberSource for Failing<S> {
    type Error = Stop<S::Error>;

    fn read(&mut self, into: &mut Vec<u64>) -> Result<(), Self::Error> {
        self.0.read(into).map_err(Stop::Failed)
    }
}

/// The number of a run with the coding `source` from which on it must be read to go on behind the number `after` of the
/// merged run.
pub fn start_in(source: Coding, to: Coding, after: u64) -> u64 {
    to.split(after).0 * u64::from(source.ranges())
}

/// Gives up to `most_pages` data pages of the merged run to the `sink`, those behind the number `after`. Sources and
/// coding are those of [`merge()`]; each source starts at or before [`start_in`].
///
/// # Errors
/// As [`merge()`].
pub fn merge_portion<S: NumberSource>(
    sources: Vec<MergeSource<S>>,
    (to, first_range): (Coding, u32),
    after: Option<u64>,
    most_pages: u32,
    mut sink: impl FnMut(&Page) -> Result<(), S::Error>,
) -> Result<Portion, S::Error> {
    let mut pages = 0;
    let mut writer = RunWriter::new();
    let mut write = |page: &Page| {
        // Pages beyond are written by the next portion.
        if pages < most_pages {
            sink(page).map_err(Stop::Failed)?;
            pages += 1;
        }
        if pages < most_pages { Ok(()) } else { Err(Stop::Enough) }
    };
    let failing = |MergeSource { coding, first_range, numbers }: MergeSource<S>| MergeSource {
        coding,
        first_range,
        numbers: Failing(numbers),
    };
    let merged = merge(sources.into_iter().map(failing).collect(), to, first_range, |numbers| {
        let done = numbers.partition_point(|&number| after.is_some_and(|after| number <= after));
        writer.push_all(&numbers[done..], &mut write)
    });
    match merged.and_then(|()| writer.finish_data(&mut write)) {
        Err(Stop::Failed(error)) => Err(error),
        // The last page may have been the last of all: then the next portion is empty, and says so.
        Err(Stop::Enough) => Ok(Portion { pages, numbers: writer.numbers_on_pages(), is_last: false }),
        Ok(()) => Ok(Portion { pages, numbers: writer.numbers_on_pages(), is_last: true }),
    }
}
