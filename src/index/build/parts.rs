//! The second phase of a build by several processes: the maps, from the files of pairs.
//!
//! The units of this phase are the key parts of the maps, column by column. The process that claims a part sorts its
//! pairs and makes its pages ([`make_part`]). The leader writes the pages to the index in the order of parts. Pages of
//! later parts wait in its memory; when that is full, their workers wait.
//!
//! A message is a page, or the end of a part:
//!
//! ```text
//! unit | 0 | words of the page
//! unit | 1 | number of the part's pairs
//! ```

use super::division::{self, Division, MESSAGE_BYTES};
use super::pairs::{PairColumn, make_part};
use crate::pages::directory::Directory;
use crate::pages::map::{NewMap, PartsWriter, depth_of};
use crate::pg::error::IndexResult;
use crate::pg::parallel_build::{Received, SecondWords, Team, Worker};
use crate::pg::{fail, memory};
use pgrx::PgSqlErrorCode;
use skip_map::key_part::KeyPart;
use skip_map::{PAGE_BYTES, Page, most_pages};
use std::collections::BTreeMap;

/// Words of a page.
const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();
const PAGE: u64 = 0;
const END: u64 = 1;
/// Bits of the depth of a column's key parts in a word.
const DEPTH_BITS: usize = 4;

/// A part of a column's map.
#[derive(Clone, Copy)]
struct Unit {
    /// Place of the column among those with maps.
    place: usize,
    part: KeyPart,
}

/// The units of columns whose maps are divided into key parts of these depths, in order.
fn units(depths: impl Iterator<Item = u8>) -> Vec<Unit> {
    let of_column = |(place, depth)| KeyPart::all(depth).map(move |part| Unit { place, part });
    depths.enumerate().flat_map(of_column).collect()
}

/// The depths as the leader passes them to workers. An index has at most 32 columns.
fn to_words(depths: &[u8]) -> SecondWords {
    let depths = depths.iter().zip((0..).step_by(DEPTH_BITS));
    let all = depths.fold(0u128, |all, (&depth, bit)| all | u128::from(depth) << bit);
    [all as u64, (all >> 64) as u64]
}

fn of_words([low, high]: SecondWords) -> impl Iterator<Item = u8> {
    let all = u128::from(high) << 64 | u128::from(low);
    (0..).step_by(DEPTH_BITS).map(move |bit| (all >> bit & ((1 << DEPTH_BITS) - 1)) as u8)
}

/// Bytes of memory for sorting in each of so many processes.
fn memory_for_sorting(processes: u32) -> usize {
    memory::maintenance_work_mem() / 2 / processes.max(1) as usize
}

fn page_message(unit: u64, page: &Page) -> Vec<u64> {
    let words = page.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word));
    [unit, PAGE].into_iter().chain(words).collect()
}

/// A worker's second phase.
///
/// # Errors
/// Damage to the index.
pub fn work(worker: &Worker<'_>, columns: &[PairColumn], processes: u32) -> IndexResult<()> {
    let units = units(of_words(worker.wait_for_second()).take(columns.len()));
    while let Some(number) = worker.claim_unit() {
        let Some(unit) = units.get(number as usize) else { break };
        let mut is_heard = true;
        let mut send = |page: &Page| {
            memory::check_for_interrupts();
            is_heard = is_heard && worker.send(&page_message(number, page));
            Ok(())
        };
        let (column, memory) = (&columns[unit.place], memory_for_sorting(processes));
        let written = make_part(worker.files(), column, unit.part, processes, memory, &mut send)?;
        if !is_heard || !worker.send(&[number, END, written.numbers]) {
            break;
        }
    }
    Ok(())
}

/// The leader's second phase: writes and publishes the maps of columns with so many pairs. Returns how many key parts
/// the workers have made, and how many there are.
///
/// # Errors
/// Damage to the index.
pub fn lead(
    team: &mut Team<'_>,
    directory: &mut Directory<'_>,
    maps: Vec<(PairColumn, u64)>,
    division: Division,
) -> IndexResult<(usize, usize)> {
    if maps.is_empty() {
        return Ok((0, 0));
    }
    let depth =
        |(column, pairs): &(PairColumn, u64)| depth_of(column.form, most_pages(column.coding, *pairs).into());
    let depths: Vec<u8> = maps.iter().map(depth).collect();
    let units = units(depths.iter().copied());
    team.begin_second(units.len() as u64, to_words(&depths));
    let columns: Vec<PairColumn> = maps.into_iter().map(|(column, _)| column).collect();
    let mut leader = PartsLeader {
        messages: vec![Vec::new(); team.workers()],
        team,
        units,
        columns: &columns,
        processes: division.processes,
        next: 0,
        from_workers: 0,
        waiting: BTreeMap::new(),
        waiting_words: 0,
        most_words: (division::quarter_of_memory() / MESSAGE_BYTES) as usize,
        page: Box::new([0; PAGE_BYTES]),
    };
    for (place, (column, depth)) in columns.iter().zip(depths).enumerate() {
        let new = NewMap {
            column: column.column,
            first_range: 0,
            width: division.end,
            form: column.form,
            is_addition: false,
            key_part: KeyPart::WHOLE,
            depth,
            from: 0,
            is_build: true,
        };
        let mut writer = PartsWriter::new(directory, new)?;
        leader.write_column(place, &mut writer)?;
    }
    Ok((leader.from_workers, leader.units.len()))
}

struct PartsLeader<'t, 'a> {
    team: &'t mut Team<'a>,
    units: Vec<Unit>,
    columns: &'t [PairColumn],
    processes: u32,
    /// The first unit that is not in the index.
    next: usize,
    /// Number of units that workers have made.
    from_workers: usize,
    /// Messages of units after `next`.
    waiting: BTreeMap<usize, Vec<Vec<u64>>>,
    waiting_words: usize,
    /// The most words that may wait, except for those of a unit that the leader makes.
    most_words: usize,
    /// For each worker, the message that was read but not taken; empty if there is none.
    messages: Vec<Vec<u64>>,
    page: Box<Page>,
}

/// What writes the units of a column, and the place of the column.
type Writer<'w, 'd, 'i> = (usize, &'w mut PartsWriter<'d, 'i>);

impl PartsLeader<'_, '_> {
    /// Writes all units of a column, which are the next ones.
    fn write_column(&mut self, place: usize, writer: &mut PartsWriter<'_, '_>) -> IndexResult<()> {
        let mut writer = (place, writer);
        self.write_waiting(&mut writer)?;
        while self.is_next_of(place) {
            memory::check_for_interrupts();
            if self.take_messages(&mut writer)? || self.make_one(&mut writer)? {
                continue;
            }
            if self.team.is_alone() {
                self.team.raise_error_of_worker();
                lost();
            }
            self.team.wait();
        }
        Ok(())
    }

    /// Whether the next unit is one of a column.
    fn is_next_of(&self, place: usize) -> bool {
        self.units.get(self.next).is_some_and(|unit| unit.place == place)
    }

    /// Takes what workers have sent. Returns whether there was anything.
    fn take_messages(&mut self, writer: &mut Writer<'_, '_, '_>) -> IndexResult<bool> {
        let mut any = false;
        for worker in 0..self.messages.len() {
            loop {
                let mut message = std::mem::take(&mut self.messages[worker]);
                if message.is_empty() && self.team.receive(worker, &mut message) != Received::Message {
                    break;
                }
                let is_next = message.first() == Some(&(self.next as u64)) && self.is_next_of(writer.0);
                if !is_next && self.waiting_words >= self.most_words {
                    self.messages[worker] = message;
                    break;
                }
                self.from_workers += usize::from(message.get(1) == Some(&END));
                self.take(message, writer)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Writes a message of the next unit. Others are put aside.
    fn take(&mut self, message: Vec<u64>, writer: &mut Writer<'_, '_, '_>) -> IndexResult<()> {
        let Some(unit) = message.first().map(|&unit| unit as usize).filter(|&unit| unit >= self.next) else {
            lost()
        };
        if unit == self.next && self.is_next_of(writer.0) {
            self.write(&message, writer)?;
            return self.write_waiting(writer);
        }
        self.waiting_words += message.len();
        self.waiting.entry(unit).or_default().push(message);
        Ok(())
    }

    /// Writes what has waited for the units before it.
    fn write_waiting(&mut self, writer: &mut Writer<'_, '_, '_>) -> IndexResult<()> {
        while self.is_next_of(writer.0)
            && let Some(messages) = self.waiting.remove(&self.next)
        {
            for message in messages {
                self.waiting_words -= message.len();
                self.write(&message, writer)?;
            }
        }
        Ok(())
    }

    /// Writes a message of the next unit.
    fn write(&mut self, message: &[u64], (_, writer): &mut Writer<'_, '_, '_>) -> IndexResult<()> {
        match *message {
            [_, PAGE, ref words @ ..] if words.len() == PAGE_WORDS => {
                let bytes = self.page.as_chunks_mut().0;
                bytes.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_ne_bytes());
                writer.put(&self.page)
            }
            [_, END, numbers] => {
                self.next += 1;
                writer.end_part(numbers)
            }
            _ => lost(),
        }
    }

    /// Makes a unit, unless all are claimed or too much waits. Returns whether it did. What workers send meanwhile is
    /// taken, so that they need not wait.
    fn make_one(&mut self, writer: &mut Writer<'_, '_, '_>) -> IndexResult<bool> {
        if self.waiting_words >= self.most_words {
            return Ok(false);
        }
        let Some(number) = self.team.claim_unit() else { return Ok(false) };
        let Some(&Unit { place, part }) = self.units.get(number as usize) else { return Ok(false) };
        let (files, column) = (self.team.files(), self.columns[place]);
        let (processes, memory) = (self.processes, memory_for_sorting(self.processes));
        let mut put = |page: &Page| {
            if number as usize == self.next && self.is_next_of(writer.0) {
                writer.1.put(page)?;
            } else {
                self.take(page_message(number, page), writer)?;
            }
            self.take_messages(writer).map(|_| ())
        };
        let written = make_part(files, &column, part, processes, memory, &mut put)?;
        self.take(vec![number, END, written.numbers], writer)?;
        Ok(true)
    }
}

/// Raises an error, as the same function of the first phase does.
fn lost() -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        "parallel workers did not make all parts of a skip index".into(),
        None,
        Some("Set max_parallel_maintenance_workers to 0, and build the index again.".into()),
    )
}
